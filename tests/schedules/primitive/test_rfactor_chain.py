"""rfactor_chain: what it makes, that it means the same on all kinds of rows, what it refuses, and that wrong factors are found out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule, assert_structural_equal, te, tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from runners.native import build_native
from runners.verify import Reference, compute_reference
from schedules import Schedule
from schedules.population.sketch import Sketch, SketchSchedule
from schedules.testing import verify_trace_roundtrip
from tests.programs import chains
from tests.runners.verify.conftest import native, verdict

from ..checks import assert_program, assert_refused, assert_replays, main_of, outputs_of

LOG_SUM_EXP = [("peak", 1), ("total", 1)]
SOFTMAX = [("peak", 1), ("weight", 1), ("total", 1), ("result", 1)]
ATTENTION = [("peak", 2), ("weight", 2), ("mixed", 3), ("total", 2)]
"""Blocks and their loops over the keys."""


def part_loops(sch: Schedule, blocks: Sequence[tuple[str, int]], size: int) -> list[Any]:
    """The loops over parts of so many keys."""
    return [sch.split(sch.get_loops(name)[place], [None, size])[0] for name, place in blocks]


def in_parts(func: PrimFunc, blocks: Sequence[tuple[str, int]], size: int, inline: str = "") -> Schedule:
    sch = Schedule(func, debug_mask="all")
    if inline:
        sch.compute_inline(inline)
    sch.rfactor_chain(*part_loops(sch, blocks, size))
    return sch


def test_log_sum_exp_in_parts() -> None:
    @T.prim_func
    def expected(x: T.Buffer((2, 10), "float32"), result: T.Buffer((2,), "float32")):
        peak = T.alloc_buffer((2,))
        total = T.alloc_buffer((2,))
        peak_rf = T.alloc_buffer((2, 3))
        total_rf = T.alloc_buffer((2, 3))
        scale = T.alloc_buffer((2, 3))
        for i, m0, m1 in T.grid(2, 3, 4):
            with T.block("peak_rf"):
                v0, vi, v1 = T.axis.remap("SSR", [m0, i, m1])
                T.where(m0 * 4 + m1 < 10)
                with T.init():
                    peak_rf[vi, v0] = T.float32("-inf")
                peak_rf[vi, v0] = T.max(peak_rf[vi, v0], x[vi, v0 * 4 + v1])
        for i, s0, s1 in T.grid(2, 3, 4):
            with T.block("total_rf"):
                v0, vi, v1 = T.axis.remap("SSR", [s0, i, s1])
                T.where(s0 * 4 + s1 < 10)
                T.reads(x[vi, v0 * 4 + v1], peak_rf[vi, v0])
                T.writes(total_rf[vi, v0])
                with T.init():
                    total_rf[vi, v0] = T.float32(0)
                total_rf[vi, v0] = total_rf[vi, v0] + T.exp(
                    x[vi, v0 * 4 + v1]
                    - T.Select(peak_rf[vi, v0] == T.float32("-inf"), T.float32(0), peak_rf[vi, v0])
                )
        for i, m0 in T.grid(2, 3):
            with T.block("peak"):
                v0, vi = T.axis.remap("RS", [m0, i])
                with T.init():
                    peak[vi] = T.float32("-inf")
                peak[vi] = T.max(peak[vi], peak_rf[vi, v0])
        for i, m0 in T.grid(2, 3):
            with T.block("peak_scale"):
                v0, vi = T.axis.remap("SS", [m0, i])
                scale[vi, v0] = T.Select(
                    peak_rf[vi, v0] == T.float32("inf") and peak[vi] == T.float32("inf"),
                    T.float32(1),
                    T.exp(peak_rf[vi, v0] - peak[vi]),
                )
        for i, s0 in T.grid(2, 3):
            with T.block("total"):
                v0, vi = T.axis.remap("RS", [s0, i])
                T.reads(total_rf[vi, v0], scale[vi, v0])
                T.writes(total[vi])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + scale[vi, v0] * total_rf[vi, v0]
        for i in range(2):
            with T.block("result"):
                vi = T.axis.spatial(2, i)
                result[vi] = peak[vi] + T.log(total[vi])

    func = chains.log_sum_exp(2, 10)
    sch = Schedule(func, debug_mask="all")
    peak, total = sch.get_block("peak"), sch.get_block("total")
    parts = sch.rfactor_chain(*part_loops(sch, LOG_SUM_EXP, 4))
    assert [sch.get(part).name_hint for part in parts] == ["peak_rf", "total_rf"]
    assert [sch.get(block).name_hint for block in (peak, total)] == ["peak", "total"]
    assert len(sch.get_loops(total)) == 2
    assert_program(sch, expected)
    assert_replays(sch, func)


def test_weights_are_kept_part_by_part_and_sums_share_a_factor() -> None:
    func = chains.attention(2, 5, 6, 3)
    sch = in_parts(func, ATTENTION, 4)
    buffers = {buffer.name: buffer.shape for buffer in main_of(sch).body.block.alloc_buffers}
    shapes = {name: [int(extent.value) for extent in shape] for name, shape in buffers.items()}
    assert shapes["weight.rf"] == [2, 5, 2, 4] and "weight" not in shapes
    assert shapes["mixed.rf"] == [2, 5, 2, 3] and shapes["peak_scale"] == [2, 5, 2]
    assert [name for name in shapes if "scale" in name] == ["peak_scale"]
    verify_trace_roundtrip(sch, func)


def test_what_reads_weights_behind_the_sums_brings_them_to_the_maximum_of_all() -> None:
    @T.prim_func
    def result(
        total: T.Buffer((2,), "float32"),
        weight: T.Buffer((2, 3, 4), "float32"),
        scale: T.Buffer((2, 3), "float32"),
        result: T.Buffer((2, 10), "float32"),
    ):
        for i, j0, j1 in T.grid(2, 3, 4):
            with T.block("result"):
                vi, v0, v1 = T.axis.remap("SSS", [i, j0, j1])
                T.where(j0 * 4 + j1 < 10)
                T.reads(total[vi], weight[vi, v0, v1], scale[vi, v0])
                T.writes(result[vi, v0 * 4 + v1])
                result[vi, v0 * 4 + v1] = scale[vi, v0] * weight[vi, v0, v1] / total[vi]

    func = chains.softmax(2, 10)
    sch = in_parts(func, SOFTMAX, 4)
    nests = main_of(sch).body.block.body.seq
    assert_structural_equal(nests[-1], result.body.block.body, map_free_vars=True)
    assert_replays(sch, func)


def test_the_parts_come_first_and_can_share_loops() -> None:
    """Flash attention: scores, weights and sums of one part after the other."""
    func = chains.attention(2, 4, 6, 3)
    sch = Schedule(func, debug_mask="all")
    sch.compute_inline("masked")
    parts = sch.rfactor_chain(*part_loops(sch, ATTENTION[:2], 2), *_reordered(sch, 2))
    loop = sch.merge(*[sch.get_loops(part)[2] for part in parts])
    sch.compute_at("score", loop)
    assert_replays(sch, func)
    assert_close_on(func, sch, arrays_of(func, 0))


def _reordered(sch: Schedule, size: int) -> list[Any]:
    h, i, e, r = sch.get_loops("mixed")
    outer, inner = sch.split(r, [None, size])
    sch.reorder(h, i, outer, e, inner)
    return [outer, *part_loops(sch, ATTENTION[3:], size)]


# ---- meaning ----------------------------------------------------------------------------------------------------


def arrays_of(func: PrimFunc, seed: int, special: bool = False) -> list[np.ndarray]:
    """Numbers for all parameters; with ``special`` some are infinite or NaN, and in some rows nearly all are -infinity."""
    generator = np.random.default_rng(seed)
    arrays = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = [int(extent.value) for extent in buffer.shape]
        if buffer.dtype == "int32":
            arrays.append(generator.integers(0, 4, shape).astype("int32"))
            continue
        numbers = (generator.standard_normal(shape) * 3).astype(buffer.dtype)
        if special:
            numbers[generator.random(shape) < 0.3] = -np.inf
            numbers[generator.random(shape) < 0.02] = np.inf
            numbers[generator.random(shape) < 0.02] = np.nan
            numbers[generator.random(shape[:1]) < 0.2] = -np.inf
        arrays.append(numbers)
    return arrays


def assert_close_on(func: PrimFunc, sch: Schedule, arrays: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        before, after = outputs_of(func, arrays)[-1], outputs_of(main_of(sch), arrays)[-1]
    np.testing.assert_allclose(after, before, rtol=2e-5, atol=1e-6)


@settings(max_examples=40)
@given(st.data())
def test_chains_mean_the_same(data: st.DataObject) -> None:
    """Extents that parts do not divide, one part, one key a part; rows of infinities and NaN; masks."""
    rows, keys = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
    size = data.draw(st.integers(1, keys))
    kind = data.draw(
        st.sampled_from(["log_sum_exp", "softmax", "cross_entropy", "none", "causal", "added", "earlier"])
    )
    if kind in ("none", "causal", "added", "earlier"):
        func = chains.attention(1, rows, keys, 2, kind, data.draw(st.sampled_from(["exp", "exp2"])))
        sch = in_parts(func, ATTENTION, size)
    else:
        func = getattr(chains, kind)(rows, keys)
        kept = kind == "softmax" and data.draw(st.booleans())
        inlined = "weight" if kind == "softmax" and not kept else ""
        sch = in_parts(func, SOFTMAX if kept else LOG_SUM_EXP, size, inlined)
    special = data.draw(st.booleans())
    assert_close_on(func, sch, arrays_of(func, data.draw(st.integers(0, 1000)), special))


@settings(max_examples=25)
@given(st.data())
def test_random_chains_mean_the_same(data: st.DataObject) -> None:
    """Of a maximum or a minimum, sums of random terms, some of several terms at once, each with a factor of its own."""
    keys, size = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 5))
    largest = data.draw(st.booleans())
    x, y = (te.placeholder((3, keys), "float32", name=name) for name in "xy")
    k, r = te.reduce_axis((0, keys), "k"), te.reduce_axis((0, keys), "r")
    slope = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    peak = te.compute((3,), lambda i: (te.max if largest else te.min)(x[i, k] * slope, axis=k), name="peak")

    def term(i: Any) -> Any:
        below = x[i, r] * slope - peak[i] if largest else peak[i] - x[i, r] * slope
        power = te.exp(below * data.draw(st.sampled_from([0.5, 1.0, 3.0])))
        shapes = [
            power,
            power * y[i, r],
            power * power,
            power * x[i, r] + power,
            te.if_then_else(r > i, power, power * y[i, r]),
        ]
        return data.draw(st.sampled_from(shapes))

    total = te.compute((3,), lambda i: te.sum(term(i), axis=r), name="total")
    func = te.create_prim_func([x, y, te.compute((3,), lambda i: total[i] * 2.0, name="result")])
    sch = in_parts(func, LOG_SUM_EXP, min(size, keys))
    verify_trace_roundtrip(sch, func)
    assert_close_on(func, sch, arrays_of(func, data.draw(st.integers(0, 1000)), data.draw(st.booleans())))


@pytest.mark.meaning("tune-rescale")
def test_parts_of_nothing_but_infinities_count_as_they_do_in_the_whole() -> None:
    """Weights of exactly zero, times whatever the values are; a row of nothing else has no weights that are numbers."""
    func = chains.attention(1, 4, 6, 2, "added")
    query, key, value, bias = (
        np.ones(shape, "float32") for shape in ((1, 4, 2), (1, 6, 2), (1, 6, 2), (4, 6))
    )
    bias[0, :4] = bias[1, 2:] = bias[2, :2] = bias[3] = -np.inf
    value[0, 0] = np.nan
    out = np.zeros((1, 4, 2), "float32")
    for size in (1, 2, 3, 4, 6):
        sch = in_parts(func, ATTENTION, size)
        (*_, found) = outputs_of(main_of(sch), [query, key, value, bias, out])
        (*_, wanted) = outputs_of(func, [query, key, value, bias, out])
        np.testing.assert_array_equal(np.isnan(wanted), True)  # 0 times NaN
        np.testing.assert_array_equal(np.isnan(found), True)
    value[0, 0] = 2
    for size in (1, 2, 3, 4, 6):
        (*_, found) = outputs_of(main_of(in_parts(func, ATTENTION, size)), [query, key, value, bias, out])
        np.testing.assert_allclose(found[0, :3, 0], [1, 1.5, 1], rtol=1e-6)
        assert np.isnan(found[0, 3]).all()


def test_a_maximum_that_the_program_makes_finite_stays_so() -> None:
    """Where -infinity stands for "no key", as relax.nn.attention has it, a query without keys has the sum 0."""
    func = chains.attention(1, 3, 6, 2, "earlier")
    text = in_parts(func, ATTENTION, 2).mod.script()
    scale = 'T.exp(peak_rf[v_h, v_i, vm_0] - T.Select(peak[v_h, v_i] == T.float32("-inf"), T.float32(0), peak[v_h, v_i]))'
    assert scale in text
    assert text.count("T.float32(0), peak_rf[") == 1  # made finite once
    arrays = [*arrays_of(func, 0)[:3], np.zeros((1, 3, 2), "float32")]
    (*_, found) = outputs_of(main_of(in_parts(func, ATTENTION, 2)), arrays)
    np.testing.assert_array_equal(found[0, 0], 0)
    np.testing.assert_allclose(found[0, 1], arrays[2][0, 0], rtol=1e-6)


def test_the_largest_number_of_a_part_may_be_infinite() -> None:
    """Weights are 0 beside it, wherever it is: the factor of its part is 1, though the two maxima have no gap that is a number."""
    x = te.placeholder((2, 6), "float32", name="x")
    m, s = te.reduce_axis((0, 6), "m"), te.reduce_axis((0, 6), "s")
    peak = te.compute((2,), lambda i: te.max(x[i, m], axis=m), name="peak")
    weight = te.compute((2, 6), lambda i, j: te.exp(x[i, j] - peak[i]), name="weight")
    total = te.compute((2,), lambda i: te.sum(weight[i, s], axis=s), name="total")
    func = te.create_prim_func([x, total, te.compute((2, 6), lambda i, j: weight[i, j] * 2.0, name="result")])
    numbers = np.array([[1, np.inf, 2, 3, 4, 5], [-np.inf] * 3 + [0] * 3], "float32")
    for size in (1, 2, 3, 6):
        arrays = [numbers, np.zeros(2, "float32"), np.zeros((2, 6), "float32")]
        (*_, found) = outputs_of(main_of(in_parts(func, SOFTMAX, size)), arrays)
        np.testing.assert_array_equal(found, [[0, np.nan, 0, 0, 0, 0], [0, 0, 0, 2, 2, 2]])


def test_a_sum_may_read_another_one_of_the_chain() -> None:
    x, v = te.placeholder((2, 6), "float32", name="x"), te.placeholder((2, 6), "float32", name="v")
    m, s, r = (te.reduce_axis((0, 6), name) for name in "msr")
    peak = te.compute((2,), lambda i: te.max(x[i, m], axis=m), name="peak")
    total = te.compute((2,), lambda i: te.sum(te.exp(x[i, s] - peak[i]), axis=s), name="total")
    mixed = te.compute(
        (2,), lambda i: te.sum(te.exp(x[i, r] - peak[i]) / total[i] * v[i, r], axis=r), name="mixed"
    )
    func = te.create_prim_func([x, v, mixed])
    sch = in_parts(func, [*LOG_SUM_EXP, ("mixed", 1)], 2)
    assert_close_on(func, sch, arrays_of(func, 0))
    assert_replays(sch, func)


def test_narrow_maxima_are_subtracted_as_wide_as_the_terms_are() -> None:
    """A gap of two float16 is no float16: rounded to one, the factor of a part would be wrong in the third digit."""
    x, y = te.placeholder((1, 4), "float16", name="x"), te.placeholder((1, 4), "float32", name="y")
    m, s = te.reduce_axis((0, 4), "m"), te.reduce_axis((0, 4), "s")
    peak = te.compute((1,), lambda i: te.max(x[i, m], axis=m), name="peak")

    def gap(i: Any) -> Any:
        return tir.Cast("float32", x[i, s]) - tir.Cast("float32", peak[i])

    total = te.compute((1,), lambda i: te.sum(te.exp(gap(i)) * y[i, s], axis=s), name="total")
    func = te.create_prim_func([x, y, total])
    numbers, values = np.array([[0.0123, -20, 8.6, -20]]), np.array([[1e4, 0, 0, 0]])
    arrays = [numbers.astype("float16"), values.astype("float32"), np.zeros(1, "float32")]
    (*_, found) = outputs_of(main_of(in_parts(func, LOG_SUM_EXP, 2)), arrays)
    wide = arrays[0].astype("float64")
    np.testing.assert_allclose(found, [1e4 * np.exp(wide[0, 0] - wide[0, 2])], rtol=1e-5)


# ---- the check of candidates ------------------------------------------------------------------------------------


PROGRAMS: dict[str, tuple[PrimFunc, list[tuple[str, int]], str]] = {
    "log-sum-exp": (chains.log_sum_exp(24, 100), LOG_SUM_EXP, ""),
    "softmax": (chains.softmax(24, 100), SOFTMAX, ""),
    "softmax with weights computed again": (chains.softmax(24, 100), LOG_SUM_EXP, "weight"),
    "cross entropy": (chains.cross_entropy(24, 100), LOG_SUM_EXP, ""),
    "attention": (chains.attention(2, 16, 33, 8), ATTENTION, ""),
    "causal attention": (chains.attention(2, 33, 33, 8, "causal"), ATTENTION, ""),
    "attention to earlier keys": (chains.attention(2, 33, 33, 8, "earlier"), ATTENTION, ""),
    "attention with a mask": (chains.attention(2, 16, 33, 8, "added"), ATTENTION, ""),
}


@pytest.fixture(scope="module")
def references() -> dict[str, Reference]:
    return {
        name: compute_reference(IRModule({"main": func}), native) for name, (func, *_) in PROGRAMS.items()
    }


@pytest.mark.parametrize("size", [1, 7, 16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_check_accepts_parts_of_any_size(name: str, size: int, references: dict[str, Reference]) -> None:
    func, blocks, inline = PROGRAMS[name]
    sch = in_parts(func, blocks, size, inline)
    assert verdict(references[name], build_native(sch.mod, "llvm")) is None


WRONG = {
    "one sum is not rescaled": ("peak_scale[v_h, v_i, vs_0] * total_rf", "total_rf"),
    "one product is not rescaled": ("peak_scale[v_h, v_i, vr_0] * mixed_rf", "mixed_rf"),
    "the wrong sign": (
        "T.exp(peak_rf[v_h, v_i, vm_0] - peak[v_h, v_i])",
        "T.exp(peak[v_h, v_i] - peak_rf[v_h, v_i, vm_0])",
    ),
    "the maximum of the last part": (
        "T.max(peak[v_h, v_i], peak_rf[v_h, v_i, vm_0])",
        "peak_rf[v_h, v_i, vm_0]",
    ),
    "factors of the first part": (
        "peak_rf[v_h, v_i, vm_0] - peak[v_h, v_i]",
        "peak_rf[v_h, v_i, 0] - peak[v_h, v_i]",
    ),
    "a part is left out": (
        "peak_scale[v_h, v_i, vm_0] = T.Select",
        'peak_scale[v_h, v_i, vm_0] = T.Cast("float32", vm_0 > 0) * T.Select',
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_the_check_refuses_a_wrong_kernel(mistake: str, references: dict[str, Reference]) -> None:
    func, blocks, _ = PROGRAMS["attention"]
    text = in_parts(func, blocks, 7).mod.script()
    right, wrong = WRONG[mistake]
    assert right in text
    assert verdict(references["attention"], build_native(from_source(text), "llvm")) is None
    assert (
        verdict(references["attention"], build_native(from_source(text.replace(right, wrong)), "llvm"))
        is not None
    )


# ---- refusals ---------------------------------------------------------------------------------------------------


def chain_of(
    term: Any = lambda x, m: te.exp(x - m),
    first: Any = te.max,
    last: Any = te.sum,
    shape: tuple[int, ...] = (3, 8),
) -> PrimFunc:
    """Blocks ``peak`` and ``total`` of a chain that may be wrong."""
    x = te.placeholder(shape, "float32", name="x")
    k, r = te.reduce_axis((0, shape[1]), "k"), te.reduce_axis((0, shape[1]), "r")
    peak = te.compute(shape[:1], lambda i: first(x[i, k], axis=k), name="peak")
    total = te.compute(shape[:1], lambda i: last(term(x[i, r], peak[i]), axis=r), name="total")
    return te.create_prim_func([x, total])


@pytest.mark.parametrize(
    "func, words",
    [
        (chain_of(lambda x, m: tir.sin(x - m)), ("block 'total'", "nothing is known of", "sin")),
        (chain_of(lambda x, m: x - m), ("block 'total'", "the result itself")),
        (chain_of(lambda x, m: te.exp(m - x)), ("is not at most 1",)),
        (chain_of(lambda x, m: te.if_then_else(x > 0.0, te.exp(x - m), 0.0)), ("block 'total'", "leave out")),
        (chain_of(first=te.sum), ("block 'peak'", "no maximum or minimum")),
        (chain_of(last=te.max), ("block 'total'", "no sum")),
    ],
)
def test_refuses_what_is_no_chain(func: PrimFunc, words: tuple[str, ...]) -> None:
    sch = Schedule(func)
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "rfactor_chain", *words)


def test_refuses_loops_that_are_no_parts_of_one_axis() -> None:
    sch = Schedule(chain_of())
    first, _ = part_loops(sch, LOG_SUM_EXP, 4)
    (other,) = part_loops(sch, [("total", 2)], 2)
    assert_refused(sch, lambda: sch.rfactor_chain(first), "at least one block")
    assert_refused(sch, lambda: sch.rfactor_chain(first, other), "into parts", "outer loop of a split")
    rows = sch.get_loops("total")[0]
    assert_refused(sch, lambda: sch.rfactor_chain(first, rows), "'i'", "data-parallel")
    uneven = Schedule(chain_of())
    loops = [*part_loops(uneven, LOG_SUM_EXP[:1], 4), *part_loops(uneven, LOG_SUM_EXP[1:], 2)]
    assert_refused(uneven, lambda: uneven.rfactor_chain(*loops), "4 parts of 2", "2 parts of 4")


KEYS = """
@T.prim_func
def main(x: T.Buffer((3, 8), "float32"), row: T.Buffer((3,), "int32"), total: T.Buffer((3,), "float32")):
    peak = T.alloc_buffer((3,))
    for i, k in T.grid(3, 8):
        with T.block("peak"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                peak[vi] = T.float32("-inf")
            peak[vi] = T.max(peak[vi], x[vi, vk])
    for i, k in T.grid(3, 8):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(x[vi, vk] - peak[vi])
"""


@pytest.mark.parametrize(
    "right, wrong, words",
    [
        ("T.grid(3, 8)", "T.grid(3, 7)", ("block 'total'", "up to its extent", "block 'peak'", "up to 7")),
        (
            'remap("SR", [i, k])',
            'remap("SR", [i, k])\n            T.where(k % 4 < 3)',
            (
                "predicate",
                "block 'peak' leaves out more",
            ),
        ),
        ("T.grid(3, 8)", "T.grid(3, 4)", ("2 parts", "1 parts")),
    ],
)
def test_refuses_a_maximum_of_fewer_keys_than_are_summed_up(
    right: str, wrong: str, words: tuple[str, ...]
) -> None:
    """Numbers that are larger than the maximum of their part may have exponentials that no float holds."""
    sch = Schedule(from_source(KEYS.replace(right, wrong, 1)))
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), *words)


def test_refuses_parts_of_which_loops_leave_something_out() -> None:
    text = KEYS.replace("for i, k in T.grid(3, 8):", "for i, k0, k1 in T.grid(3, 2, 2):", 1)
    text = text.replace(
        'vi, vk = T.axis.remap("SR", [i, k])', "vi, vk = T.axis.S(3, i), T.axis.R(8, k0 * 4 + k1 * 2)", 1
    )
    sch = Schedule(from_source(text))
    loops = [sch.get_loops("peak")[1], *part_loops(sch, [("total", 1)], 4)]
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'peak'", "outer loop of a split")


def test_refuses_maxima_at_places_that_are_read_from_memory() -> None:
    text = KEYS.replace("T.exp(x[vi, vk] - peak[vi])", "T.exp(x[row[vi], vk] - peak[row[vi]])")
    sch = Schedule(from_source(text))
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'total'", "read from memory")


def test_refuses_a_block_that_is_given_twice() -> None:
    sch = Schedule(from_source(KEYS))
    first, other = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(first, other, other), "block 'total'", "twice")


def test_refuses_weights_that_others_read() -> None:
    sch = Schedule(chains.softmax(3, 8))
    loops = part_loops(sch, [("peak", 1), ("weight", 1), ("total", 1)], 4)
    assert_refused(
        sch, lambda: sch.rfactor_chain(*loops), "block 'result'", "outside of the chain", "inline weight"
    )


def test_refuses_what_reads_no_weights_behind_the_sums() -> None:
    sch = Schedule(chains.softmax(3, 8))
    sch.compute_inline("weight")
    loops = part_loops(sch, [*LOG_SUM_EXP, ("result", 1)], 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'result' behind the sums", "reads weights")


def test_refuses_a_sum_whose_weights_are_not_in_the_chain() -> None:
    sch = Schedule(chains.attention())
    loops = part_loops(sch, [("peak", 2), ("total", 2)], 2)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'total'", "does not depend on peak")


def test_refuses_a_maximum_that_begins_with_a_number() -> None:
    text = chain_of().script().replace('T.float32("-inf")', "T.float32(-3.4028234663852886e+38)")
    sch = Schedule(from_source(text))
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "begins with an infinity")


def test_refuses_what_is_overwritten_in_between() -> None:
    sch = Schedule(
        from_source("""
@T.prim_func
def main(x: T.Buffer((3, 8), "float32"), total: T.Buffer((3,), "float32")):
    peak = T.alloc_buffer((3,))
    for i, k in T.grid(3, 8):
        with T.block("peak"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                peak[vi] = T.float32("-inf")
            peak[vi] = T.max(peak[vi], x[vi, vk])
    for i, k in T.grid(3, 8):
        with T.block("changed"):
            vi, vk = T.axis.remap("SS", [i, k])
            T.reads()
            T.writes(x[vi, vk])
            x[vi, vk] = T.float32(1000)
    for i, k in T.grid(3, 8):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(x[vi, vk] - peak[vi])
""")
    )
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'changed' overwrites")


def test_parts_may_be_open_decisions() -> None:
    func = chains.attention(2, 4, 24, 3)
    start = SketchSchedule(func, seed=0)
    factors = start.sample_perfect_tile(start.get_loops("peak")[2], 2, 24)
    start.rfactor_chain(*[start.split(start.get_loops(name)[place], factors)[0] for name, place in ATTENTION])
    sketch = Sketch(start)
    rows = sketch.all_rows(100)
    assert rows is not None and len(rows) == 8  # the divisors of 24
    for row in rows[::3]:
        sch = sketch.materialize(func, row)
        assert_replays(sch, func)
        assert_close_on(func, sch, arrays_of(func, 0))


# ---- what other breaks of the code leave standing -----------------------------------------------------------------


def two_rows(text: str, *, parts: Sequence[tuple[str, int]] = LOG_SUM_EXP, size: int = 4) -> None:
    """The program in parts means what it meant, on ordinary rows and on rows of infinities and NaN."""
    func = from_source(text)
    sch = in_parts(func, parts, size)
    assert_replays(sch, func)
    for seed in range(4):
        assert_close_on(func, sch, arrays_of(func, seed, special=seed > 1))


def changed(right: str, wrong: str) -> str:
    assert right in KEYS
    return KEYS.replace(right, wrong)


TERM = "T.exp(x[vi, vk] - peak[vi])"


@pytest.mark.parametrize(
    "text, words",
    [
        (changed(TERM, f"{TERM} * T.exp(x[2 - vi, vk] - peak[2 - vi])"), ("several elements of peak",)),
        (
            changed("peak[vi]", "peak[vi, vi]").replace("T.alloc_buffer((3,))", "T.alloc_buffer((3, 3))"),
            ("block 'peak' is no maximum", "stored at its data-parallel variables"),
        ),
    ],
)
def test_refuses_maxima_that_are_not_one_a_row(text: str, words: tuple[str, ...]) -> None:
    sch = Schedule(from_source(text))
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), *words)


def test_refuses_a_sum_over_rows_too() -> None:
    text = KEYS.replace("total: T.Buffer((3,)", "total: T.Buffer((1,)").replace("total[vi]", "total[0]")
    head, tail = text.split('with T.block("total"):')
    sch = Schedule(from_source(head + 'with T.block("total"):' + tail.replace('"SR"', '"RR"')))
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'total'", "several elements of peak")


def test_refuses_a_maximum_over_another_axis_too() -> None:
    x = te.placeholder((3, 8, 2), "float32", name="x")
    k, r, s = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 2), "r"), te.reduce_axis((0, 8), "s")
    peak = te.compute((3,), lambda i: te.max(x[i, k, r], axis=[k, r]), name="peak")
    total = te.compute((3,), lambda i: te.sum(te.exp(x[i, s, 0] - peak[i]), axis=s), name="total")
    sch = Schedule(te.create_prim_func([x, total]))
    loops = part_loops(sch, LOG_SUM_EXP, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'peak'", "over one axis")


WEIGHTS = """
@T.prim_func
def main(x: T.Buffer((3, 8), "float32"), total: T.Buffer((3,), "float32"), result: T.Buffer((3, 8), "float32")):
    peak = T.alloc_buffer((3,), scope="local")
    weight = T.alloc_buffer((8, 3), scope="local")
    for i, k in T.grid(3, 8):
        with T.block("peak"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                peak[vi] = T.float32("-inf")
            peak[vi] = T.max(peak[vi], x[vi, vk])
    for k, i in T.grid(8, 3):
        with T.block("weight"):
            vk, vi = T.axis.remap("SS", [k, i])
            weight[vk, vi] = T.exp(x[vi, vk] - peak[vi])
    for i, k in T.grid(3, 8):
        with T.block("result"):
            vi, vk = T.axis.remap("SS", [i, k])
            result[vi, vk] = weight[vk, vi] * T.float32(2)
    for i, k in T.grid(3, 8):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + weight[vk, vi]
"""
ALL_WEIGHTS = [("peak", 1), ("weight", 0), ("result", 1), ("total", 1)]


@pytest.mark.parametrize("size", [1, 3, 8])
def test_what_reads_weights_may_stand_before_the_sums(size: int) -> None:
    """Weights whose first dimension is the axis, in memory of their own; what others read early is known early."""
    two_rows(WEIGHTS, parts=ALL_WEIGHTS, size=size)
    func = main_of(in_parts(from_source(WEIGHTS), ALL_WEIGHTS, size))
    scopes = {buffer.name: buffer.scope() for buffer in func.body.block.alloc_buffers}
    assert {scopes[name] for name in ("peak.rf", "weight.rf", "peak_scale")} == {"local"}


@pytest.mark.parametrize(
    "outer, inner, words",
    [
        ("range(1, 3)", "range(4)", ("loop 'k0'", "from 1 on")),
        ("range(2)", "range(1, 5)", ("loop 'k0' does not share out", "outer loop of a split")),
    ],
)
def test_refuses_weights_whose_parts_are_not_counted_from_zero(
    outer: str, inner: str, words: tuple[str, ...]
) -> None:
    nest = f"""    for k0 in {outer}:
        for k1 in {inner}:
            for i in range(3):
                with T.block("weight"):
                    vk, vi = T.axis.S(12, k0 * 4 + k1), T.axis.S(3, i)
                    weight[vk, vi] = T.exp(x[vi, vk] - peak[vi])
    for"""
    before, behind = WEIGHTS.split("    for k, i in T.grid(8, 3):")
    text = before + nest + behind.split("    for", 1)[1]
    text = text.replace("x: T.Buffer((3, 8)", "x: T.Buffer((3, 12)").replace(
        "buffer((8, 3)", "buffer((12, 3)"
    )
    sch = Schedule(from_source(text))
    (first,) = part_loops(sch, LOG_SUM_EXP[:1], 4)
    loops = [first, sch.get_loops("weight")[0], *part_loops(sch, ALL_WEIGHTS[2:], 4)]
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'weight'", *words)


def test_refuses_weights_of_other_parts() -> None:
    text = WEIGHTS.replace("+ weight[vk, vi]", "+ weight[7 - vk, vi]")
    sch = Schedule(from_source(text))
    loops = part_loops(sch, ALL_WEIGHTS, 4)
    assert_refused(sch, lambda: sch.rfactor_chain(*loops), "block 'total'", "maybe of other parts")


def test_sums_of_different_terms_have_factors_of_their_own() -> None:
    x = te.placeholder((3, 8), "float32", name="x")
    k, r, s = (te.reduce_axis((0, 8), name) for name in "krs")
    peak = te.compute((3,), lambda i: te.max(x[i, k], axis=k), name="peak")
    total = te.compute((3,), lambda i: te.sum(te.exp(x[i, r] - peak[i]), axis=r), name="total")
    squares = te.compute((3,), lambda i: te.sum(te.exp((x[i, s] - peak[i]) * 2.0), axis=s), name="squares")
    both = te.compute((3,), lambda i: total[i] * total[i] / squares[i], name="both")
    two_rows(te.create_prim_func([x, both]).script(), parts=[*LOG_SUM_EXP, ("squares", 1)])


def test_a_maximum_that_is_made_finite_in_one_place_only_may_be_infinite() -> None:
    """A row of nothing but -infinity has the sum NaN then, as in the whole."""
    finite = 'T.Select(peak[vi] == T.float32("-inf"), T.float32(0), peak[vi])'
    func = from_source(changed(TERM, f"{TERM} * T.exp(x[vi, vk] - {finite})"))
    arrays = [np.full((3, 8), -np.inf, "float32"), np.zeros(3, "int32"), np.zeros(3, "float32")]
    arrays[0][0] = 1
    (*_, found) = outputs_of(main_of(in_parts(func, LOG_SUM_EXP, 4)), arrays)
    np.testing.assert_array_equal(found, [8, np.nan, np.nan])
