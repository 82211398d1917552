"""Conversions by arithmetic of integers, on the numbers at which rounding changes, against ml_dtypes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import ml_dtypes  # noqa: F401  numpy's names of the formats
import numpy as np
import pytest

from ir import tir
from ir.dtype import to_numpy
from ir.narrow_float import FLOAT8
from ir.tir.interpreter import run
from ir.tir.transform.float_codes import code_dtype, code_of_constant, decoded, encoded

FORMATS = [*sorted(FLOAT8), "bfloat16"]


def _convert(values: np.ndarray, source: str, dtype: str, encodes: bool) -> np.ndarray:
    """A function that converts an array, run by the interpreter."""
    result = code_dtype(dtype) if encodes else "float32"
    a, b = (tir.decl_buffer(values.shape, kind, name) for kind, name in ((source, "A"), (result, "B")))
    i = tir.Var("i", "int32")
    value = encoded(a[i], dtype) if encodes else decoded(a[i], dtype)
    loop = tir.For(i, 0, len(values), tir.ForKind.SERIAL, tir.BufferStore(b, value, (i,)))
    out = np.zeros(values.shape, result)
    run(tir.PrimFunc([a, b], loop), values, out)
    return out


def _numbers(dtype: str) -> np.ndarray:
    """All finite numbers of a format of 8 bits, or some of bfloat16, ascending."""
    kind = to_numpy(dtype)
    codes = np.arange(
        0, 1 << 8 * kind.itemsize, 1 if kind.itemsize == 1 else 251, dtype=f"uint{8 * kind.itemsize}"
    )
    numbers = codes.view(kind).astype("float64")
    return np.unique(numbers[np.isfinite(numbers)])


def _turning_points(dtype: str, source: str) -> np.ndarray:
    """Numbers, what is in the middle between neighbours, and what is beside that; ends, infinities, NaN."""
    numbers = _numbers(dtype)
    if dtype == "bfloat16":
        near = numbers[np.abs(numbers) < 1e38].astype("float32")
        upper = (near.view("uint32") + np.uint32(1 << 16)).view("float32").astype("float64")
        middles = (near.astype("float64") + upper) / 2
    else:
        middles = np.array([(a + b) / 2 for a, b in pairwise(numbers)])
    kind = np.dtype(source)
    middles = np.concatenate([middles, [numbers[-1] * 1.02, numbers[-1] * 1.2, -numbers[-1] * 1.4]]).astype(
        kind
    )
    beside = [np.nextafter(middles, kind.type(end)) for end in (np.inf, -np.inf)]
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-38, -1e-40, 3e38]
    return np.concatenate([numbers.astype(kind), middles, *beside, np.array(special, kind)])


def _assert_same(codes: np.ndarray, expected: np.ndarray) -> None:
    found = codes.view(expected.dtype).astype("float64")
    wanted = expected.astype("float64")
    np.testing.assert_array_equal(found, wanted)
    both = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[both]), np.signbit(wanted[both]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", FORMATS)
def test_float32_is_rounded_to_nearest_even(dtype: str) -> None:
    values = _turning_points(dtype, "float32")
    _assert_same(_convert(values, "float32", dtype, encodes=True), values.astype(to_numpy(dtype)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "dtype", [name for name in FORMATS if name != "float8_e8m0fnu"]
)  # whose neighbours are not equally far apart
def test_float64_is_rounded_once(dtype: str) -> None:
    """Beside the middle, where a float32 in between would lie on it."""
    numbers = _numbers(dtype)
    numbers = numbers[(np.abs(numbers) > 1e-30) & (np.abs(numbers) < 1e30)]
    step = np.diff(numbers)
    inner = step[1:] == step[:-1] if dtype != "bfloat16" else np.zeros(len(step) - 1, bool)
    low, high = numbers[1:-1][inner], numbers[2:][inner]
    if dtype == "bfloat16":
        low = numbers.astype("float32")
        high = (low.view("uint32") + np.uint32(1 << 16)).view("float32").astype("float64")
        low = low.astype("float64")
    middle = (low + high) / 2
    above, below = middle + (high - low) * 2.0**-40, middle - (high - low) * 2.0**-40
    kind = to_numpy(dtype)
    _assert_same(_convert(above, "float64", dtype, encodes=True), high.astype(kind))
    _assert_same(_convert(below, "float64", dtype, encodes=True), low.astype(kind))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("dtype", FORMATS)
def test_integers_are_rounded_once(dtype: str, source: str) -> None:
    low, high = np.iinfo(source).min, np.iinfo(source).max
    whole = {0, 1, 2, 3, 17, 100, high, high - 1, low}
    for bits in range(4, np.iinfo(source).bits - np.dtype(source).kind.count("i")):
        for digits in (2, 3, 4, 8):
            middle = (1 << bits) + (1 << max(0, bits - digits - 1))
            whole |= {middle - 1, middle, middle + 1}
    values = np.array(sorted(item for item in whole if low <= item <= high), source)
    kind = to_numpy(dtype)
    expected = np.array([_exactly(int(item), kind) for item in values], kind)
    _assert_same(_convert(values, source, dtype, encodes=True), expected)


def _exactly(number: int, kind: np.dtype) -> object:
    """A whole number rounded once: by the neighbours of what float64 makes of it, compared as whole numbers."""
    candidates = (
        np.arange(1 << 8 * kind.itemsize, dtype="uint64").astype(f"uint{8 * kind.itemsize}").view(kind)
    )
    if kind.itemsize == 2:
        near = np.float64(number).astype(kind)
        code = int(near.view("uint16"))
        candidates = np.array([code - 1 if code else 0, code, code + 1], "uint16").view(kind)
    finite = [(abs(Fraction(float(item)) - number), item) for item in candidates if np.isfinite(float(item))]
    largest = max(float(item) for item in candidates if np.isfinite(float(item)))
    if kind.itemsize == 1 and abs(number) > largest:
        return kind.type(float(number))
    if kind == to_numpy("float8_e8m0fnu"):
        return kind.type(float(number))
    least = min(distance for distance, _ in finite)
    best = [item for distance, item in finite if distance == least]
    even = [item for item in best if not int(np.asarray(item).view(f"uint{8 * kind.itemsize}")) & 1]
    chosen = (even or best)[0]
    return kind.type(0.0) if float(chosen) == 0 else chosen


@pytest.mark.parametrize("dtype", FORMATS)
def test_all_codes_are_the_numbers_that_they_are(dtype: str) -> None:
    kind = to_numpy(dtype)
    bits = 8 * kind.itemsize
    codes = np.arange(0, 1 << bits, 1 if bits == 8 else 37, dtype=f"uint{bits}")
    found = _convert(codes, code_dtype(dtype), dtype, encodes=False)
    expected = codes.view(kind).astype("float32")
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_constants() -> None:
    assert code_of_constant(tir.FloatImm("bfloat16", 1.0)).value == 0x3F80
    assert code_of_constant(tir.FloatImm("float8_e5m2", -2.0)).dtype == "uint8"
