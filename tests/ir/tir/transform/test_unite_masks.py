"""UniteMasks: comparisons that are the same in all lanes become one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule
from ir.tir import Broadcast, BufferLoad, BufferStore, For, ForKind, PrimFunc, Ramp, Var, const, decl_buffer
from ir.tir.expr import And, PrimExpr
from ir.tir.interpreter import run
from ir.tir.transform import UniteMasks

COMPARISONS: list[Callable[[Any, Any], PrimExpr]] = [operator.lt, operator.le, operator.gt, operator.ge]
LANES = 4


def masked(
    compare: Callable[[Any, Any], PrimExpr], factor: int, offset: int, bound: int, swapped: bool
) -> PrimFunc:
    """A loop whose vectors are stored under a comparison of their indices with a number."""
    buffer, i = decl_buffer((128,), "float32", "A"), Var("i", "int32")
    first = i * factor + offset
    index, limit = Ramp(first, const(1), LANES), Broadcast(const(bound), LANES)
    mask = compare(limit, index) if swapped else compare(index, limit)
    store = BufferStore(buffer, Broadcast(const(1, "float32"), LANES), [index], mask)
    return PrimFunc([buffer], For(i, const(0), const(8), ForKind.SERIAL, store))


def mask_of(func: PrimFunc) -> PrimExpr:
    """The mask behind the pass."""
    return UniteMasks()(IRModule({"main": func}))["main"].body.body.predicate


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(COMPARISONS), st.integers(1, 9), st.integers(0, 9), st.integers(-3, 90), st.booleans())
def test_masks_mean_the_same(
    compare: Callable[[Any, Any], PrimExpr], factor: int, offset: int, bound: int, swapped: bool
) -> None:
    func = masked(compare, factor, offset, bound, swapped)
    after = UniteMasks()(IRModule({"main": func}))["main"]
    found, expected = np.zeros(128, "float32"), np.zeros(128, "float32")
    run(func, expected)
    run(after, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("compare", "factor", "offset", "bound", "is_one"),
    [
        (operator.lt, 4, 0, 100, True),
        (operator.lt, 4, 0, 99, False),
        (operator.lt, 4, 0, 101, False),
        (operator.le, 4, 0, 99, True),
        (operator.le, 4, 0, 100, False),
        (operator.ge, 4, 0, 8, True),
        (operator.gt, 4, 0, 7, True),
        (operator.gt, 4, 0, 8, False),
        (operator.lt, 8, 4, 100, True),
        (operator.lt, 6, 0, 96, True),
        (operator.lt, 3, 0, 96, False),
        (operator.lt, 4, 2, 98, True),
    ],
)
def test_vectors_that_cross_no_bound_have_one_condition(
    compare: Callable[[Any, Any], PrimExpr], factor: int, offset: int, bound: int, is_one: bool
) -> None:
    assert isinstance(mask_of(masked(compare, factor, offset, bound, False)), Broadcast) == is_one


def test_conditions_of_one_are_one() -> None:
    func = masked(operator.lt, 4, 0, 100, False)
    store = func.body.body
    both = And(store.predicate, Broadcast(func.body.loop_var >= 1, LANES))
    mask = mask_of(func.replace(body=func.body.replace(body=store.replace(predicate=both))))
    assert isinstance(mask, Broadcast) and isinstance(mask.value, And)


def test_lanes_of_data_may_wrap() -> None:
    func = masked(operator.lt, 4, 0, 100, False)
    store, data = func.body.body, decl_buffer((1,), "int32", "data")
    index = Ramp(BufferLoad(data, [const(0)]) * 4, const(1), LANES)
    mask = operator.lt(index, Broadcast(const(100), LANES))
    body = func.body.replace(body=store.replace(predicate=mask))
    assert mask_of(PrimFunc([data, *func.buffer_map.values()], body)) is mask
