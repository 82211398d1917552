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
ir.register_func("tests.effects.log", lambda number: LOG.append(int(number)) or 0, override=True)

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


CHAIN = """@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), O: T.Buffer((8, 8), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + FIRST
    for i, j in T.grid(8, 8):
        with T.block("O"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B[0:8, vj])
            T.writes(O[vi, vj])
            O[vi, vj] = B[PLACE, vj] + SECOND
"""
NUMBERED = 'T.call_packed("tests.effects.log", vi * 8 + vj)'


def chained(first: str = "0", place: str = "vi", second: str = "0") -> str:
    return CHAIN.replace("FIRST", first).replace("PLACE", place).replace("SECOND", second)


ROLLED = """@T.prim_func
def main(A: T.Buffer((10,), "int32"), O: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((10,), "int32")
    for i in range(8):
        for k in range(3):
            with T.block("B"):
                v = T.axis.spatial(10, i + k)
                B[v] = A[v] + T.call_packed("tests.effects.log", v)
        for k in range(3):
            with T.block("O"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    O[vi] = 0
                O[vi] = O[vi] + B[vi + vk]
"""
BEGUN = SUMMED.replace("O[vi] = 0", 'O[vi] = T.call_extern("int32", "rand")')


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (chained(NUMBERED), lambda sch: sch.transform_block_layout("B", lambda i, j: (j, i))),
        (chained(NUMBERED, second=NUMBERED), lambda sch: sch.merge(*[sch.get_loops(b)[1] for b in "BO"])),
        (chained(place=NUMBERED), lambda sch: sch.reindex("O", ("read", 0))),
        (chained(place=NUMBERED), lambda sch: sch.compute_inline("B")),
        (
            chained(place=NUMBERED),
            lambda sch: sch.reindex_cache_read("O", 0, "global", lambda i, j: (j, i)),
        ),
        (
            chained(place=NUMBERED),
            lambda sch: sch.transform_layout("B", ("write", 0), lambda i, j: (i // 2, i % 2, j)),
        ),
        (ROLLED, lambda sch: sch.rolling_buffer("B", 0)),
        (SUMMED, lambda sch: sch.pad_einsum("O", [8, 8])),
        (BEGUN, lambda sch: sch.blockize(sch.get_loops("O")[0])),
    ],
)
def test_effects_happen_as_often_and_in_the_order(text: str, step: Callable[[Schedule], Any]) -> None:
    with pytest.raises(ScheduleError, match="may have effects"):
        step(schedule(text))


@pytest.mark.parametrize(("first", "second"), [(NUMBERED, "0"), ("0", NUMBERED)])
def test_of_merged_nests_one_may_have_effects(first: str, second: str) -> None:
    sch = schedule(chained(first, second=second).replace("T.reads(B[0:8, vj])", "T.reads(B[vi, vj])"))
    sch.merge(*[sch.get_loops(block)[1] for block in "BO"])
    LOG.clear()
    run(sch.mod["main"], np.zeros((8, 8), "int32"), np.zeros((8, 8), "int32"))
    assert LOG == list(range(64))


def test_a_place_that_effects_say_is_not_asked_for_again() -> None:
    sch = schedule(chained(place=NUMBERED).replace("T.reads(B[0:8, vj])", f"T.reads(B[{NUMBERED}, vj])"))
    before = str(sch.mod).count("call_packed")
    sch.compute_at("B", sch.get_loops("O")[1])
    assert str(sch.mod).count("call_packed") == before
