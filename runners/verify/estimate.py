"""A number and how far a kernel may be from it.

An :class:`Estimate` stands for one expression of the program. Its value is an expression in float64; its error is a sum of what came
with the operands (``slack``) and of roundings relative to the value itself (``relative``), so that a product of inputs needs
no second number. Errors add from stage to stage and never multiply. The rules are those of midpoint-radius arithmetic and of
running error analysis (Wilkinson; Higham, Accuracy and Stability of Numerical Algorithms, section 3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ir import dtype as dt
from ir.tir.expr import (
    GT,
    LE,
    LT,
    And,
    Call,
    Cast,
    FloatImm,
    PrimExpr,
    Select,
    Var,
)

WIDE = "float64"
NEVER, WHEN_EXACT, ALWAYS = 0, 1, 2
"""When an expression is a whole number: never known to be, for the case of small integers, for all inputs."""

Binding = tuple[Var, PrimExpr]
"""A name and what it stands for."""

ZERO, INFINITY = FloatImm(WIDE, 0.0), FloatImm(WIDE, math.inf)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The value of an expression and what its error is made of."""

    value: PrimExpr
    """In float64 for floats, in its own dtype otherwise."""
    slack: PrimExpr | None = None
    """Absolute error that came with the operands; None is zero. Of a condition: whether it may turn out either way."""
    relative: float = 0.0
    """Roundings since, relative to the value."""
    floor: float = 0.0
    """What underflow may have cost since."""
    whole: int = ALWAYS
    limit: float = math.inf
    """Whole numbers up to this magnitude were not rounded."""
    largest: float = math.inf
    """Beyond this magnitude the kernel may have overflowed."""

    @property
    def certain(self) -> bool:
        """Whether the kernel has this very value."""
        return self.slack is None and self.relative == 0.0


def magnitude(value: PrimExpr) -> PrimExpr:
    """The absolute value."""
    return Call(WIDE, "tir.fabs", (value,))


def widened(value: PrimExpr) -> PrimExpr:
    """A value of any dtype in float64."""
    return value if value.dtype == WIDE else Cast(WIDE, value)


def added(first: PrimExpr | None, second: PrimExpr | None) -> PrimExpr | None:
    """The sum of two errors, of which None is zero."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def or_zero(error: PrimExpr | None) -> PrimExpr:
    """An error as an expression."""
    return ZERO if error is None else error


def scaled(error: PrimExpr | None, by: PrimExpr) -> PrimExpr | None:
    """``by * error``; nothing where that is NaN: no error stays none beside infinity, and NaN times any number is NaN.

    What may be anything may be NaN, and stays anything beside zero.
    """
    if error is None:
        return None
    product = by * error
    return Select(LT(error, INFINITY), Select(GT(product, ZERO), product, ZERO), INFINITY)


def rounded(
    size: PrimExpr,
    relative: PrimExpr,
    floor: float,
    largest: float,
    whole: int,
    limit: float,
    exact: PrimExpr,
    reach: PrimExpr | None = None,
) -> PrimExpr:
    """What roundings of numbers of this size, which reach this magnitude on the way, may add up to.

    Nothing for NaN and infinities, which every order of computing keeps, and for whole numbers that fit; anything
    beyond the largest number of the dtype.
    """
    error = size * (relative * FloatImm(WIDE, 1.01)) + FloatImm(WIDE, floor)
    found: PrimExpr = Select(
        LE(size if reach is None else reach, FloatImm(WIDE, largest)),
        error,
        Select(LT(size, INFINITY), INFINITY, ZERO),
    )
    return unless_whole(found, size, whole, limit, exact)


def unless_whole(error: PrimExpr, size: PrimExpr, whole: int, limit: float, exact: PrimExpr) -> PrimExpr:
    """The error of a number of this size, which has none where it is a whole number that fits."""
    if whole == NEVER or limit == 0:
        return error
    fits: PrimExpr = LE(size, FloatImm(WIDE, limit))
    return Select(fits if whole == ALWAYS else And(exact, fits), ZERO, error)


def finite_size(value: PrimExpr) -> PrimExpr:
    """The magnitude of a number; nothing for NaN and infinities, beside which finite numbers may overflow all the same."""
    size = magnitude(value)
    return Select(LT(size, INFINITY), size, ZERO)


def counts(size: PrimExpr, mass: PrimExpr, unit: float, n_terms: float) -> PrimExpr:
    """Whether a term of this size is one more rounding of a sum, of which the terms so far have this mass.

    An addition errs by no more than the smaller of its operands: all those terms together that are so small do not err by more than
    one of the others may. (Of a fused product that is the exact product, whose own rounding the term has anyway.) Where nobody knows
    how many terms there are all count that are not zero.
    """
    if math.isinf(n_terms):
        is_more = GT(size, ZERO)
    else:
        is_more = GT(size * FloatImm(WIDE, n_terms), mass * FloatImm(WIDE, unit))
    return Select(is_more, FloatImm(WIDE, 1.0), ZERO)


def roundings_of(count: PrimExpr, unit: float) -> PrimExpr:
    """How far a sum of which so many terms count may be off, as a part of its mass (see :func:`runners.verify.rounding.growth`)."""
    share = (count + FloatImm(WIDE, 1.0)) * FloatImm(WIDE, unit)
    one = FloatImm(WIDE, 1.0)
    return Select(LT(share, FloatImm(WIDE, 0.5)), share * (one + share + share), one + one)


def error_of_sum(value: PrimExpr, reach: PrimExpr, error: PrimExpr, largest: float) -> PrimExpr:
    """The error of a sum of this value whose finite terms, and roundings, are of this size together.

    Where those may overflow it is anything: infinities of one sign among the others become NaN then. Else NaN and infinities stay.
    """
    stays = Select(LT(magnitude(value), INFINITY), error, ZERO)
    return Select(GT(reach, FloatImm(WIDE, largest)), INFINITY, stays)


def as_distance(error: PrimExpr | None) -> PrimExpr | None:
    """An error as a number: of a condition that may turn out either way it is 1."""
    if error is None or not dt.is_bool(error.dtype):
        return error
    return Select(error, FloatImm(WIDE, 1.0), ZERO)
