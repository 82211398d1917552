"""RemovePurityChecking: stop tracking effects, for the lowering that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr import StringImm, is_call_to
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from .function_pass import FunctionPass

_DECLARED_PURE = ("relax.call_pure_packed", "relax.call_inplace_packed", "relax.invoke_pure_closure")


class _Unwrapper(ExprMutator):
    def visit_dataflow_block_(self, block: Any) -> Any:
        raise IRValueError(
            "RemovePurityChecking works on functions without dataflow blocks; run ToNonDataflow before"
        )

    def looks_at(self, callee: Any) -> bool:
        return isinstance(callee, Op) and callee.name in _DECLARED_PURE

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        info = call.struct_info
        if is_call_to(call, "relax.call_pure_packed"):
            callee = call.args[0]
            if isinstance(callee, StringImm):
                callee = ExternFunc(callee.value)
            return call.replace(op=callee, args=call.args[1:], struct_info_=info)
        if is_call_to(call, "relax.call_inplace_packed"):
            return call.replace(op=call.args[0], args=call.args[1:], attrs=None, struct_info_=info)
        if is_call_to(call, "relax.invoke_pure_closure"):
            return call.replace(op=Op.get("relax.invoke_closure"), struct_info_=info)
        return call


def remove_purity_checking(func: Function) -> Function:
    """The function with ``relax.force_pure`` set (when it is pure) and plain calls instead of those declared pure."""
    new = _Unwrapper().visit_expr(func)
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
