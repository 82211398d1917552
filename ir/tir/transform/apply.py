"""Apply, Filter, BindTarget, AnnotateEntryFunc: passes that choose or mark functions rather than rewrite bodies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..function import PrimFunc
from .function_pass import PrimFuncPass


@dataclass(frozen=True)
class Apply(PrimFuncPass):
    """Apply a function ``PrimFunc -> PrimFunc`` to every PrimFunc.

    Before ``Apply(lambda f: f.with_attr("tag", 1))``::

        @T.prim_func
        def f(A: T.Buffer((4,), "float32")): ...

    After::

        @T.prim_func
        def f(A: T.Buffer((4,), "float32")):
            T.func_attr({"tag": 1})
            ...
    """

    ftransform: Callable[[PrimFunc], PrimFunc]
    pass_name = "tir.Apply"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """What the function returns."""
        return self.ftransform(func)


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


@dataclass(frozen=True)
class BindTarget(PrimFuncPass):
    """Give every PrimFunc without one the attribute ``target``.

    Before: ``def f(...)``. After: ``def f(...)`` with ``T.func_attr({"target": Target("llvm")})``.
    """

    target: Any
    pass_name = "tir.BindTarget"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with a target."""
        return func if "target" in func.attrs else func.with_attr("target", self.target)


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
