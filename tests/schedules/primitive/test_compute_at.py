"""compute_at and reverse_compute_at: structure, halos, predicates, refusals, meaning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import (
    assert_program,
    assert_refused,
    assert_replays,
    assert_same_meaning,
    main_of,
)

chain = kernels.chain()


stencil = kernels.stencil(16)


@T.prim_func
def pooling(X: T.Buffer((8, 8), "float32"), Y: T.Buffer((8, 8), "float32")):
    cache = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("cache"):
            h, w = T.axis.remap("SS", [i, j])
            cache[h, w] = X[h, w]
    for i0, j0, i1, j1, ki, kj in T.grid(2, 2, 4, 4, 3, 3):
        with T.block("compute"):
            h = T.axis.spatial(8, i0 * 4 + i1)
            w = T.axis.spatial(8, j0 * 4 + j1)
            kh, kw = T.axis.remap("RR", [ki, kj])
            with T.init():
                Y[h, w] = T.float32(0)
            Y[h, w] = T.max(
                Y[h, w],
                T.if_then_else(
                    1 <= h + kh and h + kh < 9 and 1 <= w + kw and w + kw < 9,
                    cache[h + kh - 1, w + kw - 1],
                    T.float32(0),
                ),
            )


matmul_relu = kernels.matmul_relu(8, 8, 6)


@T.prim_func
def divided(X: T.Buffer((4, 4), "float32"), Y: T.Buffer((16,), "float32")):
    temp = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            temp[vi, vj] = X[vj, vi] + T.float32(1)
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            Y[vi] = temp[vi // 4, vi % 4]


def test_compute_at() -> None:
    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        B = T.alloc_buffer((16, 16))
        for i in range(16):
            for ax0 in range(16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, ax0])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(chain)
    sch.compute_at(sch.get_block("B"), sch.get_loops("C")[0])
    assert_program(sch, expected)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_compute_at_keeps_unit_loops_on_request() -> None:
    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        B = T.alloc_buffer((16, 16))
        for i in range(16):
            for ax0, ax1 in T.grid(1, 16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i + ax0)
                    vj = T.axis.spatial(16, ax1)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(chain)
    sch.compute_at("B", sch.get_loops("C")[0], preserve_unit_loops=True)
    assert_program(sch, expected)


def test_compute_at_with_a_halo_at_both_ends() -> None:
    @T.prim_func
    def expected(X: T.Buffer((8, 8), "float32"), Y: T.Buffer((8, 8), "float32")):
        cache = T.alloc_buffer((8, 8))
        for i0, j0 in T.grid(2, 2):
            for ax0, ax1 in T.grid(6, 6):
                with T.block("cache"):
                    h = T.axis.spatial(8, i0 * 4 - 1 + ax0)
                    w = T.axis.spatial(8, j0 * 4 - 1 + ax1)
                    T.where(1 <= i0 * 4 + ax0 and i0 * 4 + ax0 < 9 and 1 <= j0 * 4 + ax1 and j0 * 4 + ax1 < 9)
                    cache[h, w] = X[h, w]
            for i1, j1, ki, kj in T.grid(4, 4, 3, 3):
                with T.block("compute"):
                    h = T.axis.spatial(8, i0 * 4 + i1)
                    w = T.axis.spatial(8, j0 * 4 + j1)
                    kh, kw = T.axis.remap("RR", [ki, kj])
                    T.reads(cache[h + kh - 1, w + kw - 1])
                    T.writes(Y[h, w])
                    with T.init():
                        Y[h, w] = T.float32(0)
                    Y[h, w] = T.max(
                        Y[h, w],
                        T.if_then_else(
                            1 <= h + kh and h + kh < 9 and 1 <= w + kw and w + kw < 9,
                            cache[h + kh - 1, w + kw - 1],
                            T.float32(0),
                        ),
                    )

    sch = Schedule(pooling)
    sch.compute_at("cache", sch.get_loops("compute")[1])
    assert_program(sch, expected)
    assert_same_meaning(pooling, sch)


def test_reverse_compute_at_solves_divisions() -> None:
    @T.prim_func
    def expected(X: T.Buffer((4, 4), "float32"), Y: T.Buffer((16,), "float32")):
        temp = T.alloc_buffer((4, 4))
        for i in range(4):
            for j in range(4):
                with T.block("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    temp[vi, vj] = X[vj, vi] + T.float32(1)
            for ax0 in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(16, i * 4 + ax0)
                    Y[vi] = temp[vi // 4, vi % 4]

    sch = Schedule(divided)
    sch.reverse_compute_at("B", sch.get_loops("A")[0])
    assert_program(sch, expected)
    assert_same_meaning(divided, sch)
    assert_replays(sch, divided)


def test_reverse_compute_at_behind_a_tile() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 8), "float32"), D: T.Buffer((8, 8), "float32")
    ):
        C = T.alloc_buffer((8, 8))
        for i_0, j_0 in T.grid(2, 2):
            for i_1, j_1, k in T.grid(4, 4, 6):
                with T.block("C"):
                    vi = T.axis.spatial(8, i_0 * 4 + i_1)
                    vj = T.axis.spatial(8, j_0 * 4 + j_1)
                    vk = T.axis.reduce(6, k)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            for ax0, ax1 in T.grid(4, 4):
                with T.block("D"):
                    vi = T.axis.spatial(8, i_0 * 4 + ax0)
                    vj = T.axis.spatial(8, j_0 * 4 + ax1)
                    D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    sch = Schedule(matmul_relu)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1, k)
    sch.reverse_compute_at("D", j0)
    assert_program(sch, expected)
    assert_same_meaning(matmul_relu, sch)
    assert_replays(sch, matmul_relu)


def test_compute_at_refusals() -> None:
    sch = Schedule(chain)
    b, c = sch.get_block("B"), sch.get_block("C")
    loop_b, loop_c = sch.get_loops(b)[0], sch.get_loops(c)[0]
    assert_refused(sch, lambda: sch.compute_at(c, loop_b), "compute_at", "'C'", "output")
    assert_refused(sch, lambda: sch.compute_at(b, loop_b), "'i'", "already around")
    reduce_first = Schedule(matmul_relu)
    loops = reduce_first.get_loops("C")
    reduce_first.reorder(loops[2], loops[0], loops[1])
    assert_refused(
        reduce_first, lambda: reduce_first.reverse_compute_at("D", loops[0]), "'vk'", "not finished"
    )
    halo = Schedule(stencil)
    assert_refused(halo, lambda: halo.reverse_compute_at("C", halo.get_loops("B")[0]), "only", "produced")


def test_reverse_compute_at_waits_for_every_column_that_is_read() -> None:
    @T.prim_func
    def program(A: T.Buffer((8, 2), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8, 2))
        for i, j in T.grid(8, 2):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi, 0] - B[vi, 1]

    sch = Schedule(program)
    rows, columns = sch.get_loops("B")
    assert_refused(sch, lambda: sch.reverse_compute_at("C", columns), "only [j, j + 1) is produced")
    sch.reverse_compute_at("C", rows)
    assert_same_meaning(program, sch)


def test_reverse_compute_at_keeps_reductions_whole() -> None:
    """Under a loop of the rows a sum over all rows would begin again, or go on before its init, with every row."""

    @T.prim_func
    def program(A: T.Buffer((16, 4), "int32"), C: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((16, 4), "int32")
        for i, j in T.grid(16, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2
        for j, i in T.grid(4, 16):
            with T.block("C"):
                vj, vi = T.axis.remap("SR", [j, i])
                with T.init():
                    C[vj] = 0
                C[vj] = C[vj] + B[vi, vj]

    sch = Schedule(program)
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), "'C'", "reduces over")


def test_reverse_compute_at_of_a_block_without_producers() -> None:
    sch = Schedule(chain)
    sch.reverse_compute_at("B", sch.get_loops("C")[0])
    assert [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_loops("C")[0])] == ["B", "C"]
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_compute_at_two_consumers_in_different_nests_is_refused() -> None:
    @T.prim_func
    def program(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
        for i in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = B[vi]

    sch = Schedule(program)
    loop = sch.get_loops("C")[0]
    assert_refused(sch, lambda: sch.compute_at("B", loop), "'D'", "not under loop")


def test_locations_of_sampling() -> None:
    sch = Schedule(chain)
    block = sch.get_block("B")
    sch.compute_at(block, sch.sample_compute_location(block, decision=0))
    assert [sch.get(loop).extent.value for loop in sch.get_loops(block)] == [16, 16]
    assert_replays(sch, chain)
    inlined = Schedule(chain)
    block = inlined.get_block("B")
    inlined.compute_at(block, inlined.sample_compute_location(block, decision=-2))
    assert_same_meaning(chain, inlined)
    assert_refused(inlined, lambda: inlined.get_block("B"), "'B'")
    root = Schedule(chain)
    block = root.get_block("B")
    root.compute_at(block, root.sample_compute_location(block, decision=-1))
    assert_program(root, chain)


@settings(max_examples=20)
@given(st.data())
def test_random_tiles_and_places_keep_the_meaning(data: st.DataObject) -> None:
    program, producer, consumer = data.draw(
        st.sampled_from(
            [
                (chain, "B", "C"),
                (stencil, "B", "C"),
                (pooling, "cache", "compute"),
                (matmul_relu, "C", "D"),
                (divided, "A", "B"),
            ]
        )
    )
    sch = Schedule(program)
    reverse = data.draw(st.booleans())
    fixed, moved = (producer, consumer) if reverse else (consumer, producer)
    for _ in range(data.draw(st.integers(0, 2))):
        loops = sch.get_loops(fixed)
        at = data.draw(st.integers(0, len(loops) - 1))
        sch.split(loops[at], [None, data.draw(st.integers(1, 5))])
    loops = sch.get_loops(fixed)
    loop = loops[data.draw(st.integers(0, len(loops) - 1))]
    before = sch.mod.script()
    preserve = data.draw(st.booleans())
    from schedules import ScheduleError

    try:
        (sch.reverse_compute_at if reverse else sch.compute_at)(moved, loop, preserve)
    except ScheduleError:
        assert sch.mod.script() == before
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


def test_fused_producers_finish_what_a_consumer_reads_by_digits() -> None:
    @T.prim_func
    def flat(A: T.Buffer((32,), "float32"), C: T.Buffer((4, 8), "float32")):
        B = T.alloc_buffer((32,))
        for i in range(32):
            with T.block("B"):
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi] + T.float32(1)
        for i, j in T.grid(4, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi * 8 + vj] * T.float32(2)

    for factor, extents in ((16, [2, 2, 8]), (4, [8, 4]), (1, [32])):
        sch = Schedule(flat)
        outer, _ = sch.split(sch.get_loops("B")[0], [None, factor])
        sch.reverse_compute_at("C", outer)
        assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == extents
        assert_same_meaning(flat, sch)
        assert_replays(sch, flat)


def test_compute_at_a_block_of_the_grid_does_not_wait_for_the_others() -> None:
    sch = Schedule(chain)
    loop = sch.get_loops("C")[0]
    sch.bind(loop, "blockIdx.x")
    sch.compute_at("B", loop)
    assert len(sch.get_loops("B")) == 2
    assert sch.get(sch.get_loops("B")[0]).thread_binding is not None


@pytest.mark.parametrize(
    ("scope", "thread", "whole"),
    [
        ("shared", "threadIdx.x", True),
        ("shared", "threadIdx.y", True),
        ("shared", "blockIdx.x", False),
        ("local", "threadIdx.x", False),
        ("warp", "threadIdx.x", True),
        ("warp", "threadIdx.y", False),
    ],
)
def test_threads_that_share_a_buffer_fill_it_together(scope: str, thread: str, whole: bool) -> None:
    """The block that fills it covers what all of them read, or only what its own thread does."""
    sch = Schedule(chain)
    sch.set_scope("B", 0, scope)
    outer, inner = sch.get_loops("C")
    sch.bind(outer, thread)
    sch.compute_at("B", inner)
    (loop,) = [loop for loop in sch.get_loops("B") if "ax" in sch.get(loop).loop_var.name] or [None]
    assert (loop is not None) == whole
    if whole:
        assert int(sch.get(loop).extent) == 16


def test_iterations_that_read_nothing_of_the_producer_are_not_lost() -> None:
    sch = Schedule(kernels.padded())
    refused = "reads nothing of what its producers write"
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), refused)


def test_a_condition_of_its_own_stays() -> None:
    program = kernels.prefix_sums()
    sch = Schedule(program)
    sch.cache_write("B", 0, "global")
    assert_refused(sch, lambda: sch.compute_at("B", sch.get_loops("B_global")[1]), "runs only where")
    sch.split(sch.get_loops("C")[1], [None, 2])  # which needs a guard, that new loops get anew
    sch.compute_at("C", sch.get_loops("B")[0])
    assert_same_meaning(program, sch)


def test_iterations_that_produce_nothing_have_no_consumer() -> None:
    """What they would read was produced by another one, and may lie in memory that begins with every iteration."""
    program = kernels.chain(1, 3)
    sch = Schedule(program)
    outer, _ = sch.split(sch.get_loops("B")[0], [2, None])
    sch.reverse_compute_at("C", outer)
    assert "T.where(i_0 < 1)" in sch.mod.script()[sch.mod.script().index('T.block("C")') :]
    assert_same_meaning(program, sch)


def test_a_producer_of_overlapping_rows_stays() -> None:
    """An element has the value of the last instance that writes it, which one iteration of the consumer's loop does not know."""

    @T.prim_func
    def program(A: T.Buffer((9,), "int32"), C: T.Buffer((7, 3), "int32")):
        B = T.alloc_buffer((9,), "int32")
        for i in range(7):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                T.reads(A[vi : vi + 3])
                T.writes(B[vi : vi + 3])
                for j in range(3):
                    B[vi + j] = A[vi + j] * vi
        for i, k in T.grid(7, 3):
            with T.block("C"):
                vi, vk = T.axis.remap("SS", [i, k])
                C[vi, vk] = B[vi + vk]

    sch = Schedule(program)
    assert_refused(sch, lambda: sch.compute_at("B", sch.get_loops("C")[1]), "'B' writes in another")


