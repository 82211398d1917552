"""rolling_buffer: the step before made what a step finds in the window."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule

from ..checks import assert_refused, assert_same_meaning

ROWS = """@T.prim_func
def main(A: T.Buffer((10, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((10, 8), "int32")
    for i in range(8):
        for j in {columns}:
            for k in range(3):
                with T.block("B"):
                    vi = T.axis.spatial(10, i + k)
                    vj = T.axis.spatial(8, {column})
                    B[vi, vj] = A[vi, vj] * 2
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                C[vi, vj] = B[vi, {read}] + B[vi + 1, {read}] + B[vi + 2, {read}]
"""


@pytest.mark.parametrize(
    ("columns", "column", "read"),
    [("range(1)", "i", "vi"), ("range(i + 1)", "j", "vj"), ("range(7 - i, 8)", "j", "vj")],
)
def test_a_loop_that_also_moves_the_tile_elsewhere_leaves_nothing_behind(
    columns: str, column: str, read: str
) -> None:
    """The step before made a column of its own, or fewer of them: the window was read where nobody had written."""
    sch = Schedule(from_source(ROWS.format(columns=columns, column=column, read=read)))
    assert_refused(
        sch, lambda: sch.rolling_buffer("B", 0), "rolling_buffer", "no serial loop around block 'B'"
    )


def test_rows_of_the_same_columns_roll() -> None:
    program = from_source(ROWS.format(columns="range(8)", column="j", read="vj"))
    sch = Schedule(program)
    sch.rolling_buffer("B", 0)
    assert [int(extent.value) for extent in sch.get(sch.get_block("B")).writes[0].buffer.shape] == [3, 8]
    assert_same_meaning(program, sch)


TILE = """@T.prim_func
def main(A: T.Buffer((12,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((12,), "int32")
    for i in range(8):
        for k in range({first}, {first} + 3):
            for m in range(4):
                with T.block("B"):
                    v = T.axis.spatial(12, i + k - {first}{more})
                    B[v] = A[v] * 2
        for k in range(3):
            with T.block("C"):
                v, u = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = 0
                C[v] = C[v] + B[v + u]
"""


@pytest.mark.parametrize("first", [-2, -1, 0, 1])
def test_what_is_new_in_a_tile_counts_from_where_its_loop_begins(first: int) -> None:
    program = from_source(TILE.format(first=f"({first})", more=""))
    sch = Schedule(program)
    sch.rolling_buffer("B", 0)
    assert_same_meaning(program, sch)


@pytest.mark.parametrize("more", [" + m // 2", " + m % 2"])
def test_a_tile_of_two_loops_does_not_roll(more: str) -> None:
    """One of them alone does not say which elements are new."""
    sch = Schedule(from_source(TILE.format(first="0", more=more)))
    assert_refused(
        sch, lambda: sch.rolling_buffer("B", 0), "rolling_buffer", "does not run through its tile by one loop"
    )
