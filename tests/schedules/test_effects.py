"""Blocks that call functions with effects keep their order, and how often they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ir
from ir.script import from_source
from ir.tir.interpreter import run
from schedules import Schedule, ScheduleError
from schedules.rule import AutoInline

pytestmark = pytest.mark.meaning("effects")

LOG: list[int] = []
ir.register_func("tests.effects.log", lambda number: LOG.append(int(number)), override=True)

LOGGED = """@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), O: T.Buffer((4, 4), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            CALL
            O[vi, vj] = A[vi, vj]
"""
PACKED = 'T.evaluate(T.call_packed("tests.effects.log", vi * 4 + vj))'
EXTERN = 'T.evaluate(T.call_extern("int32", "abs", vi))'
DRAWN = """@T.prim_func
def main(A: T.Buffer((4,), "int32"), O: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": True})
    C = T.alloc_buffer((4,), "int32")
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] + T.call_extern("int32", "rand")
    for i in range(4):
        with T.block("O"):
            vi = T.axis.spatial(4, i)
            O[vi] = C[vi] - C[vi]
"""
SUMMED = """@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), O: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, k in T.grid(4, 4):
        with T.block("O"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                O[vi] = 0
            O[vi] = O[vi] + A[vi, vk] + T.call_extern("int32", "rand")
"""


def schedule(text: str) -> Schedule:
    return Schedule(from_source(text), error_render_level="none")


@pytest.mark.parametrize("call", [PACKED, EXTERN])
@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.reorder(*reversed(sch.get_loops("B"))),
        lambda sch: sch.parallel(sch.get_loops("B")[0]),
        lambda sch: sch.vectorize(sch.get_loops("B")[1]),
        lambda sch: sch.bind(sch.get_loops("B")[0], "threadIdx.x"),
    ],
)
def test_iterations_keep_their_order(call: str, step: Callable[[Schedule], Any]) -> None:
    with pytest.raises(ScheduleError, match=r"block 'B' calls T.*call.*effects"):
        step(schedule(LOGGED.replace("CALL", call)))


def test_what_keeps_the_order_is_allowed() -> None:
    sch = schedule(LOGGED.replace("CALL", PACKED))
    outer, inner = sch.get_loops("B")
    sch.split(sch.fuse(outer, inner), [8, 2])
    sch.unroll(sch.get_loops("B")[1])
    LOG.clear()
    run(sch.mod["main"], np.zeros((4, 4), "int32"), np.zeros((4, 4), "int32"))
    assert LOG == list(range(16))


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (DRAWN, lambda sch: sch.compute_inline("C")),
        (DRAWN, lambda sch: sch.compute_at("C", sch.get_loops("O")[0])),
        (
            DRAWN.replace('T.call_extern("int32", "rand")', "1").replace(
                "- C[vi]", '- T.call_extern("int32", "rand")'
            ),
            lambda sch: sch.reverse_compute_inline("O"),
        ),
        (SUMMED, lambda sch: sch.rfactor(sch.get_loops("O")[1], 0)),
        (SUMMED, lambda sch: sch.decompose_reduction("O", sch.get_loops("O")[1])),
    ],
)
def test_blocks_with_effects_stay_where_they_are(text: str, step: Callable[[Schedule], Any]) -> None:
    with pytest.raises(ScheduleError, match="may have effects"):
        step(schedule(text))


def test_a_rule_leaves_them_alone() -> None:
    for text, is_inlined in ((DRAWN, False), (DRAWN.replace("call_extern", "call_pure_extern"), True)):
        (found,) = AutoInline().apply(sch := schedule(text), sch.get_block("C"))
        assert ("C = T.alloc_buffer" not in found.mod.script()) == is_inlined


def test_functions_without_effects_move() -> None:
    sch = schedule(LOGGED.replace("CALL", EXTERN.replace("call_extern", "call_pure_extern")))
    sch.reorder(*reversed(sch.get_loops("B")))
    sch.parallel(sch.get_loops("B")[0])
