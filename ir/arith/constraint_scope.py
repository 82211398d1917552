"""Conditions in force: what a comparison says of bounds, remainders and signs while it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tir import expr as E
from ..tir.conjunction import conjuncts
from ..tir.expr import IntImm, PrimExpr
from . import build
from .const_int_bound import NEG_INF, POS_INF, Bound, intersect
from .effects import HasEffect
from .modular_set import Modular, normalized
from .modular_set import intersect as intersect_modular


class ConstraintScope:
    """Enters conditions into every part of an analyzer, and takes them out again."""

    def __init__(self, analyzer: Any, *constraints: PrimExpr) -> None:
        self._analyzer, self._constraints = analyzer, constraints
        self._saved: Any = None

    def __enter__(self) -> None:
        conditions = [self._simplified(item) for item in self._constraints]
        self._saved = self._analyzer._knowledge.enter()
        for condition in conditions:
            for part in conjuncts(condition):
                self._learn(part)

    def _simplified(self, constraint: PrimExpr) -> Any:
        try:
            return self._analyzer._rewrite.visit(constraint)
        except HasEffect:
            return build.boolean(True)  # asked again, it may say something else: nothing is learnt

    def __exit__(self, *exc: Any) -> None:
        self._analyzer._knowledge.leave(self._saved)

    def _learn(self, condition: Any) -> None:
        a = self._analyzer
        if condition.__class__ is not IntImm:
            a._rewrite.literals.append(condition)
        cls = condition.__class__
        if cls not in _BOUNDING or not a._compares_numbers(condition):
            return
        left, right = condition.a, condition.b
        low, high = a._bounds(left), a._bounds(right)
        if cls is E.EQ:
            if right.__class__ is IntImm:
                self._limit(left, (right.value, right.value))
                self._learn_remainder(left, right.value)
            a._facts += [build.sub(left, right), build.sub(right, left)]
            return
        if cls in (E.GT, E.GE):
            left, right, low, high = right, left, high, low
            cls = E.LT if cls is E.GT else E.LE
        strict = 1 if cls is E.LT else 0
        # left + strict <= right
        if high[1] < POS_INF:
            self._limit(left, (NEG_INF, high[1] - strict))
        if low[0] > NEG_INF:
            self._limit(right, (low[0] + strict, POS_INF))
        fact = build.sub(right, left)
        if left.__class__ is not IntImm and right.__class__ is not IntImm:
            for difference, bound in (
                (a._rewrite.visit(fact), (strict, POS_INF)),
                (a._rewrite.visit(build.sub(left, right)), (NEG_INF, -strict)),
            ):
                if difference.__class__ is not IntImm:
                    a._bounds.constraints.append((difference, bound))
            a._forget()
        a._facts.append(build.sub(fact, build.const(strict, fact.dtype)) if strict else fact)

    def _limit(self, expr: Any, bound: Bound) -> None:
        a = self._analyzer
        cls = expr.__class__
        if cls is E.Var or cls is E.SizeVar:
            both = intersect(a._bounds._var(expr), bound)
            if both[0] <= both[1]:
                a._bounds.variables[expr] = both
                a._bounds.memo.pop(id(expr), None)
        elif cls is E.Add and expr.b.__class__ is IntImm:
            offset = expr.b.value
            self._limit(expr.a, (_shift(bound[0], -offset), _shift(bound[1], -offset)))
        elif cls is E.Mul and expr.b.__class__ is IntImm and expr.b.value > 0:
            factor = expr.b.value
            low = bound[0] if bound[0] <= NEG_INF else -(-bound[0] // factor)
            high = bound[1] if bound[1] >= POS_INF else bound[1] // factor
            self._limit(expr.a, (low, high))
        elif cls is E.FloorDiv and expr.b.__class__ is IntImm and expr.b.value > 0:
            factor = expr.b.value
            low = bound[0] if bound[0] <= NEG_INF else bound[0] * factor
            high = bound[1] if bound[1] >= POS_INF else bound[1] * factor + factor - 1
            a._bounds.constraints.append((expr, bound))
            self._limit(expr.a, (low, high))
        elif cls is not IntImm:
            a._bounds.constraints.append((expr, bound))

    def _learn_remainder(self, left: Any, value: int) -> None:
        """``x % c == b`` says which modular set x is in."""
        a = self._analyzer
        if left.__class__ in (E.FloorMod, E.Mod) and left.b.__class__ is IntImm and isinstance(left.a, E.Var):
            known: Modular = a._modular._var(left.a)
            a._modular.variables[left.a] = intersect_modular(known, normalized(left.b.value, value))
            a._forget()


class Branching:
    """The scopes that one question enters for what choices and connectives say of their sides.

    There is a limit: what sides share is visited once for each of all the ways to get there, which are two to the power of the depth.
    """

    def __init__(self, analyzer: Any) -> None:
        self._analyzer = analyzer
        self._depth = self._entered = 0

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self._entered >= _MOST_SCOPES

    def visit(self, visit: Callable[[Any], Any], expr: Any, *conditions: Any) -> Any:
        """What becomes of an expression where conditions hold; beyond the limit, of it anywhere."""
        if self.is_spent:
            return visit(expr)
        self._entered += 1
        self._depth += 1
        try:
            with ConstraintScope(self._analyzer, *conditions):
                return visit(expr)
        finally:
            self._depth -= 1
            if not self._depth:
                self._entered = 0


_MOST_SCOPES = 64
"""A chain of so many choices knows at its end what all of them say."""


def _shift(value: int, by: int) -> int:
    return value if value in (NEG_INF, POS_INF) else value + by


_BOUNDING = frozenset((E.LT, E.LE, E.GT, E.GE, E.EQ))
