"""reindex: of several values that a block stores to one element, the last one stays; copies know the block's variables only."""

from __future__ import annotations

from collections.abc import Callable

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


INSIDE = """@T.prim_func
def main(A: T.Buffer((8, 3), "int32"), C: T.Buffer((8, 3), "int32")):
    for i in range(8):
        with T.block("x"):
            v = T.axis.spatial(8, i)
            T.reads(A[v, 0:3])
            T.writes(C[v, 0:3])
            y = v % 3
            {stores}
"""


@pytest.mark.parametrize(
    "stores", ["C[v, y] = A[v, y] + 1", "for k in range(y):\n                C[v, k] = A[v, k]"]
)
@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.reindex("x", ("read", 0)),
        lambda sch: sch.reindex("x", ("write", 0)),
        lambda sch: sch.reindex_cache_read("x", 0, "global", lambda i: [i]),
        lambda sch: sch.reindex_cache_write("x", 0, "global", lambda i: [i]),
    ],
    ids=["read", "write", "cache_read", "cache_write"],
)
def test_a_copy_does_not_know_what_loops_and_lets_in_the_block_name(
    step: Callable[[Schedule], object], stores: str
) -> None:
    """It named them, or held one element for all of them."""
    sch = Schedule(from_source(INSIDE.format(stores=stores)))
    assert_refused(sch, lambda: step(sch), "reindex", "by loops or lets in it and not by its variables")
