"""BindTarget: functions are marked with the target that they are compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..function import PrimFunc
from .prim_func_pass import PrimFuncPass


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
