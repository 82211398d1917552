"""Division, remainder and shifts of integers and floats."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ir.script import from_source
from ir.script import tir as T

from .running import holds, law, refused, script, undefined

_PAIRS = [
    (7, 2),
    (-7, 2),
    (7, -2),
    (-7, -2),
    (6, 3),
    (-6, 3),
    (0, 5),
    (1, 127),
    (-1, 127),
    (100, -7),
    (-128, 3),
    (127, -128),
]
_SIGNED = ["int8", "int16", "int32", "int64"]


def truncated(a: int, b: int) -> int:
    return int(math.copysign(abs(a) // abs(b), a * b)) if a else 0


@pytest.mark.meaning("div-floor")
@pytest.mark.parametrize("dtype", _SIGNED)
def test_floor_division(dtype: str) -> None:
    inputs = {"A": ([a for a, _ in _PAIRS], dtype), "B": ([b for _, b in _PAIRS], dtype)}
    law("A[i] // B[i]", inputs, [a // b for a, b in _PAIRS], dtype)
    law("T.floormod(A[i], B[i])", inputs, [a % b for a, b in _PAIRS], dtype)
    law("A[i] // B[i] * B[i] + T.floormod(A[i], B[i])", inputs, [a for a, _ in _PAIRS], dtype)


@pytest.mark.meaning("div-trunc")
@pytest.mark.parametrize("dtype", _SIGNED)
def test_truncating_division(dtype: str) -> None:
    inputs = {"A": ([a for a, _ in _PAIRS], dtype), "B": ([b for _, b in _PAIRS], dtype)}
    law("T.truncdiv(A[i], B[i])", inputs, [truncated(a, b) for a, b in _PAIRS], dtype)
    law("T.truncmod(A[i], B[i])", inputs, [a - truncated(a, b) * b for a, b in _PAIRS], dtype)


@pytest.mark.meaning("div-floor", "div-trunc")
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, 16, -1, -2, -5])
def test_division_by_a_constant(divisor: int) -> None:
    values = [-(2**31), -(2**31) + 1, -100, -17, -8, -7, -1, 0, 1, 6, 7, 8, 15, 16, 2**31 - 1]
    wrapped = [(v // divisor + 2**31) % 2**32 - 2**31 for v in values]
    inputs = {"A": (values, "int32")}
    law(f"A[i] // T.int32({divisor})", inputs, wrapped, "int32")
    law(f"T.floormod(A[i], T.int32({divisor}))", inputs, [v % divisor for v in values], "int32")
    law(
        f"T.truncmod(A[i], T.int32({divisor}))",
        inputs,
        [v - truncated(v, divisor) * divisor for v in values],
        "int32",
    )


@pytest.mark.meaning("div-floor", "div-trunc")
@pytest.mark.parametrize("dtype, top", [("uint8", 255), ("uint32", 2**32 - 1), ("uint64", 2**64 - 1)])
def test_unsigned_division(dtype: str, top: int) -> None:
    pairs = [(top, 1), (top, 2), (top, 10), (top, top), (top - 1, top), (0, top), (7, 3)]
    inputs = {"A": ([a for a, _ in pairs], dtype), "B": ([b for _, b in pairs], dtype)}
    for quotient, remainder in (
        ("A[i] // B[i]", "T.floormod(A[i], B[i])"),
        ("T.truncdiv(A[i], B[i])", "T.truncmod(A[i], B[i])"),
    ):
        law(quotient, inputs, [a // b for a, b in pairs], dtype)
        law(remainder, inputs, [a % b for a, b in pairs], dtype)


@pytest.mark.meaning("div-overflow")
@pytest.mark.parametrize("dtype", _SIGNED)
def test_the_smallest_number_by_minus_one(dtype: str) -> None:
    least = int(np.iinfo(dtype).min)
    inputs = {"A": ([least, least + 1, 5], dtype), "B": ([-1, -1, -1], dtype)}
    for quotient, remainder in (
        ("A[i] // B[i]", "T.floormod(A[i], B[i])"),
        ("T.truncdiv(A[i], B[i])", "T.truncmod(A[i], B[i])"),
    ):
        law(quotient, inputs, [least, -(least + 1), -5], dtype)
        law(remainder, inputs, [0, 0, 0], dtype)


@pytest.mark.meaning("div-overflow")
def test_the_smallest_number_of_four_bits_by_minus_one() -> None:
    inputs = {"A": ([-8, -7, 7, 3], "int8"), "B": ([-1, -1, -1, -2], "int8")}
    quotient = 'T.Cast("int8", T.Cast("int4", A[i]) // T.Cast("int4", B[i]))'
    law(quotient, inputs, [-8, 7, -7, -2], "int8")


@pytest.mark.meaning("div-zero")
@pytest.mark.parametrize(
    "operation",
    ["A[i] // B[i]", "T.floormod(A[i], B[i])", "T.truncdiv(A[i], B[i])", "T.truncmod(A[i], B[i])"],
)
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_a_divisor_of_zero_is_refused(operation: str, dtype: str) -> None:
    undefined(operation, {"A": ([1, 2], dtype), "B": ([1, 0], dtype)}, dtype, "div-zero")


@pytest.mark.meaning("div-zero")
def test_an_index_by_zero_is_refused() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), n: T.int32):
        A[3 // n] = 1

    refused(main, [np.zeros(4, "int32"), 0], "div-zero")


@pytest.mark.meaning("div-guard")
def test_a_division_stays_behind_its_guard() -> None:
    """By a parameter, by an element, with lanes of which some are guarded, and hoistable out of the loop."""

    @T.prim_func
    def main(
        A: T.Buffer((16,), "int32"), N: T.Buffer((1,), "int32"), O: T.Buffer((6, 16), "int32"), n: T.int32
    ):
        for i in range(16):
            O[0, i] = T.if_then_else(N[0] != 0, A[i % N[0]], -1)
        for i in T.vectorized(16):
            O[1, i] = T.if_then_else(A[i] != 0, 100 // A[i], -1)
        for i in range(16):
            if n != 0 and i % n == 0:
                O[2, i] = 1
        for i in T.vectorized(16):
            if A[i] != 0:
                O[3, i] = T.truncmod(100, A[i])
        for i in range(16):
            if n != 0:
                O[4, i] = T.truncdiv(i, n)
        for i in T.parallel(16):
            O[5, i] = T.if_then_else(n == 0, 5, T.floormod(i, n))

    a = np.array([0, 1, 2, 3, 0, -1, -2, -3, 7, 0, 0, 100, 200, 0, 5, -7], "int32")
    out = np.full((6, 16), 9, "int32")
    for n in (0, 3):
        expected = out.copy()
        expected[0] = [a[i % n] if n else -1 for i in range(16)]
        expected[1] = [100 // v if v else -1 for v in a.tolist()]
        expected[2] = [1 if n and i % n == 0 else 9 for i in range(16)]
        expected[3] = [100 - truncated(100, v) * v if v else 9 for v in a.tolist()]
        expected[4] = [i // n if n else 9 for i in range(16)]
        expected[5] = [i % n if n else 5 for i in range(16)]
        holds(main, [a, np.array([n], "int32"), out, n], {2: expected})


@pytest.mark.meaning("float-div")
@pytest.mark.parametrize("divisor", [41.0, 3.0, 10.0, 0.1, 49.0])
def test_division_of_floats_is_no_product(divisor: float) -> None:
    values = np.array([*range(-3, 100), divisor, 2 * divisor, 41.0, 1e30, np.inf, np.nan], "float32")
    constant = np.float32(divisor)
    law(f"A[i] / T.float32({divisor})", {"A": (values, "float32")}, values / constant, "float32")
    law(
        f"T.floor(A[i] / T.float32({divisor}))",
        {"A": (values, "float32")},
        np.floor(values / constant),
        "float32",
    )


@pytest.mark.meaning("float-div")
def test_division_of_floats_by_zero() -> None:
    a, b = [1.0, -1.0, 0.0, 1.0, np.inf], [0.0, 0.0, 0.0, -0.0, np.inf]
    expected = [np.inf, -np.inf, np.nan, -np.inf, np.nan]
    for dtype in ("float32", "float64"):
        law("A[i] / B[i]", {"A": (a, dtype), "B": (b, dtype)}, expected, dtype)


@pytest.mark.meaning("float-div")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_of_constants_and_parameters_by_zero(dtype: str) -> None:
    main = from_source(f"""@T.prim_func
