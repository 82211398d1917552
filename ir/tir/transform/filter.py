"""Filter: the functions of a module for which a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..function import PrimFunc


@dataclass(frozen=True)
class Filter(ModulePass):
    """Keep the PrimFuncs for which a condition holds; functions of other kinds stay.

    Before ``Filter(lambda f: "keep" in f.attrs)``: functions ``f`` (with the attribute) and ``g``. After: ``f``.
    """

    fcond: Callable[[PrimFunc], bool]
    pass_name = "tir.Filter"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with the chosen functions."""
        kept = {v: f for v, f in mod.functions.items() if not isinstance(f, PrimFunc) or self.fcond(f)}
        return mod if len(kept) == len(mod.functions) else mod.replace(functions=kept)
