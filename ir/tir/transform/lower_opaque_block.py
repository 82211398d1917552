"""LowerOpaqueBlock: blocks become plain statements, their buffers allocations, their predicates conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..analysis.reads_memory import reads_memory
from ..expr import IntImm, IterVar, PrimExpr, Range, StringImm, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import Allocate, AttrStmt, Block, BlockRealize, For, ForKind, IfThenElse, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator
from ..thread_axis import COMMON_TO_VIRTUAL_THREADS, is_virtual
from .prim_func_pass import PrimFuncPass


class _Lower(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Var, PrimExpr] = {}

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        predicate = self.visit(realize.predicate)
        body = self.visit(realize.block)
        if isinstance(predicate, IntImm) and predicate.value:
            return body
        return IfThenElse(predicate, body)

    def visit_Block(self, block: Block) -> Stmt:
        body = self.visit(block.body)
        common = [int(getattr(n, "value", n)) for n in block.annotations.get(COMMON_TO_VIRTUAL_THREADS, ())]
        for position, buffer in reversed(list(enumerate(block.alloc_buffers))):
            buffer = self.visit(buffer)
            notes: dict[str, Any] = (
                {"data_alignment": buffer.data_alignment} if buffer.data_alignment != 64 else {}
            )
            if position in common:
                notes[COMMON_TO_VIRTUAL_THREADS] = 1
            extents = buffer.extents_of_memory()
            body = Allocate(buffer.data, buffer.dtype, extents, const(True), body, notes)
        for key, value in block.annotations.items():
            if key.startswith("pragma_"):
                body = AttrStmt(StringImm(""), key, _attr_value(value), body)
        return body

    def visit_For(self, loop: For) -> Stmt:
        start, extent = self.visit(loop.min), self.visit(loop.extent)
        pragmas = {key: value for key, value in loop.annotations.items() if key.startswith("pragma_")}
        others = {key: value for key, value in loop.annotations.items() if key not in pragmas}
        unit = isinstance(extent, IntImm) and extent.value == 1
        if loop.kind == ForKind.THREAD_BINDING:
            axis = loop.thread_binding
            tag = axis.thread_tag if axis is not None else ""
            thread = IterVar(Range.from_min_extent(start, extent), loop.loop_var, IterVar.ThreadIndex, tag)
            key = "virtual_thread" if is_virtual(tag) else "thread_extent"
            result: Stmt = AttrStmt(thread, key, extent, self.visit(loop.body))
        elif unit and not others and reads_memory(start):  # which the body may change
            result = LetStmt(loop.loop_var, start, self.visit(loop.body))
        elif unit and not others:
            self.values[loop.loop_var] = start
            result = self.visit(loop.body)
            del self.values[loop.loop_var]
        else:
            body = self.visit(loop.body)
            result = For(
                loop.loop_var, start, extent, loop.kind, body, loop.thread_binding, others, loop.span
            )
        for key, value in pragmas.items():
            result = AttrStmt(loop.loop_var, key, _attr_value(value), result)
        return result


def _attr_value(value: Any) -> Any:
    return StringImm(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class LowerOpaqueBlock(PrimFuncPass):
    """Remove blocks: what they allocate becomes ``Allocate``, their predicate ``if``, pragmas become attributes.

    Loops of one iteration disappear. A loop bound to a thread becomes the attribute ``thread_extent``, to a virtual
    one ``virtual_thread``.

    Before::

        for i in range(16):
            with T.block(""):
                T.where(i < 10)
                B = T.alloc_buffer((4,))
                B[0] = A[i]

    After::

        for i in range(16):
            if i < 10:
                B_data = T.allocate([4], "float32", "global")
                B[0] = A[i]
    """

    pass_name = "tir.LowerOpaqueBlock"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without blocks."""
        return func.replace(body=_Lower().visit(func.body))
