"""Design-space generators."""

from __future__ import annotations

import numpy as np
import pytest

from schedules import BlockRV, Schedule, ScheduleError
from schedules.postproc import PyPostproc
from schedules.rule import AutoInline, ParallelizeVectorizeUnroll, ScheduleRule
from schedules.space import PostOrderApply, ScheduleFn, SpaceGenerator, SpaceGeneratorUnion
from tests.programs.expressions import elementwise, matmul_bias

from ..checks import assert_replays
from ..rule_contract import TARGET


def tile_c(sch: Schedule) -> None:
    """Samples and passes on what it sampled."""
    loop = sch.get_loops("C")[0]
    sch.split(loop, sch.sample_perfect_tile(loop, 2))


def looks_at_numbers(sch: Schedule) -> Schedule:
    """Decides by the numbers that it sampled."""
    loop = sch.get_loops("C")[0]
    outer, inner = sch.sample_perfect_tile(loop, 2)
    if sch.get(outer) > sch.get(inner):
        sch.split(loop, [outer, inner])
    return sch


def split_first(sch: Schedule, block: BlockRV) -> list[Schedule]:
    """A rule that is a plain function."""
    loop = sch.get_loops(block)[0]
    sch.split(loop, sch.sample_perfect_tile(loop, 2))
    return [sch]


GENERATORS = {
    "post order": lambda: PostOrderApply(),
    "own rules": lambda: PostOrderApply(sch_rules=[AutoInline(), split_first, ParallelizeVectorizeUnroll()]),
    "function": lambda: ScheduleFn(tile_c),
    "function that looks": lambda: ScheduleFn(looks_at_numbers),
    "union": lambda: SpaceGeneratorUnion([ScheduleFn(tile_c), PostOrderApply()]),
}


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_contract(name: str) -> None:
    func = elementwise()
    generator = GENERATORS[name]().clone()
    schedules = generator.generate_design_space(func, TARGET)
    sketches = generator.generate_sketches(func, TARGET)
    assert schedules and sketches
    for sch in schedules:
        assert_replays(sch, func)
    for sketch in sketches:
        rows = sketch.sample(3, np.random.default_rng(0))
        assert len(rows)
        for row in rows:
            assert_replays(sketch.materialize(func, row), func)
    again = generator.generate_sketches(func, TARGET)
    assert [str(item.trace) for item in again] == [str(item.trace) for item in sketches]


def test_a_function_that_looks_gives_several_structures() -> None:
    sketches = ScheduleFn(looks_at_numbers).generate_sketches(elementwise(), TARGET)
    assert len(sketches) > 1


def test_blocks_can_be_left_out() -> None:
    generator = PostOrderApply(sch_rules=[split_first], f_block_filter=lambda block: block.name_hint == "D")
    (sch,) = generator.generate_design_space(matmul_bias(), TARGET)
    assert len(sch.get_loops("D")) == 3 and len(sch.get_loops("C")) == 3


def test_create() -> None:
    assert isinstance(SpaceGenerator.create("post-order-apply"), PostOrderApply)
    assert isinstance(SpaceGenerator.create(tile_c), ScheduleFn)
    with pytest.raises(ScheduleError, match="'abacus'"):
        SpaceGenerator.create("abacus")


def test_parameters_are_metaschedules() -> None:
    generator = PostOrderApply(None, "llvm", [], "llvm")
    assert [type(rule) for rule in generator.sch_rules or ()] == [
        type(rule) for rule in ScheduleRule.create("llvm")
    ]
    assert generator.postprocs == [] and sum((generator.mutator_probs or {}).values()) == pytest.approx(1)
    with pytest.raises(ScheduleError, match="sch_rules"):
        PostOrderApply([AutoInline()])  # type: ignore[arg-type]


def test_own_postprocessors_take_the_place_of_the_default_ones() -> None:
    class Never(PyPostproc):
        def apply(self, sch: Schedule) -> bool:
            return False

    (sch,) = PostOrderApply(sch_rules=[], postprocs=[]).generate_design_space(elementwise(), TARGET)
    assert PostOrderApply(postprocs=[]).postprocess(sch, TARGET)
    assert not PostOrderApply(postprocs=[Never()]).postprocess(sch, TARGET)
