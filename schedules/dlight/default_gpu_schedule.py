"""DefaultGPUSchedule: bind the nests of functions for GPUs that nobody has scheduled, so that they can run there."""

from __future__ import annotations

from dataclasses import dataclass

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext

from ..postproc.verify_gpu_code import VerifyGPUCode
from ..schedule import Schedule
from ..scheduled import IS_SCHEDULED, in_place_of
from .apply_default_schedule import only_function, target_of
from .gpu.unbound import bind_unbound_blocks


@dataclass(frozen=True)
class DefaultGPUSchedule(ModulePass):
    """Make every nest of a PrimFunc a kernel: its outer loops that can run in any order are fused, split and bound to blocks and threads.

    Functions that are scheduled (``tir.is_scheduled``), nests that are bound to blocks already, functions for other targets, and those
    that do what only a host can are left alone. Shapes may be symbolic. Nothing is inlined or tiled:
    :class:`~schedules.dlight.ApplyDefaultSchedule` is for speed.

    Before::

        for i, j in T.grid(n, 64):
            with T.block("B"): ...

    After::

        for i_j_fused_0 in T.thread_binding((n * 64 + 255) // 256, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(256, thread="threadIdx.x"):
                with T.block("B"): ...
    """

    pass_name = "tir.DefaultGPUSchedule"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with functions bound.

        Raises:
            ScheduleError: there is no target, neither in force nor of a function.
        """
        functions = dict(mod.functions)
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or func.attrs.get(IS_SCHEDULED):
                continue
            target = target_of(func, "DefaultGPUSchedule")
            bound = _bound(func, target) if target.is_gpu else None
            if bound is not None:
                functions[var] = in_place_of(func, bound)
        return mod.replace(functions=functions)


def _bound(func: PrimFunc, target: Target) -> PrimFunc | None:
    sch = bind_unbound_blocks(Schedule(func, error_render_level="fast"), target)
    verify = VerifyGPUCode()
    verify.initialize(target)
    return only_function(sch.mod) if verify.accepts(sch) else None
