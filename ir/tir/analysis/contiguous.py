"""Accesses that are one piece of memory, and those that may read elsewhere instead of where they must not read."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from ... import dtype as dt
from ..expr import Add, Broadcast, BufferLoad, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Ramp, Sub
from ..operators import const

MOST_PICKED = 4
"""How far apart lanes may be of which a load takes whole vectors: as many of them, which it combines two by two, each lane picked out."""


def first_of_piece(index: PrimExpr | None) -> tuple[bool, PrimExpr | None]:
    """Whether an access at one index (None: to a buffer without dimensions) is one piece of memory, and the index of its first element."""
    if index is None or dt.lanes(index.dtype) == 1:
        return True, index
    if isinstance(index, Ramp) and stride_of(index) == 1:
        return True, index.base
    return False, None


def stride_of(index: PrimExpr | None) -> int | None:
    """The distance of neighbours in an access by a Ramp; None where they lie anywhere, or lanes of data may have wrapped."""
    if (
        not isinstance(index, Ramp)
        or not isinstance(index.stride, IntImm)
        or not dt.is_index(index.base.dtype)
    ):
        return None
    return index.stride.value


def is_picked(index: PrimExpr | None) -> bool:
    """Whether the lanes of an access are so close to each other that loading all between them takes less than loading one by one."""
    stride = stride_of(index)
    return (
        isinstance(index, Ramp)
        and stride is not None
        and 2 <= abs(stride) <= min(MOST_PICKED, index.lanes // 2)
    )


@dataclass(frozen=True)
class Lanes:
    """The lanes of an index as one scalar, and what is added to it in each of them."""

    base: PrimExpr | None
    """None for zero."""
    offsets: tuple[int, ...]

    def plus(self, other: Lanes, sign: int) -> Lanes:
        """The sum, or with ``sign`` -1 the difference, lane by lane."""
        base = self.base
        if other.base is not None:
            zero = const(0, other.base.dtype)
            base = (base if base is not None else zero) + other.base * sign
        return Lanes(base, tuple(a + sign * b for a, b in zip(self.offsets, other.offsets, strict=True)))

    def times(self, factor: int) -> Lanes:
        """All lanes multiplied by one number."""
        base = None if self.base is None else self.base * factor
        return Lanes(base, tuple(factor * offset for offset in self.offsets))


_ON_CONSTANTS: dict[type[PrimExpr], Callable[[int, int], int]] = {
    Mul: operator.mul,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
}


def constant_lanes(index: PrimExpr) -> Lanes | None:
    """The lanes of a vector of indices that differ by constants, as those of groups of channels do; None where they may not.

    >>> from ir.tir import Broadcast, Ramp, Var
    >>> groups = Ramp(0, 1, 4) // Broadcast(2, 4) * Broadcast(2, 4)
    >>> constant_lanes(Broadcast(Var("i"), 4) + groups).offsets
    (0, 0, 2, 2)
    """
    if not dt.is_index(dt.element_of(index.dtype)):
        return None  # lanes of data may have wrapped
    if isinstance(index, Broadcast):
        return _from(index.value, 0, index.lanes)
    if isinstance(index, Ramp):
        return (
            _from(index.base, index.stride.value, index.lanes) if isinstance(index.stride, IntImm) else None
        )
    if not isinstance(index, Add | Sub | Mul | FloorDiv | FloorMod):
        return None
    a, b = constant_lanes(index.a), constant_lanes(index.b)
    if a is None or b is None:
        return None
    if isinstance(index, Add | Sub):
        return a.plus(b, 1 if isinstance(index, Add) else -1)
    if a.base is None and b.base is None:
        if not isinstance(index, Mul) and 0 in b.offsets:
            return None
        compute = _ON_CONSTANTS[type(index)]
        return Lanes(None, tuple(compute(x, y) for x, y in zip(a.offsets, b.offsets, strict=True)))
    for one, other in ((a, b), (b, a)):
        if isinstance(index, Mul) and other.base is None and len(set(other.offsets)) == 1:
            return one.times(other.offsets[0])
    return None


def _from(base: PrimExpr, stride: int, lanes: int) -> Lanes:
    offsets = tuple(stride * lane for lane in range(lanes))
    if isinstance(base, IntImm):
        return Lanes(None, tuple(base.value + offset for offset in offsets))
    return Lanes(base, offsets)


def may_read_the_start(load: BufferLoad) -> bool:
    """Whether a load from a flat buffer can read the start of the buffer instead, where its own place may not be read.

    It is one piece of memory, and the buffer is that long for sure. IfConversion makes masked loads of such alone, and code generation
    then needs no branch for them.
    """
    if len(load.indices) > 1 or not load.buffer.shape:
        return False
    extent = load.buffer.shape[0]
    one_piece, _ = first_of_piece(load.indices[0] if load.indices else None)
    return one_piece and isinstance(extent, IntImm) and extent.value >= dt.lanes(load.dtype)
