"""MetaScheduleTuneIRMod: tune the kernels that a Relax module calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ir import IRModule, relax
from ir.transform import ModulePass, PassContext

from ..task import tasks_of
from ..tune import contexts_of, tune_tasks
from .current_target import current_target


@dataclass(frozen=True)
class MetaScheduleTuneIRMod(ModulePass):
    """Tune the kernels that a Relax module calls; the records go to ``work_dir/tuning.db`` and the module stays as it is.

    Args:
        params: weights of ``main`` by name; they are bound for tuning only.
        work_dir: folder of the database.
        max_trials_global: trials of all kernels together.
        max_trials_per_task: limit of one kernel.
        op_names: tune only kernels whose name contains one of these.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    work_dir: str = "."
    max_trials_global: int = 1000
    max_trials_per_task: int | None = None
    op_names: Sequence[str] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The same module; its kernels' records are in the database."""
        bound = relax.transform.BindParams("main", dict(self.params))(mod) if self.params else mod
        tasks = tasks_of(bound, current_target())
        if self.op_names is not None:
            tasks = [task for task in tasks if any(name in task.task_name for name in self.op_names)]
        contexts = contexts_of(tasks, 0)
        if contexts:
            tune_tasks(
                tasks=contexts,
                work_dir=self.work_dir,
                max_trials_global=self.max_trials_global,
                max_trials_per_task=self.max_trials_per_task,
            )
        return mod
