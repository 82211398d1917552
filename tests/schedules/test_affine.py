"""Index arithmetic as polynomials."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from ir import tir
from ir.arith import Analyzer
from schedules.affine import constant_difference, difference

i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
data = tir.decl_buffer((8,), "int32", name="data")

EQUAL_PARTS = [
    (lambda: (i * 2 + j) // 17 * 5 + j + 3, lambda: (i * 2 + j) // 17 * 5 + j),
    (lambda: j * (i % 4) - 2, lambda: (i % 4) * j),
    (
        lambda: tir.operators.min(i, j) * tir.operators.min(j, i + 1),
        lambda: tir.operators.min(j, i + 1) * tir.operators.min(i, j),
    ),
]


@pytest.mark.parametrize(("a", "b"), EQUAL_PARTS)
def test_equal_arithmetic_made_twice_is_the_same(
    a: Callable[[], tir.PrimExpr], b: Callable[[], tir.PrimExpr]
) -> None:
    first, second = a(), b()
    expected = {
        Analyzer().simplify(tir.substitute(first - second, {i: tir.const(n), j: tir.const(m)})).value
        for n, m in product(range(9), repeat=2)
    }
    assert expected == {constant_difference(first, second)}


def test_what_differs_or_may_change_in_between_is_not_the_same() -> None:
    assert constant_difference(i // 17, i // 16) is None
    assert constant_difference(i // 17, j // 17) is None
    assert constant_difference(data[i], data[i]) is None
    assert constant_difference(data[i] // 2, data[i] // 2) is None


def test_a_difference_collects_equal_arithmetic() -> None:
    found = difference((i + 1) // 4 * 3 + j % 8 + 5, (i + 1) // 4 * 3)
    assert str(found) == "j % 8 + 5"
    assert (
        str(difference(data[i] + j, data[i])) == "data[i] + j - data[i]"
    )  # which may be another number by then
