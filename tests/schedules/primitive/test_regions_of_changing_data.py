"""Regions at indices that a block loads from what it writes itself: they are evaluated where the block begins, so that all is stated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ir.script import from_source
from schedules import Schedule
from tests.schedules.checks import assert_same_meaning

HEAD = """
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "int32"), K: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    t = T.alloc_buffer((8,), "int32")
"""
GATHER = (
    HEAD
    + """
    for i in range(8):
        with T.block("a"):
            v = T.axis.spatial(8, i)
            t[v] = T.min(T.max(K[v], 0), 7)
        with T.block("b"):
            v = T.axis.spatial(8, i)
            C[v] = A[t[v]]
"""
)
SCATTER = GATHER.replace("C[v] = A[t[v]]", "C[t[v]] = A[v]")
INNER_LOOPS = (
    HEAD
    + """
    for i in range(8):
        for j in range(4):
            with T.block("a"):
                v, w = T.axis.remap("SS", [i, j])
                t[v] = T.max(w - K[v] % 2, 0)
        for j in range(4):
            with T.block("b"):
                v, w = T.axis.remap("SS", [i, j])
                C[v] = A[t[v] + w]
"""
)
OWN = (
    HEAD
    + """
    for i in range(8):
        with T.block("a"):
            v = T.axis.spatial(8, i)
            t[v] = T.min(T.max(K[v], 0), 7)
    for i in range(8):
        for j in range(4):
            with T.block("b"):
                v = T.axis.spatial(8, i)
                w = T.axis.opaque(4, j)
                C[t[v]] = A[w]
                t[v] = w
"""
)
AROUND = (
    HEAD
    + """
    for i in range(8):
        with T.block("o"):
            vo = T.axis.spatial(8, i)
            for j in range(4):
                with T.block("a"):
                    t[vo] = T.min(T.max(K[vo], 0), 7)
                with T.block("b"):
                    C[vo] = A[t[vo]]
"""
)


def join(sch: Schedule) -> None:
    sch.blockize(["a", "b"])


def join_twice(sch: Schedule) -> None:
    join(sch)
    sch.blockize(sch.get_loops("outer_a_b_")[0])


@pytest.mark.parametrize("program", [GATHER, SCATTER, INNER_LOOPS, AROUND])
@pytest.mark.parametrize("step", [join, join_twice])
def test_joined_blocks_state_all_that_data_of_the_first_may_point_to(
    program: str, step: Callable[[Schedule], None]
) -> None:
    original = from_source(program)
    sch = Schedule(original)
    step(sch)
    assert_same_meaning(original, sch)


def test_joined_blocks_state_the_element_that_data_from_outside_points_to() -> None:
    sch = Schedule(from_source(GATHER.replace("A[t[v]]", "A[K[v]]")))
    join(sch)
    (region,) = [item for item in sch.get(sch.get_block("outer_a_b_")).reads if item.buffer.name == "A"]
    assert str(region).startswith("A[K[")


@pytest.mark.parametrize("at", [0, 1])
def test_a_block_of_iterations_states_all_that_their_own_data_may_point_to(at: int) -> None:
    original = from_source(OWN)
    sch = Schedule(original)
    sch.blockize(sch.get_loops("b")[at])
    assert_same_meaning(original, sch)


def test_a_copy_inside_of_joined_blocks_is_stated_around_them() -> None:
    original = from_source(GATHER)
    sch = Schedule(original)
    join(sch)
    sch.cache_read("b", 0, "global")
    assert_same_meaning(original, sch)


def test_parts_of_a_loop_state_all_that_the_data_of_others_may_point_to() -> None:
    original = from_source(AROUND)
    sch = Schedule(original)
    sch.loop_partition(sch.get_loops("o")[0], [3, None])
    assert_same_meaning(original, sch)
