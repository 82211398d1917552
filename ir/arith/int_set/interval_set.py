"""Intervals of integers with symbolic ends: the sets, how to make them, their unions and intersections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import dtype as dt
from ...error import IRTypeError
from ...external import external
from ...node import Node
from ...tir import expr as E
from ...tir import operators
from ...tir.expr import IntImm, PrimExpr, Range
from .. import build
from ..analyzer import Analyzer
from ..deep_equal import expr_deep_equal

if TYPE_CHECKING:
    from ..analyzer import Analyzer


class _Infinity(PrimExpr, type_key="arith.Infinity"):
    """An end of an interval that is open: never part of a program."""

    dtype: str
    positive: bool


POS_INF = _Infinity("int64", True)
NEG_INF = _Infinity("int64", False)


def pos_inf() -> PrimExpr:
    """The end of an interval that has no upper end."""
    return POS_INF


def neg_inf() -> PrimExpr:
    """The end of an interval that has no lower end."""
    return NEG_INF


def is_infinite(expr: Any) -> bool:
    return expr.__class__ is _Infinity


class IntSet(Node, type_key="arith.IntSet"):
    """A set of integers. Functions :func:`interval`, :func:`single_point`, :func:`vector` make one."""

    @property
    def min_value(self) -> PrimExpr:
        """The smallest element (:func:`neg_inf` if there is none)."""
        raise IRTypeError(f"{type(self).__name__} has no ends")

    @property
    def max_value(self) -> PrimExpr:
        """The largest element."""
        raise IRTypeError(f"{type(self).__name__} has no ends")

    def is_nothing(self) -> bool:
        """Whether the set is certainly empty."""
        return False

    def is_everything(self) -> bool:
        """Whether the set is unbounded on both sides."""
        return False

    def is_single_point(self) -> bool:
        """Whether there is exactly one element, by structure."""
        return False

    @staticmethod
    def vector(vec: PrimExpr) -> IntSet:
        """The elements of a vector expression."""
        return vector(vec)

    @staticmethod
    def single_point(point: Any) -> IntSet:
        """One element."""
        return single_point(point)


class IntervalSet(IntSet, type_key="arith.IntervalSet"):
    """The integers from ``min_value`` to ``max_value``, both included.

    Sets that are computed (:func:`from_range`, :func:`single_point`, ``eval_set``) have ends that are index numbers.
    """

    min_value: PrimExpr
    max_value: PrimExpr

    def __init__(self, min_value: Any, max_value: Any) -> None:
        low, high = E.as_expr(min_value), E.as_expr(max_value)
        _set_min(self, low)
        _set_max(self, high)

    def has_lower_bound(self) -> bool:
        """Whether the lower end is finite."""
        return not is_infinite(self.min_value)

    def has_upper_bound(self) -> bool:
        """Whether the upper end is finite."""
        return not is_infinite(self.max_value)

    def is_nothing(self) -> bool:
        low, high = self.min_value, self.max_value
        if low is POS_INF or high is NEG_INF:
            return True
        return low.__class__ is IntImm and high.__class__ is IntImm and low.value > high.value  # type: ignore[attr-defined]

    def is_everything(self) -> bool:
        return self.min_value is NEG_INF and self.max_value is POS_INF

    def is_single_point(self) -> bool:
        low, high = self.min_value, self.max_value
        return not is_infinite(low) and (low is high or expr_deep_equal(low, high))


_set_min = IntervalSet.min_value.__set__  # type: ignore[attr-defined]
_set_max = IntervalSet.max_value.__set__  # type: ignore[attr-defined]


EVERYTHING = IntervalSet(NEG_INF, POS_INF)
NOTHING = IntervalSet(POS_INF, NEG_INF)


def everything() -> IntervalSet:
    """All integers."""
    return EVERYTHING


def nothing() -> IntervalSet:
    """The empty set."""
    return NOTHING


def single_point(point: Any) -> IntervalSet:
    """The set of one element."""
    value = operators.convert(point)
    if dt.is_integral(value.dtype):
        value = operators.index_number(value)
    return IntervalSet(value, value)


def interval(min_value: Any, max_value: Any) -> IntervalSet:
    """The integers from ``min_value`` to ``max_value``, both included."""
    low, high = operators.convert(min_value), operators.convert(max_value)
    if not is_infinite(low) and not is_infinite(high):
        low, high = operators.match_dtypes(operators.index_number(low), operators.index_number(high))
    return IntervalSet(low, high)


def vector(vec: PrimExpr) -> IntervalSet:
    """The hull of the elements of a vector expression."""
    found: IntervalSet = external("eval_set")(vec, {})
    return found


def from_range(domain: Range) -> IntervalSet:
    """The set of a Range."""
    low, extent = operators.index_number(domain.min), operators.index_number(domain.extent)
    if extent.__class__ is IntImm and extent.value == 1:  # type: ignore[attr-defined]
        return IntervalSet(low, low)
    return IntervalSet(low, build.sub(operators.add(low, extent), build.const(1, low.dtype)))


def as_int_set(value: Any) -> IntervalSet:
    """An IntSet from an IntSet, a Range, an IterVar, an expression or an int."""
    if isinstance(value, IntervalSet):
        return value
    if isinstance(value, Range):
        return from_range(value)
    if isinstance(value, E.IterVar):
        return from_range(value.dom)
    if isinstance(value, PrimExpr | int):
        return single_point(value)
    raise IRTypeError(f"expected a set of integers (IntSet, Range, expression), got {type(value).__name__}")


def range_of(found: IntSet, fallback: Range | None = None, analyzer: Analyzer | None = None) -> Range:
    """The Range of an interval; ``fallback`` where an end is infinite."""
    low, high = found.min_value, found.max_value
    if is_infinite(low) or is_infinite(high):
        if fallback is None:
            raise IRTypeError("the set has no finite range")
        return fallback
    low, high = operators.index_number(low), operators.index_number(high)
    extent = build.add(build.sub(high, low), build.const(1, low.dtype))
    if analyzer is None:
        analyzer = Analyzer()
    return Range.from_min_extent(analyzer.simplify(low), analyzer.simplify(extent))


# ---- ends of intervals


def flipped(a: Any) -> Any:
    return NEG_INF if a is POS_INF else POS_INF


def smaller(a: Any, b: Any) -> Any:
    if NEG_INF in (a, b):
        return NEG_INF
    return (
        b
        if a is POS_INF
        else a
        if b is POS_INF
        else a
        if a is b or expr_deep_equal(a, b)
        else operators.min(a, b)
    )


def larger(a: Any, b: Any) -> Any:
    if a is POS_INF or b is POS_INF:
        return POS_INF
    return (
        b
        if a is NEG_INF
        else a
        if b is NEG_INF
        else a
        if a is b or expr_deep_equal(a, b)
        else operators.max(a, b)
    )


def hull(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    if a is NOTHING or a.is_nothing():
        return b
    if b is NOTHING or b.is_nothing():
        return a
    return IntervalSet(smaller(a.min_value, b.min_value), larger(a.max_value, b.max_value))


# ---- unions and intersections


def union(sets: Sequence[IntSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval that holds all sets."""
    result: IntervalSet = NOTHING
    for item in sets:
        result = hull(result, as_int_set(item))
    return simplified(result, analyzer)


