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
from .structure_tree import Step, StructureTree
from .structures import Structures


@SpaceGenerator.kinds.register("schedule-fn")
class ScheduleFn(SpaceGenerator):
    """Run a function on the schedule of the whole program.

    The function changes the schedule that it gets, or returns one or several others. Where it only samples and passes what it
    sampled on, one run describes all candidates; each value of a number that it looks at makes a structure of its own. Values for which
    it raises a ScheduleError are left out; where there are no others, that is the error of the space.

    Args:
        sch_fn: the function.
        sch_rules: none; the function schedules in their place.
        postprocs, mutator_probs: as :class:`SpaceGenerator`'s.
        samples: structures that a search begins with, at most; it finds others on its way.

    Raises:
        ScheduleError: ``sch_fn`` is no function; there are rules, which nobody would apply.
    """

    takes_rules = False

    def __init__(
        self,
        sch_fn: Callable[[Schedule], Any],
        sch_rules: Sequence[ScheduleRule] | str | None = FROM_TARGET,
        postprocs: Sequence[Postproc] | str | None = FROM_TARGET,
        mutator_probs: Mapping[Mutator, float] | str | None = FROM_TARGET,
        *,
        samples: int = 16,
    ) -> None:
        if not callable(sch_fn) or isinstance(sch_fn, type):
            raise ScheduleError(f"ScheduleFn: sch_fn is a function of a schedule, got {sch_fn!r}")
        if sch_rules and sch_rules != FROM_TARGET:
            raise ScheduleError(
                "ScheduleFn: sch_rules are applied by PostOrderApply, not beside a function; leave them out,"
                " or search both spaces: SpaceGeneratorUnion([ScheduleFn(function), PostOrderApply(sch_rules=...)])"
            )
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn
        self.samples = samples

    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        return self.structures(mod, target).known

    def structures(self, mod: PrimFunc | IRModule, target: Target) -> Structures:
        def offer(sch: SketchSchedule) -> list[Schedule]:
            return as_schedules(self.sch_fn(sch), sch, "the schedule function")

        def next_step(sch: SketchSchedule, then: bool | None) -> Step | None:
            return None if then else Step(offer, True, may_read=True)

        return StructureTree(SketchSchedule(mod, seed=0), next_step, self.samples, "function")
