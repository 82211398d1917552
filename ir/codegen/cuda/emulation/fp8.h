// __nv_fp8_e4m3 and __nv_fp8_e5m2, in ones, twos and fours, and the functions of cuda_fp8.h.
#pragma once

#include <type_traits>

#include "half.h"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned int;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

struct __half2_raw {
  unsigned short x, y;
};

namespace emulation {

// Saturating: what is too large, infinity included, becomes the largest number.
template <class Format>
unsigned char to_fp8(double x, bool saturating) {
  unsigned bits = narrow<Format>(x);
  bool beyond = (bits & (Format::sign - 1)) > Format::largest && !std::isnan(x);
  if (!beyond) return (unsigned char)bits;
  return (unsigned char)((bits & Format::sign) | (saturating ? Format::largest : Format::infinity));
}

inline unsigned char to_fp8(double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
  bool saturating = saturation == __NV_SATFINITE;
  return kind == __NV_E4M3 ? to_fp8<E4M3>(x, saturating) : to_fp8<E5M2>(x, saturating);
}

#define EMULATION_TO(type)                                                                             \
  explicit operator type() const { return to_integer<type>(std::trunc(float(*this))); }

template <class Format>
struct Fp8 {
  __nv_fp8_storage_t __x;

  Fp8() = default;
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  explicit Fp8(T x) : __x(to_fp8<Format>(double(x), true)) {}
  explicit Fp8(__half x) : __x(to_fp8<Format>(x.wide(), true)) {}
  explicit Fp8(__nv_bfloat16 x) : __x(to_fp8<Format>(x.wide(), true)) {}

  explicit operator float() const { return widen<Format>(__x); }
  explicit operator double() const { return widen<Format>(__x); }
  explicit operator __half() const { return __half(float(*this)); }
  explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }
  explicit operator bool() const { return (__x & 0x7F) != 0; }
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
};

#undef EMULATION_TO

template <class Format>
struct Fp8Two {
  __nv_fp8x2_storage_t __x;

  Fp8Two() = default;
  explicit Fp8Two(float2 v) : Fp8Two(double(v.x), double(v.y)) {}
  explicit Fp8Two(double2 v) : Fp8Two(v.x, v.y) {}
  explicit Fp8Two(__half2 v) : Fp8Two(v.x.wide(), v.y.wide()) {}
  explicit Fp8Two(__nv_bfloat162 v) : Fp8Two(v.x.wide(), v.y.wide()) {}
  explicit operator float2() const { return {widen<Format>(__x & 0xFF), widen<Format>(__x >> 8)}; }
  explicit operator __half2() const { return __float22half2_rn(float2(*this)); }

 private:
  Fp8Two(double x, double y) : __x((unsigned short)(to_fp8<Format>(x, true) | to_fp8<Format>(y, true) << 8)) {}
};

template <class Format>
struct Fp8Four {
  __nv_fp8x4_storage_t __x;

  Fp8Four() = default;
  explicit Fp8Four(float4 v) : Fp8Four(make_double4(v.x, v.y, v.z, v.w)) {}
  explicit Fp8Four(double4 v)
      : __x(unsigned(to_fp8<Format>(v.x, true)) | unsigned(to_fp8<Format>(v.y, true)) << 8 |
            unsigned(to_fp8<Format>(v.z, true)) << 16 | unsigned(to_fp8<Format>(v.w, true)) << 24) {}
  Fp8Four(__half2 low, __half2 high) : Fp8Four(make_double4(low.x.wide(), low.y.wide(), high.x.wide(), high.y.wide())) {}
  Fp8Four(__nv_bfloat162 low, __nv_bfloat162 high)
      : Fp8Four(make_double4(low.x.wide(), low.y.wide(), high.x.wide(), high.y.wide())) {}
  explicit operator float4() const {
    return {widen<Format>(__x & 0xFF), widen<Format>(__x >> 8 & 0xFF), widen<Format>(__x >> 16 & 0xFF), widen<Format>(__x >> 24)};
  }
};

}  // namespace emulation

using __nv_fp8_e4m3 = emulation::Fp8<emulation::E4M3>;
using __nv_fp8_e5m2 = emulation::Fp8<emulation::E5M2>;
using __nv_fp8x2_e4m3 = emulation::Fp8Two<emulation::E4M3>;
using __nv_fp8x2_e5m2 = emulation::Fp8Two<emulation::E5M2>;
using __nv_fp8x4_e4m3 = emulation::Fp8Four<emulation::E4M3>;
using __nv_fp8x4_e5m2 = emulation::Fp8Four<emulation::E5M2>;

#define EMULATION_TO_FP8(name, type, wide)                                                             \
  inline __nv_fp8_storage_t name(type x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) { \
    return emulation::to_fp8(wide, saturation, kind);                                                  \
  }
#define EMULATION_TO_FP8_TWO(name, type, first, second)                                                \
  inline __nv_fp8x2_storage_t name(type v, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) { \
    return (__nv_fp8x2_storage_t)(emulation::to_fp8(first, saturation, kind) |                         \
                                  emulation::to_fp8(second, saturation, kind) << 8);                   \
  }
EMULATION_TO_FP8(__nv_cvt_float_to_fp8, float, x)
EMULATION_TO_FP8(__nv_cvt_double_to_fp8, double, x)
EMULATION_TO_FP8(__nv_cvt_halfraw_to_fp8, __half_raw, emulation::widen<emulation::Binary16>(x.x))
EMULATION_TO_FP8(__nv_cvt_bfloat16raw_to_fp8, __nv_bfloat16_raw, emulation::widen<emulation::Brain16>(x.x))
EMULATION_TO_FP8_TWO(__nv_cvt_float2_to_fp8x2, float2, v.x, v.y)
EMULATION_TO_FP8_TWO(__nv_cvt_double2_to_fp8x2, double2, v.x, v.y)
EMULATION_TO_FP8_TWO(__nv_cvt_halfraw2_to_fp8x2, __half2_raw, emulation::widen<emulation::Binary16>(v.x),
                     emulation::widen<emulation::Binary16>(v.y))
#undef EMULATION_TO_FP8
#undef EMULATION_TO_FP8_TWO

inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  return __half(kind == __NV_E4M3 ? emulation::widen<emulation::E4M3>(x) : emulation::widen<emulation::E5M2>(x));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(x & 0xFF, kind).x, __nv_cvt_fp8_to_halfraw(x >> 8, kind).x};
}
