"""MetaScheduleTuneTIR: tune every PrimFunc of a module on its own."""

from __future__ import annotations

from dataclasses import dataclass

from database import has_static_arguments, kernel_module
from ir import IRModule, structural_hash
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext
from schedules.population import flops_of

from ..context import TuneContext
from ..tune import tune_tasks
from .current_target import current_target


@dataclass(frozen=True)
class MetaScheduleTuneTIR(ModulePass):
    """Tune every PrimFunc of a module on its own; the records go to ``work_dir/tuning.db``.

    Args:
        work_dir: folder of the database.
        max_trials_global: trials of all PrimFuncs together, which a task scheduler shares out.
    """

    work_dir: str = "."
    max_trials_global: int = 64

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The same module; its kernels' records are in the database."""
        target = current_target()
        contexts: dict[int, TuneContext] = {}
        for var, func in mod.functions_items():
            if isinstance(func, PrimFunc) and has_static_arguments(func):
                kernel = kernel_module(func)
                key = structural_hash(kernel)
                if key not in contexts:
                    contexts[key] = TuneContext(kernel, target, task_name=var.name_hint, flops=flops_of(func))
        if contexts:
            tune_tasks(
                tasks=list(contexts.values()),
                work_dir=self.work_dir,
                max_trials_global=self.max_trials_global,
            )
        return mod
