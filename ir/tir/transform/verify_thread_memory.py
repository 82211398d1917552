"""VerifyThreadMemory: refuse programs whose threads would need what others keep for themselves."""

from __future__ import annotations

from dataclasses import dataclass

from ...error import IRValueError
from ...module import IRModule
from ...transform import PassContext
from ..analysis.thread_memory import handed_over
from ..function import PrimFunc
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class VerifyThreadMemory(PrimFuncPass):
    """Refuse a function in which a thread reads of its own memory what another one wrote, or a block of its shared memory.

    Runs while there are blocks, behind LowerCrossThreadReduction, and before allocations move to where they are used. It changes nothing.

    Raises:
        IRValueError: a read of memory of a thread, a warp or a block may meet what another one wrote there.
    """

    pass_name = "tir.VerifyThreadMemory"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function as it is."""
        for found in handed_over(func):
            raise IRValueError(str(found))
        return func
