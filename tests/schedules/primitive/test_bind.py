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


@pytest.mark.parametrize("other", ["31 - vi", "vi + 1"])
def test_instances_that_store_twice_may_meet(other: str) -> None:
    """Each of the stores by itself reaches every element once."""
    body = f"T.reads(x[0, 0])\n                T.writes(y[vi, vj], y[{other}, vj])\n"
    body += f"                y[vi, vj] = x[0, 0]\n                y[{other}, vj] = x[0, 0]"
    text = PROGRAM.replace("(16, 8)", "(33, 8)").replace("spatial(16", "spatial(32")
    sch = Schedule(from_source(text.format(row="t", column="k", body=body)))
    thread, _ = sch.get_loops("y")
    assert_refused(sch, lambda: sch.bind(thread, "threadIdx.x"), "bind", "'t'")


def test_stores_of_one_instance_beside_each_other() -> None:
    body = "T.reads(x[0, 0])\n                T.writes(y[vi, vj], y[vi, vj + 8])\n"
    body += "                y[vi, vj] = x[0, 0]\n                y[vi, vj + 8] = x[0, 0]"
    text = PROGRAM.replace("y: T.Buffer((16, 8)", "y: T.Buffer((32, 16)").replace("spatial(16", "spatial(32")
    sch = Schedule(from_source(text.format(row="(k * 32 + t) // 8", column="(k * 32 + t) % 8", body=body)))
    sch.bind(sch.get_loops("y")[0], "threadIdx.x")
    assert 'thread="threadIdx.x"' in sch.mod.script()


def test_beside_a_loop_of_symbolic_extent_nothing_is_counted() -> None:
    text = PROGRAM.replace("x: T", "n: T.int32, x: T").replace(
        "    for t in range(32):", "    for s in range(n):\n      for t in range(16):"
    )
    sch = Schedule(from_source(text.format(row="t // 2", column="k", body=STORE)))
    _, thread, _ = sch.get_loops("y")
    assert_refused(sch, lambda: sch.bind(thread, "threadIdx.x"), "bind", "'t'")


TWICE = """
@T.prim_func
def main(x: T.Buffer((16, 8), "float32"), y: T.Buffer((16, 8), "float32"), z: T.Buffer((16,), "float32")):
    for t, k in T.grid(8, 16):
        with T.block("y"):
            vi = T.axis.spatial(16, (k * 8 + t) // 8)
            vj = T.axis.spatial(8, (k * 8 + t) % 8)
            y[vi, vj] = x[vi, vj]
        with T.block("again"):
            vi = T.axis.spatial(16, (k * 8 + t) // 8)
            vj = T.axis.spatial(8, (k * 8 + t) % 8)
            y[15 - vi, 7 - vj] = x[vi, vj]
"""
SUM = """
@T.prim_func
def main(x: T.Buffer((16, 8), "float32"), z: T.Buffer((16,), "float32")):
    for t, k in T.grid(8, 16):
        with T.block("y"):
            vi = T.axis.spatial(16, (k * 8 + t) // 8)
            vj = T.axis.reduce(8, (k * 8 + t) % 8)
            with T.init():
                z[vi] = T.float32(0)
            z[vi] = z[vi] + x[vi, vj]
"""


@pytest.mark.parametrize("text", [TWICE, SUM], ids=["two blocks", "a reduction"])
def test_instances_that_run_once_may_write_what_others_write(text: str) -> None:
    sch = Schedule(from_source(text))
    loop, _ = sch.get_loops("y")
    assert_refused(sch, lambda: sch.parallel(loop), "parallel", "'t'")
