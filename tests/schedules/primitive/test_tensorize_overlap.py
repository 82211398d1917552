"""tensorize: an implementation may store before it loads, so that what it writes must lie apart from its other operands."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.tir import PrimFunc, TensorIntrin
from schedules import Schedule
from tests.schedules.checks import assert_refused, assert_same_meaning


def intrinsic(index: str) -> PrimFunc:
    return from_source(f"""
from ir.script import tir as T
@T.prim_func
def f(A: T.Buffer((4,), "int32", offset_factor=1), C: T.Buffer((4,), "int32", offset_factor=1)):
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(C[0:4])
        for i in range(4):
            with T.block("x"):
                v = T.axis.spatial(4, i)
                C[{index}] = A[{index}] + 1
""")


@pytest.fixture(autouse=True)
def backwards() -> None:
    TensorIntrin.register("test.add_backwards", intrinsic("v"), intrinsic("3 - v"), override=True)


PROGRAM = """
from ir.script import tir as T
@T.prim_func
def main(X: T.Buffer((2, 16), "int32"), Y: T.Buffer((8,), "int32")):
    for i, j in T.grid(2, 4):
        with T.block("s"):
            v = T.axis.spatial(8, i * 4 + j)
            {store}
"""


@pytest.mark.parametrize(
    "store", ["X[0, v + 1] = X[0, v] + 1", "X[0, v] = X[0, v] + 1", "X[0, v] = X[0, v + 3] + 1"]
)
@pytest.mark.parametrize("of_block", [False, True])
def test_operands_that_overlap_are_refused(store: str, of_block: bool) -> None:
    sch = Schedule(from_source(PROGRAM.format(store=store)))
    loop = sch.get_loops("s")[1]
    target = sch.blockize(loop) if of_block else loop
    assert_refused(sch, lambda: sch.tensorize(target, "test.add_backwards"), "may overlap")


@pytest.mark.parametrize(
    "store",
    ["X[0, v] = Y[v] + 1", "X[1, v] = X[0, v] + 1", "X[0, v + 4] = X[0, v] + 1", "X[0, v] = X[0, v + 8] + 1"],
)
def test_operands_that_lie_apart_in_each_iteration_are_taken(store: str) -> None:
    original = from_source(PROGRAM.format(store=store))
    sch = Schedule(original)
    sch.tensorize(sch.get_loops("s")[1], "test.add_backwards")
    assert_same_meaning(original, sch)


VIEW_INSIDE = """
from ir.script import tir as T
@T.prim_func
def main(X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32")):
    for i, j in T.grid(2, 4):
        with T.block("s"):
            v = T.axis.spatial(8, i * 4 + j)
            T.reads(X[v])
            T.writes(Y[v])
            Z = T.match_buffer(X[0:8], (8,), "int32")
            Y[v] = Z[v] + 1
"""


def test_a_view_that_only_the_replaced_body_knows_is_no_operand() -> None:
    sch = Schedule(from_source(VIEW_INSIDE))
    assert_refused(
        sch, lambda: sch.tensorize(sch.get_loops("s")[1], "test.add_backwards"), "known only inside"
    )


VIEW_OF_THE_BLOCK = """
from ir.script import tir as T
@T.prim_func
def main(X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32")):
    for i in range(2):
        with T.block("o"):
            vi = T.axis.spatial(2, i)
            T.reads(X[vi * 4 : vi * 4 + 4])
            T.writes({written}[vi * 4 : vi * 4 + 4])
            Z = T.match_buffer(X[vi * 4 : vi * 4 + 4], (4,), "int32", offset_factor=1)
            for j in range(4):
                with T.block("s"):
                    v = T.axis.spatial(4, j)
                    {written}[vi * 4 + v] = Z[v] + 1
"""


def test_a_view_of_the_block_is_an_operand() -> None:
    original = from_source(VIEW_OF_THE_BLOCK.format(written="Y"))
    sch = Schedule(original)
    sch.tensorize("o", "test.add_backwards")
    assert_same_meaning(original, sch)


def test_a_view_of_the_block_overlaps_what_it_is_a_part_of() -> None:
    sch = Schedule(from_source(VIEW_OF_THE_BLOCK.format(written="X")))
    assert_refused(sch, lambda: sch.tensorize("o", "test.add_backwards"), "may overlap")
