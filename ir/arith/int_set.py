"""Sets of integers that expressions reach: intervals with symbolic ends, evaluated by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import dtype as dt
from ..error import IRTypeError
from ..node import Node
from ..tir import expr as E
from ..tir.expr import IntImm, PrimExpr, Range
from . import build
from .deep_equal import expr_deep_equal

if TYPE_CHECKING:
    from .analyzer import Analyzer


class _Infinity(PrimExpr, type_key="arith.Infinity"):
    """An end of an interval that is open: never part of a program."""

    dtype: str
    positive: bool


_POS_INF = _Infinity("int64", True)
_NEG_INF = _Infinity("int64", False)


def pos_inf() -> PrimExpr:
    """The end of an interval that has no upper end."""
    return _POS_INF


def neg_inf() -> PrimExpr:
    """The end of an interval that has no lower end."""
    return _NEG_INF


def _infinite(expr: Any) -> bool:
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
    """The integers from ``min_value`` to ``max_value``, both included."""

    min_value: PrimExpr
    max_value: PrimExpr

    def __init__(self, min_value: Any, max_value: Any) -> None:
        low, high = E._expr(min_value), E._expr(max_value)
        _set_min(self, low)
        _set_max(self, high)

    def has_lower_bound(self) -> bool:
        """Whether the lower end is finite."""
        return not _infinite(self.min_value)

    def has_upper_bound(self) -> bool:
        """Whether the upper end is finite."""
        return not _infinite(self.max_value)

    def is_nothing(self) -> bool:
        low, high = self.min_value, self.max_value
        if low is _POS_INF or high is _NEG_INF:
            return True
        return low.__class__ is IntImm and high.__class__ is IntImm and low.value > high.value  # type: ignore[attr-defined]

    def is_everything(self) -> bool:
        return self.min_value is _NEG_INF and self.max_value is _POS_INF

    def is_single_point(self) -> bool:
        low, high = self.min_value, self.max_value
        return not _infinite(low) and (low is high or expr_deep_equal(low, high))

    @property
    def point_value(self) -> PrimExpr:
        """The only element of a single point."""
        if not self.is_single_point():
            raise IRTypeError("the interval is not a single point")
        return self.min_value


_set_min = IntervalSet.min_value.__set__  # type: ignore[attr-defined]
_set_max = IntervalSet.max_value.__set__  # type: ignore[attr-defined]


EVERYTHING = IntervalSet(_NEG_INF, _POS_INF)
NOTHING = IntervalSet(_POS_INF, _NEG_INF)


def everything() -> IntervalSet:
    """All integers."""
    return EVERYTHING


def nothing() -> IntervalSet:
    """The empty set."""
    return NOTHING


def single_point(point: Any) -> IntervalSet:
    """The set of one element."""
    value = E.convert(point)
    return IntervalSet(value, value)


def interval(min_value: Any, max_value: Any) -> IntervalSet:
    """The integers from ``min_value`` to ``max_value``, both included."""
    low, high = E.convert(min_value), E.convert(max_value)
    if not _infinite(low) and not _infinite(high):
        low, high = E._match_dtypes(low, high)
    return IntervalSet(low, high)


def vector(vec: PrimExpr) -> IntervalSet:
    """The hull of the elements of a vector expression."""
    from .analyzer import Analyzer

    return eval_set(vec, {}, Analyzer())


def from_range(domain: Range) -> IntervalSet:
    """The set of a Range."""
    low, extent = domain.min, domain.extent
    if extent.__class__ is IntImm and extent.value == 1:  # type: ignore[attr-defined]
        return IntervalSet(low, low)
    return IntervalSet(low, build.sub(E.add(low, extent), build.const(1, low.dtype)))


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
    if _infinite(low) or _infinite(high):
        if fallback is None:
            raise IRTypeError("the set has no finite range")
        return fallback
    extent = build.add(build.sub(high, low), build.const(1, low.dtype))
    if analyzer is None:
        from .analyzer import Analyzer

        analyzer = Analyzer()
    return Range.from_min_extent(analyzer.simplify(low), analyzer.simplify(extent))


# ---- evaluation -------------------------------------------------------------------------------------------------


class _Evaluator:
    """Interval arithmetic; results are remembered by node."""

    def __init__(self, analyzer: Analyzer, domains: Mapping[Any, IntervalSet]) -> None:
        self._analyzer, self._domains = analyzer, domains
        self._memo: dict[int, IntervalSet] = {}
        self._depth = 0

    def __call__(self, expr: Any) -> IntervalSet:
        cls = expr.__class__
        if cls is IntImm or _infinite(expr):
            return IntervalSet(expr, expr)
        found = self._memo.get(id(expr))
        if found is None:
            method = _TABLE.get(cls)
            found = self._opaque(expr) if method is None else method(self, expr)
            self._memo[id(expr)] = found
        return found

    def _opaque(self, expr: Any) -> IntervalSet:
        """Unchanged where no variable of the domain occurs, else anything its constant bounds allow."""
        if not self._uses_domain(expr):
            return IntervalSet(expr, expr)
        low, high = self._analyzer._bounds(expr)
        limit = 1 << 31
        return IntervalSet(
            build.const(low, expr.dtype) if low > -limit else _NEG_INF,
            build.const(high, expr.dtype) if high < limit - 1 else _POS_INF,
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
            return IntervalSet(var, var)
        if found.is_single_point() or self._depth > 8:
            return found
        # Ends may be expressions over other variables of the domain.
        low, high = found.min_value, found.max_value
        if not _infinite(low) and self._uses_domain(low):
            self._depth += 1
            low = self(low).min_value
            self._depth -= 1
        if not _infinite(high) and self._uses_domain(high):
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
        if all(not _infinite(end) and bounds(end)[0] >= 0 for end in (a.min_value, b.min_value)):
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
        if _infinite(a.min_value) or _infinite(a.max_value):
            return EVERYTHING
        x, y = build.mul(a.min_value, factor), build.mul(a.max_value, factor)
        return IntervalSet(E.min(x, y), E.max(x, y))

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
            ends = [item if _infinite(item) else divide(item, divisor) for item in (a.min_value, a.max_value)]
        elif high < 0:
            ends = [
                _flipped(item) if _infinite(item) else divide(item, divisor)
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
        if not _infinite(a.min_value) and not _infinite(a.max_value):
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
            nonnegative = not _infinite(a.min_value) and self._analyzer._bounds(a.min_value)[0] >= 0
            return IntervalSet(
                build.const(0, e.dtype) if nonnegative else build.sub(build.const(0, e.dtype), top), top
            )
        return self._opaque(e)

    def _min(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        return IntervalSet(_smaller(a.min_value, b.min_value), _smaller(a.max_value, b.max_value))

    def _max(self, e: Any) -> IntervalSet:
        a, b = self(e.a), self(e.b)
        return IntervalSet(_larger(a.min_value, b.min_value), _larger(a.max_value, b.max_value))

    def _condition(self, e: Any) -> IntervalSet:
        if not self._uses_domain(e):
            return IntervalSet(e, e)
        return IntervalSet(build.const(0, e.dtype), build.const(1, e.dtype))

    def _select(self, e: Any) -> IntervalSet:
        return _hull(self(e.true_value), self(e.false_value))

    def _ramp(self, e: Any) -> IntervalSet:
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
        inner = self(e.value)
        if inner.min_value is e.value:
            return IntervalSet(e, e)
        element = dt.element_of(e.dtype)
        ends = [
            item if _infinite(item) else E.cast(element, item) for item in (inner.min_value, inner.max_value)
        ]
        return IntervalSet(*ends)

    def _load(self, e: Any) -> IntervalSet:
        if self._uses_domain(e):
            low, high = self._analyzer._bounds(e)
            if dt.is_integral(e.dtype) and dt.bits(e.dtype) < 32:
                return IntervalSet(build.const(low, e.dtype), build.const(high, e.dtype))
            return EVERYTHING
        return IntervalSet(e, e)

    def _call(self, e: Any) -> IntervalSet:
        name = getattr(e.op, "name", "")
        if name == "tir.if_then_else":
            return _hull(self(e.args[1]), self(e.args[2]))
        if name == "tir.likely":
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
    if _infinite(x) or _infinite(y):
        return EVERYTHING
    point = e if x is e.a and y is e.b else make(x, y)
    return IntervalSet(point, point)


def _sum(a: Any, b: Any) -> Any:
    return a if _infinite(a) else b if _infinite(b) else build.add(a, b)


def _flipped(a: Any) -> Any:
    return _NEG_INF if a is _POS_INF else _POS_INF


def _difference(a: Any, b: Any) -> Any:
    return a if _infinite(a) else _flipped(b) if _infinite(b) else build.sub(a, b)


def _product(a: Any, b: Any) -> Any:
    """For a factor that is not negative."""
    return a if _infinite(a) else b if _infinite(b) else build.mul(a, b)


def _product_negative(a: Any, b: Any) -> Any:
    return _flipped(a) if _infinite(a) else build.mul(a, b)


def _smaller(a: Any, b: Any) -> Any:
    if _NEG_INF in (a, b):
        return _NEG_INF
    return (
        b if a is _POS_INF else a if b is _POS_INF else a if a is b or expr_deep_equal(a, b) else E.min(a, b)
    )


def _larger(a: Any, b: Any) -> Any:
    if a is _POS_INF or b is _POS_INF:
        return _POS_INF
    return (
        b if a is _NEG_INF else a if b is _NEG_INF else a if a is b or expr_deep_equal(a, b) else E.max(a, b)
    )


def _hull(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    if a is NOTHING or a.is_nothing():
        return b
    if b is NOTHING or b.is_nothing():
        return a
    return IntervalSet(_smaller(a.min_value, b.min_value), _larger(a.max_value, b.max_value))


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


def eval_set(expr: PrimExpr, dom_map: Mapping[Any, Any], analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval that holds every value of an expression while variables run over ``dom_map``.

    Args:
        expr: an integer expression; a vector stands for its elements.
        dom_map: variables to IntSets, Ranges, or IterVars; a variable without entry is a fixed unknown.
        analyzer: what is known of the other variables; ends are simplified with it.
    """
    if analyzer is None:
        from .analyzer import Analyzer

        analyzer = Analyzer()
    # Rewriting may join occurrences of a variable, which makes intervals tighter.
    simplified = analyzer.rewrite_simplify(expr) if dt.lanes(expr.dtype) == 1 else expr
    domains = {getattr(var, "var", var): as_int_set(value) for var, value in dom_map.items()}
    found = _Evaluator(analyzer, domains)(simplified)
    low, high = found.min_value, found.max_value
    if low is high:
        return found if _infinite(low) else single_point(analyzer.simplify(low))
    return IntervalSet(
        low if _infinite(low) else analyzer.simplify(low),
        high if _infinite(high) else analyzer.simplify(high),
    )


