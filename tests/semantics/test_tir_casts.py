"""Casts and bits: wrap, saturate, round once."""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ir import tir

from .running import holds, law, script

_WIDTHS = {
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "int8": 8,
    "uint8": 8,
    "int16": 16,
    "uint16": 16,
    "int32": 32,
    "uint32": 32,
}


def modulo(value: int, dtype: str) -> int:
    """Two's complement, by hand."""
    width = _WIDTHS.get(dtype, 64)
    rest = value % (1 << width)
    return rest - (1 << width) if dtype.startswith("int") and rest >> (width - 1) else rest


@pytest.mark.meaning("cast-int")
@pytest.mark.parametrize("dtype", [*_WIDTHS, "uint64"])
def test_integers_are_taken_modulo_the_width(dtype: str) -> None:
    values = [
        0,
        1,
        -1,
        7,
        8,
        127,
        128,
        255,
        256,
        -129,
        2**31 - 1,
        -(2**31),
        2**31,
        2**32,
        2**63 - 1,
        -(2**63),
    ]
    law(f'T.Cast("{dtype}", A[i])', {"A": (values, "int64")}, [modulo(v, dtype) for v in values], dtype)


@pytest.mark.meaning("cast-int")
def test_a_narrowing_cast_in_the_middle_is_arithmetic() -> None:
    values = [0, 100, 127, 128, 200, 255, 300]
    narrow = [modulo(v + 200, "int8") for v in values]
    law('T.Cast("int32", T.Cast("int8", A[i] + 200))', {"A": (values, "int32")}, narrow, "int32")
    law(
        'T.Cast("int32", T.Cast("int8", A[i] + 200)) < 0',
        {"A": (values, "int32")},
        [n < 0 for n in narrow],
        "bool",
    )


@pytest.mark.meaning("cast-int")
def test_loop_variables_are_narrowed_too() -> None:
    main = script(
        {"B": ((8,), "int32"), "C": ((10,), "bool")},
        "for i in T.vectorized(8):",
        '    B[i] = T.floormod(T.Cast("int32", T.Cast("int8", i) * T.Cast("int8", i) * T.int8(16)), 5)',
        "for i in range(10):",
        '    C[i] = T.Cast("int32", T.Cast("int8", i + 200)) < 0',
    )
    holds(
        main, [np.zeros(8, "int32"), np.zeros(10, "bool")], {0: [0, 1, 4, 4 - 1, 0, 3, 4, 1], 1: [True] * 10}
    )


@pytest.mark.meaning("cast-int", "packed")
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_narrow_integers_are_stored_and_loaded(dtype: str) -> None:
    values = [-9, -8, -3, -1, 0, 1, 2, 3, 5, 7, 8, 15, 16]
    main = script(
        {"A": ((13,), "int32"), "N": ((13,), dtype), "O": ((13,), "int32")},
        "for i in T.vectorized(13):",
        f'    N[i] = T.Cast("{dtype}", A[i])',
        "for i in T.vectorized(13):",
        '    O[i] = T.Cast("int32", N[i])',
    )
    expected = [modulo(v, dtype) for v in values]
    narrow = np.dtype(getattr(ml_dtypes, dtype))
    args = [np.array(values, "int32"), np.zeros(13, narrow), np.zeros(13, "int32")]
    holds(main, args, {1: np.array(expected, narrow), 2: expected})


@pytest.mark.meaning("cast-float-int")
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_floats_saturate(source: str, dtype: str) -> None:
    values = np.array(
        [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.5, -128.9, 200.0, 6e4, -6e4, 1e10, -1e10, 2.0**63, 1e30, np.inf, -np.inf, np.nan]
    ).astype(source)  # fmt: skip
    info = np.iinfo(dtype)

    def expected(value: float) -> int:
        if math.isnan(value):
            return 0
        bounded = min(max(value, -1e25), 1e25)
        return min(max(int(bounded), int(info.min)), int(info.max))

    law(f'T.Cast("{dtype}", A[i])', {"A": (values, source)}, [expected(float(v)) for v in values], dtype)


@pytest.mark.meaning("cast-float-int")
@pytest.mark.parametrize(
    "dtype, low, high", [("int4", -8, 7), ("uint4", 0, 15), ("int2", -2, 1), ("uint2", 0, 3)]
)
def test_floats_saturate_in_narrow_integers(dtype: str, low: int, high: int) -> None:
    values = [-100.0, -8.5, -2.0, -0.5, 0.0, 1.0, 1.99, 7.0, 9.0, 1e9, math.inf, -math.inf, math.nan]
    expected = [0 if math.isnan(v) else min(max(int(min(max(v, -1e9), 1e9)), low), high) for v in values]
    law(f'T.Cast("int32", T.Cast("{dtype}", A[i]))', {"A": (values, "float32")}, expected, "int32")