@T.prim_func
def triangle(A: T.Buffer((6, 6), "int32"), B: T.Buffer((6, 6), "int32")):
    """B is written above its diagonal only, which the loops say and the domains of its block do not."""
    P = T.alloc_buffer((6, 6), "int32")
    for i, j in T.grid(6, 6):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] * 2
    for i in range(6):
        for j in range(6 - i):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.spatial(6, i + j)
                B[vi, vj] = P[vi, vj] + 1


def test_a_block_that_runs_for_a_part_of_its_domain_gets_no_new_loops() -> None:
    """They would run over all of it: the lower half of B would be written too."""
    sch = Schedule(triangle)
    words = ("'B' does not run over all values of its variables",)
    assert_refused(sch, lambda: sch.reverse_compute_at("B", sch.get_loops("P")[0]), *words)
    assert_refused(sch, lambda: sch.reverse_compute_inline("B"), *words)
    sch.compute_at("P", sch.get_loops("B")[1])
    assert_same_meaning(triangle, sch)


def test_variables_that_share_a_loop_with_others_do_not_run_over_all_their_values() -> None:
    """One loop feeds both: what B holds comes of the diagonal alone, and not of the last row."""
    program = from_source("""@T.prim_func
def main(A: T.Buffer((4, 4, 3), "int32"), C: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i, k in T.grid(4, 3):
        with T.block("B"):
            v, w, r = T.axis.remap("SSR", [i, i, k])
            with T.init():
                B[w] = 0
            B[w] = B[w] + A[v, w, r]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
""")
    sch = Schedule(program)
    assert_refused(
        sch, lambda: sch.compute_at("B", sch.get_loops("C")[0]), "'B' does not run over all values"
    )


