"""split, fuse, reorder, add_unit_loop: structure, refusals, meaning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.fuzz.round_trips import round_trip
from ir import te
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

elementwise = kernels.cube()


@T.prim_func
def opaque(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32")):
    for i, j in T.grid(128, 128):
        with T.block("opaque"):
            T.reads(A[i, j])
            T.writes(B[i, j])
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)


matmul = kernels.matmul(6, 7, 5)


two_blocks = kernels.chain_by_rows()


# ---- split ------------------------------------------------------------------------------------------------------


def test_split_by_given_factors() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128, 128), "float32"), B: T.Buffer((128, 128, 128), "float32")):
        for i1, i2, i3, j1, j2, k1, k2 in T.grid(2, 1, 64, 4, 32, 16, 8):
            with T.block("B"):
                vi = T.axis.spatial(128, i1 * 64 + i2 * 64 + i3)
                vj = T.axis.spatial(128, j1 * 32 + j2)
                vk = T.axis.spatial(128, k1 * 8 + k2)
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    sch = Schedule(elementwise)
    i, j, k = sch.get_loops(sch.get_block("B"))
    sch.split(i, factors=[2, 1, 64])
    sch.split(j, factors=[4, 32])
    sch.split(k, factors=[16, 8])
    assert_program(sch, expected)
    assert_replays(sch, elementwise)


def test_split_infers_a_factor() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128, 128), "float32"), B: T.Buffer((128, 128, 128), "float32")):
        for i1, i2, i3, j1, j2, j3, k1, k2, k3 in T.grid(2, 1, 64, 2, 1, 64, 2, 1, 64):
            with T.block("B"):
                vi = T.axis.spatial(128, i1 * 64 + i2 * 64 + i3)
                vj = T.axis.spatial(128, j1 * 64 + j2 * 64 + j3)
                vk = T.axis.spatial(128, k1 * 64 + k2 * 64 + k3)
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    sch = Schedule(elementwise)
    i, j, k = sch.get_loops(sch.get_block("B"))
    sch.split(i, factors=[None, 1, 64])
    sch.split(j, factors=[2, None, 64])
    sch.split(k, factors=[2, 1, None])
    assert_program(sch, expected)


def test_split_that_does_not_divide_adds_a_predicate() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128, 128), "float32"), B: T.Buffer((128, 128, 128), "float32")):
        for i0, i1, i2, j0, j1, k0, k1 in T.grid(1000, 2, 3, 1, 129, 3, 43):
            with T.block("B"):
                vi = T.axis.spatial(128, i0 * 6 + i1 * 3 + i2)
                vj = T.axis.spatial(128, j0 * 129 + j1)
                vk = T.axis.spatial(128, k0 * 43 + k1)
                T.where((i0 * 2 + i1) * 3 + i2 < 128 and j0 * 129 + j1 < 128 and k0 * 43 + k1 < 128)
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    sch = Schedule(elementwise)
    i, j, k = sch.get_loops(sch.get_block("B"))
    sch.split(i, factors=[1000, 2, 3])
    sch.split(j, factors=[None, 129])
    sch.split(k, factors=[3, None])
    assert_program(sch, expected)
    assert_replays(sch, elementwise)


def test_split_of_a_symbolic_extent_that_the_factors_divide_needs_no_predicate() -> None:
    @T.prim_func
    def rounded(a: T.handle, n: T.int32):
        A = T.match_buffer(a, ((n + 15) // 16 * 16 + n * 32,), "float32")
        for i in range((n + 15) // 16 * 16 + n * 32):
            with T.block("A"):
                vi = T.axis.spatial((n + 15) // 16 * 16 + n * 32, i)
                A[vi] = T.float32(1)

    @T.prim_func
    def expected(a: T.handle, n: T.int32):
        A = T.match_buffer(a, ((n + 15) // 16 * 16 + n * 32,), "float32")
        for i0, i1 in T.grid((n + 15) // 16 + n * 2, 16):
            with T.block("A"):
                vi = T.axis.spatial((n + 15) // 16 * 16 + n * 32, i0 * 16 + i1)
                A[vi] = T.float32(1)

    sch = Schedule(rounded)
    sch.split(sch.get_loops("A")[0], [None, 16])
    assert_program(sch, expected)
    odd = Schedule(rounded)
    odd.split(odd.get_loops("A")[0], [None, 32])
    assert "T.where" in odd.mod.script()


def test_split_without_predication_and_without_unit_iterators() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128, 128), "float32"), B: T.Buffer((128, 128, 128), "float32")):
        for i0, i1, j0, j1, k in T.grid(1, 128, 3, 43, 128):
            with T.block("B"):
                vi = T.axis.spatial(128, i1)
                vj = T.axis.spatial(128, j0 * 43 + j1)
                vk = T.axis.spatial(128, k)
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    sch = Schedule(elementwise)
    i, j, _ = sch.get_loops(sch.get_block("B"))
    sch.split(i, [1, None], preserve_unit_iters=False)
    sch.split(j, [3, None], disable_predication=True)
    assert_program(sch, expected)
    assert_replays(sch, elementwise)


def test_split_rewrites_opaque_blocks() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32")):
        for i0, i1, j in T.grid(8, 16, 128):
            with T.block("opaque"):
                T.reads(A[i0 * 16 + i1, j])
                T.writes(B[i0 * 16 + i1, j])
                with T.block("B"):
                    vi = T.axis.spatial(128, i0 * 16 + i1)
                    vj = T.axis.spatial(128, j)
                    B[vi, vj] = A[vi, vj] * T.float32(2)

    sch = Schedule(opaque)
    i, _ = sch.get_loops(sch.get_block("opaque"))
    sch.split(i, [None, 16])
    assert_program(sch, expected)
    assert_replays(sch, opaque)


def test_split_refusals() -> None:
    sch = Schedule(elementwise)
    i, j, k = sch.get_loops(sch.get_block("B"))
    assert_refused(sch, lambda: sch.split(i, [2, 3]), "split", "'i'", "128")
    assert_refused(sch, lambda: sch.split(i, [None, None]), "at most one")
    assert_refused(sch, lambda: sch.split(i, []), "'i'")
    assert_refused(sch, lambda: sch.split(i, 8), "split", "list of factors", "got 8")
    assert_refused(sch, lambda: sch.split(i, [0, 128]), "positive")
    sch.annotate(j, "mark", 1)
    assert_refused(sch, lambda: sch.split(j, [None, 2]), "'j'", "annotations")
    sch.bind(k, "threadIdx.x")
    assert_refused(sch, lambda: sch.split(k, [None, 2]), "'k'", "thread binding")


def test_a_split_loop_cannot_be_used_again() -> None:
    sch = Schedule(elementwise)
    i, _, _ = sch.get_loops(sch.get_block("B"))
    sch.split(i, [None, 4])
    assert_refused(sch, lambda: sch.split(i, [None, 2]), "'i'", "get it anew")


# ---- fuse -------------------------------------------------------------------------------------------------------


def test_fuse() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128, 128), "float32"), B: T.Buffer((128, 128, 128), "float32")):
        for fused in range(2097152):
            with T.block("B"):
                vi = T.axis.spatial(128, fused // 16384)
                vj = T.axis.spatial(128, fused % 16384 // 128)
                vk = T.axis.spatial(128, fused % 128)
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    sch = Schedule(elementwise)
    sch.fuse(*sch.get_loops(sch.get_block("B")))
    assert_program(sch, expected)
    assert_replays(sch, elementwise)


def test_fuse_and_split_keeps_the_normal_form() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128, 128), "float32"), B: T.Buffer((128, 128, 128), "float32")):
        for f0, f1 in T.grid(32768, 64):
            with T.block("B"):
                vi = T.axis.spatial(128, (f0 * 64 + f1) // 16384)
                vj = T.axis.spatial(128, (f0 * 64 + f1) % 16384 // 128)
                vk = T.axis.spatial(128, (f0 * 64 + f1) % 128)
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    sch = Schedule(elementwise)
    fused = sch.fuse(*sch.get_loops(sch.get_block("B")))
    sch.split(fused, [None, 64])
    assert_program(sch, expected)


def test_split_and_fuse_is_the_identity() -> None:
    sch = Schedule(matmul)
    i, _, _ = sch.get_loops("C")
    sch.fuse(*sch.split(i, [2, 3]))
    assert_program(sch, matmul)


def test_fuse_opaque_blocks() -> None:
    sch = Schedule(opaque)
    sch.fuse(*sch.get_loops(sch.get_block("opaque")))

    @T.prim_func
    def expected(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32")):
        for f in range(16384):
            with T.block("opaque"):
                T.reads(A[f // 128, f % 128])
                T.writes(B[f // 128, f % 128])
                with T.block("B"):
                    vi = T.axis.spatial(128, f // 128)
                    vj = T.axis.spatial(128, f % 128)
                    B[vi, vj] = A[vi, vj] * T.float32(2)

    assert_program(sch, expected)


def test_fuse_refusals() -> None:
    sch = Schedule(elementwise)
    i, j, k = sch.get_loops(sch.get_block("B"))
    assert_refused(sch, lambda: sch.fuse(j, i), "fuse", "not the only child")
    assert_refused(sch, lambda: sch.fuse(i, k), "'k'", "'i'")
    shared = Schedule(two_blocks)
    outer, inner = shared.get_loops("B")
    assert_refused(shared, lambda: shared.fuse(outer, inner), "not the only child")
    sch.annotate(i, "mark", 1)
    assert_refused(sch, lambda: sch.fuse(i, j), "'i'")


# ---- reorder ----------------------------------------------------------------------------------------------------


def test_reorder_with_loops_between() -> None:
    @T.prim_func
    def expected(A: T.Buffer((128, 128, 128), "float32"), B: T.Buffer((128, 128, 128), "float32")):
        for k, j, i in T.grid(128, 128, 128):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)

    sch = Schedule(elementwise)
    i, _, k = sch.get_loops(sch.get_block("B"))
    sch.reorder(k, i)
    assert_program(sch, expected)
    assert_replays(sch, elementwise)


def test_reorder_after_decomposition() -> None:
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    sch.decompose_reduction("C", k)
    before = sch.get_loops("C_update")
    assert len(before) == 3
    sch = Schedule(matmul)
    i, j, k = sch.get_loops("C")
    sch.decompose_reduction("C", i)
    i, j, k = sch.get_loops("C_update")
    sch.reorder(k, i, j)
    assert_same_meaning(matmul, sch)


@T.prim_func
def not_affine(A: T.Buffer((16, 128), "float32"), B: T.Buffer((16, 128), "float32")):
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            vj = T.axis.spatial(128, j // 2)
            B[vi, vj] = A[vi, vj]


dependent = kernels.triangle()


@T.prim_func
def scan(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi = T.axis.scan(16, i)
            vj = T.axis.spatial(16, j)
            B[vi, vj] = A[vi, vj]


def test_reorder_refusals() -> None:
    sch = Schedule(elementwise)
    i, j, _ = sch.get_loops(sch.get_block("B"))
    assert_refused(sch, lambda: sch.reorder(i, i), "reorder", "twice")
    shared = Schedule(two_blocks)
    i, j = shared.get_loops("B")
    _, j2 = shared.get_loops("C")
    assert_refused(shared, lambda: shared.reorder(j, j2), "not one chain")
    assert_refused(shared, lambda: shared.reorder(j, i), "chain")
    for program, word in ((not_affine, "affine"), (dependent, "'j'"), (scan, "must run in order")):
        sch = Schedule(program)
        i, j = sch.get_loops("B")
        assert_refused(sch, lambda sch=sch, i=i, j=j: sch.reorder(j, i), word)


def test_loops_inside_of_a_scan_are_reordered() -> None:
    """What runs in order is the loop around them, which stays where it is."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((3, 4, 5), "float32"), B: T.Buffer((4, 5), "float32")):
    for t, i, j in T.grid(3, 4, 5):
        with T.block("B"):
            vt = T.axis.scan(3, t)
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vt == 0, T.float32(0), B[vi, vj] * T.float32(2)) + A[vt, vi, vj]
""")
    sch = Schedule(func)
    t, i, j = sch.get_loops("B")
    sch.reorder(j, i)
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops("B")] == ["t", "j", "i"]
    assert_same_meaning(func, sch)
    assert_refused(sch, lambda: sch.reorder(j, t), "must run in order")


# ---- add_unit_loop ----------------------------------------------------------------------------------------------


def test_add_unit_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            B[()] = A[()]

    @T.prim_func
    def expected(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
        for u, w in T.grid(1, 1):
            with T.block("B"):
                vi = T.axis.spatial(1, 0)
                B[()] = A[()]

    sch = Schedule(before)
    loop = sch.add_unit_loop(sch.get_block("B"))
    sch.add_unit_loop(loop)
    assert_program(sch, expected)
    assert_replays(sch, before)
    root = sch.get_block("root")
    assert_refused(sch, lambda: sch.add_unit_loop(root), "add_unit_loop", "root")


# ---- loop_partition, merge --------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["a view", "an allocation", "a declaration"])
def test_parts_of_a_loop_have_buffers_of_their_own(inside: str) -> None:
    """Printed and read, or saved, the program is the same: a buffer that two parts shared became two."""
    before = from_source(f"""
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            T.reads(A[vi, 0:8], B[vi, 0:8])
            T.writes(B[vi, 0:8])
            {PARTS[inside]}
            for j in range(8):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j)
                    row[vj] = A[vi, vj] * T.float32(2)
                    B[vi, vj] = row[vj]
