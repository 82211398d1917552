// CUDA C++ as ordinary C++17: what a kernel's source expects to find, and no header of CUDA's.
//
// It is compiled once in front of all kernels (a precompiled header). The words of CUDA's language come last, since some of them
// (__noinline__) are words of the C++ library's own headers.
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"
#include "device_math.h"
#include "half.h"
#include "fp8.h"
#include "threads.h"
#include "warp.h"
#include "atomics.h"
#include "tensor_cores.h"
#include "warp_groups.h"
#include "wmma.h"
#include "launch.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __managed__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#define __shared__ static thread_local

#undef assert
#define assert(condition)                                                                              \
  ((condition) ? void()                                                                                \
               : emulation::fail(emulation::Fault::trap, emulation::format("assertion in line %d does not hold: %s", \
                                                                           __LINE__, #condition)))
