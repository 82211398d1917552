"""FunctionPass: passes that look at one Relax function at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import Pass, PassContext, PassError, pass_decorator
from ..function import Function


class FunctionPass(Pass):
    """A pass over every Relax function of a module: subclasses define ``transform_function(self, func, mod, ctx)``.

    Functions that an external code generator owns (attribute ``Codegen``) are left alone.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The new function."""
        raise PassError(f"{type(self).__name__} must define transform_function(self, func, mod, ctx)")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply ``transform_function`` to every Relax function."""

        def rewrite(var: GlobalVar, func: Function) -> Function:
            if "Codegen" in func.attrs:
                return func
            new = self.transform_function(func, mod, ctx)
            if not isinstance(new, Function):
                raise PassError(
                    f"pass {self.info.name} must return a relax.Function for {var.name_hint}, got {type(new).__name__}"
                )
            return new

        return rewrite_functions(mod, rewrite)


def rewrite_functions(mod: IRModule, rewrite: Callable[[GlobalVar, Function], Function]) -> IRModule:
    """The module with ``rewrite`` applied to its Relax functions; the same object when nothing changed."""
    changed: dict[GlobalVar, Any] = {}
    for var, func in mod.functions.items():
        if isinstance(func, Function):
            new = rewrite(var, func)
            if new is not func:
                changed[var] = new
    if not changed:
        return mod
    return mod.replace(functions={var: changed.get(var, func) for var, func in mod.functions.items()})


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a :class:`FunctionPass` of a function ``(func, mod, ctx) -> func`` or of a class with ``transform_function``.

    >>> @function_pass(opt_level=2)
    ... def identity(func, mod, ctx):
    ...     return func
    >>> identity.info.opt_level
    2

    Args:
        pass_func: the function or class; None returns a decorator.
        opt_level: a Sequential runs the pass when the context's level is at least this.
        name: defaults to the function's or class's name.
        required: names of passes that must run before it.
        traceable: recorded in the info.
    """
    return pass_decorator(FunctionPass, "transform_function", pass_func, opt_level, name, required, traceable)
