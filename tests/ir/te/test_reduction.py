"""Reducers: what is an axis, what is a value, and what is neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import te, tir
from ir.error import IRTypeError
from ir.tir.analysis import expr_deep_equal

_A = te.placeholder((4, 8), name="A")
_K = te.reduce_axis((0, 8), "k")
_X, _Y, _Z = (tir.Var(name, "float32") for name in "xyz")


def _row(body: Callable[[Any], Any]) -> Any:
    return te.compute((4,), lambda i: body(i))


@pytest.mark.parametrize(
    ("axis", "shown"),
    [
        (lambda i: i, "axis i"),
        (lambda i: 1, "axis 1"),
        (lambda i: _K.var, "axis k"),
        (lambda i: [_K, i], "axis i"),
        (lambda i: tir.IterVar(tir.Range(0, 4), "q", tir.IterVar.DataPar), "axis q"),
    ],
)
@pytest.mark.parametrize("reducer", [te.sum, te.max, te.prod])
def test_what_is_named_axis_must_be_a_reduction_axis(reducer: Any, axis: Any, shown: str) -> None:
    with pytest.raises(IRTypeError, match=f"{shown} is no reduction axis; make one with te.reduce_axis"):
        _row(lambda i: reducer(_A[i, _K], axis=axis(i)))


def test_axis_condition_and_initial_value_by_place_and_by_name() -> None:
    by_place = te.sum(_X, _K, _Y > 0, _Z)
    by_name = te.sum(_X, axis=_K, where=_Y > 0, init=_Z)
    for reduction in (by_place, by_name):
        assert isinstance(reduction, tir.Reduce)
        assert reduction.axis == (_K,)
        assert expr_deep_equal(reduction.condition, _Y > 0)
        assert reduction.init[0] is _Z


def test_values_are_combined() -> None:
    assert expr_deep_equal(te.sum(_X, _Y, _Z), _X + _Y + _Z)
    assert expr_deep_equal(te.max(_X, _Y), tir.max(_X, _Y))


def test_a_wrong_keyword_and_nothing_to_reduce_are_refused() -> None:
    with pytest.raises(TypeError, match=r"sum\(\) got an unexpected keyword argument 'axes'"):
        te.sum(_X, axes=_K)
    with pytest.raises(IRTypeError, match="sum takes reduction axes"):
        te.sum(_X)
