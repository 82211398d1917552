"""Conversions between numbers and floats round once, to nearest even, on machines with and without float16."""

from __future__ import annotations

import math
from fractions import Fraction

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from ir import dtype as dt
from ir.codegen.build import build
from ir.codegen.llvm.compile import MachineOptions, has_half_instructions
from ir.script import from_source
from ir.tir.interpreter import run

TARGETS = ["llvm -mcpu=x86-64", "cpu"]
"""The first has no conversions of float16."""

PRECISION = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}
"""Digits and the least exponent."""

pytestmark = pytest.mark.skipif("x86_64" not in llvm.get_process_triple(), reason="the machines are x86's")


def rounded(value: float | int, dtype: str) -> float:
    """The nearest float of a dtype by exact arithmetic; of two that are as near, the even one."""
    if value == 0 or not math.isfinite(value):
        return float(value)
    digits, least = PRECISION[dtype]
    exact = abs(Fraction(value))
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > exact
    place = Fraction(2) ** (max(exponent, least) - digits + 1)
    result = round(exact / place) * place
    largest = float(ml_dtypes.finfo(dt.to_numpy(dtype)).max)
    magnitude = math.inf if result > Fraction(largest) else float(result)
    return math.copysign(magnitude, value)


def converted(values: np.ndarray, target: str, kind: str, machine: str) -> np.ndarray:
    """What native code converts an array to."""
    source = dt.from_numpy(values.dtype)
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer(({len(values)},), "{source}"), C: T.Buffer(({len(values)},), "{target}")):
        for i in T.{kind}({len(values)}):
            C[i] = T.Cast("{target}", A[i])"""
    )
    result = np.zeros(len(values), dt.to_numpy(target))
    build(func, machine)["main"](values, result)
    return result


def floats_of(dtype: str) -> np.ndarray:
    """Ordinary numbers, and those that lie between two numbers of narrower dtypes, or just beside."""
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, 6e-8, 2.9e-8, 2.99e-8, 1e-310, 1e300]
    special += [1 + 2**-8, 1 + 2**-8 + 2**-40, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 2**-11 + 2**-30, 1 + 3 * 2**-11]
    special += [
        65519.99,
        65520.0,
        65504.0,
        2.0**-14,
        2.0**-14 - 2.0**-26,
        2.0**-25,
        2.0**-25 + 2.0**-50,
        3.4e38,
    ]
    values = np.concatenate(
        [special, rng.standard_normal(50), rng.standard_normal(30) * 1e-6, rng.standard_normal(9) * 3e4]
    )
    with np.errstate(all="ignore"):
        return np.concatenate([values, -values]).astype(dt.to_numpy(dtype))


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("target", PRECISION)
@pytest.mark.parametrize("source", PRECISION)
def test_between_floats(source: str, target: str, machine: str) -> None:
    values = floats_of(source)
    expected = [rounded(float(value), target) for value in values]
    for kind in ("serial", "vectorized"):
        found = converted(values, target, kind, machine).astype("float64")
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found)[:2], [False, True])


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("target", PRECISION)
@pytest.mark.parametrize("source", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_from_integers(source: str, target: str, machine: str) -> None:
    low, high = dt.integer_range(source)
    numbers = [
        0,
        1,
        2,
        257,
        258,
        259,
        65519,
        65520,
        65521,
        2049,
        2051,
        (1 << 25) + 1,
        (1 << 24) + 1,
        (1 << 24) + 3,
    ]
    numbers += [
        (1 << 53) + 1,
        (1 << 53) + 3,
        (1 << 30) + (1 << 22),
        (1 << 30) + (1 << 22) + 1,
        high,
        high - 1,
        low,
    ]
    numbers += [
        (1 << e) + (1 << (e - d)) + more for e in (40, 52, 60, 62) for d in (8, 11, 24) for more in (-1, 0, 1)
    ]
    numbers = [n for number in numbers for n in (number, -number) if low <= n <= high]
    values = np.array(numbers, source)
    expected = [rounded(number, target) for number in numbers]
    for kind in ("serial", "vectorized"):
        found = converted(values, target, kind, machine).astype("float64")
        np.testing.assert_array_equal(found, expected)


EIGHT_BITS = ["e3m4", "e4m3", "e4m3fn", "e5m2", "e4m3fnuz", "e4m3b11fnuz", "e5m2fnuz"]


def as_eight_bits(value: float, codes: np.ndarray) -> float:
    """The nearest value of a format of eight bits; of two that are as near, the one whose code is even."""
    if not math.isfinite(value):
        return value
    numbers = [(float(code), int(code.view("uint8")) & 1) for code in codes if math.isfinite(float(code))]
    return min(numbers, key=lambda item: (abs(Fraction(item[0]) - Fraction(value)), item[1]))[0]


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_floats_of_eight_bits(name: str) -> None:
    """All of them, what lies between two, and just beside that; what is too large is what ml_dtypes makes of it."""
    dtype = f"float8_{name}"
    codes = np.arange(256, dtype="uint8").view(dt.to_numpy(dtype))
    wide = codes.astype("float32")
    np.testing.assert_array_equal(converted(codes, "float32", "vectorized", "cpu"), wide)
    numbers = np.unique(wide[np.isfinite(wide)]).astype("float64")
    middles = (numbers[1:] + numbers[:-1]) / 2
    values = np.concatenate([numbers, middles, np.nextafter(middles, 9e9), np.nextafter(middles, -9e9)])
    expected = [as_eight_bits(value, codes) for value in values]
    for kind in ("serial", "vectorized"):
        found = converted(values, dtype, kind, "llvm -mcpu=x86-64")
        np.testing.assert_array_equal(found.astype("float64"), expected)
    special = np.array([math.inf, -math.inf, math.nan, 1e30, -1e30, -0.0, 1.9 * numbers[-1]], "float32")
    with np.errstate(all="ignore"):
        expected = special.astype(dt.to_numpy(dtype)).astype("float64")
    found = converted(special, dtype, "vectorized", "cpu").astype("float64")
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        np.signbit(found), np.signbit(expected) | np.isnan(found) & np.signbit(found)
    )


def test_arithmetic_of_floats_of_eight_bits() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((256,), "float8_e4m3fn"), C: T.Buffer((256,), "float8_e4m3fn")):
        for i in T.vectorized(256):
            C[i] = T.Select(A[i] < T.float8_e4m3fn(0), T.max(A[i], T.float8_e4m3fn(-2)), A[i] * T.float8_e4m3fn(1.5))"""
    )
    a = np.arange(256, dtype="uint8").view(dt.to_numpy("float8_e4m3fn"))
    c = np.zeros(256, a.dtype)
    build(func)["main"](a, c)
    wide = a.astype("float32")
    expected = np.where(wide < 0, np.maximum(wide, -2), wide * 1.5).astype(a.dtype)
    np.testing.assert_array_equal(c.astype("float32"), expected.astype("float32"))


