// Atomic operations. One thread runs at a time, so that reading, computing and storing need no protection.
#pragma once

#include "half.h"
#include "threads.h"

namespace emulation {

template <class T, class Operation>
T change(T* address, Operation operation) {
  T old = *address;
  *address = operation(old);
  others_run();
  return old;
}

}  // namespace emulation

#define EMULATION_ATOMIC(name, type, result)                                                           \
  inline type name(type* address, type value) {                                                        \
    return emulation::change(address, [=](type old) -> type { return result; });                       \
  }
#define EMULATION_INTEGER_ATOMICS(type)                                                                \
  EMULATION_ATOMIC(atomicMin, type, value < old ? value : old)                                         \
  EMULATION_ATOMIC(atomicMax, type, old < value ? value : old)                                         \
  EMULATION_ATOMIC(atomicAnd, type, old & value)                                                       \
  EMULATION_ATOMIC(atomicOr, type, old | value)                                                        \
  EMULATION_ATOMIC(atomicXor, type, old ^ value)
EMULATION_INTEGER_ATOMICS(int)
EMULATION_INTEGER_ATOMICS(unsigned int)
EMULATION_INTEGER_ATOMICS(unsigned long long)
EMULATION_ATOMIC(atomicMin, long long, value < old ? value : old)
EMULATION_ATOMIC(atomicMax, long long, old < value ? value : old)
EMULATION_ATOMIC(atomicAdd, int, int(unsigned(old) + unsigned(value)))
EMULATION_ATOMIC(atomicAdd, unsigned int, old + value)
EMULATION_ATOMIC(atomicAdd, unsigned long long, old + value)
EMULATION_ATOMIC(atomicAdd, float, old + value)
EMULATION_ATOMIC(atomicAdd, double, old + value)
EMULATION_ATOMIC(atomicAdd, __half, old + value)
EMULATION_ATOMIC(atomicAdd, __half2, old + value)
EMULATION_ATOMIC(atomicAdd, __nv_bfloat16, old + value)
EMULATION_ATOMIC(atomicAdd, __nv_bfloat162, old + value)
EMULATION_ATOMIC(atomicSub, int, int(unsigned(old) - unsigned(value)))
EMULATION_ATOMIC(atomicSub, unsigned int, old - value)
EMULATION_ATOMIC(atomicInc, unsigned int, old >= value ? 0 : old + 1)
EMULATION_ATOMIC(atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)

// A program may wait in a loop of these for what another thread stores: they let the others run where they change nothing.
#define EMULATION_EXCHANGE(type)                                                                       \
  inline type atomicExch(type* address, type value, int line = __builtin_LINE()) {                     \
    type old = emulation::change(address, [=](type) { return value; });                                \
    if (!memcmp(&old, &value, sizeof old)) emulation::yield(line);                                     \
    return old;                                                                                        \
  }
#define EMULATION_COMPARE_AND_SWAP(type)                                                               \
  inline type atomicCAS(type* address, type compare, type value, int line = __builtin_LINE()) {        \
    type old = emulation::change(address, [=](type old) { return old == compare ? value : old; });     \
    if (old != compare) emulation::yield(line);                                                        \
    return old;                                                                                        \
  }
EMULATION_EXCHANGE(int)
EMULATION_EXCHANGE(unsigned int)
EMULATION_EXCHANGE(unsigned long long)
EMULATION_EXCHANGE(float)
EMULATION_COMPARE_AND_SWAP(int)
EMULATION_COMPARE_AND_SWAP(unsigned int)
EMULATION_COMPARE_AND_SWAP(unsigned long long)
EMULATION_COMPARE_AND_SWAP(unsigned short)
#undef EMULATION_EXCHANGE
#undef EMULATION_COMPARE_AND_SWAP
