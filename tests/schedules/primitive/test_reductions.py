"""decompose_reduction, rfactor, rolling_buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.script import tir as T
from ir.tir import IterVar
from ir.tir.interpreter import run
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning, main_of, outputs_of


@T.prim_func
def matmul(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.block_attr({"mark": 1})
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


rowsum = kernels.row_sum(6, 10)
odd_matmul = kernels.matmul(7, 6, 5)


argmax = kernels.argmax(4, 12)


def test_decompose_reduction() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 4), "float32")
    ):
        for i, j in T.grid(4, 4):
            with T.block("C_init"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"mark": 1})
                C[vi, vj] = T.float32(0)
        for i, j, k in T.grid(4, 4, 8):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                T.block_attr({"mark": 1})
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = Schedule(matmul)
    block = sch.get_block("C")
    init = sch.decompose_reduction(block, sch.get_loops(block)[0])
    assert sch.get(init).name_hint == "C_init"
    assert sch.get(block).name_hint == "C_update"
    assert_program(sch, expected)
    assert_same_meaning(matmul, sch)
    assert_replays(sch, matmul)


def test_decompose_reduction_keeps_vector_loops() -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    sch.vectorize(j)
    sch.decompose_reduction("C", k)
    assert [str(sch.get(loop).kind) for loop in sch.get_loops("C_init")][-1] == str(
        sch.get(sch.get_loops("C_update")[-1]).kind
    )
    assert_same_meaning(matmul, sch)


def test_decompose_reduction_refusals() -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    assert_refused(sch, lambda: sch.decompose_reduction("C", i), "decompose_reduction", "'vk'", "outside")
    sch.decompose_reduction("C", k)
    assert_refused(sch, lambda: sch.decompose_reduction("C_update", k), "no init")


def test_rfactor() -> None:
    @T.prim_func
    def expected(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6,), "float32")):
        B_rf = T.alloc_buffer((6, 5))
        for i, k0, k1 in T.grid(6, 2, 5):
            with T.block("B_rf"):
                vk1, vi, vk0 = T.axis.remap("SSR", [k1, i, k0])
                with T.init():
                    B_rf[vi, vk1] = T.float32(0)
                B_rf[vi, vk1] = B_rf[vi, vk1] + A[vi, vk0 * 5 + vk1]
        for i, k1 in T.grid(6, 5):
            with T.block("B"):
                vk1, vi = T.axis.remap("RS", [k1, i])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + B_rf[vi, vk1]

    sch = Schedule(rowsum)
    _, k = sch.get_loops("B")
    _, k1 = sch.split(k, [None, 5])
    rf = sch.rfactor(k1, 1)
    assert sch.get(rf).name_hint == "B_rf"
    assert_program(sch, expected)
    assert_same_meaning(rowsum, sch)
    assert_replays(sch, rowsum)


def test_rfactor_of_an_argmax() -> None:
    @T.prim_func
    def expected(
        idx: T.Buffer((4, 12), "int32"),
        val: T.Buffer((4, 12), "float32"),
        argmax_v0: T.Buffer((4,), "int32"),
        argmax_v1: T.Buffer((4,), "float32"),
    ):
        rf0 = T.alloc_buffer((4, 3), "int32")
        rf1 = T.alloc_buffer((4, 3))
        for i0, k0, k1 in T.grid(4, 4, 3):
            with T.block("argmax_rf"):
                vk1, i, vk0 = T.axis.remap("SSR", [k1, i0, k0])
                T.reads(idx[i, vk0 * 3 + vk1], val[i, vk0 * 3 + vk1])
                T.writes(rf0[i, vk1], rf1[i, vk1])
                with T.init():
                    rf0[i, vk1] = -1
                    rf1[i, vk1] = T.min_value("float32")
                v0: T.int32 = T.Select(
                    rf1[i, vk1] >= val[i, vk0 * 3 + vk1], rf0[i, vk1], idx[i, vk0 * 3 + vk1]
                )
                v1: T.float32 = T.Select(
                    rf1[i, vk1] >= val[i, vk0 * 3 + vk1], rf1[i, vk1], val[i, vk0 * 3 + vk1]
                )
                rf0[i, vk1] = v0
                rf1[i, vk1] = v1
        for i0, k1 in T.grid(4, 3):
            with T.block("argmax"):
                vk1, i = T.axis.remap("RS", [k1, i0])
                T.reads(rf0[i, vk1], rf1[i, vk1])
                T.writes(argmax_v0[i], argmax_v1[i])
                with T.init():
                    argmax_v0[i] = -1
                    argmax_v1[i] = T.min_value("float32")
                v0: T.int32 = T.Select(argmax_v1[i] >= rf1[i, vk1], argmax_v0[i], rf0[i, vk1])
                v1: T.float32 = T.Select(argmax_v1[i] >= rf1[i, vk1], argmax_v1[i], rf1[i, vk1])
                argmax_v0[i] = v0
                argmax_v1[i] = v1

    sch = Schedule(argmax)
    _, k = sch.get_loops("argmax")
    _, k1 = sch.split(k, [None, 3])
    sch.rfactor(k1, 1)
    assert_program(sch, expected)
    assert_replays(sch, argmax)
    # Without ties, for which the order of comparisons decides.
    values = np.random.default_rng(0).permutation(48).reshape(4, 12).astype("float32")
    arrays = [
        np.arange(48, dtype="int32").reshape(4, 12) % 12,
        values,
        np.zeros(4, "int32"),
        np.zeros(4, "float32"),
    ]
    *_, found, largest = outputs_of(main_of(sch), arrays)
    np.testing.assert_array_equal(found, values.argmax(axis=1))
    np.testing.assert_array_equal(largest, values.max(axis=1))


def test_rfactor_of_two_sums_keeps_them_apart() -> None:
    """Their arrays are alike in everything but their place."""

    @T.prim_func
    def moments(
        A: T.Buffer((6, 10), "int32"), total: T.Buffer((6,), "int32"), squares: T.Buffer((6,), "int32")
    ):
        for i, k in T.grid(6, 10):
            with T.block("moments"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    total[vi] = 0
                    squares[vi] = 0
                t: T.int32 = total[vi] + A[vi, vk]
                s: T.int32 = squares[vi] + A[vi, vk] * A[vi, vk]
                total[vi] = t
                squares[vi] = s

    sch = Schedule(moments)
    sch.rfactor(sch.get_loops("moments")[1], 0)
    assert_same_meaning(moments, sch)
    assert_replays(sch, moments)


def test_rfactor_of_several_values_that_take_the_same_operand_or_a_number() -> None:
    @T.prim_func
    def statistics(
        A: T.Buffer((6, 10), "int32"),
        largest: T.Buffer((6,), "int32"),
        total: T.Buffer((6,), "int32"),
        count: T.Buffer((6,), "int32"),
    ):
        for i, k in T.grid(6, 10):
            with T.block("statistics"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    largest[vi] = T.min_value("int32")
                    total[vi] = 0
                    count[vi] = 0
                m: T.int32 = T.max(largest[vi], A[vi, vk])
                t: T.int32 = total[vi] + A[vi, vk]
                n: T.int32 = count[vi] + 1
                largest[vi] = m
                total[vi] = t
                count[vi] = n

    sch = Schedule(statistics)
    sch.rfactor(sch.split(sch.get_loops("statistics")[1], [2, 5])[0], 0)
    assert_same_meaning(statistics, sch)
    assert_replays(sch, statistics)


def test_rfactor_refusals() -> None:
    sch = Schedule(rowsum)
    i, k = sch.get_loops("B")
    assert_refused(sch, lambda: sch.rfactor(i, 0), "rfactor", "'i'", "data-parallel")
    assert_refused(sch, lambda: sch.rfactor(k, 3), "factor_axis 3")
    empty_parts = Schedule(rowsum)
    outer, _ = empty_parts.split(empty_parts.get_loops("B")[1], [4, 4])
    assert_refused(empty_parts, lambda: empty_parts.rfactor(outer, 0), "predicate")

    biased = kernels.row_sum(6, 10, start=3)

    other = Schedule(biased)
    assert_refused(other, lambda: other.rfactor(other.get_loops("B")[1], 0), "identity")

    doubling = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((6, 10), "int32"), B: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 10):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + (B[vi] + A[vi, vk])
""")
    )
    assert_refused(
        doubling, lambda: doubling.rfactor(doubling.get_loops("B")[1], 0), "depends on that result"
    )