@pytest.mark.parametrize("kind", ["serial", "vectorized", "parallel"])
def test_arithmetic_of_half_floats_without_instructions(kind: str) -> None:
    """Every operation that a half float takes part in; LLVM would call functions that are not there."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16"), C: T.Buffer((64,), "float16")):
        for i in T.{kind}(64):
            C[i] = T.if_then_else(
                A[i] < B[i], T.sqrt(T.max(A[i] * B[i], T.float16(0))), T.floor(A[i]) + T.min(B[i], T.fabs(A[i]))
            )"""
    )
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(64).astype("float16") for _ in range(2))
    expected, found = np.zeros(64, "float16"), np.zeros(64, "float16")
    run(func, a, b, expected)
    build(func, TARGETS[0])["main"](a, b, found)
    np.testing.assert_allclose(found.astype("float64"), expected.astype("float64"), rtol=2**-10)


def test_a_sum_of_half_floats_without_instructions() -> None:
    func = from_source(
        """@T.prim_func
def main(A: T.Buffer((64,), "float16"), C: T.Buffer((1,), "float16")):
        C[0] = T.float16(0)
        for i in range(64):
            C[0] = C[0] + A[i]"""
    )
    c = np.ones(1, "float16")
    build(func, TARGETS[0])["main"](np.arange(-30, 34).astype("float16"), c)
    assert c[0] == sum(range(-30, 34))


def test_which_machines_convert_half_floats() -> None:
    assert has_half_instructions(MachineOptions(cpu="x86-64-v3"))
    assert not has_half_instructions(MachineOptions(cpu="sandybridge"))
    assert not has_half_instructions(MachineOptions(cpu="x86-64"))


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", PRECISION)
def test_the_next_number(dtype: str, machine: str) -> None:
    kind = dt.to_numpy(dtype)
    info = ml_dtypes.finfo(kind)
    ends = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, math.inf, -math.inf, math.nan, float(info.max), float(info.tiny)]
    x = np.repeat(np.array(ends), len(ends)).astype(kind)
    y = np.tile(np.array(ends), len(ends)).astype(kind)
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer(({len(x)},), "{dtype}"), B: T.Buffer(({len(x)},), "{dtype}"), C: T.Buffer(({len(x)},), "{dtype}")):
        for i in T.vectorized({len(x)}):
            C[i] = T.nextafter(A[i], B[i])"""
    )
    found = np.zeros(len(x), kind)
    build(func, machine)["main"](x, y, found)
    with np.errstate(over="ignore"):
        expected = np.nextafter(x, y)
    np.testing.assert_array_equal(found.astype("float64"), expected.astype("float64"))


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("dtype", ["int2", "int4", "uint2", "uint4"])
def test_integers_of_a_few_bits_take_a_byte_each(dtype: str, kind: str) -> None:
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((70,), "int32"), C: T.Buffer((70,), "{dtype}"), D: T.Buffer((70,), "int32")):
        for i in T.{kind}(70):
            C[i] = T.Cast("{dtype}", A[i])
        for i in T.{kind}(70):
            D[i] = T.Cast("int32", C[i]) * 3"""
    )
    a = np.arange(-35, 35, dtype="int32")
    c, d = np.zeros(70, dt.to_numpy(dtype)), np.zeros(70, "int32")
    build(func)["main"](a, c, d)
    low, high = dt.integer_range(dtype)
    wrapped = (a - low) % (high - low + 1) + low
    np.testing.assert_array_equal(c.astype("int32"), wrapped)
    np.testing.assert_array_equal(d, wrapped * 3)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_float16_addition_on_a_machine_without_half_instructions(kind: str) -> None:
    """LLVM would call a function of the compiler's runtime library, which nothing links."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((40,), "float16"), B: T.Buffer((40,), "float16"), C: T.Buffer((40,), "float16")):
        for i in T.{kind}(40):
            C[i] = A[i] + B[i]"""
    )
    a, b = np.linspace(-3, 60000, 40).astype("float16"), np.linspace(5, -(2**-10), 40).astype("float16")
    for target in ("llvm -mcpu=sandybridge", "llvm -mcpu=x86-64"):
        module = build(func, target)
        assert "extendhfsf2" not in module.assembly and "truncsfhf2" not in module.assembly
        assert "vcvtph2ps" not in module.assembly
        found = np.zeros(40, "float16")
        module["main"](a, b, found)
        np.testing.assert_array_equal(found, a + b)
