// A tensor map as the emulation has it: the stand-in for a driver and tensor_map.py make it, and kernels pass it on.
#pragma once

#include <cstdint>

struct alignas(64) CUtensorMap {
  uint64_t address;
  uint64_t strides[5];  // in bytes; all of these from the innermost dimension to the outermost one
  uint32_t shape[5];
  uint16_t box[5];
  uint8_t rank, element_bytes, swizzle, known;
};
static_assert(sizeof(CUtensorMap) == 128, "a tensor map has 128 bytes");

namespace emulation {
constexpr uint8_t known_tensor_map = 0x5A;
}
