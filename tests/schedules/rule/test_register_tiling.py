"""Register tiles of unusual operands: one output column, one tensor that is read twice, nothing at all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ir import IRModule, te, topi
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from runners.native import build_native
from schedules import Schedule, Trace
from schedules.block_facts import node_of
from schedules.layout_rewrite import split_module
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import ReductionChain, RegisterTiling, cpu_rules
from schedules.rule.register_tile import registers_for
from schedules.space import PostOrderApply
from tests.programs import chains
from tests.programs.irregular import IRREGULAR

TARGET = Target("llvm -mcpu=skylake-avx512 -num-cores 2")


def product(rows: int, steps: int, columns: int) -> PrimFunc:
    a, b = te.placeholder((rows, steps), name="A"), te.placeholder((steps, columns), name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def check_candidates(
    func: PrimFunc, arrays: list[np.ndarray], expected: np.ndarray, per_sketch: int = 2
) -> int:
    """Builds some candidates of every sketch, as from a database; how many decisions the sketches have."""
    generator = np.random.default_rng(0)
    n_decisions = 0
    exact = [rule for rule in cpu_rules() if not rule.changes_rounding]
    for sketch in PostOrderApply(sch_rules=exact).generate_sketches(func, TARGET):
        n_decisions = max(n_decisions, sketch.n_columns)
        for row in sketch.sample(per_sketch, generator):
            made = sketch.materialize(func, row)
            assert postprocess(made, TARGET)
            assert made.trace is not None
            sch = Schedule(func)
            Trace.apply_json_to_schedule(json.loads(json.dumps(made.trace.as_json())), sch)
            kernel = split_module(sch.mod)["main"]
            out = np.full(expected.shape, 77, expected.dtype)
            build_native(IRModule({"main": kernel}), Target("cpu")).bind(*arrays, out)()
            np.testing.assert_array_equal(out, expected)
    return n_decisions


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype("float32")


@pytest.mark.parametrize("rows", [1, 5, 33, 197, 257])
@pytest.mark.parametrize("steps", [1, 5, 64])
def test_one_output_column(rows: int, steps: int) -> None:
    a, b = integers(rows, steps), integers(steps, 1)
    check_candidates(product(rows, steps, 1), [a, b], a @ b, per_sketch=1)


@pytest.mark.parametrize("steps", [1, 5, 64])
def test_every_number_of_rows_has_a_space(steps: int) -> None:
    for rows in [*range(1, 70), 1023, 4096]:
        for func in (product(rows, steps, 1), product(1, steps, rows)):
            assert PostOrderApply().generate_sketches(func, TARGET)


def test_a_padded_axis_among_units_is_tiled_as_a_nest_of_its_own() -> None:
    """Padding splits all loops, so that those of one iteration bind no variable: the nest is nobody else's for that."""
    a, b = te.placeholder((1, 1, 1), name="A"), te.placeholder((1, 33, 1), name="B")
    func = te.create_prim_func([a, b, topi.nn.relu(topi.nn.batch_matmul(a, b))])
    tiling = RegisterTiling("SRS", max_padding=1.0)
    tiling.initialize(Target("llvm -mcpu=cascadelake -num-cores 4"))
    start = Schedule(func, seed=0)
    found = tiling.apply(start, start.get_block("T_batch_matmul_NT"))
    assert any("T.where" in item.mod.script() for item in found)


def test_one_output_channel() -> None:
    data, weight = te.placeholder((1, 3, 9, 11), name="A"), te.placeholder((1, 3, 3, 3), name="W")
    func = te.create_prim_func([data, weight, topi.nn.conv2d_nchw(data, weight, 1, 1, 1)])
    a, w = integers(1, 3, 9, 11), integers(1, 3, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(a, [(0, 0), (0, 0), (1, 1), (1, 1)]), (3, 3), (2, 3)
    )
    check_candidates(func, [a, w], np.einsum("nchwyx,ocyx->nohw", windows, w))


@pytest.mark.parametrize(("rows", "steps", "columns"), [(0, 5, 3), (3, 0, 5), (5, 3, 0), (17, 0, 1)])
def test_nothing_to_tile(rows: int, steps: int, columns: int) -> None:
    func = product(rows, steps, columns)
    assert PostOrderApply().generate_sketches(func, TARGET)


@pytest.mark.parametrize("operator", [topi.add, topi.divide, None])
def test_a_tensor_that_is_both_operands_has_an_ordinary_space(operator: object) -> None:
    a = te.placeholder((24, 24), name="A")
    out = topi.matmul(a, a)
    func = te.create_prim_func([a, operator(out, a) if callable(operator) else out])
    array = integers(24, 24) + 8
    expected = array @ array
    if operator is topi.add:
        expected = expected + array
    elif operator is topi.divide:
        expected = expected / array
    assert check_candidates(func, [array], expected) >= 3


def test_a_tensor_that_a_block_states_twice() -> None:
    """As fusion leaves ``x @ x + x``: one region for each operand."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((24, 24), "float32"), D: T.Buffer((24, 24), "float32")):
    T.func_attr({"tir.noalias": True})
    C = T.alloc_buffer((24, 24))
    for i, j, k in T.grid(24, 24, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A[vi, vk], A[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj]
    for i, j in T.grid(24, 24):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + A[vi, vj]
"""
    )
    array = integers(24, 24)
    assert check_candidates(func, [array], array @ array + array) >= 3


