"""half and bfloat16 of emulated kernels, against numpy and ml_dtypes: every number, and sums, products and quotients that round."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

_KERNELS = r"""
extern "C" __global__ void NAME_to_float(const TYPE* in, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __NAME2float(in[i]);
}
extern "C" __global__ void NAME_from_float(const float* in, TYPE* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __float2NAME_rn(in[i]); out[n + i] = __float2NAME_rz(in[i]);
  out[2 * n + i] = __float2NAME_rd(in[i]); out[3 * n + i] = __float2NAME_ru(in[i]);
  out[4 * n + i] = TYPE(in[i]); out[5 * n + i] = __double2NAME((double)in[i]);
}
extern "C" __global__ void NAME_arithmetic(const TYPE* a, const TYPE* b, const TYPE* c, TYPE* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  TYPE x = a[i], y = b[i], z = c[i], s = x;
  s += y;
  TYPE all[] = {x + y, x - y, x * y, x / y, -x, __hadd(x, y), __hmul(x, y), __hfma(x, y, z), __hmin(x, y), __hmax(x, y),
             __habs(x), s, hexp(x), hsqrt(y), hrcp(y), __hadd_sat(x, y)};
  for (int k = 0; k < 16; ++k) out[k * n + i] = all[k];
}
extern "C" __global__ void NAME_relations(const TYPE* a, const TYPE* b, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  TYPE x = a[i], y = b[i];
  bool all[] = {x < y, x <= y, x == y, x != y, x > y, x >= y, __hlt(x, y), __hle(x, y), __heq(x, y), __hne(x, y),
                __hltu(x, y), __hequ(x, y), __hneu(x, y), __hisnan(x), bool(x)};
  out[i] = 0;
  for (int k = 0; k < 15; ++k) out[i] |= all[k] << k;
}
extern "C" __global__ void NAME_pairs(const PAIR* a, const PAIR* b, PAIR* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float2 f = __NAME22float2(a[i]);
  PAIR all[] = {a[i] + b[i], __hadd2(a[i], b[i]), __hmul2(a[i], b[i]), __hfma2(a[i], b[i], a[i]), a[i] * b[i],
                __float22NAME2_rn(make_float2(f.y, f.x)), __lowhigh2highlow(a[i]), __hmax2(a[i], b[i]),
                __floats2NAME2_rn(__low2float(a[i]), __high2float(b[i])),
                __halves2NAME2(__high2NAME(a[i]), __low2NAME(b[i])), __float2NAME2_rn(1.5f), h2exp(a[i])};
  for (int k = 0; k < 12; ++k) out[k * n + i] = all[k];
}
extern "C" __global__ void NAME_integers(const long long* in, TYPE* out, const TYPE* numbers, long long* back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __ll2NAME_rn(in[i]); out[n + i] = __int2NAME_rn((int)in[i]); out[2 * n + i] = TYPE((unsigned)in[i]);
  back[i] = __NAME2ll_rn(numbers[i]); back[n + i] = __NAME2int_rz(numbers[i]);
  back[2 * n + i] = __NAME2uint_ru(numbers[i]); back[3 * n + i] = (short)numbers[i];
}
extern "C" __global__ void NAME_warp_and_atomics(const TYPE* in, TYPE* rotated, TYPE* total, PAIR* pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  rotated[i] = __shfl_sync(0xffffffffu, in[i], i + 1);
  atomicAdd(total, in[i]);
  atomicAdd(pairs, __halves2NAME2(in[i], -in[i]));
}
extern "C" __global__ void NAME_by_value(TYPE x, TYPE* out) { *out = x; out[1] = __ushort_as_NAME(__NAME_as_ushort(x)); }
"""


def _kernels(name: str, c_type: str, pair: str) -> str:
    return _KERNELS.replace("NAME", name).replace("TYPE", c_type).replace("PAIR", pair)


SOURCE = (
    "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    + _kernels("half", "__half", "__half2")
    + _kernels("bfloat16", "__nv_bfloat16", "__nv_bfloat162")
)

TYPES = pytest.mark.parametrize("name, dtype", [("half", np.float16), ("bfloat16", ml_dtypes.bfloat16)])


def _all(dtype) -> np.ndarray:
    return np.arange(2**16, dtype=np.uint16).view(dtype)


def _same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal in bits, but for which NaN it is."""
    nan = np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float64)), nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])


def _numbers(dtype, count: int, seed: int) -> np.ndarray:
    """Numbers of all magnitudes."""
    bits = np.random.default_rng(seed).integers(0, 2**16, count, dtype=np.uint16)
    return bits.view(dtype)


@TYPES
def test_every_number_becomes_the_float_that_it_is(launch, name: str, dtype) -> None:
    numbers = _all(dtype)
    out = np.zeros(2**16, np.float32)
    launch(SOURCE, f"{name}_to_float", numbers, out, grid=(64,), block=(1024,))
    np.testing.assert_array_equal(out, numbers.astype(np.float32))
    zeros = out == 0
    np.testing.assert_array_equal(np.signbit(out[zeros]), np.signbit(numbers[zeros].astype(np.float32)))


