// Barriers that count arrivals and bytes (mbarrier), and copies of many bytes that tell one when they are done (cp.async.bulk).
//
// A copy happens as late as it may: when no thread can go on without the phase that it belongs to. Until then its target holds nothing
// that a program may use, so that whoever does not wait is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "tensor_map.h"

namespace emulation {

// Where a byte of shared memory goes within the pattern of a swizzle of so many bytes.
inline unsigned char* swizzled(unsigned char* at, unsigned swizzle) {
  uintptr_t address = reinterpret_cast<uintptr_t>(at);
  uintptr_t bits = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
  return reinterpret_cast<unsigned char*>(address ^ (((address >> 7) & bits) << 4));
}

struct TransactionBarrier {
  unsigned count = 0, pending = 0, phase = 0;  // count 0: it was not made yet
  long long bytes = 0;                         // that the phase still expects
};

struct BulkCopy {
  TransactionBarrier* barrier;
  unsigned char* target;
  const unsigned char* source;  // of a copy of bytes; of a box the map and the place in it count
  size_t bytes;
  CUtensorMap map;
  int start[5];

  void run() const {
    if (source) {
      memcpy(target, source, bytes);
      return;
    }
    int at[5] = {};
    for (size_t done = 0; done < bytes; done += map.element_bytes) {
      bool inside = true;
      uint64_t offset = 0;
      for (unsigned axis = 0; axis < map.rank; ++axis) {
        long long index = (long long)start[axis] + at[axis];
        inside = inside && index >= 0 && index < (long long)map.shape[axis];
        offset += uint64_t(index) * map.strides[axis];
      }
      unsigned char* to = swizzled(target + done, map.swizzle);
      if (inside)
        memcpy(to, reinterpret_cast<const unsigned char*>(map.address) + offset, map.element_bytes);
      else
        memset(to, 0, map.element_bytes);
      for (unsigned axis = 0; axis < map.rank && ++at[axis] == int(map.box[axis]); ++axis) at[axis] = 0;
    }
  }
};

// Those of a block.
struct TransactionBarriers {
  std::map<const void*, TransactionBarrier> made;
  std::vector<BulkCopy> copies;

  void clear() {
    made.clear();
    copies.clear();
  }
};

}  // namespace emulation
