"""Steps of indices per loop, found by one walk, against evaluation of the index itself."""

from __future__ import annotations

import numpy as np
import pytest

from ir import tir
from schedules.population.linear import IndexSteps, Values
from schedules.random_variable import DecisionVar

I, J, D = tir.Var("i", "int32"), tir.Var("j", "int32"), DecisionVar("d")
LOOPS = frozenset({I, J})
VALUES = {I: 0, J: 0, D: np.array([2, 3, 8])}
EXTENTS = {I: np.array([4, 4, 4]), J: np.array([2, 3, 8])}


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (I * 6 + J + 3, {I: [6, 6, 6], J: [1, 1, 1]}),
        ((I * D + J) * 2 - J, {I: [4, 6, 16], J: [1, 1, 1]}),
        (D * 5, {}),
        (tir.Cast("int64", I) * 3, {I: [3, 3, 3]}),
        # j runs below d, so that the quotient moves with i alone, and the remainder with j alone.
        (tir.floordiv(I * D + J, D), {I: [1, 1, 1], J: [0, 0, 0]}),
        (tir.floormod(I * D + J, D), {I: [0, 0, 0], J: [1, 1, 1]}),
        # i // 2 moves by one every other step.
        (tir.floordiv(I, 2), {I: [1, 1, 1]}),
    ],
)
def test_steps(index: tir.PrimExpr, expected: dict[tir.Var, list[int]]) -> None:
    steps = IndexSteps(index, LOOPS).evaluate(Values(VALUES, EXTENTS))
    assert set(steps) == set(expected)
    for var, values in expected.items():
        np.testing.assert_array_equal(np.broadcast_to(steps[var], (3,)), values)


def test_a_gather_moves_with_the_loops_behind_its_index() -> None:
    rows = tir.decl_buffer((8,), "int32", "rows")
    steps = IndexSteps(tir.BufferLoad(rows, [I]), LOOPS)
    assert steps.is_gather
    assert steps.evaluate(Values(VALUES, EXTENTS)) == {I: 1}
