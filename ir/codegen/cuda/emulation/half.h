// __half, __nv_bfloat16, their pairs, and the functions of cuda_fp16.h and cuda_bf16.h.
//
// Arithmetic is done on wider numbers and rounded once, to nearest even. Functions are friends of the types, as C++ then converts
// operands as it does for CUDA's: half + float is ambiguous there and here.
#pragma once

#include <type_traits>

#include "narrow_formats.h"
#include "vectors.h"

struct __half_raw {
  unsigned short x;
};
struct __nv_bfloat16_raw {
  unsigned short x;
};

namespace emulation {

template <class Format>
struct RawOf;
template <>
struct RawOf<Binary16> {
  using type = __half_raw;
};
template <>
struct RawOf<Brain16> {
  using type = __nv_bfloat16_raw;
};

#define EMULATION_UNARY(name, expression)                                                              \
  friend SmallFloat name(SmallFloat a) {                                                               \
    double x = a.wide();                                                                               \
    return of(expression);                                                                             \
  }
#define EMULATION_BINARY(name, expression)                                                             \
  friend SmallFloat name(SmallFloat a, SmallFloat b) {                                                 \
    double x = a.wide(), y = b.wide();                                                                 \
    return of(expression);                                                                             \
  }
#define EMULATION_RELATION(name, expression)                                                           \
  friend bool name(SmallFloat a, SmallFloat b) {                                                       \
    double x = a.wide(), y = b.wide();                                                                 \
    return expression;                                                                                 \
  }
#define EMULATION_TO(type)                                                                             \
  operator type() const { return to_integer<type>(std::trunc(wide())); }

template <class Format>
struct alignas(2) SmallFloat {
  using Raw = typename RawOf<Format>::type;
  unsigned short __x;

  SmallFloat() = default;
  SmallFloat(Raw raw) : __x(raw.x) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  SmallFloat(T x) {
    if constexpr (std::is_integral_v<T>)
      *this = of(integer_to_odd(x));
    else
      *this = of(x);
  }
  template <class Other, std::enable_if_t<!std::is_same_v<Other, Format>, int> = 0>
  SmallFloat(SmallFloat<Other> other) : SmallFloat(of(other.wide())) {}

  static SmallFloat of(double x, Rounding rounding = Rounding::nearest_even) {
    return of_bits((unsigned short)narrow<Format>(x, rounding));
  }
  static SmallFloat of_bits(unsigned short bits) {
    SmallFloat result;
    result.__x = bits;
    return result;
  }
  double wide() const { return widen<Format>(__x); }

  operator Raw() const { return {__x}; }
  operator float() const { return widen<Format>(__x); }
  operator bool() const { return (__x & (Format::sign - 1)) != 0; }
  EMULATION_TO(char)
  EMULATION_TO(signed char)
  EMULATION_TO(unsigned char)
  EMULATION_TO(short)
  EMULATION_TO(unsigned short)
  EMULATION_TO(int)
  EMULATION_TO(unsigned int)
  EMULATION_TO(long)
  EMULATION_TO(unsigned long)
  EMULATION_TO(long long)
  EMULATION_TO(unsigned long long)

  EMULATION_BINARY(operator+, x + y)
  EMULATION_BINARY(operator-, x - y)
  EMULATION_BINARY(operator*, x* y)
  EMULATION_BINARY(operator/, x / y)
  friend SmallFloat& operator+=(SmallFloat& a, const SmallFloat& b) { return a = a + b; }
  friend SmallFloat& operator-=(SmallFloat& a, const SmallFloat& b) { return a = a - b; }
  friend SmallFloat& operator*=(SmallFloat& a, const SmallFloat& b) { return a = a * b; }
  friend SmallFloat& operator/=(SmallFloat& a, const SmallFloat& b) { return a = a / b; }
  friend SmallFloat& operator++(SmallFloat& a) { return a = of(a.wide() + 1); }
  friend SmallFloat& operator--(SmallFloat& a) { return a = of(a.wide() - 1); }
  friend SmallFloat operator++(SmallFloat& a, int) {
    SmallFloat old = a;
    ++a;
    return old;
  }
  friend SmallFloat operator--(SmallFloat& a, int) {
    SmallFloat old = a;
    --a;
    return old;
  }
  friend SmallFloat operator+(SmallFloat a) { return a; }
  friend SmallFloat operator-(SmallFloat a) { return of_bits(a.__x ^ Format::sign); }
  EMULATION_RELATION(operator==, x == y)
  EMULATION_RELATION(operator!=, x != y)
  EMULATION_RELATION(operator<, x < y)
  EMULATION_RELATION(operator>, x > y)
  EMULATION_RELATION(operator<=, x <= y)
  EMULATION_RELATION(operator>=, x >= y)