def test_moving_what_was_split_over_a_symbolic_extent() -> None:
    """A split that covers its loop runs over all values, whatever the extent."""

    @T.prim_func
    def program(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 8), "int32")
        B = T.match_buffer(b, (n, 8), "int32")
        P = T.alloc_buffer((n, 8), "int32")
        for i, j in T.grid(n, 8):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = A[vi, vj] * 2
        for i, j in T.grid(n, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vi, vj] + 1

    sch = Schedule(program)
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.compute_at("P", outer)
    sch.compute_at("P", sch.get_loops("B")[1])
    a, b = np.arange(56, dtype="int32").reshape(7, 8), np.zeros((7, 8), "int32")
    build(IRModule({"main": main_of(sch)}), Target("llvm"))["program"](a, b)
    np.testing.assert_array_equal(b, a * 2 + 1)


def test_a_block_stays_in_a_loop_that_writes_what_other_iterations_read() -> None:
    """The first rows of C are what B held before, the last ones what the loop wrote."""

    @T.prim_func
    def program(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[7 - vi]

    sch = Schedule(program)
    sch.cache_write("C", 0, "global")
    assert_same_meaning(program, sch)
    place = sch.get_loops("C_global")[0]
    assert_refused(sch, lambda: sch.compute_at("C", place), "compute_at", "'B'")


def test_a_guard_that_no_iteration_passes_is_a_guard() -> None:
    """Rows -1 and 2 are read, of rows 0 and 1: both ends of the domain's guard hold for no row at once."""
    program = from_source(
        """
@T.prim_func
def main(A: T.Buffer((2, 4), "int32"), C: T.Buffer((2, 4), "int32")):
    for i, j in T.grid(2, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(1 <= vi * 3 and vi * 3 < 3, A[vi * 3 - 1, vj], 7)
"""
    )
    sch = Schedule(program)
    copy = sch.cache_read("C", 0, "global")
    outer, inner = sch.get_loops("C")
    sch.compute_at(copy, outer)
    sch.compute_at(copy, inner)
    assert_same_meaning(program, sch)


@pytest.mark.parametrize(
    ("loops", "binding"),
    [("4", "3 - l0"), ("8", "l0 // 2"), ("4, 2", "l0")],
)
def test_new_loops_run_each_instance_of_a_reduction_once_and_its_init_first(loops: str, binding: str) -> None:
    """So a reduction whose loops repeat instances, or come late to the one with the init, keeps these loops."""
    names = ", ".join(f"l{position}" for position in range(loops.count(",") + 1))
    program = from_source(f"""
@T.prim_func
def main(A: T.Buffer((2, 4), "int32"), D: T.Buffer((2,), "int32")):
    C = T.alloc_buffer((2,), "int32")
    for i in range(2):
        for {names} in T.grid({loops}):
            with T.block("C"):
                v, k = T.axis.spatial(2, i), T.axis.reduce(4, {binding})
                with T.init():
                    C[v] = 0
                C[v] = C[v] + A[v, k]
    for i in range(2):
        with T.block("D"):
            v = T.axis.spatial(2, i)
            D[v] = C[v]
""")
    sch = Schedule(program, error_render_level="none")
    assert_refused(sch, lambda: sch.compute_at("C", sch.get_loops("D")[0]), "compute_at", "initialise")
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("D")[0]), "initialise")


