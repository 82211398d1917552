"""What a space generator is given acts, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from schedules import BlockRV, RuleError, Schedule, ScheduleError
from schedules.mutator import MutateTileSize, MutateUnroll, Mutator
from schedules.postproc import PyPostproc
from schedules.rule import PyScheduleRule
from schedules.space import PostOrderApply, ScheduleFn, SpaceGenerator, SpaceGeneratorUnion
from tests.programs.expressions import elementwise
from tuner import TuneContext
from tuner.search.base import MeasureCandidate

from ..rule_contract import TARGET


def nothing(sch: Schedule) -> None:
    """A space of one candidate, the program as it is."""


def tile(sch: Schedule, block: BlockRV) -> list[Schedule]:
    """A rule."""
    loop = sch.get_loops(block)[0]
    sch.split(loop, sch.sample_perfect_tile(loop, 2))
    return [sch]


class Marks(PyPostproc):
    """Says that it was there."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def apply(self, sch: Schedule) -> bool:
        sch.annotate(sch.get_block("C"), "mark", self.mark)
        return True


class Silent(PyPostproc):
    """Forgets to say whether the candidate is valid."""

    def apply(self, sch: Schedule) -> bool:
        sch.get_block("C")
        return None  # type: ignore[return-value]


def marks(generator: SpaceGenerator) -> list[object]:
    """What postprocessing leaves at the first candidate of each structure."""
    context = TuneContext(elementwise(), TARGET, generator)
    found = []
    for sketch in context.sketches():
        sch = MeasureCandidate(sketch, sketch.sample(1, context.generator)[0]).schedule(context)
        assert sch is not None
        found.append(sch.get(sch.get_block("C")).annotations.get("mark"))
    return [getattr(item, "value", item) for item in found]


def test_members_of_a_union_have_their_own_postprocessors() -> None:
    own = ScheduleFn(nothing, postprocs=[Marks("own")])
    other = PostOrderApply(sch_rules=[tile])
    assert marks(SpaceGeneratorUnion([own, other], postprocs=[Marks("union")])) == ["own", "union"]
    inner = SpaceGeneratorUnion([own, PostOrderApply(sch_rules=[tile], postprocs=[])])
    assert marks(SpaceGeneratorUnion([inner], postprocs=[Marks("union")])) == ["own", None]
    assert other.postprocs is None  # what was given stays as it is


def test_members_of_a_union_have_their_own_mutators() -> None:
    tiles, unrolls = MutateTileSize(), MutateUnroll()
    union = SpaceGeneratorUnion(
        [ScheduleFn(nothing, mutator_probs={tiles: 1.0}), PostOrderApply(sch_rules=[tile])],
        mutator_probs={unrolls: 0.5},
    )
    context = TuneContext(elementwise(), TARGET, union)
    found = [context.generator_of(sketch).mutator_probs for sketch in context.sketches()]
    assert [[(type(item), share) for item, share in (one or {}).items()] for one in found] == [
        [(MutateTileSize, 1.0)],
        [(MutateUnroll, 0.5)],
    ]


def test_rules_of_a_union_are_those_of_members_without_any() -> None:
    union = SpaceGeneratorUnion([PostOrderApply(), PostOrderApply(sch_rules=[])], sch_rules=[tile])
    assert [sketch.n_columns for sketch in union.generate_sketches(elementwise(), TARGET)] == [2, 0]
    with pytest.raises(ScheduleError, match="none of its generators applies sch_rules"):
        SpaceGeneratorUnion([ScheduleFn(nothing)], sch_rules=[tile])


@pytest.mark.parametrize("rules", [[tile], "llvm"])
def test_rules_beside_a_function_are_refused(rules: Any) -> None:
    with pytest.raises(ScheduleError, match="applied by PostOrderApply, not beside a function"):
        ScheduleFn(nothing, sch_rules=rules)


@pytest.mark.parametrize("rules", [[], None, "from-target"])
def test_a_function_may_be_told_that_there_are_no_rules(rules: Any) -> None:
    assert ScheduleFn(nothing, sch_rules=rules).generate_sketches(elementwise(), TARGET)


def test_a_postprocessor_that_does_not_answer_is_named() -> None:
    (sch,) = PostOrderApply(sch_rules=[]).generate_design_space(elementwise(), TARGET)
    with pytest.raises(RuleError, match="postprocessor Silent: .*valid, got None; end it with `return True`"):
        PostOrderApply(postprocs=[Silent()]).postprocess(sch, TARGET)


def test_rules_postprocessors_and_mutators_learn_the_task() -> None:
    """Each task has copies, so that those of one are not told of another while its space still grows."""

    class Rule(PyScheduleRule):
        def _initialize_with_tune_context(self, context: object) -> None:
            self.context = context

        def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
            return [sch]

    class Post(PyPostproc):
        def _initialize_with_tune_context(self, context: object) -> None:
            self.context = context

        def apply(self, sch: Schedule) -> bool:
            return True

    class Change(MutateTileSize):
        def initialize_with_tune_context(self, context: object) -> None:
            self.context = context

    given = PostOrderApply(sch_rules=[Rule()], postprocs=[Post()], mutator_probs={Change(): 1.0})
    for generator in (given, SpaceGeneratorUnion([given])):
        first, second = (TuneContext(elementwise(), TARGET, generator, seed=seed) for seed in (0, 1))
        for context in (first, second):
            own = context.generator_of(context.sketches()[0])
            parts = [*(own.sch_rules or ()), *(own.postprocs or ()), *(own.mutator_probs or ())]
            assert [part.context is context for part in parts] == [True] * 3  # type: ignore[union-attr]


def test_mutators_named_by_a_kind_of_target_are_those_of_the_search() -> None:
    context = TuneContext(elementwise(), TARGET, PostOrderApply(mutator_probs="llvm"))
    found = context.generator_of(context.sketches()[0]).mutator_probs or {}
    named = {type(item): share for item, share in Mutator.create("llvm").items()}
    assert {type(item): share for item, share in found.items()} == named
