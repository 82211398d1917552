"""SpaceGeneratorUnion: several design spaces as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..mutator.base import Mutator
from ..population.sketch import Sketch
from ..postproc.base import Postproc
from ..rule.base import ScheduleRule
from .base import FROM_TARGET, SpaceGenerator, listed
from .structures import Structures, UnionOfStructures


@SpaceGenerator.kinds.register("union")
class SpaceGeneratorUnion(SpaceGenerator):
    """What all of some generators offer, in their order.

    Args:
        space_generators: the generators.
        sch_rules, postprocs, mutator_probs: as :class:`SpaceGenerator`'s, for those of the generators that leave them to the target. A
            candidate has the postprocessors and the mutators of the generator that it comes from.

    Raises:
        ScheduleError: there are no generators, or something else among them; there are rules, and none of the generators takes any.
    """

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: Sequence[ScheduleRule] | str | None = FROM_TARGET,
        postprocs: Sequence[Postproc] | str | None = FROM_TARGET,
        mutator_probs: Mapping[Mutator, float] | str | None = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        listed("SpaceGeneratorUnion: space_generators", space_generators, "space generator", SpaceGenerator)
        if not space_generators:
            raise ScheduleError("SpaceGeneratorUnion: there is nothing to search, space_generators is empty")
        if self.sch_rules and not any(part.takes_rules for part in space_generators):
            raise ScheduleError(
                "SpaceGeneratorUnion: none of its generators applies sch_rules; leave them out, or add a PostOrderApply()"
            )
        self.takes_rules = any(part.takes_rules for part in space_generators)
        self.space_generators = [part.completed(self) for part in space_generators]

    def completed(self, other: SpaceGenerator) -> SpaceGenerator:
        made = super().completed(other)
        assert isinstance(made, SpaceGeneratorUnion)
        made.space_generators = [part.completed(made) for part in self.space_generators]
        return made

    def clone(self) -> SpaceGenerator:
        made = super().clone()
        assert isinstance(made, SpaceGeneratorUnion)
        made.space_generators = [part.clone() for part in self.space_generators]
        return made

    def generator_of(self, structures: Structures, sketch: Sketch) -> SpaceGenerator:
        if not isinstance(structures, UnionOfStructures) or (part := structures.part_of(sketch)) is None:
            return self
        return self.space_generators[part].generator_of(structures.parts[part], sketch)

    def initialize_with_tune_context(self, context: Any) -> None:
        super().initialize_with_tune_context(context)
        for generator in self.space_generators:
            generator.initialize_with_tune_context(context)

    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        return self.structures(mod, target).known

    def structures(self, mod: PrimFunc | IRModule, target: Target) -> Structures:
        return UnionOfStructures([part.structures(mod, target) for part in self.space_generators])
