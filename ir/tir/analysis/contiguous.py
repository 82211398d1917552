"""Accesses that are one piece of memory, and those that may read elsewhere instead of where they must not read."""

from __future__ import annotations

from ... import dtype as dt
from ..expr import BufferLoad, IntImm, PrimExpr, Ramp

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
