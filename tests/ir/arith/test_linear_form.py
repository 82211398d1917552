"""Sums of integer multiples: the arithmetic that all linear forms share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ir.arith.linear_form import combined, multiplied, scaled

FORMS = st.dictionaries(st.sampled_from(["", "x", "y", "xy"]), st.integers(-5, 5).filter(bool))


def value(form: dict[str, int], x: int, y: int) -> int:
    """What a form of products of x and y is."""
    return sum(c * x ** term.count("x") * y ** term.count("y") for term, c in form.items())


@given(FORMS, FORMS, st.integers(-3, 3), st.integers(-9, 9), st.integers(-9, 9))
def test_values(a: dict[str, int], b: dict[str, int], factor: int, x: int, y: int) -> None:
    total = combined(a, b, factor)
    product = multiplied(a, b, lambda left, right: "".join(sorted(left + right)))
    assert value(total, x, y) == value(a, x, y) + factor * value(b, x, y)
    assert value(scaled(a, factor), x, y) == factor * value(a, x, y)
    assert value(product, x, y) == value(a, x, y) * value(b, x, y)
    assert all(all(form.values()) for form in (total, scaled(a, factor), product))


def test_arguments_stay_as_they_are() -> None:
    a, b = {"x": 1}, {"x": -1}
    assert combined(a, b) == {} and (a, b) == ({"x": 1}, {"x": -1})
    assert multiplied({}, a, lambda left, right: left + right) == {}