def rounded(value: int | float, dtype: str) -> float:
    """To nearest even, once, found among all numbers of a float of 16 bits or less; what is beyond them is left to ml_dtypes."""
    numbers, bits = finite_numbers(dtype)
    exact = Fraction(value)
    assert numbers[0] <= exact <= numbers[-1]
    at = bisect.bisect_right(numbers, exact)
    if numbers[at - 1] == exact:
        return numbers[at - 1]
    to_below, to_above = exact - Fraction(numbers[at - 1]), Fraction(numbers[at]) - exact
    if to_below == to_above:
        return numbers[at - 1] if bits[at - 1] % 2 == 0 else numbers[at]
    return numbers[at - 1] if to_below < to_above else numbers[at]


@functools.cache
def finite_numbers(dtype: str) -> tuple[list[float], list[int]]:
    """All finite numbers of a float in ascending order, but the negative zero, and how they are written."""
    numpy_dtype = np.dtype("float16") if dtype == "float16" else np.dtype(getattr(ml_dtypes, dtype))
    bits = np.arange(1 << (8 * numpy_dtype.itemsize), dtype=f"uint{8 * numpy_dtype.itemsize}")
    with np.errstate(all="ignore"):
        numbers = bits.view(numpy_dtype).astype("float64")
    finite = np.isfinite(numbers) & ((numbers != 0) | ~np.signbit(numbers))
    pairs = sorted(zip(numbers[finite].tolist(), bits[finite].tolist()))
    return [number for number, _ in pairs], [code for _, code in pairs]


@pytest.mark.meaning("cast-float")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_float64_is_rounded_once(dtype: str) -> None:
    """The values lie beside the middle of two narrow numbers, by less than float32 can tell."""
    values = [
        base * (1 + sign * 2.0**-step + tiny)
        for base in (1.0, -1.5, 0.25)
        for sign in (1, -1)
        for step in (3, 4, 8, 9, 11, 12)
        for tiny in (2.0**-40, 0.0, -(2.0**-40))
    ]
    expected = [rounded(v, dtype) for v in values]
    law(f'T.Cast("{dtype}", A[i])', {"A": (values, "float64")}, expected, dtype)


_FEW_BITS = ["float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"]


@pytest.mark.meaning("cast-float", "cast-float-int", "cast-bool")
@pytest.mark.parametrize("dtype", _FEW_BITS)
def test_every_float_of_a_few_bits(dtype: str) -> None:
    """All codes become the numbers that they are, and these become the codes again."""
    width = int(dtype[5])
    numbers = np.arange(1 << width, dtype="uint8").view(np.dtype(getattr(ml_dtypes, dtype)))
    wide = numbers.astype("float32")
    for target in ("float32", "float64", "bfloat16"):
        law(f'T.Cast("{target}", A[i])', {"A": (numbers, dtype)}, wide, target)
    law(f'T.Cast("{dtype}", A[i])', {"A": (wide, "float32")}, numbers, dtype)
    whole = [0 if math.isnan(v) else min(max(int(v), -(2**31)), 2**31 - 1) for v in wide.tolist()]
    law('T.Cast("int32", A[i])', {"A": (numbers, dtype)}, whole, "int32")
    law('T.Cast("bool", A[i])', {"A": (numbers, dtype)}, wide != 0, "bool")


@pytest.mark.meaning("cast-float", "cast-int-float", "half-carry")
@pytest.mark.parametrize(
    "dtype, largest", [("float6_e2m3fn", 7.5), ("float6_e3m2fn", 28.0), ("float4_e2m1fn", 6.0)]
)
def test_floats_without_infinities_and_nan(dtype: str, largest: float) -> None:
    tiny = 2.0**-40
    values = [b * (1 + s) for b in np.arange(-96, 97) / 16 for s in (0.0, tiny, -tiny) if abs(b) < largest]
    nearest = [math.copysign(rounded(v, dtype), v) for v in values]
    law(f'T.Cast("{dtype}", A[i])', {"A": (values, "float64")}, nearest, dtype)
    beyond = [1e30, -1e30, math.inf, -math.inf, largest * 1.1, -largest * 1.1]
    law(f'T.Cast("{dtype}", A[i])', {"A": (beyond, "float32")}, np.copysign(largest, beyond), dtype)
    law(f'T.Cast("{dtype}", A[i])', {"A": ([math.nan], "float32")}, [0.0], dtype, signs=False)
    whole = [0, 1, 2, 3, 5, -3, 1000, -(2**31)]
    expected = [
        max(min(rounded(max(min(v, 6), -6), dtype) if abs(v) < 6 else v, largest), -largest) for v in whole
    ]
    law(f'T.Cast("{dtype}", A[i])', {"A": (whole, "int32")}, expected, dtype)
    sums = [rounded(v, dtype) for v in (0.5, 1.5, 1.5, 4.5)]  # the same, carried or not
    law(f'A[i] * A[i] + T.Cast("{dtype}", 0.5)', {"A": ([0.0, 1.0, -1.0, 2.0], dtype)}, sums, dtype)


