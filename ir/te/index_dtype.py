"""Changing the dtype of all indices of a PrimFunc: loops, block variables, shapes, regions and index expressions."""

from __future__ import annotations

from typing import Any

from .. import dtype as dt
from ..error import IRTypeError
from ..tir.buffer import Buffer
from ..tir.expr import BufferLoad, Call, IterVar, PrimExpr, Range, Select, Var
from ..tir.function import PrimFunc
from ..tir.operators import cast
from ..tir.stmt import Block, BufferRegion, BufferStore, For, LetStmt, Stmt
from ..tir.stmt_functor import StmtExprMutator


class _IndexDtype(StmtExprMutator):
    """Maps the variables that count (loops, blocks, shapes); what they meet in an expression is converted to fit."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._dtype = dtype
        self._vars: dict[Var, Var] = {}

    def index(self, expr: PrimExpr) -> PrimExpr:
        """An expression in index position, in the wanted dtype."""
        mapped = self.visit(expr)
        return (
            cast(dt.with_lanes(self._dtype, dt.lanes(mapped.dtype)), mapped)
            if dt.is_int(mapped.dtype)
            else mapped
        )

    def define(self, var: Var) -> Var:
        """The counting variable that stands for ``var``."""
        if var not in self._vars:
            self._vars[var] = type(var)(var.name, self._dtype) if dt.is_index(var.dtype) else var
        return self._vars[var]

    def visit_Var(self, node: Var) -> Var:
        return self._vars.get(node, node)

    def visit_Range(self, node: Range) -> Range:
        return Range.from_min_extent(self.index(node.min), self.index(node.extent))

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        found = self._buffers.get(buffer)
        if found is None:
            self._define_extents(buffer)
            found = self._buffers[buffer] = buffer.replace(
                shape=tuple(self.index(extent) for extent in buffer.shape),
                strides=tuple(self.index(stride) for stride in buffer.strides),
            )
        return found

    def _define_extents(self, buffer: Buffer) -> None:
        for extent in (*buffer.shape, *buffer.strides):
            if isinstance(extent, Var):
                self.define(extent)

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        return BufferRegion(self.visit(node.buffer), [self.visit(item) for item in node.region])

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        return BufferLoad(self.visit(node.buffer), [self.index(item) for item in node.indices])

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        buffer = self.visit(node.buffer)
        value = self.visit(node.value)
        if value.dtype != node.value.dtype:
            value = cast(node.value.dtype, value)
        return BufferStore(buffer, value, [self.index(item) for item in node.indices])

    def _binary(self, node: Any) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if a.dtype != b.dtype:
            a, b = cast(self._dtype, a), cast(self._dtype, b)
        return type(node)(a, b)

    visit_BinaryOpExpr = visit_CmpExpr = _binary

    def visit_Select(self, node: Select) -> PrimExpr:
        condition, a, b = (
            self.visit(node.condition),
            self.visit(node.true_value),
            self.visit(node.false_value),
        )
        if a.dtype != b.dtype:
            a, b = cast(self._dtype, a), cast(self._dtype, b)
        return Select(condition, a, b)

    def visit_Call(self, node: Call) -> PrimExpr:
        args = [self.visit(item) for item in node.args]
        if all(new is old for new, old in zip(args, node.args, strict=True)):
            return node
        dtype = node.dtype
        counted = [
            new.dtype != old.dtype
            for new, old in zip(args, node.args, strict=True)
            if isinstance(old, PrimExpr)
        ]
        if any(counted) and dt.is_index(dtype):
            args = [cast(self._dtype, item) if dt.is_index(item.dtype) else item for item in args]
            dtype = self._dtype
        return Call(dtype, node.op, args)

    def visit_For(self, node: For) -> Stmt:
        loop_var = self.define(node.loop_var)
        low, extent = self.index(node.min), self.index(node.extent)
        thread = None if node.thread_binding is None else self.visit(node.thread_binding)
        return For(loop_var, low, extent, node.kind, self.visit(node.body), thread, node.annotations)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        if value.dtype != node.value.dtype:
            value = cast(node.value.dtype, value)
        return LetStmt(node.var, value, self.visit(node.body))

    def visit_IterVar(self, node: IterVar) -> IterVar:
        return IterVar(self.visit(node.dom), self.define(node.var), node.iter_type, node.thread_tag)

    def visit_BlockRealize(self, node: Any) -> Stmt:
        values = [self.index(item) for item in node.iter_values]
        return type(node)(values, self.visit(node.predicate), self.visit(node.block))

    def visit_Block(self, node: Block) -> Block:
        iter_vars = [self.visit(item) for item in node.iter_vars]
        allocated = [self.visit(item) for item in node.alloc_buffers]
        block = self.generic_visit(node.replace(alloc_buffers=()))
        annotations = self.visit_annotations(node.annotations)
        return block.replace(
            iter_vars=tuple(iter_vars), alloc_buffers=tuple(allocated), annotations=annotations
        )

    def function(self, func: PrimFunc) -> PrimFunc:
        """The function with every parameter that is a shape, and everything in the body, mapped."""
        for buffer in func.buffer_map.values():  # an extent of one may be computed from those of a later one
            self._define_extents(buffer)
        buffer_map = {param: self.visit(buffer) for param, buffer in func.buffer_map.items()}
        params = tuple(self._vars.get(param, param) for param in func.params)
        return func.replace(params=params, buffer_map=buffer_map, body=self.visit(func.body))


def with_index_dtype(func: PrimFunc, dtype: str) -> PrimFunc:
    """A copy of ``func`` whose loops, block variables, shapes and indices are of ``dtype`` (int32 or int64).

    Elements of integer buffers keep their dtype; where a loop variable is used as a value it is converted.
    """
    if not dt.is_index(dtype):
        raise IRTypeError(f"indices are int32 or int64, not {dtype!r}")
    return _IndexDtype(dtype).function(func)
