"""Which instance of a reduction runs first, and what is refused where that is not the one that runs the init."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir.script import from_source
from schedules import Schedule, ScheduleError
from schedules.first_instance import why_not_begun_first
from schedules.tree import loops_around
from tests.schedules.checks import assert_same_meaning

DIGITS = """@T.prim_func
def main(A: T.Buffer((4, 5)), B: T.Buffer((4,))):
    T.func_attr({"tir.noalias": True})
    for f in range(16):
        with T.block("R"):
            vi = T.axis.spatial(4, f // 4)
            vk = T.axis.reduce((0, 5), f % 4 + BEGIN)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
STEPS: list[Callable[[Schedule], Any]] = [
    lambda sch: sch.decompose_reduction("R", sch.get_loops("R")[0]),
    lambda sch: sch.blockize(sch.get_loops("R")[0]),
    lambda sch: sch.cache_write("R", 0, "local"),
]


@pytest.mark.parametrize("step", STEPS)
def test_digits_of_a_reduction_that_do_not_begin_at_its_domain(step: Callable[[Schedule], Any]) -> None:
    """No instance has the reduction's least value, so that the init never runs."""
    sch = Schedule(from_source(DIGITS.replace("BEGIN", "1")), error_render_level="none")
    with pytest.raises(ScheduleError, match="init"):
        step(sch)


@pytest.mark.parametrize("step", STEPS)
def test_digits_that_begin_there(step: Callable[[Schedule], Any]) -> None:
    original = from_source(DIGITS.replace("BEGIN", "0"))
    sch = Schedule(original, error_render_level="none")
    step(sch)
    assert_same_meaning(original, sch.mod)


COUNTED = """@T.prim_func
def main(A: T.Buffer((2, 4), "int32"), B: T.Buffer((2,), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(2, COUNT):
        with T.block("R"):
            vi = T.axis.spatial(2, (i * COUNT + k) // COUNT)
            vk = T.axis.reduce(2, (i * COUNT + k) % STEPS)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
"""


@pytest.mark.parametrize(("count", "is_begun_once"), [("2", True), ("4", False)])
def test_an_init_runs_once_for_each_element(count: str, is_begun_once: bool) -> None:
    """Of four instances the third begins the sum again, which the first one has begun first."""
    block = Schedule(from_source(COUNTED.replace("COUNT", count).replace("STEPS", "2")))._block("R")
    assert (why_not_begun_first(block, loops_around(block)) is None) == is_begun_once


def test_a_block_that_never_runs_has_no_first_instance() -> None:
    """Its init runs all the same: rule ``[reduce-empty]``."""
    text = COUNTED.replace("COUNT", "2").replace("STEPS", "2")
    axis = "vk = T.axis.reduce(2, (i * 2 + k) % 2)"
    for where, begins in (("i * 2 + k < 9", True), ("i * 2 + k > 9", False)):
        block = Schedule(from_source(text.replace(axis, f"{axis}\n            T.where({where})")))._block("R")
        assert (why_not_begun_first(block, loops_around(block)) is None) == begins
