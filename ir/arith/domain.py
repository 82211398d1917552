"""The numbers that a rewrite rule holds for, and the dtypes of index arithmetic."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from .. import dtype as dt

INDEX_TYPES = frozenset(("int32", "int64"))
"""Scalars that are numbers of ℤ in index positions."""


class Domain(Enum):
    """A kind of numbers; the letters are those of the rule tables (:mod:`ir.arith.pattern`)."""

    INDEX = "Z"
    """Numbers of ℤ: int32 and int64 in index positions, which must not overflow."""
    WRAPPING = "W"
    """Integers of any width and sign that wrap: data."""
    FLOAT = "F"
    """IEEE floats with NaN, infinities and signed zeros."""
    BOOL = "B"
    """Truth values, the right operand of a connective being evaluated only where the left one does not decide."""


@lru_cache(maxsize=None)
def is_number(dtype: str) -> bool:
    """Whether a dtype is one of index arithmetic, or a vector of such: the only ones that ever stand for numbers of ℤ."""
    code, bits, _ = dt.parse(dtype)
    return code == "int" and bits in (32, 64)