  EMULATION_BINARY(__hadd, x + y)
  EMULATION_BINARY(__hsub, x - y)
  EMULATION_BINARY(__hmul, x* y)
  EMULATION_BINARY(__hadd_rn, x + y)
  EMULATION_BINARY(__hsub_rn, x - y)
  EMULATION_BINARY(__hmul_rn, x* y)
  EMULATION_BINARY(__hdiv, x / y)
  EMULATION_BINARY(__hadd_sat, saturated(x + y))
  EMULATION_BINARY(__hsub_sat, saturated(x - y))
  EMULATION_BINARY(__hmul_sat, saturated(x* y))
  friend SmallFloat __hfma(SmallFloat a, SmallFloat b, SmallFloat c) { return of(fused(a, b, c)); }
  friend SmallFloat __hfma_sat(SmallFloat a, SmallFloat b, SmallFloat c) { return of(saturated(fused(a, b, c))); }
  friend SmallFloat __hfma_relu(SmallFloat a, SmallFloat b, SmallFloat c) {
    double x = fused(a, b, c);
    return of(x < 0 ? 0 : x);
  }
  friend SmallFloat __hneg(SmallFloat a) { return -a; }
  friend SmallFloat __habs(SmallFloat a) { return of_bits(a.__x & (Format::sign - 1)); }
  // The smaller and the larger number: of a number and NaN the number, or NaN; -0 is less than +0.
  friend SmallFloat __hmin(SmallFloat a, SmallFloat b) { return extreme(a, b, less(a, b)); }
  friend SmallFloat __hmax(SmallFloat a, SmallFloat b) { return extreme(a, b, less(b, a)); }
  friend SmallFloat __hmin_nan(SmallFloat a, SmallFloat b) { return either_nan(a, b) ? of(NAN) : __hmin(a, b); }
  friend SmallFloat __hmax_nan(SmallFloat a, SmallFloat b) { return either_nan(a, b) ? of(NAN) : __hmax(a, b); }
  friend bool __hisnan(SmallFloat a) { return std::isnan(a.wide()); }
  friend int __hisinf(SmallFloat a) { return std::isinf(a.wide()) ? (a.wide() < 0 ? -1 : 1) : 0; }
  EMULATION_RELATION(__heq, x == y)
  EMULATION_RELATION(__hne, x < y || x > y)
  EMULATION_RELATION(__hlt, x < y)
  EMULATION_RELATION(__hgt, x > y)
  EMULATION_RELATION(__hle, x <= y)
  EMULATION_RELATION(__hge, x >= y)
  // True as well where one of the operands is NaN.
  EMULATION_RELATION(__hequ, !(x < y || x > y))
  EMULATION_RELATION(__hneu, x != y)
  EMULATION_RELATION(__hltu, !(x >= y))
  EMULATION_RELATION(__hgtu, !(x <= y))
  EMULATION_RELATION(__hleu, !(x > y))
  EMULATION_RELATION(__hgeu, !(x < y))

