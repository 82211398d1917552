"""FlattenBuffer: every access becomes one-dimensional, with a simplified index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier
from ...module import IRModule
from ...transform import PassContext
from .. import expr as E
from .. import operators
from ..analysis.reads_memory import reads_memory
from ..buffer import Buffer, exactly, number_of_elements
from ..expr import BufferLoad, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Allocate, AllocateConst, AttrStmt, BufferStore, DeclBuffer, For, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


class _Flatten(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.simplifier = IndexSimplifier()
        self._flat: dict[Buffer, Buffer] = {}

    def flat(self, buffer: Buffer) -> Buffer:
        """The one-dimensional buffer over the same data, from element 0 on."""
        found = self._flat.get(buffer)
        if found is None:
            if buffer.strides or buffer.elem_offset is not None or buffer.axis_separators:
                # offsets and strides go into the index
                total = number_of_elements(*buffer.extents_of_memory())
                found = buffer.replace(shape=(total,), strides=(), elem_offset=None, axis_separators=())
            else:
                found = buffer.get_flattened_buffer()
            self._flat[buffer] = found
        return found

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        self.simplifier.bind_thread(stmt)
        return super().visit_AttrStmt(stmt)

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        return self.generic_visit(loop)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def index(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        """The flat offset of an access."""
        indices = tuple([self.visit(index) for index in indices])
        last = indices[-1] if indices else None
        if last is not None and dt.lanes(last.dtype) > 1:
            return self._vector_index(buffer, indices)
        return self._offset(buffer, indices)

    def _offset(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> PrimExpr:
        """The flat offset of an element, in 64 bits where 32 may not hold it."""
        offset = buffer.offset_of(indices)[0]
        value = self.simplifier.linear(offset)
        if offset.dtype == "int32" and (not value.fits("int32") or self._needs_int64(buffer, offset)):
            return self.simplifier.build(value, "int64")
        return self.simplifier.simplify(offset)

    def _vector_index(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        *others, last = indices
        stride: PrimExpr = buffer.strides[-1] if buffer.strides else const(1, "int32")
        if isinstance(last, E.Ramp):
            base = self._offset(buffer, [*others, last.base])
            step = self.simplifier.simplify(exactly(mul, last.stride, stride))
            width = "int64" if step.dtype == "int64" else base.dtype
            return E.Ramp(operators.cast(width, base), operators.cast(width, step), last.lanes)
        if isinstance(last, E.Broadcast):
            return E.Broadcast(self._offset(buffer, [*others, last.value]), last.lanes)
        base = self._offset(buffer, [*others, const(0, "int32")])
        if last.dtype.startswith("int32x") and (
            "int64" in (base.dtype, stride.dtype) or self._needs_int64(buffer, last)
        ):
            base, last = operators.cast("int64", base), operators.cast(f"int64x{dt.lanes(last.dtype)}", last)
        return base + last * operators.cast(dt.element_of(last.dtype), stride)

    def _needs_int64(self, buffer: Buffer, offset: PrimExpr) -> bool:
        """Whether int32 may not hold an offset; what no data is part of gets the width of addresses later on."""
        if len(buffer.shape) <= 1 and not buffer.strides and buffer.elem_offset is None:
            return False  # the offset is the index
        (size,) = self.flat(buffer).shape
        return size.value >= 1 << 31 if isinstance(size, IntImm) else reads_memory(offset)

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        predicate = self.visit(load.predicate) if load.predicate is not None else None
        return BufferLoad(
            self.flat(load.buffer), (self.index(load.buffer, load.indices),), predicate, load.span
        )

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        predicate = self.visit(store.predicate) if store.predicate is not None else None
        index = self.index(store.buffer, store.indices)
        return BufferStore(self.flat(store.buffer), self.visit(store.value), (index,), predicate, store.span)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        return node.replace(extents=(number_of_elements(*node.extents),), body=self.visit(node.body))

    def visit_AllocateConst(self, node: AllocateConst) -> Stmt:
        return node.replace(extents=(number_of_elements(*node.extents),), body=self.visit(node.body))

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        return node.replace(buffer=self.flat(node.buffer), body=self.visit(node.body))


@dataclass(frozen=True)
class FlattenBuffer(PrimFuncPass):
    """Rewrite accesses to one dimension: row-major, or by the buffer's strides and offset.

    ``buffer_map`` keeps the shapes that callers see.

    Before::

        B_data = T.allocate([4, 8], "float32", "global")
        B[i, j] = A[i, j] + 1.0

    After::

        B_data = T.allocate([32], "float32", "global")
        B[i * 8 + j] = A[i * 8 + j] + 1.0
    """

    pass_name = "tir.FlattenBuffer"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with one-dimensional accesses."""
        flatten = _Flatten()
        for buffer in func.buffer_map.values():
            for extent in buffer.shape:
                if isinstance(extent, Var):
                    flatten.simplifier.bind(extent, 0, 1 << 40)
        return func.replace(body=flatten.visit(func.body))
