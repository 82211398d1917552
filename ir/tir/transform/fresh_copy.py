"""Copies of statements that define their own variables, so that each variable still has one definition."""

from __future__ import annotations

from typing import ClassVar

from ..buffer import Buffer
from ..expr import Let, PrimExpr, Var
from ..stmt import Allocate, AllocateConst, For, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator, substitute


class _Fresh(StmtExprMutator):
    remembers: ClassVar[bool] = False  # every definition that is met again becomes another one

    def __init__(self) -> None:
        super().__init__()
        self.renamed: dict[Var, Var] = {}

    def _new(self, var: Var) -> Var:
        fresh = self.renamed[var] = type(var)(var.name, var.type_annotation or var.dtype)
        return fresh

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.renamed.get(var, var)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data not in self.renamed:
            return buffer
        found = self._buffers.get(buffer)
        if found is None:
            found = self._buffers[buffer] = buffer.replace(data=self.renamed[buffer.data])
        return found

    def visit_For(self, loop: For) -> Stmt:
        self._new(loop.loop_var)
        return self.generic_visit(loop)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        self._new(node.var)
        return self.generic_visit(node)

    def visit_Let(self, node: Let) -> PrimExpr:
        self._new(node.var)
        return self.generic_visit(node)

    def visit_Allocate(self, node: Allocate | AllocateConst) -> Stmt:
        self._new(node.buffer_var)
        return self.generic_visit(node)

    visit_AllocateConst = visit_Allocate


def fresh_copy(stmt: Stmt) -> Stmt:
    """The statement with new variables wherever it defines one (loops, lets, allocations)."""
    return _Fresh().visit(stmt)


def renamed(let: Let) -> Let:
    """The same value under a new variable, where the variable has other meanings elsewhere."""
    var = type(let.var)(let.var.name, let.var.dtype)
    return Let(var, let.value, substitute(let.body, {let.var: var}))
