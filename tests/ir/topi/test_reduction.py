"""Reductions against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
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


def test_collapse_sum(check):
    check(lambda a: topi.collapse_sum(a, (3, 1)), [X], X.sum((0, 2)).reshape(3, 1))


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
