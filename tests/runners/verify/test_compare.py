"""Bounds are rounded outwards; NaN must be NaN, infinities must be infinite, and integers are what they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.verify.compare import bounds_of


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_equal_is_right_and_the_next_number_is_not_where_there_is_no_error() -> None:
    bounds = bounds_of(np.array([1.0, -2.0]), None, "float32")
    assert bounds.violated(f32(1, -2)) is None
    assert list(bounds.violated(np.nextafter(f32(1, -2), f32(9, -2)))) == [True, False]


@given(st.floats(-1e30, 1e30), st.floats(0, 1e3))
def test_bounds_are_rounded_outwards(value: float, error: float) -> None:
    bounds = bounds_of(np.array([value]), np.array([error]), "float32")
    assert float(bounds.low[0]) <= value - error
    assert float((bounds.low if bounds.high is None else bounds.high)[0]) >= value + error


def test_nan_and_infinities_stand_where_they_should() -> None:
    bounds = bounds_of(np.array([np.nan, np.inf, 1.0]), np.array([np.nan, 0.0, 0.1]), "float32")
    assert bounds.violated(f32(np.nan, np.inf, 1.05)) is None
    for wrong in (
        f32(0, np.inf, 1),
        f32(np.nan, -np.inf, 1),
        f32(np.nan, 3e38, 1),
        f32(np.nan, np.inf, np.nan),
    ):
        assert bounds.violated(wrong) is not None


def test_an_error_without_bound_leaves_one_element_open() -> None:
    bounds = bounds_of(np.array([2.0, 2.0]), np.array([np.inf, 0.0]), "float16")
    assert not bounds.plain
    for anything in (np.nan, np.inf, -7.0):
        assert bounds.violated(np.array([anything, 2.0], np.float16)) is None
        assert bounds.violated(np.array([anything, 3.0], np.float16)) is not None


def test_integers_that_floats_decided_may_move_as_far_as_they_say() -> None:
    bounds = bounds_of(np.array([5, 127, 3], np.int8), np.array([1.5, 1.0, np.inf]), "int8")
    assert bounds.violated(np.array([6, 126, -90], np.int8)) is None
    assert list(bounds.violated(np.array([7, 125, 0], np.int8))) == [True, True, False]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_values_without_error_are_compared_as_they_are(dtype: str) -> None:
    value = np.array([0, 1, 1], dtype)
    bounds = bounds_of(value, None, dtype)
    assert bounds.high is None and bounds.violated(value) is None
    assert bounds.violated(1 - value.astype("int64")) is not None


def test_long_arrays_are_compared_to_their_end() -> None:
    value = np.arange(1_000_000, dtype=np.float64)
    bounds = bounds_of(value, np.full(value.shape, 0.25), "float32")
    got = value.astype(np.float32)
    assert bounds.violated(got) is None
    got[-1] += 1
    assert np.flatnonzero(bounds.violated(got)).tolist() == [999_999]


def test_truths_that_floats_decided_may_be_either() -> None:
    bounds = bounds_of(np.array([True, False, True]), np.array([1.0, 1.0, 0.0]), "bool")
    assert bounds.violated(np.array([False, True, True])) is None
    assert list(bounds.violated(np.array([True, False, False]))) == [False, False, True]


def test_long_integers_beside_one_that_floats_decided_are_exact() -> None:
    value = np.array([(1 << 60) + 200, -(1 << 61) - 1, 5])
    bounds = bounds_of(value, np.array([0.0, 1.0, 1.0]), "int64")
    assert bounds.violated(value + np.array([0, 1, -1])) is None
    assert list(bounds.violated(value + np.array([1, 2, 2]))) == [True, True, True]


@pytest.mark.parametrize("error", [2.0**63, 2.0**70, np.inf, np.nan])
def test_an_integer_whose_error_is_beyond_all_integers_may_be_anything(error: float) -> None:
    bounds = bounds_of(np.array([5, 5]), np.array([error, 1.0]), "int64")
    assert not bounds.plain
    ends = np.iinfo(np.int64)
    for value in (ends.min, -7, 5, ends.max):
        assert bounds.violated(np.array([value, 5])) is None
    wrong = bounds.violated(np.array([5, 7]))
    assert wrong is not None and wrong.tolist() == [False, True]
