"""LowerIntrin: calls of intrinsics become what the emitter of a target kind prints."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRTypeError, IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...target.target import Target
from ...transform import PassContext
from ..expr import Call, PrimExpr
from ..function import PrimFunc
from ..intrinsic.declaration import find
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


class _Lower(StmtExprMutator):
    def __init__(self, kind: str, function: str) -> None:
        super().__init__()
        self.kind = kind
        self.function = function

    def visit_Call(self, call: Call) -> PrimExpr:
        if isinstance(call.op, GlobalVar):
            return self.generic_visit(call)
        record = find(call)
        lowering = None if record is None else record.lowering_for(self.kind)
        if lowering is None:
            raise IRValueError(
                f"function {self.function}: the intrinsic {call.op.name} has no form for target kind {self.kind};"
                f' give its declaration a lowering for "{self.kind}", or do without it'
            )
        lowered = lowering(call)
        if lowered.dtype != call.dtype:  # whoever uses the value would take its bits for another dtype's
            raise IRTypeError(
                f"function {self.function}: the lowering of the intrinsic {call.op.name} for target kind {self.kind} gives"
                f" {lowered.dtype} for a call of dtype {call.dtype}; cast its result to the call's dtype"
            )
        return self.generic_visit(call) if lowered is call else self.visit(lowered)


@dataclass(frozen=True)
class LowerIntrin(PrimFuncPass):
    """Rewrite calls of intrinsics to the simpler ones, and to arithmetic, that a target kind's emitter knows.

    Each intrinsic declares its form per kind (:mod:`ir.tir.intrinsic`). An intrinsic without one for this kind is an error
    that names it and the function.

    Before::

        B[i] = T.floor(A[i]) + T.exp(A[i])

    After, for LLVM::

        B[i] = T.call_llvm_pure_intrin("float32", "llvm.floor.f32", A[i]) + T.call_pure_extern("float32", "loopsmith.exp", A[i])
    """

    target: Target | str | None = None
    """The target, or the name of its kind; None is what each function says, and LLVM where it says nothing."""
    pass_name = "tir.LowerIntrin"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function in terms of what the target's emitter knows."""
        target = func.attrs.get("target", "llvm") if self.target is None else self.target
        kind = target if isinstance(target, str) else target.kind_name
        name = next((var.name_hint for var, item in mod.functions.items() if item is func), "(unnamed)")
        return func.replace(body=_Lower(kind, name).visit(func.body))