sliding = kernels.stencil(8)


def test_what_has_no_init_cannot_be_decomposed() -> None:
    sch = Schedule(matmul)
    loop = sch.get_loops("C")[2]
    sch.decompose_reduction("C", loop)
    update = sch.get_block("C_update")
    assert_refused(
        sch, lambda: sch.decompose_reduction(update, sch.get_loops(update)[2]), "'C_update'", "has no init"
    )


def test_a_root_block_is_no_rolling_buffer() -> None:
    sch = Schedule(matmul)
    assert_refused(sch, lambda: sch.rolling_buffer("root", 0), "rolling_buffer", "'root' is a root block")


def test_rolling_buffer() -> None:
    @T.prim_func
    def expected(A: T.Buffer((10,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((3,))
        for i in range(8):
            for ax0 in range(3):
                with T.block("B"):
                    vi = T.axis.opaque(10, i + ax0)
                    T.where(i < 1 or 2 <= ax0)
                    T.reads(A[vi])
                    T.writes(B[vi % 3])
                    B[vi % 3] = A[vi] * T.float32(2)
            with T.block("C"):
                vi = T.axis.opaque(8, i)
                T.reads(B[0:3])
                T.writes(C[vi])
                C[vi] = B[vi % 3] + B[(vi + 1) % 3] + B[(vi + 2) % 3]

    sch = Schedule(sliding)
    assert_refused(sch, lambda: sch.rolling_buffer("B", 0), "rolling_buffer", "'B'")
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    assert_program(sch, expected)
    assert_same_meaning(sliding, sch)
    assert_replays(sch, sliding)


def test_rolling_buffer_of_a_reduction_in_two_dimensions() -> None:
    @T.prim_func
    def pools(A: T.Buffer((8, 8), "int8"), C: T.Buffer((4, 4), "int8")):
        B = T.alloc_buffer((6, 6), "int8")
        for i, j, a, b in T.grid(6, 6, 3, 3):
            with T.block("B"):
                vi, vj, va, vb = T.axis.remap("SSRR", [i, j, a, b])
                with T.init():
                    B[vi, vj] = T.int8(-128)
                B[vi, vj] = T.max(B[vi, vj], A[vi + va, vj + vb])
        for i, j, a, b in T.grid(4, 4, 3, 3):
            with T.block("C"):
                vi, vj, va, vb = T.axis.remap("SSRR", [i, j, a, b])
                with T.init():
                    C[vi, vj] = T.int8(-128)
                C[vi, vj] = T.max(C[vi, vj], B[vi + va, vj + vb])

    sch = Schedule(pools)
    i, j, _, _ = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 2])
    j0, j1 = sch.split(j, [None, 2])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at("B", j0)
    sch.rolling_buffer("B", 0)
    block = sch.get(sch.get_block("B"))
    assert [int(dim.value) for dim in block.writes[0].buffer.shape] == [4, 6], "a ring of rows, whole columns"
    assert [item.iter_type for item in block.iter_vars] == [IterVar.Opaque, 0, 2, 2]
    assert "T.where((i_0 < 1 or 2 <= ax0) and (j_0 < 1 or 2 <= ax1))" in sch.mod["main"].script()
    assert_same_meaning(pools, sch)
    assert_replays(sch, pools)


@settings(max_examples=20)
@given(st.data())
def test_random_reductions_keep_the_meaning(data: st.DataObject) -> None:
    program, name = data.draw(st.sampled_from([(matmul, "C"), (rowsum, "B"), (odd_matmul, "C")]))
    sch = Schedule(program)
    for _ in range(data.draw(st.integers(0, 2))):
        loops = sch.get_loops(name)
        sch.split(loops[data.draw(st.integers(0, len(loops) - 1))], [None, data.draw(st.integers(1, 4))])
    if data.draw(st.booleans()):
        sch.reorder(*data.draw(st.permutations(sch.get_loops(name))))
    loops = sch.get_loops(name)
    loop = loops[data.draw(st.integers(0, len(loops) - 1))]
    before = sch.mod.script()
    try:
        if data.draw(st.booleans()):
            sch.rfactor(loop, data.draw(st.integers(-2, 1)))
        else:
            sch.decompose_reduction(name, loop)
    except ScheduleError:
        assert sch.mod.script() == before
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


def test_rfactor_of_the_only_reduction_stores_what_each_iteration_contributes() -> None:
    @T.prim_func
    def expected(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
        B_rf = T.alloc_buffer((6, 4))
        for i, k in T.grid(4, 6):
            with T.block("B_rf"):
                vk, vi = T.axis.remap("SS", [k, i])
                B_rf[vk, vi] = A[vi, vk]
        for i, k in T.grid(4, 6):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + B_rf[vk, vi]

    sums = kernels.row_sum(4, 6)

    sch = Schedule(sums)
    partial = sch.rfactor(sch.get_loops("B")[1], 0)
    assert_program(sch, expected)
    assert sch.get(partial).name_hint == "B_rf"
    assert sch.get(partial).writes[0].buffer.name == "B.rf"
    assert_same_meaning(sums, sch)
    assert_replays(sch, sums)
    mixed = Schedule(sums)
    i, k = mixed.get_loops("B")
    outer, inner = mixed.split(k, [None, 3])
    mixed.fuse(i, outer)
    assert_refused(mixed, lambda: mixed.rfactor(inner, 0), "rfactor", "both data-parallel and reduction")


def test_the_init_of_a_decomposed_reduction_has_the_names_of_its_variables() -> None:
    sch = Schedule(rowsum)
    i, k = sch.get_loops("B")
    init = sch.decompose_reduction("B", i)
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(init)] == ["i_init"]
    assert [item.var.name for item in sch.get(init).iter_vars] == ["vi"]


def test_rfactor_of_a_block_that_reads_a_buffer_in_two_places() -> None:
    """The region's extent is a difference of both places; it follows the new variables as its begin does."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((6, 6)), C: T.Buffer((6,))):
    for i, k in T.grid(6, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * A[vk, vi]
"""
    )
    sch = Schedule(func, debug_mask="all")
    sch.rfactor(sch.get_loops("C")[1], 0)
    assert_same_meaning(func, sch)
    assert_replays(sch, func)