ROWS = """@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), D: T.Buffer((3, 4), "int32")):
    B = T.alloc_buffer((3, 4), "int32")
    C = T.alloc_buffer((4,), "int32")
    K = T.alloc_buffer((1,), "int32")
    for i in range(3):
        for j in range(4):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
{}
    for i, j in T.grid(3, 4):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj] + B[vi, vj]
"""
WRITERS = {
    "each row": """
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj] = A[vi, vj]
""",
    "each row, of what another block changes": """
        with T.block("K"):
            vi = T.axis.spatial(3, i)
            K[0] = A[vi, 0]
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = K[0]
""",
    "two blocks": """
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = A[0, vj]
        with T.block("C2"):
            vi = T.axis.spatial(3, i)
            C[vi] = A[2, vi]
""",
    "the last row": """
        if i == 2:
            for j in range(4):
                with T.block("C"):
                    vj = T.axis.spatial(4, j)
                    C[vj] = A[0, vj]
""",
}


@pytest.mark.parametrize("writer", list(WRITERS))
def test_a_consumer_reads_what_the_last_iteration_leaves(writer: str) -> None:
    """That of the first ones is overwritten later, or not there yet."""
    sch = Schedule(from_source(ROWS.format(WRITERS[writer])), error_render_level="none")
    place = sch.get_loops("S")[0]
    assert_refused(sch, lambda: sch.reverse_compute_at("E", place), "reverse_compute_at", "overwrite")


