"""decompose_padding: structure, loops that say more than a variable, where constants may be stored ahead."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

rowsum = kernels.row_sum(6, 10)


@T.prim_func
def padded(X: T.Buffer((8,), "int32"), Y: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("block"):
            vi = T.axis.spatial(14, i)
            Y[vi] = T.if_then_else(vi >= 2 and vi < 10, X[vi - 2], 0)


def test_decompose_padding() -> None:
    @T.prim_func
    def expected(X: T.Buffer((8,), "int32"), Y: T.Buffer((14,), "int32")):
        for i in range(14):
            with T.block("block_pad_const"):
                vi = T.axis.spatial(14, i)
                Y[vi] = 0
        for i in range(8):
            with T.block("block"):
                vi = T.axis.spatial(8, i)
                Y[vi + 2] = X[vi]

    sch = Schedule(padded)
    fill = sch.decompose_padding("block", sch.get_loops("block")[0])
    assert sch.get(fill).name_hint == "block_pad_const"
    assert_program(sch, expected)
    assert_same_meaning(padded, sch)
    assert_replays(sch, padded)
    other = Schedule(rowsum)
    assert_refused(
        other, lambda: other.decompose_padding("B", other.get_loops("B")[0]), "'B'", "not complete"
    )


def test_decompose_padding_inside_of_a_padded_loop_keeps_the_outer_variable_inside_by_a_predicate() -> None:
    @T.prim_func
    def before(X: T.Buffer((4, 6), "int32"), Y: T.Buffer((6, 8), "int32")):
        for i, j in T.grid(6, 8):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.if_then_else(1 <= vi and vi < 5 and 1 <= vj and vj < 7, X[vi - 1, vj - 1], 0)

    @T.prim_func
    def expected(X: T.Buffer((4, 6), "int32"), Y: T.Buffer((6, 8), "int32")):
        for i in range(6):
            for j in range(8):
                with T.block("Y_pad_const"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = 0
            for j in range(6):
                with T.block("Y"):
                    vi = T.axis.spatial(4, i - 1)
                    vj = T.axis.spatial(6, j)
                    T.where(1 <= i and i < 5)
                    Y[vi + 1, vj + 1] = X[vi, vj]

    sch = Schedule(before)
    sch.decompose_padding("Y", sch.get_loops("Y")[1])
    assert_program(sch, expected)
    assert_same_meaning(before, sch)
    assert_replays(sch, before)


PADDED = """@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32")):
    for i, j in T.grid(8, 4):
        AROUND
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(WHERE)
                STORE
"""
INSIDE = "T.if_then_else(vj < 2, A[vi, vj], 0)"


@pytest.mark.parametrize(
    ("around", "where", "store", "reason"),
    [
        ("if A[i, j] > 0:", "True", f"B[vi, vj] = {INSIDE}", "a condition or another statement lies between"),
        ("for u in range(1):", "B[i, j] > 0", f"B[vi, vj] = {INSIDE}", "where block 'B' runs depends on B"),
        ("for u in range(1):", "True", f"B[vi, 0] = {INSIDE}", "may write to B"),
        (
            "for u in range(1):",
            "True",
            f"B.vstore([vi, vj], {INSIDE}, predicate=vi > 2)",
            "under a predicate",
        ),
    ],
)
def test_padding_is_filled_where_the_block_stores(around: str, where: str, store: str, reason: str) -> None:
    """The constants are stored ahead of all that is inside, by loops without the conditions around the block."""
    text = PADDED.replace("AROUND", around).replace("WHERE", where).replace("STORE", store)
    sch = Schedule(from_source(text), error_render_level="none")
    assert_refused(sch, lambda: sch.decompose_padding("B", sch.get_loops("B")[0]), reason)


FRAME = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 20), "int32"), C: T.Buffer((10, 20), "int32")):
    for i in range(10):
        for j in {inner}:
            with T.block("x"):
                v = T.axis.spatial(10, i)
                w = T.axis.spatial(20, {bound})
                C[v, w] = T.if_then_else(1 <= v and v < 9, A[v - 1, w], 0)
"""


@pytest.mark.parametrize(
    ("inner", "bound"),
    [
        ("range(1)", "i"),
        ("range(10)", "i + j"),
        ("range(i + 1)", "j"),
        ("range(i, 10)", "j"),
        ("range(20)", "j"),
    ],
)
def test_a_loop_that_says_more_than_one_variable_is_not_cut(inner: str, bound: str) -> None:
    """It ran from 0 for what its variable has at 1, and the other variables, or loops, with it."""
    original = from_source(FRAME.format(inner=inner, bound=bound))
    sch = Schedule(original)
    sch.decompose_padding("x", sch.get_loops("x")[0])
    assert_same_meaning(original, sch)