  EMULATION_UNARY(hexp, std::exp(x))
  EMULATION_UNARY(hexp2, std::exp2(x))
  EMULATION_UNARY(hexp10, std::pow(10.0, x))
  EMULATION_UNARY(hlog, std::log(x))
  EMULATION_UNARY(hlog2, std::log2(x))
  EMULATION_UNARY(hlog10, std::log10(x))
  EMULATION_UNARY(hsin, std::sin(x))
  EMULATION_UNARY(hcos, std::cos(x))
  EMULATION_UNARY(htanh, std::tanh(x))
  EMULATION_UNARY(hsqrt, std::sqrt(x))
  EMULATION_UNARY(hrsqrt, 1 / std::sqrt(x))
  EMULATION_UNARY(hrcp, 1 / x)
  EMULATION_UNARY(hceil, std::ceil(x))
  EMULATION_UNARY(hfloor, std::floor(x))
  EMULATION_UNARY(htrunc, std::trunc(x))
  EMULATION_UNARY(hrint, std::nearbyint(x))

 private:
  static double saturated(double x) { return x >= 1 ? 1 : x > 0 ? x : 0; }
  static double fused(SmallFloat a, SmallFloat b, SmallFloat c) { return add_to_odd(a.wide() * b.wide(), c.wide()); }
  static bool either_nan(SmallFloat a, SmallFloat b) { return std::isnan(a.wide()) || std::isnan(b.wide()); }
  static bool less(SmallFloat a, SmallFloat b) {
    return a.wide() < b.wide() || (a.wide() == b.wide() && std::signbit(a.wide()) && !std::signbit(b.wide()));
  }
  static SmallFloat extreme(SmallFloat a, SmallFloat b, bool first) {
    if (std::isnan(a.wide())) return std::isnan(b.wide()) ? of(NAN) : b;
    return first || std::isnan(b.wide()) ? a : b;
  }
};

#undef EMULATION_UNARY
#undef EMULATION_BINARY
#undef EMULATION_RELATION
#undef EMULATION_TO

}  // namespace emulation

using __half = emulation::SmallFloat<emulation::Binary16>;
using half = __half;
using __nv_bfloat16 = emulation::SmallFloat<emulation::Brain16>;
using nv_bfloat16 = __nv_bfloat16;

// ------------------------------------------------------------------------------------------------------------- pairs

