"""cache_inplace, read_at, write_at: structure, what they copy, refusals."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from schedules import Schedule
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

chain = kernels.chain()
matmul = kernels.matmul(6, 7, 5)


def test_cache_inplace() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("A"):
                vi = T.axis.spatial(16, i)
                T.reads(A[vi])
                T.writes(A[vi])
                A[vi] = A[vi] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32")):
        A_local = T.alloc_buffer((16,), scope="local")
        for ax0 in range(16):
            with T.block("A_local"):
                v0 = T.axis.spatial(16, ax0)
                A_local[v0] = A[v0]
        for i in range(16):
            with T.block("A"):
                vi = T.axis.spatial(16, i)
                T.reads(A_local[vi])
                T.writes(A_local[vi])
                A_local[vi] = A_local[vi] * T.float32(2)
        for ax0 in range(16):
            with T.block("A_local"):
                v0 = T.axis.spatial(16, ax0)
                A[v0] = A_local[v0]

    sch = Schedule(before)
    assert len(sch.cache_inplace("A", 0, "local")) == 2
    assert_program(sch, expected)
    assert_same_meaning(before, sch)
    assert_replays(sch, before)
    other = Schedule(chain)
    assert_refused(other, lambda: other.cache_inplace("B", 0, "local"), "'B'", "does not write")


def test_read_at_and_write_at() -> None:
    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        B = T.alloc_buffer((16, 16))
        A_shared = T.alloc_buffer((16, 16), scope="shared")
        for i_0 in range(4):
            with T.block("A_shared"):
                v0 = T.axis.spatial(4, i_0)
                T.reads(A[v0 * 4 : v0 * 4 + 4, 0:16])
                T.writes(A_shared[v0 * 4 : v0 * 4 + 4, 0:16])
                T.block_attr({"auto_copy": True})
                for ax0, ax1 in T.grid(4, 16):
                    A_shared[v0 * 4 + ax0, ax1] = A[v0 * 4 + ax0, ax1]
            for i_1, j in T.grid(4, 16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i_0 * 4 + i_1)
                    vj = T.axis.spatial(16, j)
                    B[vi, vj] = A_shared[vi, vj] * T.float32(2)
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(chain)
    i0, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.read_at(i0, "B", 0, "shared")
    assert_program(sch, expected)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)
    loop = sch.get_loops("C")[0]
    sch.write_at(loop, "C", 0, "local")
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)
    assert_refused(sch, lambda: sch.read_at(loop, "B", 0, "shared"), "read_at", "not around")
    reduction = Schedule(matmul)
    inner = reduction.get_loops("C")[2]
    assert_refused(reduction, lambda: reduction.write_at(inner, "C", 0, "local"), "write_at", "not finished")


def test_cache_inplace_of_a_part() -> None:
    """Its loop begins at one: what the block writes lies further on than what it reads."""

    @T.prim_func
    def program(A: T.Buffer((2,), "float32"), B: T.Buffer((3,), "float32")):
        for i in range(2):
            with T.block("B"):
                vi = T.axis.spatial(2, i)
                B[vi + 1] = B[vi] + A[vi]

    sch = Schedule(program)
    sch.loop_partition(sch.get_loops("B")[0], [1, None])
    sch.cache_inplace("B_i1", 0, "global")
    assert_same_meaning(program, sch)
    # The copies read and write B[1:3], and so do the blocks around them.
    for name in ("B_i1_partition", "B_i_common"):
        block = sch.get(sch.get_block(name))
        for stated in (block.reads, block.writes):
            ((low, extent),) = [
                (item.region[0].min.value, item.region[0].extent.value)
                for item in stated
                if item.buffer.name == "B"
            ]
            assert low <= 1 and low + extent == 3


def test_read_at_takes_nothing_that_nobody_wrote() -> None:
    """A tile that reaches beyond the rows of its block would be copied whole."""

    @T.prim_func
    def program(A: T.Buffer((3, 4), "float32"), C: T.Buffer((3, 4), "float32")):
        B = T.alloc_buffer((8, 4), "float32")
        for i, j in T.grid(3, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi + 1, vj] = A[vi, vj]
        for i, j in T.grid(3, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi + 1, vj]

    sch = Schedule(program)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 2])
    assert_refused(sch, lambda: sch.read_at(outer, "C", 0, "global"), "read_at", "fill")
    row = Schedule(program)
    row.read_at(row.get_loops("C")[0], "C", 0, "global")
    assert_same_meaning(program, row)


def test_a_part_that_changes_in_size_is_not_staged() -> None:
    sch = Schedule(kernels.triangle(5))
    assert_refused(
        sch, lambda: sch.read_at(sch.get_loops("B")[0], "B", 0, "global"), "changes from one to the next"
    )


def test_write_at_in_a_block_of_blocks() -> None:
    """The position of the copy depends on a variable of the block around, whose domain bounds it."""

    @T.prim_func
    def main(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5, 6), "float32")):
        for i, j in T.grid(5, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    sch = Schedule(main)
    sch.blockize(sch.get_loops("B")[1])
    sch.write_at(sch.get_loops("B")[0], "B", 0, "global")
    assert_same_meaning(main, sch)


def _scan(around: str, variable: str = "i") -> PrimFunc:
    """A scan, in a nest that is given with the block's predicate (indented), and with what its second variable is bound to."""
    return from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(15):
{around}
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.opaque(16, {variable})
                T.where({"B[i] > 0" if "predicate" in around else "i < 15"})
                B[vi + 1] = B[vj] + A[vi]
"""
    )


@pytest.mark.parametrize(
    ("around", "variable"),
    [
        ("        for j in range(T.min(T.max(B[i], 0), 3)):", "i"),
        ("        for j in range(2):  # predicate", "i"),
        ("        for j in range(2):", "T.max(B[i], 0)"),
    ],
)
def test_cache_inplace_of_a_scan_that_decides_how_it_goes_on(around: str, variable: str) -> None:
    """The copies stand outside of the loop: what says whether and where the block runs would read what was there before."""
    program = _scan(around, variable)
    sch = Schedule(program)
    position = [region.buffer.name for region in sch.get(sch.get_block("B")).reads].index("B")
    assert_refused(sch, lambda: sch.cache_inplace("B", position, "global"), "cache_inplace", "B says whether")


def test_cache_inplace_of_a_scan() -> None:
    for around in ("        for j in range(2):", "        if A[i] > 0:"):
        program = _scan(around)
        sch = Schedule(program)
        position = [region.buffer.name for region in sch.get(sch.get_block("B")).reads].index("B")
        sch.cache_inplace("B", position, "global")
        assert_same_meaning(program, sch)


@pytest.mark.parametrize("is_filled", [True, False])
def test_cache_inplace_in_a_block_of_what_a_block_around_it_allocates(is_filled: bool) -> None:
    """The copy in takes the elements along that the scan is about to write."""
    fill = """
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi]
"""
    program = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    C = T.alloc_buffer((16,), "int32")
{fill if is_filled else ""}
    for i in range(16):
        with T.block("scan"):
            vi = T.axis.opaque(16, i)
            C[vi] = T.if_then_else(vi > 0, C[vi - 1], 0) + A[vi]
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = C[vi]
"""
    )
    for is_nested in (False, True):
        sch = Schedule(program)
        if is_nested:
            sch.loop_partition(sch.get_loops("scan")[0], [5])
        name = "scan_i1" if is_nested else "scan"
        if is_filled:
            sch.cache_inplace(name, 0, "global")
            assert_same_meaning(program, sch)
        else:
            assert_refused(sch, lambda: sch.cache_inplace(name, 0, "global"), "is known to fill")
