"""A built program with its parameters, and how it is called."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ir import structural_hash
from ir.node import post_order_visit
from ir.tir.function import PrimFunc
from ir.tir.kernel_attributes import LAYOUT_REWRITE_MAPS, WEIGHT_PROGRAMS
from ir.tir.stmt import ForKind

from .error import RunnerError
from .ndarray import aligned_empty
from .verify import Array, Param, entry
from .worker import phase

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

    def load(self, timeout_sec: float) -> None:
        """Bring the code to the device that it will run on, where it runs on one; it may have to be compiled for it."""
        load = getattr(self.call, "load", None)
        if load is not None:
            phase("build", timeout_sec)
            load()

    def call_filled(self, byte: int, arguments: list[Array]) -> None:
        """A call that finds this byte in scratch memory that it has not written, where that can be told."""
        filled = getattr(self.call, "call_filled", None)
        if filled is None:
            self.call(*arguments)
        else:
            filled(byte, *arguments)

    def timed(self, arguments: list[Array], byte: int | None = None) -> float:
        """The seconds of one call, without the copies to a device and back where it runs on one.

        Args:
            arguments: of the call.
            byte: as for :meth:`call_filled`, where it is given.
        """
        on_device = getattr(self.call, "timed", None)
        if on_device is not None:
            return float(on_device(byte, *arguments))
        begin = time.perf_counter()
        if byte is None:
            self.call(*arguments)
        else:
            self.call_filled(byte, arguments)
        return time.perf_counter() - begin

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


def require_arguments(infos: Sequence[Any] | None, params: Sequence[Param]) -> None:
    """Refuse descriptions of arguments that are not those of a program.

    Args:
        infos: what somebody says of each argument, in objects with ``dtype`` and ``shape``; None where nobody said anything.
        params: what the program says.

    Raises:
        RunnerError: they differ.
    """
    if infos is None:
        return
    told = [_shown(item.dtype, item.shape) for item in infos]
    own = [_shown(item.dtype, item.shape) for item in params]
    if told != own:
        raise RunnerError(
            f"args_info says that the arguments are {', '.join(told)}; the program takes {', '.join(own)}: leave args_info out"
        )


def _shown(dtype: Any, shape: Sequence[Any]) -> str:
    return f"{dtype} {[int(extent) for extent in shape]}"


def pack_arguments(mod: Any, arguments: list[Array], room: Room | None = None) -> list[Array]:
    """Arguments in the layouts that the candidate takes: constants that it wants packed are packed here, unmeasured, and so is
    what it wants computed of them.

    ``room(position, shape, dtype)`` is the memory for one; new memory without it.
    """
    attrs = entry(mod).attrs
    maps, programs = (
        {int(k): v for k, v in dict(attrs.get(name) or {}).items()}
        for name in (LAYOUT_REWRITE_MAPS, WEIGHT_PROGRAMS)
    )
    packed = list(arguments)
    for position in sorted({*maps, *programs}):
        value = arguments[position]
        if position in programs:
            value = _computed(programs[position], value)
        if position in maps:
            shape = [int(extent) for extent in maps[position].map_shape(value.shape)]
            out = aligned_empty(shape, value.dtype) if room is None else room(position, shape, value.dtype)
            value = maps[position].map_ndarray(value, out)
        elif room is not None:
            out = room(position, value.shape, value.dtype)
            out[...] = value
            value = out
        packed[position] = value
    return packed


def _computed(program: PrimFunc, weight: Array) -> Array:
    """What a program makes of a weight."""
    made = program.buffer_map[program.params[1]]
    out: Array = aligned_empty([int(extent) for extent in made.shape], weight.dtype)
    key = structural_hash(program)
    if key not in _PROGRAMS_BUILT:
        while len(_PROGRAMS_BUILT) >= _MOST_BUILT:
            _PROGRAMS_BUILT.pop(next(iter(_PROGRAMS_BUILT)))
        from .native import build_native  # LLVM is heavy, and most kernels only want copies

        _PROGRAMS_BUILT[key] = build_native(program, "cpu")
    _PROGRAMS_BUILT[key](weight, out)
    return out


_MOST_BUILT = 32
_PROGRAMS_BUILT: dict[int, Callable[..., Any]] = {}
"""Candidates of a kernel share what they make of its weights: it is built once by each worker."""
