"""Formats of floats, and how roundings add up."""

from __future__ import annotations

import numpy as np
import pytest

from runners.verify.rounding import format_of, growth, holds


@pytest.mark.parametrize(
    ("dtype", "digits", "largest"),
    [
        ("float32", 24, 3.4028234663852886e38),
        ("float16", 11, 65504.0),
        ("bfloat16", 8, 3.3895313892515355e38),
    ],
)
def test_formats(dtype: str, digits: int, largest: float) -> None:
    form = format_of(dtype)
    assert form.unit == 2.0**-digits and form.whole == 2.0**digits and form.largest == largest
    assert 0 < form.tiny < form.unit


def test_which_integers_a_float_holds() -> None:
    assert holds("float32", "int16") and not holds("float32", "int32")
    assert holds("bfloat16", "uint8") and not holds("bfloat16", "int16")


@pytest.mark.parametrize("n_terms", [100, 10_000])
def test_sums_of_random_numbers_stay_within(n_terms: int) -> None:
    rng = np.random.default_rng(n_terms)
    for shift in (0.0, 0.5):  # of both signs, and positive
        terms = rng.random((n_terms, 200), np.float32) - np.float32(shift)
        total = np.zeros(200, np.float32)
        for row in terms:
            total += row
        exact, mass = terms.astype(np.float64).sum(axis=0), np.abs(terms).astype(np.float64).sum(axis=0)
        unit = format_of("float32").unit
        assert (np.abs(total - exact) <= growth(n_terms, unit) * unit * mass).all()
