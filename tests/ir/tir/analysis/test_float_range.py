"""What is known of floats: intervals that hold every value, and NaN."""

from __future__ import annotations

import math

import pytest

from ir import dtype as dt
from ir.tir import (
    Broadcast,
    BufferLoad,
    Cast,
    Div,
    IntImm,
    Max,
    Min,
    PrimExpr,
    Select,
    Var,
    const,
    decl_buffer,
)
from ir.tir.analysis.float_range import ANY_FLOAT, FloatRange, float_range
from ir.tir.intrinsic.rounding import floor

I = Var("i", "int32")
X = BufferLoad(decl_buffer((8,), "float32"), [I])


def bounds(expr: PrimExpr) -> tuple[int, int]:
    """A variable lies between -10 and 20."""
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    return (-10, 20) if expr is I else dt.integer_range(expr.dtype)


def f32(value: float) -> PrimExpr:
    return const(value, "float32")


def test_what_is_read_may_be_anything() -> None:
    assert float_range(X, bounds) == ANY_FLOAT
    assert float_range(X + f32(1), bounds) == ANY_FLOAT


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (Cast("float32", I), -10, 20),
        (Cast("float32", I) * f32(0.5), -5, 10),
        (Cast("float32", I) - f32(2), -12, 18),
        (Cast("float32", I) / f32(-4), -5, 2.5),
        (floor(Cast("float32", I) * f32(0.3)), -3, 6),
        (Select(I < 3, f32(2), Cast("float32", I)), -10, 20),
        (Broadcast(f32(7), 4), 7, 7),
    ],
)
def test_arithmetic_on_known_numbers(expr: PrimExpr, low: float, high: float) -> None:
    found = float_range(expr, bounds)
    assert found.is_finite
    assert found.low <= low
    assert found.high >= high
    assert found.high - found.low < 2 * (high - low) + 1


def test_clamped_values_may_still_be_nan() -> None:
    assert float_range(Min(Max(X, f32(-128)), f32(127)), bounds) == FloatRange(-128.0, 127.0, True)
    assert float_range(Max(Cast("float32", I), f32(0)), bounds) == FloatRange(0.0, 20.0, False)


@pytest.mark.parametrize(
    "expr",
    [
        f32(1) / Cast("float32", I),
        f32(3e38) * f32(3e38),
        Div(f32(1), f32(1e-30)),
        const(math.nan, "float32"),
        Cast("float16", I) * const(60000, "float16"),
    ],
)
def test_what_may_overflow_or_be_no_number_is_unknown(expr: PrimExpr) -> None:
    assert not float_range(expr, bounds).is_finite


def test_a_bound_is_rounded_as_the_value_is() -> None:
    nearly = const(127.9999, "float64")
    found = float_range(Cast("float16", Min(Cast("float64", X), nearly)), bounds)
    assert found.high == 128.0


def test_what_an_expression_shares_is_looked_at_once() -> None:
    asked: list[PrimExpr] = []
    value: PrimExpr = Cast("float32", I)
    for _ in range(12):
        value = value * f32(0.25) - value

    def counted(expr: PrimExpr) -> tuple[int, int]:
        asked.append(expr)
        return bounds(expr)

    found = float_range(value, counted)
    assert asked == [I] and found.is_finite
