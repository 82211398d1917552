"""A built program with its parameters, and how it is called."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ir.node import post_order_visit
from ir.tir.stmt import ForKind

from .ndarray import aligned_empty
from .verify import Array, entry

Room = Callable[[int, list[int], Any], Array]


@dataclass(slots=True)
class Kernel:
    """A built program with its parameters."""

    mod: Any
    call: Callable[..., Any]

    def with_threads(self, count: int) -> Kernel:
        """The same code on another number of threads, where it can be told."""
        change = getattr(self.call, "with_threads", None)
        return self if change is None else Kernel(self.mod, change(count))

    def shipped(self) -> bytes | None:
        """The kernel for another process, which need not build it again; None where what was built cannot travel."""
        try:
            return pickle.dumps(self, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError):  # a closure, or a handle of this process
            return None

    def call_filled(self, byte: int, arguments: list[Array]) -> None:
        """A call that finds this byte in scratch memory that it has not written, where that can be told."""
        filled = getattr(self.call, "call_filled", None)
        if filled is None:
            self.call(*arguments)
        else:
            filled(byte, *arguments)

    @property
    def metrics(self) -> dict[str, float]:
        """What is known of the built code beside its time, where the build tells it; see :class:`runners.native.NativeKernel`."""
        return dict(getattr(self.call, "metrics", {}))

    @property
    def parallel(self) -> bool:
        """Whether it has loops that threads share."""
        found: list[Any] = []

        def visit(node: Any) -> None:
            if type(node).__name__ == "For" and node.kind == ForKind.PARALLEL:
                found.append(node)

        post_order_visit(entry(self.mod).body, visit)
        return bool(found)

    def bind(self, arguments: list[Array]) -> Callable[[], object]:
        """A call on fixed arguments, as cheap as the built code allows."""
        binder = getattr(self.call, "bind", None)
        if binder is not None:
            bound: Callable[[], object] = binder(*arguments)
            return bound
        call = self.call
        return lambda: call(*arguments)


def pack_arguments(mod: Any, arguments: list[Array], room: Room | None = None) -> list[Array]:
    """Arguments in the layouts that the candidate takes: constants that it wants packed are packed here, unmeasured.

    ``room(position, shape, dtype)`` is the memory for one; new memory without it.
    """
    maps = entry(mod).attrs.get("layout_rewrite_maps")
    if not maps:
        return arguments
    packed = list(arguments)
    for key, index_map in dict(maps).items():
        position = int(key)
        value = arguments[position]
        shape = [int(extent) for extent in index_map.map_shape(value.shape)]
        out = aligned_empty(shape, value.dtype) if room is None else room(position, shape, value.dtype)
        packed[position] = index_map.map_ndarray(value, out)
    return packed
