"""Which statements of a program add to an element, what they add, and how many terms an element is the sum of.

C[i, j] = C[i, j] + A[i, k] * B[k, j]            adds A[i, k] * B[k, j]
v = S[i] + A[i, k]; S[i] = v                     adds A[i, k]: sums of several outputs are written so
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ir import dtype as dt
from ir.node import Visitor
from ir.structural import structural_equal
from ir.tir.expr import Add, BufferLoad, Call, PrimExpr, Select, Sub, Var
from ir.tir.operators import const
from ir.tir.stmt import BufferStore, Evaluate, LetStmt, SeqStmt
from ir.tir.stmt_functor import loads_in

from .instances import instances_of

Term = tuple[PrimExpr, int]
"""A number that is added, and its sign."""
Addition = tuple[Term, ...]
"""What a statement adds to the element that it stores to, one after the other."""


class Sums:
    """The additions of floats in a statement; views are to be lowered before."""

    def __init__(self, body: Any) -> None:
        finder = _Finder()
        finder.visit(body)
        self._additions = finder.found
        self._terms: dict[Any, int] = {}
        for item in instances_of(body):
            addition = self._additions[item.store]
            if addition is not None:
                data = item.store.buffer.data
                self._terms[data] = self._terms.get(data, 0) + len(addition) * item.per_element

    def addition(self, store: BufferStore) -> Addition | None:
        """What a statement adds; None for one that does not add to what was there."""
        return self._additions[store]

    def terms(self, buffer: Any) -> int:
        """How many terms one element of a buffer is the sum of, at most: those of all statements that add to it."""
        return self._terms.get(buffer.data, 0)


class _Finder(Visitor):
    """Looks at each store, knowing the names around it that still say what memory holds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[BufferStore, Addition | None] = {}
        self._values: dict[Var, PrimExpr] = {}

    def visit_LetStmt(self, node: LetStmt) -> None:
        self._values[node.var] = node.value
        self.visit(node.body)
        self._values.pop(node.var, None)

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        for item in node.seq:
            self.visit(item)

    def visit_BufferStore(self, node: BufferStore) -> None:
        value = self._values.get(node.value, node.value) if isinstance(node.value, Var) else node.value
        addition = (_addition(node, value) or None) if dt.is_float(node.buffer.dtype) else None
        if (
            self.found.get(node, addition) is None
        ):  # the same statement at two places, of which one does not add
            addition = None
        self.found[node] = addition
        self._values = {
            var: value
            for var, value in self._values.items()
            if all(load.buffer is not node.buffer for load in loads_in(value))
        }

    def visit_Evaluate(self, node: Evaluate) -> None:
        self._values.clear()  # a call may store anywhere

    def generic_visit(self, node: Any) -> Any:
        """Loops, choices and blocks may run more than once, or not at all: no name is known in them from outside, nor behind them."""
        self._values.clear()
        below: list[Any] = []
        node._visit_children(below.append)
        for child in below:
            if not isinstance(child, PrimExpr):
                self.visit(child)
                self._values.clear()


def _addition(store: BufferStore, value: PrimExpr) -> Addition | None:
    """What is added to the element that is stored to where this value is stored."""
    found = _terms(store, value)
    if found is None or any(load.buffer is store.buffer for term, _ in found for load in loads_in(term)):
        return None
    return found


def _terms(store: BufferStore, value: PrimExpr) -> Addition | None:
    """The terms of a value beside the element itself, which is none of them."""
    if _is_element(store, value):
        return ()
    if isinstance(value, Add | Sub):
        found = _terms(store, value.a)
        if found is not None:
            return (*found, (value.b, 1 if isinstance(value, Add) else -1))
        found = _terms(store, value.b) if isinstance(value, Add) else None
        return None if found is None else (*found, (value.a, 1))
    if isinstance(value, Select) and _is_element(store, value.false_value):
        return _where(store, value.true_value, lambda term, zero: Select(value.condition, term, zero))
    if isinstance(value, Call) and value.op.name == "tir.if_then_else" and _is_element(store, value.args[2]):
        condition, chosen, _ = value.args
        return _where(store, chosen, lambda term, zero: Call(value.dtype, value.op, (condition, term, zero)))
    return None


def _where(
    store: BufferStore, value: PrimExpr, choose: Callable[[PrimExpr, PrimExpr], PrimExpr]
) -> Addition | None:
    """The terms of a value that is stored under a condition, and nothing in their place elsewhere."""
    found = _terms(store, value)
    if found is None:
        return None
    return tuple((choose(term, const(0, value.dtype)), sign) for term, sign in found)


def _is_element(store: BufferStore, node: Any) -> bool:
    """Whether an expression is the element that a statement stores to."""
    return (
        isinstance(node, BufferLoad)
        and node.buffer is store.buffer
        and len(node.indices) == len(store.indices)
        and all(map(structural_equal, node.indices, store.indices))
    )
