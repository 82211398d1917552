// CUDA's vector types with their alignment and make_ functions, and dim3.
#pragma once

#include <cstddef>

#define EMULATION_VECTORS(name, scalar, align2, align4)                                               \
  struct name##1 {                                                                                     \
    scalar x;                                                                                          \
  };                                                                                                   \
  struct alignas(align2) name##2 {                                                                     \
    scalar x, y;                                                                                       \
  };                                                                                                   \
  struct name##3 {                                                                                     \
    scalar x, y, z;                                                                                    \
  };                                                                                                   \
  struct alignas(align4) name##4 {                                                                     \
    scalar x, y, z, w;                                                                                 \
  };                                                                                                   \
  constexpr name##1 make_##name##1(scalar x) { return {x}; }                                           \
  constexpr name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                              \
  constexpr name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }                 \
  constexpr name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

EMULATION_VECTORS(char, signed char, 2, 4)
EMULATION_VECTORS(uchar, unsigned char, 2, 4)
EMULATION_VECTORS(short, short, 4, 8)
EMULATION_VECTORS(ushort, unsigned short, 4, 8)
EMULATION_VECTORS(int, int, 8, 16)
EMULATION_VECTORS(uint, unsigned int, 8, 16)
EMULATION_VECTORS(long, long, 16, 16)
EMULATION_VECTORS(ulong, unsigned long, 16, 16)
EMULATION_VECTORS(longlong, long long, 16, 16)
EMULATION_VECTORS(ulonglong, unsigned long long, 16, 16)
EMULATION_VECTORS(float, float, 8, 16)
EMULATION_VECTORS(double, double, 16, 16)
#undef EMULATION_VECTORS

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