@TYPES
def test_floats_are_rounded_to_nearest_even_and_in_directions(launch, name: str, dtype) -> None:
    """Every number, the middles between neighbours, what lies beside the middles, and what is too large."""
    finite = _all(dtype)[np.isfinite(_all(dtype).astype(np.float32))].astype(np.float64)
    ordered = np.unique(finite)
    middles = ((ordered[1:] + ordered[:-1]) / 2).astype(np.float32)
    floats = np.concatenate(
        [
            ordered.astype(np.float32),
            middles,
            np.nextafter(middles, np.float32(np.inf)),
            np.nextafter(middles, np.float32(-np.inf)),
            np.array([np.inf, -np.inf, np.nan, 3e38, -3.4e38, 65519, 65520, 1e-30, -1e-45, -0.0], np.float32),
        ]
    )
    floats = np.concatenate([floats, np.zeros(-len(floats) % 1024, np.float32)])
    n = len(floats)
    out = np.zeros((6, n), dtype)
    launch(SOURCE, f"{name}_from_float", floats, out, n, grid=(n // 1024,), block=(1024,))
    with np.errstate(over="ignore"):
        nearest = floats.astype(dtype)
    for row in (0, 4, 5):
        _same(out[row], nearest)
    finite = np.isfinite(floats)
    below = np.searchsorted(ordered, floats[finite].astype(np.float64), side="right") - 1
    down = np.where(below >= 0, ordered[below], -np.inf)
    above = np.searchsorted(ordered, floats[finite].astype(np.float64), side="left")
    up = np.where(above < len(ordered), ordered[np.minimum(above, len(ordered) - 1)], np.inf)
    np.testing.assert_array_equal(out[2][finite].astype(np.float64), down)
    np.testing.assert_array_equal(out[3][finite].astype(np.float64), up)
    np.testing.assert_array_equal(out[1][finite].astype(np.float64), np.where(floats[finite] < 0, up, down))


def _rounded(x: Fraction, dtype) -> float:
    """The nearest number of a dtype, found without any float that could round on the way."""
    guess = np.float32(float(x)).astype(dtype)
    bits = int(guess.view(np.uint16))
    around = np.array([b & 0xFFFF for b in (bits - 1, bits, bits + 1)], np.uint16).view(dtype)
    finite = [v for v in around if np.isfinite(np.float32(v))]
    if len(finite) < 3:
        return float(guess)
    best = min(abs(Fraction(float(v)) - x) for v in finite)
    nearest = [v for v in finite if abs(Fraction(float(v)) - x) == best]
    return float(next((v for v in nearest if int(v.view(np.uint16)) % 2 == 0), nearest[0]))


@TYPES
def test_arithmetic_rounds_once(launch, name: str, dtype) -> None:
    n = 4096
    with np.errstate(all="ignore"):
        a, b, c = (_numbers(dtype, n, seed) for seed in (1, 2, 3))
        c[: n // 2] = (-(a.astype(np.float64) * b.astype(np.float64)) * (1 + 2.0**-9)).astype(dtype)[: n // 2]
        out = np.zeros((16, n), dtype)
        launch(SOURCE, f"{name}_arithmetic", a, b, c, out, n, grid=(n // 256,), block=(256,))
        x, y, z = (v.astype(np.float64) for v in (a, b, c))
        to = lambda v: v.astype(dtype)
        # A double of 53 bits rounds sums, products and quotients of 11 bits as if they were exact.
        _same(out[0], to(x + y))
        _same(out[1], to(x - y))
        _same(out[2], to(x * y))
        _same(out[3], to(x / y))
        _same(out[4], to(-x))
        _same(out[5], to(x + y))
        _same(out[6], to(x * y))
        _same(out[8], to(np.fmin(x, y)))
        _same(out[9], to(np.fmax(x, y)))
        _same(out[10], to(np.abs(x)))
        _same(out[11], to(x + y))
        _same(out[13], to(np.sqrt(y)))
        _same(out[14], to(1 / y))
        _same(out[15], to(np.where(np.isnan(x + y), 0, np.clip(x + y, 0, 1))))
        exponential = np.exp(x)
        finite = np.isfinite(exponential) & np.isfinite(out[12].astype(np.float64))
        near = out[12].astype(np.float64)[finite]
        tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        np.testing.assert_allclose(
            near, exponential[finite], rtol=float(ml_dtypes.finfo(dtype).eps), atol=tiny
        )
    for i in range(n):
        if not (math.isfinite(x[i]) and math.isfinite(y[i]) and math.isfinite(z[i])):
            continue
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        if abs(exact) < 2**120:
            with np.errstate(over="ignore"):
                assert float(out[7, i]) == _rounded(exact, dtype), (a[i], b[i], c[i])


@TYPES
def test_relations(launch, name: str, dtype) -> None:
    n = 2048
    a, b = _numbers(dtype, n, 4), _numbers(dtype, n, 5)
    b[::3] = a[::3]
    a[:8] = np.array([np.nan, 0, -0.0, np.inf, 1, np.nan, 0, 0], np.float32).astype(dtype)
    b[:8] = np.array([1, -0.0, 0, np.inf, np.nan, np.nan, 1, 0], np.float32).astype(dtype)
    out = np.zeros(n, np.int32)
    launch(SOURCE, f"{name}_relations", a, b, out, grid=(n // 256,), block=(256,))
    x, y = a.astype(np.float32), b.astype(np.float32)
    either = np.isnan(x) | np.isnan(y)
    rows = [x < y, x <= y, x == y, x != y, x > y, x >= y, x < y, x <= y, x == y, (x != y) & ~either]
    rows += [(x < y) | either, (x == y) | either, x != y, np.isnan(x), x != 0]
    np.testing.assert_array_equal(out, sum(row.astype(np.int32) << k for k, row in enumerate(rows)))


@TYPES
def test_pairs(launch, name: str, dtype) -> None:
    n = 64
    a, b = (np.random.default_rng(seed).standard_normal((n, 2)).astype(dtype) for seed in (6, 7))
    out = np.zeros((12, n, 2), dtype)
    launch(SOURCE, f"{name}_pairs", a, b, out, n, block=(n,))
    x, y = a.astype(np.float64), b.astype(np.float64)
    swapped = a[:, ::-1]
    ones = np.full((n, 2), 1.5).astype(dtype)
    expected = [x + y, x + y, x * y, x * y + x, x * y, swapped, swapped, np.fmax(x, y)]
    expected += [np.stack([a[:, 0], b[:, 1]], 1), np.stack([a[:, 1], b[:, 0]], 1), ones]
    for found, value in zip(out, expected):
        _same(found, value.astype(dtype))
    np.testing.assert_allclose(out[11].astype(float), np.exp(x), rtol=float(ml_dtypes.finfo(dtype).eps))


@TYPES
def test_conversions_of_integers(launch, name: str, dtype) -> None:
    rng = np.random.default_rng(8)
    integers = rng.integers(-(2**62), 2**62, 256) >> rng.integers(0, 62, 256)
    integers[:3] = [
        (1 << 54) + (1 << 46) + 1,
        (1 << 60) + (1 << 52) + 1,
        -(1 << 60) - (1 << 52) - 1,
    ]  # just beyond middles
    numbers = _numbers(dtype, 256, 9)
    out, back = np.zeros((3, 256), dtype), np.zeros((4, 256), np.int64)
    launch(SOURCE, f"{name}_integers", integers, out, numbers, back, 256, block=(256,))
    with np.errstate(over="ignore", invalid="ignore"):
        assert [float(v) for v in out[0]] == [
            _rounded(Fraction(int(i)), dtype) if name == "bfloat16" else float(np.float64(i).astype(dtype))
            for i in integers
        ]
        _same(out[1], integers.astype(np.int32).astype(np.float64).astype(dtype))
        _same(out[2], integers.astype(np.uint32).astype(np.float64).astype(dtype))
    for k, (rounding, low, high) in enumerate(
        [
            (round, -(2**63), 2**63 - 1),
            (int, -(2**31), 2**31 - 1),
            (math.ceil, 0, 2**32 - 1),
            (int, -(2**15), 2**15 - 1),
        ]
    ):
        for found, number in zip(back[k].tolist(), numbers.astype(np.float64)):
            expected = 0 if math.isnan(number) else min(max(number, low), high)
            if math.isfinite(number) and low <= number <= high:
                expected = rounding(number)
            assert found == min(max(int(expected), low), high), (k, number)


@TYPES
def test_shuffles_and_atomic_sums(launch, name: str, dtype) -> None:
    data = np.random.default_rng(10).integers(-4, 5, 32).astype(dtype)
    rotated, total, pairs = np.zeros(32, dtype), np.zeros(1, dtype), np.zeros(2, dtype)
    launch(SOURCE, f"{name}_warp_and_atomics", data, rotated, total, pairs)
    _same(rotated, np.roll(data, -1))
    exact = data.astype(np.float32).sum()
    assert float(total[0]) == exact and pairs.astype(np.float32).tolist() == [exact, -exact]


@TYPES
def test_numbers_are_passed_by_value(launch, name: str, dtype) -> None:
    out = np.zeros(2, dtype)
    launch(SOURCE, f"{name}_by_value", dtype(1.75), out, block=(1,))
    assert out.astype(float).tolist() == [1.75, 1.75]
    launch(SOURCE, f"{name}_by_value", 0.1, out, block=(1,))
    _same(out, np.array([0.1, 0.1]).astype(dtype))
