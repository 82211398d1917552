"""AttachGlobalSymbol: give functions the symbol under which code generation makes them callable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...tir.function import PrimFunc
from ...transform import ModulePass, PassContext
from ..function import Function
from ..function_signature import SignatureChange, change_signatures


@dataclass(frozen=True)
class AttachGlobalSymbol(ModulePass):
    """Set ``global_symbol`` on every function that has none; a function whose symbol differs from its name is renamed.

    PrimFuncs get the name of the module's ``system_lib_prefix`` attribute before their own.

    Before: ``@T.prim_func(private=True) def add(...)``

    After: ``@T.prim_func def add(...)`` with ``T.func_attr({"global_symbol": "add"})``.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with symbols."""
        prefix = str(mod.attrs.get("system_lib_prefix") or "")
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        renamed: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc | Function) or "global_symbol" in func.attrs:
                continue
            symbol = prefix + var.name_hint if isinstance(func, PrimFunc) else var.name_hint
            functions[var] = func.with_attr("global_symbol", symbol)
            if symbol != var.name_hint:
                renamed[var] = SignatureChange(functions[var], name=symbol)
        return change_signatures(mod.replace(functions=functions), renamed)
