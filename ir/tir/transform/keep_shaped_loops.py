"""KeepShapedLoops: loops that a schedule has given their form are marked, so that a backend compiler leaves them alone."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt
from ...module import IRModule
from ...transform import PassContext
from ..expr import IntImm, PrimExpr, Ramp
from ..function import PrimFunc
from ..stmt import SHAPED, BufferStore, For, ForKind, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass

#: Copies of a scalar loop beyond which it is not worth a compiler's time to think about each.
_MANY_COPIES = 4


class _Mark(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.is_shaped = False  # whether there are vectors or loops to be copied in what was visited last
        self.copies = 1

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if dt.lanes(store.value.dtype) == 1:
            return self.generic_visit(store)  # type: ignore[no-any-return]  # vectors may be reduced to what is stored
        self.is_shaped = True
        return store

    def visit_Ramp(self, node: Ramp) -> PrimExpr:
        self.is_shaped = True
        return node

    def visit_For(self, loop: For) -> Stmt:
        outer, self.is_shaped = self.is_shaped, loop.kind == ForKind.UNROLLED
        factor = loop.extent.value if self.is_shaped and isinstance(loop.extent, IntImm) else 1
        self.copies *= factor
        body = self.visit(loop.body)
        self.copies //= max(factor, 1)
        marked = loop if body is loop.body else loop.replace(body=body)
        if self.is_shaped or self.copies > _MANY_COPIES:
            marked = marked.replace(annotations={**loop.annotations, SHAPED: True})
        self.is_shaped = self.is_shaped or outer
        return marked


@dataclass(frozen=True)
class KeepShapedLoops(PrimFuncPass):
    """Mark loops with vectors or loops to be copied inside (``tir.shaped``): they are as the schedule wants them.

    LLVM would unroll them further or look for vectors in them, which costs time and now and then breaks a register tile. What
    is left without a mark are the plain loops that it is good at.

    Before::

        for k in range(64):
            for i in T.unroll(4):
                C[i] = C[i] + A[i * 64 + k]

    After::

        for k in T.serial(64, annotations={"tir.shaped": True}):
            for i in T.unroll(4, annotations={"tir.shaped": True}):
                C[i] = C[i] + A[i * 64 + k]
    """

    pass_name = "tir.KeepShapedLoops"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with marked loops."""
        body = _Mark().visit(func.body)
        return func if body is func.body else func.replace(body=body)