def test_instances_that_run_again_keep_their_init() -> None:
    """Each iteration of j begins the sums that it needs anew; begun before all of them, they would add up."""

    @T.prim_func
    def program(A: T.Buffer((12,), "int32"), B: T.Buffer((12,), "int32")):
        P = T.alloc_buffer((12,), "int32")
        for j, k in T.grid(12, 1):
            with T.block("P"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    P[vj] = 0
                P[vj] = P[vj] + A[vj + vk]
        for j in range(12):
            with T.block("B"):
                vj = T.axis.spatial(12, j)
                B[vj] = P[vj] + P[11 - vj]

    sch = Schedule(program)
    sch.compute_at("P", sch.get_loops("B")[0], preserve_unit_loops=True)
    outer, inner = sch.get_loops("P")[:2]
    assert_refused(sch, lambda: sch.decompose_reduction("P", outer), "'P' more than once", "'j'")
    sch.decompose_reduction("P", inner)
    assert_same_meaning(program, sch)


def test_instances_that_sum_into_one_element_keep_their_init() -> None:
    """The second of two begins again what the first one summed."""

    @T.prim_func
    def program(A: T.Buffer((6, 4), "int32"), C: T.Buffer((3,), "int32")):
        for i, k in T.grid(6, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi // 2] = 0
                C[vi // 2] = C[vi // 2] + A[vi, vk]

    sch = Schedule(program)
    i, _ = sch.get_loops("C")
    assert_refused(sch, lambda: sch.decompose_reduction("C", i), "'C' may sum into one element")


def test_parts_that_another_loop_counts_are_not_factored_out() -> None:
    @T.prim_func
    def program(A: T.Buffer((6, 6), "int32"), C: T.Buffer((6,), "int32")):
        for i in range(6):
            for k in range(i + 1):
                with T.block("C"):
                    vi = T.axis.spatial(6, i)
                    vk = T.axis.reduce(6, k)
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]

    sch = Schedule(program)
    assert_refused(sch, lambda: sch.rfactor(sch.get_loops("C")[1], 0), "loop 'k' runs over i + 1")


ROLLING = """@T.prim_func
def main(A: T.Buffer((4, 10), "int32"), C: T.Buffer((4, 8), "int32")):
    B = T.alloc_buffer((10,), "int32")
    for r, i in T.grid(4, 8):
        for k in range(3):
            with T.block("B"):
                vi = T.axis.spatial(10, i + k)
                B[vi] = A[0, vi] * 2
        with T.block("C"):
            vr, vi = T.axis.remap("SS", [r, i])
            T.where(A[r, i] < 3)
            C[vr, vi] = B[vi] + B[vi + 1] + B[vi + 2]
"""
INPUT_CHANGES = """        with T.block("A"):
            vr, vi = T.axis.remap("SS", [r, i])
            A[0, vi + 1] = A[0, vi + 1] + vr
"""
ROWS = (
    ROLLING.replace("r, i in T.grid(4, 8)", "i, r in T.grid(8, 4)")
    .replace("vi = T.axis.spatial(10, i + k)", "vi = T.axis.spatial(10, i + k); vr = T.axis.spatial(4, r)")
    .replace("A[0, vi]", "A[vr, vi]")
)


def test_a_rolling_buffer_holds_what_the_steps_before_left() -> None:
    program = from_source(ROLLING)
    sch = Schedule(program)
    sch.rolling_buffer("B", 0)
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ROWS, "may write several values"),
        (ROLLING + INPUT_CHANGES, "may write several values"),
        (ROLLING.replace("= B[vi] +", "= B[0] +"), "more of B is read"),
        (ROLLING.replace("A[r, i] < 3", "B[0] < 3"), "more of B is read"),
        (
            ROLLING.replace("B[vi + 2]", "T.vectorlow('int32', B[T.Ramp(vi, 1, 2)])"),
            "buffer B is accessed by vectors",
        ),
    ],
)
def test_a_rolling_buffer_is_refused_where_a_step_would_find_other_values(text: str, reason: str) -> None:
    sch = Schedule(from_source(text), error_render_level="none")
    assert_refused(sch, lambda: sch.rolling_buffer("B", 0), reason)


