"""Regions: boxes of what is touched while some loops run."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ir import tir
from ir.dtype import integer_range
from ir.tir.evaluate import evaluate
from schedules.affine import exact_quotient
from schedules.random_variable import DecisionVar
from schedules.region import lies_inside, relax_index

A, B, C = (DecisionVar(name) for name in "abc")


def value(expr: Any, given: dict[Any, int]) -> int:
    return int(evaluate(tir.convert(expr), given))


@pytest.mark.parametrize(
    "index",
    [
        lambda f: f // (A * B),
        lambda f: f % A,
        lambda f: f % (A * B) // B * C + f % B,
        lambda f: f // A * 3 + 5,
        lambda f: 7 - f % (B * C),
    ],
)
def test_the_digits_of_a_fused_loop_have_the_box_that_numbers_give(index: Any) -> None:
    fused = tir.Var("fused", "int32")
    found = relax_index(index(fused), {fused: A * B * C})
    assert found is not None
    for a, b, c in itertools.product([1, 2, 5], [1, 3], [1, 4]):
        given = {A: a, B: b, C: c}
        touched = [value(index(fused), {**given, fused: i}) for i in range(a * b * c)]
        low, extent = (value(item, given) for item in found)
        assert low == min(touched) and low + extent == max(touched) + 1


def test_an_open_tile_of_wide_loops_is_as_large_as_one_of_narrow_loops() -> None:
    """Decisions are of int32; where loops are of int64, factors are casts of them."""
    outer, inner = tir.Var("outer", "int64"), tir.Var("inner", "int64")
    wide = [tir.Cast("int64", item) for item in (A, B)]
    found = relax_index((outer * wide[0] + inner) * wide[1], {inner: wide[0]})
    assert found is not None
    given = {A: 6, B: 5, outer: 3}
    assert [value(item, given) for item in found] == [3 * 6 * 5, 5 * 5 + 1]


def test_digits_that_do_not_divide_are_not_bounded_by_mistake() -> None:
    fused = tir.Var("fused", "int32")
    found = relax_index(fused // A, {fused: B * 3})
    assert found is None or str(found[1]) != "3"


def test_quotients_of_products() -> None:
    assert str(exact_quotient(A * B * 6, B * 2)) == str(A * 3)
    assert exact_quotient(A * 3, B) is None and exact_quotient(A * 3, A * 2) is None
    assert exact_quotient(A + B, A) is None


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("is_cast", [True, False])
def test_what_a_narrow_index_reaches_is_counted_in_index_numbers(dtype: str, is_cast: bool) -> None:
    loop, table = tir.Var("i", "int32"), tir.decl_buffer((8,), dtype)
    index = table[loop].astype("int32") if is_cast else table[loop]
    found = relax_index(index, {loop: tir.const(8)})
    assert found is not None
    first, last = integer_range(dtype)
    assert [(int(item), item.dtype) for item in found] == [(first, "int32"), (last - first + 1, "int32")]


def test_arithmetic_that_wraps_reaches_all_that_its_type_holds() -> None:
    loop, table = tir.Var("i", "int32"), tir.decl_buffer((8,), "uint8")
    wrapping = [table[loop] + tir.const(3, "uint8"), tir.Cast("uint8", loop * 100).astype("int32")]
    for index in wrapping:
        found = relax_index(index, {loop: tir.const(8)})
        assert found is not None and [int(item) for item in found] == [0, 256]


def test_a_factor_of_unknown_sign_may_lead_down() -> None:
    loop, factor = tir.Var("i", "int32"), tir.Var("s", "int32")
    found = relax_index(loop * factor, {loop: tir.const(8)})
    assert found is not None
    assert [value(item, {factor: -3}) for item in found] == [-21, 22]
    assert [value(item, {factor: 3}) for item in found] == [0, 22]
    symbolic = relax_index(loop * factor, {loop: tir.const(8)}, [factor * 8])
    assert symbolic is not None and "min" not in f"{symbolic[0]}{symbolic[1]}"


@pytest.mark.parametrize("offset", [0, 3])
def test_quotients_of_whole_tiles_have_the_box_that_numbers_give(offset: int) -> None:
    """Rows of tiles of four, tile by tile: which tiles they are in."""
    inner = tir.Var("inner", "int32")
    found = relax_index((B * C * 4 + inner + offset) // 4, {inner: C * 4})
    assert found is not None
    for b, c in itertools.product([1, 2, 5], [1, 4]):
        given = {B: b, C: c}
        touched = [(b * c * 4 + i + offset) // 4 for i in range(c * 4)]
        assert [value(item, given) for item in found] == [touched[0], touched[-1] - touched[0] + 1]


def test_an_extent_that_is_rounded_up_holds_what_it_was() -> None:
    n, index = tir.SizeVar("n", "int32"), tir.Var("i", "int32")
    rounded, domains = tir.floordiv(n + 63, 64) * 64, {index: tir.Range(0, n)}
    assert lies_inside(tir.Range.from_min_extent(index, 1), domains, rounded)
    assert not lies_inside(tir.Range.from_min_extent(index, 1), domains, rounded - 1)
