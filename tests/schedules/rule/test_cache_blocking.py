"""Reductions in blocks: where they are offered, that populations stay exact, and that kernels compute the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from experiments.operators import suite
from ir import IRModule, te, topi
from ir.target import Target
from ir.tir import PrimFunc
from runners.kernel import pack_arguments
from runners.native import build_native
from schedules import Schedule, ScheduleError, Trace
from schedules.block_facts import node_of
from schedules.layout_rewrite import split_module
from schedules.population import Sketch
from schedules.postproc import postprocess
from schedules.rule import RegisterTiling, cpu_rules
from schedules.rule.cache_blocking import Blocking, may_be_blocked, most_blocks, turned_axes
from schedules.rule.register_tile import FactorLimits
from schedules.space import PostOrderApply
from schedules.tree import BlockNode, child_blocks

from ..checks import arrays_for, assert_same_meaning, outputs_of
from ..population.test_population import assert_arrays_equal_programs, population

AVX2 = "llvm -mcpu=haswell -num-cores 2"
USUAL = Target(f"{AVX2} -l1-cache-bytes=32768 -l2-cache-bytes=524288")
TINY = Target(f"{AVX2} -l1-cache-bytes=512 -l2-cache-bytes=1024")
"""Caches that no panel fits, so that small programs have all structures."""


def product(rows: int, steps: int, columns: int) -> PrimFunc:
    a, b = te.placeholder((rows, steps), name="A"), te.placeholder((steps, columns), name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def product_with_epilogue(rows: int, steps: int, columns: int) -> PrimFunc:
    a, b = te.placeholder((rows, steps), name="A"), te.placeholder((steps, columns), name="B")
    bias = te.placeholder((columns,), name="bias")
    return te.create_prim_func([a, b, bias, topi.nn.relu(topi.add(topi.matmul(a, b), bias))])


def summed_product(rows: int, steps: int, columns: int) -> PrimFunc:
    """A consumer that takes no tile."""
    a, b = te.placeholder((rows, steps), name="A"), te.placeholder((steps, columns), name="B")
    return te.create_prim_func([a, b, topi.sum(topi.matmul(a, b), axis=1)])


PROGRAMS: dict[str, Callable[[], PrimFunc]] = {
    "product": lambda: product(12, 36, 32),
    "product of padded rows": lambda: product(13, 36, 32),
    "product of padded rows and columns": lambda: product(13, 36, 27),
    "product with an epilogue": lambda: product_with_epilogue(12, 36, 32),
    "product of padded rows with an epilogue": lambda: product_with_epilogue(13, 36, 27),
    "product that is summed up": lambda: summed_product(12, 36, 32),
    "transposed batch": lambda: suite.workload("TBG", (1, 16, 4, 16)),
    "batch": lambda: suite.workload("GMM", (3, 12, 16, 24)),
    "convolution": lambda: suite.workload("C2D", (1, 6, 6, 8, 16, 3, 1, 1)),
    "convolution with an epilogue": lambda: suite.workload("CBR", (1, 6, 6, 8, 16, 3, 1, 1)),
    "convolution of volumes": lambda: suite.workload("C3D", (1, 3, 4, 4, 8, 16, 3, 1, 1)),
}


@cache
def structures(name: str) -> tuple[PrimFunc, list[Sketch]]:
    """A small program and its structures with blocks."""
    func = PROGRAMS[name]()
    exact = [rule for rule in cpu_rules() if not rule.changes_rounding]
    found = PostOrderApply(sch_rules=exact).generate_sketches(func, TINY)
    return func, [sketch for sketch in found if is_blocked(sketch)]


def is_blocked(sketch: Sketch) -> bool:
    return any(inst.kind.name == "RFactor" for inst in sketch.trace.insts)


def some(sketches: list[Sketch]) -> list[Sketch]:
    """The first and another one."""
    return sketches[:: max(1, len(sketches) - 1)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compute_what_the_program_does(name: str) -> None:
    func, sketches = structures(name)
    assert sketches
    arrays = arrays_for(func)
    expected = outputs_of(func, arrays)[-1]
    generator = np.random.default_rng(0)
    for sketch in some(sketches):
        for row in sketch.sample(2, generator):
            made = sketch.materialize(func, row)
            assert postprocess(made, TINY)
            assert made.trace is not None
            sch = Schedule(func)
            Trace.apply_json_to_schedule(json.loads(json.dumps(made.trace.as_json())), sch)
            mod = split_module(sch.mod)
            packed = pack_arguments(mod, arrays[:-1])
            out = np.full(expected.shape, 77, expected.dtype)
            build_native(IRModule({"main": mod["main"]}), Target("cpu")).bind(*packed, out)()
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["product of padded rows with an epilogue", "transposed batch"])
def test_programs_keep_the_meaning(name: str) -> None:
    func, sketches = structures(name)
    for sketch in some(sketches):
        (row,) = sketch.sample(1, np.random.default_rng(1))
        sch = sketch.materialize(func, row)
        assert postprocess(sch, TINY)
        assert_same_meaning(func, sch.mod["main"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_equal_materialized_programs(name: str) -> None:
    func, sketches = structures(name)
    for sketch in some(sketches):
        rows = population(sketch, 3)
        assert len(rows)
        assert_arrays_equal_programs(func, sketch, rows[:5])
        assert all(postprocess(sketch.materialize(func, row), TINY) for row in rows[:5])


def test_blocks_stand_around_the_register_tiles_of_a_cache_tile() -> None:
    func, (first, turned) = structures("product with an epilogue")
    orders = []
    for sketch in (first, turned):
        skeleton = sketch.skeleton(sketch.sample(1, np.random.default_rng(0)))
        names = {nest.name: [loop.name for loop in nest.loops] for nest in skeleton.nests}
        parts, sums, epilogue = names["T_matmul_rf"], names["T_matmul"], names["compute"]
        orders.append(sums)
        assert parts[:7] == sums[:7], "the parts of a register tile come just before they are added"
        assert epilogue[:4] == sums[:4] and epilogue[4] != sums[4], "the last step takes whole cache tiles"
    around = ["ax0_0", "ax1_0", "ax0_1", "ax1_1", "k_0"]
    assert orders[0] == [*around, "ax0_2", "ax1_2", "ax0_3", "ax1_3"]
    assert orders[1] == [*around, "ax1_2", "ax0_2", "ax0_3", "ax1_3"]


@pytest.mark.parametrize("name", ["product with an epilogue", "product of padded rows", "convolution"])
def test_what_there_was_before_stays_and_comes_first(name: str) -> None:
    """Stored decisions of a structure go on to fit it."""
    func = PROGRAMS[name]()
    steps: list[list[list[str]]] = []
    for target in (USUAL, TINY):
        tiling = RegisterTiling()
        tiling.initialize(target)
        sch = Schedule(func, seed=0)
        made = tiling.apply(sch, sch.get_block("conv2d_nhwc" if name == "convolution" else "T_matmul"))
        steps.append(
            [
                [line.partition(", decision")[0] for line in item.trace.as_python()]
                for item in made
                if item.trace
            ]
        )
    plain, found = steps
    assert found[: len(plain)] == plain and len(found) == len(plain) + 2


def node(func: PrimFunc, reducing: int = 0) -> BlockNode:
    sch = Schedule(func)
    return [item for item in child_blocks(sch._root("main")) if item.init is not None][reducing]


def limit(func: PrimFunc, target: Target = USUAL) -> int:
    block = node(func)
    vector_var = RegisterTiling()._vector_axis(block)
    return most_blocks(block, vector_var, target)


@pytest.mark.parametrize(
    ("rows", "steps", "columns", "expected"),
    [
        (128, 128, 128, 1),
        (1024, 1024, 1024, 1),
        (512, 4096, 512, 1),  # the second cache holds the panels of a register tile
        (512, 8192, 512, 2 * 22 * 8192 * 4 // 32768),  # 6 rows and 16 columns
        (4, 8192, 512, 2 * 20 * 8192 * 4 // 32768),
    ],
)
def test_blocks_are_offered_where_panels_leave_the_caches_of_a_core(
    rows: int, steps: int, columns: int, expected: int
) -> None:
    func = product(rows, steps, columns)
    assert limit(func) == expected
    found = PostOrderApply().generate_sketches(func, USUAL)
    assert sum(map(is_blocked, found)) == (0 if expected == 1 else 2)


def test_blocks_fill_half_of_the_first_cache_at_least() -> None:
    found = PostOrderApply().generate_sketches(product(64, 8192, 512), USUAL)
    for sketch in filter(is_blocked, found):
        tables = [decision.table for decision in sketch.decisions]  # type: ignore[attr-defined]
        (table,) = [item for item in tables if item[0].prod() == 8192]
        assert set(table[:, 0].tolist()) == {2, 4, 8, 16, 32}


def test_steps_without_a_divisor_have_no_blocks() -> None:
    found = PostOrderApply().generate_sketches(product(64, 8209, 512), USUAL)
    assert found and not any(map(is_blocked, found))
    sch = Schedule(product(64, 8209, 512))
    block = sch.get_block("T_matmul")
    _, columns = (item.var for item in node_of(sch, block).iter_vars[:2])
    blocking = Blocking("SSSRRS", FactorLimits(128, 64), USUAL, columns, most_blocks=8)
    with pytest.raises(
        ScheduleError, match="the 8209 steps of 'T_matmul' do not come in 2 to 8 equal blocks"
    ):
        blocking.apply(sch, block)


@pytest.mark.parametrize(
    ("structure", "expected"),
    [("SSSRRS", True), ("SSRRS", True), ("SSRS", True), ("SRS", False), ("SSRSRS", False)],
)
def test_blocks_stand_around_the_last_level_of_caches(structure: str, expected: bool) -> None:
    assert may_be_blocked(structure) == expected
    tiling = RegisterTiling(structure)
    tiling.initialize(TINY)
    sch = Schedule(product(12, 36, 32), seed=0)
    made = tiling.apply(sch, sch.get_block("T_matmul"))
    assert (
        any("rfactor" in line for item in made if item.trace for line in item.trace.as_python()) == expected
    )


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (lambda: product(12, 36, 32), {"ax0"}),
        (lambda: product(1, 36, 32), set()),  # no other row to use a panel again
        (lambda: suite.workload("GMM", (3, 12, 16, 24)), {"i"}),  # not the batch, which moves both
        (lambda: suite.workload("C2D", (1, 6, 6, 8, 16, 3, 1, 1)), {"yy", "xx"}),
    ],
)
def test_axes_that_leave_the_other_operand_where_it_is_are_turned_inside(
    func: Callable[[], PrimFunc], expected: set[str]
) -> None:
    assert {var.name.removeprefix("v_") for var in turned_axes(node(func()))} == expected
