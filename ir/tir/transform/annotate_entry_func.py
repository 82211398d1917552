"""AnnotateEntryFunc: the entry of a module is marked."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..function import PrimFunc


@dataclass(frozen=True)
class AnnotateEntryFunc(ModulePass):
    """Mark the only PrimFunc of a module, or the only one with a ``global_symbol``, as its entry.

    Before: ``def main(...)``. After: ``def main(...)`` with ``T.func_attr({"tir.is_entry_func": True})``.
    """

    pass_name = "tir.AnnotateEntryFunc"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with its entry marked; unchanged where it is not clear which that is."""
        functions = [(v, f) for v, f in mod.functions.items() if isinstance(f, PrimFunc)]
        if len(functions) > 1:
            functions = [(v, f) for v, f in functions if "global_symbol" in f.attrs]
        if len(functions) != 1:
            return mod
        var, func = functions[0]
        return mod.replace(functions={**mod.functions, var: func.with_attr("tir.is_entry_func", True)})
