"""What copies and blocks take of a buffer: no less than what is touched, no more than what is written and stated."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule
from tests.schedules.checks import assert_refused, assert_replays, assert_same_meaning

LOOPS_THAT_BOUND_EACH_OTHER = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), D: T.Buffer((2, 64, 64), "float32")):
    B = T.alloc_buffer((64,), "float32")
    for i in range(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(2)
    for t in range(2):
        for j in range(1, 4):
            for k in range({bounds}):
                with T.block("D"):
                    vt, vj, vk = T.axis.spatial(2, t), T.axis.spatial(64, j), T.axis.spatial(64, k)
                    D[vt, vj, vk] = B[{index}]
"""


@pytest.mark.parametrize(
    ("bounds", "index"),
    [
        ("j, j + 2", "vk"),
        ("j, j + 2", "vk + vj"),
        ("j + 1", "vk * vk % 16"),
        ("j + 1", "T.min(vk, 15)"),
        ("j + 1", 'T.Cast("int32", T.Cast("uint8", vk))'),
        ("j, j * 2 + 1", "vk * 3"),
    ],
)
@pytest.mark.parametrize("primitive", ["compute_at", "read_at", "cache_read"])
def test_loops_that_start_elsewhere_and_bound_each_other_need_all_of_their_box(
    bounds: str, index: str, primitive: str
) -> None:
    original = from_source(LOOPS_THAT_BOUND_EACH_OTHER.format(bounds=bounds, index=index))
    sch = Schedule(original)
    if primitive == "read_at":
        sch.read_at(sch.get_loops("D")[0], "D", 0, "global")
    else:
        block = "B" if primitive == "compute_at" else sch.cache_read("D", 0, "global")
        sch.compute_at(block, sch.get_loops("D")[0])
    assert_same_meaning(original, sch)


SQUARES = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "float32"), D: T.Buffer((16,), "float32")):
    for t in range(2):
        with T.block("P"):
            vt = T.axis.opaque(2, t)
            for j in range(1, 4):
                for k in range(j + 1):
                    with T.block("Q"):
                        D[k * k] = D[k * k] + A[k]
"""


def test_blockize_states_all_that_loops_starting_elsewhere_touch() -> None:
    original = from_source(SQUARES)
    sch = Schedule(original)
    sch.blockize(sch.get_loops("Q")[0])
    assert_same_meaning(original, sch)


TRIANGLE = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((6,), "float32"), D: T.Buffer((5, 6), "float32")):
    for i in range(T.{dtype}(5)):
        for j in range({start}i + T.{dtype}({beyond})):
            with T.block("E"):
                vi = T.axis.spatial(5, T.Cast("int32", i))
                vj = T.axis.spatial(6, T.Cast("int32", j))
                D[vi, vj] = A[vj]
"""


@pytest.mark.parametrize("primitive", ["write_at", "read_at"])
@pytest.mark.parametrize("dtype", ["int16", "uint8"])
def test_a_triangle_of_narrow_loops_is_no_square(dtype: str, primitive: str) -> None:
    sch = Schedule(from_source(TRIANGLE.format(dtype=dtype, start="", beyond=1)))
    loop = sch.get_loops("E")[0]
    assert_refused(
        sch, lambda: getattr(sch, primitive)(loop, "E", 0, "global"), "changes from one to the next"
    )


@pytest.mark.parametrize(("beyond", "reason"), [(1, "may have no iterations"), (2, "do not bound")])
@pytest.mark.parametrize("dtype", ["int16", "uint8"])
def test_a_triangle_of_narrow_loops_that_start_elsewhere_fills_no_square(
    dtype: str, beyond: int, reason: str
) -> None:
    sch = Schedule(from_source(TRIANGLE.format(dtype=dtype, start=f"T.{dtype}(1), ", beyond=beyond)))
    loop = sch.get_loops("E")[0]
    assert_refused(sch, lambda: sch.write_at(loop, "E", 0, "global"), reason)


