// Barriers with transactions, bulk copies and products of warp groups under the names of prelude/warp_groups.cuh, as the PTX ISA has
// them ("mbarrier", "cp.async.bulk", "Asynchronous Warpgroup Level Matrix Instructions").
#pragma once

#include "matrices.h"
#include "transaction_barriers.h"

namespace emulation {

// ------------------------------------------------------------------------------------------------------- barriers

inline TransactionBarrier& transaction_barrier(const char* name, void* barrier, int line) {
  auto found = launch.barriers.made.find(barrier);
  if (found == launch.barriers.made.end())
    fail(Fault::trap, format("%s in line %d: no ptx_init_barrier_thread_count() has made the barrier", name, line));
  return found->second;
}

inline void end_phase_if_complete(TransactionBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.count;
  ++barrier.phase;
  for (Thread& thread : launch.threads)
    if (thread.state == State::waiting && thread.awaited == &barrier) {
      thread.state = State::ready;
      thread.awaited = nullptr;
    }
}

inline void arrive(const char* name, void* at, unsigned bytes, int line) {
  TransactionBarrier& barrier = transaction_barrier(name, at, line);
  if (barrier.pending == 0)
    fail(Fault::barrier, format("%s in line %d: all %u arrivals of the phase have come, and its copies are under way", name, line, barrier.count));
  barrier.bytes += bytes;
  --barrier.pending;
  end_phase_if_complete(barrier);
}

inline void await_phase(const char* name, void* at, unsigned parity, int line) {
  TransactionBarrier& barrier = transaction_barrier(name, at, line);
  while ((barrier.phase & 1) == (parity & 1)) {
    launch.current->awaited = &barrier;
    wait(name, line);
  }
}

// Ends the copies that waiting threads need; whether there were any.
inline bool complete_awaited_copies() {
  std::vector<BulkCopy> due, left;
  for (const BulkCopy& copy : launch.barriers.copies) {
    bool is_awaited = false;
    for (const Thread& thread : launch.threads) is_awaited |= thread.state == State::waiting && thread.awaited == copy.barrier;
    (is_awaited ? due : left).push_back(copy);
  }
  launch.barriers.copies = left;
  for (const BulkCopy& copy : due) {
    copy.run();
    copy.barrier->bytes -= (long long)copy.bytes;
    end_phase_if_complete(*copy.barrier);
  }
  return !due.empty();
}

// --------------------------------------------------------------------------------------------------------- copies

inline void begin_copy(const char* name, BulkCopy copy, void* barrier, int line) {
  copy.barrier = &transaction_barrier(name, barrier, line);
  require_shared(name, copy.target, copy.bytes, line);
  poison(copy.target, copy.bytes);
  launch.barriers.copies.push_back(copy);
}

inline void copy_bulk(const char* name, void* shared, const void* global, unsigned bytes, void* barrier, int line) {
  require_aligned(name, "shared", shared, 16, line);
  require_aligned(name, "global", global, 16, line);
  if (bytes % 16) fail(Fault::trap, format("%s in line %d: %u bytes are no multiple of 16", name, line, bytes));
  BulkCopy copy{};
  copy.target = static_cast<unsigned char*>(shared);
  copy.source = static_cast<const unsigned char*>(global);
  copy.bytes = bytes;
  begin_copy(name, copy, barrier, line);
}

template <class... Coordinates>
void copy_box(const char* name, void* shared, const CUtensorMap* map, void* barrier, int line, Coordinates... innermost_first) {
  if (map->known != known_tensor_map || map->rank != sizeof...(innermost_first))
    fail(Fault::trap, format("%s in line %d: the tensor map is none of %zu dimensions", name, line, sizeof...(innermost_first)));
  require_aligned(name, "shared", shared, map->swizzle ? map->swizzle * 8 : 128, line);
  BulkCopy copy{};
  copy.target = static_cast<unsigned char*>(shared);
  copy.map = *map;
  int axis = 0;
  ((copy.start[axis++] = innermost_first), ...);
  copy.bytes = map->element_bytes;
  for (unsigned i = 0; i < map->rank; ++i) copy.bytes *= map->box[i];
  begin_copy(name, copy, barrier, line);
}

// ------------------------------------------------------------------------------------------------------- products

// An operand as its descriptor tells it.
struct SharedOperand {
  unsigned char* start;
  unsigned leading, stride, swizzle;

