"""Solve a condition for one variable: the interval in which the condition holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tir import expr as E
from ..tir import operators
from ..tir.expr import IntImm
from ..tir.intrinsic.declaration import is_transparent
from . import build
from .analyzer import Analyzer
from .int_set.evaluation import eval_set
from .int_set.interval_set import EVERYTHING, NOTHING, IntervalSet, as_int_set, intersect, neg_inf, pos_inf

_FLIPPED: dict[type, type] = {E.LT: E.GT, E.LE: E.GE, E.GT: E.LT, E.GE: E.LE, E.EQ: E.EQ}


def uses(expr: Any, var: Any) -> bool:
    """Whether a variable occurs in an expression."""
    if expr is var:
        return True
    found: list[bool] = []
    expr._visit_children(lambda child: found.append(uses(child, var)))
    return any(found)


class _Cannot(Exception):
    """The condition cannot be solved for the variable."""


class _Solver:
    """Peels operations off the side that holds the variable: ``var * 4 + y < n`` becomes ``var < ceil((n - y) / 4)``."""

    def __init__(self, var: Any, hints: Mapping[Any, IntervalSet], relax: Mapping[Any, IntervalSet]) -> None:
        self._var = var
        self.analyzer = Analyzer()
        for other, found in hints.items():
            low, high = found.min_value, found.max_value
            if low.__class__ is IntImm and high.__class__ is IntImm and low.value <= high.value:  # type: ignore[attr-defined]
                self.analyzer.bind(
                    other, E.Range.from_min_extent(low, operators.add(operators.subtract(high, low), 1))
                )
        self._relax = relax

    def solve(self, condition: Any) -> IntervalSet:
        cls = condition.__class__
        if cls is E.And:
            return intersect([self.solve(condition.a), self.solve(condition.b)], self.analyzer)
        if is_transparent(condition):
            return self.solve(condition.args[0])
        if cls not in _FLIPPED:
            raise _Cannot
        if not uses(condition, self._var):
            return (
                EVERYTHING
                if self.analyzer.can_prove(condition)
                else NOTHING
                if self._false(condition)
                else EVERYTHING
            )
        left, right = condition.a, condition.b
        if uses(right, self._var):
            if uses(left, self._var):
                # Both sides: bring everything to the left.
                left, right = self.analyzer.simplify(build.sub(left, right)), build.const(0, left.dtype)
                if uses(right, self._var) or not uses(left, self._var):
                    raise _Cannot
            else:
                left, right, cls = right, left, _FLIPPED[cls]
        if cls is E.EQ:
            return intersect(
                [self._bounded(left, right, E.LE), self._bounded(left, right, E.GE)], self.analyzer
            )
        one = build.const(1, right.dtype)
        if cls is E.LT:
            return self._bounded(left, build.sub(right, one), E.LE)
        if cls is E.GT:
            return self._bounded(left, build.add(right, one), E.GE)
        return self._bounded(left, right, cls)

    def _false(self, condition: Any) -> bool:
        return build.is_const(self.analyzer.simplify(condition), 0)

    def _bounded(self, left: Any, right: Any, cls: type) -> IntervalSet:
        """``left <= right`` or ``left >= right`` with the variable on the left."""
        while left is not self._var:
            left, right, cls = self._peeled(left, right, cls)
        relaxed = eval_set(right, self._relax, self.analyzer)
        if cls is E.LE:
            return IntervalSet(neg_inf(), relaxed.min_value)
        return IntervalSet(relaxed.max_value, pos_inf())

    def _peeled(self, left: Any, right: Any, cls: type) -> tuple[Any, Any, type]:
        kind = left.__class__
        if kind not in (E.Add, E.Sub, E.Mul, E.FloorDiv):
            raise _Cannot
        in_a, in_b = uses(left.a, self._var), uses(left.b, self._var)
        if in_a and in_b:
            simplified = self.analyzer.canonical_simplify(left)
            both = (
                hasattr(simplified, "b") and uses(simplified.a, self._var) and uses(simplified.b, self._var)
            )
            if both or simplified.__class__ not in (E.Add, E.Sub, E.Mul):
                raise _Cannot
            return simplified, right, cls
        if kind is E.Add:
            return (
                (left.a, build.sub(right, left.b), cls) if in_a else (left.b, build.sub(right, left.a), cls)
            )
        if kind is E.Sub:
            if in_a:
                return left.a, build.add(right, left.b), cls
            return left.b, build.sub(left.a, right), _FLIPPED[cls]
        if kind is E.Mul:
            inner, factor = (left.a, left.b) if in_a else (left.b, left.a)
            return self._unscaled(inner, factor, right, cls)
        # var // c <= r  is  var <= r c + c - 1;   var // c >= r  is  var >= r c
        if not in_a or self.analyzer._bounds(left.b)[0] <= 0:
            raise _Cannot
        scaled = build.mul(right, left.b)
        if cls is E.LE:
            scaled = build.add(scaled, build.sub(left.b, build.const(1, left.dtype)))
        return left.a, scaled, cls

    def _unscaled(self, inner: Any, factor: Any, right: Any, cls: type) -> tuple[Any, Any, type]:
        low, high = self.analyzer._bounds(factor)
        if low > 0:
            divided = build.floordiv(right, factor)
        elif high < 0:
            zero = build.const(0, factor.dtype)
            factor, right, cls = build.sub(zero, factor), build.sub(zero, right), _FLIPPED[cls]
            divided = build.floordiv(right, factor)
        else:
            raise _Cannot
        if cls is E.GE:
            # Rounded up: the smallest var with var * c >= r.
            divided = build.floordiv(
                build.add(right, build.sub(factor, build.const(1, factor.dtype))), factor
            )
        return inner, divided, cls


def deduce_bound(
    var: E.Var,
    cond: Any,
    hint_map: Mapping[E.Var, Any],
    relax_map: Mapping[E.Var, Any],
    relax_conservatively: bool = False,
) -> IntervalSet:
    """The values of ``var`` for which a condition certainly holds.

    Args:
        var: the variable to solve for.
        cond: comparisons joined by ``and``, each affine in ``var``.
        hint_map: ranges of other variables, which stay as they are in the result.
        relax_map: variables over all whose values the condition must hold.
        relax_conservatively: for values of the relaxed variables that differ, take the interval that holds for some of
            them rather than for all.

    Returns:
        The interval; :func:`~ir.arith.int_set.nothing` where the condition cannot be solved.
    """
    hints = {key: as_int_set(value) for key, value in hint_map.items() if key is not var}
    relax = {key: as_int_set(value) for key, value in relax_map.items() if key is not var}
    solver = _Solver(var, {**hints, **relax}, {} if relax_conservatively else relax)
    try:
        found = solver.solve(solver.analyzer.rewrite_simplify(cond) if not relax_conservatively else cond)
    except _Cannot:
        return EVERYTHING if relax_conservatively else NOTHING
    if not relax_conservatively:
        return found
    # Some value of the others allows it: the loosest end.
    low, high = found.min_value, found.max_value
    if low is not neg_inf():
        low = eval_set(low, relax, solver.analyzer).min_value
    if high is not pos_inf():
        high = eval_set(high, relax, solver.analyzer).max_value
    return IntervalSet(low, high)
