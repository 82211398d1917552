"""A walk that knows whether an integer stands among numbers of ℤ (indices, conditions on index arithmetic) or among data, which wraps.

``docs/semantics.md`` ([index-position], [index-condition], [index-atom], [data-wrap]) says which is which.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from ... import dtype as dt
from ...arith.index_arithmetic import IndexArithmetic
from .. import expr as E
from ..expr import PrimExpr
from ..intrinsic.declaration import is_transparent
from ..stmt import BufferStore, Evaluate, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator

_Memory = dict[int, tuple[Any, Any]]


class PositionedMutator(StmtExprMutator):
    """Visits values that are stored, passed or bound with :attr:`in_data` set; indices, bounds of loops and conditions without.

    Args:
        is_index: tells index arithmetic from data, where the walk shares it with others.
    """

    def __init__(self, is_index: IndexArithmetic | None = None) -> None:
        super().__init__()
        self.in_data = False
        """Whether int32 and int64 arithmetic wraps where the walk stands."""
        self.is_index = IndexArithmetic() if is_index is None else is_index
        self._memories: tuple[_Memory | None, _Memory | None] = (None, None)
        """What was made of the parts of the expression that the walk is in, for each of the two positions."""

    def as_data(self, node: PrimExpr) -> PrimExpr:
        """Visit a value."""
        return self._at(node, True)

    def as_number(self, node: PrimExpr) -> PrimExpr:
        """Visit what stands in an index position, or is a condition."""
        return self._at(node, False)

    def _at(self, node: PrimExpr, in_data: bool) -> PrimExpr:
        if self.in_data is in_data:
            return self.visit(node)  # type: ignore[no-any-return]
        # What was made of an expression among data is not what it becomes among numbers: each position has its memory.
        outer = self._remembered
        self._remembered = self._memory_opposite(outer)
        self.in_data = in_data
        try:
            return self.visit(node)  # type: ignore[no-any-return]
        finally:
            self.in_data, self._remembered = not in_data, outer

    def _memory_opposite(self, memory: _Memory | None) -> _Memory:
        """The memory of the other position within the same expression, so that what is shared is visited once for each."""
        for here, there in (self._memories, self._memories[::-1]):
            if here is not None and here is memory and there is not None:
                return there
        new: _Memory = {}
        self._memories = (memory, new)
        return new

    # -- what changes the position ---------------------------------------------
    def visit_BinaryOpExpr(self, node: E.BinaryOpExpr) -> PrimExpr:
        """Types other than int32 and int64 always wrap."""
        if self.in_data or dt.is_index(dt.element_of(node.dtype)):
            return self.operation(node)
        return self.as_data(node)

    def _kept(self, node: PrimExpr, judged: PrimExpr) -> PrimExpr:
        """Data in a place where it would become index arithmetic if the atoms that make it data went away: then it stays as it is."""
        after = self.as_data(node)
        if after is node:
            return node
        result = after.value if judged is not node and isinstance(after, E.Cast) else after
        return node if self.is_index.changes_meaning(judged, result, self.is_exact) else after

    def is_exact(self, node: PrimExpr) -> bool:
        """Whether nothing in an expression can wrap; a walk that knows bounds knows more."""
        return False

    def operation(self, node: E.BinaryOpExpr) -> PrimExpr:
        """Arithmetic; :attr:`in_data` says of which numbers."""
        return self.generic_visit(node)  # type: ignore[no-any-return]

    def visit_CmpExpr(self, node: E.CmpExpr) -> PrimExpr:
        """A comparison with data in it is data."""
        return self.comparison(node) if self.in_data or self.is_index(node) else self._kept(node, node)

    def comparison(self, node: E.CmpExpr) -> PrimExpr:
        """A comparison; :attr:`in_data` says of which numbers."""
        return self.generic_visit(node)  # type: ignore[no-any-return]

    def visit_Cast(self, node: E.Cast) -> PrimExpr:
        """A cast of anything but index arithmetic is data."""
        if self.in_data or self.is_index(node):
            return self.conversion(node)
        return self._kept(node, node.value)

    def conversion(self, node: E.Cast) -> PrimExpr:
        """A cast; :attr:`in_data` says of which numbers."""
        return self.generic_visit(node)  # type: ignore[no-any-return]

    def visit_Select(self, node: E.Select) -> PrimExpr:
        condition = self.as_number(node.condition)
        parts = condition, self.visit(node.true_value), self.visit(node.false_value)
        same = all(map(is_, parts, (node.condition, node.true_value, node.false_value)))
        return node if same else E.Select(*parts, node.span)

    def visit_Call(self, node: E.Call) -> PrimExpr:
        if is_transparent(node):
            return self.generic_visit(node)  # type: ignore[no-any-return]
        if getattr(node.op, "name", "") == "tir.if_then_else":
            args = (self.as_number(node.args[0]), *[self.visit(item) for item in node.args[1:]])
        else:
            args = tuple([self.as_data(item) if isinstance(item, PrimExpr) else item for item in node.args])
        return node if all(map(is_, args, node.args)) else node.replace(args=args)  # type: ignore[no-any-return]

    def visit_BufferLoad(self, node: E.BufferLoad) -> PrimExpr:
        indices = [self.as_number(index) for index in node.indices]
        predicate = None if node.predicate is None else self.as_number(node.predicate)
        if predicate is node.predicate and all(map(is_, indices, node.indices)):
            return node
        return E.BufferLoad(node.buffer, indices, predicate, node.span)

    def visit_Let(self, node: E.Let) -> PrimExpr:
        value = self._bound(node)
        body = self.visit(node.body)
        return node if value is node.value and body is node.body else E.Let(node.var, value, body, node.span)

    def _bound(self, node: Any) -> PrimExpr:
        """The value of a let; the variable holds data unless it is index arithmetic."""
        is_index = dt.is_index(node.value.dtype) and self.is_index(node.value)
        if is_index:
            return self.as_number(node.value)
        self.is_index.mark_data(node.var)
        return self._kept(node.value, node.value)

    # -- statements ------------------------------------------------------------
    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self._bound(node)
        body = self.visit(node.body)
        return (
            node if value is node.value and body is node.body else LetStmt(node.var, value, body, node.span)
        )

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        value = self.as_data(node.value)
        return node if value is node.value else Evaluate(value, node.span)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        value = self.as_data(node.value)
        indices = [self.visit(index) for index in node.indices]
        predicate = None if node.predicate is None else self.visit(node.predicate)
        if value is node.value and predicate is node.predicate and all(map(is_, indices, node.indices)):
            return node
        return BufferStore(node.buffer, value, indices, predicate, node.span)
