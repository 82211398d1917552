"""RemoveUnusedParameters: private functions lose parameters that their bodies do not use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...tir.expr import Var as TirVar
from ...transform import ModulePass, PassContext
from ..analysis.binding import use_counts
from ..bind import bound_struct_info
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, PrimValue, Var
from ..function import Function
from ..function_signature import SignatureChange, change_signatures, private_functions
from ..struct_info import PrimStructInfo
from ..struct_info_lattice import BaseCheckResult, match_param, struct_info_base_check
from .grouping import definable_vars, tir_vars_of


def _without(func: Function) -> SignatureChange | None:
    """The change to a function that takes what its body uses; None when that is everything."""
    used = use_counts(func)
    kept = [number for number, param in enumerate(func.params) if used.get(param)]
    if len(kept) == len(func.params):
        return None
    params = [func.params[number] for number in kept]
    symbols = dict.fromkeys(
        symbol
        for block in func.body.blocks
        for binding in block.bindings
        for symbol in (*tir_vars_of(binding.value), *tir_vars_of(binding.var))  # type: ignore[attr-defined]
    )
    if func.ret_struct_info is not None:
        symbols.update(dict.fromkeys(tir_vars_of(func.ret_struct_info)))
    given = definable_vars(param.struct_info_ for param in func.params)
    known = definable_vars(param.struct_info_ for param in params)
    # Symbolic variables that only a removed parameter told are passed by themselves.
    missing = [symbol for symbol in symbols if symbol in given and symbol not in known]
    params += [Var(symbol.name, PrimStructInfo(value=symbol)) for symbol in missing]
    if len(params) >= len(func.params) and missing:
        return None
    new = Function(params, func.body, func.ret_struct_info, func.is_pure, func.attrs, func.span)

    def call(builder: BlockBuilder, old: Call) -> Expr:
        args, values = _checked(builder, func, old, set(kept))
        return old.with_args(
            [args[number] for number in kept] + [PrimValue(values[item]) for item in missing]
        )

    return SignatureChange(new, call)


def _checked(
    builder: BlockBuilder, func: Function, call: Call, kept: set[int]
) -> tuple[list[Expr], dict[Any, Any]]:
    """The arguments of a call, and what the symbols of the callee are.

    What the callee would check of an argument that it no longer gets, since it is not known of it, is checked by a ``match_cast``.
    """
    values: dict[Any, Any] = {}
    for param, arg in zip(func.params, call.args, strict=True):
        match_param(param.struct_info, arg.struct_info, values)
    told = {  # by arguments that are removed
        symbol
        for number, param in enumerate(func.params)
        if number not in kept
        for symbol in tir_vars_of(param.struct_info_)
    }
    # Symbols that arguments of unknown shape tell get names in the caller.
    values.update({symbol: TirVar(symbol.name, symbol.dtype) for symbol in told if symbol not in values})
    args: list[Expr] = []
    for number, (param, arg) in enumerate(zip(func.params, call.args, strict=True)):
        wanted = bound_struct_info(param.struct_info, values)
        compared = number not in kept or not told.isdisjoint(tir_vars_of(param.struct_info_))
        if compared and struct_info_base_check(wanted, arg.struct_info) is not BaseCheckResult.PASS:
            arg = builder.match_cast(arg, wanted, param.name_hint)
        args.append(arg)
    return args, values


@dataclass(frozen=True)
class RemoveUnusedParameters(ModulePass):
    """Remove parameters of private functions that are not used, here and in all calls; callers check what the callee would have.

    Before::

        @R.function(private=True)
        def func(x: R.Tensor((8,)), unused: R.Tensor((8,))):
            return R.exp(x)

        y = cls.func(a, b)

    After: ``def func(x: R.Tensor((8,)))`` and ``y = cls.func(a)``.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with shorter signatures."""
        changes = {var: _without(func) for var, func in private_functions(mod).items()}
        return change_signatures(mod, {var: change for var, change in changes.items() if change is not None})
