"""Which instances of a block run where it is moved to: those that its consumers ask for, of those that the iteration runs."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule

from ..checks import assert_refused, assert_same_meaning

MADE_IN_PARTS = """@T.prim_func
def main(A: T.Buffer((12,), "int32"), C: T.Buffer((12, 4), "int32")):
    X = T.alloc_buffer((12,), "int32")
    Y = T.alloc_buffer((12,), "int32")
    for i in range(6):
        for a in range(2):
            with T.block("X"):
                v = T.axis.spatial(12, i * 2 + a)
                X[v] = A[v] + 1
        with T.block("Y"):
            v = T.axis.spatial(6, i)
            T.reads(X[v * 2 : v * 2 + 2])
            T.writes(Y[v * 2 : v * 2 + 2])
            for b in range(2):
                Y[v * 2 + b] = X[v * 2 + b] * 2
        for k in range(2):
            for l in range(4):
                with T.block("C"):
                    vi, vl = T.axis.spatial(12, i * 2 + k), T.axis.spatial(4, l)
                    C[vi, vl] = {read}
"""


@pytest.mark.parametrize(
    "read",
    ["Y[vi] + vl", "T.if_then_else(vi > 0, Y[vi - 1], 0) + Y[vi]", "T.if_then_else(vi > 1, Y[vi - 2], 0)"],
    ids=["own", "the last one", "the one before"],
)
@pytest.mark.parametrize("depth", [1, 2])
def test_no_instance_runs_before_what_it_reads_is_made(read: str, depth: int) -> None:
    """One element is covered by two tiles where it is not known to begin one: the second read what the next iteration makes."""
    func = from_source(MADE_IN_PARTS.format(read=read))
    sch = Schedule(func)
    sch.compute_at("Y", sch.get_loops("C")[depth])
    assert_same_meaning(func, sch)


def test_what_the_last_iteration_made_is_not_made_again() -> None:
    """Where the block has not run in this iteration for what its consumer reads, its inputs may be gone, or not be there yet."""
    sch = Schedule(from_source(MADE_IN_PARTS.format(read="T.if_then_else(vi > 3, Y[vi - 4], 0)")))
    assert_refused(
        sch, lambda: sch.compute_at("Y", sch.get_loops("C")[1]), "compute_at", "where what it reads is made"
    )
