"""LazyGetInput: weights are fetched by a callback one by one, as they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...tir.expr import Var as TirVar
from ...transform import ModulePass, PassContext
from ..bind import bind
from ..block_builder import BlockBuilder
from ..expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Var,
    VarBinding,
)
from ..function import Function
from ..function_signature import MapCall, SignatureChange, change_signatures
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, StructInfo
from ..struct_info_lattice import erase_to_well_defined
from ..symbolic_vars import definable_tir_vars_in_struct_info, tir_vars_in
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

    Weights that tell what a symbolic extent is are fetched first, and callers are not told extents that only weights tell.
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
    weights = func.params[count:]

    def untyped(number: int) -> tuple[Call, str]:
        name = weights[number].name_hint
        return Call(callback, (PrimValue(number), StringImm(name))), f"{name}_untyped"

    def fetch(builder: BlockBuilder, number: int, weight: Var) -> Var:
        value = builder.emit(*untyped(number))
        return builder.match_cast(value, weight.struct_info, weight.name_hint)

    known = {symbol for param in params for symbol in definable_tir_vars_in_struct_info(param.struct_info)}
    first: list[Binding] = []
    values: dict[Var, Expr] = {}
    for number in that_tell_extents(weights, known):
        weight = weights[number]
        call, name = untyped(number)
        value, values[weight] = Var(name, ObjectStructInfo()), Var(weight.name_hint, weight.struct_info_)
        first += [VarBinding(value, call), MatchCast(values[weight], value, weight.struct_info)]
    body = bind(to_non_dataflow(func).body, values) if values else to_non_dataflow(func).body
    if first:
        body = SeqExpr((BindingBlock(first), *body.blocks), body.body, body.struct_info_)
    body = FirstUseReader(mod, weights, fetch).visit_with_new_scope(body, params)
    result = None if func.ret_struct_info is None else visible_to_callers(func.ret_struct_info, known)
    return Function(params, body, result, func.is_pure, func.attrs, func.span)


def visible_to_callers(info: StructInfo, known: Iterable[TirVar]) -> StructInfo:
    """What a caller is told of a result, where the parameters tell only the ``known`` symbolic variables."""
    return erase_to_well_defined(info, {symbol: symbol for symbol in known})


def that_tell_extents(weights: Sequence[Var], known: set[TirVar]) -> list[int]:
    """The numbers of the weights that tell what a symbolic variable is: in an order in which each has what it mentions.

    They are fetched where the function begins: the variable is in the types of what is computed before they are used.
    """
    told = set(known)
    chosen: list[int] = []
    while True:
        for number, weight in enumerate(weights):
            own = set(definable_tir_vars_in_struct_info(weight.struct_info))
            if number not in chosen and own - told and told | own >= set(tir_vars_in(weight.struct_info)):
                chosen.append(number)
                told |= own
                break
        else:
            return chosen