def test_rfactor_counts_parts_from_0() -> None:
    """Wherever its loop begins: the partial results have as many elements as it has iterations."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((4, 24), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        for k in range(16, 24):
            with T.block("C"):
                vi, vk = T.axis.spatial(4, i), T.axis.reduce((16, 24), k)
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    sch.rfactor(sch.get_loops("C")[1], 0)
    assert_same_meaning(func, sch)
    assert_replays(sch, func)


def test_the_init_of_a_decomposed_reduction_keeps_the_clauses_inside_of_a_mark() -> None:
    @T.prim_func
    def marked(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(T.likely(k < 100 and i < 2))
                with T.init():
                    C[vi] = 5
                C[vi] = C[vi] + A[vi, vk]

    sch = Schedule(marked)
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    assert_same_meaning(marked, main_of(sch))


@pytest.mark.parametrize("identity", ['T.min_value("float32")', 'T.float32("-inf")'])
def test_a_maximum_keeps_the_identity_it_is_written_with(identity: str) -> None:
    """Of nothing but -inf one gives the smallest number, the other -inf: factored or not."""
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for k in range(8):
        with T.block("B"):
            vk = T.axis.reduce(8, k)
            with T.init():
                B[0] = {identity}
            B[0] = T.max(B[0], A[vk])
""")
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.rfactor(outer, 0)
    found = []
    for program in (func, sch.mod["main"]):
        result = np.zeros(1, "float32")
        run(program, np.full(8, -np.inf, "float32"), result)
        found.append(result[0])
    assert found[0] == found[1] == (-np.inf if "inf" in identity else np.finfo("float32").min)


