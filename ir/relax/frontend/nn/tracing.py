"""What goes on while methods are traced: the block builder that they emit into, and the export that traces them."""

from __future__ import annotations

import threading
from typing import Any, Self

from ir.relax.block_builder import BlockBuilder

from .error import NNError

_local = threading.local()


def current_builder() -> BlockBuilder:
    """The block builder that a method is being traced into; raises NNError outside of an export."""
    builder = BlockBuilder.current()
    if builder is None:
        raise NNError(
            "functions on tensors work while a module is exported: call them from a method given to export_tvm"
        )
    return builder


class Trace:
    """An export at work, as functions on tensors see it: they find the innermost one by :meth:`current`."""

    io_effect: Any
    """The :class:`IOEffect` that printing threads through the program; None without debugging."""

    @classmethod
    def current(cls) -> Self:
        """The innermost export at work; raises NNError when there is none."""
        stack = getattr(_local, "traces", None)
        if not stack:
            raise NNError(
                "no export is going on; this works only inside a method traced by Module.export_tvm"
            )
        found: Self = stack[-1]
        return found

    def __enter__(self) -> Self:
        if not hasattr(_local, "traces"):
            _local.traces = []
        _local.traces.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _local.traces.pop()
