"""What copies and blocks take of a buffer: no less than what is touched, no more than what is written and stated."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule
from tests.schedules.checks import assert_refused, assert_same_meaning

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
def main(A: T.Buffer((5,), "float32"), D: T.Buffer((5, 5), "float32")):
    for i in range(T.{dtype}(5)):
        for j in range({start}i + T.{dtype}(1)):
            with T.block("E"):
                vi = T.axis.spatial(5, T.Cast("int32", i))
                vj = T.axis.spatial(5, T.Cast("int32", j))
                D[vi, vj] = A[vj]
"""


@pytest.mark.parametrize("primitive", ["write_at", "read_at"])
@pytest.mark.parametrize("dtype", ["int16", "uint8"])
def test_a_triangle_of_narrow_loops_is_no_square(dtype: str, primitive: str) -> None:
    sch = Schedule(from_source(TRIANGLE.format(dtype=dtype, start="")))
    loop = sch.get_loops("E")[0]
    assert_refused(
        sch, lambda: getattr(sch, primitive)(loop, "E", 0, "global"), "changes from one to the next"
    )


@pytest.mark.parametrize("dtype", ["int16", "uint8"])
def test_a_triangle_of_narrow_loops_that_start_elsewhere_fills_no_square(dtype: str) -> None:
    sch = Schedule(from_source(TRIANGLE.format(dtype=dtype, start=f"T.{dtype}(1), ")))
    loop = sch.get_loops("E")[0]
    assert_refused(sch, lambda: sch.write_at(loop, "E", 0, "global"), "do not bound")