""")
    sch = Schedule(before)
    sch.loop_partition(sch.get_loops("B")[0], [2, None])
    assert not round_trip(sch.mod)
    assert_same_meaning(before, sch)
    assert_replays(sch, before)


PARTS = {
    "a view": "row = T.match_buffer(B[vi, 0:8], (8,), offset_factor=1)",
    "an allocation": "row = T.alloc_buffer((8,))",
    "a declaration": "row = T.decl_buffer((8,), data=B.data)",
}


def test_parts_of_a_loop_inside_of_a_reduction_over_nothing() -> None:
    """The block begins in each iteration of the loops outside; a part would never run."""

    @T.prim_func
    def program(B: T.Buffer((4,), "float32")):
        for k, i in T.grid(0, 4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(3)
                B[vi] = B[vi] + T.float32(1)

    sch = Schedule(program)
    inner = sch.get_loops("B")[1]
    assert_refused(sch, lambda: sch.loop_partition(inner, [2, None]), "loop_partition", "'k' outside")


def test_loop_partition() -> None:
    before = kernels.elementwise(8, 4)

    @T.prim_func
    def expected(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        with T.block("root"):
            T.reads()
            T.writes()
            with T.block("B_i_common"):
                T.reads(A[0:8, 0:4])
                T.writes(B[0:8, 0:4])
                with T.block("B_i0_partition"):
                    T.reads(A[0:2, 0:4])
                    T.writes(B[0:2, 0:4])
                    for i0, j in T.grid(2, 4):
                        with T.block("B_i0"):
                            vi = T.axis.spatial(2, i0)
                            vj = T.axis.spatial(4, j)
                            T.reads(A[0:2, 0:4])
                            T.writes(B[0:2, 0:4])
                            B[vi, vj] = A[vi, vj] * T.float32(2)
                with T.block("B_i1_partition"):
                    T.reads(A[2:8, 0:4])
                    T.writes(B[2:8, 0:4])
                    for i1 in range(2, 8):
                        for j in range(4):
                            with T.block("B_i1"):
                                vi = T.axis.spatial((2, 8), i1)
                                vj = T.axis.spatial(4, j)
                                T.reads(A[2:8, 0:4])
                                T.writes(B[2:8, 0:4])
                                B[vi, vj] = A[vi, vj] * T.float32(2)

    sch = Schedule(before)
    i, _ = sch.get_loops("B")
    assert_refused(sch, lambda: sch.loop_partition(i, [5, 5]), "loop_partition", "'i'", "extent 8")
    assert_refused(sch, lambda: sch.loop_partition(i, [None, None]), "at most one")
    assert_refused(
        sch, lambda: sch.loop_partition(i, [4], preserve_unit_iters=False), "preserve_unit_iters is True"
    )
    assert_refused(sch, lambda: sch.loop_partition(i, [8]), "one piece")
    assert len(sch.loop_partition(i, [2, None])) == 2
    assert_program(sch, expected)
    assert_same_meaning(before, sch)
    assert_replays(sch, before)
    whole = Schedule(before)
    assert len(whole.loop_partition(whole.get_loops("B")[0], [2, 3])) == 3
    assert_same_meaning(before, whole)


@T.prim_func
def two_nests(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32"), D: T.Buffer((8, 4), "float32")):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[7 - vi, vj]


def test_merge() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32"), D: T.Buffer((8, 4), "float32")
    ):
        B = T.alloc_buffer((8, 4))
        for i_m in range(8):
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i_m, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(4):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i_m, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)
        for i, j in T.grid(8, 4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[7 - vi, vj]

    sch = Schedule(two_nests)
    outer = [sch.get_loops(name)[0] for name in "BCD"]
    inner = [sch.get_loops(name)[1] for name in "BCD"]
    assert_refused(sch, lambda: sch.merge(outer[0], inner[1]), "merge")
    assert_refused(sch, lambda: sch.merge(outer[0], outer[2]), "follow each other")
    assert_refused(sch, lambda: sch.merge(outer[1], inner[1]), "merge")
    assert_refused(sch, lambda: sch.merge(*outer), "buffer B")
    sch.merge(outer[0], outer[1])
    assert_program(sch, expected)
    assert_same_meaning(two_nests, sch)
    assert_replays(sch, two_nests)


def hand_over(part: str) -> PrimFunc:
    """Two nests, the second of which reads an element that each iteration of the first one writes."""
    return from_source(f"""@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[{part}] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[{part}]
