"""NormalizeGlobalVar: public functions are called by their symbol, and no two functions share a name."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..function_names import named_by_symbol


@dataclass(frozen=True)
class NormalizeGlobalVar(ModulePass):
    """Rename functions so that each public one has the name in its ``global_symbol`` and every name occurs once.

    Before: ``@R.function def f(): R.func_attr({"global_symbol": "main"})``

    After: ``@R.function def main()``; a private function that was called ``main`` becomes ``main_1``.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The renamed module."""
        return named_by_symbol(mod)
