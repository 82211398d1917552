"""reindex: of several values that a block stores to one element, the last one stays."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule

from ..checks import assert_refused, assert_same_meaning

OVERLAPPING = """@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((8,), "int32")):
    for {loops} in T.grid(4, 4):
        with T.block("x"):
            v = T.axis.spatial(4, {first})
            w = T.axis.spatial(4, j)
            C[{place}] = A[v, w]
"""


@pytest.mark.parametrize(("loops", "first"), [("j, i", "i"), ("i, j", "3 - i")])
def test_a_copy_in_another_order_would_leave_another_value(loops: str, first: str) -> None:
    sch = Schedule(from_source(OVERLAPPING.format(loops=loops, first=first, place="v + w")))
    assert_refused(sch, lambda: sch.reindex("x", ("write", 0)), "reindex", "what block 'x' writes in another")


@pytest.mark.parametrize(
    ("loops", "first", "place"),
    [("i, j", "i", "v + w"), ("j, i", "3 - i", "v"), ("i, j", "3 - i", "v"), ("j, i", "i", "w")],
)
def test_a_copy_leaves_the_value_that_was_stored_last(loops: str, first: str, place: str) -> None:
    original = from_source(OVERLAPPING.format(loops=loops, first=first, place=place))
    sch = Schedule(original)
    sch.reindex("x", ("write", 0))
    assert_same_meaning(original, sch)