def main(O: T.Buffer((4,), "{dtype}"), x: T.{dtype}):
    O[0] = T.{dtype}(1.0) / x
    O[1] = T.floor(T.{dtype}(4.0)) / T.{dtype}(-0.0)
    O[2] = x / x
    O[3] = T.Select(x < T.{dtype}(1.0), T.{dtype}(-1.0), T.{dtype}(2.0)) / x""")
    for zero in (0.0, 0, np.dtype(dtype).type(0)):
        expected = np.array([np.inf, -np.inf, np.nan, -np.inf], dtype)
        holds(main, [np.zeros(4, dtype), zero], {0: expected})


@pytest.mark.meaning("float-mod")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_of_floats(dtype: str) -> None:
    pairs = [
        (5.5, 2.0),
        (-5.5, 2.0),
        (5.5, -2.0),
        (1e10, 3.0),
        (0.3, 0.1),
        (-0.0, 2.0),
        (5.0, np.inf),
        (-5.0, -np.inf),
        (1.0, 0.0),
    ]
    a, b = (np.array(column, dtype) for column in zip(*pairs))
    inputs = {"A": (a, dtype), "B": (b, dtype)}
    with np.errstate(all="ignore"):
        law("T.truncmod(A[i], B[i])", inputs, np.fmod(a, b), dtype)
        law("T.fmod(A[i], B[i])", inputs, np.fmod(a, b), dtype)
        law("T.floormod(A[i], B[i])", inputs, np.mod(a, b), dtype)


@pytest.mark.meaning("float-div")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_floor_of_a_quotient_of_floats(dtype: str) -> None:
    """Of the exact one: 1 // 0.1 is 9, though 1 / 0.1 is rounded to 10."""
    a = np.array([5.5, -5.5, 5.5, 1.0, 7.0, -0.0, 1e30, -5.0, np.inf], dtype)
    b = np.array([2.0, 2.0, -2.0, 0.1, 0.0, 3.0, 3.0, np.inf, 2.0], dtype)
    with np.errstate(all="ignore"):
        law("A[i] // B[i]", {"A": (a, dtype), "B": (b, dtype)}, np.floor_divide(a, b), dtype)


