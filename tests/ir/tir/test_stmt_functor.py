"""Substitution: what stands for a variable has the variable's type, however it is given; what a node holds is listed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import tir
from ir.structural import structural_equal
from ir.tir.stmt_functor import loads_in, substitute, variables_in

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


def test_variables_are_listed_once_in_order() -> None:
    A = tir.decl_buffer((8,), "int32", "A")
    store = tir.BufferStore(A, A[J] + I, [I * 2])
    assert variables_in(I + J * I, 3, WIDE) == [I, J, WIDE]
    assert variables_in(I) == [I] and variables_in(4) == [] and variables_in() == []
    assert set(variables_in(store)) == {A.data, I, J}


def test_loads_are_listed_with_those_in_their_indices() -> None:
    A, B = tir.decl_buffer((8,), "int32", "A"), tir.decl_buffer((8,), "int32", "B")
    inner = A[I]
    store = tir.BufferStore(B, B[inner] + inner, [A[J]])
    assert [load.buffer.name for load in loads_in(store.value)] == ["A", "B"]  # one object once
    assert sorted(load.buffer.name for load in loads_in(store)) == ["A", "A", "B"]
    assert loads_in(I) == [] and loads_in(I + 1) == []


def test_what_is_shared_is_looked_at_once() -> None:
    value: tir.PrimExpr = I
    for _ in range(200):
        value = value * value + J
    variables, loads = variables_in(value), loads_in(value)
    assert variables == [I, J] and loads == []


def test_lists_of_what_is_in_a_node_are_the_callers() -> None:
    """Answers are remembered by the node: what one caller does to a list the next one does not see."""
    buffer = tir.decl_buffer((8,), "int32", "A")
    value = buffer[I] + buffer[J]
    for listed in (loads_in, variables_in):
        first = listed(value)
        assert len(first) >= 2
        first.clear()
        assert len(listed(value)) >= 2