PARTIAL_SUM = """
@T.prim_func
def main(B: T.Buffer((4, 4), "int32"), D: T.Buffer((4,), "int32")):
    for i in range(4):
        for j in range(4):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    D[vi] = 0
                D[vi] = D[vi] + B[vi, vj]
"""


@pytest.mark.meaning("region")
def test_the_blocks_around_a_decomposed_reduction_read_what_it_updates() -> None:
    program = from_source(PARTIAL_SUM)
    sch = Schedule(program)
    sch.loop_partition(sch.get_loops("S")[0], [2, None])
    sch.decompose_reduction("S_i0", sch.get_loops("S_i0")[1])
    assert_same_meaning(program, sch)
    blocked = Schedule(program)
    outer = blocked.blockize(blocked.get_loops("S")[1])
    blocked.decompose_reduction(outer, blocked.get_loops(outer)[0])
    assert_same_meaning(program, blocked)


def test_copies_of_an_empty_reduction_keep_what_it_begins_with() -> None:
    source = PARTIAL_SUM.replace("range(4):\n            with", "range(0):\n            with").replace(
        "D[vi] = 0", "D[vi] = 5"
    )
    program = from_source(
        source.replace('T.axis.remap("SR", [i, j])', "T.axis.spatial(4, i), T.axis.reduce(0, j)")
    )
    sch = Schedule(program)
    with pytest.raises(ScheduleError):
        sch.write_at(sch.get_loops("S")[1], "S", 0, "global")
    assert_same_meaning(program, sch)