namespace emulation {

#define EMULATION_UNARY(name, of_element)                                                              \
  friend Pair name(Pair a) { return {of_element(a.x), of_element(a.y)}; }
#define EMULATION_BINARY(name, of_element)                                                             \
  friend Pair name(Pair a, Pair b) { return {of_element(a.x, b.x), of_element(a.y, b.y)}; }
#define EMULATION_OPERATOR(symbol)                                                                     \
  friend Pair operator symbol(Pair a, Pair b) { return {a.x symbol b.x, a.y symbol b.y}; }             \
  friend Pair& operator symbol##=(Pair& a, const Pair& b) { return a = a symbol b; }
// 1 or 0 for each element; whether it holds for both; all bits or none for each element.
#define EMULATION_RELATION(name)                                                                       \
  friend Pair __h##name##2(Pair a, Pair b) {                                                           \
    return {Element(int(__h##name(a.x, b.x))), Element(int(__h##name(a.y, b.y)))};                     \
  }                                                                                                    \
  friend bool __hb##name##2(Pair a, Pair b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }     \
  friend unsigned __h##name##2_mask(Pair a, Pair b) {                                                  \
    return (__h##name(a.x, b.x) ? 0xFFFFu : 0) | (__h##name(a.y, b.y) ? 0xFFFF0000u : 0);              \
  }

template <class Element>
struct alignas(4) Pair {
  Element x, y;

  Pair() = default;
  Pair(Element x, Element y) : x(x), y(y) {}

  EMULATION_OPERATOR(+)
  EMULATION_OPERATOR(-)
  EMULATION_OPERATOR(*)
  EMULATION_OPERATOR(/)
  friend Pair operator+(Pair a) { return a; }
  friend Pair operator-(Pair a) { return {-a.x, -a.y}; }
  friend bool operator==(Pair a, Pair b) { return __hbeq2(a, b); }
  friend bool operator!=(Pair a, Pair b) { return __hbneu2(a, b); }
  friend bool operator<(Pair a, Pair b) { return __hblt2(a, b); }
  friend bool operator>(Pair a, Pair b) { return __hbgt2(a, b); }
  friend bool operator<=(Pair a, Pair b) { return __hble2(a, b); }
  friend bool operator>=(Pair a, Pair b) { return __hbge2(a, b); }

  EMULATION_BINARY(__hadd2, __hadd)
  EMULATION_BINARY(__hsub2, __hsub)
  EMULATION_BINARY(__hmul2, __hmul)
  EMULATION_BINARY(__hadd2_rn, __hadd)
  EMULATION_BINARY(__hsub2_rn, __hsub)
  EMULATION_BINARY(__hmul2_rn, __hmul)
  EMULATION_BINARY(__h2div, __hdiv)
  EMULATION_BINARY(__hadd2_sat, __hadd_sat)
  EMULATION_BINARY(__hsub2_sat, __hsub_sat)
  EMULATION_BINARY(__hmul2_sat, __hmul_sat)
  EMULATION_BINARY(__hmin2, __hmin)
  EMULATION_BINARY(__hmax2, __hmax)
  EMULATION_BINARY(__hmin2_nan, __hmin_nan)
  EMULATION_BINARY(__hmax2_nan, __hmax_nan)
  friend Pair __hfma2(Pair a, Pair b, Pair c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
  friend Pair __hfma2_sat(Pair a, Pair b, Pair c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }
  friend Pair __hfma2_relu(Pair a, Pair b, Pair c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; }
  friend Pair __hisnan2(Pair a) { return {Element(int(__hisnan(a.x))), Element(int(__hisnan(a.y)))}; }
  EMULATION_RELATION(eq)
  EMULATION_RELATION(ne)
  EMULATION_RELATION(lt)
  EMULATION_RELATION(gt)
  EMULATION_RELATION(le)
  EMULATION_RELATION(ge)
  EMULATION_RELATION(equ)
  EMULATION_RELATION(neu)
  EMULATION_RELATION(ltu)
  EMULATION_RELATION(gtu)
  EMULATION_RELATION(leu)
  EMULATION_RELATION(geu)
  EMULATION_UNARY(__hneg2, __hneg)
  EMULATION_UNARY(__habs2, __habs)
  EMULATION_UNARY(h2exp, hexp)
  EMULATION_UNARY(h2exp2, hexp2)
  EMULATION_UNARY(h2exp10, hexp10)
  EMULATION_UNARY(h2log, hlog)
  EMULATION_UNARY(h2log2, hlog2)
  EMULATION_UNARY(h2log10, hlog10)
  EMULATION_UNARY(h2sin, hsin)
  EMULATION_UNARY(h2cos, hcos)
  EMULATION_UNARY(h2tanh, htanh)
  EMULATION_UNARY(h2sqrt, hsqrt)
  EMULATION_UNARY(h2rsqrt, hrsqrt)
  EMULATION_UNARY(h2rcp, hrcp)
  EMULATION_UNARY(h2ceil, hceil)
  EMULATION_UNARY(h2floor, hfloor)
  EMULATION_UNARY(h2trunc, htrunc)
  EMULATION_UNARY(h2rint, hrint)
  friend Pair __lowhigh2highlow(Pair a) { return {a.y, a.x}; }
  friend float __low2float(Pair a) { return a.x; }
  friend float __high2float(Pair a) { return a.y; }
};

#undef EMULATION_UNARY
#undef EMULATION_BINARY
#undef EMULATION_OPERATOR
#undef EMULATION_RELATION

}  // namespace emulation

using __half2 = emulation::Pair<__half>;
using half2 = __half2;
using __nv_bfloat162 = emulation::Pair<__nv_bfloat16>;
using nv_bfloat162 = __nv_bfloat162;

inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }

// ------------------------------------------------------------------------------------------------------- conversions

#define EMULATION_ROUNDED(to_name, from_name, to, from, value)                                         \
  inline to __##from_name##2##to_name##_rn(from x) { return to::of(value); }                           \
  inline to __##from_name##2##to_name##_rz(from x) { return to::of(value, emulation::Rounding::to_zero); } \
  inline to __##from_name##2##to_name##_rd(from x) { return to::of(value, emulation::Rounding::down); } \
  inline to __##from_name##2##to_name##_ru(from x) { return to::of(value, emulation::Rounding::up); }
#define EMULATION_INTEGERS(name, type, integer_name, integer)                                          \
  EMULATION_ROUNDED(name, integer_name, type, integer, emulation::integer_to_odd(x))                   \
  inline integer __##name##2##integer_name##_rn(type x) { return emulation::to_integer<integer>(std::nearbyint(x.wide())); } \
  inline integer __##name##2##integer_name##_rz(type x) { return emulation::to_integer<integer>(std::trunc(x.wide())); } \
  inline integer __##name##2##integer_name##_rd(type x) { return emulation::to_integer<integer>(std::floor(x.wide())); } \
  inline integer __##name##2##integer_name##_ru(type x) { return emulation::to_integer<integer>(std::ceil(x.wide())); }
#define EMULATION_CONVERSIONS(name, type, pair)                                                        \
  EMULATION_ROUNDED(name, float, type, float, x)                                                       \
  EMULATION_INTEGERS(name, type, short, short)                                                         \
  EMULATION_INTEGERS(name, type, ushort, unsigned short)                                               \
  EMULATION_INTEGERS(name, type, int, int)                                                             \
  EMULATION_INTEGERS(name, type, uint, unsigned int)                                                   \
  EMULATION_INTEGERS(name, type, ll, long long)                                                        \
  EMULATION_INTEGERS(name, type, ull, unsigned long long)                                              \
  inline signed char __##name##2char_rz(type x) { return (signed char)x; }                             \
  inline unsigned char __##name##2uchar_rz(type x) { return (unsigned char)x; }                        \
  inline type __float2##name(float x) { return type::of(x); }                                          \
  inline type __double2##name(double x) { return type::of(x); }                                        \
  inline float __##name##2float(type x) { return x; }                                                  \
  inline pair __float2##name##2_rn(float x) { return {type::of(x), type::of(x)}; }                     \
  inline pair __floats2##name##2_rn(float x, float y) { return {type::of(x), type::of(y)}; }           \
  inline pair __float22##name##2_rn(float2 v) { return {type::of(v.x), type::of(v.y)}; }               \
  inline float2 __##name##22float2(pair v) { return {float(v.x), float(v.y)}; }                        \
  inline pair __##name##2##name##2(type x) { return {x, x}; }                                          \
  inline pair __halves2##name##2(type x, type y) { return {x, y}; }                                    \
  inline type __low2##name(pair v) { return v.x; }                                                     \
  inline type __high2##name(pair v) { return v.y; }                                                    \
  inline pair __low2##name##2(pair v) { return {v.x, v.x}; }                                           \
  inline pair __high2##name##2(pair v) { return {v.y, v.y}; }                                          \
  inline pair __lows2##name##2(pair v, pair w) { return {v.x, w.x}; }                                  \
  inline pair __highs2##name##2(pair v, pair w) { return {v.y, w.y}; }                                 \
  inline short __##name##_as_short(type x) { return short(x.__x); }                                    \
  inline unsigned short __##name##_as_ushort(type x) { return x.__x; }                                 \
  inline type __short_as_##name(short bits) { return type::of_bits((unsigned short)bits); }            \
  inline type __ushort_as_##name(unsigned short bits) { return type::of_bits(bits); }

EMULATION_CONVERSIONS(half, __half, __half2)
EMULATION_CONVERSIONS(bfloat16, __nv_bfloat16, __nv_bfloat162)
#undef EMULATION_ROUNDED
#undef EMULATION_INTEGERS
#undef EMULATION_CONVERSIONS
