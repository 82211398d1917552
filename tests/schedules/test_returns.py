"""Where a function may return, what it has stored then stays what the program stores (rule ``[call]``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from schedules import Schedule
from schedules.returns import nodes_between
from schedules.rule import AutoBind

from .checks import assert_refused

HEADER = """@T.prim_func
def main(S: T.Buffer((4,), "int32"), A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((4,), "int32")
"""
RETURN = """
        {block}
            if S[i] > 2:
                T.evaluate(T.ret())
"""
IN_A_BLOCK, BARE = RETURN.format(block='with T.block("X"):'), RETURN.format(block="if True:")
SUM = """
        for k in range(4):
            with T.block("C"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = 0
                C[v] = C[v] + A[v, r]
"""
LOOP = """
    for i in range(4):
"""


def stores(name: str, value: str, target: str = "") -> str:
    """A block that stores a value in each iteration of a loop."""
    return f"""
        with T.block("{name}"):
            v = T.axis.spatial(4, i)
            {target or name}[v] = {value}
"""


def outputs(func: PrimFunc, flag: int) -> list[np.ndarray]:
    """What a function leaves when the third of its four flags is given."""
    arrays = [np.array([0, 1, flag, 0], "int32"), np.arange(16, dtype="int32").reshape(4, 4)]
    arrays += [np.full(4, -1, "int32"), np.full(4, -2, "int32")]
    run(func, *arrays)
    return arrays


def loops(sch: Schedule, name: str) -> list[Any]:
    """The loops around a block."""
    return sch.get_loops(name)


Step = Callable[[Schedule], Any]

CROSSING: dict[str, tuple[str, Step]] = {
    "decompose_reduction, returns before": (
        LOOP + BARE + SUM,
        lambda sch: sch.decompose_reduction("C", loops(sch, "C")[0]),
    ),
    "decompose_reduction, returns behind": (
        LOOP + SUM + IN_A_BLOCK,
        lambda sch: sch.decompose_reduction("C", loops(sch, "C")[0]),
    ),
    "reindex": (LOOP + BARE + SUM, lambda sch: sch.reindex("C", ("write", 0))),
    "reindex_cache_write": (
        LOOP + SUM + BARE,
        lambda sch: sch.reindex_cache_write("C", 0, "global", lambda i, k: [i]),
    ),
    "reindex of what is read": (LOOP + SUM + IN_A_BLOCK, lambda sch: sch.reindex("C", ("read", 0))),
    "write_at": (
        LOOP + "        for j in range(1):" + (SUM + BARE).replace("\n", "\n    ") + "\n",
        lambda sch: sch.write_at(loops(sch, "C")[0], "C", 0, "global"),
    ),
    "reverse_compute_at": (
        LOOP
        + stores("B", "A[v, 0]")
        + "    if S[2] > 2:\n        T.evaluate(T.ret())\n"
        + LOOP
        + stores("C", "B[v]"),
        lambda sch: sch.reverse_compute_at("C", loops(sch, "B")[0]),
    ),
    "reverse_compute_at, to behind": (
        LOOP
        + stores("C", "A[v, 0]")
        + "    if S[2] > 2:\n        T.evaluate(T.ret())\n"
        + LOOP
        + stores("D", "C[v]"),
        lambda sch: sch.reverse_compute_at("C", loops(sch, "D")[0]),
    ),
    "reverse_compute_inline": (
        LOOP
        + stores("B", "A[v, 0]")
        + '    with T.block("X"):\n        if S[2] > 2:\n            T.evaluate(T.ret())\n'
        + LOOP
        + stores("C", "B[v]"),
        lambda sch: sch.reverse_compute_inline("C"),
    ),
    "merge": (
        LOOP + stores("C", "A[v, 0]") + IN_A_BLOCK + LOOP + stores("D", "A[v, 1]"),
        lambda sch: sch.merge(loops(sch, "C")[0], loops(sch, "D")[0]),
    ),
    "reorder": (
        LOOP
        + "        for j in range(4):\n"
        + (IN_A_BLOCK + stores("C", "A[v, 0]")).replace("\n", "\n    ").replace("S[i]", "S[j]")
        + "\n",
        lambda sch: sch.reorder(*reversed(loops(sch, "C"))),
    ),
    "parallel": (LOOP + IN_A_BLOCK + stores("C", "A[v, 0]"), lambda sch: sch.parallel(loops(sch, "C")[0])),
    "vectorize": (LOOP + IN_A_BLOCK + stores("C", "A[v, 0]"), lambda sch: sch.vectorize(loops(sch, "C")[0])),
    "bind": (
        LOOP + IN_A_BLOCK + stores("C", "A[v, 0]"),
        lambda sch: sch.bind(loops(sch, "C")[0], "threadIdx.x"),
    ),
}


@pytest.mark.meaning("call")
@pytest.mark.parametrize("name", CROSSING)
def test_no_store_crosses_a_return(name: str) -> None:
    """Each step left elements that the program does not write when it returns early, or did not write those that it does."""
    body, step = CROSSING[name]
    sch = Schedule(from_source(HEADER + body))
    assert_refused(sch, lambda: step(sch), "the function may return in")


STAYING: dict[str, tuple[str, Step]] = {
    "cache_write, returns before": (LOOP + BARE + SUM, lambda sch: sch.cache_write("C", 0, "global")),
    "cache_write, returns behind": (LOOP + SUM + IN_A_BLOCK, lambda sch: sch.cache_write("C", 0, "global")),
    "cache_write, returns between nests": (
        LOOP
        + stores("C", "A[v, 0]")
        + "    if S[2] > 2:\n        T.evaluate(T.ret())\n"
        + LOOP
        + stores("D", "0"),
        lambda sch: sch.cache_write("C", 0, "global"),
    ),
    "write_at": (LOOP + BARE + SUM, lambda sch: sch.write_at(loops(sch, "C")[0], "C", 0, "global")),
    "decompose_reduction": (LOOP + BARE + SUM, lambda sch: sch.decompose_reduction("C", loops(sch, "C")[1])),
    "cache_inplace": (
        LOOP + stores("C", "C[v] + A[v, 0]") + IN_A_BLOCK,
        lambda sch: sch.cache_inplace("C", "C", "global"),
    ),
    "compute_at": (
        LOOP
        + stores("B", "A[v, 0]")
        + "    if S[2] > 2:\n        T.evaluate(T.ret())\n"
        + LOOP
        + stores("C", "B[v]"),
        lambda sch: sch.compute_at("B", loops(sch, "C")[0]),
    ),
    "behind a return": (
        "    if S[2] > 2:\n        T.evaluate(T.ret())\n" + LOOP + SUM,
        lambda sch: (
            sch.reindex("C", ("write", 0)),
            sch.decompose_reduction("C", loops(sch, "C")[0]),
            sch.parallel(loops(sch, "C_update")[0]),
        ),
    ),
}


@pytest.mark.meaning("call")
@pytest.mark.parametrize("name", STAYING)
def test_what_stays_on_its_side_of_a_return_is_scheduled(name: str) -> None:
    body, step = STAYING[name]
    func = from_source(HEADER + body)
    sch = Schedule(func)
    step(sch)
    for flag in (0, 3):
        for expected, found in zip(outputs(func, flag), outputs(sch.mod["main"], flag), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_nest_that_may_return_is_bound_to_no_threads() -> None:
    """A thread cannot end the function for the others; the rule leaves the nest as it is."""
    func = from_source(HEADER + LOOP + IN_A_BLOCK + stores("C", "A[v, 0]"))
    rule = AutoBind()
    rule.initialize(Target("nvidia/nvidia-h100"))
    sch = Schedule(func)
    (found,) = rule.apply(sch, sch.get_block("C"))
    assert "thread_binding" not in found.mod.script()


def test_nodes_between_hold_both_ends() -> None:
    sch = Schedule(
        from_source(HEADER + LOOP + stores("B", "v") + IN_A_BLOCK + stores("C", "B[v]") + stores("D", "v"))
    )
    first, returning, middle, last = (sch._block(name) for name in "BXCD")
    assert nodes_between(first, middle) == [first, returning, middle]
    assert nodes_between(returning, last) == [returning, middle, last]
    assert nodes_between(middle, first) == [] and nodes_between(first, first) == [first]
