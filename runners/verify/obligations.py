"""What a program asks of the integers that it computes with: accesses within buffers, divisors that are not zero, shifts within the width.

Each is noted with the conditions that guard it and the loops around it, so that :mod:`.domains` can try values against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ir import dtype as dt
from ir.node import post_order_visit
from ir.op import Op
from ir.structural import structural_equal
from ir.tir.expr import And, BufferLoad, Call, Div, FloorDiv, FloorMod, IntImm, Let, Mod, Or, PrimExpr
from ir.tir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt, While

Array = np.ndarray[Any, Any]
_SHIFTS = ("tir.shift_left", "tir.shift_right")


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in a program something stands."""

    variables: Mapping[Any, tuple[Any, Any]] = field(default_factory=dict)
    """First and last value of each variable, outermost first: expressions of those before it. The same one twice for a name of a value."""
    conditions: tuple[Any, ...] = ()

    def inside(self, condition: Any) -> Scope:
        """Where a condition holds, too."""
        return replace(self, conditions=(*self.conditions, condition))

    def where(self, variable: Any, first: Any, last: Any) -> Scope:
        """Where a variable goes from a first to a last value."""
        return replace(self, variables={**self.variables, variable: (first, last)})


@dataclass(frozen=True, slots=True)
class Obligation:
    """An integer that must lie from ``low`` to ``high``; with neither, it must not be zero."""

    operand: Any
    scope: Scope
    low: int | None = None
    high: int | None = None
    is_index: bool = False
    distinct: bool = False
    """An index that elements are stored to and not added to: if two loads of it are the same, the order of iterations decides."""

    @property
    def is_divisor(self) -> bool:
        """Whether only zero is refused."""
        return self.low is None and self.high is None

    def holds(self, values: Array) -> Array:
        """For which values of the operand it is met."""
        if self.is_divisor:
            return np.asarray(values != 0)
        met = np.ones(np.shape(values), np.bool_)
        if self.low is not None:
            met = met & (values >= self.low)
        return met if self.high is None else met & (values <= self.high)


@dataclass(slots=True)
class Survey:
    """What a walk over a program finds."""

    obligations: list[Obligation] = field(default_factory=list)
    stores: dict[Any, list[tuple[Any, Scope]]] = field(default_factory=dict)
    """By buffer data: the integers stored, and where."""
    turns: list[Any] = field(default_factory=list)
    """Conditions of ``while``: what they load decides how often a loop runs."""
    trips: list[tuple[Any, Scope]] = field(default_factory=list)
    """Extents of loops that depend on loads."""
    longest: int = 1
    """The largest extent of a buffer."""


def survey_of(func: Any) -> Survey:
    """What a PrimFunc asks of integers that depend on what it loads."""
    survey = Survey(longest=max([1, *(_extents(func.buffer_map.values()))]))
    _Walk(survey).visit(func.body, Scope())
    survey.obligations += [Obligation(extent, scope, high=survey.longest) for extent, scope in survey.trips]
    return survey


def loaded(expr: Any) -> set[Any]:
    """The data variables of the buffers of integers that an expression loads."""
    found: set[Any] = set()

    def visit(node: Any) -> None:
        if isinstance(node, BufferLoad) and dt.is_integral(node.dtype):
            found.add(node.buffer.data)

    post_order_visit(expr, visit)
    return found


