"""UpdateParamStructInfo: give parameters other struct infos, and infer everything behind them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..expr import Var
from ..function import Function
from ..function_names import rename_functions
from ..struct_info import StructInfo
from .binding_rewriter import BindingRewriter


class _Inferrer(BindingRewriter):
    """Replaces parameters; every value that used one is inferred again when it is bound."""


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
        functions: dict[GlobalVar, Any] = {}
        renamed: dict[GlobalVar, GlobalVar] = {}
        for var, func in mod.functions.items():
            new = self._updated(mod, func) if isinstance(func, Function) else func
            functions[var] = new
            if new is not func:
                renamed[var] = GlobalVar(var.name_hint, new.struct_info_)
        return rename_functions(mod.replace(functions=functions), renamed) if renamed else mod

    def _updated(self, mod: IRModule, func: Function) -> Function:
        params: list[Var] = []
        rewriter = _Inferrer(mod)
        for param in func.params:
            info = self.sinfo_func(param)
            if info is None or info == param.struct_info_:
                params.append(param)
                continue
            new = Var(param.vid, info, param.span)
            rewriter.replaced[param] = new
            params.append(new)
        if not rewriter.replaced:
            return func
        body = rewriter.visit_seq(func.body)
        return Function(params, body, None, func.is_pure, func.attrs, func.span)
