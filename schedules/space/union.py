"""SpaceGeneratorUnion: several design spaces as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc

from ..mutator.base import Mutator
from ..population.sketch import Sketch
from ..postproc.base import Postproc
from ..rule.base import ScheduleRule
from .base import FROM_TARGET, SpaceGenerator
from .structures import Structures, UnionOfStructures


@SpaceGenerator.kinds.register("union")
class SpaceGeneratorUnion(SpaceGenerator):
    """What all of some generators offer, in their order.

    Args:
        space_generators: the generators.
        sch_rules, postprocs, mutator_probs: as :class:`SpaceGenerator`'s; the postprocessors are those of all candidates.
    """

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: Sequence[ScheduleRule] | str | None = FROM_TARGET,
        postprocs: Sequence[Postproc] | str | None = FROM_TARGET,
        mutator_probs: Mapping[Mutator, float] | str | None = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = list(space_generators)

    def initialize_with_tune_context(self, context: Any) -> None:
        super().initialize_with_tune_context(context)
        for generator in self.space_generators:
            generator.initialize_with_tune_context(context)

    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        return self.structures(mod, target).known

    def structures(self, mod: PrimFunc | IRModule, target: Target) -> Structures:
        return UnionOfStructures([part.structures(mod, target) for part in self.space_generators])
