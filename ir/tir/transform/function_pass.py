"""Passes that rewrite one PrimFunc at a time: the base class, and the decorator that makes one of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...module import IRModule
from ...transform import Pass, PassContext, PassError, pass_decorator
from ..function import PrimFunc


class PrimFuncPass(Pass):
    """A pass that maps each PrimFunc of a module; subclasses define ``transform_function(self, func, mod, ctx)``.

    Other functions are left alone. A function mapped to None is removed. The module stays the same object when
    nothing changed.
    """

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc | None:
        """The new function (the same object when nothing changes)."""
        raise PassError(f"{type(self).__name__} must define transform_function(self, func, mod, ctx)")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Map the functions."""
        functions: dict[Any, Any] = {}
        changed = False
        for var, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                new = self.transform_function(func, mod, ctx)
                if new is not None and not isinstance(new, PrimFunc):
                    raise PassError(
                        f"pass {self.info.name} must return a PrimFunc for {var.name_hint}, got {type(new).__name__}"
                    )
                changed |= new is not func
                if new is None:
                    continue
                functions[var] = new
            else:
                functions[var] = func
        return mod.replace(functions=functions) if changed else mod


def prim_func_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool | None = False,
) -> Any:
    """Make a :class:`PrimFuncPass` of a function ``(func, mod, ctx) -> func`` or of a class that defines
    ``transform_function``; parameters as for :func:`ir.transform.module_pass`.
    """
    return pass_decorator(PrimFuncPass, "transform_function", pass_func, opt_level, name, required, traceable)
