"""Which statements of a program add to an element, what they add, and how many terms an element is the sum of.

What a sum of several outputs adds has a name before it is stored, so names are followed.

    C[i, j] = C[i, j] + A[i, k] * B[k, j]            adds A[i, k] * B[k, j]
    v = S[i] + A[i, k]; S[i] = v                     adds A[i, k]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ir import dtype as dt
from ir.node import Visitor
from ir.structural import structural_equal
from ir.tir.expr import Add, BufferLoad, Call, FloatImm, PrimExpr, Select, Sub, Var
from ir.tir.stmt import BufferStore, Evaluate, LetStmt, SeqStmt
from ir.tir.stmt_functor import loads_in, variables_in

from .instances import instances_of
from .rounding import format_of

_MOST_TERMS = 64
"""A choice with more, as one of names of choices may have, is no addition: its terms are taken in the order that the program says."""
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
        self._terms: dict[Any, float] = {}
        for item in instances_of(body):
            addition = self._additions[item.store]
            if addition is not None:
                data = item.store.buffer.data
                self._terms[data] = self._terms.get(data, 0) + len(addition) * item.per_element

    def addition(self, store: BufferStore) -> Addition | None:
        """What a statement adds; None for one that does not add to what was there."""
        return self._additions[store]

    def terms(self, buffer: Any) -> float:
        """How many terms one element of a buffer is the sum of, at most: those of all statements that add to it.

        Infinity where that is not known.
        """
        return self._terms.get(buffer.data, 0)


class _Finder(Visitor):
    """Looks at each store, knowing the names around it that still say what memory holds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[BufferStore, Addition | None] = {}
        self._values: dict[Var, PrimExpr] = {}
        """What names stand for whose value would be the same here."""
        self._named: dict[Var, PrimExpr] = {}
        """What all names stand for."""
        self._known: dict[Var, Addition | None] = {}
        """The terms of names in the statement at hand."""

    def visit_LetStmt(self, node: LetStmt) -> None:
        self._values[node.var] = self._named[node.var] = node.value
        self.visit(node.body)
        self._values.pop(node.var, None)

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        for item in node.seq:
            self.visit(item)

    def visit_BufferStore(self, node: BufferStore) -> None:
        addition = self._addition(node) if dt.is_float(node.buffer.dtype) else None
        if node in self.found and not _same(self.found[node], addition):  # the same statement at two places
            addition = None
        self.found[node] = addition
        self._values = {
            var: value
            for var, value in self._values.items()
            if all(load.buffer is not node.buffer for load in loads_in(value))
        }

    def visit_Evaluate(self, node: Evaluate) -> None:
        self._values.clear()  # a call may store anywhere

    def _addition(self, store: BufferStore) -> Addition | None:
        """What a statement adds to the element that it stores to."""
        self._known.clear()
        found = self._terms(store, store.value)
        if not found or any(self._loads(term, store.buffer) for term, _ in found):
            return None
        return found

    def _loads(self, term: PrimExpr, buffer: Any) -> bool:
        """Whether a term, or what a name in it stands for, loads an element of a buffer."""
        seen: set[Var] = set()
        left = [term]
        while left:
            expr = left.pop()
            if any(load.buffer is buffer for load in loads_in(expr)):
                return True
            names = [name for name in variables_in(expr) if name in self._named and name not in seen]
            seen.update(names)
            left += [self._named[name] for name in names]
        return False

    def _terms(self, store: BufferStore, value: PrimExpr) -> Addition | None:
        """The terms of a value beside the element itself, which is none of them."""
        if isinstance(value, Var):
            if value in self._values and value not in self._known:
                self._known[value] = self._terms(store, self._values[value])
            return self._known.get(value)
        if _is_element(store, value):
            return ()
        if isinstance(value, Add | Sub):
            found = self._terms(store, value.a)
            if found is not None:
                return (*found, (value.b, 1 if isinstance(value, Add) else -1))
            found = self._terms(store, value.b) if isinstance(value, Add) else None
            return None if found is None else (*found, (value.a, 1))
        choice = _choice(value)
        if choice is None or not format_of(value.dtype).has_zero:
            return None
        first, second = (self._terms(store, side) for side in choice.sides)
        if first is None or second is None or len(first) + len(second) > _MOST_TERMS:
            return None
        # what is zero so changes nothing, also not the sign of a zero
        nothing = {sign: FloatImm(value.dtype, -0.0 * sign) for sign in (1, -1)}
        where = [(choice.among(term, nothing[sign]), sign) for term, sign in first]
        return (*where, *((choice.among(nothing[sign], term), sign) for term, sign in second))

    def generic_visit(self, node: Any) -> Any:
        """Loops, choices and blocks may run more than once, or not at all: no name is known in them from outside, nor behind them."""
        self._values.clear()
        below: list[Any] = []
        node._visit_children(below.append)
        for child in below:
            if not isinstance(child, PrimExpr):
                self.visit(child)
                self._values.clear()


def _same(one: Addition | None, other: Addition | None) -> bool:
    """Whether two statements add the same."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        sign == sign_there and structural_equal(term, there)
        for (term, sign), (there, sign_there) in zip(one, other)
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """One of two values."""

    sides: tuple[PrimExpr, PrimExpr]
    among: Callable[[PrimExpr, PrimExpr], PrimExpr]
    """The same choice among other values."""


def _choice(value: PrimExpr) -> _Choice | None:
    if isinstance(value, Select):
        return _Choice(
            (value.true_value, value.false_value), lambda one, other: Select(value.condition, one, other)
        )
    if isinstance(value, Call) and value.op.name == "tir.if_then_else":
        condition, first, second = value.args
        return _Choice(
            (first, second), lambda one, other: Call(value.dtype, value.op, (condition, one, other))
        )
    return None


def _is_element(store: BufferStore, node: Any) -> bool:
    """Whether an expression is the element that a statement stores to."""
    return (
        isinstance(node, BufferLoad)
        and node.buffer is store.buffer
        and len(node.indices) == len(store.indices)
        and all(map(structural_equal, node.indices, store.indices))
    )