def union_lower_bound(sets: Sequence[IntSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval inside the union: neighbours that touch are joined; of others the first is kept."""
    if analyzer is None:
        analyzer = Analyzer()
    result: IntervalSet = NOTHING
    for item in (as_int_set(value) for value in sets):
        if item.is_nothing():
            continue
        if result.is_nothing():
            result = item
            continue
        if is_infinite(item.min_value) or is_infinite(item.max_value):
            result = item
            continue
        one = build.const(1, item.min_value.dtype)
        touches = analyzer.can_prove(build.le(item.min_value, build.add(result.max_value, one)))
        touched = analyzer.can_prove(build.le(result.min_value, build.add(item.max_value, one)))
        if touches and touched:
            result = hull(result, item)
    return simplified(result, analyzer)


def intersect(sets: Sequence[IntSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The interval of what lies in all sets."""
    result: IntervalSet = EVERYTHING
    for item in (as_int_set(value) for value in sets):
        low = larger(result.min_value, item.min_value)
        high = smaller(result.max_value, item.max_value)
        result = IntervalSet(low, high)
    result = simplified(result, analyzer)
    return NOTHING if result.is_nothing() else result


def simplified(found: IntervalSet, analyzer: Analyzer | None) -> IntervalSet:
    if analyzer is None:
        analyzer = Analyzer()
    low, high = found.min_value, found.max_value
    return IntervalSet(
        low if is_infinite(low) else analyzer.simplify(low),
        high if is_infinite(high) else analyzer.simplify(high),
    )
