"""AttachExternModules: compiled modules of others are added to a module, for linking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import ModulePass, PassContext


@dataclass(frozen=True)
class AttachExternModules(ModulePass):
    """Add external modules to the module's attribute ``external_mods``, for linking.

    Args:
        extern_modules: the modules, or objects with ``load()`` that make them.
    """

    extern_modules: Sequence[Any]

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with the attribute."""
        loaded = [item.load() if hasattr(item, "load") else item for item in self.extern_modules]
        return mod.with_attr("external_mods", (*(mod.attrs.get("external_mods") or ()), *loaded))