""")


@pytest.mark.parametrize("part", ["0", "vi // 2"])
def test_merged_iterations_hand_over_what_is_their_own(part: str) -> None:
    """The second nest read what the last iteration of the first one left there."""
    sch = Schedule(hand_over(part))
    loops = [sch.get_loops(name)[0] for name in "BC"]
    assert_refused(sch, lambda: sch.merge(*loops), "merge", "may write the same part of buffer B")


@pytest.mark.parametrize("part", ["vi", "7 - vi"])
def test_merged_iterations_may_hand_over_any_part(part: str) -> None:
    func = hand_over(part)
    sch = Schedule(func)
    sch.merge(*[sch.get_loops(name)[0] for name in "BC"])
    assert_same_meaning(func, sch)


def test_merged_nests_decide_nothing_for_each_other() -> None:
    """A predicate that loads what another nest writes must see all of it written."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(B[7 - i] > T.float32(0))
            C[vi] = A[vi]
""")
    sch = Schedule(func)
    loops = [sch.get_loops(name)[0] for name in "BC"]
    assert_refused(sch, lambda: sch.merge(*loops), "merge", "'C' runs depends on B")


def test_bounds_that_load_are_not_read_past_the_end() -> None:
    """The guard of an uneven split is on blocks, and the rows of a sparse matrix end with their pointers."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8,)), I: T.Buffer((9,), "int32"), C: T.Buffer((8,))):
    for i in range(8):
        for k in range(I[i + 1] - I[i]):
            with T.block("C"):
                vi, vk = T.axis.spatial(8, i), T.axis.reduce(8, k)
                T.reads(A[0:8], I[0:9])
                T.writes(C[vi])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[I[vi] + vk]