def _is_update(store: BufferStore) -> bool:
    """Whether what is stored is computed from the element that was there."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, BufferLoad) and node.buffer.data is store.buffer.data:
            found.append(structural_equal(node.indices, store.indices))

    post_order_visit(store.value, visit)
    return any(found)


def _extents(buffers: Iterable[Any]) -> list[int]:
    return [extent.value for buffer in buffers for extent in buffer.shape if isinstance(extent, IntImm)]


class _Walk:
    """Notes obligations on the way down."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._seen: dict[tuple[int, int], tuple[Any, Scope]] = {}
        """Expressions by identity, and the scopes that they stand in: an expression may hold one object many times."""

    def visit(self, node: Any, scope: Scope) -> None:
        """Everything in a statement or expression that stands in ``scope``."""
        if isinstance(node, PrimExpr):
            key = id(node), id(scope)
            if key in self._seen:
                return
            self._seen[key] = node, scope
        special = self._SPECIAL.get(type(node))
        if special is not None:
            special(self, node, scope)
            return
        if isinstance(node, Div | Mod | FloorDiv | FloorMod) and dt.is_integral(node.dtype):
            self._note(Obligation(node.b, scope))
        self._children(node, scope)

    def _children(self, node: Any, scope: Scope) -> None:
        node._visit_children(lambda child: self.visit(child, scope))

    def _note(self, obligation: Obligation) -> None:
        self._survey.obligations.append(obligation)

    # ---- statements ---------------------------------------------------------------------------------------------

    def _for(self, node: For, scope: Scope) -> None:
        self.visit(node.min, scope)
        self.visit(node.extent, scope)
        inner = scope.where(node.loop_var, node.min, node.min + node.extent - 1)
        if not isinstance(node.extent, IntImm):
            inner = inner.inside(node.extent > 0)
            self._survey.trips.append((node.extent, scope))
        self.visit(node.body, inner)

    def _while(self, node: While, scope: Scope) -> None:
        self._survey.turns.append(node.condition)
        self.visit(node.condition, scope)
        self.visit(node.body, scope.inside(node.condition))

    def _if(self, node: IfThenElse, scope: Scope) -> None:
        self.visit(node.condition, scope)
        self.visit(node.then_case, scope.inside(node.condition))
        if node.else_case is not None:
            self.visit(node.else_case, scope.inside(~node.condition))

    def _let_statement(self, node: LetStmt, scope: Scope) -> None:
        self.visit(node.value, scope)
        self.visit(node.body, scope.where(node.var, node.value, node.value))

    def _realize(self, node: BlockRealize, scope: Scope) -> None:
        self.visit(node.predicate, scope)
        inner = scope.inside(node.predicate)
        for axis, value in zip(node.block.iter_vars, node.iter_values):
            self.visit(value, scope)
            inner = inner.where(axis.var, value, value)
        self.visit(node.block, inner)

    def _block(self, node: Block, scope: Scope) -> None:
        longest = max([self._survey.longest, *_extents(node.alloc_buffers)])
        self._survey.longest = longest
        for part in (node.init, node.body):
            if part is not None:
                self.visit(part, scope)

    def _store(self, node: BufferStore, scope: Scope) -> None:
        self._access(node, scope, distinct=not _is_update(node))
        if dt.is_integral(node.buffer.dtype):
            self._survey.stores.setdefault(node.buffer.data, []).append((node.value, scope))

    # ---- expressions --------------------------------------------------------------------------------------------

    def _load(self, node: BufferLoad, scope: Scope) -> None:
        self._access(node, scope)

    def _access(self, node: BufferLoad | BufferStore, scope: Scope, distinct: bool = False) -> None:
        for index, extent in zip(node.indices, node.buffer.shape):
            if isinstance(extent, IntImm):
                self._note(Obligation(index, scope, 0, extent.value - 1, is_index=True, distinct=distinct))
        self._children(node, scope)

    def _let(self, node: Let, scope: Scope) -> None:
        self.visit(node.value, scope)
        self.visit(node.body, scope.where(node.var, node.value, node.value))

    def _and(self, node: And, scope: Scope) -> None:
        self.visit(node.a, scope)
        self.visit(node.b, scope.inside(node.a))

    def _or(self, node: Or, scope: Scope) -> None:
        self.visit(node.a, scope)
        self.visit(node.b, scope.inside(~node.a))

    def _call(self, node: Call, scope: Scope) -> None:
        name = node.op.name if isinstance(node.op, Op) else ""
        if name == "tir.if_then_else":
            condition, chosen, other = node.args
            self.visit(condition, scope)
            self.visit(chosen, scope.inside(condition))
            self.visit(other, scope.inside(~condition))
            return
        if name in _SHIFTS:
            self._note(Obligation(node.args[1], scope, 0, dt.bits(node.dtype) - 1))
        self._children(node, scope)

    _SPECIAL: ClassVar[Mapping[type, Callable[[_Walk, Any, Scope], None]]] = {
        For: _for,
        While: _while,
        IfThenElse: _if,
        LetStmt: _let_statement,
        BlockRealize: _realize,
        Block: _block,
        BufferStore: _store,
        BufferLoad: _load,
        Let: _let,
        And: _and,
        Or: _or,
        Call: _call,
    }