  explicit SharedOperand(uint64_t descriptor)
      : start(dynamic_shared + ((descriptor & 0x3FFF) << 4)),
        leading(unsigned(descriptor >> 16 & 0x3FFF) << 4),
        stride(unsigned(descriptor >> 32 & 0x3FFF) << 4),
        swizzle(descriptor >> 62 == 0 ? 0 : 256u >> (descriptor >> 62)) {}

  // The element at a place along m or n, and along k.
  template <class Element>
  double at(unsigned outer, unsigned k, bool is_along_k) const {
    unsigned char* to;
    if (is_along_k) {
      to = start + outer / 8 * stride + outer % 8 * swizzle + k * sizeof(Element);
    } else {
      unsigned in_row = swizzle / sizeof(Element);
      to = start + outer / in_row * leading + k / 8 * stride + k % 8 * swizzle + outer % in_row * sizeof(Element);
    }
    Element found;
    memcpy(&found, swizzled(to, swizzle), sizeof found);
    return to_double(found);
  }
};

template <class Sum>
unsigned sum_bytes(unsigned columns) {
  return columns / 2 * sizeof(Sum);
}

// A thread's part of d += a * b, in the registers that PTX's table for the sums of wgmma gives it.
template <int N, int K, class A, class B, class Sum, bool a_along_k, bool b_along_k>
void multiply_part(unsigned thread, uint64_t a, uint64_t b, bool keeps, unsigned char* sums) {
  SharedOperand left(a), right(b);
  unsigned row = thread % 128 / 32 * 16 + thread % 32 / 4, first = thread % 4 * 2;
  double rows[2][K];
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned k = 0; k < K; ++k) rows[half][k] = left.at<A>(row + half * 8, k, a_along_k);
  auto* held = reinterpret_cast<Sum*>(sums);
  for (unsigned group = 0; group < N / 8; ++group)
    for (unsigned column = 0; column < 2; ++column) {
      double total[2] = {0, 0};
      for (unsigned k = 0; k < K; ++k) {
        double factor = right.at<B>(group * 8 + first + column, k, b_along_k);
        total[0] += rows[0][k] * factor;
        total[1] += rows[1][k] * factor;
      }
      for (unsigned half = 0; half < 2; ++half) {
        Sum& sum = held[group * 4 + half * 2 + column];
        sum = from_double<Sum>((keeps ? to_double(sum) : 0.0) + total[half]);
      }
    }
}

template <int N, int K, class A, class B, class Sum, bool a_along_k, bool b_along_k>
void begin_product(const char* name, void* sums, uint64_t a, uint64_t b, bool keeps, int line) {
  Thread& self = *launch.current;
  if (launch.threads.size() % 128)
    fail(Fault::trap, format("%s in line %d needs whole warp groups of 128 threads, and the block has %zu", name, line, launch.threads.size()));
  if (!self.products.begin(sums, sum_bytes<Sum>(N), keeps, a, b, multiply_part<N, K, A, B, Sum, a_along_k, b_along_k>))
    fail(Fault::trap, format("%s in line %d: no ptx_wgmma_fence() stands between what was done to the sums and the product", name, line));
}

inline void meet_warp(const char* name, int line) {
  require_whole_warp(name, line);
  Nothing own;
  meet<Nothing>(whole_warp, name, line, own, [](Nothing**, unsigned) {});
}

}  // namespace emulation

inline void ptx_init_barrier_thread_count(void* barrier, unsigned count, int line = __builtin_LINE()) {
  emulation::require_aligned("ptx_init_barrier_thread_count()", "barrier's", barrier, 8, line);
  if (count == 0) emulation::fail(emulation::Fault::trap, emulation::format("the barrier in line %d is for no thread", line));
  emulation::launch.barriers.made[barrier] = {count, count, 0, 0};
}
inline void ptx_arrive_barrier(void* barrier, int line = __builtin_LINE()) {
  emulation::arrive("ptx_arrive_barrier()", barrier, 0, line);
}
inline void ptx_arrive_barrier_expect_tx(void* barrier, unsigned bytes, int line = __builtin_LINE()) {
  emulation::arrive("ptx_arrive_barrier_expect_tx()", barrier, bytes, line);
}
inline void ptx_wait_barrier(void* barrier, unsigned parity, int line = __builtin_LINE()) {
  emulation::await_phase("ptx_wait_barrier()", barrier, parity, line);
}
inline void ptx_fence_proxy_async() {}