""")
    sch = Schedule(func)
    rows = sch.get_loops("C")[0]
    assert_refused(sch, lambda: sch.split(rows, [None, 3]), "split", "which has no value past the end")
    sch.split(rows, [None, 4])


def test_the_guard_of_a_split_comes_before_what_it_guards() -> None:
    """A predicate that loads has no value past the end of its loop."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(A[i] > T.float32(0))
            C[vi] = A[vi]
""")
    sch = Schedule(func)
    sch.split(sch.get_loops("C")[0], [None, 3])
    assert_same_meaning(func, sch)


# ---- random sequences -------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.data())
def test_random_loop_restructuring_keeps_the_meaning(data: st.DataObject) -> None:
    sch = Schedule(matmul)
    block = sch.get_block("C")
    for _ in range(data.draw(st.integers(1, 5))):
        loops = sch.get_loops(block)
        kind = data.draw(st.sampled_from(["split", "fuse", "reorder", "unit"]))
        at = data.draw(st.integers(0, len(loops) - 1))
        if kind == "split":
            factor = data.draw(st.integers(1, 4))
            factors = [None, factor] if data.draw(st.booleans()) else [factor, None]
            sch.split(loops[at], factors, preserve_unit_iters=data.draw(st.booleans()))
        elif kind == "fuse" and at + 1 < len(loops):
            # A fused data-parallel and reduction loop is no legal binding for what follows; stay within a kind.
            kinds = [_kind(sch, loop) for loop in loops[at : at + 2]]
            if kinds[0] == kinds[1]:
                sch.fuse(loops[at], loops[at + 1], preserve_unit_iters=data.draw(st.booleans()))
        elif kind == "reorder":
            sch.reorder(*data.draw(st.permutations(loops)))
        elif kind == "unit":
            sch.add_unit_loop(loops[at])
    assert_same_meaning(matmul, sch)
    assert_replays(sch, matmul)


def _kind(sch: Schedule, loop: object) -> str:
    return "R" if sch.get(loop).loop_var.name.startswith("k") else "S"


def test_parts_say_what_they_touch() -> None:
    """So that other primitives see them: what the loops around a part do, and who reads what it writes."""
    sch = Schedule(kernels.row_sum(4, 3))
    k = sch.get_loops("B")
    sch.reorder(k[1], k[0])
    sch.loop_partition(sch.get_loops("B")[1], [2, None])
    (outer,) = sch.get_loops("B_i_common")
    assert_refused(sch, lambda: sch.vectorize(outer), "depend on each other")


@pytest.mark.parametrize("factor", [2.5, "x"])
def test_split_takes_integers_alone(factor: object) -> None:
    sch = Schedule(matmul)
    with pytest.raises(ScheduleError, match="are integers, integer expressions or None"):
        sch.split(sch.get_loops(next(iter(sch.get_child_blocks(sch.get_block("root")))))[0], [None, factor])  # type: ignore[list-item]


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 0, 3), (0, 0), (1, 0)])
def test_empty_loops_are_fused(shape: tuple[int, ...]) -> None:
    func = te.create_prim_func([a := te.placeholder(shape), te.compute(shape, lambda *i: a(*i), name="B")])
    sch = Schedule(func)
    fused = sch.fuse(*sch.get_loops("B"))
    assert sch.get(fused).extent.value == 0
    assert_same_meaning(func, sch)


@pytest.mark.parametrize(
    ("read", "legal"), [("B[vi, vj]", True), ("B[vj, vi]", False), ("B[(vi + 5) % 6, vj]", False)]
)
def test_reorder_of_loops_around_two_blocks(read: str, legal: bool) -> None:
    """A reader may find what the parameter held before, if its iteration comes before the one that writes."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((6, 6)), B: T.Buffer((6, 6)), C: T.Buffer((6, 6))):
    for i, j in T.grid(6, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {read}
"""
    )
    sch = Schedule(func, error_render_level="none")
    i, j = sch.get_loops("C")
    if legal:
        sch.reorder(j, i)
    else:
        assert_refused(sch, lambda: sch.reorder(j, i), "reorder", "may write to B, in block 'B'")
    assert_same_meaning(func, sch)


def test_reorder_of_loops_around_a_statement_that_is_in_no_block() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((4, 4)), B: T.Buffer((4, 4)), C: T.Buffer((1,))):
    for i, j in T.grid(4, 4):
        C[0] = A[i, j]
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""
    )
    sch = Schedule(func, error_render_level="none")
    assert_refused(sch, lambda: sch.reorder(*sch.get_loops("B")[::-1]), "stores that are in no block")


def test_reorder_says_which_loops_are_wrong() -> None:
    """Also where two of them have one name."""
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("one"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(0)
    for i, j in T.grid(8, 8):
        with T.block("two"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(0)"""
    )
    sch = Schedule(func)
    (i, j), (other, _) = sch.get_loops("one"), sch.get_loops("two")
    with pytest.raises(ScheduleError, match="loop i is given twice, as number 1 and number 3"):
        sch.reorder(i, j, i)
    with pytest.raises(
        ScheduleError, match=r"loops i \(around block one\), i \(around block two\) are not one"
    ):
        sch.reorder(i, other)


