"""cache_index: what is computed ahead, and what stays."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule
from schedules.tree import all_blocks
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

chain = kernels.chain()


def test_cache_index() -> None:
    @T.prim_func
    def before(A: T.Buffer((3, 10, 10), "float32"), B: T.Buffer((3, 20, 20), "float32")):
        for c, i, j in T.grid(3, 20, 20):
            with T.block("B"):
                vc, vi, vj = T.axis.remap("SSS", [c, i, j])
                B[vc, vi, vj] = A[vc, vi // 4 + vj // 4, vj // 2]

    @T.prim_func
    def expected(A: T.Buffer((3, 10, 10), "float32"), B: T.Buffer((3, 20, 20), "float32")):
        index_0 = T.alloc_buffer((20, 20), "int32")
        index_1 = T.alloc_buffer((20,), "int32")
        for ax0, ax1 in T.grid(20, 20):
            with T.block("index_0"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.reads()
                T.writes(index_0[v0, v1])
                index_0[v0, v1] = v0 // 4 + v1 // 4
        for ax0 in range(20):
            with T.block("index_1"):
                v0 = T.axis.spatial(20, ax0)
                T.reads()
                T.writes(index_1[v0])
                index_1[v0] = v0 // 2
        for c, i, j in T.grid(3, 20, 20):
            with T.block("B"):
                vc, vi, vj = T.axis.remap("SSS", [c, i, j])
                T.reads(A[vc, vi // 4 + vj // 4, vj // 2], index_0[vi, vj], index_1[vj])
                T.writes(B[vc, vi, vj])
                B[vc, vi, vj] = A[vc, index_0[vi, vj], index_1[vj]]

    sch = Schedule(before)
    assert len(sch.cache_index("B", "global")) == 2
    assert_program(sch, expected)
    assert_same_meaning(before, sch)
    assert_replays(sch, before)
    plain = Schedule(chain)
    assert plain.cache_index("B", "global") == []
    assert_program(plain, chain)
    assert_refused(plain, lambda: plain.cache_index("B", "global", -1), "cse_thresh")


def test_cache_index_of_a_part() -> None:
    """The values of a variable that starts at two are kept from zero on."""
    program = kernels.padded()
    sch = Schedule(program)
    sch.loop_partition(sch.get_loops("C")[1], [2, None])
    blocks = [item.name for item in all_blocks(sch._root("main")) if item.name.startswith("C")]
    sch.cache_index(blocks[-1], "global", 0)
    assert_same_meaning(program, sch)


@pytest.mark.parametrize("threshold", [0, 1, 2])
def test_cache_index_knows_the_variables_of_the_block_only(threshold: int) -> None:
    """What loops and lets in the block name was computed before it, where they have no value."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.reads(A[0:8, 0:8], C[v])
            T.writes(C[v])
            y = v % 3
            C[v] = A[v, y + v // 2] + A[v // 2, y + v // 2]
            for k in range(y):
                C[v] = C[v] + A[v // 2, (k + v) % 8] + A[v // 2, (k + v) % 8]
""")
    sch = Schedule(func)
    assert sch.cache_index("C", "global", threshold)
    assert_same_meaning(func, sch)


def test_what_a_let_in_an_index_names_is_not_computed_ahead() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    y = T.int32()
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = T.Let(A[y + v // 2] + A[v // 2], where={y: v % 3})
""")
    sch = Schedule(func)
    assert len(sch.cache_index("C", "global")) == 1
    assert_same_meaning(func, sch)
