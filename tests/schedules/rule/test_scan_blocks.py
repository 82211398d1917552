"""ScanBlocks through the contract, and all that it offers against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models import estimate_seconds
from ir import te, topi
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from runners.native import build_native
from schedules import Schedule
from schedules.population.sketch import Sketch
from schedules.postproc import postprocess
from schedules.rule import ScanBlocks, ScheduleRule
from schedules.space import PostOrderApply

from ..population.test_population import assert_arrays_equal_programs
from ..rule_contract import TARGET, RuleContract


class TestScanBlocks(RuleContract):
    def rule(self) -> ScheduleRule:
        return ScanBlocks()


def sums(rows: int, columns: int, axis: int = 1, dtype: str = "float32") -> PrimFunc:
    source = te.placeholder((rows, columns), dtype, name="A")
    return te.create_prim_func([source, topi.cumsum(source, axis=axis)])


def numbers(sketch: Sketch, func: PrimFunc) -> tuple[int, ...]:
    """The blocks of a row and the lanes of a structure; nothing for one of whole rows."""
    (row,) = sketch.sample(1, np.random.default_rng(0))
    trace = sketch.materialize(func, row).trace
    assert trace is not None
    return next((inst.attrs for inst in trace.insts if inst.kind.name == "ScanBlocks"), ())


def offered(func: PrimFunc, rule: ScanBlocks | None = None) -> list[tuple[int, ...]]:
    rules: list[ScheduleRule] = [rule or ScanBlocks()]
    return [numbers(item, func) for item in PostOrderApply(sch_rules=rules).generate_sketches(func, TARGET)]


@pytest.mark.parametrize(("rows", "columns", "axis"), [(1, 4096, 1), (3, 1500, 1), (1024, 2, 0)])
def test_all_structures_give_the_sums(rows: int, columns: int, axis: int) -> None:
    func = sums(rows, columns, axis)
    host = Target("cpu")
    data = np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype("float32")
    sketches = PostOrderApply().generate_sketches(func, host)
    assert any(numbers(sketch, func) for sketch in sketches)
    for sketch in sketches:
        for row in sketch.sample(2, np.random.default_rng(1)):
            sch = sketch.materialize(func, row)
            assert postprocess(sch, host)
            found = np.empty_like(data)
            build_native(sch.mod, host)(data, found)
            np.testing.assert_array_equal(found, data.cumsum(axis))


def test_arrays_tell_of_the_blocks_what_programs_do() -> None:
    func = sums(2, 512)
    for sketch in PostOrderApply().generate_sketches(func, TARGET):
        rows = sketch.sample(2, np.random.default_rng(0))
        assert_arrays_equal_programs(func, sketch, rows)


def test_blocks_divide_a_row_and_are_not_short() -> None:
    assert offered(sums(1, 1 << 16)) == [(), (4, 64), (16, 64), (64, 64), (256, 64)]
    assert offered(sums(1, 3 * 5 * 7 * 64)) == [(), (3, 64), (15, 64), (35, 64), (105, 64)]
    assert offered(sums(1, 1009)) == [()]  # a prime
    assert offered(sums(1, 100)) == [()]
    assert offered(sums(256, 4096), ScanBlocks(max_blocks=1024)) == [(), (4, 64)]


def test_partial_results_lie_side_by_side_where_the_elements_do() -> None:
    assert all(lanes == 1 for _, lanes in offered(sums(4096, 2, 0))[1:])


def test_rows_that_are_no_running_sums_stay_as_they_are() -> None:
    source = te.placeholder((1, 4096), "float32", name="A")
    for made in (topi.cumprod(source, axis=1), topi.sort(source, axis=1)):
        func = te.create_prim_func([source, made])
        assert offered(func) == [()]
    assert len(offered(sums(1, 4096, dtype="int32"))) > 1


def test_of_two_running_sums_in_one_block_nobody_knows_which() -> None:
    """An operator written by hand: both loops stay as they are."""
    nest = """
            for {i} in range(1):
                with T.block("{name}"):
                    T.reads(A[0, 0:1024])
                    T.writes({to}[0, 0:1024])
                    s = T.alloc_buffer((1,), "int32", scope="local")
                    s[0] = 0
                    for k in range(1024):
                        s[0] = s[0] + A[{i}, k]
                        {to}[{i}, k] = s[0]
"""
    head = """@T.prim_func
def main(A: T.Buffer((1, 1024), "int32"), B: T.Buffer((1, 1024), "int32"), C: T.Buffer((1, 1024), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("sums"):
            T.reads(A[0, 0:1024])
            T.writes(B[0, 0:1024], C[0, 0:1024])"""
    one = nest.format(i="i", name="one", to="B")
    assert len(offered(from_source(head + one))) > 1
    assert offered(from_source(head + one + nest.format(i="j", name="other", to="C"))) == [()]


def test_the_estimate_knows_that_blocks_run_side_by_side() -> None:
    func = sums(1, 1 << 18)
    best: dict[bool, float] = {}
    for sketch in PostOrderApply().generate_sketches(func, TARGET):
        rows = sketch.sample(32, np.random.default_rng(0))
        seconds = float(estimate_seconds(sketch.skeleton(rows), TARGET).min())
        is_blocked = bool(numbers(sketch, func))
        best[is_blocked] = min(seconds, best.get(is_blocked, seconds))
    assert best[True] < best[False] / 2


def test_a_schedule_that_is_no_sketch_gets_the_same() -> None:
    rule = ScanBlocks(parts=(4,))
    rule.initialize(TARGET)
    sch = Schedule(sums(1, 1024), seed=0)
    plain, blocks = rule.offers(sch, sch.get_block("cumsum_generic"))
    assert [len(item.get_child_blocks(item.get_block("cumsum_generic"))) for item in (plain, blocks)] == [
        1,
        3,
    ]