@pytest.mark.meaning("cast-float", "cast-int-float")
def test_powers_of_two() -> None:
    dtype = "float8_e8m0fnu"
    values = [
        1.0,
        1.49,
        1.5,
        3.0,
        2.99,
        2.0**127,
        1.5 * 2.0**127,
        3.4e38,
        2.0**-126,
        2.0**-127,
        2.0**-149,
        0.0,
        -0.0,
        -1.0,
        math.inf,
    ]
    nan = math.nan
    expected = [
        1.0,
        1.0,
        2.0,
        4.0,
        2.0,
        2.0**127,
        nan,
        nan,
        2.0**-126,
        2.0**-127,
        2.0**-127,
        nan,
        nan,
        nan,
        nan,
    ]
    law(f'T.Cast("{dtype}", A[i])', {"A": (values, "float32")}, expected, dtype)
    beside = [1.5 - 2.0**-40, 1.5, 3.0 * (1 - 2.0**-40), 2.0**200, 2.0**-200]
    law(f'T.Cast("{dtype}", A[i])', {"A": (beside, "float64")}, [1.0, 2.0, 2.0, nan, 2.0**-127], dtype)
    whole = [3 << 28, (3 << 28) - 1, 2**31 - 1, 1, 0, -1]
    law(
        f'T.Cast("{dtype}", A[i])', {"A": (whole, "int32")}, [2.0**30, 2.0**29, 2.0**31, 1.0, nan, nan], dtype
    )


@pytest.mark.meaning("cast-float")
@pytest.mark.parametrize(
    "dtype, beyond",
    [("float16", math.inf), ("bfloat16", math.inf), ("float8_e5m2", math.inf), ("float8_e4m3fn", math.nan)],
)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_what_a_narrow_float_does_not_hold(source: str, dtype: str, beyond: float) -> None:
    values = [3.4e38, -3.4e38, math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0]
    expected = [beyond, -beyond, beyond, -beyond, math.nan, 0.0, -0.0, 1.0]
    law(f'T.Cast("{dtype}", A[i])', {"A": (values, source)}, expected, dtype)


@pytest.mark.meaning("cast-float")
def test_float64_to_float32_and_back() -> None:
    values = [
        1 + 2.0**-24,
        1 + 2.0**-24 + 2.0**-50,
        1e300,
        -1e300,
        1e-310,
        2.0**-149,
        2.0**-150,
        3 * 2.0**-151,
        math.nan,
    ]
    expected = np.array(values).astype("float32")
    law('T.Cast("float32", A[i])', {"A": (values, "float64")}, expected, "float32")
    law('T.Cast("float64", A[i])', {"A": (expected, "float32")}, expected.astype("float64"), "float64")


@pytest.mark.meaning("cast-int-float")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_integers_are_rounded_once(dtype: str) -> None:
    """33-bit numbers beside the middle of two bfloat16s, which the middle of two float32s would move onto it."""
    values = [
        2**30 + 2**22 + 1,
        2**30 + 2**22,
        2**30 + 2**22 - 1,
        3 * 2**30 + 2**22 + 1,
        -(2**30) - 2**22 - 1,
        257,
        2049,
        4097,
        1,
    ]
    if dtype == "float16":
        values = [2049, 2050, 2051, 4097, 4098, 4099, 4102, 65504, -2049, -4097, 12345]
    law(f'T.Cast("{dtype}", A[i])', {"A": (values, "int64")}, [rounded(v, dtype) for v in values], dtype)


@pytest.mark.meaning("cast-int-float")
@pytest.mark.parametrize("source", ["int64", "uint64"])
def test_wide_integers_to_float32(source: str) -> None:
    values = [2**24 + 1, 2**53 + 1, 2**60 + 2**36 + 1, 2**60 + 2**36, 2**62 + 2**38 + 1, 2**63 - 1]
    if source == "uint64":
        values += [2**64 - 1, 2**63 + 2**39 + 1]

    def nearest(value: int) -> float:
        step = 2 ** max(value.bit_length() - 24, 0)
        low = value // step
        up = Fraction(value - low * step, step)
        return float((low + (up > Fraction(1, 2) or (up == Fraction(1, 2) and low % 2 == 1))) * step)

    law('T.Cast("float32", A[i])', {"A": (values, source)}, [nearest(v) for v in values], "float32")


