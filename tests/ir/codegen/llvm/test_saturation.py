"""Floats to integers: saturated, NaN is 0, at every width and number of lanes; no care where the range is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ir import dtype as dt
from ir.codegen.build import build
from ir.script import from_source

INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (4, 8, 16, 32, 64)]


def saturated(value: float, dtype: str) -> int:
    """The nearest integer towards zero that a dtype holds."""
    low, high = dt.integer_range(dtype)
    if math.isnan(value):
        return 0
    return min(max(int(value), low), high) if math.isfinite(value) else (low if value < 0 else high)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
def test_what_does_not_fit(source: str, target: str, kind: str) -> None:
    low, high = map(float, dt.integer_range(target))
    edges = [
        low,
        high,
        low - 1,
        high + 1,
        low * 1.01,
        high * 1.01,
        low + 0.5,
        high - 0.5,
        low - 0.9,
        high + 0.9,
    ]
    others = [0.5, -0.5, -0.99, 1.99, -1.0, 4.4, -7.7, 1e10, -1e10, 1e19, -1e19, 1e30, -1e30]
    with np.errstate(all="ignore"):
        a = np.array([*edges, *others, math.inf, -math.inf, math.nan, -math.nan]).astype(dt.to_numpy(source))
    count = len(a)
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer(({count},), "{source}"), C: T.Buffer(({count},), "{target}")):
        for i in T.{kind}({count}):
            C[i] = T.Cast("{target}", A[i])"""
    )
    c = np.ones(count, dt.to_numpy(target))
    build(func)["main"](a, c)
    expected = [saturated(float(value), target) for value in a]
    np.testing.assert_array_equal(c.astype(object), np.array(expected, object))


@pytest.mark.parametrize(
    ("value", "selections"),
    [
        ('T.Cast("int32", T.floor(T.Cast("float32", i) * T.float32(0.5)))', 0),
        ('T.Cast("int32", T.Cast("float32", i + 3) / T.float32(2.5))', 0),
        (
            'T.Cast("int8", T.min(T.max(A[i], T.float32(-128)), T.float32(127)))',
            1 + 4,
        ),  # perhaps NaN, and four of the extremes
        ('T.Cast("uint8", T.max(T.min(A[i], T.float32(255)), T.float32(0)))', 1 + 4),
        ('T.Cast("int8", A[i])', 3),
    ],
)
def test_what_is_known_to_fit_costs_nothing(value: str, selections: int) -> None:
    dtype = value.split('"')[1]
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "{dtype}")):
        for i in T.vectorized(8):
            C[i] = {value}"""
    )
    assert build(func, "llvm -mcpu=x86-64-v3").llvm_ir.count("select <") == selections
