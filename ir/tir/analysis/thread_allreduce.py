"""The arguments of ``tvm_thread_allreduce`` by name: what threads give, and the elements to which the call writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ..expr import BufferLoad, Call, IntImm, PrimExpr


@dataclass(frozen=True)
class ThreadAllreduce:
    """``(number of values, values..., condition, results..., thread axes...)``."""

    values: Sequence[PrimExpr]
    """What a thread gives."""
    condition: PrimExpr
    """Where it does not hold, a thread gives the identity, and the values are not evaluated."""
    results: Sequence[BufferLoad]
    """The elements that are written, one for each value; they stand there as loads."""
    threads: Sequence[PrimExpr]
    """The axes of the threads that share the reduction."""

    @staticmethod
    def of(node: Any) -> ThreadAllreduce | None:
        """The arguments of a call; None where it calls something else.

        Raises:
            IRValueError: the call has another form.
        """
        if not isinstance(node, Call) or getattr(node.op, "name", "") != "tir.tvm_thread_allreduce":
            return None
        count = node.args[0]
        if not isinstance(count, IntImm):
            raise IRValueError(
                f"the first argument of tvm_thread_allreduce is the number of values, got {count}"
            )
        size = count.value
        values, rest = node.args[1 : size + 1], node.args[size + 1 :]
        results = [item for item in rest[1 : size + 1] if isinstance(item, BufferLoad)]
        if size < 1 or len(results) < size:
            raise IRValueError(
                f"tvm_thread_allreduce of {size} values takes them, a condition, as many elements of buffers for the results, and thread"
                f" axes; got {node}"
            )
        return ThreadAllreduce(values, rest[0], results, rest[size + 1 :])
