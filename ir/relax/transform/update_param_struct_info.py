"""UpdateParamStructInfo: give parameters other struct infos, and infer everything behind them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import Var
from ..expr_functor import ExprMutator
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from ..struct_info import StructInfo


@dataclass(frozen=True)
class UpdateParamStructInfo(ModulePass):
    """Change the struct infos of parameters; bindings and return types follow by inference.

    Before: ``def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32")``

    After, where the function returned ``R.Tensor((8,), "float16")`` for ``x``:
    ``def main(x: R.Tensor((8,), "float16")) -> R.Tensor((8,), "float16")``

    Args:
        sinfo_func: the new struct info of a parameter, or None to keep it.
    """

    sinfo_func: Callable[[Var], StructInfo | None]

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with other signatures."""
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            new = self._updated(mod, func) if isinstance(func, Function) else func
            if new is not func:
                changes[var] = SignatureChange(new)
        return change_signatures(mod, changes)

    def _updated(self, mod: IRModule, func: Function) -> Function:
        """The function with other parameters; every value that used one is inferred again where it is bound."""
        infos = [self.sinfo_func(param) for param in func.params]
        if all(
            info is None or info == param.struct_info_ for info, param in zip(infos, func.params, strict=True)
        ):
            return func
        mutator = ExprMutator(mod)
        params: list[Var] = []
        for param, info in zip(func.params, infos, strict=True):
            params.append(param if info is None else mutator.with_struct_info(param, info))
            mutator.set_var_remap(param.vid, params[-1])
        body = mutator.visit_with_new_scope(func.body, tuple(params))
        return Function(params, body, None, func.is_pure, func.attrs, func.span)
