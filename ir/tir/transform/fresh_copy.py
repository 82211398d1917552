"""Copies of statements that define their own variables and buffers, so that each of these still has one definition."""

from __future__ import annotations

from typing import Any, ClassVar

from ...node import post_order_visit
from ..buffer import Buffer
from ..expr import Let, PrimExpr, Reduce, Var
from ..stmt import Allocate, AllocateConst, Block, BufferRealize, DeclBuffer, For, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator, substitute


class _Fresh(StmtExprMutator):
    remembers: ClassVar[bool] = False  # every definition that is met again becomes another one

    def __init__(self) -> None:
        super().__init__()
        self.renamed: dict[Var, Var] = {}

    def _new(self, var: Var) -> None:
        if var in self.renamed:  # met again: what was declared with its last copy is of that one
            self._buffers = {
                buffer: copy for buffer, copy in self._buffers.items() if not _mentions(buffer, var)
            }
        self.renamed[var] = type(var)(var.name, var.type_annotation or var.dtype)

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.renamed.get(var, var)

    def visit_For(self, loop: For) -> Stmt:
        self._new(loop.loop_var)
        return self._with_annotations(loop, self.generic_visit(loop))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        self._new(node.var)
        return self.generic_visit(node)

    def visit_Let(self, node: Let) -> PrimExpr:
        self._new(node.var)
        return self.generic_visit(node)

    def visit_Reduce(self, node: Reduce) -> PrimExpr:
        for axis in node.axis:
            self._new(axis.var)
        return self.generic_visit(node)

    def visit_Allocate(self, node: Allocate | AllocateConst) -> Stmt:
        self._new(node.buffer_var)
        return self.generic_visit(node)

    visit_AllocateConst = visit_Allocate

    def visit_BufferRealize(self, node: BufferRealize) -> Stmt:
        self._new(node.buffer.data)
        return self.generic_visit(node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        copy = self.generic_visit(node.buffer)
        # a list is another object than the tuple, so that the buffer becomes another one even if nothing of it changed
        self._buffers[node.buffer] = copy.replace(shape=list(copy.shape)) if copy is node.buffer else copy
        return self.generic_visit(node)

    def visit_Block(self, block: Block) -> Block:
        for axis in block.iter_vars:
            self._new(axis.var)
        for buffer in block.alloc_buffers:
            self._new(buffer.data)
        for match in block.match_buffers:
            bound = match.buffer.strides, match.buffer.elem_offset
            for var in (match.buffer.data, *bound[0], bound[1]):
                if isinstance(var, Var):
                    self._new(var)
        return self._with_annotations(block, self.generic_visit(block))

    def _with_annotations(self, before: Any, copy: Any) -> Any:
        annotations = self.visit_annotations(before.annotations) if before.annotations else before.annotations
        return copy if annotations is before.annotations else copy.replace(annotations=annotations)


def _mentions(buffer: Buffer, var: Var) -> bool:
    found: list[Any] = []
    post_order_visit(buffer, lambda node: found.append(node) if node is var else None)
    return bool(found)


def fresh_copy(stmt: Stmt) -> Stmt:
    """The statement with new variables and buffers wherever it defines one: in loops, lets, allocations, reductions and blocks.

    Variables of threads stay: they are the same thread's in every copy.
    """
    return _Fresh().visit(stmt)


def renamed(let: Let) -> Let:
    """The same value under a new variable, where the variable has other meanings elsewhere."""
    var = type(let.var)(let.var.name, let.var.dtype)
    return Let(var, let.value, substitute(let.body, {let.var: var}))
