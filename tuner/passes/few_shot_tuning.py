"""FewShotTuning: schedules from a few samples of the design space, without a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_models import estimate_seconds
from database import has_static_arguments, kernel_module
from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext
from runners import BuilderInput, final_choice
from schedules import Schedule, ScheduleError
from schedules.layout_rewrite import split_module
from schedules.postproc import postprocess
from schedules.scheduled import IS_SCHEDULED, in_place_of
from schedules.space import PostOrderApply

from ..error import TunerError
from .current_target import current_target


@dataclass(frozen=True)
class FewShotTuning(ModulePass):
    """Schedule static PrimFuncs by a few samples of their design space instead of a search.

    Before: a PrimFunc with plain loops. After: the same function tiled, vectorized and parallel.

    Args:
        valid_count: valid samples to consider for each function.
        benchmark: run them, check them against the unscheduled function, and take the fastest that is right; otherwise the
            analytical model chooses, and nothing is run.
    """

    valid_count: int = 1
    benchmark: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with scheduled functions."""
        if self.valid_count < 1:
            raise TunerError(f"FewShotTuning: valid_count must be at least 1, got {self.valid_count}")
        target = current_target()
        functions = dict(mod.functions)
        for var, func in mod.functions.items():
            if (
                not isinstance(func, PrimFunc)
                or func.attrs.get(IS_SCHEDULED)
                or not has_static_arguments(func)
            ):
                continue
            kernel = kernel_module(func)
            samples = self._samples(kernel, target)
            chosen = self._fastest(kernel, samples, target) if self.benchmark else next(iter(samples), None)
            if chosen is not None:
                scheduled = chosen.mod["main"]
                assert isinstance(scheduled, PrimFunc)
                functions[var] = in_place_of(func, scheduled)
        return mod.replace(functions=functions)

    def _samples(self, kernel: IRModule, target: Target) -> list[Schedule]:
        """Valid schedules of random candidates, the most promising first."""
        generator = np.random.default_rng(0)
        ranked: list[tuple[float, int, Any, np.ndarray]] = []
        for number, sketch in enumerate(PostOrderApply().generate_sketches(kernel, target)):
            rows = sketch.sample(max(64, self.valid_count), generator)
            if len(rows):
                costs = estimate_seconds(sketch.skeleton(rows), target)
                ranked += [(float(cost), number, sketch, row) for cost, row in zip(costs, rows, strict=True)]
        ranked.sort(key=lambda item: (item[0], item[1]))
        found: list[Schedule] = []
        for _cost, _number, sketch, row in ranked:
            if len(found) == self.valid_count:
                break
            try:
                sch = sketch.materialize(kernel, row)
                if postprocess(sch, target):
                    found.append(sch)
            except ScheduleError:
                continue  # another sample takes its place
        return found

    def _fastest(self, kernel: IRModule, samples: Sequence[Schedule], target: Target) -> Schedule | None:
        """The fastest of those that compute what the kernel computes."""
        if not samples:
            return None
        inputs = [BuilderInput(split_module(sch.mod), target) for sch in samples]
        results = final_choice(inputs, reference=kernel)
        order = [(result.secs, i) for i, result in enumerate(results) if result.run_secs]
        return samples[min(order)[1]] if order else None
