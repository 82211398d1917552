"""The interval that an expression reaches while its variables run over sets: interval arithmetic by node kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ... import dtype as dt
from ...tir import expr as E
from ...tir import operators
from ...tir.expr import IntImm, PrimExpr
from ...tir.faults import may_fault
from ...tir.intrinsic.declaration import is_transparent
from .. import build
from ..analyzer import Analyzer
from ..deep_equal import expr_deep_equal
from ..domain import is_number
from .interval_set import (
    EVERYTHING,
    NEG_INF,
    POS_INF,
    IntervalSet,
    as_int_set,
    flipped,
    hull,
    is_infinite,
    larger,
    single_point,
    smaller,
)

if TYPE_CHECKING:
    from ..analyzer import Analyzer


class _Evaluator:
    """Interval arithmetic; results are remembered by node."""

    def __init__(self, analyzer: Analyzer, domains: Mapping[Any, IntervalSet]) -> None:
        self._analyzer, self._domains = analyzer, domains
        self._memo: dict[int, tuple[Any, IntervalSet]] = {}
        """By identity of the expression, which is kept: that of one made on the way would be another's."""
        self._depth = 0

    def __call__(self, expr: Any) -> IntervalSet:
        cls = expr.__class__
        if cls is IntImm or is_infinite(expr):
            return IntervalSet(expr, expr)
        found = self._memo.get(id(expr))
        if found is None:
            method = _TABLE.get(cls)
            if method is not None and not is_number(expr.dtype) and cls not in _ANY_TYPE:
                method = None  # what wraps is anything that the bounds of data allow
            result = self._opaque(expr) if method is None else method(self, expr)
            found = self._memo[id(expr)] = expr, result
        return found[1]

    def _opaque(self, expr: Any) -> IntervalSet:
        """Unchanged where no variable of the domain occurs, else anything its constant bounds allow."""
        return self._within_bounds(expr) if self._uses_domain(expr) else single_point(expr)

    def _within_bounds(self, expr: Any) -> IntervalSet:
        low, high = self._analyzer._bounds(expr)
        limit = 1 << 31
        if low > -limit and high < limit - 1 and high - low >= limit - 1:
            return EVERYTHING  # nobody could write how many these are
        dtype = "int64" if dt.bits(expr.dtype) == 64 else "int32"
        return IntervalSet(
            build.const(low, dtype) if low > -limit else NEG_INF,
            build.const(high, dtype) if high < limit - 1 else POS_INF,
        )

    def _uses_domain(self, expr: Any) -> bool:
        if expr in self._domains:
            return True
        if expr.is_variable:
            return False
        found: list[bool] = []
        expr._visit_children(
            lambda child: found.append(self._uses_domain(child)) if not found or not found[-1] else None
        )
        return any(found)

    def _var(self, var: Any) -> IntervalSet:
        found = self._domains.get(var)
        if found is None:
            return single_point(var)
        if found.is_single_point() or self._depth > 8:
            return found
        # Ends may be expressions over other variables of the domain.
        low, high = found.min_value, found.max_value
        if not is_infinite(low) and self._uses_domain(low):
            self._depth += 1
            low = self(low).min_value
            self._depth -= 1
        if not is_infinite(high) and self._uses_domain(high):
            self._depth += 1
            high = self(high).max_value
            self._depth -= 1
        return IntervalSet(low, high)

    def _add(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        if a.min_value is a.max_value and b.min_value is b.max_value:
            return _unchanged(e, a, b, build.add)
        return IntervalSet(_sum(a.min_value, b.min_value), _sum(a.max_value, b.max_value))

    def _sub(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        if a.min_value is a.max_value and b.min_value is b.max_value:
            return _unchanged(e, a, b, build.sub)
        return IntervalSet(_difference(a.min_value, b.max_value), _difference(a.max_value, b.min_value))

    def _mul(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        if a.min_value is a.max_value and b.min_value is b.max_value:
            return _unchanged(e, a, b, build.mul)
        if a.is_single_point():
            a, b = b, a
        if b.is_single_point():
            return self._scaled(a, b.min_value)
        bounds = self._analyzer._bounds
        if all(not is_infinite(end) and bounds(end)[0] >= 0 for end in (a.min_value, b.min_value)):
            return IntervalSet(_product(a.min_value, b.min_value), _product(a.max_value, b.max_value))
        return self._opaque_interval(e)

    def _opaque_interval(self, e: Any) -> IntervalSet:
        return self._opaque(e)

    def _scaled(self, a: IntervalSet, factor: Any) -> IntervalSet:
        low, high = self._analyzer._bounds(factor)
        if low == high == 0:
            return IntervalSet(factor, factor)
        if low >= 0 or self._analyzer._prove_ge(factor, 0):
            return IntervalSet(_product(a.min_value, factor), _product(a.max_value, factor))
        if high <= 0:
            return IntervalSet(_product_negative(a.max_value, factor), _product_negative(a.min_value, factor))
        if is_infinite(a.min_value) or is_infinite(a.max_value):
            return EVERYTHING
        x, y = build.mul(a.min_value, factor), build.mul(a.max_value, factor)
        return IntervalSet(operators.min(x, y), operators.max(x, y))

    def _floordiv(self, e: Any) -> IntervalSet:
        return self._divided(e, build.floordiv)

    def _truncdiv(self, e: Any) -> IntervalSet:
        if not dt.is_integral(e.dtype):
            return self._opaque(e)
        return self._divided(e, build.truncdiv)

    def _divided(self, e: Any, divide: Callable[[Any, Any], Any]) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        if a.min_value is a.max_value and b.min_value is b.max_value:
            return _unchanged(e, a, b, divide)
        if not b.is_single_point():
            return self._opaque(e)
        divisor = b.min_value
        low, high = self._analyzer._bounds(divisor)
        if low > 0 or (low >= 0 and divisor.__class__ is not IntImm):
            ends = [
                item if is_infinite(item) else divide(item, divisor) for item in (a.min_value, a.max_value)
            ]
        elif high < 0:
            ends = [
                flipped(item) if is_infinite(item) else divide(item, divisor)
                for item in (a.max_value, a.min_value)
            ]
        else:
            return self._opaque(e)
        return IntervalSet(*ends)

    def _floormod(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        if a.min_value is a.max_value and b.min_value is b.max_value:
            return _unchanged(e, a, b, build.floormod)
        if not b.is_single_point():
            return self._opaque(e)
        divisor, analyzer = b.min_value, self._analyzer
        low, _ = analyzer._bounds(divisor)
        if low <= 0 and not (divisor.__class__ is not IntImm and low >= 0):
            return self._opaque(e)
        zero = build.const(0, e.dtype)
        if not is_infinite(a.min_value) and not is_infinite(a.max_value):
            # Within one period the remainder is monotonic.
            first = analyzer.simplify(build.floordiv(a.min_value, divisor))
            last = analyzer.simplify(build.floordiv(a.max_value, divisor))
            if expr_deep_equal(first, last) or analyzer.can_prove_equal(first, last):
                offset = build.mul(first, divisor)
                return IntervalSet(
                    analyzer.simplify(build.sub(a.min_value, offset)),
                    analyzer.simplify(build.sub(a.max_value, offset)),
                )
        # Multiples of a step that divides the divisor stay multiples of it.
        return IntervalSet(zero, build.sub(divisor, build.const(1, e.dtype)))

    def _truncmod(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        if a.min_value is a.max_value and b.min_value is b.max_value:
            return _unchanged(e, a, b, build.truncmod)
        divisor = b.min_value
        if b.is_single_point() and self._analyzer._bounds(divisor)[0] > 0:
            top = build.sub(divisor, build.const(1, e.dtype))
            nonnegative = not is_infinite(a.min_value) and self._analyzer._bounds(a.min_value)[0] >= 0
            return IntervalSet(
                build.const(0, e.dtype) if nonnegative else build.sub(build.const(0, e.dtype), top), top
            )
        return self._opaque(e)

    def _min(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        return IntervalSet(smaller(a.min_value, b.min_value), smaller(a.max_value, b.max_value))

    def _max(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        return IntervalSet(larger(a.min_value, b.min_value), larger(a.max_value, b.max_value))

    def _condition(self, e: Any) -> IntervalSet:
        if not self._uses_domain(e):
            return self._opaque(e)
        return IntervalSet(build.const(0, "int32"), build.const(1, "int32"))

    def _select(self, e: Any) -> IntervalSet:
        return hull(self(e.true_value), self(e.false_value))

    def _ramp(self, e: Any) -> IntervalSet:
        if not is_number(e.dtype):
            return self._within_bounds(e)
        base, stride = self(e.base), self._analyzer._bounds(e.stride)
        last = build.mul(e.stride, build.const(e.lanes - 1, e.stride.dtype))
        if stride[0] >= 0:
            return IntervalSet(base.min_value, _sum(base.max_value, last))
        if stride[1] <= 0:
            return IntervalSet(_sum(base.min_value, last), base.max_value)
        return EVERYTHING

    def _broadcast(self, e: Any) -> IntervalSet:
        return self(e.value)

    def _cast(self, e: Any) -> IntervalSet:
        if not dt.is_integral(e.value.dtype) or not dt.is_integral(e.dtype):
            return self._opaque(e)
        if not self._uses_domain(e):
            return self._opaque(e)
        inner = self(e.value)
        ends = [inner.min_value, inner.max_value]
        if not self._analyzer._is_index(e):  # it may wrap, unless all values are known to fit
            low, high = dt.integer_range(dt.element_of(e.dtype))
            if not all(item.__class__ is IntImm and low <= item.value <= high for item in ends):
                return self._opaque(e)
        dtype = "int64" if dt.bits(e.dtype) == 64 else "int32"
        return IntervalSet(*[item if is_infinite(item) else operators.cast(dtype, item) for item in ends])

    def _load(self, e: Any) -> IntervalSet:
        is_narrow = dt.is_integral(e.dtype) and dt.bits(e.dtype) < 32
        return self._opaque(e) if is_narrow or not self._uses_domain(e) else EVERYTHING

    def _choice(self, e: Any) -> IntervalSet:
        """Either value; where one may not be evaluated unless it is chosen, anything within their bounds."""
        if not self._uses_domain(e):
            return self._opaque(e)
        found = [self(e.args[1]), self(e.args[2])]
        ends = [end for item in found for end in (item.min_value, item.max_value)]
        if any(not is_infinite(end) and end.is_compound and may_fault(end) for end in ends):
            return self._within_bounds(e)
        return hull(*found)

    def _call(self, e: Any) -> IntervalSet:
        name = getattr(e.op, "name", "")
        if name == "tir.if_then_else":
            return self._choice(e)
        if is_transparent(e):
            return self(e.args[0])
        if (
            name in ("tir.shift_right", "tir.shift_left")
            and e.args[1].__class__ is IntImm
            and 0 <= e.args[1].value < 31
        ):
            factor = build.const(1 << e.args[1].value, e.dtype)
            node: Any = (
                build.floordiv(e.args[0], factor)
                if name == "tir.shift_right"
                else build.mul(e.args[0], factor)
            )
            return self(node)
        return self._opaque(e)


def _unchanged(e: Any, a: IntervalSet, b: IntervalSet, make: Callable[[Any, Any], Any]) -> IntervalSet:
    """Two points make a point: the node itself when its operands did not change."""
    x, y = a.min_value, b.min_value
    if is_infinite(x) or is_infinite(y):
        return EVERYTHING
    point = e if x is e.a and y is e.b else make(x, y)
    return IntervalSet(point, point)


def _sum(a: Any, b: Any) -> Any:
    return a if is_infinite(a) else b if is_infinite(b) else build.add(a, b)


def _difference(a: Any, b: Any) -> Any:
    return a if is_infinite(a) else flipped(b) if is_infinite(b) else build.sub(a, b)


def _product(a: Any, b: Any) -> Any:
    """For a factor that is not negative."""
    return a if is_infinite(a) else b if is_infinite(b) else build.mul(a, b)


def _product_negative(a: Any, b: Any) -> Any:
    return flipped(a) if is_infinite(a) else build.mul(a, b)


_TABLE: dict[type, Callable[[_Evaluator, Any], IntervalSet]] = {
    E.Var: _Evaluator._var,
    E.SizeVar: _Evaluator._var,
    E.Add: _Evaluator._add,
    E.Sub: _Evaluator._sub,
    E.Mul: _Evaluator._mul,
    E.FloorDiv: _Evaluator._floordiv,
    E.Div: _Evaluator._truncdiv,
    E.FloorMod: _Evaluator._floormod,
    E.Mod: _Evaluator._truncmod,
    E.Min: _Evaluator._min,
    E.Max: _Evaluator._max,
    E.Select: _Evaluator._select,
    E.Ramp: _Evaluator._ramp,
    E.Broadcast: _Evaluator._broadcast,
    E.Cast: _Evaluator._cast,
    E.BufferLoad: _Evaluator._load,
    E.Call: _Evaluator._call,
    **{cls: _Evaluator._condition for cls in (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or, E.Not)},
}


_ANY_TYPE = frozenset(
    (E.Var, E.SizeVar, E.Select, E.Ramp, E.Broadcast, E.Cast, E.BufferLoad, E.Call)
    + (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or, E.Not)
)
"""Nodes that do no arithmetic of the type that they have, or look at it themselves."""


def _in_type_of(var: Any, found: IntervalSet) -> IntervalSet:
    """An interval whose ends have the type of the variable that runs over it, as what the variable stands in needs them."""
    low, high = _cast_end(found.min_value, var.dtype), _cast_end(found.max_value, var.dtype)
    if found.is_single_point():
        return found if low is found.min_value else single_point(low)
    unchanged = low is found.min_value and high is found.max_value
    return found if unchanged else IntervalSet(low, high)


def _cast_end(end: Any, dtype: str) -> Any:
    if is_infinite(end) or end.dtype == dtype or not (is_number(end.dtype) and is_number(dtype)):
        return end
    if isinstance(end, IntImm) and not dt.integer_range(dtype)[0] <= end.value <= dt.integer_range(dtype)[1]:
        return end
    return operators.cast(dtype, end)


def eval_set(expr: PrimExpr, dom_map: Mapping[Any, Any], analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval that holds every value of an expression while variables run over ``dom_map``.

    Args:
        expr: an integer expression; a vector stands for its elements.
        dom_map: variables to IntSets, Ranges, or IterVars; a variable without entry is a fixed unknown.
        analyzer: what is known of the other variables; ends are simplified with it.
    """
    if analyzer is None:
        analyzer = Analyzer()
    # Rewriting may join occurrences of a variable, which makes intervals tighter.
    simplified = analyzer.rewrite_simplify(expr) if dt.lanes(expr.dtype) == 1 else expr
    domains = {
        (name := getattr(var, "var", var)): _in_type_of(name, as_int_set(value))
        for var, value in dom_map.items()
    }
    found = _Evaluator(analyzer, domains)(simplified)
    low, high = found.min_value, found.max_value
    if low is high:
        return found if is_infinite(low) else single_point(analyzer.simplify(low))
    return IntervalSet(
        low if is_infinite(low) else analyzer.simplify(low),
        high if is_infinite(high) else analyzer.simplify(high),
    )
