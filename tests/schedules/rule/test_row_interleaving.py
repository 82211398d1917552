"""RowInterleaving through the contract; on running sums, and on what has no rows."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models import estimate_seconds
from ir import te, topi
from ir.script import from_source
from ir.tir import PrimFunc
from schedules.population import Sketch
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import RowInterleaving, ScheduleRule
from schedules.space import PostOrderApply

from ..checks import assert_same_meaning
from ..population.test_population import assert_arrays_equal_programs
from ..rule_contract import TARGET, RuleContract


class TestRowInterleaving(RuleContract):
    def rule(self) -> ScheduleRule:
        return RowInterleaving()


def sums(rows: int, columns: int, exclusive: bool = False) -> PrimFunc:
    source = te.placeholder((rows, columns), "float32", name="A")
    return te.create_prim_func([source, topi.cumsum(source, axis=1, exclusive=exclusive)])


@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_of_several_rows_are_offered(exclusive: bool) -> None:
    func = sums(12, 20, exclusive)
    plain, together = PostOrderApply().generate_sketches(func, TARGET)
    assert plain.size() == 1
    assert together.decisions[0].table[:, 1].tolist() == [2, 3, 4, 6, 12]  # type: ignore[union-attr]
    rows = np.arange(5)[:, None]
    assert_arrays_equal_programs(func, together, rows)
    for row in rows:
        sch = together.materialize(func, row)
        assert postprocess(sch, TARGET)
        assert_same_meaning(func, sch)


def test_rows_at_a_time_are_bounded() -> None:
    rule = RowInterleaving(max_rows=4)
    rule.initialize(TARGET)
    start = SketchSchedule(sums(64, 8), seed=0)
    _, made = rule.apply(start, start.get_block("cumsum_generic"))
    assert isinstance(made, SketchSchedule)
    assert Sketch(made).size() == 2


def test_rows_may_be_computed_again_and_again() -> None:
    """The rows are one of several loops around what a row is."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 9), "int32"), B: T.Buffer((8, 9), "int32")):
    with T.block("sums"):
        T.reads(A[0:8, 0:9])
        T.writes(B[0:8, 0:9])
        for step in range(2):
            for i in T.parallel(8):
                with T.block("row"):
                    T.reads(A[i, 0:9])
                    T.writes(B[i, 0:9])
                    s = T.alloc_buffer((1,), "int32", scope="local")
                    s[0] = step
                    for k in range(9):
                        s[0] = s[0] + A[i, k]
                        B[i, k] = s[0]
""")
    _, together = PostOrderApply(sch_rules=[RowInterleaving()]).generate_sketches(func, TARGET)
    for row in together.sample(3, np.random.default_rng(0)):
        assert_same_meaning(func, together.materialize(func, row))


def test_rows_of_which_each_has_loops_of_its_own_are_left_alone() -> None:
    """Sorting compares as often as the elements ask for."""
    source = te.placeholder((4, 16), "float32", name="A")
    func = te.create_prim_func([source, topi.sort(source, axis=1)])
    assert len(PostOrderApply(sch_rules=[RowInterleaving()]).generate_sketches(func, TARGET)) == 1


def test_the_estimate_knows_that_running_sums_wait_for_each_other() -> None:
    func = sums(64, 1000)
    plain, together = PostOrderApply(sch_rules=[RowInterleaving()]).generate_sketches(func, TARGET)
    alone = estimate_seconds(plain.skeleton(np.zeros((1, 0), dtype=np.int64)), TARGET)[0]
    rows = np.arange(together.size())[:, None]
    seconds = dict(
        zip(
            together.decisions[0].table[:, 1].tolist(),
            estimate_seconds(together.skeleton(rows), TARGET),
            strict=True,
        )
    )  # type: ignore[union-attr]
    assert seconds[4] < seconds[2] < alone
