"""What one rounding costs in each dtype, and what many of them add up to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from ir import dtype as dt

from ..ndarray import numpy_dtype

INTRINSIC_ULPS = 8.0
"""Units in the last place that a function such as ``exp`` may be off; the library of vector mathematics keeps to 4."""


@dataclass(frozen=True, slots=True)
class Format:
    """The numbers of one float dtype, all as float64."""

    unit: float
    """Unit roundoff: half the distance from 1 to the next number."""
    tiny: float
    """The least positive number: what is lost where a result underflows."""
    largest: float
    least: float
    """As far below zero as the largest number is above it, but in a type of positive numbers."""
    whole: float
    """All integers up to this magnitude are numbers of the dtype."""
    has_infinity: bool = True
    has_zero: bool = True


@cache
def format_of(dtype: str) -> Format:
    """The format of a float dtype; that of float64 allows for the rounding of the reference, which is computed in it.

    >>> format_of("bfloat16").unit == 2.0 ** -8
    True
    """
    if dtype == "float64":
        # Constants and intrinsics keep no more than this in every mode.
        largest = float(np.finfo(np.float64).max)
        return Format(2.0**-50, 2.0**-1074, largest, -largest, 2.0**53)
    import ml_dtypes

    info = ml_dtypes.finfo(numpy_dtype(dtype))
    digits = int(info.nmant) + 1
    infinity, zero = np.array([np.inf, 0.0]).astype(numpy_dtype(dtype)).astype(np.float64)
    least, largest = float(info.min), float(info.max)
    return Format(
        2.0**-digits,
        float(info.smallest_subnormal),
        largest,
        least,
        2.0**digits,
        has_infinity=bool(np.isinf(infinity)),
        has_zero=bool(zero == 0),
    )


def holds(dtype: str, integer: str) -> bool:
    """Whether a float dtype holds all numbers of an integer dtype."""
    low, high = dt.integer_range(integer)
    return max(-low, high) <= format_of(dtype).whole


def most_telling(unit: float) -> int:
    """How many like terms a sum may have so that each is eight times as much as all of its roundings may be.

    >>> most_telling(2.0 ** -24)
    1448
    """
    return max(4, math.isqrt(int(0.125 / unit)))


def growth(n_terms: float, unit: float) -> float:
    """How many unit roundoffs of the sum of magnitudes a sum of so many terms may be off, in whatever order and grouping it is taken.

    Each of the additions rounds a number that is at most the sum of magnitudes and the error so far (Higham, Accuracy and Stability of
    Numerical Algorithms, section 4.2), and errs by the smaller of its operands at most. Where the dtype holds too few digits for so
    many terms, a sum may be off by about all of them together, and twice that in no order that anybody has found. Nothing is taken to
    be random: terms of one number, terms that vanish beside a large sum, and sorted ones are rounded in one direction again and again.

    >>> growth(1, 2.0 ** -24)
    1.0
    >>> growth(4096, 2.0 ** -8) == 2.0 ** 9
    True
    """
    if n_terms == 1:
        return 1.0
    share = n_terms * unit
    return n_terms / (1.0 - share) if share < 0.5 else 2.0 / unit
