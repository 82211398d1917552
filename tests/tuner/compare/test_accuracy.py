"""How far outputs may be from another runtime's, and who is believed where they differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.compare.accuracy import (
    Accuracy,
    compare_outputs,
    relative_error,
    require_tolerance,
    tolerance_for,
)
from tuner.error import TunerError

ONE = np.ones(3, "float32")


def unasked() -> None:
    raise AssertionError("outputs agree: nobody needs the float64 run")


def test_error_is_relative_to_the_largest_magnitude() -> None:
    wanted = np.array([0.0, -4.0, 2.0], "float32")
    assert relative_error(wanted + np.array([0, 0, 1], "float32"), wanted) == 0.25
    assert relative_error(wanted[:0], wanted[:0]) == 0.0
    assert relative_error(np.array([250], "uint8"), np.array([251], "uint8")) == 1 / 251
    assert relative_error(np.array([True, False]), np.array([True, True])) == 1.0
    assert relative_error(np.array([1.0, 3.0]), np.array([1, 3])) == 0.0
    assert relative_error(ONE, ONE[:2]) == math.inf


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_agrees_with_its_like_alone(special: float) -> None:
    wanted = np.array([1, special, 2], "float32")
    assert relative_error(wanted, wanted) == 0.0
    assert relative_error(wanted + np.array([0, 0, 1], "float32"), wanted) == 0.5
    for other in (1.0, np.nan, np.inf, -np.inf):
        found = np.array([1, other, 2], "float32")
        if not np.array_equal(found, wanted, equal_nan=True):
            assert relative_error(found, wanted) == math.inf == relative_error(wanted, found)


def test_the_narrowest_format_decides() -> None:
    assert tolerance_for(["float32", "int64"]) == tolerance_for([]) == 1e-4
    assert tolerance_for(["float32", "float16"]) == 1e-2 < tolerance_for(["bfloat16"])
    assert tolerance_for(["float64"]) < 1e-6
    assert tolerance_for(["float32", "uint8"]) == 2e-2


@pytest.mark.parametrize("tolerance", [-1e-3, math.inf, math.nan])
def test_a_tolerance_is_a_relative_error(tolerance: float) -> None:
    with pytest.raises(TunerError, match="--tolerance .* is no relative error"):
        require_tolerance(tolerance)


def test_outputs_that_agree_need_no_judge() -> None:
    found = compare_outputs([ONE, ONE], [ONE, ONE * 1.00001], 1e-4, unasked)
    assert found.holds and found.errors[0] == 0 < found.error < 2e-5 and len(found.lines("it")) == 2


@pytest.mark.parametrize(
    "exact, holds",
    [(1.01, True), (1.005, True), (1.02, False), (1.0131, True), (None, False)],
    ids=[
        "the other is wrong",
        "both are as close",
        "ours is wrong",
        "within twice the other's",
        "nobody knows",
    ],
)
def test_a_float64_run_judges_those_that_differ(exact: float | None, holds: bool) -> None:
    """Ours is 1.01, the other 1.02."""
    judge = None if exact is None else [np.full(3, exact if exact != 1.02 else 1.0201)]
    found = compare_outputs([ONE * np.float32(1.01)], [ONE * np.float32(1.02)], 1e-4, lambda: judge)
    assert found.holds == holds
    assert bool(found.in_float64) == (exact is not None)
    assert "more than 0.0001" in found.refusal("it")


def test_an_accuracy_without_outputs_holds() -> None:
    assert Accuracy((), 0.0).holds
    assert not Accuracy((math.inf,), 1e-4, ((math.inf, 0.0),)).holds


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_the_next_index_is_another_one(dtype: str) -> None:
    """Of 50,000 classes it is within any tolerance of floats; beyond 2⁵³ float64 does not tell both apart."""
    most = np.iinfo(dtype).max
    for wanted in (49_999, most):
        found = compare_outputs(
            [np.array([wanted - 1], dtype)], [np.array([wanted], dtype)], 1e-2, lambda: None
        )
        assert found.error == 1.0 and not found.holds
    assert relative_error(np.array([most], dtype), np.array([most], dtype)) == 0.0
    assert relative_error(np.array([5], dtype), np.array([1], dtype)) == 4.0
