"""Division towards zero: one definition for Python's integers and numpy's, held against exact fractions and C."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ir.integer import truncated_quotient, truncated_remainder


def test_python_integers() -> None:
    for a in range(-20, 21):
        for b in [*range(-7, 0), *range(1, 8)]:
            assert truncated_quotient(a, b) == math.trunc(Fraction(a, b))
            assert truncated_remainder(a, b) == math.fmod(a, b)
    large = 10**30 + 1
    assert truncated_quotient(-large, 2) == -(10**30 // 2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_arrays_keep_their_dtype_and_wrap(dtype: str) -> None:
    a = np.arange(-128 if dtype != "uint8" else 0, 128).astype(dtype)
    for divisor in (1, 2, 7, 100, -1, -3, -128):
        if dtype == "uint8" and divisor < 0:
            continue
        b = np.full_like(a, divisor)
        with np.errstate(over="ignore"):
            quotient, remainder = truncated_quotient(a, b), truncated_remainder(a, b)
        exact = np.array([math.trunc(Fraction(int(x), divisor)) for x in a])
        assert quotient.dtype == remainder.dtype == a.dtype
        np.testing.assert_array_equal(quotient, exact.astype(dtype))
        np.testing.assert_array_equal(remainder, np.fmod(a, b))
