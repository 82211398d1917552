"""Parameters of scheduled functions are different memory: the function says so; what denies it is scheduled where it cannot matter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.tir.function import PrimFunc
from ir.tir.interpreter import InterpreterError, run
from schedules import Schedule, ScheduleError

from .checks import main_of, outputs_of
from .random_steps import Step


def function(attributes: str, *stores: str, dtype: str = "int32") -> PrimFunc:
    """A function of two arrays of eight elements with a loop for each store."""
    lines = [
        "@T.prim_func",
        f'def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "{dtype}")):',
        f"    T.func_attr({{{attributes}}})",
    ]
    for number, store in enumerate(stores):
        lines += [
            "    for i in range(8):",
            f'        with T.block("S{number}"):',
            "            vi = T.axis.spatial(8, i)",
            f"            {store}",
        ]
    return from_source("\n".join(lines) + "\n")  # type: ignore[no-any-return]


@pytest.mark.meaning("schedule-noalias")
def test_a_scheduled_function_says_that_its_parameters_are_different_memory() -> None:
    """In reverse order B is another one where its elements are those of A, one on."""
    func = function('"global_symbol": "main"', "B[vi] = A[7 - vi] + 1")
    sch = Schedule(func)
    assert sch.mod["main"] is func
    outer, inner = sch.split(sch.get_loops("S0")[0], [None, 2])
    sch.reorder(inner, outer)
    scheduled = main_of(sch)
    assert scheduled.attrs["tir.noalias"] is True and scheduled.attrs["global_symbol"] == "main"
    memory = np.arange(8, dtype="int32")
    run(func, memory, memory)
    with pytest.raises(InterpreterError, match=r"\[noalias\]"):
        run(scheduled, memory, memory)
    apart = np.arange(8, dtype="int32")
    np.testing.assert_array_equal(
        outputs_of(func, [apart, apart.copy()])[1], outputs_of(scheduled, [apart, apart.copy()])[1]
    )


@pytest.mark.meaning("schedule-noalias")
@pytest.mark.parametrize(
    "stores",
    [("B[vi] = A[7 - vi] + 1",), ("B[vi] = A[vi] + 1", "A[vi] = B[vi] * 2"), ("B[vi] = A[vi // 2]",)],
)
def test_one_that_denies_it_is_not_scheduled_where_it_matters(stores: tuple[str, ...]) -> None:
    func = function('"tir.noalias": False', *stores)
    with pytest.raises(ScheduleError, match="its parameters may be one array"):
        Schedule(func, error_render_level="none").get_block("S0")


VIEWED = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({"tir.noalias": False})
    for i in range(7):
        with T.block("S0"):
            vi = T.axis.spatial(7, i)
            T.reads(A[vi])
            T.writes(B[vi + OFFSET])
            V = T.match_buffer(A[vi], (1,), "int32", offset_factor=1)
            STORE
"""


@pytest.mark.meaning("schedule-noalias")
def test_views_are_what_they_are_of() -> None:
    right = VIEWED.replace("STORE", "B[vi + OFFSET] = V[0]").replace("OFFSET", "0")
    sch = Schedule(from_source(right))
    sch.split(sch.get_loops("S0")[0], [None, 2])
    for store in ("B[vi + OFFSET] = V[0]", "T.evaluate(T.call_extern('int32', 'f', B.data, V[0]))"):
        text = VIEWED.replace("STORE", store).replace("OFFSET", "1")
        with pytest.raises(ScheduleError, match="its parameters may be one array"):
            Schedule(from_source(text), error_render_level="none").get_block("S0")


@pytest.mark.meaning("schedule-noalias")
@pytest.mark.parametrize(
    "stores",
    [
        ("B[0] = vi", "B[1] = A[0]"),  # the first element is read by another block
        ("B[vi // 2] = A[vi // 2] + vi",),
        ("B[vi] = T.Cast('int8', A[vi])",),  # other bytes
    ],
)
def test_one_place_is_one_element_of_one_instance(stores: tuple[str, ...]) -> None:
    dtype = "int8" if "Cast" in stores[0] else "int32"
    func = function('"tir.noalias": False', *stores, dtype=dtype)
    with pytest.raises(ScheduleError, match="its parameters may be one array"):
        Schedule(func, error_render_level="none").get_block("S0")


@pytest.mark.meaning("schedule-noalias")
@settings(max_examples=40)
@given(st.integers(0, 10**9))
def test_elements_of_one_array_in_any_order(seed: int) -> None:
    """What a pass makes of ``x + x`` where the sum overwrites x."""
    func = function('"tir.noalias": False', "B[vi] = A[vi] * 3 + B[vi]")
    generator = random.Random(seed)
    sch = Schedule(func, seed=seed, error_render_level="none")
    for _ in range(generator.randint(1, 5)):
        Step(sch, generator).run()
    scheduled = main_of(sch)
    assert not scheduled.attrs["tir.noalias"]
    memory = np.arange(8, dtype="int32")
    run(scheduled, memory, memory)
    assert memory.tolist() == [4 * number for number in range(8)]
