"""InlinePrivateFunctions: put the bodies of private Relax functions where they are called."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...node import post_order_visit
from ...transform import ModulePass, PassContext
from ..analysis.purity import detect_recursion
from ..expr import GlobalVar
from ..function import Function
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
            and "global_symbol" not in func.attrs
            and var.name_hint not in recursive
        }
        private = {
            var: func
            for var, func in private.items()
            if "Primitive" not in func.attrs and "Composite" not in func.attrs
        }
        if not private:
            return mod
        result = rewrite_functions(
            mod, lambda var, func: func if var in private else func.inline_functions(private)
        )
        still_used: set[str] = set()
        for var, func in result.functions.items():
            if var not in private and isinstance(func, Function):
                post_order_visit(
                    func.body,
                    lambda node: still_used.add(node.name_hint) if isinstance(node, GlobalVar) else None,
                )
        result = result.replace(
            functions={
                var: func
                for var, func in result.functions.items()
                if var not in private or var.name_hint in still_used
            }
        )
        return CanonicalizeBindings()(result, ctx)  # parameters and results have names of their own no more
