/* Numbers of 16 bits by their bits, and conversions that round to the nearest, ties to even. */
#ifndef LOOPSMITH_NARROW_FLOATS
#define LOOPSMITH_NARROW_FLOATS
#include <string.h>
typedef uint16_t loopsmith_float16;
typedef uint16_t loopsmith_bfloat16;
static inline uint32_t loopsmith_bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline float loopsmith_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline loopsmith_bfloat16 loopsmith_to_bfloat16(float value) {
  uint32_t bits = loopsmith_bits_of_float(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) /* not a number, which stays one */
    return (loopsmith_bfloat16)(bits >> 16 | 0x40u);
  return (loopsmith_bfloat16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline float loopsmith_from_bfloat16(loopsmith_bfloat16 value) {
  return loopsmith_float_of_bits((uint32_t)value << 16);
}
static inline loopsmith_float16 loopsmith_to_float16(float value) {
  uint32_t bits = loopsmith_bits_of_float(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) /* not a number */
    return (loopsmith_float16)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
  if (rest >= 0x477ff000u) /* 65520 and beyond round to infinity */
    return (loopsmith_float16)(sign | 0x7c00u);
  if (rest < 0x38800000u) /* below 2**-14: added to 0.5, the last bit counts 2**-24 */
    return (loopsmith_float16)(sign | (loopsmith_bits_of_float(loopsmith_float_of_bits(rest) + 0.5f) - 0x3f000000u));
  return (loopsmith_float16)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}
static inline float loopsmith_from_float16(loopsmith_float16 value) {
  uint32_t sign = (uint32_t)(value & 0x8000u) << 16, rest = value & 0x7fffu;
  if (rest >= 0x7c00u) /* infinite, or not a number */
    return loopsmith_float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest < 0x400u) /* below 2**-14: whole multiples of 2**-24 */
    return loopsmith_float_of_bits(sign | loopsmith_bits_of_float((float)rest * 5.9604644775390625e-8f));
  return loopsmith_float_of_bits(sign | (rest + 0x1c000u) << 13);
}
#endif
