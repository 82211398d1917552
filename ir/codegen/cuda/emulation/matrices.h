// Products of small matrices, as the lanes of a warp compute them together: exact products, sums in double, rounded once.
#pragma once

#include <cstdint>
#include <cstring>

#include "fp8.h"
#include "warp.h"

namespace emulation {

// A float of which tensor cores read 19 bits.
struct Tf32 {
  uint32_t bits;
};

inline double to_double(__half x) { return x.wide(); }
inline double to_double(__nv_bfloat16 x) { return x.wide(); }
inline double to_double(__nv_fp8_e4m3 x) { return double(x); }
inline double to_double(__nv_fp8_e5m2 x) { return double(x); }
inline double to_double(Tf32 x) { return bit_cast<float>(x.bits & 0xFFFFE000u); }
template <class Number>
std::enable_if_t<std::is_arithmetic_v<Number>, double> to_double(Number x) {
  return x;
}

template <class Element>
Element from_double(double x) {
  if constexpr (std::is_same_v<Element, __half>)
    return __half::of(x);
  else if constexpr (std::is_integral_v<Element>)
    return Element(int64_t(x));  // wraps
  else
    return Element(x);
}

// c += a * b, all of them by rows.
template <int M, int N, int K>
void multiply_accumulate(const double* a, const double* b, double* c) {
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) c[i * N + j] += a[i * K + k] * b[k * N + j];
}

inline float to_tf32(float x) {  // ties away from zero: half of a unit is added, and the rest cut off
  uint32_t bits = bit_cast<uint32_t>(x);
  if (std::isfinite(x)) bits += 0x1000;
  return bit_cast<float>(bits & 0xFFFFE000u);
}

constexpr unsigned whole_warp = 0xFFFFFFFFu;

inline void require_whole_warp(const char* name, int line) {
  if (existing_lanes(whole_warp) != whole_warp)
    fail(Fault::trap, format("%s in line %d needs all 32 lanes of a warp, and the block's last warp has fewer", name, line));
}

inline void require_aligned(const char* name, const char* what, const void* address, size_t bytes, int line) {
  if (reinterpret_cast<uintptr_t>(address) % bytes)
    fail(Fault::trap, format("%s in line %d: the %s address %p is not aligned to %zu bytes", name, line, what, address, bytes));
}

inline void require_shared(const char* name, const void* address, size_t bytes, int line) {
  auto* start = static_cast<const unsigned char*>(address);
  bool is_static = start >= launch.shared && start + bytes <= launch.shared + launch.shared_bytes;
  bool is_dynamic = start >= dynamic_shared && start + bytes <= dynamic_shared + sizeof dynamic_shared;
  if (!is_static && !is_dynamic)
    fail(Fault::trap, format("%s in line %d: the address %p is not in shared memory", name, line, address));
}

}  // namespace emulation