def test_a_consumer_reads_what_the_last_iteration_leaves_in_the_same_loops() -> None:
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), D: T.Buffer((3, 4), "int32")):
    B = T.alloc_buffer((3, 4), "int32")
    C = T.alloc_buffer((4,), "int32")
    for i, j in T.grid(3, 4):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj] = A[vi, vj]
    for i, j in T.grid(3, 4):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj] + B[vi, vj]
"""
    )
    sch = Schedule(program, error_render_level="none")
    for place in sch.get_loops("S"):
        assert_refused(sch, lambda at=place: sch.reverse_compute_at("E", at), "loop 'i' may overwrite")


def test_a_consumer_need_not_wait_for_the_same_values() -> None:
    writer = """
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = A[0, vj]
"""
    program = from_source(ROWS.format(writer))
    sch = Schedule(program)
    sch.reverse_compute_at("E", sch.get_loops("S")[0])
    assert_same_meaning(program, sch)


PARTS = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": True})
    for o in range(1):
        with T.block("O"):
            vo = T.axis.spatial(1, o)
            T.reads(A[0:WRITTEN])
            T.writes(C[0:8])
            B = T.alloc_buffer((8,), "int32")
            for i in range(WRITTEN):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v]
            for i in range(8):
                with T.block("C"):
                    v = T.axis.spatial(8, i)
                    T.reads(B[v])
                    T.writes(C[v])
                    C[v] = T.if_then_else(v < 3, B[v], 0)
"""


