"""ExpandTupleArguments: private functions take the fields of a tuple instead of the tuple."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import BindingBlock, Call, Expr, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..function import Function
from ..function_signature import SignatureChange, change_signatures, private_functions
from ..struct_info import TupleStructInfo


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


def flatten_tuples(builder: BlockBuilder, args: Iterable[Expr]) -> Iterator[Expr]:
    """The leaves of arguments that may be nested tuples; the fields of a tuple that is not made in sight are read from it."""
    for arg in args:
        info = arg.struct_info_
        made = builder.lookup_binding(arg) if isinstance(arg, Var) else arg
        if not isinstance(info, TupleStructInfo):
            yield arg
        elif isinstance(made, Tuple):
            yield from flatten_tuples(builder, made.fields)
        else:
            parts = (builder.emit(TupleGetItem(arg, index)) for index in range(len(info.fields)))
            yield from flatten_tuples(builder, parts)


def _call(builder: BlockBuilder, call: Call) -> Expr:
    return call.with_args(tuple(flatten_tuples(builder, call.args)))


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
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in private_functions(mod).items():
            if not any(isinstance(param.struct_info_, TupleStructInfo) for param in func.params):
                continue
            bindings: list[VarBinding] = []
            params = [new for param in func.params for new in _expanded_params(param, bindings)]
            body = SeqExpr((BindingBlock(bindings), *func.body.blocks), func.body.body)
            new = Function(params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)
            changes[var] = SignatureChange(new, _call)
        return change_signatures(mod, changes)
