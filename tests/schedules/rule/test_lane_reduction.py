"""LaneReduction through the contract, what it reduces in lanes, and how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import te, topi
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.analysis import lanes_of
from schedules.block_facts import node_of
from schedules.population.sketch import Sketch, SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import LaneReduction, ScheduleRule
from schedules.rule.lane_reduction import loops_along_memory
from schedules.rule.padding import padded_extent
from tests.programs import expressions

from ..checks import assert_program, assert_replays, assert_same_meaning
from ..rule_contract import RuleContract

FOUR_LANES = Target("llvm -mcpu=nehalem -num-cores 2")


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], combine: Any = topi.sum) -> PrimFunc:
    """A reduction over some axes of a tensor, in a block ``A_red``."""
    source = te.placeholder(shape, "float32", name="A")
    return te.create_prim_func([source, combine(source, axis=list(axes))])


def argmax(rows: int, columns: int) -> PrimFunc:
    source = te.placeholder((rows, columns), "float32", name="A")
    return te.create_prim_func([source, topi.argmax(source, axis=1)])


def sketches(func: PrimFunc, block: str, rule: ScheduleRule | None = None) -> list[Any]:
    rule = rule or LaneReduction()
    rule.initialize(FOUR_LANES)
    start = SketchSchedule(func, seed=0)
    return rule.offers(start, start.get_block(block))


class TestLaneReduction(RuleContract):
    def rule(self) -> ScheduleRule:
        return LaneReduction()


def test_lanes_and_vectors_hold_parts_that_are_combined_by_halves() -> None:
    @T.prim_func
    def expected(A: T.Buffer((3, 32), "float32"), B: T.Buffer((3,), "float32")):
        lanes = T.alloc_buffer((3, 4), scope="local")
        parts = T.alloc_buffer((3, 2, 4), scope="local")
        halves = T.alloc_buffer((3, 2), scope="local")
        for i in range(3):
            for k0 in range(4):
                for k1 in T.serial(2, annotations={"meta_schedule.unroll": 1}):
                    for k2 in T.serial(4, annotations={"meta_schedule.vectorize": 1}):
                        with T.block("parts"):
                            v1, v2, vi, v0 = T.axis.remap("SSSR", [k1, k2, i, k0])
                            with T.init():
                                parts[vi, v1, v2] = T.float32(0)
                            parts[vi, v1, v2] = parts[vi, v1, v2] + A[vi, v0 * 8 + v1 * 4 + v2]
            for k1 in T.serial(2, annotations={"meta_schedule.unroll": 1}):
                for k2 in T.serial(4, annotations={"meta_schedule.vectorize": 1}):
                    with T.block("lanes"):
                        v1, v2, vi = T.axis.remap("RSS", [k1, k2, i])
                        with T.init():
                            lanes[vi, v2] = T.float32(0)
                        lanes[vi, v2] = lanes[vi, v2] + parts[vi, v1, v2]
            for k0 in T.serial(2, annotations={"meta_schedule.unroll": 1}):
                for k1 in T.serial(2, annotations={"meta_schedule.vectorize": 1}):
                    with T.block("halves"):
                        v1, v0, vi = T.axis.remap("SRS", [k1, k0, i])
                        with T.init():
                            halves[vi, v1] = T.float32(0)
                        halves[vi, v1] = halves[vi, v1] + lanes[vi, v0 * 2 + v1]
            for k0 in T.serial(2, annotations={"meta_schedule.unroll": 1}):
                with T.block("B"):
                    v0, vi = T.axis.remap("RS", [k0, i])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + halves[vi, v0]

    func = reduced((3, 32), (1,))
    (found,) = sketches(func, "A_red")
    sketch = Sketch(found)
    rows = sketch.sample(64, np.random.default_rng(0))
    row = next(row for row in rows if [4, 2] in sketch.trace_of(row).decisions.values())
    sch = sketch.materialize(func, row)
    assert_program(sch, expected)
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 64), (1,)),
        ((3, 61), (1,)),  # a prime: its end is cut off in the last tile
        ((2, 3, 7, 7), (2, 3)),  # two axes that are one in memory
        ((4, 3, 9), (0, 2)),  # a reduction around that one
        ((5, 40), (0, 1)),
    ],
)
@pytest.mark.parametrize("combine", [topi.sum, topi.max, topi.prod])
def test_every_candidate_means_the_same(shape: tuple[int, ...], axes: tuple[int, ...], combine: Any) -> None:
    func = reduced(shape, axes, combine)
    (found,) = sketches(func, "A_red")
    assert len(found.columns) == 1, "it is reduced in lanes"
    sketch = Sketch(found)
    for row in np.unique(sketch.sample(64, np.random.default_rng(0)), axis=0):
        sch = sketch.materialize(func, row)
        assert_same_meaning(func, sch)
        assert postprocess(sch, FOUR_LANES)
        assert_same_meaning(func, sch)
        assert_replays(sch, func)


def test_the_position_of_a_maximum() -> None:
    func = argmax(3, 45)
    (found,) = sketches(func, "A_red_temp")
    sketch = Sketch(found)
    rows = np.unique(sketch.sample(64, np.random.default_rng(0)), axis=0)
    assert len(rows) > 1
    for row in rows:
        assert_same_meaning(func, sketch.materialize(func, row))  # small integers: there are many ties


def test_a_reduction_among_the_loops_of_its_consumer() -> None:
    func = expressions.softmax(4, 27)
    start = SketchSchedule(func, seed=0)
    start.compute_inline("E")
    start.compute_at("S", start.get_loops("D")[0])
    start.compute_at("M", start.get_loops("D")[0])
    rule = LaneReduction()
    rule.initialize(FOUR_LANES)
    for block in ("S", "M"):
        (start,) = rule.offers(start, start.get_block(block))
    assert len(start.columns) == 2
    sketch = Sketch(start)
    for row in np.unique(sketch.sample(16, np.random.default_rng(0)), axis=0):
        sch = sketch.materialize(func, row)
        assert len(sch.get_child_blocks(sch.get_loops("D")[0])) > 6, "all in one loop over rows"
        assert_replays(sch, func)


def along(body: str, block: str = "C") -> list[int]:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8, 6, 16), "float32"), I: T.Buffer((16,), "int32"), C: T.Buffer((8,), "float32")):
{body}
""")
    sch = Schedule(func)
    return loops_along_memory(node_of(sch, sch.get_block(block)))