@pytest.mark.parametrize("extent", [0, 3])
def test_a_loop_that_begins_where_another_one_is_stays_in_that(extent: int) -> None:
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((4, 8), "int32")):
    for i in range(4):
        for j in range(i, i + {extent}):
            with T.block("B"):
                vi, vj = T.axis.spatial(4, i), T.axis.spatial(8, j)
                B[vi, vj] = A[vj]
""")
    sch = Schedule(func)
    i, j = sch.get_loops("B")
    assert_refused(sch, lambda: sch.reorder(j, i), "reorder", "begin of loop 'j' depends on a loop")


@pytest.mark.parametrize(("outer", "legal"), [(0, False), (1, True), (2, True), (3, False)])
def test_rows_are_not_fused_with_any_part_of_a_reduction_over_nothing(outer: int, legal: bool) -> None:
    """One domain that is empty is enough: no loop of rows alone is left then that says which elements are initialised."""
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((3, 2, 9), "int32"), C: T.Buffer((4, 2), "int32"), n: T.int32):
    for k, i, u, j, l in T.grid(3, 4, 1, 2, n):
        with T.block("C"):
            vk, vi, vu, vj, vl = T.axis.remap("RSRSR", [k, i, u, j, l])
            with T.init():
                C[vi, vj] = 7
            C[vi, vj] = C[vi, vj] + A[vk, vj, vl + vu]
"""
    )
    sch = Schedule(func)
    chosen = sch.get_loops("C")[outer : outer + 2]
    if not legal:
        assert_refused(sch, lambda: sch.fuse(*chosen), "'vl'", "may be none")
        return
    sch.fuse(*chosen)
    array = np.arange(54, dtype="int32").reshape(3, 2, 9)
    for n in (0, 2):
        results = [np.full((4, 2), -1, "int32") for _ in range(2)]
        for program, result in zip((func, sch.mod["main"]), results, strict=True):
            run(program, array, result, n)
        np.testing.assert_array_equal(results[1], results[0])
