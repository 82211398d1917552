"""Copies of what a block stores to by the digits of one variable: a domain that ends in the middle of a row leaves the rest of it alone."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule, ScheduleError
from tests.schedules.checks import assert_refused, assert_same_meaning

DIGITS = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer(({count},), "int32"), C: T.Buffer({shape}, "int32"), D: T.Buffer(({count},), "int32")):
    for i in range({count}):
        with T.block("a"):
            v = T.axis.{kind}({count}, i)
            C[{index}] = A[v] + 1
    for i in range({count}):
        with T.block("d"):
            v = T.axis.spatial({count}, i)
            D[v] = C[{index}] * 2
"""

PARTS = [
    (15, (8, 2), "v // 2, v % 2"),
    (15, (2, 8), "v % 2, v // 2"),
    (14, (4, 4), "v // 4, v % 4"),
    (23, (6, 4), "v // 4, v % 4"),
    (22, (2, 2, 6), "v // 12, v % 12 // 6, v % 6"),
    (15, (16,), "v"),
]
WHOLE = [(16, (8, 2), "v // 2, v % 2"), (15, (8,), "v // 2"), (15, (4,), "v % 4"), (15, (15,), "v")]


def split(
    count: int, shape: tuple[int, ...], index: str, kind: str, factor: int
) -> tuple[PrimFunc, Schedule]:
    original = from_source(DIGITS.format(count=count, shape=shape, index=index, kind=kind))
    sch = Schedule(original)
    sch.split(sch.get_loops("a")[0], [None, factor])
    return original, sch


@pytest.mark.parametrize("kind", ["spatial", "reduce"])
@pytest.mark.parametrize("factor", [4, 6])
@pytest.mark.parametrize(("count", "shape", "index"), PARTS)
def test_what_ends_in_the_middle_of_a_row_is_not_copied_back(
    count: int, shape: tuple[int, ...], index: str, factor: int, kind: str
) -> None:
    _, sch = split(count, shape, index, kind, factor)
    assert_refused(sch, lambda: sch.cache_write("a", 0, "global"), "nobody wrote")
    assert_refused(sch, lambda: sch.cache_write("a", 0, "global", ["d"]), "nobody wrote")
    with pytest.raises(ScheduleError):
        sch.write_at(sch.get_loops("a")[0], "a", 0, "global")


@pytest.mark.parametrize("kind", ["spatial", "reduce"])
@pytest.mark.parametrize("factor", [4, 6])
@pytest.mark.parametrize(("count", "shape", "index"), WHOLE)
def test_whole_rows_are_copied_back_after_an_uneven_split(
    count: int, shape: tuple[int, ...], index: str, factor: int, kind: str
) -> None:
    original, sch = split(count, shape, index, kind, factor)
    sch.cache_write("a", 0, "global")
    assert_same_meaning(original, sch)


@pytest.mark.parametrize("factor", [4, 6])
@pytest.mark.parametrize(("count", "shape", "index"), [*PARTS, *WHOLE])
def test_a_copy_by_the_variables_takes_what_is_written(
    count: int, shape: tuple[int, ...], index: str, factor: int
) -> None:
    original, sch = split(count, shape, index, "spatial", factor)
    sch.reindex_cache_write("a", 0, "global", lambda v: (v,))
    assert_same_meaning(original, sch)


GAPS = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((15,), "int32"), C: T.Buffer((15,), "int32")):
    for i, j_0, j_1 in T.grid(4, 2, 2):
        with T.block("a"):
            T.where(j_0 * 2 + j_1 < 3)
            v, u = T.axis.spatial(4, i), T.axis.spatial(3, j_0 * 2 + j_1)
            C[v * 4 + u] = A[v * 4 + u] + 1
"""


def test_gaps_between_rows_are_not_copied_back() -> None:
    sch = Schedule(from_source(GAPS))
    assert_refused(sch, lambda: sch.cache_write("a", 0, "global"), "nobody wrote")