def test_a_sum_over_a_triangle() -> None:
    """Its block runs for a part of its domain, so that no tile of it is whole."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((6, 24), "float32"), B: T.Buffer((6, 24), "float32")):
    for i, j, k in T.grid(6, 24, 24):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.where(k <= j)
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk]
"""
    )
    assert isinstance(func, PrimFunc)
    array = integers(6, 24)
    check_candidates(func, [array], np.cumsum(array, axis=1))


def test_where_the_consumer_cannot_follow_a_tile_a_copy_writes_it_out() -> None:
    """An epilogue that runs for a triangle takes no whole tiles: the product is tiled without it."""
    func = IRREGULAR["product of which a part is taken on"].func()
    for sketch in PostOrderApply().generate_sketches(func, TARGET):
        steps = [inst.kind.name for inst in sketch.trace.insts]
        assert "CacheWrite" in steps and "SamplePerfectTile" in steps


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_pools_are_tiled_where_windows_lie_side_by_side(layout: str, stride: int) -> None:
    """Tiles in registers, and whole rows one after the other; windows along memory that lie far apart have no vectors."""
    shape = (1, 10, 10, 24) if layout == "NHWC" else (1, 24, 10, 10)
    axes = (1, 2) if layout == "NHWC" else (2, 3)
    data = te.placeholder(shape, "float32", name="A")
    pool = topi.nn.pool2d(data, [3, 3], [stride, stride], [1, 1], [0, 0, 0, 0], "max", False, layout)
    array = integers(*shape)
    windows = np.lib.stride_tricks.sliding_window_view(array, (3, 3), axis=axes)
    inner = tuple(slice(None, None, stride) if axis in axes else slice(None) for axis in range(4))
    func = te.create_prim_func([data, pool])
    n_decisions = check_candidates(func, [array], windows[inner].max((-2, -1)), per_sketch=4)
    n_sketches = len(PostOrderApply().generate_sketches(func, TARGET))
    assert n_decisions > 0
    # as it was, in tiles without accumulators, and in registers; the rest of separated windows as it was and in registers, or row by row,
    # in jobs of one row or of several
    separated = 4 if layout == "NCHW" and stride == 2 else 0
    assert n_sketches == (3 if layout == "NHWC" or stride < 4 else 2) + separated


def test_what_is_less_than_a_byte_fills_bytes_of_a_vector() -> None:
    a = te.placeholder((8,), name="A")
    sch = Schedule(te.create_prim_func([a, te.compute((8,), lambda i: a[i] > 0.0, name="B")]))
    assert registers_for(node_of(sch, sch.get_block("B")), TARGET).lanes == 512 // 8


def grouped_attention(keys: int) -> PrimFunc:
    """Scores beside each other come from one key."""
    query, key = te.placeholder((2, 12, 8), name="query"), te.placeholder((2, keys // 2, 8), name="key")
    value, d = te.placeholder((2, keys, 8), name="value"), te.reduce_axis((0, 8), "d")
    score = te.compute(
        (2, 12, keys), lambda h, i, j: te.sum(query[h, i, d] * key[h, j // 2, d], axis=d), name="score"
    )
    return te.create_prim_func([query, key, value, topi.nn.softmax_matmul(score, value)])


@pytest.mark.parametrize(
    ("func", "peak", "tile", "is_padded"),
    [
        (chains.attention(2, 60, 18, 8), "peak", [6, 18], True),
        # behind a part of the axis the next tile begins
        (chains.attention(2, 60, 194, 8), "peak", [4, 2], False),
        # whole vectors, and less than one
        (chains.attention(2, 60, 16, 8), "peak", [6, 16], False),
        (chains.attention(2, 60, 6, 8), "peak", [6, 6], False),
        # regions of a part of the axis are no boxes
        (grouped_attention(18), "T_softmax_maxelem", [6, 18], False),
    ],
)
def test_scores_in_a_tile_are_padded_to_whole_vectors_where_it_takes_all_of_them(
    func: PrimFunc, peak: str, tile: list[int], is_padded: bool
) -> None:
    target = Target("llvm -mcpu=x86-64-v3 -num-cores 1 -l1-cache-bytes 1024 -l2-cache-bytes 16384")
    chain, tiling = ReductionChain(max_row_tile=8), RegisterTiling()
    chain.initialize(target)
    tiling.initialize(target)
    start = SketchSchedule(func, seed=0)
    found = {}
    for fused in chain.offers(start, start.get_block(peak))[:-1]:
        extents = [str(fused.get(loop).extent) for loop in fused.get_loops("score")]
        (tiled,) = tiling.apply(fused, fused.get_block("score"))
        loops = [tiled.get(loop).loop_var.name for loop in tiled.get_loops("score")]
        found[tuple(map(int, extents[-3:-1]))] = any("fused" in name for name in loops), len(loops)
    assert found[tile[0], tile[1]] == (is_padded, 12)  # of 7 loops three become two more each