@pytest.mark.parametrize(
    ("term", "loops"),
    [
        ("A[vi, vj, vk]", [1, 2]),
        ("A[vi, vj, vk] * A[vi, vj, vk]", [1, 2]),
        ("A[vi, vj, vk] - A[vi, vj, 0]", [2]),
        ("A[vi, 5 - vj, vk]", [2]),
        ("A[vi, vj, 15 - vk]", []),
        ("A[vi, vj, I[vk]]", []),
        ("A[vk // 2, vj, vi]", []),
        ("A[vi, vj, vk] * A[vk // 2, vj, vi]", []),
        ("A[vi, vj, 3]", []),
        ("T.float32(1)", []),
    ],
)
def test_what_lies_along_memory(term: str, loops: list[int]) -> None:
    body = f"""
    for i, j, k in T.grid(8, 6, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + {term}"""
    assert along(body) == loops


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((64, 4), (0,)), ((3, 7), (1,)), ((4, 64, 16), (1,))],
)
def test_leaves_others_alone(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Columns, rows of less than two vectors."""
    (found,) = sketches(reduced(shape, axes), "A_red")
    assert not found.columns
    assert len(found.trace.insts) == 1


def test_refuses_no_vectors() -> None:
    with pytest.raises(Exception, match="max_vectors must be positive, got 0"):
        LaneReduction(0)


@pytest.mark.parametrize(
    ("extent", "lanes", "most", "padded"),
    [(64, 4, 8, 64), (61, 4, 8, 64), (1016, 8, 8, 1024), (49, 8, 6, 64), (24, 8, 3, 24), (16, 8, 2, 16)],
)
def test_rows_are_padded_to_vectors_that_can_be_shared_out(
    extent: int, lanes: int, most: int, padded: int
) -> None:
    assert padded_extent(extent, lanes, most) == padded


def test_lanes_are_those_of_the_narrowest_result() -> None:
    def narrowest(dtype: str) -> int:
        source = te.placeholder((4, 64), dtype, name="A")
        sch = Schedule(te.create_prim_func([source, topi.argmax(source, axis=1)]))
        return lanes_of(FOUR_LANES, node_of(sch, sch.get_block("A_red_temp")))

    assert [narrowest(dtype) for dtype in ("int8", "float32", "float64")] == [16, 4, 4]