@pytest.mark.meaning("region")
def test_what_a_consumer_states_and_need_not_read_is_not_computed_anew() -> None:
    """The block around reads three elements of A, and the others of B were never written."""
    sch = Schedule(from_source(PARTS.replace("WRITTEN", "3")))
    assert_refused(
        sch,
        lambda: sch.compute_at("B", sch.get_loops("C")[0]),
        "does not run over all values of its variable",
    )


def test_what_was_computed_anyway_moves_below_a_condition() -> None:
    program = from_source(PARTS.replace("WRITTEN", "8"))
    sch = Schedule(program)
    outer, inner = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", outer)
    sch.compute_at("B", inner)
    assert_same_meaning(program, sch)


FLAT = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((24,), "int32")):
    B = T.alloc_buffer((24,), "int32")
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 6 + vj] = A[vi, vj]
    for k in range(24):
        with T.block("C"):
            vk = T.axis.spatial(24, k)
            C[vk] = B[vk]
"""


@pytest.mark.meaning("unwritten")
@pytest.mark.parametrize("outer", [2, 3])
@pytest.mark.parametrize("at", range(3))
def test_what_an_uneven_split_leaves_to_another_iteration_is_not_consumed(outer: int, at: int) -> None:
    sch = Schedule(from_source(FLAT), error_render_level="none")
    i, j = sch.get_loops("B")
    loops = [*sch.split(i, [None, outer]), *sch.split(j, [None, 4])]
    assert_refused(sch, lambda: sch.reverse_compute_at("C", loops[at]), "runs only where")


@pytest.mark.parametrize("at", [0, 1])
def test_rows_of_a_flat_index_that_are_whole_are_consumed(at: int) -> None:
    program = from_source(FLAT)
    sch = Schedule(program)
    loops = sch.split(sch.get_loops("B")[0], [None, 3])
    sch.reverse_compute_at("C", loops[at])
    assert_same_meaning(program, sch)


HALVES = """
@T.prim_func
def main(A: T.Buffer((6,), "int32"), C: T.Buffer((12,), "int32")):
    B = T.alloc_buffer((12,), "int32")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[FIRST] = A[vi]
        with T.block("other"):
            vi = T.axis.spatial(6, i)
            B[SECOND] = A[vi] + 1
    for k in range(12):
        with T.block("C"):
            vk = T.axis.spatial(12, k)
            C[vk] = B[vk]
