"""MetaScheduleTuneTIR: tune every PrimFunc of a module on its own."""

from __future__ import annotations

from dataclasses import dataclass

from database import has_static_arguments, kernel_module
from ir import IRModule
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext

from ..tune import tune_tir
from .current_target import current_target


@dataclass(frozen=True)
class MetaScheduleTuneTIR(ModulePass):
    """Tune every PrimFunc of a module on its own; the records go to ``work_dir/tuning.db``.

    Args:
        work_dir: folder of the database.
        max_trials_global: trials of one PrimFunc.
    """

    work_dir: str = "."
    max_trials_global: int = 64

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The same module; its kernels' records are in the database."""
        target = current_target()
        for var, func in mod.functions_items():
            if isinstance(func, PrimFunc) and has_static_arguments(func):
                tune_tir(
                    kernel_module(func),
                    target,
                    self.work_dir,
                    self.max_trials_global,
                    task_name=var.name_hint,
                )
        return mod