ROWS = """@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), S: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(4, 6):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
"""
STEPS = [
    Schedule.parallel,
    Schedule.vectorize,
    lambda sch, loop: sch.bind(loop, "blockIdx.x"),
    lambda sch, loop: sch.bind(loop, "threadIdx.x"),
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("position", "blocks"), [(0, ("S_init", "S_update")), (1, ("S_update",))])
def test_rows_of_a_decomposed_reduction_run_in_any_order(
    step: Callable[..., Any], position: int, blocks: tuple[str, ...]
) -> None:
    program = from_source(ROWS)
    sch = Schedule(program)
    sch.decompose_reduction("S", sch.get_loops("S")[position])
    for name in blocks:
        step(sch, sch.get_loops(name)[0])
    assert_same_meaning(program, sch)


@pytest.mark.parametrize("step", STEPS)
def test_its_elements_do_not(step: Callable[..., Any]) -> None:
    sch = Schedule(from_source(ROWS))
    sch.decompose_reduction("S", sch.get_loops("S")[0])
    loop = sch.get_loops("S_update")[1]
    assert_refused(sch, lambda: step(sch, loop))


@pytest.mark.parametrize("stated", ["A[vi, vk]", "C[vi], A[vi, vk]"])
def test_an_update_states_once_that_it_reads_what_it_updates(stated: str) -> None:
    sch = Schedule(
        from_source(f"""@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads({stated})
            T.writes(C[vi])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""")
    )
    before = sch.mod["main"]
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    reads = sch.get(sch.get_block("C_update")).reads
    assert [region.buffer.name for region in reads] == ["C", "A"]
    assert_same_meaning(before, sch)


