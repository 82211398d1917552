"""Substitution: what stands for a variable has the variable's type, however it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import tir
from ir.structural import structural_equal
from ir.tir.stmt_functor import substitute

I, J, WIDE, UNSIGNED = tir.Var("i"), tir.Var("j"), tir.Var("w", "int64"), tir.Var("u", "uint8")


def as_mapping(var: tir.Var, value: Any) -> Any:
    return {var: value}


def as_function(var: tir.Var, value: Any) -> Callable[[tir.Var], Any]:
    return lambda asked: value if asked is var else None


@pytest.mark.parametrize("given", [as_mapping, as_function])
def test_integers_are_cast_to_their_variables_type(given: Callable[[tir.Var, Any], Any]) -> None:
    for var, value in ((I, WIDE), (WIDE, I), (I, UNSIGNED), (I, WIDE + 1)):
        found = substitute(var * 2 + J.astype(var.dtype), given(var, value))
        assert found.dtype == var.dtype
        assert structural_equal(found, tir.Cast(var.dtype, value) * 2 + J.astype(var.dtype))
    assert substitute(I + J, given(I, 3)).a.dtype == "int32"
    assert substitute(I + J, given(I, J)).a is J


@pytest.mark.parametrize("given", [as_mapping, as_function])
def test_a_vector_for_a_number_is_cast_lane_by_lane(given: Callable[[tir.Var, Any], Any]) -> None:
    lanes = tir.Ramp(WIDE, tir.const(1, "int64"), 4)
    assert substitute(I, given(I, lanes)).dtype == "int32x4"
    kept = tir.Ramp(I, 1, 4)
    assert substitute(J, given(J, kept)) is kept


def test_a_function_is_asked_once_for_each_variable() -> None:
    asked = []
    found = substitute(I + I * J + I, lambda var: asked.append(var))
    assert asked == [I, J] and str(found) == str(I + I * J + I)
