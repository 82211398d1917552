// The threads of a block as fibers of one thread of the operating system, and the barrier where they meet.
//
// A fiber runs until it waits (at a barrier, for the lanes of its warp) or ends; then the next one that is ready runs. Blocks run one
// after the other on the same fibers. What __shared__ declares is thread-local memory (of the one thread that all fibers run in), of
// which a library has nothing else: one range, which is filled before each block with a pattern that is no number in any float format.
#pragma once

#include <link.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "async_copies.h"
#include "transaction_barriers.h"
#include "vectors.h"
#include "warp_group_products.h"

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

namespace emulation {

enum class State { ready, waiting, converging, ended };

struct Thread {
  uint3 index{};
  unsigned number = 0;  // x + blockDim.x * (y + blockDim.y * z), as CUDA numbers them
  State state = State::ready;
  const char* operation = "";  // what it waits for
  int line = 0;
  bool started = false;
  long yields = 0;  // since it last waited for others
  unsigned converged = 0;  // the lanes that were with it when it last asked
  jmp_buf registers;
  AsyncCopies copies;
  const TransactionBarrier* awaited = nullptr;  // whose phase it waits for
  WarpGroupProducts products;
};

// Lanes of a warp that execute one instruction together: those of a mask, at one place of the program.
struct Meeting {
  unsigned mask, arrived;
  const void* instruction;
  int line;
};

struct Warp {
  unsigned existing = 0;  // the last warp of a block may be incomplete
  void* operands[32];
  std::vector<Meeting> meetings;
};

struct Barrier {
  unsigned waiting = 0;
  int line = 0;
  int holding = 0, holding_before = 0;  // threads whose predicate is true: now, and at the last barrier
};

// What the error that ended a launch is about; the numbers are those of compile.py.
enum class Fault { none = 0, barrier = 1, trap = 2, memory = 3 };

using Body = void (*)(void** arguments);

// The launch that is running: there is one at a time.
struct Launch {
  Body body;
  void** arguments;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned> order;
  unsigned converging = 0;  // threads that ask which lanes are with them
  Barrier barrier;
  TransactionBarriers barriers;
  Thread* current;
  unsigned char* stacks = nullptr;
  unsigned char* shared = nullptr;  // all that __shared__ declares
  size_t shared_bytes = 0;
  jmp_buf scheduler;
  uint64_t random = 0;  // 0: ascending order
  Fault fault = Fault::none;
  std::string message;
};

static Launch launch;

constexpr size_t stack_bytes = 256 << 10;
constexpr size_t poisoned_stack_bytes = 16 << 10;
constexpr long most_yields = 1 << 22;
constexpr size_t most_dynamic_shared_bytes = 232448;  // 227 KiB: the most that any device has

static thread_local unsigned char shared_anchor = 0;

alignas(1024) static unsigned char dynamic_shared[most_dynamic_shared_bytes];

// 0xFFFA everywhere: NaN as half, bfloat16, float and double, and far from zero as an integer.
inline void poison(void* start, size_t bytes) {
  auto* at = static_cast<unsigned char*>(start);
  for (size_t i = 0; i < bytes; ++i) at[i] = (reinterpret_cast<uintptr_t>(at + i) & 1) ? 0xFF : 0xFA;
}

inline std::string format(const char* text, ...) {
  char buffer[1024];
  va_list values;
  va_start(values, text);
  vsnprintf(buffer, sizeof buffer, text, values);
  va_end(values);
  return buffer;
}

inline std::string name_of(uint3 index) { return format("(%u, %u, %u)", index.x, index.y, index.z); }

// Ends the launch from within a thread.
[[noreturn]] inline void fail(Fault fault, const std::string& message) {
  launch.fault = fault;
  launch.message = "block " + name_of(blockIdx) + ", thread " + name_of(launch.current->index) + ": " + message;
  _longjmp(launch.scheduler, 1);
}

// The compiler sees no way from here to the other threads: it must neither keep values of memory nor delay stores.
__attribute__((always_inline)) inline void others_run() { asm volatile("" ::: "memory"); }

__attribute__((noinline)) inline void switch_to_scheduler() {
  if (_setjmp(launch.current->registers) == 0) _longjmp(launch.scheduler, 1);
}

// Gives the processor to the scheduler; returns when the thread is resumed.
__attribute__((always_inline)) inline void suspend() {
  others_run();
  switch_to_scheduler();
  others_run();
}

__attribute__((always_inline)) inline void wait(const char* operation, int line, State state = State::waiting) {
  Thread& self = *launch.current;
  self.state = state;
  self.operation = operation;
  self.line = line;
  self.yields = 0;
  suspend();
}

// Lets the other threads go on: called where a program may be waiting for what another thread stores.
inline void yield(int line) {
  if (++launch.current->yields > most_yields)
    fail(Fault::barrier, format("it spins in line %d for what no other thread of its block stores; blocks run one "
                                "after the other, so that no block can wait for a later one", line));
  suspend();
}

inline void thread_main() {
  for (;;) {
    launch.body(launch.arguments);
    launch.current->state = State::ended;
    suspend();
  }
}

__attribute__((noinline)) inline void resume(Thread& thread) {
  launch.current = &thread;
  threadIdx = thread.index;
  others_run();
  if (_setjmp(launch.scheduler) != 0) return;
  if (thread.started) _longjmp(thread.registers, 1);
  thread.started = true;
  static ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = launch.stacks + thread.number * stack_bytes + 4096;
  start.uc_stack.ss_size = stack_bytes - 4096;
  start.uc_link = nullptr;
  makecontext(&start, thread_main, 0);
  setcontext(&start);
}

// ---------------------------------------------------------------------------------------------- barriers of a block

// All threads of the block; returns how many of them have a true predicate.
inline int block_barrier(const char* operation, int line, bool predicate) {
  Barrier& barrier = launch.barrier;
  if (barrier.waiting != 0 && barrier.line != line)
    fail(Fault::barrier, format("it reaches the barrier in line %d while others of its block (%u) wait at the one in line %d",
                                line, barrier.waiting, barrier.line));
  barrier.line = line;
  barrier.holding += predicate;
  if (++barrier.waiting == launch.threads.size()) {
    barrier.holding_before = barrier.holding;
    barrier.waiting = barrier.holding = 0;
    for (Thread& thread : launch.threads) thread.state = State::ready;
    suspend();
  } else {
    wait(operation, line);
  }
  return barrier.holding_before;
}

// "16 threads wait at __syncthreads() in line 7: (0, 0, 0) to (15, 0, 0); 16 threads have ended: ..."
inline std::string describe_threads() {
  std::string text;
  std::vector<bool> told(launch.threads.size(), false);
  for (size_t first = 0; first < launch.threads.size(); ++first) {
    if (told[first]) continue;
    const Thread& like = launch.threads[first];
    size_t count = 0, last = first;
    for (size_t other = first; other < launch.threads.size(); ++other) {
      const Thread& thread = launch.threads[other];
      bool same = thread.state == like.state &&
                  (thread.state == State::ended || (thread.line == like.line && !strcmp(thread.operation, like.operation)));
      if (!same) continue;
      told[other] = true;
      last = other;
      ++count;
    }
    if (!text.empty()) text += "; ";
    text += format(count == 1 ? "%zu thread " : "%zu threads ", count);
    if (like.state == State::ended)
      text += count == 1 ? "has ended" : "have ended";
    else
      text += format(count == 1 ? "waits at %s in line %d" : "wait at %s in line %d", like.operation, like.line);
    text += ": " + name_of(like.index);
    if (count > 1) text += (last - first + 1 == count ? " to " : " ... ") + name_of(launch.threads[last].index);
  }
  return text;
}

// ------------------------------------------------------------------------------------------------------ scheduling

inline uint64_t next_random() {  // xorshift64 (Marsaglia, Journal of Statistical Software 2003)
  uint64_t& x = launch.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

inline void shuffle_order() {
  for (size_t i = launch.order.size(); i > 1; --i) std::swap(launch.order[i - 1], launch.order[next_random() % i]);
}

// Lanes that ask which are with them are answered when no lane of their warp can go on without: those at one line are together.
inline void converge() {
  for (size_t start = 0; start < launch.threads.size(); start += 32) {
    size_t end = std::min(start + 32, launch.threads.size()), first = end;
    bool running = false;
    for (size_t i = start; i < end; ++i) {
      running |= launch.threads[i].state == State::ready;
      if (launch.threads[i].state == State::converging) first = std::min(first, i);
    }
    if (running || first == end) continue;
    auto together = [&](const Thread& thread) {
      return thread.state == State::converging && thread.line == launch.threads[first].line;
    };
    unsigned mask = 0;
    for (size_t i = first; i < end; ++i) mask |= unsigned(together(launch.threads[i])) << (i - start);
    for (size_t i = start; i < end; ++i) {
      if (!(mask >> (i - start) & 1)) continue;
      launch.threads[i].converged = mask;
      launch.threads[i].state = State::ready;
      --launch.converging;
    }
  }
}

inline bool complete_awaited_copies();

// Runs all threads of one block to their end.
inline void run_block() {
  launch.barrier = Barrier();
  launch.barriers.clear();
  launch.converging = 0;
  for (Warp& warp : launch.warps) warp.meetings.clear();
  for (Thread& thread : launch.threads) {
    thread.state = State::ready;
    thread.yields = 0;
    thread.copies.clear();
    thread.awaited = nullptr;
    thread.products.clear();
  }
  size_t running = launch.threads.size();
  while (running > 0) {
    bool progress = false;
    if (launch.random != 0) shuffle_order();
    for (unsigned number : launch.order) {
      Thread& thread = launch.threads[number];
      if (thread.state != State::ready) continue;
      progress = true;
      resume(thread);
      others_run();
      if (launch.fault != Fault::none) return;
      running -= thread.state == State::ended;
    }
    if (launch.converging > 0) {
      converge();
    } else if (!progress && !complete_awaited_copies()) {
      launch.fault = Fault::barrier;
      launch.message = "block " + name_of(blockIdx) + ": no thread can go on: " + describe_threads();
      return;
    }
  }
}

// Finds the thread-local memory of this library: that of the segment table which has the anchor.
inline void find_shared_memory() {
  auto visit = [](dl_phdr_info* library, size_t, void*) -> int {
    auto* start = static_cast<unsigned char*>(library->dlpi_tls_data);
    for (int i = 0; start && i < library->dlpi_phnum; ++i) {
      const auto& segment = library->dlpi_phdr[i];
      if (segment.p_type != PT_TLS || &shared_anchor < start || &shared_anchor >= start + segment.p_memsz) continue;
      launch.shared = start;
      launch.shared_bytes = segment.p_memsz;
      return 1;
    }
    return 0;
  };
  *const_cast<volatile unsigned char*>(&shared_anchor) = 0;  // so that this thread has the memory
  dl_iterate_phdr(visit, nullptr);
}

inline bool prepare_threads() {
  size_t count = size_t(blockDim.x) * blockDim.y * blockDim.z;
  launch.threads.assign(count, Thread());
  launch.warps.assign((count + 31) / 32, Warp());
  launch.order.resize(count);
  for (unsigned number = 0; number < count; ++number) {
    Thread& thread = launch.threads[number];
    thread.number = number;
    thread.index = {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
    launch.warps[number / 32].existing |= 1u << number % 32;
    launch.order[number] = number;
  }
  void* memory = mmap(nullptr, count * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    launch.fault = Fault::memory;
    launch.message = format("no memory for the stacks of %zu threads of %zu bytes", count, stack_bytes);
    return false;
  }
  launch.stacks = static_cast<unsigned char*>(memory);
  for (size_t number = 0; number < count; ++number) {
    unsigned char* stack = launch.stacks + number * stack_bytes;
    mprotect(stack, 4096, PROT_NONE);  // a stack that overflows ends the process instead of changing its neighbour
    poison(stack + stack_bytes - poisoned_stack_bytes, poisoned_stack_bytes);
  }
  return true;
}

// Runs blocks from the one of number ``first`` on until all have run (returns their number), a quarter of a second has passed (returns
// the number of the next one, so that the caller can be interrupted in between), or there is a fault (returns -1).
inline long long run(Body body, const unsigned* grid, const unsigned* block, unsigned shared_bytes, void** arguments,
                     long long first, unsigned long long seed) {
  gridDim = dim3(grid[0], grid[1], grid[2]);
  blockDim = dim3(block[0], block[1], block[2]);
  launch.body = body;
  launch.arguments = arguments;
  launch.fault = Fault::none;
  long long count = (long long)grid[0] * grid[1] * grid[2], next = first;
  find_shared_memory();
  if (prepare_threads()) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
    do {
      blockIdx = {unsigned(next % grid[0]), unsigned(next / grid[0] % grid[1]), unsigned(next / grid[0] / grid[1])};
      launch.random = seed == 0 ? 0 : ((seed * 0x9E3779B97F4A7C15u + (next + 1) * 0xBF58476D1CE4E5B9u) | 1);
      poison(launch.shared, launch.shared_bytes);
      poison(dynamic_shared, shared_bytes);
      run_block();
      ++next;
    } while (launch.fault == Fault::none && next < count && std::chrono::steady_clock::now() < deadline);
    munmap(launch.stacks, launch.threads.size() * stack_bytes);
  }
  fflush(stdout);
  return launch.fault == Fault::none ? next : -1;
}

}  // namespace emulation

inline void __syncthreads(int line = __builtin_LINE()) { emulation::block_barrier("__syncthreads()", line, false); }
inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return emulation::block_barrier("__syncthreads_count()", line, predicate != 0);
}
inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return emulation::block_barrier("__syncthreads_and()", line, predicate == 0) == 0;
}
inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return emulation::block_barrier("__syncthreads_or()", line, predicate != 0) != 0;
}

// One thread runs at a time, and each sees what the others stored.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned, int line = __builtin_LINE()) { emulation::yield(line); }

[[noreturn]] inline void __trap(int line = __builtin_LINE()) {
  emulation::fail(emulation::Fault::trap, emulation::format("__trap() in line %d", line));
}
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
