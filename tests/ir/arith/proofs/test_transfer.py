"""Bounds and modular sets of every operation hold for all values of small types, and folding computes what the operations mean.

The code itself is run: on variables of int4 and uint4 with every interval as bounds (data, which wraps), and on int32 variables with
intervals around zero, open ends included (index arithmetic).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.arith import Analyzer, ConstIntBound, ModularSet
from ir.arith.const_int_bound import NEG_INF, POS_INF
from ir.tir import operators

from .numbers import Samples

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": tir.Add, "sub": tir.Sub, "mul": tir.Mul, "floordiv": tir.FloorDiv, "floormod": tir.FloorMod,
    "truncdiv": tir.Div, "truncmod": tir.Mod, "minimum": tir.Min, "maximum": tir.Max,
}  # fmt: skip
DIVIDES = ("floordiv", "floormod", "truncdiv", "truncmod")


def intervals(low: int, high: int, step: int) -> list[tuple[int, int]]:
    ends = range(low, high + 1, step)
    return [(a, b) for a, b in itertools.product(ends, ends) if a <= b]


def values_of(numbers: Samples, name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What an operation gives for all pairs of two ranges of values, divisors of zero left out."""
    b = b[b != 0] if name in DIVIDES else b
    return np.asarray(getattr(numbers, name)(a[:, None], b[None, :])).ravel()


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_bounds_of_data(name: str, signed: bool) -> None:
    dtype = "int4" if signed else "uint4"
    numbers, whole = Samples([], 4, signed), Samples([])
    x, y = tir.Var("x", dtype), tir.Var("y", dtype)
    expr = OPERATIONS[name](x, y)
    analyzer = Analyzer()
    for one, two in itertools.product(intervals(numbers.low, numbers.high, 3), repeat=2):
        analyzer.update(x, ConstIntBound(*one), override=True)
        analyzer.update(y, ConstIntBound(*two), override=True)
        a, b = np.arange(one[0], one[1] + 1), np.arange(two[0], two[1] + 1)
        found = values_of(numbers, name, a, b)
        if not len(found):
            continue
        bound = analyzer.const_int_bound(expr)
        assert bound.min_value <= found.min() and found.max() <= bound.max_value, (one, two, bound)
        exact = values_of(whole, name, a, b)
        if analyzer._data._bounds.exact(expr):
            assert (exact == found).all(), (one, two)


@pytest.mark.parametrize("name", OPERATIONS)
def test_bounds_of_numbers(name: str) -> None:
    x, y = tir.Var("x"), tir.Var("y")
    expr = OPERATIONS[name](x, y)
    analyzer, far = Analyzer(), 40
    ends = [NEG_INF, -7, -2, -1, 0, 1, 3, 6, POS_INF]
    domains = [(a, b) for a, b in itertools.combinations_with_replacement(ends, 2) if abs(a) < far or a != b]
    for one, two in itertools.product(domains, repeat=2):
        analyzer.update(x, ConstIntBound(*one), override=True)
        analyzer.update(y, ConstIntBound(*two), override=True)
        a, b = (np.arange(max(low, -far), min(high, far) + 1) for low, high in (one, two))
        found = values_of(Samples([]), name, a, b)
        if not len(found):
            continue
        bound = analyzer.const_int_bound(expr)
        assert bound.min_value <= found.min() and found.max() <= bound.max_value, (one, two, bound)


