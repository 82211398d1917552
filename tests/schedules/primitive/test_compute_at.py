"""compute_at: structure, halos, predicates, refusals, meaning."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning, main_of

chain = kernels.chain()


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


def test_compute_at_refusals() -> None:
    sch = Schedule(chain)
    b, c = sch.get_block("B"), sch.get_block("C")
    loop_b, loop_c = sch.get_loops(b)[0], sch.get_loops(c)[0]
    assert_refused(sch, lambda: sch.compute_at(c, loop_b), "compute_at", "'C'", "output")
    assert_refused(sch, lambda: sch.compute_at(b, loop_b), "'i'", "already around")


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


def test_a_condition_of_its_own_stays() -> None:
    program = kernels.prefix_sums()
    sch = Schedule(program)
    sch.cache_write("B", 0, "global")
    assert_refused(sch, lambda: sch.compute_at("B", sch.get_loops("B_global")[1]), "runs only where")
    sch.split(sch.get_loops("C")[1], [None, 2])  # which needs a guard, that new loops get anew
    sch.compute_at("C", sch.get_loops("B")[0])
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


def test_a_row_is_told_by_quotients_of_an_extent_that_is_zero_only_where_there_is_no_row() -> None:
    """Also where the consumer itself may not run: the loop over rows does only if n is not zero."""

    @T.prim_func
    def program(a: T.handle, b: T.handle):
        n = T.int32()
        k = T.int32()
        A = T.match_buffer(a, (2, n, k), "int32")
        B = T.match_buffer(b, (2, n, k), "int32")
        P = T.alloc_buffer((2, n), "int32")
        for h, i, j in T.grid(2, n, k):
            with T.block("P"):
                vh, vi, vj = T.axis.remap("SSR", [h, i, j])
                with T.init():
                    P[vh, vi] = 0
                P[vh, vi] += A[vh, vi, vj]
        for h, i, j in T.grid(2, n, k):
            with T.block("B"):
                vh, vi, vj = T.axis.remap("SSS", [h, i, j])
                B[vh, vi, vj] = P[vh, vi] + vj

    sch = Schedule(program)
    row = sch.fuse(*sch.get_loops("B")[:2])
    sch.compute_at("P", row)
    assert [str(sch.get(loop).extent) for loop in sch.get_loops("P")] == ["2 * n", "k"]
    run = build(IRModule({"main": main_of(sch)}), Target("llvm"))["program"]
    for n, k in ((3, 4), (1, 7), (0, 3), (3, 0)):
        a, b = np.arange(2 * n * k, dtype="int32").reshape(2, n, k), np.zeros((2, n, k), "int32")
        run(a, b)
        np.testing.assert_array_equal(b, a.sum(2, keepdims=True) + np.arange(k))


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


def test_a_copy_goes_on_to_the_next_loop_where_its_rows_are_said_by_a_loop_of_one_iteration() -> None:
    """Every other row is read: the copy has 23 of 24, and goes on since they are all that is read, from ``di``, which is 0."""
    sch = Schedule(
        from_source(
            """
@T.prim_func
def main(A: T.Buffer((24, 16), "int32"), C: T.Buffer((12, 16), "int32")):
    for i, c, di in T.grid(12, 16, 1):
        with T.block("C"):
            vi, vc, vd = T.axis.remap("SSR", [i, c, di])
            with T.init():
                C[vi, vc] = 0
            C[vi, vc] = C[vi, vc] + A[vi * 2 + vd, vc]
"""
        )
    )
    before = sch.mod["main"]
    i, c, di = sch.get_loops("C")
    i, inner = sch.split(i, [6, 2])
    sch.reorder(di, i, inner, c)
    copy = sch.cache_read("C", 0, "global")
    sch.compute_at(copy, di, preserve_unit_loops=True)
    assert "23" in sch.mod.script()
    sch.compute_at(copy, i, preserve_unit_loops=True)
    assert_same_meaning(before, sch.mod["main"])


def test_a_sum_that_goes_on_in_a_loop_around_is_not_repeated_inside() -> None:
    @T.prim_func
    def prefixes(A: T.Buffer((2, 4), "int32"), C: T.Buffer((4, 2), "int32"), D: T.Buffer((2,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        for k in range(2):
            with T.block("P"):
                vp = T.axis.spatial(2, k)
                D[vp] = A[vp, 0]
            for i in range(4):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = 0
                    B[vi] = B[vi] + A[vk, vi]
            for c, j in T.grid(4, 2):
                with T.block("C"):
                    vc, vj = T.axis.remap("SS", [c, j])
                    C[vc, vj] = B[vc]

    sch = Schedule(prefixes)
    inner = sch.get_loops("C")[-1]
    assert_refused(sch, lambda: sch.compute_at("B", inner), "compute_at", "'k'", "sum up again")
