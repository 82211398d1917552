"""Products of narrow numbers for matrix units: when their registers are offered, and that every candidate fills them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cost_models import estimate_seconds
from ir import IRModule, te, topi
from ir.codegen.build import build
from ir.codegen.llvm.matrix import has_matrix_unit
from ir.dtype import to_numpy
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules.dlight import default_schedule
from schedules.population import Extraction
from schedules.postproc import postprocess
from schedules.rule import cpu_rules
from schedules.space import PostOrderApply
from schedules.tree import tree_of
from tests.schedules.rule.test_dot_product import product

UNIT = Target("llvm -mcpu=sapphirerapids -num-cores 2")
NO_UNIT = Target("llvm -mcpu=znver4 -num-cores 2")


def tiled_sketches(func: PrimFunc, target: Target = UNIT) -> list[Any]:
    """The structures for registers of a matrix unit."""
    sketches = PostOrderApply(sch_rules=cpu_rules()).generate_sketches(IRModule({"main": func}), target)
    rng = np.random.default_rng(0)
    module = IRModule({"main": func})
    return [
        sketch
        for sketch in sketches
        if "matrix_tile" in sketch.materialize(module, sketch.sample(1, rng)[0]).mod.script()
    ]


def candidates(func: PrimFunc, count: int = 6) -> list[IRModule]:
    """Random candidates for a matrix unit, postprocessed."""
    module, rng = IRModule({"main": func}), np.random.default_rng(1)
    found = []
    for sketch in tiled_sketches(func):
        for row in sketch.sample(count, rng):
            sch = sketch.materialize(module, row)
            assert postprocess(sch, UNIT)
            found.append(sch.mod)
    return found


def convolution(size: int, channels: int, out_channels: int) -> PrimFunc:
    """A 3 x 3 convolution of bytes with channels last."""
    x = te.placeholder((1, size, size, channels), "int8", name="x")
    w = te.placeholder((3, 3, channels, out_channels), "int8", name="w")
    ry, rx, rc = (te.reduce_axis((0, n), name) for n, name in ((3, "ry"), (3, "rx"), (channels, "rc")))
    out = te.compute(
        (1, size - 2, size - 2, out_channels),
        lambda n, h, v, c: te.sum(
            x[n, h + ry, v + rx, rc].astype("int32") * w[ry, rx, rc, c].astype("int32"), axis=[ry, rx, rc]
        ),
        name="conv",
    )
    return te.create_prim_func([x, w, out])


def repeated_rows(rows: int, columns: int, inner: int) -> PrimFunc:
    """Each row of the image twice, as in an enlarged one."""
    x, y = (
        te.placeholder((rows // 2, inner), "int8", name="x"),
        te.placeholder((inner, columns), "int8", name="y"),
    )
    k = te.reduce_axis((0, inner), "k")
    return te.create_prim_func([x, y, te.compute(
        (rows, columns), lambda i, j: te.sum(x[i // 2, k].astype("int32") * y[k, j].astype("int32"), axis=k), name="product"
    )])  # fmt: skip


def with_relu(rows: int, columns: int, inner: int) -> PrimFunc:
    x, y = (
        te.placeholder(shape, "uint8", name=name)
        for shape, name in (((rows, inner), "x"), ((inner, columns), "y"))
    )
    k = te.reduce_axis((0, inner), "k")
    total = te.compute(
        (rows, columns),
        lambda i, j: te.sum(x[i, k].astype("int32") * y[k, j].astype("int32"), axis=k),
        name="product",
    )
    return te.create_prim_func([x, y, topi.nn.relu(total)])


# ---- when they are offered -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("func", "offered"),
    [
        (product(32, 32, 128), True),
        (product(32, 32, 128, "uint8", "int8"), True),
        (product(5, 16, 64), True),
        (product(197, 48, 64), True),
        (product(64, 17, 128), False),  # no whole registers of columns
        (product(64, 24, 128), False),
        (repeated_rows(64, 32, 64), False),  # rows that registers do not hold
        (product(32, 32, 64, "bfloat16", "bfloat16", "float32"), True),
        (product(4, 32, 128), False),  # too few rows
        (product(32, 12, 128), False),  # less than a register of columns
        (product(32, 32, 96), False),  # no whole registers of groups
        (product(32, 32, 66), False),  # no whole groups
        (product(32, 32, 128, x_by_columns=True), False),  # groups that are not contiguous
        (product(32, 32, 64, "int16", "int16"), False),  # no form for words
        (convolution(10, 64, 32), True),
    ],
)  # fmt: skip
def test_where_registers_are_offered(func: PrimFunc, offered: bool) -> None:
    assert bool(tiled_sketches(func)) is offered
    assert not tiled_sketches(func, NO_UNIT)


def test_not_where_vectors_are_narrower() -> None:
    assert not tiled_sketches(product(32, 32, 128), Target("llvm -mcpu=sapphirerapids -vector-width 256"))


def test_integers_only_without_a_search() -> None:
    """Pairs of bfloat16 are rounded otherwise, and numbers that are not normal flushed."""
    for kinds, uses in ((("int8", "int8", "int32"), True), (("bfloat16", "bfloat16", "float32"), False)):
        func = product(64, 64, 128, *kinds)
        sch = default_schedule(IRModule({"main": func}), UNIT, rank=estimate_seconds)
        assert ("matrix_tile" in sch.mod.script()) is uses


# ---- every candidate -------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "product": product(48, 96, 256),
    "unsigned": product(30, 32, 128, "uint8", "uint8"),
    "padded rows": product(37, 32, 64),
    "bfloat16": product(32, 48, 64, "bfloat16", "bfloat16", "float32"),
    "convolution": convolution(10, 64, 32),
    "epilogue": with_relu(32, 32, 128),
}


@pytest.mark.parametrize("func", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_candidate_fills_registers(func: PrimFunc) -> None:
    modules = candidates(func)
    assert modules
    for module in modules:
        lowered = lower(module, UNIT).script()
        assert "matrix_accumulate" in lowered
        if func is not FUNCTIONS["padded rows"]:
            assert "dot_product" not in lowered and "dot_accumulate" not in lowered


def arguments(func: PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    found = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [extent.value for extent in buffer.shape]
        low = 0 if buffer.dtype == "uint8" else -9
        found.append(rng.integers(low, 10, shape).astype(to_numpy(buffer.dtype)))
    return found


@pytest.mark.parametrize("func", FUNCTIONS.values(), ids=FUNCTIONS)
def test_candidates_compute_what_the_program_does(func: PrimFunc) -> None:
    """In vectors where the machine that runs the test has no such unit."""
    wanted = arguments(func)
    build(func)(*wanted)
    for module in candidates(func, 3):
        found = arguments(func)
        build(module, Target("llvm -num-cores 2"))["main"](*found)
        np.testing.assert_array_equal(found[-1], wanted[-1])


def test_lowered_candidates_are_what_the_interpreter_says() -> None:
    func = product(9, 32, 64)
    wanted = arguments(func)
    run(func, *wanted)
    (module, *_) = candidates(func, 1)
    found = arguments(func)
    run(lower(module, UNIT), *found)
    np.testing.assert_array_equal(found[-1], wanted[-1])


# ---- what is known of them -----------------------------------------------------------------------------------------------


def test_array_facts_are_those_of_the_program() -> None:
    func = FUNCTIONS["convolution"]
    module, rng = IRModule({"main": func}), np.random.default_rng(2)
    (sketch, *_) = tiled_sketches(func)
    rows = sketch.sample(8, rng)
    together = estimate_seconds(sketch.skeleton(rows), UNIT)
    for row, seconds in zip(rows, together):
        program = sketch.materialize(module, row).mod["main"]
        alone = estimate_seconds(Extraction(tree_of(program.body)).evaluate({}, 1), UNIT)
        assert alone[0] == pytest.approx(seconds)


def test_the_estimate_knows_that_they_are_faster() -> None:
    func = product(512, 512, 512)
    rng = np.random.default_rng(0)
    tiled = tiled_sketches(func)
    others = [
        sketch
        for sketch in PostOrderApply(sch_rules=cpu_rules()).generate_sketches(
            IRModule({"main": func}), NO_UNIT
        )
    ]
    best = [
        min(estimate_seconds(sketch.skeleton(sketch.sample(256, rng)), UNIT).min() for sketch in sketches)
        for sketches in (tiled, others)
    ]
    assert best[0] < best[1] / 2


@pytest.mark.skipif(not has_matrix_unit(), reason="this processor has no matrix unit")
def test_the_host_runs_them() -> None:
    func = product(64, 64, 128)
    sch = default_schedule(IRModule({"main": func}), Target("llvm -num-cores 2"), rank=estimate_seconds)
    kernel = build(sch.mod, Target("llvm -num-cores 2"))
    assert "tdpbssd" in kernel.assembly
