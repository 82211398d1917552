"""What is known of the value of a float expression: an interval that holds it, and whether it may be NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtype as dt
from .. import expr as E
from ..expr import PrimExpr
from ..intrinsic.rounding import rounded_argument

_INFINITY = float("inf")
_ROUNDING = 1.0 + 2.0**-3
"""Every operation widens its interval by this factor: more than the narrowest float rounds by."""
_LARGEST = {16: 6.0e4, 32: 3.0e38, 64: 1.0e308}
"""By bits: what stays finite when it is rounded."""
_LEAST_DIVISOR = 2.0**-14
"""What is no zero in any float of 16 bits or more."""

IntegerBounds = Callable[[PrimExpr], tuple[int, int]]
"""The least and the greatest value of an integer expression, as far as they are known."""


@dataclass(frozen=True)
class FloatRange:
    """Bounds of a float, which may be infinite; NaN lies in no interval."""

    low: float
    high: float
    may_be_nan: bool

    @property
    def is_finite(self) -> bool:
        """Whether the value is a number: neither infinite nor NaN."""
        return not self.may_be_nan and math.isfinite(self.low) and math.isfinite(self.high)


ANY_FLOAT = FloatRange(-_INFINITY, _INFINITY, True)
"""Nothing is known."""


def float_range(expr: PrimExpr, integer_bounds: IntegerBounds) -> FloatRange:
    """What is known of an expression, lane by lane; arithmetic is followed where all its operands are finite.

    Args:
        expr: a float expression.
        integer_bounds: asked for the integers that it converts.
    """
    return _Ranges(integer_bounds).of(expr)


class _Ranges:
    def __init__(self, integer_bounds: IntegerBounds) -> None:
        self.integer_bounds = integer_bounds
        self._known: dict[int, FloatRange] = {}
        """By identity of parts of one expression, which share others."""

    def of(self, expr: PrimExpr) -> FloatRange:
        found = self._known.get(id(expr))
        if found is None:
            rule = _RULES.get(expr.__class__)
            found = self._known[id(expr)] = ANY_FLOAT if rule is None else rule(self, expr)
        return found

    def constant(self, expr: E.FloatImm) -> FloatRange:
        value = _in_dtype(float(expr.value), expr.dtype)
        return ANY_FLOAT if math.isnan(value) else FloatRange(value, value, False)

    def broadcast(self, expr: E.Broadcast) -> FloatRange:
        return self.of(expr.value)

    def cast(self, expr: E.Cast) -> FloatRange:
        if dt.is_float(expr.value.dtype):
            inner = self.of(expr.value)
        else:
            least, greatest = self.integer_bounds(expr.value)
            inner = FloatRange(float(least), float(greatest), False)
        # rounding keeps the order; half floats may be carried as they were
        low, high = _in_dtype(inner.low, expr.dtype), _in_dtype(inner.high, expr.dtype)
        if math.isnan(low) or math.isnan(high):  # of a format without infinities
            return ANY_FLOAT
        return FloatRange(min(low, inner.low), max(high, inner.high), inner.may_be_nan)

    def arithmetic(self, expr: Any) -> FloatRange:
        a, b = self.of(expr.a), self.of(expr.b)
        if not (a.is_finite and b.is_finite):
            return ANY_FLOAT
        if isinstance(expr, E.Add):
            return _rounded(a.low + b.low, a.high + b.high, expr.dtype)
        if isinstance(expr, E.Sub):
            return _rounded(a.low - b.high, a.high - b.low, expr.dtype)
        if isinstance(expr, E.Div):
            if b.low < _LEAST_DIVISOR and b.high > -_LEAST_DIVISOR:
                return ANY_FLOAT
            corners = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
        else:
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return _rounded(min(corners), max(corners), expr.dtype)

    def extreme(self, expr: Any) -> FloatRange:
        a, b = self.of(expr.a), self.of(expr.b)
        pick = max if isinstance(expr, E.Max) else min
        return FloatRange(pick(a.low, b.low), pick(a.high, b.high), a.may_be_nan or b.may_be_nan)

    def select(self, expr: E.Select) -> FloatRange:
        return _union(self.of(expr.true_value), self.of(expr.false_value))

    def call(self, expr: E.Call) -> FloatRange:
        if getattr(expr.op, "name", "") == "tir.if_then_else":
            return _union(self.of(expr.args[1]), self.of(expr.args[2]))
        rounded = rounded_argument(expr)
        if rounded is None:
            return ANY_FLOAT
        inner = self.of(rounded)
        return FloatRange(_step(inner.low, math.floor), _step(inner.high, math.ceil), inner.may_be_nan)


def _in_dtype(value: float, dtype: str) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(value).astype(dt.to_numpy(dtype)))


def _step(value: float, rounding: Callable[[float], int]) -> float:
    return float(rounding(value)) if math.isfinite(value) else value


def _rounded(low: float, high: float, dtype: str) -> FloatRange:
    """An interval around results that are rounded to a dtype."""
    low = low * _ROUNDING if low < 0 else low / _ROUNDING
    high = high * _ROUNDING if high > 0 else high / _ROUNDING
    largest = _LARGEST.get(dt.bits(dtype), 0.0)
    if not (-largest <= low and high <= largest):
        return ANY_FLOAT
    return FloatRange(low, high, False)


def _union(a: FloatRange, b: FloatRange) -> FloatRange:
    return FloatRange(min(a.low, b.low), max(a.high, b.high), a.may_be_nan or b.may_be_nan)


_RULES: dict[type, Callable[[_Ranges, Any], FloatRange]] = {
    E.FloatImm: _Ranges.constant,
    E.Broadcast: _Ranges.broadcast,
    E.Cast: _Ranges.cast,
    E.Add: _Ranges.arithmetic,
    E.Sub: _Ranges.arithmetic,
    E.Mul: _Ranges.arithmetic,
    E.Div: _Ranges.arithmetic,
    E.Min: _Ranges.extreme,
    E.Max: _Ranges.extreme,
    E.Select: _Ranges.select,
    E.Call: _Ranges.call,
}