@pytest.mark.meaning("cast-bool")
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint64", "float16", "float32", "float64"])
def test_numbers_as_truth_values(dtype: str) -> None:
    values: list[float] = [0, 1, 2, 3, 100]
    if dtype.startswith("float"):
        values += [-0.0, 0.5, -1.0, math.nan, math.inf]
    law('T.Cast("bool", A[i])', {"A": (values, dtype)}, [v != 0 for v in values], "bool")
    law(f'T.Cast("{dtype}", A[i])', {"A": ([False, True], "bool")}, [0, 1], dtype)


@pytest.mark.meaning("reinterpret")
def test_bits_stay() -> None:
    floats = np.array([0.0, -0.0, 1.0, -2.5, np.inf], "float32")
    law('T.reinterpret("int32", A[i])', {"A": (floats, "float32")}, floats.view("int32"), "int32")
    law('T.reinterpret("float32", A[i])', {"A": (floats.view("uint32"), "uint32")}, floats, "float32")
    law('T.reinterpret("uint8", A[i])', {"A": ([0, -1, -128, 127], "int8")}, [0, 255, 128, 127], "uint8")


@pytest.mark.meaning("mixed")
@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("bool", "uint8", "uint8"),
        ("int8", "float16", "float16"),
        ("int64", "float32", "float32"),
        ("int8", "int32", "int32"),
        ("uint8", "int16", "int16"),
        ("int8", "uint8", "uint8"),
        ("int64", "uint64", "uint64"),
        ("float16", "bfloat16", "float32"),
        ("float32", "float64", "float64"),
    ],
)
def test_two_dtypes_meet_in_one(first: str, second: str, common: str) -> None:
    for a, b in ((first, second), (second, first)):
        assert (tir.Var("a", a) * tir.Var("b", b)).dtype == common


@pytest.mark.meaning("mixed")
def test_python_numbers_take_the_dtype_beside_them() -> None:
    x, y = tir.Var("x", "int8"), tir.Var("y", "float16")
    found = [
        (x * 3).dtype,
        (x * 300).dtype,
        (x * (1 << 40)).dtype,
        (x * 1.5).dtype,
        (y * 3).dtype,
        (y * 1.5).dtype,
    ]
    assert found == ["int8", "int32", "int64", "float32", "float16", "float16"]
    program = script(
        {"A": ((4,), "int8"), "O": ((4,), "int32")}, "for i in range(4):", "    O[i] = A[i] * 3 + A[i] * 300"
    )
    data = np.array([1, 50, -128, 127], "int8")
    wrapped = (data * np.int8(3)).astype("int32") + data.astype("int32") * 300
    holds(program, [data, np.zeros(4, "int32")], {1: wrapped})


@pytest.mark.meaning("mixed")
def test_what_is_stored_is_cast_to_the_dtype_of_the_buffer() -> None:
    program = script(
        {"A": ((2,), "float32"), "O": ((2,), "int8")}, "for i in range(2):", "    O[i] = A[i] * T.float32(2)"
    )
    holds(program, [np.array([0.9, 100.0], "float32"), np.zeros(2, "int8")], {1: np.array([1, 127], "int8")})


@pytest.mark.meaning("cast-bool")
@pytest.mark.parametrize("value", [
    "T.Select(A[i], 1, 0)", "T.if_then_else(A[i], 1, 0)", "T.Cast('int32', A[i] and B[i])",
    "1 - T.Cast('int32', not A[i] or not B[i])",
])  # fmt: skip
def test_an_integer_as_a_condition_is_cast_to_bool(value: str) -> None:
    a, b = [0, 1, 256, -1, 0, 2], [4, -1, 256, 1, 0, 3]
    law(value, {"A": (a, "int32"), "B": (b, "int32")}, [x != 0 for x in a], "int32")


@pytest.mark.meaning("cast-bool")
def test_statements_take_integers_as_conditions() -> None:
    program = script(
        {"A": ((3,), "int32")},
        "assert A[0]",
        "while A[0]:",
        "    A[0] = A[0] - 1",
        "if A[1]:",
        "    A[2] = 5",
    )
    holds(program, [np.array([3, 256, 1], "int32")], {0: [0, 256, 5]})