def union(sets: Sequence[IntSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval that holds all sets."""
    result: IntervalSet = NOTHING
    for item in sets:
        result = _hull(result, as_int_set(item))
    return _simplified(result, analyzer)


def union_lower_bound(sets: Sequence[IntSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval inside the union: neighbours that touch are joined; of others the first is kept."""
    if analyzer is None:
        from .analyzer import Analyzer

        analyzer = Analyzer()
    result: IntervalSet = NOTHING
    for item in (as_int_set(value) for value in sets):
        if item.is_nothing():
            continue
        if result.is_nothing():
            result = item
            continue
        if _infinite(item.min_value) or _infinite(item.max_value):
            result = item
            continue
        one = build.const(1, item.min_value.dtype)
        touches = analyzer.can_prove(build.le(item.min_value, build.add(result.max_value, one)))
        touched = analyzer.can_prove(build.le(result.min_value, build.add(item.max_value, one)))
        if touches and touched:
            result = _hull(result, item)
    return _simplified(result, analyzer)


def intersect(sets: Sequence[IntSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The interval of what lies in all sets."""
    result: IntervalSet = EVERYTHING
    for item in (as_int_set(value) for value in sets):
        low = _larger(result.min_value, item.min_value)
        high = _smaller(result.max_value, item.max_value)
        result = IntervalSet(low, high)
    result = _simplified(result, analyzer)
    return NOTHING if result.is_nothing() else result


def _simplified(found: IntervalSet, analyzer: Analyzer | None) -> IntervalSet:
    if analyzer is None:
        from .analyzer import Analyzer

        analyzer = Analyzer()
    low, high = found.min_value, found.max_value
    return IntervalSet(
        low if _infinite(low) else analyzer.simplify(low),
        high if _infinite(high) else analyzer.simplify(high),
    )


# ---- regions ----------------------------------------------------------------------------------------------------


def eval_region(
    region: Sequence[Range], dom_map: Mapping[Any, Any], analyzer: Analyzer | None = None
) -> list[IntervalSet]:
    """The set of each dimension of a box while variables run over ``dom_map``."""
    if analyzer is None:
        from .analyzer import Analyzer

        analyzer = Analyzer()
    result = []
    for domain in region:
        low = eval_set(domain.min, dom_map, analyzer)
        if domain.extent.__class__ is IntImm and domain.extent.value == 1:  # type: ignore[attr-defined]
            result.append(low)
            continue
        last = E.add(domain.min, E.subtract(domain.extent, 1))
        high = eval_set(last, dom_map, analyzer)
        result.append(IntervalSet(low.min_value, high.max_value))
    return result


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Any],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet]:
    """Sets that hold all that a region covers while the variables run over ``var_dom``.

    A predicate that is affine in one variable narrows its domain.
    """
    domains = _narrowed(var_dom, predicate, analyzer)
    strict = _strict(region, domains, predicate, analyzer)
    return strict if strict is not None else eval_region(region, domains, analyzer)


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Any],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """The exact sets that a region covers; None where its indices are not independent affine maps of the variables."""
    return _strict(
        region, {getattr(k, "var", k): _as_range(v) for k, v in var_dom.items()}, predicate, analyzer
    )


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Any, Any],
    predicate: Any = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """Sets all of which a region certainly covers; None where nothing is certain."""
    return estimate_region_strict_bound(region, var_dom, predicate, analyzer)


def _as_range(value: Any) -> Range:
    if isinstance(value, Range):
        return value
    if isinstance(value, E.IterVar):
        return value.dom
    return range_of(as_int_set(value))


def _narrowed(var_dom: Mapping[Any, Any], predicate: Any, analyzer: Analyzer | None) -> dict[Any, Any]:
    domains = {getattr(var, "var", var): value for var, value in var_dom.items()}
    if not isinstance(predicate, PrimExpr) or predicate.__class__ is IntImm:
        return domains
    from .bound_deducer import deduce_bound

    for var in list(domains):
        others = {key: as_int_set(value) for key, value in domains.items() if key is not var}
        for condition in _conjuncts(predicate):
            if not _mentions(condition, var):
                continue
            allowed = deduce_bound(var, condition, others, others, relax_conservatively=True)
            if allowed is not None and not allowed.is_everything() and not allowed.is_nothing():
                current = as_int_set(domains[var])
                domains[var] = intersect([current, allowed], analyzer)
    return domains


def _conjuncts(predicate: Any) -> list[Any]:
    if predicate.__class__ is E.And:
        return _conjuncts(predicate.a) + _conjuncts(predicate.b)
    if predicate.__class__ is E.Call and getattr(predicate.op, "name", "") == "tir.likely":
        return _conjuncts(predicate.args[0])
    return [predicate]


def _mentions(expr: Any, var: Any) -> bool:
    if expr is var:
        return True
    found: list[bool] = []
    expr._visit_children(lambda child: found.append(_mentions(child, var)))
    return any(found)


def _strict(
    region: Sequence[Range], domains: Mapping[Any, Any], predicate: Any, analyzer: Analyzer | None
) -> list[IntervalSet] | None:
    from .analyzer import Analyzer
    from .iter_affine_map import detect_iter_map
    from .iter_map_expr import IterMapLevel, IterSumExpr

    if analyzer is None:
        analyzer = Analyzer()
    ranges: dict[Any, Range] = {}
    for var, value in domains.items():
        found = as_int_set(value)
        if _infinite(found.min_value) or _infinite(found.max_value):
            return None
        ranges[var] = value if isinstance(value, Range) else range_of(found, analyzer=analyzer)
    condition = predicate if isinstance(predicate, PrimExpr) else build.boolean(True)
    result = detect_iter_map(
        [item.min for item in region],
        ranges,
        condition,
        IterMapLevel.Surjective,
        analyzer,
        simplify_trivial_iterators=True,
    )
    if not result.indices:
        return [] if not region else None
    sets = []
    for sum_expr, item in zip(result.indices, region):
        if not isinstance(sum_expr, IterSumExpr):
            return None
        if not sum_expr.args:
            low, high = sum_expr.base, sum_expr.base
        else:
            if len(sum_expr.args) != 1:
                return None
            split = sum_expr.args[0]
            scale = split.scale
            reach = E.multiply(E.subtract(split.extent, 1), scale)
            step = scale
            if analyzer._prove_ge(scale, 0):
                low, high = sum_expr.base, E.add(sum_expr.base, reach)
            elif analyzer._prove_lt(scale, 0):
                low, high = E.add(sum_expr.base, reach), sum_expr.base
                step = analyzer.simplify(E.multiply(scale, -1))
            else:
                return None
            if not (build.is_const(step, 1) or analyzer.can_prove(build.le(step, item.extent))):
                return None
        last = E.subtract(E.add(high, item.extent), 1)
        sets.append(IntervalSet(analyzer.simplify(low), analyzer.simplify(last)))
    return sets
