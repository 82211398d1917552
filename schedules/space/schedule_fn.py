"""ScheduleFn: the design space that a user's function makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..mutator.base import Mutator
from ..population.sketch import Sketch, SketchSchedule
from ..postproc.base import Postproc
from ..rule.base import ScheduleRule
from ..rule.custom import as_schedules
from ..schedule import Schedule
from .base import FROM_TARGET, SpaceGenerator


@SpaceGenerator.kinds.register("schedule-fn")
class ScheduleFn(SpaceGenerator):
    """Run a function on the schedule of the whole program.

    The function changes the schedule that it gets, or returns one or several others. Where it only samples and passes what it
    sampled on, one run describes all candidates; where it looks at sampled numbers, each run is a structure of its own.

    Args:
        sch_fn: the function.
        sch_rules, postprocs, mutator_probs: as :class:`SpaceGenerator`'s (rules apply to no function).
        samples: runs of a function that looks at sampled numbers.
    """

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: Sequence[ScheduleRule] | str | None = FROM_TARGET,
        postprocs: Sequence[Postproc] | str | None = FROM_TARGET,
        mutator_probs: Mapping[Mutator, float] | str | None = FROM_TARGET,
        *,
        samples: int = 16,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn
        self.samples = samples

    def generate_design_space(self, mod: PrimFunc | IRModule, target: Target | None = None) -> list[Schedule]:
        return self._run(Schedule(mod, error_render_level="none", seed=0))

    def _run(self, sch: Schedule) -> list[Schedule]:
        return as_schedules(self.sch_fn(sch), sch, "the schedule function")

    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        try:
            found = self._run(SketchSchedule(mod, seed=0))
        except (ScheduleError, TypeError, ValueError, AttributeError):
            # It computes with sampled numbers, which a sketch does not have: take concrete runs instead.
            found = self._concrete(mod)
        return [Sketch(sch, f"function{n}") for n, sch in enumerate(found) if isinstance(sch, SketchSchedule)]

    def _concrete(self, mod: PrimFunc | IRModule) -> list[Schedule]:
        """Sketches without open decisions, from runs with different seeds; equal ones count once."""
        seen: set[str] = set()
        result: list[Schedule] = []
        for seed in range(self.samples):
            for sch in self._run(Schedule(mod, error_render_level="none", seed=seed)):
                assert sch.trace is not None
                key = str(sch.trace.as_json())
                if key not in seen:
                    seen.add(key)
                    fixed = SketchSchedule(mod, seed=0)
                    sch.trace.apply_to_schedule(fixed, remove_postproc=False)
                    result.append(fixed)
        return result