@pytest.mark.parametrize("dtype", ["int32", "int4", "uint4"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_modular_sets(name: str, dtype: str) -> None:
    bits = 0 if dtype == "int32" else 4
    numbers = Samples([], bits, dtype[0] == "i", reach=24)
    everything = np.arange(numbers.low, numbers.high + 1)
    x, y = tir.Var("x", dtype), tir.Var("y", dtype)
    expr = OPERATIONS[name](x, y)
    sets = [(coeff, base) for coeff in (1, 2, 3, 4, 6, 8) for base in range(coeff)]
    constants = [(0, value) for value in (-3, -2, -1, 1, 2, 4, 5) if numbers.low <= value <= numbers.high]
    analyzer = Analyzer()
    for one, two in itertools.product(sets, sets + constants):
        analyzer.update(x, ModularSet(*one), override=True)
        analyzer.update(y, ModularSet(*two), override=True)
        a, b = (_members(everything, *item) for item in (one, two))
        found = values_of(numbers, name, a, b)
        if not len(found):
            continue
        known = analyzer.modular_set(expr)
        assert (
            (found == known.base).all() if known.coeff == 0 else (found % known.coeff == known.base).all()
        ), (
            one,
            two,
            known,
        )


def _members(values: np.ndarray, coeff: int, base: int) -> np.ndarray:
    return values[values % coeff == base] if coeff else np.array([base])


@pytest.mark.parametrize("narrow", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("wide", ["int4", "uint4", "int8"])
def test_casts(wide: str, narrow: str) -> None:
    source = Samples([], int(wide.lstrip("uint")), wide[0] == "i")
    target = Samples([], int(narrow.lstrip("uint")), narrow[0] == "i")
    x = tir.Var("x", wide)
    expr = tir.Cast(narrow, x)
    analyzer = Analyzer()
    step = 3 if wide != "int8" else 29
    for low, high in intervals(source.low, source.high, step):
        values = target._wrapped(np.arange(low, high + 1))
        analyzer.update(x, ConstIntBound(low, high), override=True)
        bound = analyzer.const_int_bound(expr)
        assert bound.min_value <= values.min() and values.max() <= bound.max_value
        for coeff, base in ((1, 0), (2, 1), (3, 2), (6, 4)):
            analyzer.update(x, ModularSet(coeff, base), override=True)
            known = analyzer.modular_set(expr)
            members = values[np.arange(low, high + 1) % coeff == base]
            assert (members % known.coeff == known.base).all() if known.coeff else len(members) == 0
        analyzer.update(x, ModularSet(1, 0), override=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("name", "fold"),
    [
        ("add", operators.add), ("sub", operators.subtract), ("mul", operators.multiply),
        ("floordiv", operators.floordiv), ("floormod", operators.floormod), ("truncdiv", operators.truncdiv),
        ("truncmod", operators.truncmod), ("minimum", operators.min), ("maximum", operators.max),
        ("lt", partial(operators.compare, tir.LT)), ("le", partial(operators.compare, tir.LE)),
        ("eq", partial(operators.compare, tir.EQ)),
    ],
)  # fmt: skip
def test_folding_of_integers(name: str, fold: Callable[[Any, Any], Any], dtype: str) -> None:
    numbers = Samples([], 8, dtype == "int8")
    for a, b in itertools.product(range(numbers.low, numbers.high + 1, 3), repeat=2):
        if name in DIVIDES and b == 0:
            continue
        expected = getattr(numbers, name)(np.int64(a), np.int64(b))
        assert fold(operators.const(a, dtype), operators.const(b, dtype)).value == int(expected), (a, b)


def test_the_smallest_number_divided_by_minus_one_wraps() -> None:
    low, one = operators.const(-128, "int8"), operators.const(-1, "int8")
    for divide in (operators.floordiv, operators.truncdiv):
        assert divide(low, one).value == -128
    for rest in (operators.floormod, operators.truncmod):
        assert rest(low, one).value == 0


HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
"""Every float16."""


def same_halves(a: np.ndarray, b: np.ndarray) -> bool:
    nan = np.isnan(a)
    return bool((nan == np.isnan(b)).all() and (a[~nan].view(np.uint16) == b[~nan].view(np.uint16)).all())


def test_division_by_a_power_of_two() -> None:
    """``x / c`` is ``x * (1 / c)`` for every float16, exactly where the simplifier writes it so."""
    x = tir.Var("x", "float16")
    products = 0
    for exponent in range(-24, 16):
        for sign in (1, -1):
            divisor = np.float16(sign * 2.0**exponent)
            found = Analyzer().simplify_data(tir.Div(x, tir.const(float(divisor), "float16")))
            with np.errstate(all="ignore"):
                quotient = HALVES / divisor
                if isinstance(found, tir.Mul):
                    products += 1
                    assert same_halves(quotient, HALVES * np.float16(found.b.value)), divisor
    assert products >= 50
    for divisor in (3.0, 41.0, 0.1, 0.0, float("inf"), float("nan"), 2.0**-24):
        assert isinstance(Analyzer().simplify_data(tir.Div(x, tir.const(divisor, "float16"))), tir.Div)


@pytest.mark.parametrize(
    ("gone", "meaning"),
    [
        (lambda x: x + -0.0, lambda x: x + np.float16(-0.0)),
        (lambda x: x - 0.0, lambda x: x - np.float16(0.0)),
        (lambda x: x * 1.0, lambda x: x * np.float16(1.0)),
        (lambda x: x / 1.0, lambda x: x / np.float16(1.0)),
    ],
)
def test_neutral_floats(gone: Callable[[Any], Any], meaning: Callable[[Any], Any]) -> None:
    x = tir.Var("x", "float16")
    with np.errstate(invalid="ignore"):
        assert gone(x) is x and same_halves(HALVES, meaning(HALVES))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_folding_of_floats_rounds_once(dtype: str) -> None:
    import ml_dtypes

    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype).type
    random = np.random.default_rng(7)
    numbers = (random.standard_normal(60) * 10.0 ** random.integers(-3, 4, 60)).astype(kind)
    for a, b in itertools.product(numbers[:30], numbers[30:]):
        x, y = tir.const(float(a), dtype), tir.const(float(b), dtype)
        for fold, exact in (
            (operators.add, np.longdouble(a) + np.longdouble(b)),
            (operators.multiply, np.longdouble(a) * np.longdouble(b)),
            (operators.div, np.longdouble(a) / np.longdouble(b)),
        ):
            value = fold(x, y).value  # type: ignore[attr-defined]
            assert float(kind(value)) == value
            if not np.isfinite(value):
                assert abs(exact) > float(ml_dtypes.finfo(kind).max)
                continue
            below, above = (
                np.longdouble(float(np.nextafter(kind(value), kind(end)))) for end in (-np.inf, np.inf)
            )
            assert abs(exact - value) <= min(abs(exact - below), abs(exact - above)), (a, b, fold)
