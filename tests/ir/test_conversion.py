"""Numbers and arrays are converted alike, and rounded once: to the nearest of all numbers of the type, found by exact fractions."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.conversion import as_array, cast_array, constant_array, round_float
from ir.dtype import to_numpy
from ir.error import IRValueError

NARROW = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float4_e2m1fn"]


@cache
def numbers(dtype: str) -> list[tuple[Fraction, int]]:
    """The finite numbers of a type in order, each with its code."""
    kind = to_numpy(dtype)
    width = int(dtype[5]) if dtype[5:7] in ("6_", "4_") else 8 * kind.itemsize
    codes = np.arange(1 << width, dtype=f"uint{8 * kind.itemsize}")
    with np.errstate(all="ignore"):
        values = codes.view(kind).astype("float64")
    return sorted((Fraction(v), int(c)) for v, c in zip(values, codes) if np.isfinite(v) and str(v) != "-0.0")


def nearest(value: Fraction, dtype: str) -> float:
    """To nearest, ties to the even code; for values between two numbers of the type."""
    known = numbers(dtype)
    place = bisect_left(known, (value, -1))
    above, below = known[place], known[place if known[place][0] == value else place - 1]
    left, right = value - below[0], above[0] - value
    if left == right:
        return float(below[0] if below[1] % 2 == 0 else above[0])
    return float(below[0] if left < right else above[0])


def largest(dtype: str) -> float:
    return float(numbers(dtype)[-1][0])


@pytest.mark.meaning("cast-float", "op-reference")
@pytest.mark.parametrize("dtype", NARROW)
def test_floats_are_rounded_once(dtype: str) -> None:
    """Values in the middle between two numbers, and beside it by less than float32 can tell."""
    known = [float(value) for value, _ in numbers(dtype)]
    step = max(1, len(known) // 100)
    middles = [(a + b) / 2 for a, b in zip(known[::step], known[1::step])]
    values = np.array([m * (1 + tiny) for m in middles for tiny in (0.0, 2.0**-45, -(2.0**-45))])
    expected = [nearest(Fraction(v), dtype) for v in values.tolist()]
    np.testing.assert_array_equal(cast_array(values, dtype).astype("float64"), expected)
    np.testing.assert_array_equal([round_float(v, dtype) for v in values.tolist()], expected)
    folded = [tir.cast(dtype, tir.const(v, "float64")).value for v in values.tolist()]
    np.testing.assert_array_equal(folded, expected)


@pytest.mark.meaning("cast-int-float", "op-reference")
@pytest.mark.parametrize("source", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("dtype", NARROW)
def test_integers_are_rounded_once(dtype: str, source: str) -> None:
    """Middles between two numbers, and beside them by one, up to the ends of the type."""
    info, limit = np.iinfo(source), int(largest(dtype))
    bases = [
        (2**digits + 2**position) << shift
        for digits in (2, 7, 8, 10)
        for position in (0, 1)
        for shift in range(0, 56, 5)
    ]
    signed = [sign * base + beside for base in bases for sign in (1, -1) for beside in (-1, 0, 1)]
    chosen = [v for v in signed if info.min <= v <= info.max and abs(v) < limit] + [0]
    expected = [nearest(Fraction(v), dtype) for v in chosen]
    np.testing.assert_array_equal(cast_array(np.array(chosen, source), dtype).astype("float64"), expected)
    np.testing.assert_array_equal([tir.cast(dtype, tir.const(v, source)).value for v in chosen], expected)


@pytest.mark.parametrize("convert", [as_array, constant_array])
def test_masked_elements_have_no_value(convert: Any) -> None:
    values = np.arange(4.0)
    with pytest.raises(IRValueError, match=r"give them one: array\.filled\(0\)"):
        convert(np.ma.masked_less(values, 2))
    np.testing.assert_array_equal(convert(np.ma.array(values)), values)
