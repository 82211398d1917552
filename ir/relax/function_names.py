"""Names of a module's functions: giving public ones the name of their symbol, and renaming references."""

from __future__ import annotations

from collections.abc import Mapping

from ..error import IRValueError
from ..expr import GlobalVar
from ..function import BaseFunc
from ..module import IRModule
from ..node import Mutator


def is_entry(var: GlobalVar, func: BaseFunc) -> bool:
    """Whether the world outside of the module may call a function: it has a symbol, or is ``main``."""
    return "global_symbol" in func.attrs or var.name_hint == "main"


class _Rename(Mutator):
    def __init__(self, table: Mapping[GlobalVar, GlobalVar]) -> None:
        super().__init__()
        self._renamed = table

    def visit_GlobalVar(self, var: GlobalVar) -> GlobalVar:
        return self._renamed.get(var, var)


def references_renamed(func: BaseFunc, table: Mapping[GlobalVar, GlobalVar]) -> BaseFunc:
    """A function of either IR with new references in place of old ones in its body."""
    return func.replace(body=_Rename(table).visit(func.body)) if hasattr(func, "body") else func  # type: ignore[no-any-return]


def _rename_functions(mod: IRModule, table: Mapping[GlobalVar, GlobalVar]) -> IRModule:
    """The module with references (and the functions under them) renamed."""
    if not table:
        return mod
    return mod.replace(
        functions={
            table.get(var, var): references_renamed(func, table) for var, func in mod.functions.items()
        }
    )


def named_by_symbol(mod: IRModule) -> IRModule:
    """The module in which each public function is called by its ``global_symbol`` and every name occurs once.

    Raises:
        IRValueError: two public functions have one symbol.
    """
    table: dict[GlobalVar, GlobalVar] = {}
    taken: dict[str, GlobalVar] = {}
    for var, func in mod.functions.items():
        symbol = func.attrs.get("global_symbol")
        if symbol is None:
            continue
        name = str(symbol)
        if name in taken:
            raise IRValueError(f"NormalizeGlobalVar: two public functions have the global_symbol {name!r}")
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
    return _rename_functions(mod, table)