"""


@pytest.mark.meaning("unwritten")
def test_what_is_between_the_boxes_of_two_producers_is_not_consumed() -> None:
    program = from_source(HALVES.replace("FIRST", "vi").replace("SECOND", "vi + 6"))
    sch = Schedule(program, error_render_level="none")
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), "not known to be one box")


def test_adjacent_boxes_of_two_producers_are_consumed() -> None:
    program = from_source(HALVES.replace("FIRST", "vi * 2").replace("SECOND", "vi * 2 + 1"))
    sch = Schedule(program)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert_same_meaning(program, sch)


WINDOWS = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((6,), "int32")):
    W = T.alloc_buffer((8,), "int32")
    for i in range(6):
        with T.block("W"):
            vi = T.axis.spatial(6, 5 - i)
            T.reads(A[vi:vi + 3])
            T.writes(W[vi:vi + 3])
            for k in range(3):
                W[vi + k] = A[vi + k] * (vi + 1)
        for k in range(3):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 6
                C[vi] = C[vi] + W[7 - vi - vk] * (vk + 1)
"""


@pytest.mark.meaning("unwritten")
def test_of_windows_that_overlap_the_one_moves_that_was_there() -> None:
    """Three instances write what an iteration reads, and the one of them that ran before is not the one that begins there."""
    program = from_source(WINDOWS)
    sch = Schedule(program)
    sch.compute_at("W", sch.get_loops("C")[1])
    assert_same_meaning(program, sch)


ONE_IN_THREE = """@T.prim_func
def main(C: T.Buffer((10,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(4):
        for j in range(1):
            with T.block("P"):
                vi = T.axis.spatial(4, i)
                B[vi * 3] = vi
        for j in range(1):
            with T.block("Q"):
                vi = T.axis.spatial(4, i)
                B[vi * 3 + SECOND] = vi + 10
        for j in range(1):
            with T.block("R"):
                vi = T.axis.spatial(4, i)
                B[vi * 3 + THIRD] = vi + 20
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi + 2]
"""


@pytest.mark.parametrize(("second", "third", "is_box"), [(1, 2, True), (2, 4, False)])
def test_what_lies_between_the_elements_of_producers_comes_from_other_iterations(
    second: int, third: int, is_box: bool
) -> None:
    text = ONE_IN_THREE.replace("SECOND", str(second)).replace("THIRD", str(third))
    sch = Schedule(from_source(text), error_render_level="none")
    before = sch.mod["main"]
    if is_box:
        sch.reverse_compute_at("C", sch.get_loops("P")[0])
        assert_same_meaning(before, sch)
    else:
        with pytest.raises(ScheduleError, match="is not known to be one box"):
            sch.reverse_compute_at("C", sch.get_loops("P")[0])


