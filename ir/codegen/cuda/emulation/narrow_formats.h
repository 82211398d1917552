// Binary floating-point formats of 8 and 16 bits: from and to their bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "device_math.h"

namespace emulation {

enum class Rounding { nearest_even, to_zero, down, up };

struct Binary16 {
  static constexpr int exponent_bits = 5, mantissa_bits = 10;
  static constexpr unsigned largest = 0x7BFF, infinity = 0x7C00, nan = 0x7FFF, sign = 0x8000;
};
struct Brain16 {
  static constexpr int exponent_bits = 8, mantissa_bits = 7;
  static constexpr unsigned largest = 0x7F7F, infinity = 0x7F80, nan = 0x7FFF, sign = 0x8000;
};
struct E5M2 {
  static constexpr int exponent_bits = 5, mantissa_bits = 2;
  static constexpr unsigned largest = 0x7B, infinity = 0x7C, nan = 0x7F, sign = 0x80;
};
// The largest exponent holds numbers but for one code: there is no infinity, and what is too large becomes NaN.
struct E4M3 {
  static constexpr int exponent_bits = 4, mantissa_bits = 3;
  static constexpr unsigned largest = 0x7E, infinity = 0x7F, nan = 0x7F, sign = 0x80;
};

template <class Format>
constexpr int bias = (1 << (Format::exponent_bits - 1)) - 1;

// Two to the power of ``exponent``, for normal numbers.
inline double power_of_two(int exponent) { return bit_cast<double>(uint64_t(exponent + 1023) << 52); }

template <class Format>
float widen(unsigned bits) {
  unsigned magnitude = bits & (Format::sign - 1);
  float sign = bits & Format::sign ? -1.0f : 1.0f;
  if (magnitude > Format::largest)
    return magnitude == Format::infinity && Format::infinity != Format::nan ? sign * INFINITY : std::copysign(NAN, sign);
  // As a float with the same fields its exponent is too small by the difference of the biases.
  float shifted = bit_cast<float>(magnitude << (23 - Format::mantissa_bits));
  return sign * (shifted * float(power_of_two(127 - bias<Format>)));
}

template <class Format>
unsigned narrow(double x, Rounding rounding = Rounding::nearest_even) {
  if (std::isnan(x)) return Format::nan;
  bool negative = std::signbit(x);
  unsigned sign = negative ? Format::sign : 0;
  double magnitude = std::fabs(x);
  if (std::isinf(x)) return sign | Format::infinity;
  bool away = rounding == (negative ? Rounding::down : Rounding::up);
  int exponent = int(bit_cast<uint64_t>(magnitude) >> 52) - 1023;
  constexpr int least = 1 - bias<Format>;
  if (exponent < least) exponent = least;
  double units = magnitude * power_of_two(Format::mantissa_bits - exponent);  // exact
  double whole = std::floor(units);
  if (rounding == Rounding::nearest_even)
    whole = std::nearbyint(units);
  else if (away && whole != units)
    whole += 1;
  // A carry goes into the exponent.
  uint64_t bits = (uint64_t(exponent - least) << Format::mantissa_bits) + uint64_t(whole);
  if (bits > Format::largest)
    return sign | (rounding == Rounding::nearest_even || away ? Format::infinity : Format::largest);
  return sign | unsigned(bits);
}

// An integer of up to 64 bits, so that rounding it further rounds once.
template <class Integer>
double integer_to_odd(Integer x) {
  if constexpr (sizeof(Integer) <= 4)
    return double(x);
  else
    return add_to_odd(double(x >> 32) * 4294967296.0, double(uint32_t(x)));
}

}  // namespace emulation
