"""ParallelGrain through the contract; where the rows of a nest become jobs."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import LaneReduction, ParallelGrain, RandomComputeLocation, ScheduleRule
from schedules.space import PostOrderApply
from tests.programs.expressions import row_sum

from ..checks import assert_same_meaning
from ..rule_contract import TARGET, RuleContract


class TestParallelGrain(RuleContract):
    def rule(self) -> ScheduleRule:
        return ParallelGrain()


def positions(rows: int, columns: int) -> PrimFunc:
    """The position of the largest element of each row: a reduction of pairs, which no other rule shares out."""
    source = te.placeholder((rows, columns), "float32", name="A")
    return te.create_prim_func([source, topi.argmax(source, axis=1)])


def test_rows_with_reductions_in_lanes_become_jobs() -> None:
    func = positions(12, 64)
    sketches = PostOrderApply(
        sch_rules=[RandomComputeLocation(), LaneReduction(), ParallelGrain()]
    ).generate_sketches(func, TARGET)
    plain, shared = sketches
    assert shared.size() == 6 * plain.size()
    for row in shared.sample(3, np.random.default_rng(0)):
        sch = shared.materialize(func, row)
        assert postprocess(sch, TARGET)
        assert "T.parallel" in sch.mod.script()
        assert_same_meaning(func, sch)


def test_the_nest_is_offered_once_however_many_blocks_run_in_it() -> None:
    func = row_sum(12, 64)
    rule, lanes = ParallelGrain(), LaneReduction()
    for item in (rule, lanes):
        item.initialize(TARGET)
    start = SketchSchedule(func, seed=0)
    (sch,) = lanes.apply(start, start.get_block("B"))
    blocks = sch.get_child_blocks(sch.get_block("root"))
    assert [len(rule.apply(sch.copy(), block)) for block in blocks] == [1] * (len(blocks) - 1) + [2]


@pytest.mark.parametrize("mark", [True, False])
def test_single_blocks_and_marked_rows_are_left_alone(mark: bool) -> None:
    source = te.placeholder((12, 64), "float32", name="A")
    first = te.compute((12, 64), lambda i, j: source[i, j] + 1.0, name="B")
    func = te.create_prim_func([source, te.compute((12, 64), lambda i, j: first[i, j] * 2.0, name="C")])
    rule = ParallelGrain()
    rule.initialize(TARGET)
    sch = Schedule(func, seed=0)
    assert len(rule.apply(sch, sch.get_block("C"))) == 1  # two nests
    sch.compute_at(sch.get_block("B"), sch.get_loops(sch.get_block("C"))[0])
    if mark:
        sch.annotate(sch.get_loops(sch.get_block("C"))[0], "meta_schedule.parallel", 1)
    assert len(rule.apply(sch, sch.get_block("C"))) == (1 if mark else 2)


def test_rows_that_depend_on_each_other_stay_in_order() -> None:
    source = te.placeholder((12, 64), "float32", name="A")
    k = te.reduce_axis((0, 12), name="k")
    before = te.compute((12, 64), lambda i, j: source[i, j] + 1.0, name="B")
    func = te.create_prim_func([source, te.compute((64,), lambda j: te.sum(before[k, j], axis=k), name="S")])
    sch = Schedule(func, seed=0)
    j, rows = sch.get_loops(sch.get_block("S"))
    sch.reorder(rows, j)
    sch.compute_at("B", rows)
    rule = ParallelGrain()
    rule.initialize(TARGET)
    for block in sch.get_child_blocks(sch.get_block("root")):
        assert len(rule.apply(sch.copy(), block)) == 1
