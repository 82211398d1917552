"""replicate: results that are stored several times; what it makes, that it means the same, what it refuses."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule, ScheduleError

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning
from .test_add_into import without_regions


@T.prim_func
def rows(A: T.Buffer((4, 6), "float32"), D: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((4,))
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] * T.float32(2)
    for i, j in T.grid(4, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] - C[vi]


@T.prim_func
def copies(A: T.Buffer((4, 6), "float32"), D: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((4, 4))
    C = T.alloc_buffer((4, 4))
    for i, k, c in T.grid(4, 6, 4):
        with T.block("B"):
            vi, vk, vc = T.axis.remap("SRS", [i, k, c])
            with T.init():
                B[vi, vc] = T.float32(0)
            B[vi, vc] = B[vi, vc] + A[vi, vk]
    for i, c in T.grid(4, 4):
        with T.block("C"):
            vi, vc = T.axis.remap("SS", [i, c])
            C[vi, vc] = B[vi, vc] * T.float32(2)
    for i, j in T.grid(4, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] - C[vi, vj % 8 // 2]


def test_each_copy_is_computed_by_itself_and_readers_take_turns() -> None:
    sch = Schedule(rows, debug_mask="all")
    sch.replicate(["B", "C"], 4, 2)
    assert_program(sch, copies)
    assert_replays(sch, rows)
    assert_same_meaning(rows, sch)


@pytest.mark.parametrize(("extent", "group"), [(1, 1), (3, 1), (8, 4)])
def test_copies_mean_the_same(extent: int, group: int) -> None:
    sch = Schedule(rows, debug_mask="all")
    sch.replicate(["C"], extent, group)
    assert_same_meaning(rows, sch)


def test_refusals() -> None:
    sch = Schedule(rows)
    assert_refused(sch, lambda: sch.replicate(["B"], 0), "extent must be a positive integer")
    assert_refused(sch, lambda: sch.replicate(["B"], 2, -1), "group must be a positive integer")
    assert_refused(sch, lambda: sch.replicate(["B"], 2.5), "extent must be a positive integer", "2.5")  # type: ignore[arg-type]
    assert_refused(sch, lambda: sch.replicate(["B"], 1 << 31), "of 31 bits, got 2147483648")
    assert_refused(sch, lambda: sch.replicate(["B", "C", "B"], 2), "block 'B' is given twice")
    assert_refused(sch, lambda: sch.replicate([], 4), "at least one block")
    assert_refused(sch, lambda: sch.replicate(["D"], 4), "D is not allocated")


def test_refuses_what_others_write_too() -> None:
    sch = Schedule(rows)
    sch.decompose_reduction("B", sch.get_loops("B")[1])
    assert_refused(sch, lambda: sch.replicate(["B_update"], 4), "block 'B_init'", "writes B, too")
    sch.replicate(["B_init", "B_update"], 4)
    assert_same_meaning(rows, sch)


AROUND = """@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), D: T.Buffer((4, 6), "float32")):
    C = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi, 0]
    for i in range(4):
        {around}
            for j in range(6):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize("around", ["if C[i] > T.float32(0):", 'for k in range(T.Cast("int32", C[i])):'])
def test_refuses_what_runs_by_what_was_computed(around: str) -> None:
    sch = Schedule(from_source(AROUND.format(around=around)))
    assert_refused(sch, lambda: sch.replicate(["C"], 4), "the bindings or the predicate of block 'D' read C")


def test_refuses_readers_that_are_more_than_a_store() -> None:
    text = without_regions(rows.script())
    sch = Schedule(
        from_source(
            text.replace(
                "D[vi, vj] = A[vi, vj] - C[vi]",
                "if C[vi] > T.float32(0):\n                    D[vi, vj] = A[vi, vj]",
            )
        )
    )
    assert_refused(sch, lambda: sch.replicate(["C"], 4), "block 'D' is more than one store")


READERS = (
    "A[vi, vj] - C[vi]",
    "C[3 - vi] * B[vi]",
    "T.if_then_else(vj < 2, C[vi], B[vj % 4])",
    "A[vi, vj] + C[vj // 2]",
)
PLACES = ("vi, vj", "vi, 5 - vj", "3 - vi, vj", "vi, (vj + 4) % 6")


@settings(max_examples=40)
@given(st.data())
def test_random_copies_mean_the_same(data: st.DataObject) -> None:
    """Whatever is read in whatever order, behind other primitives and before them."""
    body = f"D[{data.draw(st.sampled_from(PLACES))}] = {data.draw(st.sampled_from(READERS))}"
    func = from_source(without_regions(rows.script()).replace("D[vi, vj] = A[vi, vj] - C[vi]", body))
    sch = Schedule(func, debug_mask="all")
    generator = random.Random(data.draw(st.integers(0, 10**6)))
    if generator.random() < 0.3:
        sch.decompose_reduction("B", sch.get_loops("B")[1])
    for _ in range(2):
        names = generator.sample(["B", "C", "D", "B_init", "B_update"], generator.randint(1, 3))
        before = sch.mod.script()
        try:
            sch.replicate(names, generator.randint(1, 5), generator.randint(1, 3))
        except ScheduleError:
            assert sch.mod.script() == before
    if generator.random() < 0.5:
        sch.reorder(*sch.get_loops("C")[::-1])
    assert_same_meaning(func, sch)
    assert_replays(sch, func)
