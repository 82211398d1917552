"""InlinePrivateFunctions: put the bodies of private Relax functions where they are called."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import all_global_vars
from ..analysis.purity import detect_recursion
from ..function import Function
from ..function_names import is_entry
from .canonicalize_bindings import CanonicalizeBindings
from .function_pass import rewrite_functions


@dataclass(frozen=True)
class InlinePrivateFunctions(ModulePass):
    """Inline calls of private Relax functions that do not call themselves, and remove those functions.

    Before::

        @R.function
        def main(x: R.Tensor((8,), "float32")):
            return cls.double(x)

        @R.function(private=True)
        def double(x: R.Tensor((8,), "float32")):
            return R.add(x, x)

    After::

        @R.function
        def main(x: R.Tensor((8,), "float32")):
            return R.add(x, x)
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module without (inlinable) private functions."""
        recursive = {var.name_hint for group in detect_recursion(mod) for var in group}
        private = {
            var: func
            for var, func in mod.functions.items()
            if isinstance(func, Function)
            and not is_entry(var, func)
            and var.name_hint not in recursive
            and "Primitive" not in func.attrs
            and "Composite" not in func.attrs
        }
        if not private or len(private) == len(mod.functions):
            return mod
        result = rewrite_functions(mod, lambda var, func: func.inline_functions(private))
        # What is left of references are functions that are used as values, or could not be inlined.
        kept = [var for var in result.functions if var not in private]
        reached = {var.name_hint for var in kept}
        while kept:
            func = result[kept.pop()]
            for used in all_global_vars(func.body) if isinstance(func, Function) else ():
                if used.name_hint not in reached:
                    reached.add(used.name_hint)
                    kept.append(used)
        result = result.replace(
            functions={
                var: func
                for var, func in result.functions.items()
                if var not in private or var.name_hint in reached
            }
        )
        return CanonicalizeBindings()(result, ctx)  # parameters and results have names of their own no more
