"""Functions that kernels call for what C++ leaves undefined or gives another meaning: they say what `docs/semantics.md` says.

A kernel's source holds those that it uses, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

MATHEMATICS = frozenset(
    """exp exp2 exp10 expm1 erf erfc tanh log log2 log10 log1p sqrt rsqrt tan cos sin cosh sinh acos acosh asin asinh atan atanh pow fmod
    atan2 ldexp hypot copysign fabs floor ceil trunc round nearbyint""".split()
)
"""Functions that CUDA's mathematical library has under the name of the intrinsic, and for float with an ``f`` behind it.

In float32 they are off by at most 4 units in the last place (CUDA C++ Programming Guide, "Mathematical Functions"), compiled without
``--use_fast_math``."""

_WRAPPING = """template <class T> __device__ __forceinline__ T wrapping_{name}(T a, T b) {{
  return (T)((typename as_unsigned<T>::type)a {operator} (typename as_unsigned<T>::type)b);
}}"""

_TO_FLOAT8 = """// What is too large is {what}, where instructions make it the largest number.
__device__ __forceinline__ {type} to_{dtype}(float x) {{
  {type} result;
  result.__x = fabsf(x) > {limit} ? (x < 0 ? {beyond} | 128 : {beyond}) : __nv_cvt_float_to_fp8(x, __NV_SATFINITE, {kind});
  return result;
}}
__device__ __forceinline__ {type} to_{dtype}(double x) {{
  {type} result;
  result.__x = __nv_cvt_double_to_fp8(x, __NV_NOSAT, {kind});
  return result;
}}"""
_TO_FLOAT8_PAIR = """__device__ __forceinline__ {type} to_{dtype}_pair(float x, float y) {{
  {type} result;
  result.__x = __nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, {kind});
  if (fabsf(x) > {limit}) result.__x = result.__x & 0xFF00 | (x < 0 ? {beyond} | 128 : {beyond});
  if (fabsf(y) > {limit}) result.__x = result.__x & 0x00FF | (y < 0 ? {beyond} | 128 : {beyond}) << 8;
  return result;
}}"""

FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "as_unsigned": ((), """// Arithmetic of these wraps; that of signed integers must not overflow.
template <class T> struct as_unsigned { typedef unsigned int type; };
template <> struct as_unsigned<long long> { typedef unsigned long long type; };
template <> struct as_unsigned<unsigned long long> { typedef unsigned long long type; };"""),
    "wrapping_add": (("as_unsigned",), _WRAPPING.format(name="add", operator="+")),
    "wrapping_sub": (("as_unsigned",), _WRAPPING.format(name="sub", operator="-")),
    "wrapping_mul": (("as_unsigned",), _WRAPPING.format(name="mul", operator="*")),
    "shift_left": (("as_unsigned",), """template <class T> __device__ __forceinline__ T shift_left(T a, T b) {
  return (T)((typename as_unsigned<T>::type)a << b);
}"""),
    "whole_quotient": (("wrapping_sub",), """// The smallest number divided by -1 is itself.
template <class T> __device__ __forceinline__ T whole_quotient(T a, T b) {
  return b == (T)-1 ? wrapping_sub((T)0, a) : (T)(a / b);
}"""),
    "whole_remainder": ((), """template <class T> __device__ __forceinline__ T whole_remainder(T a, T b) {
  return b == (T)-1 ? (T)0 : (T)(a % b);
}"""),
    "floor_quotient": (("whole_quotient",), """template <class T> __device__ __forceinline__ T floor_quotient(T a, T b) {
  const T q = whole_quotient(a, b);
  return b != (T)-1 && a % b != 0 && (a < 0) != (b < 0) ? (T)(q - 1) : q;
}"""),
    "floor_remainder": (("whole_remainder",), """// It has the sign of the divisor.
template <class T> __device__ __forceinline__ T floor_remainder(T a, T b) {
  const T r = whole_remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}"""),
    "maximum": ((), """// NaN where an operand is NaN.
template <class T> __device__ __forceinline__ T maximum(T a, T b) { return a > b || a != a ? a : b; }"""),
    "minimum": ((), """// NaN where an operand is NaN.
template <class T> __device__ __forceinline__ T minimum(T a, T b) { return a < b || a != a ? a : b; }"""),
    "is_wrong_sign": ((), """template <class T> __device__ __forceinline__ bool is_wrong_sign(T remainder, T divisor) {
  return remainder != 0 && (remainder < 0) != (divisor < 0);
}"""),
    "float_floor_remainder": (("is_wrong_sign",), """// It has the sign of the divisor, zero too.
__device__ __forceinline__ float float_floor_remainder(float x, float y) {
  const float r = fmodf(x, y);
  return r == 0.0f ? copysignf(0.0f, y) : is_wrong_sign(r, y) ? __fadd_rn(r, y) : r;
}
__device__ __forceinline__ double float_floor_remainder(double x, double y) {
  const double r = fmod(x, y);
  return r == 0.0 ? copysign(0.0, y) : is_wrong_sign(r, y) ? __dadd_rn(r, y) : r;
}"""),
    "float_floor_quotient": (("is_wrong_sign",), """// The floor of the exact quotient, also where the division rounds up to a whole number.
