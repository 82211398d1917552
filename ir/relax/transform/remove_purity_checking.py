"""RemovePurityChecking: stop tracking effects, for the lowering that follows."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr import Call, DataflowBlock, StringImm, Var
from ..function import ExternFunc, Function
from .binding_rewriter import BindingRewriter, is_call_to
from .function_pass import FunctionPass


class _Unwrapper(BindingRewriter):
    def visit_block(self, block: object) -> None:
        if isinstance(block, DataflowBlock):
            raise IRValueError(
                "RemovePurityChecking works on functions without dataflow blocks; run ToNonDataflow before"
            )
        super().visit_block(block)  # type: ignore[arg-type]

    def visit_call(self, var: Var, call: Call) -> None:
        info = call.struct_info_
        if is_call_to(call, "relax.call_pure_packed"):
            callee = call.args[0]
            if isinstance(callee, StringImm):
                callee = ExternFunc(callee.value)
            call = Call(callee, call.args[1:], call.attrs, call.sinfo_args, call.span, info)
        elif is_call_to(call, "relax.call_inplace_packed"):
            call = Call(call.args[0], call.args[1:], None, call.sinfo_args, call.span, info)
        elif is_call_to(call, "relax.invoke_pure_closure"):
            call = Call(
                Op.get("relax.invoke_closure"), call.args, call.attrs, call.sinfo_args, call.span, info
            )
        self.bind(var, call)


def remove_purity_checking(func: Function) -> Function:
    """The function with ``relax.force_pure`` set (when it is pure) and plain calls instead of those declared pure."""
    new = _Unwrapper().rewrite(func)
    if func.is_pure and not new.attrs.get("relax.force_pure"):
        new = new.with_attr("relax.force_pure", True)
    return new


@dataclass(frozen=True)
class RemovePurityChecking(FunctionPass):
    """Set ``relax.force_pure`` on pure functions and unwrap calls that only declare purity; run it behind ToNonDataflow.

    Before: ``y = R.call_pure_packed("f", x, sinfo_args=(R.Tensor((8,), "float32"),))``

    After: ``R.func_attr({"relax.force_pure": True})`` and ``y = R.call_packed("f", x, ...)``
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function without purity tracking."""
        return remove_purity_checking(func)
