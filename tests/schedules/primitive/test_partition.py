"""merge: one loop takes the place of several, with all the loops around them."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule

from ..checks import assert_refused, assert_same_meaning


def nests(first: str, second: str) -> PrimFunc:
    """Two nests, of whose outer loops the headers are given."""
    return from_source(f"""@T.prim_func
def main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i in {first}:
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
    for i in {second}:
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]
""")


_BOUND = 'T.thread_binding(4, thread="threadIdx.x")'


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("range(2, 6)", "range(2, 6)", "loop 'i' starts at 2"),
        ("range(4)", "range(2, 6)", "loop 'i' starts at 2"),
        (_BOUND, _BOUND, "loop 'i' has annotations or a thread binding"),
        ('T.serial(4, annotations={"unroll": 1})', "range(4)", "loop 'i' has annotations"),
    ],
)
def test_merged_loops_stand_for_those_around_them(first: str, second: str, reason: str) -> None:
    """The new loops ran from 0, with no thread, whatever the loops around the given ones did."""
    sch = Schedule(nests(first, second))
    inner = [sch.get_loops(name)[1] for name in "BC"]
    assert_refused(sch, lambda: sch.merge(*inner), "merge", reason)


def test_plain_nests_are_merged_at_their_inner_loops() -> None:
    func = nests("range(4)", "range(4)")
    sch = Schedule(func)
    sch.merge(*[sch.get_loops(name)[1] for name in "BC"])
    assert_same_meaning(func, sch)
