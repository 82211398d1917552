"""Vector types, mathematical functions, conversions, bit operations and atomics, against numpy and Python's integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

VECTORS = r"""
#include <cuda_runtime.h>
#define SIZES(name) sizeof(name##1), alignof(name##1), sizeof(name##2), alignof(name##2), \
                    sizeof(name##3), alignof(name##3), sizeof(name##4), alignof(name##4)
extern "C" __global__ void layouts(int* out) {
  int all[] = {SIZES(char), SIZES(uchar), SIZES(short), SIZES(ushort), SIZES(int), SIZES(uint), SIZES(longlong),
               SIZES(ulonglong), SIZES(float), SIZES(double)};
  for (int i = 0; i < 80; ++i) out[i] = all[i];
}
extern "C" __global__ void add4(const float4* a, const float4* b, float4* out) {
  float4 x = a[threadIdx.x], y = __ldg(b + threadIdx.x);
  __stcg(out + threadIdx.x, make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w));
}
extern "C" __global__ void by_value(int4 v, bool flag, signed char small, double* out) {
  dim3 d(2, 3);
  out[0] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w;
  out[1] = flag ? small : 0;
  out[2] = d.x + 10 * d.y + 100 * d.z;
}
"""


def test_vector_types_have_cudas_sizes_and_alignments(launch) -> None:
    out = np.zeros((10, 4, 2), np.int32)
    launch(VECTORS, "layouts", out, block=(1,))
    widths = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8]
    for width, sizes in zip(widths, out.tolist()):
        two, four = min(2 * width, 16), min(4 * width, 16)
        assert sizes == [[width, width], [2 * width, two], [3 * width, width], [4 * width, four]]


def test_vectors_are_loaded_and_stored(launch) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 128)).astype(np.float32)
    out = np.zeros(128, np.float32)
    launch(VECTORS, "add4", a, b, out)
    np.testing.assert_array_equal(out, a + b)


def test_vectors_and_small_numbers_are_passed_by_value(launch) -> None:
    out = np.zeros(3)
    launch(VECTORS, "by_value", np.array([1, 2, 3, 4], np.int32), True, np.int8(-5), out, block=(1,))
    assert out.tolist() == [4321, -5, 132]


UNARY = {
    "expf": np.exp,
    "__expf": np.exp,
    "logf": np.log,
    "__log2f": np.log2,
    "__log10f": np.log10,
    "sinf": np.sin,
    "__cosf": np.cos,
    "__tanf": np.tan,
    "tanhf": np.tanh,
    "sqrtf": np.sqrt,
    "rsqrtf": lambda x: 1 / np.sqrt(x),
    "__frcp_rn": lambda x: 1 / x,
    "__fsqrt_rn": np.sqrt,
    "exp2f": np.exp2,
    "exp10f": lambda x: 10.0**x,
    "__exp10f": lambda x: 10.0**x,
    "erff": np.vectorize(math.erf),
    "normcdff": np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "cbrtf": np.cbrt,
    "floorf": np.floor,
    "rintf": np.rint,
    "fabsf": np.abs,
    "__saturatef": lambda x: np.clip(x, 0, 1),
    "sinpif": lambda x: np.sin(np.pi * x),
    "cospif": lambda x: np.cos(np.pi * x),
}
BINARY = {
    "powf": np.power,
    "__powf": np.power,
    "__fdividef": np.divide,
    "fminf": np.minimum,
    "fmaxf": np.maximum,
    "max": np.maximum,
    "fmodf": np.fmod,
    "atan2f": np.arctan2,
    "__fadd_rn": np.add,
    "__fmul_rn": np.multiply,
    "__fdiv_rn": np.divide,
}
MATH = "".join(
    f'extern "C" __global__ void k_{name}(const float* a, float* out) {{ out[threadIdx.x] = {name}(a[threadIdx.x]); }}\n'
    for name in UNARY
) + "".join(
    f'extern "C" __global__ void k_{name}(const float* a, const float* b, float* out)'
    f" {{ out[threadIdx.x] = {name}(a[threadIdx.x], b[threadIdx.x]); }}\n"
    for name in BINARY
)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(launch, name: str) -> None:
    a = np.random.default_rng(1).uniform(0.01, 4, 256).astype(np.float32)
    out = np.zeros(256, np.float32)
    launch(MATH, f"k_{name}", a, out, block=(256,))
    np.testing.assert_allclose(out, UNARY[name](a.astype(np.float64)), rtol=3e-7, atol=3e-7)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(launch, name: str) -> None:
    a, b = np.random.default_rng(2).uniform(0.01, 4, (2, 256)).astype(np.float32)
    out = np.zeros(256, np.float32)
    launch(MATH, f"k_{name}", a, b, out, block=(256,))
    np.testing.assert_allclose(out, BINARY[name](a.astype(np.float64), b.astype(np.float64)), rtol=3e-7)


ROUNDING = r"""
extern "C" __global__ void products_and_sums(const float* a, const float* b, const float* c, float* apart, float* fused) {
  int i = threadIdx.x;
  apart[i] = a[i] * b[i] + c[i];
  fused[i] = __fmaf_rn(a[i], b[i], c[i]);
}
extern "C" __global__ void to_int(const float* a, int* out, int n) {
  int i = threadIdx.x;
  out[i] = __float2int_rn(a[i]); out[n + i] = __float2int_rz(a[i]);
  out[2 * n + i] = __float2int_rd(a[i]); out[3 * n + i] = __float2int_ru(a[i]);
  out[4 * n + i] = (int)__float2uint_rn(a[i]);
}
extern "C" __global__ void casts(float* f, int* i, double* d, long long* l) {
  i[0] = __float_as_int(f[0]); f[1] = __int_as_float(i[1]);
  f[2] = __uint_as_float(0x3f800000u); i[2] = (int)__float_as_uint(f[0]);
  l[0] = __double_as_longlong(d[0]); d[1] = __longlong_as_double(l[1]);
  d[2] = __hiloint2double(__double2hiint(d[0]), __double2loint(d[0]));
}
"""


def test_products_and_sums_are_rounded_one_by_one_and_fused_ones_once(launch) -> None:
    a, b, c = np.random.default_rng(3).standard_normal((3, 512)).astype(np.float32)
    c = -(a * b) * (1 + np.float32(1e-6))
    apart, fused = np.zeros((2, 512), np.float32)
    launch(ROUNDING, "products_and_sums", a, b, c, apart, fused, block=(512,))
    np.testing.assert_array_equal(apart, a * b + c)
    exact = (a.astype(np.longdouble) * b + c).astype(
        np.float32
    )  # the product has 48 bits, and the sum cancels
    np.testing.assert_array_equal(fused, exact)
    assert (apart != fused).any()


def test_conversions_to_integers_saturate(launch) -> None:
    a = np.array([0.5, 1.5, -1.5, 2.5, -0.2, 3e9, -3e9, 5e9, np.nan, np.inf, -np.inf, 2147483648], np.float32)
    out = np.zeros((5, len(a)), np.int32)
    launch(ROUNDING, "to_int", a, out, len(a), block=(len(a),))
    wide = np.nan_to_num(a.astype(np.float64), nan=0.0)
    for row, rounded in zip(out, (np.rint, np.trunc, np.floor, np.ceil)):
        np.testing.assert_array_equal(row, np.clip(rounded(wide), -(2**31), 2**31 - 1).astype(np.int64))
    np.testing.assert_array_equal(
        out[4].view(np.uint32), np.clip(np.rint(wide), 0, 2**32 - 1).astype(np.uint32)
    )


def test_bit_casts(launch) -> None:
    f = np.array([1.5, 0, 0], np.float32)
    i = np.array([0, 0x40490FDB, 0], np.int32)
    d = np.array([math.pi, 0, 0])
    l = np.array([0, np.float64(-2.5).view(np.int64)])
    launch(ROUNDING, "casts", f, i, d, l, block=(1,))
    assert i[0] == i[2] == np.float32(1.5).view(np.int32)
    assert f[1] == np.float32(math.pi) and f[2] == 1
    assert l[0] == np.float64(math.pi).view(np.int64) and d[1] == -2.5 and d[2] == math.pi


BITS = r"""
extern "C" __global__ void bits(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out, int n) {
  int t = threadIdx.x;
  unsigned x = a[t], y = b[t], z = c[t];
  unsigned all[] = {
    (unsigned)__clz((int)x), (unsigned)__popc(x), (unsigned)__ffs((int)x), __brev(x), (unsigned)__mul24((int)x, (int)y),
    (unsigned)__mulhi((int)x, (int)y), __umulhi(x, y), (unsigned)__dp4a((int)x, (int)y, (int)z), __dp4a(x, y, z),
    __byte_perm(x, y, z), __funnelshift_l(x, y, z), __funnelshift_r(x, y, z), (unsigned)__hadd((int)x, (int)y), __umul24(x, y)};
  for (int i = 0; i < 14; ++i) out[i * n + t] = all[i];
}
"""


def _signed(x: int, bits: int) -> int:
    return (x & (1 << bits) - 1) - ((x >> bits - 1 & 1) << bits)


def _bits(x: int, y: int, z: int) -> list[int]:
    bytes_of = lambda v: [v >> 8 * i & 0xFF for i in range(4)]
    sx, sy = _signed(x, 32), _signed(y, 32)
    pairs = list(zip(bytes_of(x), bytes_of(y)))
    both = bytes_of(x) + bytes_of(y)
    chosen = [
        (both[z >> 4 * i & 7] >> 7) * 0xFF if z >> 4 * i & 8 else both[z >> 4 * i & 7] for i in range(4)
    ]
    wide, shift = y << 32 | x, z & 31
    return [
        32 - x.bit_length(),
        x.bit_count(),
        (x & -x).bit_length(),
        int(f"{x:032b}"[::-1], 2),
        _signed(x, 24) * _signed(y, 24),
        sx * sy >> 32,
        x * y >> 32,
        sum(_signed(p, 8) * _signed(q, 8) for p, q in pairs) + z,
        sum(p * q for p, q in pairs) + z,
        sum(byte << 8 * i for i, byte in enumerate(chosen)),
        wide << shift >> 32,
        wide >> shift,
        sx + sy >> 1,
        (x & 0xFFFFFF) * (y & 0xFFFFFF),
    ]


def test_operations_on_bits(launch) -> None:
    a, b, c = np.random.default_rng(4).integers(0, 2**32, (3, 64), dtype=np.uint32)
    a[0], a[1] = 0, 1
    out = np.zeros((14, 64), np.uint32)
    launch(BITS, "bits", a, b, c, out, 64, block=(64,))
    expected = [
        [value & 0xFFFFFFFF for value in _bits(x, y, z)]
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())
    ]
    np.testing.assert_array_equal(out.T, expected)


ATOMICS = r"""
template <class T> __device__ void sum(T* total, const T* in) { atomicAdd(total, in[blockIdx.x * blockDim.x + threadIdx.x]); }
extern "C" __global__ void add_i32(int* total, const int* in) { sum(total, in); }
extern "C" __global__ void add_u32(unsigned* total, const unsigned* in) { sum(total, in); }
extern "C" __global__ void add_u64(unsigned long long* total, const unsigned long long* in) { sum(total, in); }
extern "C" __global__ void add_f32(float* total, const float* in) { sum(total, in); }
extern "C" __global__ void add_f64(double* total, const double* in) { sum(total, in); }