PARTIAL_SUMS = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((OUTER, 3), "int32")):
    S = T.alloc_buffer((1,), "int32")
    for i in range(OUTER):
        for k in range(8 // OUTER):
            with T.block("S"):
                vk = T.axis.reduce(8, i * (8 // OUTER) + k)
                with T.init():
                    S[0] = 0
                S[0] = S[0] + A[vk]
        for c in range(3):
            with T.block("C"):
                vi, vc = T.axis.remap("SS", [i, c])
                C[vi, vc] = S[0]
"""


@pytest.mark.parametrize("outer", [1, 2])
def test_sums_that_are_read_before_they_are_whole_stay_where_they_are(outer: int) -> None:
    """In the first of two iterations the consumer reads half of the sum."""
    sch = Schedule(from_source(PARTIAL_SUMS.replace("OUTER", str(outer))), error_render_level="none")
    before = sch.mod["main"]
    if outer == 1:
        sch.compute_at("S", sch.get_loops("C")[1])
        assert_same_meaning(before, sch)
    else:
        with pytest.raises(ScheduleError, match="would run for more values of 'vk'"):
            sch.compute_at("S", sch.get_loops("C")[1])


@pytest.mark.parametrize("at", [0, 1])
def test_a_guarded_row_of_a_flat_index_does_not_reach_into_the_next_one(at: int) -> None:
    """Beyond the guard lies what another row produces later, whose loop stands still."""
    sch = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    B = T.alloc_buffer((6,), "int32")
    for t, i, j in T.grid(2, 2, 2):
        with T.block("B"):
            vt = T.axis.spatial(2, t)
            vi = T.axis.spatial(3, i * 2 + j)
            T.where(i * 2 + j < 3)
            B[vt * 3 + vi] = A[vt * 3 + vi]
    for k in range(6):
        with T.block("C"):
            vk = T.axis.spatial(6, k)
            C[vk] = B[vk]
"""),
        error_render_level="none",
    )
    with pytest.raises(ScheduleError, match="runs only where"):
        sch.reverse_compute_at("C", sch.get_loops("B")[at])


EDGE = """@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((4, 8), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B[vj + OFFSET])
            T.writes(C[vi, vj])
            C[vi, vj] = T.if_then_else(WITHIN, B[vj + OFFSET], 0)
"""


@pytest.mark.parametrize(("offset", "within", "count"), [("-1", "vj > 0", 7), ("10", "vj < 6", 6)])
def test_what_is_read_beyond_a_buffer_is_not_computed(offset: str, within: str, count: int) -> None:
    func = from_source(EDGE.replace("OFFSET", offset).replace("WITHIN", within))
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert_same_meaning(func, sch)
    assert sch.get(sch.get_loops("B")[1]).extent.value == count


MOVING = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), S: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((8,), "int32")
    I = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("I"):
            vi = T.axis.spatial(8, i)
            I[vi] = T.bitwise_and(S[vi], 7)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[I[vi]]
"""


@pytest.mark.parametrize("index", [-1, -2])
def test_a_domain_that_changing_data_says_is_computed_whole(index: int) -> None:
    func = from_source(MOVING)
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0], index=index)


MOVED_ON = """@T.prim_func
def main(A: T.Buffer((3, 15), "int32"), C: T.Buffer((3, 13), "int32")):
    B = T.alloc_buffer((3, 15), "int32")
    for i, j in T.grid(3, 15):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(3, 13):
        for k in range(2):
            for l in range(3):
                with T.block("C"):
                    vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + {read}
"""
MOVED_ON_READS = {
    "beyond both ends": "T.if_then_else(1 <= vi + vk * 2 and vi + vk * 2 < 4 and 1 <= vj + vl * 2 and vj + vl * 2 < 16,"
    " B[vi + vk * 2 - 1, vj + vl * 2 - 1], 0)",
    "never the last elements": "B[vi, vj // 5 * 5 + vl]",
}


@pytest.mark.parametrize("read", MOVED_ON_READS.values(), ids=MOVED_ON_READS)
def test_a_block_that_went_with_one_loop_goes_on_to_the_next(read: str) -> None:
    """The window that it runs over now begins before its domain, or covers less of that than there is: all that is read still is made."""
    func = from_source(MOVED_ON.format(read=read))
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[1])
    sch.fuse(*sch.get_loops("B")[2:])
    sch.compute_at("B", sch.get_loops("C")[3])
    assert_same_meaning(func, sch)


def test_what_cannot_go_where_its_instances_are_one_stays_where_it_was() -> None:
    """Each iteration of the loops of one element rewrites it for all of D; the refusal came when the block had left its place."""
    sch = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((6,), "int32"), D: T.Buffer((3,), "int32")):
    G = T.alloc_buffer((3,), "int32")
    for i in range(3):
        for j in range(3):
            with T.block("G"):
                vi, vj = T.axis.remap("SS", [i, j])
                G[vj] = A[vi + vj]
        for j in range(3):
            with T.block("D"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    D[vi] = 0
                D[vi] = D[vi] * 2 + G[vj]
""")
    )
    sch.split(sch.get_loops("G")[0], [None, 1])
    loop = sch.get_loops("D")[-1]
    assert_refused(
        sch,
        lambda: sch.reverse_compute_at("G", loop),
        "reverse_compute_at",
        "more values of 'vi' than the loops",
    )
