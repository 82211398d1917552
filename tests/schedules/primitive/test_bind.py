"""bind: loops whose iterations write elements of their own, told from those that only look like it."""

from __future__ import annotations

import pytest

from ir import te
from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule

from ..checks import assert_refused


def copy(rows: int, columns: int) -> PrimFunc:
    x = te.placeholder((rows, columns), name="x")
    return te.create_prim_func([x, te.compute((rows, columns), lambda i, j: x[i, j], name="y")])


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(16, 8), (16, 12), (16, 7), (2048, 2049)],
    ids=["power of two", "divides", "cut off", "many"],
)
def test_threads_between_the_digits_of_one_number(rows: int, columns: int) -> None:
    """The outermost loop of an index may run inside of the others: each element has one thread all the same."""
    sch = Schedule(copy(rows, columns), debug_mask="all")
    fused = sch.fuse(*sch.get_loops("y"))
    outer, blocks, threads = sch.split(fused, [None, 4, 8])
    sch.reorder(blocks, threads, outer)
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    assert 'thread="threadIdx.x"' in sch.mod.script()


PROGRAM = """
@T.prim_func
def main(x: T.Buffer((16, 8), "float32"), y: T.Buffer((16, 8), "float32")):
    for t in range(32):
        for k in range(8):
            with T.block("y"):
                vi = T.axis.spatial(16, {row})
                vj = T.axis.spatial(8, {column})
                {body}
"""
STORE = "y[vi, vj] = x[vi, vj]"


@pytest.mark.parametrize(
    ("row", "column", "body"),
    [
        ("t % 16", "k", STORE),  # every element twice, by two threads
        ("(t * 8 + k) // 16", "(t * 8 + k) % 8", STORE),  # the half of them twice
        ("(t * 8 + k) // 8 % 16", "(t * 8 + k) % 8", STORE),
        ("t // 2", "k", STORE),
        ("(t * 8 + k) // 8 % 16", "k", f"T.where(t * 8 + k < 200)\n                {STORE}"),
        (
            "(t * 4 + k // 2) // 8",
            "(t * 4 + k // 2) % 8",
            "y[vi // 2, vj] = x[vi, vj]",
        ),  # rows share elements
    ],
)
def test_threads_that_meet_are_refused(row: str, column: str, body: str) -> None:
    sch = Schedule(from_source(PROGRAM.format(row=row, column=column, body=body)))
    thread, _ = sch.get_loops("y")
    assert_refused(sch, lambda: sch.bind(thread, "threadIdx.x"), "bind", "'t'")
