"""Reductions against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
from ir.dtype import to_numpy
from ir.error import IRTypeError, IRValueError

RNG = np.random.default_rng(2)
X = RNG.standard_normal((2, 3, 4)).astype("float32")
AXES = [None, 0, -1, (0, 2), (1,)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions(check, name, axis, keepdims):
    check(
        lambda a: getattr(topi, name)(a, axis, keepdims), [X], getattr(np, name)(X, axis, keepdims=keepdims)
    )


@pytest.mark.parametrize("name", ["all", "any"])
def test_logical(check, name):
    data = RNG.integers(0, 2, (3, 4)).astype(bool)
    check(lambda a: getattr(topi, name)(a, 1), [data], getattr(np, name)(data, 1))
    with pytest.raises(IRTypeError, match="bool"):
        getattr(topi, name)(te.placeholder((3,), name="a"), 0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_arg_extremes(check, axis):
    check(lambda a: topi.argmax(a, axis), [X], X.argmax(axis))
    check(lambda a: topi.argmin(a, axis, True), [X], np.expand_dims(X.argmin(axis), axis))


def test_arg_extremes_of_ties_and_of_all_axes(check):
    ties = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], "int32")
    check(lambda a: topi.argmax(a, 1), [ties], np.array([1, 0]))
    check(lambda a: topi.argmax(a, 1, False, True), [ties], np.array([2, 3]))
    check(lambda a: topi.argmax(a), [X], np.asarray(X.argmax()))


def test_argmax_of_the_smallest_integers_is_a_position(check):
    check(lambda a: topi.argmax(a, 0), [np.zeros(4, "uint8")], np.asarray(0))
    check(lambda a: topi.argmin(a, 0), [np.full(4, 127, "int8")], np.asarray(0))


NAN, INF = np.nan, np.inf
ROWS = np.array(
    [
        [1, NAN, 3, NAN],
        [NAN, 1, 2, 3],
        [3, 2, 1, NAN],
        [-INF, -INF, -INF, -INF],
        [INF, INF, INF, INF],
        [-INF, INF, 0, 1],
    ]
)
FLOATS = ["float16", "float32", "float64", "bfloat16"]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_extremes_find_the_first_nan_else_the_first_extreme(check, name, dtype):
    rows = ROWS.astype(to_numpy(dtype))
    check(lambda a: getattr(topi, name)(a, 1), [rows], getattr(np, name)(ROWS, 1))
    check(lambda a: getattr(topi, name)(a), [rows[3:]], np.asarray(getattr(np, name)(ROWS[3:])))


def test_the_last_of_several_nans_and_infinities(check):
    last = np.array([3, 0, 3, 3, 3, 1])
    check(lambda a: topi.argmax(a, 1, False, True), [ROWS], last)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_start_at_infinity(check, name, dtype):
    rows = ROWS[3:5].astype(to_numpy(dtype))
    check(lambda a: getattr(topi, name)(a, 1), [rows], getattr(np, name)(ROWS[3:5], 1))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_in_an_extreme_is_nan(check, name, dtype):
    check(lambda a: getattr(topi, name)(a, 1), [ROWS.astype(to_numpy(dtype))], getattr(np, name)(ROWS, 1))


@pytest.mark.parametrize(
    ("name", "dtype", "start"),
    [
        ("sum", "float32", 0.0),
        ("prod", "float32", 1.0),
        ("max", "float32", -INF),
        ("min", "float16", INF),
        ("max", "int8", -128),
        ("min", "int64", 2**63 - 1),
        ("max", "uint8", 0),
        ("sum", "float16", 0.0),
    ],
)
def test_an_empty_extent_gives_the_identity(check, name, dtype, start):
    check(
        lambda a: getattr(topi, name)(a, 1),
        [np.empty((3, 0), dtype)],
        np.full(3, start, dtype),
    )
    check(lambda a: getattr(topi, name)(a), [np.empty((3, 0), dtype)], np.asarray(start, dtype))
    check(lambda a: getattr(topi, name)(a, 0), [np.empty((3, 0), dtype)], np.empty(0, dtype))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_a_tensor_without_axes_is_its_own_reduction(check, name, keepdims):
    check(lambda a: getattr(topi, name)(a, None, keepdims), [np.asarray(3.0, "float32")], np.asarray(3.0))


def test_collapse_sum(check):
    check(lambda a: topi.collapse_sum(a, (3, 1)), [X], X.sum((0, 2)).reshape(3, 1))


def test_there_is_no_position_of_nothing():
    with pytest.raises(IRValueError, match="no position along axis 1 of extent 0"):
        topi.argmax(te.placeholder((3, 0), name="a"), 1)


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_only_element_is_at_0(check, keepdims):
    check(lambda a: topi.argmax(a, None, keepdims), [np.asarray(3.0, "float32")], np.asarray(0))


def test_names():
    a = te.placeholder((4, 8), name="A")
    total = topi.sum(a, 1)
    assert total.op.name == "A_red"
    assert [axis.var.name for axis in (*total.op.axis, *total.op.reduce_axis)] == ["ax0", "k1"]
    assert topi.argmax(a, 1).op.input_tensors[0].op.name == "A_red_temp"


def test_bad_axes_are_refused():
    a = te.placeholder((4, 8), name="A")
    with pytest.raises(IRValueError, match="axis 2 is out of range for 2"):
        topi.sum(a, 2)
    with pytest.raises(IRValueError, match="twice"):
        topi.sum(a, (0, -2))
