"""Rescaling: factors that are found, terms that have none, and that a factor is one, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir import structural_equal, tir
from ir.tir.evaluate import evaluate
from schedules.rescaling import NotRescalable, Rescaling

X, M, V = (tir.Var(name, "float32") for name in "xmv")


def const(value: float) -> tir.PrimExpr:
    return tir.const(value, "float32")


def of_maximum() -> Rescaling:
    return Rescaling(M, X, is_maximum=True)


def gap(rescaling: Rescaling) -> tir.PrimExpr:
    return rescaling.before - rescaling.after


FOUND: dict[str, tuple[Any, Any]] = {
    "softmax": (tir.exp(X - M), lambda d: tir.exp(d)),
    "attention": (tir.exp(X - M) * V, lambda d: tir.exp(d)),
    "base two": (tir.exp2(X - M), lambda d: tir.exp2(d)),
    "temperature": (tir.exp((X - M) * 0.5), lambda d: tir.exp(const(0.5) * d)),
    "temperature by division": (tir.exp((X - M) / 4.0), lambda d: tir.exp(const(0.25) * d)),
    "scaled apart": (tir.exp(X * 2.0 - M * 2.0), lambda d: tir.exp(const(2.0) * d)),
    "the other way round": (tir.exp(const(0.0) - (M - X)), lambda d: tir.exp(d)),
    "shifted": (tir.exp(X - M + 2.0), lambda d: tir.exp(d)),
    "entropy": (tir.exp(X - M) * X, lambda d: tir.exp(d)),
    "squares": (tir.exp(X - M) * tir.exp(X - M), lambda d: tir.exp(d) * tir.exp(d)),
    "a divisor": (tir.exp(X - M) / V, lambda d: tir.exp(d)),
    "a sum": (tir.exp(X - M) * V + tir.exp(X - M), lambda d: tir.exp(d)),
    "a sum with nothing": (tir.exp(X - M) + 0.0, lambda d: tir.exp(d)),
    "a choice": (tir.Select(V > 0.0, tir.exp(X - M), tir.exp(X - M) * V), lambda d: tir.exp(d)),
    "a weight of 16 bits": (
        tir.Cast("float32", tir.Cast("float16", tir.exp(X - M))) * V,
        lambda d: tir.exp(d),
    ),
    "a scaled weight of 16 bits": (
        tir.Cast("float32", tir.Cast("bfloat16", tir.exp((X - M) * 0.5))),
        lambda d: tir.exp(const(0.5) * d),
    ),
    "a lazy choice": (tir.if_then_else(V > 0.0, tir.exp(X - M) * 2.0, tir.exp(X - M)), lambda d: tir.exp(d)),
}

REFUSED = {
    "a sine": (tir.sin(X - M), "nothing is known of"),
    "a difference": (X - M, "the result itself"),
    "a square": ((X - M) * (X - M), "the result itself"),
    "a summand of its own": (tir.exp(X - M + V), "may be large"),
    "what is left out": (tir.Select(V > 0.0, tir.exp(X - M), const(0.0)), "may leave out"),
    "a mask": (tir.if_then_else(V > 0.0, tir.exp(X - M), const(0.0)), "may leave out"),
    "growth": (tir.exp(M - X), "is not at most 1"),
    "another slope": (tir.exp(X - M * 2.0), "is not at most 1"),
    "the result alone": (tir.exp(const(0.0) - M), "is not at most 1"),
    "another number": (tir.exp(V - M), "may be large"),
    "a product of both": (tir.exp(X * M), "no sum of multiples"),
    "an unknown scale": (tir.exp((X - M) * V), "no sum of multiples"),
    "division by it": (V / tir.exp(X - M), "it divides by"),
    "different factors": (tir.exp(X - M) + tir.exp((X - M) * 2.0), "different factors"),
    "one more": (tir.exp(X - M) + 1.0, "different factors"),
    "a condition on it": (tir.Select(X >= M, const(1.0), const(0.0)), "depends on the result"),
    "rounding of a product": (tir.Cast("float16", tir.exp(X - M) * V), "keeps less"),
    "rounding of what may be large": (tir.Cast("float16", tir.exp(X - M + 20.0)), "keeps less"),
    "rounding to few bits": (tir.Cast("float8_e4m3fn", tir.exp(X - M)), "keeps less"),
    "rounding in the exponent": (tir.exp(tir.Cast("float16", X) - tir.Cast("float16", M)), "keeps less"),
    "a maximum": (tir.max(tir.exp(X - M), 0.5), "nothing is known of"),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_factor_is_found(name: str) -> None:
    term, expected = FOUND[name]
    rescaling = of_maximum()
    factor = rescaling.factor(term)
    assert factor is not None
    assert structural_equal(factor, expected(gap(rescaling))), factor


@pytest.mark.parametrize("name", REFUSED)
def test_a_term_without_a_factor_says_why(name: str) -> None:
    term, why = REFUSED[name]
    with pytest.raises(NotRescalable, match=why):
        of_maximum().factor(term)


def test_of_a_minimum_the_exponentials_grow_the_other_way() -> None:
    of_minimum = Rescaling(M, X, is_maximum=False)
    factor = of_minimum.factor(tir.exp(M - X))
    assert factor is not None
    assert structural_equal(factor, tir.exp(const(-1.0) * gap(of_minimum)))
    with pytest.raises(NotRescalable, match="smallest"):
        of_minimum.factor(tir.exp(X - M))


def test_what_is_stored_of_a_term_has_its_factor() -> None:
    rescaling, stored = of_maximum(), tir.Var("p", "float32")
    factor = rescaling.factor(tir.exp(X - M))
    rescaling.know(stored, factor)
    assert rescaling.factor(stored * V) is factor
    squared = rescaling.factor(stored * stored)
    assert squared is not None and structural_equal(
        squared, tir.exp(gap(rescaling)) * tir.exp(gap(rescaling))
    )
    with pytest.raises(NotRescalable, match="different factors"):
        rescaling.factor(stored + stored * stored)


def test_what_is_stored_of_an_exponential_may_be_rounded() -> None:
    rescaling, weight, other = of_maximum(), tir.Var("p", "float32"), tir.Var("q", "float32")
    term = tir.exp(X - M)
    rescaling.know(weight, rescaling.factor(term), rescaling.is_share(term))
    rescaling.know(other, rescaling.factor(term * V), rescaling.is_share(term * V))
    factor = rescaling.factor(tir.Cast("float32", tir.Cast("float16", weight)) * V)
    assert factor is not None and structural_equal(factor, tir.exp(gap(rescaling)))
    with pytest.raises(NotRescalable, match="keeps less"):
        rescaling.factor(tir.Cast("float16", other))


def test_a_term_that_is_relative_to_nothing_has_no_factor() -> None:
    assert of_maximum().factor(tir.exp(X) * V) is None


@given(
    name=st.sampled_from(sorted(FOUND)),
    x=st.floats(-4, 4),
    v=st.floats(0.25, 4),
    before=st.floats(0, 3),
    after=st.floats(0, 3),
)
def test_a_term_times_its_factor_is_the_term_relative_to_another_result(
    name: str, x: float, v: float, before: float, after: float
) -> None:
    term, _ = FOUND[name]
    rescaling = of_maximum()
    factor = rescaling.factor(term)
    assert factor is not None

    def value(expr: tir.PrimExpr, **names: float) -> float:
        known = {X: x, V: v, M: names["m"], rescaling.before: before, rescaling.after: after}
        return float(evaluate(expr, {var: np.asarray(number) for var, number in known.items()}))

    brought = value(factor, m=0.0) * value(term, m=before)
    rounding = 2**-7 if "16 bits" in name else 1e-5
    np.testing.assert_allclose(brought, value(term, m=after), rtol=rounding, atol=1e-6)
