// CUDA's mathematical functions beyond those of <math.h>: intrinsics, conversions, bit operations, bit casts.
//
// Functions that CUDA computes approximately (__expf and its kind) are computed as exactly as the C library's.
#pragma once

#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "vectors.h"

namespace emulation {

template <class To, class From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// Nearest integer in a direction, then the nearest one that the type has; NaN becomes zero (PTX: cvt from float to integer).
template <class Integer, class Float>
Integer to_integer(Float rounded) {
  if (std::isnan(rounded)) return 0;
  constexpr Float least = Float(std::numeric_limits<Integer>::min());
  constexpr Float beyond = 2 * Float(Integer(1) << (std::numeric_limits<Integer>::digits - 1));
  if (rounded < least) return std::numeric_limits<Integer>::min();
  if (rounded >= beyond) return std::numeric_limits<Integer>::max();
  return Integer(rounded);
}

// The neighbour of ``x`` in direction of a sum's or product's rounding error has an odd last bit: rounding that to a narrower format
// rounds the exact value once (Boldo and Melquiond, IEEE Transactions on Computers 2008).
inline double to_odd(double x, double error) {
  if (error == 0 || !std::isfinite(x) || bit_cast<uint64_t>(x) & 1) return x;
  return std::nextafter(x, error > 0 ? INFINITY : -INFINITY);
}

inline double add_to_odd(double a, double b) {  // error by Knuth's two-sum
  double sum = a + b, part = sum - a;
  return to_odd(sum, (a - (sum - part)) + (b - part));
}

}  // namespace emulation

// ------------------------------------------------------------------------------------------ names that <math.h> lacks

inline float rsqrtf(float x) { return float(1 / std::sqrt(double(x))); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rcbrtf(float x) { return float(1 / std::cbrt(double(x))); }
inline double rcbrt(double x) { return 1 / std::cbrt(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
inline float normcdff(float x) { return float(normcdf(double(x))); }
inline double sinpi(double x) {
  double r = fmod(x, 2);
  return fmod(x, 1) == 0 ? std::copysign(0.0, x) : sin(M_PI * r);
}
inline double cospi(double x) { return fmod(x - 0.5, 1) == 0 ? 0.0 : cos(M_PI * fmod(x, 2)); }
inline float sinpif(float x) { return float(sinpi(double(x))); }
inline float cospif(float x) { return float(cospi(double(x))); }
inline float fdividef(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x >= 1 ? 1.0f : x > 0 ? x : 0.0f; }
inline float __int_as_float(int bits) { return emulation::bit_cast<float>(bits); }

namespace emulation {
inline float expf_(float x) { return ::expf(x); }
inline float exp10f_(float x) { return float(std::pow(10.0, double(x))); }
inline float logf_(float x) { return ::logf(x); }
inline float log2f_(float x) { return ::log2f(x); }
inline float log10f_(float x) { return ::log10f(x); }
inline float sinf_(float x) { return ::sinf(x); }
inline float cosf_(float x) { return ::cosf(x); }
inline float tanf_(float x) { return ::tanf(x); }
inline float powf_(float x, float y) { return ::powf(x, y); }
inline void sincosf_(float x, float* sine, float* cosine) {
  *sine = ::sinf(x);
  *cosine = ::cosf(x);
}
}  // namespace emulation

// The C library declares these names for itself, and defines none for programs.
#define __expf ::emulation::expf_
#define __exp10f ::emulation::exp10f_
#define __logf ::emulation::logf_
#define __log2f ::emulation::log2f_
#define __log10f ::emulation::log10f_
#define __sinf ::emulation::sinf_
#define __cosf ::emulation::cosf_
#define __tanf ::emulation::tanf_
#define __powf ::emulation::powf_
#define __sincosf ::emulation::sincosf_

#define EMULATION_EXTREMES(type)                                                                       \
  inline type min(type a, type b) { return b < a ? b : a; }                                            \
  inline type max(type a, type b) { return a < b ? b : a; }
EMULATION_EXTREMES(int)
EMULATION_EXTREMES(unsigned int)
EMULATION_EXTREMES(long)
EMULATION_EXTREMES(unsigned long)
EMULATION_EXTREMES(long long)
EMULATION_EXTREMES(unsigned long long)
#undef EMULATION_EXTREMES
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(double(a), b); }
inline double max(float a, double b) { return fmax(double(a), b); }
inline double min(double a, float b) { return fmin(a, double(b)); }
inline double max(double a, float b) { return fmax(a, double(b)); }
inline int min(unsigned char a, unsigned char b) { return b < a ? b : a; }
inline int max(unsigned char a, unsigned char b) { return a < b ? b : a; }

// -------------------------------------------------------------------------------------- arithmetic rounded to nearest

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double x) { return 1 / x; }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

// -------------------------------------------------------------------------------------------------------- conversions

#define EMULATION_TO_INTEGER(name, from, to)                                                           \
  inline to name##_rn(from x) { return emulation::to_integer<to>(std::nearbyint(x)); }                 \
  inline to name##_rz(from x) { return emulation::to_integer<to>(std::trunc(x)); }                     \
  inline to name##_rd(from x) { return emulation::to_integer<to>(std::floor(x)); }                     \
  inline to name##_ru(from x) { return emulation::to_integer<to>(std::ceil(x)); }
EMULATION_TO_INTEGER(__float2int, float, int)
EMULATION_TO_INTEGER(__float2uint, float, unsigned int)
EMULATION_TO_INTEGER(__float2ll, float, long long)
EMULATION_TO_INTEGER(__float2ull, float, unsigned long long)
EMULATION_TO_INTEGER(__double2int, double, int)
EMULATION_TO_INTEGER(__double2uint, double, unsigned int)
EMULATION_TO_INTEGER(__double2ll, double, long long)
EMULATION_TO_INTEGER(__double2ull, double, unsigned long long)
#undef EMULATION_TO_INTEGER

inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned int x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned int x) { return x; }
inline double __ll2double_rn(long long x) { return double(x); }
inline double __ull2double_rn(unsigned long long x) { return double(x); }
inline float __double2float_rn(double x) { return float(x); }