inline void ptx_cp_async_bulk(void* shared, const void* global, unsigned bytes, void* barrier, int line = __builtin_LINE()) {
  emulation::copy_bulk("ptx_cp_async_bulk()", shared, global, bytes, barrier, line);
}
#define EMULATION_COPY_BOX(rank, parameters, ...)                                                      \
  inline void ptx_cp_async_bulk_tensor_##rank##d(void* shared, const CUtensorMap* map, void* barrier, parameters, \
                                                 int line = __builtin_LINE()) {                        \
    emulation::copy_box("ptx_cp_async_bulk_tensor_" #rank "d()", shared, map, barrier, line, __VA_ARGS__); \
  }
#define EMULATION_LIST(...) __VA_ARGS__
EMULATION_COPY_BOX(1, EMULATION_LIST(int x), x)
EMULATION_COPY_BOX(2, EMULATION_LIST(int x, int y), x, y)
EMULATION_COPY_BOX(3, EMULATION_LIST(int x, int y, int z), x, y, z)
EMULATION_COPY_BOX(4, EMULATION_LIST(int x, int y, int z, int v), x, y, z, v)
EMULATION_COPY_BOX(5, EMULATION_LIST(int x, int y, int z, int v, int w), x, y, z, v, w)
#undef EMULATION_LIST
#undef EMULATION_COPY_BOX

inline unsigned long long ptx_wgmma_descriptor(const void* operand, unsigned leading, unsigned stride, unsigned swizzle,
                                               int line = __builtin_LINE()) {
  auto* at = static_cast<const unsigned char*>(operand);
  if (at < emulation::dynamic_shared || at >= emulation::dynamic_shared + sizeof emulation::dynamic_shared)
    emulation::fail(emulation::Fault::trap, emulation::format("an operand of wgmma in line %d is not in dynamic shared memory", line));
  unsigned long long layout = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return (unsigned long long)(at - emulation::dynamic_shared) >> 4 | (unsigned long long)(leading >> 4 & 0x3FFF) << 16 |
         (unsigned long long)(stride >> 4 & 0x3FFF) << 32 | layout << 62;
}
inline void ptx_wgmma_fence(int line = __builtin_LINE()) {
  emulation::meet_warp("ptx_wgmma_fence()", line);
  emulation::launch.current->products.fence();
}
inline void ptx_wgmma_commit_group(int line = __builtin_LINE()) {
  emulation::meet_warp("ptx_wgmma_commit_group()", line);
  emulation::launch.current->products.commit();
}
template <int groups>
void ptx_wgmma_wait_group(int line = __builtin_LINE()) {
  emulation::launch.current->products.wait(groups, emulation::launch.current->number);
  emulation::meet_warp("ptx_wgmma_wait_group()", line);  // behind it the whole warp is done with the operands
}

using emulation_f16 = __half;
using emulation_bf16 = __nv_bfloat16;
using emulation_tf32 = emulation::Tf32;
using emulation_s8 = int8_t;
using emulation_u8 = uint8_t;
using emulation_e4m3 = __nv_fp8_e4m3;
using emulation_e5m2 = __nv_fp8_e5m2;
using emulation_f32 = float;
using emulation_s32 = int;

// A generated kernel's own function for one shape and layout of wgmma.
#define EMULATION_WGMMA(name, N, K, A, B, Sum, a_along_k, b_along_k)                                   \
  static inline void name(void* sums, unsigned long long a, unsigned long long b, bool keeps, int line = __builtin_LINE()) { \
    emulation::begin_product<N, K, emulation_##A, emulation_##B, emulation_##Sum, a_along_k, b_along_k>(#name "()", sums, a, b, \
                                                                                                        keeps, line); \
  }
