"""A walk over TIR that tells uses of variables and buffers from their definitions."""

from __future__ import annotations

from typing import Any

from ...node import Node, Visitor
from .. import expr as E
from .. import stmt as S
from ..buffer import Buffer
from ..function import PrimFunc


class ScopedVisitor(Visitor):
    """Visits a program calling :meth:`enter_definition` / :meth:`exit_definition` around the scope of every variable.

    Subclasses override those and :meth:`use`; variables inside the declaration of a buffer count as used where the
    buffer is declared. ``enter_buffer`` and ``exit_buffer`` frame the scope of a buffer, ``use_buffer`` is called at accesses.
    """

    def enter_definition(self, var: E.Var, where: Node) -> None:
        """The variable is defined from here on."""

    def exit_definition(self, var: E.Var) -> None:
        """Its scope ends."""

    def enter_buffer(self, buffer: Buffer, where: Node) -> None:
        """The buffer is declared from here on."""

    def exit_buffer(self, buffer: Buffer) -> None:
        """Its scope ends."""

    def use(self, var: E.Var) -> None:
        """The variable is read."""

    def use_buffer(self, buffer: Buffer, access: Any) -> None:
        """The buffer is read or written by a load, a store or a region."""
        self.use(buffer.data)

    # ---- expressions --------------------------------------------------------------------------------------------

    def visit_Var(self, var: E.Var) -> None:
        self.use(var)

    def visit_Op(self, op: Any) -> None:
        """Nothing inside."""

    def visit_GlobalVar(self, var: Any) -> None:
        """Nothing inside."""

    def visit_Buffer(self, buffer: Buffer) -> None:
        """Reached through definitions and accesses only."""

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self.use_buffer(load.buffer, load)
        for index in load.indices:
            self.visit(index)
        if load.predicate is not None:
            self.visit(load.predicate)

    def visit_Let(self, let: E.Let) -> None:
        self.visit(let.value)
        self.enter_definition(let.var, let)
        with self.forgetting():  # parts of it may stand outside of the scope, too
            self.visit(let.body)
        self.exit_definition(let.var)

    def visit_Reduce(self, reduce: E.Reduce) -> None:
        for axis in reduce.axis:
            self.visit(axis.dom.min)
            self.visit(axis.dom.extent)
            self.enter_definition(axis.var, reduce)
        with self.forgetting():
            for item in (*reduce.source, *reduce.init, reduce.condition):
                self.visit(item)
        for axis in reversed(reduce.axis):
            self.exit_definition(axis.var)

    # ---- statements ---------------------------------------------------------------------------------------------

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self.use_buffer(store.buffer, store)
        self.visit(store.value)
        for index in store.indices:
            self.visit(index)
        if store.predicate is not None:
            self.visit(store.predicate)

    def visit_BufferRegion(self, region: S.BufferRegion) -> None:
        self.use_buffer(region.buffer, region)
        for item in region.region:
            self.visit(item.min)
            self.visit(item.extent)

    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self.enter_definition(loop.loop_var, loop)
        self.visit(loop.body)
        self.exit_definition(loop.loop_var)

    def visit_LetStmt(self, stmt: S.LetStmt) -> None:
        self.visit(stmt.value)
        self.enter_definition(stmt.var, stmt)
        self.visit(stmt.body)
        self.exit_definition(stmt.var)

    def visit_Allocate(self, stmt: Any) -> None:
        for extent in stmt.extents:
            self.visit(extent)
        if isinstance(stmt, S.Allocate):
            self.visit(stmt.condition)
        self.enter_definition(stmt.buffer_var, stmt)
        self.visit(stmt.body)
        self.exit_definition(stmt.buffer_var)

    visit_AllocateConst = visit_Allocate

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> None:
        self.visit(stmt.value)
        if stmt.thread is not None:
            self.enter_definition(stmt.thread.var, stmt)
            self.visit(stmt.body)
            self.exit_definition(stmt.thread.var)
            return
        if isinstance(stmt.node, E.PrimExpr):
            self.visit(stmt.node)
        self.visit(stmt.body)

    def declared_vars(self, buffer: Buffer) -> None:
        """Visit the expressions of a buffer's declaration."""
        for item in (*buffer.shape, *buffer.strides):
            self.visit(item)
        if buffer.elem_offset is not None:
            self.visit(buffer.elem_offset)

    def visit_DeclBuffer(self, stmt: S.DeclBuffer) -> None:
        self.use(stmt.buffer.data)
        self.declared_vars(stmt.buffer)
        self.enter_buffer(stmt.buffer, stmt)
        self.visit(stmt.body)
        self.exit_buffer(stmt.buffer)

    def visit_BufferRealize(self, stmt: S.BufferRealize) -> None:
        for item in stmt.bounds:
            self.visit(item.min)
            self.visit(item.extent)
        self.visit(stmt.condition)
        self.enter_definition(stmt.buffer.data, stmt)
        self.enter_buffer(stmt.buffer, stmt)
        self.visit(stmt.body)
        self.exit_buffer(stmt.buffer)
        self.exit_definition(stmt.buffer.data)

    def visit_Block(self, block: S.Block) -> None:
        for iv in block.iter_vars:
            self.visit(iv.dom.min)
            self.visit(iv.dom.extent)
        for iv in block.iter_vars:
            self.enter_definition(iv.var, block)
        for buffer in block.alloc_buffers:
            self.declared_vars(buffer)
            self.enter_definition(buffer.data, block)
            self.enter_buffer(buffer, block)
        inner: list[E.Var] = []
        for match in block.match_buffers:
            self.visit(match.source)
            for var in (match.buffer.data, *_free_declarations(match.buffer)):
                self.enter_definition(var, block)
                inner.append(var)
            self.enter_buffer(match.buffer, block)
        for region in (*block.reads, *block.writes):
            self.visit(region)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        for match in reversed(block.match_buffers):
            self.exit_buffer(match.buffer)
        for var in reversed(inner):
            self.exit_definition(var)
        for buffer in reversed(block.alloc_buffers):
            self.exit_buffer(buffer)
            self.exit_definition(buffer.data)
        for iv in reversed(block.iter_vars):
            self.exit_definition(iv.var)

    def visit_PrimFunc(self, func: PrimFunc) -> None:
        defined: list[E.Var] = []

        def define(var: E.Var) -> None:
            if not any(var is known for known in defined):
                defined.append(var)
                self.enter_definition(var, func)

        for param in func.params:
            self.enter_definition(param, func)
        known = set(func.params)
        buffers = list(func.buffer_map.values())
        for buffer in buffers:
            if buffer.data not in known:
                define(buffer.data)
            for item in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                if isinstance(item, E.Var) and item not in known:
                    define(item)
        for buffer in buffers:
            self.declared_vars(buffer)
            self.enter_buffer(buffer, func)
        self.visit(func.body)
        for buffer in reversed(buffers):
            self.exit_buffer(buffer)
        for var in reversed(defined):
            self.exit_definition(var)
        for param in reversed(func.params):
            self.exit_definition(param)


def _free_declarations(buffer: Buffer) -> list[E.Var]:
    """Variables that a matched buffer's declaration binds: strides and offset."""
    return [item for item in (*buffer.strides, buffer.elem_offset) if isinstance(item, E.Var)]
