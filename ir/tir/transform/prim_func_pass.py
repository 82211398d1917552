"""Passes over PrimFuncs: the base class and the decorator that the passes of this package share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...module import IRModule
from ...transform import Pass, PassContext, PassError, pass_decorator
from ..function import PrimFunc


class PrimFuncPass(Pass):
    """A pass that rewrites each PrimFunc by itself: subclasses define ``transform_function(self, func, mod, ctx)``."""

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc | None:
        """The new function; None removes it."""
        raise PassError(f"{type(self).__name__} must define transform_function(self, func, mod, ctx)")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply to every PrimFunc; the same module when none changed."""
        functions: dict[Any, Any] = {}
        changed = False
        for var, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                new = self.transform_function(func, mod, ctx)
                changed |= new is not func
                if new is not None:
                    functions[var] = new
            else:
                functions[var] = func
        return mod.replace(functions=functions) if changed else mod


def prim_func_pass(
    pass_func: Callable[..., Any] | type | None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a :class:`PrimFuncPass` of a function ``(func, mod, ctx) -> func`` or of a class with ``transform_function``.

    Args:
        pass_func: the function or class; None returns a decorator.
        opt_level: a Sequential runs the pass when the context's level is at least this.
        name: defaults to the function's or class's name.
        required: names of passes that must run before it.
        traceable: recorded in the info.
    """
    return pass_decorator(PrimFuncPass, "transform_function", pass_func, opt_level, name, required, traceable)
