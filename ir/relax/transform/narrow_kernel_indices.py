"""NarrowKernelIndices: on GPUs, kernels count in 32 bits where that is enough."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...target.target import Target
from ...tir.function import PrimFunc
from ...tir.transform.narrow_block_indices import narrowed_function
from ...transform import ModulePass, PassContext


@dataclass(frozen=True)
class NarrowKernelIndices(ModulePass):
    """Where the target is a GPU, let kernels without a schedule count in 32 bits, see :class:`ir.tir.transform.NarrowBlockIndices`.

    Shapes of Relax are 64 bits wide, and so are the kernels that operators become. A GPU adds and multiplies 64-bit integers in several
    instructions each, and the intrinsics of tensor cores are described in 32 bits. Processors count in 64 bits as fast.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with narrower kernels."""
        target = Target.current(allow_none=True)
        if target is None or not target.is_gpu:
            return mod
        functions = {
            var: narrowed_function(func) or func
            if isinstance(func, PrimFunc) and not func.attrs.get("tir.is_scheduled")
            else func
            for var, func in mod.functions.items()
        }
        return mod.replace(functions=functions)
