"""Tuning as passes: the names that the documents place in ``ir.relax.transform``, found there through ``ir.external``.

They run under ``with Target(...):`` and leave records in ``work_dir/tuning.db``, which MetaScheduleApplyDatabase with the same
``work_dir`` applies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from database import kernel_module
from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext
from schedules import Schedule
from schedules.postproc import postprocess

from .context import TuneContext
from .error import TunerError
from .task import ExtractedTask, has_symbolic_shapes, tasks_of
from .tune import contexts_of, tune_relax, tune_tasks


def _target(name: str) -> Target:
    target = Target.current(allow_none=True)
    if target is None:
        raise TunerError(f"{name} needs a target; apply it within `with Target(...):`")
    return target


def _tunable(mod: IRModule) -> dict[Any, PrimFunc]:
    return {
        var: func
        for var, func in mod.functions.items()
        if isinstance(func, PrimFunc) and not func.attrs.get("tir.is_scheduled") and not has_symbolic_shapes(func)
    }


@dataclass(frozen=True)
class MetaScheduleTuneTIR(ModulePass):
    """Tune every PrimFunc of a module, each once; the module stays as it is.

    Args:
        work_dir: folder for the database.
        max_trials_global: trials of all kernels together.
    """

    work_dir: str
    max_trials_global: int

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The same module."""
        target = _target("MetaScheduleTuneTIR")
        contexts = [
            TuneContext(kernel_module(func), target, task_name=var.name_hint, seed=number)
            for number, (var, func) in enumerate(_tunable(mod).items())
        ]
        if contexts:
            tune_tasks(tasks=contexts, work_dir=self.work_dir, max_trials_global=self.max_trials_global)
        return mod


@dataclass(frozen=True)
class MetaScheduleTuneIRMod(ModulePass):
    """Tune the kernels of a Relax module; the module stays as it is.

    Args:
        params: weights of ``main`` by name, which kernels may then pack.
        work_dir: folder for the database.
        max_trials_global: trials of all kernels together.
        max_trials_per_task: limit of one kernel.
        op_names: tune only kernels whose name contains one of these.
    """

    params: Mapping[str, Any]
    work_dir: str
    max_trials_global: int
    max_trials_per_task: int | None = None
    op_names: Sequence[str] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The same module."""
        target = _target("MetaScheduleTuneIRMod")
        calls_kernels = bool(tasks_of(mod, target))
        if not calls_kernels and self.op_names is None:
            tune_relax(
                mod,
                dict(self.params or {}),
                target,
                self.work_dir,
                self.max_trials_global,
                max_trials_per_task=self.max_trials_per_task,
            )
            return mod
        tasks = self._chosen(tasks_of(mod, target) if calls_kernels else self._extracted(mod, target))
        if not tasks:
            raise TunerError(f"no kernel's name contains any of {', '.join(self.op_names or ())}")
        contexts = contexts_of(tasks, 0)
        tune_tasks(
            tasks=contexts,
            work_dir=self.work_dir,
            max_trials_global=self.max_trials_global,
            max_trials_per_task=self.max_trials_per_task,
        )
        return mod

    def _extracted(self, mod: IRModule, target: Target) -> list[ExtractedTask]:
        from .task import extract_tasks

        return extract_tasks(mod, target, dict(self.params or {}))

    def _chosen(self, tasks: list[ExtractedTask]) -> list[ExtractedTask]:
        if self.op_names is None:
            return tasks
        return [task for task in tasks if any(name in task_name for task_name in task.names for name in self.op_names)]


@dataclass(frozen=True)
class FewShotTuning(ModulePass):
    """Schedule PrimFuncs of static shape by a few samples of the design space, without a search.

    Args:
        valid_count: how many valid samples to look at.
        benchmark: measure them and take the fastest; otherwise the first one is taken.
    """

    valid_count: int = 1
    benchmark: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with scheduled kernels; those of symbolic shapes stay."""
        target = _target("FewShotTuning")
        if self.valid_count < 1:
            raise TunerError(f"FewShotTuning: valid_count must be at least 1, got {self.valid_count}")
        functions: dict[Any, Any] = dict(mod.functions)
        for var, func in _tunable(mod).items():
            context = TuneContext(kernel_module(func), target, task_name=var.name_hint)
            scheduled: Any = self._measured(context) if self.benchmark else self._samples(context)[0].mod["main"]
            functions[var] = scheduled.with_attrs({**func.attrs.dict, "tir.is_scheduled": True})
        return mod.replace(functions=functions)

    def _samples(self, context: TuneContext) -> list[Schedule]:
        """Valid, postprocessed samples; at least one."""
        generator = np.random.default_rng(0)
        found: list[Schedule] = []
        for _ in range(8):
            for sketch in context.sketches():
                for row in sketch.sample(1, generator):
                    sch = sketch.materialize(context.mod, row)
                    if postprocess(sch, context.target):
                        found.append(sch)
                    if len(found) == self.valid_count:
                        return found
        if not found:
            raise TunerError(f"FewShotTuning: no valid schedule of {context.task_name} was found")
        return found

    def _measured(self, context: TuneContext) -> PrimFunc:
        store = tune_tasks(tasks=[context], max_trials_global=self.valid_count, strategy="random", cost_model="random")
        record = store.query_tuning_record(context.mod, context.target, context.task_name)
        if record is None:
            raise TunerError(f"FewShotTuning: none of {self.valid_count} samples of {context.task_name} ran")
        main = record.schedule().mod["main"]
        assert isinstance(main, PrimFunc)
        return main