NESTED_READER = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4, 4), "float32")
    for i in range(4):
        for j in range({written}):
            with T.block("P"):
                vi, vj = T.axis.spatial(4, i), T.axis.spatial(4, j)
                B[vi, vj] = A[vi] + A[vj]
    for i in range(4):
        for j in range({read}):
            with T.block("S"):
                vi, vj = T.axis.spatial(4, i), T.axis.reduce(4, j)
                with T.init():
                    D[vi] = T.float32(0)
                D[vi] = D[vi] + B[vi, vj]
"""


def test_cache_read_inside_of_a_block_copies_nothing_that_nobody_wrote_outside() -> None:
    sch = Schedule(from_source(NESTED_READER.format(written="i + 1", read="i + 1")))
    sch.loop_partition(sch.get_loops("S")[0], [2, None])
    assert_refused(sch, lambda: sch.cache_read("S_i0", 0, "global"), "is known to fill")


@pytest.mark.parametrize(("partitions", "read"), [("S", "4"), ("S", "i + 1"), ("PS", "4")])
def test_cache_read_inside_of_a_block_copies_what_was_written_outside(partitions: str, read: str) -> None:
    original = from_source(NESTED_READER.format(written="4", read=read))
    sch = Schedule(original)
    for block in partitions:
        sch.loop_partition(sch.get_loops(block)[0], [2, None])
    sch.cache_read("S_i0", 0, "global")
    assert_same_meaning(original, sch)


@pytest.mark.parametrize("written", ["4", "i + 1"])
def test_reindex_inside_of_a_block_copies_nothing_that_nobody_wrote_outside(written: str) -> None:
    text = NESTED_READER.format(written=written, read="4")
    guarded = "T.if_then_else(vj <= vi, B[vi, vj], T.float32(0))"
    original = from_source(text.replace("D[vi] + B[vi, vj]", f"D[vi] + {guarded}"))
    sch = Schedule(original)
    sch.loop_partition(sch.get_loops("S")[0], [2, None])
    if written == "4":
        sch.reindex("S_i0", ("read", 0))
        assert_same_meaning(original, sch)
    else:
        assert_refused(sch, lambda: sch.reindex("S_i0", ("read", 0)), "is known to fill")


DATA_INDEX = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((64,), "{dtype}"), I: T.Buffer((8,), "int32"), D: T.Buffer((8,), "{dtype}")):
    for i in range(8):
        with T.block("P"):
            vi = T.axis.opaque(8, i)
            for j in range(3):
                with T.block("Q"):
                    D[vi] = D[vi] + A[{index} % 64]
"""


@pytest.mark.parametrize(("dtype", "index"), [("float32", "I[7]"), ("int32", "A[7]")])
def test_a_copy_states_the_loads_in_its_own_indices(dtype: str, index: str) -> None:
    original = from_source(DATA_INDEX.format(dtype=dtype, index=index))
    sch = Schedule(original)
    sch.cache_read("Q", "A", "global")
    assert_same_meaning(original, sch)


NARROWLY_STATED = """
from ir.script import tir as T
@T.prim_func
def main(B: T.Buffer((4,), "float32"), D: T.Buffer((1,), "float32")):
    for i in range(1):
        with T.block("N"):
            vn = T.axis.spatial(1, i)
            T.reads(B[0:2])
            T.writes(D[vn])
            for k in range(1):
                with T.block("O"):
                    vo = T.axis.spatial(1, k + vn)
                    T.reads(B[0:2])
                    T.writes(D[vo])
                    for j in range(4):
                        with T.block("S"):
                            vj = T.axis.reduce(4, j)
                            T.where(j < 2)
                            with T.init():
                                D[vo] = T.float32(0)
                            D[vo] = D[vo] + B[vj]
"""


@pytest.mark.parametrize("primitive", ["read_at", "reindex", "cache_read"])
def test_blocks_around_a_copy_state_what_it_reads_beyond_its_users(primitive: str) -> None:
    original = from_source(NARROWLY_STATED)
    sch = Schedule(original)
    if primitive == "read_at":
        sch.read_at(sch.get_loops("S")[0], "S", 0, "global")
    elif primitive == "reindex":
        sch.reindex("S", ("read", 0))
    else:
        sch.cache_read("S", 0, "global")
    assert_same_meaning(original, sch)
    assert_replays(sch, original)
