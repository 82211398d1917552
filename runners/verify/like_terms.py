"""Sums of which many terms may be one and the same number: their roundings are no random walk.

Adding 0.1 to a sum is off by the same amount each time, until the sum has doubled. So is adding what a clamp, or a choice, makes of
numbers that differ, and what is the same in all turns of a loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ir import dtype as dt
from ir.node import Visitor, post_order_visit
from ir.tir.expr import Let, PrimExpr, Var
from ir.tir.intrinsic.declaration import find
from ir.tir.stmt import BufferStore, LetStmt
from ir.tir.stmt_functor import variables_in

_SHORT = 64
"""Multiples of a power of two up to this add up without rounding for long."""
_HUGE = 2.0**10
"""Larger constants stand for infinity."""


@dataclass(frozen=True, slots=True)
class Spread:
    """By what a number differs: in turns of the loops of these variables it is another one, as random numbers are."""

    variables: frozenset[Var] = frozenset()
    short: bool = True
    """It has few digits: to add it rounds nothing."""


_NONE = Spread()


class Spreads(Visitor):
    """The spread of expressions of a function.

    Args:
        func: a function without views of buffers.
    """

    remembers: ClassVar[bool] = True

    def __init__(self, func: Any) -> None:
        super().__init__()
        self._stores: list[BufferStore] = []
        self._named: dict[Var, PrimExpr] = {}
        post_order_visit(func.body, self._collect)
        self._axes: dict[Any, frozenset[int] | None] = {}
        """By data variable of what is stored to: along which axes its elements differ; None where all stored numbers are short."""
        for store in self._stores:
            self._axes[store.buffer.data] = None
        self._own: Any = None
        """What a statement stores to: what was there before tells nothing new."""
        while any([self._learn(store) for store in self._stores]):
            pass

    def has_like_terms(self, store: BufferStore, term: PrimExpr) -> bool:
        """Whether many of the terms that a statement adds to one element may be one number, of many digits."""
        self._own = store.buffer.data
        spread = self.visit(term)
        return not spread.short and not spread.variables - _variables(store.indices)

    def _collect(self, node: Any) -> None:
        if isinstance(node, BufferStore) and dt.is_float(node.buffer.dtype):
            self._stores.append(node)
        elif isinstance(node, LetStmt | Let):
            self._named[node.var] = node.value

    def _learn(self, store: BufferStore) -> bool:
        """Whether a store tells that elements differ along fewer axes than was known."""
        self._own = store.buffer.data
        spread = self.visit(store.value)
        if spread.short:
            return False
        axes = frozenset(
            axis for axis, index in enumerate(store.indices) if _variables([index]) & spread.variables
        )
        before = self._axes[self._own]
        self._axes[self._own] = axes if before is None else axes & before
        return self._axes[self._own] != before

    # ---- expressions -----------------------------------------------------------------------------------------

    def generic_visit(self, node: Any) -> Spread:
        """What is no float is one of few."""
        return _NONE

    def visit_FloatImm(self, node: Any) -> Spread:
        """A constant."""
        return Spread(
            short=not math.isfinite(node.value) or abs(node.value) > _HUGE or _odd_part(node.value) < _SHORT
        )

    def visit_Var(self, node: Var) -> Spread:
        """A name."""
        return self.visit(self._named[node]) if node in self._named else _NONE  # type: ignore[no-any-return]

    def visit_Let(self, node: Let) -> Spread:
        """A body with a name in it."""
        return self.visit(node.body)  # type: ignore[no-any-return]

    def visit_Cast(self, node: Any) -> Spread:
        """Few integers, and both truths, are many terms each."""
        return self.visit(node.value) if dt.is_float(node.value.dtype) else _NONE

    def visit_BufferLoad(self, node: Any) -> Spread:
        """An element; inputs differ along all axes."""
        data = node.buffer.data
        if not dt.is_float(node.buffer.dtype) or data is self._own:
            return _NONE
        axes = self._axes.get(data, frozenset(range(len(node.indices))))
        if axes is None:
            return _NONE
        return Spread(_variables([node.indices[axis] for axis in axes]), False)

    def visit_BinaryOpExpr(self, node: Any) -> Spread:
        """Arithmetic."""
        sides = [self.visit(node.a), self.visit(node.b)]
        kind = type(node).__name__
        return _chosen(sides) if kind in ("Min", "Max") else _computed(sides, kind in ("Add", "Sub", "Mul"))

    def visit_Select(self, node: Any) -> Spread:
        """One of two."""
        return _chosen([self.visit(node.true_value), self.visit(node.false_value)])

    def visit_Call(self, node: Any) -> Spread:
        """A function; one that rounds to integers makes many numbers one."""
        intrinsic = find(node)
        if not dt.is_float(node.dtype) or intrinsic is None or intrinsic.rounds:
            return _NONE
        if intrinsic.name == "if_then_else":
            return _chosen([self.visit(item) for item in node.args[1:]])
        args = [self.visit(item) for item in node.args if dt.is_float(item.dtype)]
        return _computed(args, intrinsic.transparent)


def _chosen(sides: Sequence[Spread]) -> Spread:
    """It differs only where all do that are not short."""
    long = [item.variables for item in sides if not item.short]
    return Spread(frozenset.intersection(*long), False) if long else _NONE


def _computed(sides: Sequence[Spread], keeps_short: bool) -> Spread:
    """It differs where one does."""
    found = frozenset[Var]().union(*(item.variables for item in sides))
    return Spread(found, keeps_short and all(item.short for item in sides))


def _variables(exprs: Iterable[PrimExpr]) -> frozenset[Var]:
    return frozenset(variable for expr in exprs for variable in variables_in(expr))


def _odd_part(value: float) -> int:
    """The numerator without its factors of two."""
    numerator = abs(value.as_integer_ratio()[0])
    return numerator // (numerator & -numerator) if numerator else 0