inline int __float_as_int(float x) { return emulation::bit_cast<int>(x); }
inline unsigned int __float_as_uint(float x) { return emulation::bit_cast<unsigned int>(x); }
inline float __uint_as_float(unsigned int bits) { return emulation::bit_cast<float>(bits); }
inline long long __double_as_longlong(double x) { return emulation::bit_cast<long long>(x); }
inline double __longlong_as_double(long long bits) { return emulation::bit_cast<double>(bits); }
inline int __double2hiint(double x) { return int(emulation::bit_cast<uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return int(emulation::bit_cast<uint64_t>(x)); }
inline double __hiloint2double(int high, int low) {
  return emulation::bit_cast<double>(uint64_t(uint32_t(high)) << 32 | uint32_t(low));
}

// ---------------------------------------------------------------------------------------------------- bits of integers

inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned int __brev(unsigned int x) {
  unsigned int reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
inline int __mul24(int a, int b) {
  int64_t x = int32_t(uint32_t(a) << 8) >> 8, y = int32_t(uint32_t(b) << 8) >> 8;
  return int(x * y);
}
inline unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) { return unsigned(uint64_t(a) * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __hadd(int a, int b) { return int((int64_t(a) + b) >> 1); }
inline unsigned int __uhadd(unsigned int a, unsigned int b) { return unsigned((uint64_t(a) + b) >> 1); }
inline unsigned int __sad(int a, int b, unsigned int c) { return unsigned(a < b ? int64_t(b) - a : int64_t(a) - b) + c; }

// Each four bits of ``selector`` choose a byte of both words, or (with bit 3) its sign in all bits.
inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector) {
  uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned int result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned int choice = selector >> 4 * i;
    unsigned int byte = unsigned(bytes >> 8 * (choice & 7)) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
  return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// Products of four pairs of bytes, added to ``c``.
namespace emulation {
template <class Byte, class Word>
Word dot_of_bytes(Word a, Word b, Word c) {
  uint32_t sum = uint32_t(c);
  for (int i = 0; i < 4; ++i) sum += uint32_t(int(Byte(uint32_t(a) >> 8 * i)) * int(Byte(uint32_t(b) >> 8 * i)));
  return Word(sum);
}
}  // namespace emulation
inline int __dp4a(int a, int b, int c) { return emulation::dot_of_bytes<int8_t>(a, b, c); }
inline unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) { return emulation::dot_of_bytes<uint8_t>(a, b, c); }
inline int __dp4a(char4 a, char4 b, int c) { return __dp4a(emulation::bit_cast<int>(a), emulation::bit_cast<int>(b), c); }
inline unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int c) {
  return __dp4a(emulation::bit_cast<unsigned int>(a), emulation::bit_cast<unsigned int>(b), c);
}

// ------------------------------------------------------------------------------------ loads and stores with cache hints

#define EMULATION_LOAD(name)                                                                           \
  template <class T>                                                                                   \
  T name(const T* address) {                                                                           \
    return *address;                                                                                   \
  }
#define EMULATION_STORE(name)                                                                          \
  template <class T>                                                                                   \
  void name(T* address, std::common_type_t<T> value) {                                                 \
    *address = value;                                                                                  \
  }
EMULATION_LOAD(__ldg)
EMULATION_LOAD(__ldca)
EMULATION_LOAD(__ldcg)
EMULATION_LOAD(__ldcs)
EMULATION_LOAD(__ldlu)
EMULATION_LOAD(__ldcv)
EMULATION_STORE(__stwb)
EMULATION_STORE(__stcg)
EMULATION_STORE(__stcs)
EMULATION_STORE(__stwt)
#undef EMULATION_LOAD
#undef EMULATION_STORE
