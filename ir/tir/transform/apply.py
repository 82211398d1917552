"""Apply: any function from PrimFunc to PrimFunc as a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..function import PrimFunc
from .prim_func_pass import PrimFuncPass


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