@pytest.mark.parametrize("name", ["blockize", "decompose_reduction"])
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize(
    ("extent", "view", "init"),
    [
        ("3", "", "A[vi, vk] + vk"),
        ("3", "V = T.match_buffer(A[vi, vk], (1,), 'int32', offset_factor=1)", "V[0]"),
        ("n", "", "A[vi, 0] + vk"),
        ("n", "V = T.match_buffer(A[vi, vk], (1,), 'int32', offset_factor=1)", "V[0]"),
    ],
)
def test_an_init_that_names_what_is_reduced_knows_its_begin(
    name: str, depth: int, extent: str, view: str, init: str
) -> None:
    """Over a domain that may be empty there is none, and such an init does not run then."""
    sizes = ", n: T.int32" if extent == "n" else ""
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((4, 9), "int32"), C: T.Buffer((4,), "int32"){sizes}):
    for i, k in T.grid(4, {extent}):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce((2, {extent} + 2), k + 2)
            T.reads(A[vi, 0:9])
            T.writes(C[vi])
            {view}
            with T.init():
                C[vi] = {init}
            C[vi] = C[vi] + A[vi, vk]
"""
    )
    sch = Schedule(func)
    loop = sch.get_loops("C")[depth]

    def move() -> Any:
        return sch.blockize(loop) if name == "blockize" else sch.decompose_reduction("C", loop)

    if extent == "n":
        assert_refused(sch, move, "names what it reduces over")
        return
    move()
    assert_same_meaning(func, sch)


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.cache_write("C", 0, "global"),
        lambda sch: sch.write_at(sch.get_loops("C")[0], "C", 0, "global"),
    ],
)
def test_no_copy_is_made_of_what_an_init_that_needs_an_iteration_writes(
    step: Callable[[Schedule], Any],
) -> None:
    """Over nothing it does not run: the elements keep what the caller left there, which the copy would not have."""
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((4, 9), "int32"), C: T.Buffer((4,), "int32"), n: T.int32):
    for i, k in T.grid(4, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = A[vi, 0] + vk
            C[vi] = C[vi] + A[vi, vk]
"""
    )
    found = np.full(4, -1, "int32")
    run(func, np.ones((4, 9), "int32"), found, 0)
    np.testing.assert_array_equal(found, -1)
    sch = Schedule(func)
    assert_refused(sch, lambda: step(sch), "may have no iterations")


def test_the_memory_of_an_init_block_is_no_other_block_s() -> None:
    sch = Schedule(
        from_source(
            """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            t = T.alloc_buffer((1,), "int32")
            V = T.match_buffer(C[vi], (1,), "int32", offset_factor=1)
            with T.init():
                t[0] = 3
                V[0] = t[0]
            t[0] = A[vi, vk]
            V[0] = V[0] + t[0]
"""
        )
    )
    func = main_of(sch)
    init = sch.decompose_reduction("C", sch.get_loops("C")[1])
    first, rest = (
        {*block.alloc_buffers, *(view.buffer for view in block.match_buffers)}
        for block in (sch.get(init), sch.get(sch.get_block("C_update")))
    )
    assert len(first) == len(rest) == 2
    assert not first & rest
    assert not {buffer.data for buffer in first} & {buffer.data for buffer in rest}
    assert_same_meaning(func, sch)