extern "C" __global__ void others(int* out, const int* in) {
  int v = in[blockIdx.x * blockDim.x + threadIdx.x];
  atomicMax(out, v); atomicMin(out + 1, v); atomicAnd(out + 2, v); atomicOr(out + 3, v); atomicXor(out + 4, v);
  atomicSub(out + 5, v); atomicInc((unsigned*)out + 6, 9); atomicDec((unsigned*)out + 7, 9);
}
extern "C" __global__ void product(float* total, const float* in) {  // as a kernel multiplies without an instruction for it
  int* word = (int*)total;
  int old = *word, assumed;
  do {
    assumed = old;
    old = atomicCAS(word, assumed, __float_as_int(__int_as_float(assumed) * in[threadIdx.x]));
  } while (assumed != old);
}
extern "C" __global__ void exchange(int* slot, int* old) { old[threadIdx.x] = atomicExch(slot, threadIdx.x + 1); }
"""


@pytest.mark.parametrize(
    "name, dtype",
    [("i32", np.int32), ("u32", np.uint32), ("u64", np.uint64), ("f32", np.float32), ("f64", np.float64)],
)
def test_atomic_sums(launch, name: str, dtype) -> None:
    data = np.random.default_rng(5).integers(0, 1000, 4 * 64).astype(dtype)
    total = np.array([7], dtype)
    launch(ATOMICS, f"add_{name}", total, data, grid=(4,), block=(64,))
    assert total[0] == data.sum() + 7


def test_other_atomic_operations(launch) -> None:
    data = np.random.default_rng(6).integers(-(2**20), 2**20, 128).astype(np.int32)
    out = np.array([0, 0, -1, 0, 0, 5, 0, 0], np.int32)
    launch(ATOMICS, "others", out, data, grid=(2,), block=(64,))
    assert out.tolist() == [
        max(0, data.max()),
        min(0, data.min()),
        np.bitwise_and.reduce(data),
        np.bitwise_or.reduce(data),
        np.bitwise_xor.reduce(data),
        5 - data.sum(),
        128 % 10,
        -128 % 10,
    ]


@pytest.mark.parametrize("seed", [0, 3])
def test_a_loop_of_compare_and_swap(launch, seed: int) -> None:
    data = np.random.default_rng(7).choice([0.5, 2.0, 4.0], 64).astype(np.float32)
    total = np.ones(1, np.float32)
    launch(ATOMICS, "product", total, data, block=(64,), seed=seed)
    assert total[0] == data.prod()


def test_exchange(launch) -> None:
    slot, old = np.zeros(1, np.int32), np.zeros(32, np.int32)
    launch(ATOMICS, "exchange", slot, old)
    assert sorted([*old, slot[0]]) == list(range(33))
