"""ExpandTupleArguments: private functions take the fields of a tuple instead of the tuple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import BindingBlock, Call, Expr, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..function import Function
from ..struct_info import TupleStructInfo
from .interprocedural import NewCall, change_functions, private_functions


def _expanded_params(param: Var, bindings: list[VarBinding]) -> list[Var]:
    """Parameters for the leaves of a tuple; bindings put the tuple together again for the body."""
    info = param.struct_info
    if not isinstance(info, TupleStructInfo):
        return [param]
    params: list[Var] = []
    fields: list[Expr] = []
    for index, field in enumerate(info.fields):
        part = Var(f"{param.name_hint}_{index}", field)
        params += _expanded_params(part, bindings)
        fields.append(part)
    bindings.append(VarBinding(param, Tuple(fields)))
    return params


def _expanded_args(rewriter: Any, arg: Expr, args: list[Expr]) -> None:
    info = arg.struct_info_
    if not isinstance(info, TupleStructInfo):
        args.append(arg)
        return
    made = arg if isinstance(arg, Tuple) else rewriter.lookup(arg)
    for index in range(len(info.fields)):
        if isinstance(made, Tuple):
            _expanded_args(rewriter, made.fields[index], args)
        else:
            _expanded_args(rewriter, rewriter.emit(TupleGetItem(arg, index)), args)


def _call(rewriter: Any, call: Call) -> Expr:
    args: list[Expr] = []
    for arg in call.args:
        _expanded_args(rewriter, arg, args)
    return Call(call.op, args, call.attrs, call.sinfo_args, call.span, call.struct_info_)


@dataclass(frozen=True)
class ExpandTupleArguments(ModulePass):
    """Replace tuple parameters of private functions by one parameter per field.

    Before::

        @R.function(private=True)
        def func(args: R.Tuple(R.Tensor((8,)), R.Tensor((8,)))):
            return R.add(args[0], args[1])

    After::

        @R.function(private=True)
        def func(args_0: R.Tensor((8,)), args_1: R.Tensor((8,))):
            args = (args_0, args_1)
            return R.add(args[0], args[1])
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with expanded signatures."""
        changed: dict[GlobalVar, tuple[Function, NewCall]] = {}
        for var, func in private_functions(mod).items():
            if not any(isinstance(param.struct_info_, TupleStructInfo) for param in func.params):
                continue
            bindings: list[VarBinding] = []
            params = [new for param in func.params for new in _expanded_params(param, bindings)]
            body = SeqExpr((BindingBlock(bindings), *func.body.blocks), func.body.body)
            changed[var] = (
                Function(params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span),
                _call,
            )
        return change_functions(mod, changed)