template <class T> __device__ __forceinline__ T floor_of_quotient(T x, T y, T r, T ratio) {
  if (y == 0) return ratio;
  const T q = (x - r) / y - (is_wrong_sign(r, y) ? (T)1 : (T)0);
  const T down = floor(q);
  return q == 0 ? copysign((T)0, ratio) : q - down > (T)0.5 ? down + (T)1 : down;
}
__device__ __forceinline__ float float_floor_quotient(float x, float y) { return floor_of_quotient(x, y, fmodf(x, y), x / y); }
__device__ __forceinline__ double float_floor_quotient(double x, double y) { return floor_of_quotient(x, y, fmod(x, y), x / y); }"""),
    "to_integer": ((), """// Rounded towards zero; what does not fit becomes the nearest integer that does, NaN becomes 0.
template <class T, class F> __device__ __forceinline__ T to_integer(F x, T low, T high) {
  // `low` is a power of two or 0, and so is the number behind `high`: floats hold them.
  const F above = (F)2 * (F)(high / 2 + 1);
  return x != x ? (T)0 : x <= (F)low ? low : x >= above ? high : (T)x;
}"""),
    "reinterpret": ((), """template <class To, class From> __device__ __forceinline__ To reinterpret(From value) {
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}"""),
    "vec": ((), """// Neighbours in memory that are read or written at once.
template <class T, int N> struct alignas(sizeof(T) * N) vec { T lane[N]; };"""),
    "load_vec": (("vec",), """template <int N, class T> __device__ __forceinline__ vec<T, N> load_vec(const T* address) {
  return *reinterpret_cast<const vec<T, N>*>(address);
}"""),
    "store_vec": (("vec",), """template <class T, int N> __device__ __forceinline__ void store_vec(T* address, const vec<T, N>& value) {
  *reinterpret_cast<vec<T, N>*>(address) = value;
}"""),
    "to_float8_e4m3fn": ((), _TO_FLOAT8.format(
        what="NaN", type="__nv_fp8_e4m3", dtype="float8_e4m3fn", limit="464.0f", beyond="0x7F", kind="__NV_E4M3")),
    "to_float8_e5m2": ((), _TO_FLOAT8.format(
        what="infinite", type="__nv_fp8_e5m2", dtype="float8_e5m2", limit="61439.996f", beyond="0x7C", kind="__NV_E5M2")),
    "pair_at": (("vec",), """template <class Pair, class T, int N>
__device__ __forceinline__ Pair pair_at(const vec<T, N>& value, int number) {
  Pair result;
  memcpy(&result, &value.lane[2 * number], sizeof(Pair));
  return result;
}"""),
    "joined_pairs": (("vec",), """template <class T, class Pair, class... Others>
__device__ __forceinline__ vec<T, 2 + 2 * sizeof...(Others)> joined_pairs(Pair first, Others... others) {
  vec<T, 2 + 2 * sizeof...(Others)> result;
  const Pair all[] = {first, others...};
  memcpy(&result, all, sizeof(result));
  return result;
}"""),
    "to_float8_e4m3fn_pair": ((), _TO_FLOAT8_PAIR.format(
        type="__nv_fp8x2_e4m3", dtype="float8_e4m3fn", limit="464.0f", beyond="0x7F", kind="__NV_E4M3")),
    "to_float8_e5m2_pair": ((), _TO_FLOAT8_PAIR.format(
        type="__nv_fp8x2_e5m2", dtype="float8_e5m2", limit="61439.996f", beyond="0x7C", kind="__NV_E5M2")),
    "float8_pairs": ((), """template <class Pair, class T> __device__ __forceinline__ Pair float8_pair(T low, T high) {
  Pair result;
  result.__x = low.__x | high.__x << 8;
  return result;
}
template <class T, class Pair> __device__ __forceinline__ T float8_low(Pair pair) {
  T result;
  result.__x = pair.__x & 0xFF;
  return result;
}
template <class T, class Pair> __device__ __forceinline__ T float8_high(Pair pair) {
  T result;
  result.__x = pair.__x >> 8;
  return result;
}"""),
    "packed_bytes": ((), """__device__ __forceinline__ int packed_bytes(signed char a, signed char b, signed char c, signed char d) {
  return (int)((a & 255u) | (b & 255u) << 8 | (c & 255u) << 16 | (d & 255u) << 24);
}"""),
    "lane_of_warp": ((), """__device__ __forceinline__ int lane_of_warp() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}"""),
    "store_sums": (("lane_of_warp",), """// A thread's part of a matrix that tiles of 8 columns make, as mma leaves its sums.
template <int rows, int columns, class T> __device__ __forceinline__ void store_sums(T* to, const T* held, int stride) {
  const int row = lane_of_warp() / 4, column = lane_of_warp() % 4 * 2;
#pragma unroll
  for (int i = 0; i < rows * columns / 32; ++i) {
    const int element = i % (rows / 4);
    to[(row + element / 2 * 8) * stride + column + element % 2 + i / (rows / 4) * 8] = held[i];
  }
}"""),
    "CUtensorMap": ((), """#if defined(__CUDA_ARCH__)
// What the host makes for copies of boxes of a tensor.
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
#endif"""),
    "sigmoid": ((), """__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }"""),
}  # fmt: skip
"""By name: the functions that one calls, and its text."""


def text_of(names: Iterable[str]) -> str:
    """The functions of some names and those that they call, each behind what it calls."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in found:
            needs, text = FUNCTIONS[name]
            for other in needs:
                add(other)
            found[name] = text

    for name in sorted(names):
        add(name)
    return "\n".join(found.values())
