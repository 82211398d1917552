"""SpatialTiling through the contract; which loops it splits, in which orders, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, tir, topi
from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.population import Sketch
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import LaneReduction, ScheduleRule, SpatialTiling
from tests.programs.expressions import row_sum

from ..checks import assert_same_meaning
from ..rule_contract import TARGET, RuleContract

LANES = 16


def permuted(shape: tuple[int, ...], axes: tuple[int, ...]) -> PrimFunc:
    source = te.placeholder(shape, "float32", name="A")
    return te.create_prim_func([source, topi.transpose(source, list(axes))])


def structures(func: PrimFunc, name: str, rule: ScheduleRule | None = None) -> list[Sketch]:
    made = rule or SpatialTiling()
    made.initialize(TARGET)
    start = SketchSchedule(func, seed=0)
    found = made.apply(start, start.get_block(name))
    return [Sketch(item) for item in found if isinstance(item, SketchSchedule)]


def marks(func: PrimFunc, sketch: Sketch, name: str) -> list[str]:
    """Variables of the loops that a structure makes, with their marks, the outermost first."""
    sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
    short = {"meta_schedule.parallel": "p", "meta_schedule.unroll": "u", "meta_schedule.vectorize": "v"}
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_block(name))]
    return [item.loop_var.name + "".join(f":{short[key]}" for key in item.annotations) for item in loops]


class TestSpatialTiling(RuleContract):
    def rule(self) -> ScheduleRule:
        return SpatialTiling()


def elementwise(*shape: int, dtype: str = "float32") -> PrimFunc:
    source = te.placeholder(shape, dtype, name="A")
    return te.create_prim_func([source, te.compute(shape, lambda *i: source(*i) + source(*i), name="B")])


def test_outer_loops_become_jobs_and_vectors_are_unrolled() -> None:
    func = elementwise(8, 16, 64)
    (sketch,) = structures(func, "B")
    loops = ["i0_0:p", "i1_0:p", "i0_1", "i1_1", "i2_0_0", "i2_0_1:u", "i2_1:v"]
    assert marks(func, sketch, "B") == loops
    assert sketch.size() == 4 * 5 * 3  # divisors of 8, of 16, and of 4 vectors


def test_polynomials_are_computed_two_vectors_at_a_time() -> None:
    """Steps of one wait for each other; those of the other fill the time."""
    for name, elements in (("B", 2 * LANES), ("C", LANES)):  # an exponential, and a product
        func = elementwise_chain()
        (sketch,) = structures(func, name)
        sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
        assert sch.get(sch.get_loops(sch.get_block(name))[-1]).extent.value == elements


def test_a_single_loop_is_shared_out_in_vectors() -> None:
    func = elementwise(1024)
    (sketch,) = structures(func, "B")
    assert marks(func, sketch, "B") == ["i0_0_0:p", "i0_0_1", "i0_0_2:u", "i0_1:v"]


def test_a_vector_that_is_cut_off_is_padded_or_left_to_lowering() -> None:
    func = elementwise(32, 4 * LANES + 3)
    padded, whole = structures(func, "B")
    assert len(padded.decisions) == 2 and len(whole.decisions) == 1
    assert marks(func, whole, "B") == ["i0_0:p", "i0_1", "i1:v"]
    for sketch in (padded, whole):
        for row in sketch.sample(3, np.random.default_rng(0)):
            sch = sketch.materialize(func, row)
            assert postprocess(sch, TARGET)
            assert_same_meaning(func, sch)


@pytest.mark.parametrize(
    ("shape", "axes", "sides"),
    [
        ((64, 48), (1, 0), "01"),
        ((2, 40, 36), (0, 2, 1), "12"),
        ((37, 64), (1, 0), "01"),
        ((2, 32, 64), (2, 0, 1), "02"),
    ],
)
def test_both_sides_of_a_transposition_are_tiled_in_both_orders(
    shape: tuple[int, ...], axes: tuple[int, ...], sides: str
) -> None:
    func = permuted(shape, axes)
    sketches = structures(func, "T_transpose")
    assert len(sketches) == 2
    outer = []
    for sketch in sketches:
        loops = marks(func, sketch, "T_transpose")
        assert loops[-1].endswith(":v") and loops[-1].startswith(f"ax{sides[1]}")
        outer.append([name[:3] for name in loops if name.split("_")[0] in (f"ax{sides[0]}", f"ax{sides[1]}")])
        for row in sketch.sample(2, np.random.default_rng(0)):
            sch = sketch.materialize(func, row)
            assert postprocess(sch, TARGET)
            assert_same_meaning(func, sch)
    assert outer[0][0] != outer[1][0]


def test_tiles_of_transpositions_are_no_larger_than_asked() -> None:
    for sketch in structures(permuted((1024, 1024), (1, 0)), "T_transpose", SpatialTiling(max_tile=32)):
        values = sketch.values(sketch.sample(200, np.random.default_rng(0)))
        sides = [value for var, value in values.items() if not var.name.endswith("_0")]
        assert max(int(side.max()) for side in sides) == 32
        in_vectors = [value for var, value in values.items() if var.name in ("ax1_0_1", "ax1_0_2")]
        assert int((in_vectors[0] * in_vectors[1]).max()) * LANES == 32


def test_a_side_of_one_vector_is_a_side() -> None:
    for sketch in structures(permuted((LANES, 64), (1, 0)), "T_transpose"):
        loops = marks(permuted((LANES, 64), (1, 0)), sketch, "T_transpose")
        assert [name.removesuffix(":p") for name in loops] == ["ax0_0", "ax0_1", "ax1:v"]


def test_lanes_lie_apart_in_the_result_where_it_has_a_few_neighbours_only() -> None:
    func = permuted((3, 64), (1, 0))
    for sketch in structures(func, "T_transpose"):
        assert [name for name in marks(func, sketch, "T_transpose") if name.endswith(":v")] == ["ax0_1:v"]


def test_axes_that_keep_their_neighbours_are_walked_through_in_both_orders() -> None:
    func = permuted((8, 6, 64), (1, 0, 2))
    first, second = (marks(func, sketch, "T_transpose") for sketch in structures(func, "T_transpose"))
    assert first[0].startswith("ax0") and second[0].startswith("ax1")
    assert first[-1] == second[-1] == "ax2_1:v"


def test_windows_may_stay_as_they_are() -> None:
    source = te.placeholder((1, 9, 34, 32), "float32", name="A")
    func = te.create_prim_func(
        [source, topi.nn.pool2d(source, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), "max", layout="NHWC")]
    )
    plain, tiled = structures(func, "pool_max")
    assert not plain.decisions
    assert marks(func, tiled, "pool_max")[-4:] == ["rv0", "rv1", "ax3_0_1:u", "ax3_1:v"]
    sch = tiled.materialize(func, tiled.sample(1, np.random.default_rng(0))[0])
    assert postprocess(sch, TARGET)
    assert_same_meaning(func, sch)


def test_beside_tiled_reductions_only_transpositions_are_tiled() -> None:
    source = te.placeholder((32, 64), "float32", name="A")
    k = te.reduce_axis((0, 64), name="k")
    total = te.compute((32,), lambda i: te.sum(source[i, k], axis=k), name="S")
    centred = te.compute((32, 64), lambda i, j: source[i, j] - total[i], name="B")
    moved = te.compute((64, 32), lambda i, j: source[j, i] - total[j], name="C")
    func = te.create_prim_func([source, centred, moved])
    lanes, rule = LaneReduction(), SpatialTiling()
    for item in (lanes, rule):
        item.initialize(TARGET)
    start = SketchSchedule(func, seed=0)
    (reduced,) = lanes.apply(start, start.get_block("S"))
    assert rule.apply(reduced, reduced.get_block("B")) == [reduced]
    (tiled,) = rule.apply(reduced, reduced.get_block("C"))
    assert len(tiled.get_loops(tiled.get_block("C"))) == 6


def test_nests_that_others_share_or_have_marked_are_left_alone() -> None:
    func = row_sum(4, 64)
    lanes, rule = LaneReduction(), SpatialTiling()
    for item in (lanes, rule):
        item.initialize(TARGET)
    (sch,) = lanes.apply(start := Schedule(func, seed=0), start.get_block("B"))
    assert rule.apply(sch, sch.get_block("B")) == [sch]
    shared = Schedule(elementwise_chain(), seed=0)
    shared.compute_at(shared.get_block("B"), shared.get_loops(shared.get_block("C"))[0])
    assert rule.apply(shared, shared.get_block("C")) == [shared]


def test_a_nest_that_writes_elements_again_is_left_alone() -> None:
    """The last of the rows stays: neither their order nor the cores that run them are free."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((2, 64), "float32"), B: T.Buffer((2, 64), "float32")):
    for i, j in T.grid(2, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[0, vj] = A[vi, vj]
""")
    (sketch,) = structures(func, "B")
    assert not sketch.n_columns


def elementwise_chain() -> PrimFunc:
    source = te.placeholder((16, 64), "float32", name="A")
    first = te.compute((16, 64), lambda i, j: tir.exp(source[i, j]), name="B")
    return te.create_prim_func([source, te.compute((16, 64), lambda i, j: first[i, j] * 2.0, name="C")])
