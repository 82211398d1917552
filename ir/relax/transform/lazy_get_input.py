"""LazyGetInput: weights are fetched by a callback one by one, as they are needed."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, PrimValue, StringImm, Var
from ..function import Function
from ..function_signature import MapCall, SignatureChange, change_signatures
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo
from .first_use_reader import FirstUseReader
from .to_non_dataflow import to_non_dataflow


def no_callers(pass_name: str, var: GlobalVar) -> MapCall:
    """Refuses calls of a function that gets a callback, which its callers in the module do not have."""

    def refuse(builder: BlockBuilder, call: Call) -> Expr:
        raise IRValueError(
            f"{pass_name}: {var.name_hint} is called in the module, and its caller has no callback to pass; apply the pass "
            "to functions that only the program around the module calls"
        )

    return refuse


@dataclass(frozen=True)
class LazyGetInput(ModulePass):
    """Replace weights (parameters behind ``num_input``) by a callback that returns them when they are needed.

    Before: ``def main(x: R.Tensor((1, 4)), A: R.Tensor((4, 4)))`` with ``num_input`` 1

    After::

        def main(x: R.Tensor((1, 4)), fget_param: R.Callable([R.Prim("int64"), R.Object], R.Object)):
            A_untyped = fget_param(R.prim_value(0), R.str("A"))
            A = R.match_cast(A_untyped, R.Tensor((4, 4)))
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with callbacks; raises IRValueError when such a function is called in the module."""
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            if isinstance(func, Function) and "num_input" in func.attrs and "Codegen" not in func.attrs:
                changes[var] = SignatureChange(_fetching(mod, func), no_callers("LazyGetInput", var))
        return change_signatures(mod, changes)


def _fetching(mod: IRModule, func: Function) -> Function:
    """The function that calls for its weights."""
    count = func.attrs.get_int("num_input")
    info = FuncStructInfo([PrimStructInfo("int64"), ObjectStructInfo()], ObjectStructInfo(), True)
    callback = Var("fget_param", info)
    params = (*func.params[:count], callback)

    def fetch(builder: BlockBuilder, number: int, weight: Var) -> Var:
        args = (PrimValue(number), StringImm(weight.name_hint))
        untyped = builder.emit(Call(callback, args), f"{weight.name_hint}_untyped")
        return builder.match_cast(untyped, weight.struct_info, weight.name_hint)

    reader = FirstUseReader(mod, func.params[count:], fetch)
    body = reader.visit_with_new_scope(to_non_dataflow(func).body, params)
    return Function(params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)