@T.prim_func
def centred(A: T.Buffer((4, 10), "float32"), C: T.Buffer((4, 10), "float32")):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 10):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i, j in T.grid(4, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] - B[vi]


def test_rfactor_combines_within_loops_that_others_share() -> None:
    @T.prim_func
    def expected(A: T.Buffer((4, 10), "float32"), C: T.Buffer((4, 10), "float32")):
        B = T.alloc_buffer((4,))
        B_rf = T.alloc_buffer((4, 4))
        for i in range(4):
            for k_0, k_1 in T.grid(3, 4):
                with T.block("B_rf"):
                    vk_1 = T.axis.spatial(4, k_1)
                    vi = T.axis.spatial(4, i)
                    vk_0 = T.axis.reduce(3, k_0)
                    T.where(k_0 * 4 + k_1 < 10)
                    with T.init():
                        B_rf[vi, vk_1] = T.float32(0)
                    B_rf[vi, vk_1] = B_rf[vi, vk_1] + A[vi, vk_0 * 4 + vk_1]
            for k_1 in range(4):
                with T.block("B"):
                    vk_1 = T.axis.reduce(4, k_1)
                    vi = T.axis.spatial(4, i)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + B_rf[vi, vk_1]
            for j in range(10):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] - B[vi]

    sch = Schedule(centred)
    sch.compute_at("B", sch.get_loops("C")[0])
    _, inner = sch.split(sch.get_loops("B")[-1], [None, 4])
    sch.rfactor(inner, 1)
    assert_program(sch, expected)
    assert_same_meaning(centred, sch)
    assert_replays(sch, centred)


def test_rfactor_refuses_a_loop_of_the_reduction_that_others_share() -> None:
    @T.prim_func
    def prefixes(
        A: T.Buffer((4, 10), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((5, 4), "float32")
    ):
        for k_0 in range(5):
            for i, k_1 in T.grid(4, 2):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(10, k_0 * 2 + k_1)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
            for i in range(4):
                with T.block("C"):
                    vk, vi = T.axis.remap("SS", [k_0, i])
                    C[vk, vi] = B[vi]

    sch = Schedule(prefixes)
    loop = sch.get_loops("B")[-1]
    assert_refused(sch, lambda: sch.rfactor(loop, 0), "rfactor", "'k_0'", "runs other blocks too")


@settings(max_examples=30)
@given(st.data())
def test_random_parts_of_a_reduction_computed_at_a_consumer(data: st.DataObject) -> None:
    sch = Schedule(centred)
    if data.draw(st.booleans()):
        sch.split(sch.get_loops("C")[0], [None, data.draw(st.integers(1, 5))])
    sch.compute_at("B", sch.get_loops("C")[data.draw(st.integers(0, len(sch.get_loops("C")) - 1))])
    sch.split(sch.get_loops("B")[-1], [None, data.draw(st.integers(1, 12))])
    loops = sch.get_loops("B")
    loop = loops[data.draw(st.integers(len(loops) - 3, len(loops) - 1))]
    before = sch.mod.script()
    try:
        sch.rfactor(loop, data.draw(st.integers(-2, 1)))
    except ScheduleError:
        assert sch.mod.script() == before
    assert_same_meaning(centred, sch)
    assert_replays(sch, centred)


@pytest.mark.parametrize("step", ["rfactor", "decompose_reduction"])
def test_a_condition_on_a_loop_that_repeats_a_block_says_when_it_is_initialised(step: str) -> None:
    @T.prim_func
    def later(A: T.Buffer((4, 1), "int32"), B: T.Buffer((4,), "int32")):
        for u, i, k in T.grid(2, 4, 1):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(u >= 1)
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(later)
    u, _, k = sch.get_loops("B")
    try:
        if step == "rfactor":
            sch.rfactor(k, 0)
        else:
            sch.decompose_reduction("B", u)
    except ScheduleError:
        pass  # what remains is the program as it was
    assert_same_meaning(later, sch)