@pytest.mark.meaning("shift")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_shifts(dtype: str) -> None:
    info = np.iinfo(dtype)
    width = info.bits
    pairs = [(v, s) for v in (1, 3, int(info.max), int(info.min), 5) for s in (0, 1, width // 2, width - 1)]
    inputs = {"A": ([v for v, _ in pairs], dtype), "B": ([s for _, s in pairs], dtype)}

    def wrap(value: int) -> int:
        rest = value % (1 << width)
        return rest - (1 << width) if info.min < 0 and rest >> (width - 1) else rest

    law("A[i] << B[i]", inputs, [wrap(v << s) for v, s in pairs], dtype)
    law("A[i] >> B[i]", inputs, [v >> s for v, s in pairs], dtype)


@pytest.mark.meaning("shift")
@pytest.mark.parametrize("operation", ["A[i] << B[i]", "A[i] >> B[i]"])
@pytest.mark.parametrize("dtype, amount", [("int32", 32), ("int32", -1), ("uint8", 8), ("int64", 64)])
def test_shifts_out_of_range_are_refused(operation: str, dtype: str, amount: int) -> None:
    undefined(operation, {"A": ([1, 1], dtype), "B": ([0, amount], dtype)}, dtype, "shift")


@pytest.mark.meaning("div-floor")
@pytest.mark.parametrize("divisors", [(2147483647, 2), (65536, 65536)])
def test_quotients_of_quotients_in_a_condition(divisors: tuple[int, int]) -> None:
    """The product of the divisors is no int32, and nothing makes one quotient of the two."""
    first, second = divisors
    data = np.arange(16, dtype="int32") * 3 - 20
    program = script(
        {"I": ((16,), "int32"), "O": ((16,), "int32")},
        "for i in range(15):",
        f"    if I[i + 1] != I[i] // {first} // {second}:",
        "        O[i] = 1",
    )
    expected = [int(data[i + 1] != int(data[i]) // first // second) for i in range(15)] + [0]
    holds(program, [data, np.zeros(16, "int32")], {1: np.array(expected, "int32")})


@pytest.mark.meaning("pow")
def test_zero_to_a_negative_power_is_refused() -> None:
    main = script({"A": ((2,), "int32")}, "A[0] = T.pow(A[0], A[1])")
    refused(main, [np.array([0, -1], "int32")], "pow")
