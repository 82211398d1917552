"""DeadCodeElimination: drop functions that nothing calls and bindings that nothing uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...error import IRValueError
from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule
from ...tir.analysis.called_functions import called_functions
from ...tir.function import PrimFunc
from ...transform import ModulePass, PassContext
from ..analysis.binding import all_global_vars
from ..analysis.remove_unused import remove_all_unused
from ..function import Function
from .function_pass import rewrite_functions


def remove_unused_functions(mod: IRModule, entries: Sequence[str] = ()) -> IRModule:
    """The module without functions that the entries (default: public functions and ``main``) do not reach."""
    by_name = {var.name_hint: var for var in mod.functions}
    names = set(entries)
    for name in names:
        if name not in by_name:
            raise IRValueError(
                f"entry function {name!r} is not in the module; it has {', '.join(sorted(by_name))}"
            )
    pending = [
        var
        for var, func in mod.functions.items()
        if var.name_hint in names or "global_symbol" in func.attrs or (not names and var.name_hint == "main")
    ]
    if not pending:
        return mod
    reached: set[str] = set()
    while pending:
        var = pending.pop()
        if var.name_hint in reached or var.name_hint not in by_name:
            continue
        reached.add(var.name_hint)
        pending += _referred(mod[var])
    if len(reached) == len(by_name):
        return mod
    return mod.replace(
        functions={var: func for var, func in mod.functions.items() if var.name_hint in reached}
    )


def _referred(func: BaseFunc) -> Sequence[GlobalVar]:
    return called_functions(func) if isinstance(func, PrimFunc) else all_global_vars(func)


def called_names(mod: IRModule) -> set[str]:
    """The names of all functions that Relax functions refer to."""
    return {
        var.name_hint
        for func in mod.functions.values()
        if isinstance(func, Function)
        for var in all_global_vars(func)
    }


@dataclass(frozen=True)
class DeadCodeElimination(ModulePass):
    """Remove bindings that are dead (:func:`ir.relax.analysis.remove_all_unused`), and functions that no entry reaches.

    Before::

        @R.function
        def main(x: R.Tensor((8,), "float32")):
            with R.dataflow():
                lv0 = R.add(x, x)
                unused = R.exp(x)
                gv = R.multiply(lv0, x)
                R.output(gv)
            return gv

    After: the same without ``unused``.

    Args:
        entry_functions: names of the functions to keep besides the public ones; None means ``main``.
    """

    entry_functions: Sequence[str] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module without dead code."""
        entries = tuple(self.entry_functions or ())
        reached = remove_unused_functions(mod, entries)
        needed = rewrite_functions(reached, lambda var, func: remove_all_unused(func, mod))
        return reached if needed is reached else remove_unused_functions(needed, entries)
