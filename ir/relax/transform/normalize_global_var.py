"""NormalizeGlobalVar: public functions are called by their symbol, and no two functions share a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...node import Mutator
from ...transform import ModulePass, PassContext


class _Rename(Mutator):
    def __init__(self, table: dict[GlobalVar, GlobalVar]) -> None:
        super().__init__()
        self._renamed = table

    def visit_GlobalVar(self, var: GlobalVar) -> GlobalVar:
        return self._renamed.get(var, var)


def rename_functions(mod: IRModule, table: dict[GlobalVar, GlobalVar]) -> IRModule:
    """The module with references (and the functions under them) renamed."""
    if not table:
        return mod
    rename = _Rename(table)
    functions: dict[GlobalVar, Any] = {}
    for var, func in mod.functions.items():
        functions[table.get(var, var)] = (
            func.replace(body=rename.visit(func.body)) if hasattr(func, "body") else func
        )
    return mod.replace(functions=functions)


@dataclass(frozen=True)
class NormalizeGlobalVar(ModulePass):
    """Rename functions so that each public one has the name in its ``global_symbol`` and every name occurs once.

    Before: ``@R.function def f(): R.func_attr({"global_symbol": "main"})``

    After: ``@R.function def main()``; a private function that was called ``main`` becomes ``main_1``.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The renamed module."""
        table: dict[GlobalVar, GlobalVar] = {}
        taken: dict[str, GlobalVar] = {}
        for var, func in mod.functions.items():
            symbol = func.attrs.get("global_symbol")
            if symbol is None:
                continue
            name = str(symbol)
            if name in taken:
                raise IRValueError(
                    f"NormalizeGlobalVar: two public functions have the global_symbol {name!r}"
                )
            taken[name] = var
            if name != var.name_hint:
                table[var] = GlobalVar(name, var.struct_info_)
        for var, func in mod.functions.items():
            if "global_symbol" in func.attrs:
                continue
            name, number = var.name_hint, 0
            while name in taken:
                number += 1
                name = f"{var.name_hint}_{number}"
            taken[name] = var
            if name != var.name_hint:
                table[var] = GlobalVar(name, var.struct_info_)
        return rename_functions(mod, table)
