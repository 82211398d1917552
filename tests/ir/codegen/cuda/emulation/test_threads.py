"""Threads, blocks, barriers and shared memory of emulated kernels, against what the same numbers are in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.cuda.emulation.compile import emulate
from ir.codegen.cuda.emulation.errors import BarrierError, KernelSourceError, LaunchError, TrapError

THREADS = r"""
extern "C" __global__ void indices(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int* own = out + (block * blockDim.x * blockDim.y * blockDim.z + thread) * 6;
  own[0] = blockIdx.x; own[1] = blockIdx.y; own[2] = blockIdx.z;
  own[3] = threadIdx.x; own[4] = threadIdx.y; own[5] = threadIdx.z;
}

extern "C" __global__ void __launch_bounds__(128) reverse(float* __restrict__ data) {
  __shared__ float tile[128];
  int at = blockIdx.x * 128 + threadIdx.x;
  tile[threadIdx.x] = data[at];
  __syncthreads();
  data[at] = tile[127 - threadIdx.x];
}

extern "C" __global__ void tree_sum(const float* in, float* out) {
  __shared__ float part[256];
  part[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void dynamic(float* data, int columns) {
  extern __shared__ __align__(16) unsigned char memory[];
  float* first = (float*)memory;
  float* second = (float*)(memory + columns * sizeof(float));
  first[threadIdx.x] = data[threadIdx.x];
  second[threadIdx.x] = 2 * data[threadIdx.x];
  __syncthreads();
  int other = (threadIdx.x + 1) % columns;
  data[threadIdx.x] = first[other] + second[other];
}

extern "C" __global__ void counting(int* out) {
  int i = threadIdx.x;
  out[i] = __syncthreads_count(i % 3 == 0);
  out[64 + i] = __syncthreads_and(i < 64);
  out[128 + i] = __syncthreads_and(i < 63);
  out[192 + i] = __syncthreads_or(i == 63);
  out[256 + i] = __syncthreads_or(i == 64);
}

extern "C" __global__ void unwritten(float* floats, unsigned* words) {
  __shared__ float left[32];
  extern __shared__ unsigned more[];
  floats[blockIdx.x * 32 + threadIdx.x] = left[threadIdx.x];
  words[blockIdx.x * 32 + threadIdx.x] = more[threadIdx.x];
  left[threadIdx.x] = 1;
  more[threadIdx.x] = 1;
}

__device__ int total;
__constant__ int step = 3;
__device__ __noinline__ int next_of(int x) { return x + step; }
__device__ __forceinline__ int twice(int x) { return x * 2; }
extern "C" __global__ void device_functions(int* out) {
  total += twice(next_of(threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) *out = total;
}

extern "C" __global__ void racing(int* out) {
  __shared__ int slot;
  slot = threadIdx.x;
  out[threadIdx.x] = slot;
  __syncthreads();
  out[32] = slot;
}

extern "C" __global__ void handed_over(int* out) {
  __shared__ volatile int flag;
  __shared__ int lock;
  if (threadIdx.x == 0) { flag = 0; lock = 0; }
  __syncthreads();
  while (atomicCAS(&lock, 0, 1) != 0) {}
  __nanosleep(10);  // others run, and find the lock taken
  flag = flag + 1;
  atomicExch(&lock, 0);
  __syncthreads();
  out[threadIdx.x] = flag;
}
"""

FUNCTIONS = r"""
__device__ __forceinline__ float turned(float x) {
  __shared__ float tile[32];
  tile[threadIdx.x] = x;
  __syncthreads();
  float y = tile[31 - threadIdx.x];
  __syncthreads();
  return y;
}
template <class T> __device__ T turned_back(T x) {
  __shared__ T tile[32];
  tile[threadIdx.x] = x;
  __syncthreads();
  return tile[31 - threadIdx.x];
}
extern "C" __global__ void turns(float* data) { data[threadIdx.x] = turned(data[threadIdx.x]); }
extern "C" __global__ void turns_twice(float* data) { data[threadIdx.x] = turned_back(turned(data[threadIdx.x])); }
"""


def test_indices_of_blocks_and_threads(launch) -> None:
    grid, block = (3, 2, 2), (4, 3, 2)
    out = np.full((*reversed(grid), *reversed(block), 6), -1, np.int32)
    launch(THREADS, "indices", out, grid=grid, block=block)
    bz, by, bx, tz, ty, tx = np.indices(out.shape[:-1])
    np.testing.assert_array_equal(out, np.stack([bx, by, bz, tx, ty, tz], -1))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_barrier_separates_stores_from_loads(launch, seed: int) -> None:
    data = np.random.default_rng(0).standard_normal((5, 128)).astype(np.float32)
    out = data.copy()
    launch(THREADS, "reverse", out, grid=(5,), block=(128,), seed=seed)
    np.testing.assert_array_equal(out, data[:, ::-1])


@pytest.mark.parametrize("seed", [0, 1])
def test_barriers_in_a_loop(launch, seed: int) -> None:
    data = np.random.default_rng(1).integers(0, 100, (7, 256)).astype(np.float32)
    out = np.zeros(7, np.float32)
    launch(THREADS, "tree_sum", data, out, grid=(7,), block=(256,), seed=seed)
    np.testing.assert_array_equal(out, data.sum(1))


def test_dynamic_shared_memory(launch) -> None:
    data = np.arange(48, dtype=np.float32)
    out = data.copy()
    launch(THREADS, "dynamic", out, 48, block=(48,), shared_bytes=2 * 48 * 4)
    np.testing.assert_array_equal(out, 3 * np.roll(data, -1))


def test_barriers_that_count(launch) -> None:
    out = np.full((5, 64), -1, np.int32)
    launch(THREADS, "counting", out, block=(64,))
    np.testing.assert_array_equal(out, np.repeat([[22], [1], [0], [1], [0]], 64, 1))


def test_shared_memory_that_nobody_wrote_is_no_number_in_any_block(launch) -> None:
    floats, words = np.zeros((3, 32), np.float32), np.zeros((3, 32), np.uint32)
    launch(THREADS, "unwritten", floats, words, grid=(3,), shared_bytes=128)
    assert np.isnan(floats).all()
    assert (words == 0xFFFAFFFA).all()


def test_device_functions_and_variables(launch) -> None:
    out = np.zeros(1, np.int32)
    launch(THREADS, "device_functions", out, block=(32,))
    assert out[0] == sum(2 * (i + 3) for i in range(32))


def test_orders_of_threads_differ_by_seed(launch) -> None:
    """The last thread of the order wins a race; without a seed it is the one of the highest number."""
    winners = []
    for seed in range(8):
        out = np.zeros(33, np.int32)
        launch(THREADS, "racing", out, seed=seed)
        winners.append(out[32])
    assert winners[0] == 31
    assert len(set(winners)) > 3


def test_a_lock_that_threads_spin_on(launch) -> None:
    out = np.zeros(64, np.int32)
    launch(THREADS, "handed_over", out, block=(64,))
    assert (out == 64).all()


FAULTS = r"""
extern "C" __global__ void half_waits(int* out) {
  if (threadIdx.x < 16)
    __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void two_barriers(int* out) {
  if (blockIdx.x == 1 && threadIdx.x % 2)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void lanes_wait(int* out) {
  if (threadIdx.x != 5) out[threadIdx.x] = __shfl_sync(0xffffffff, 1, 0);
  __syncthreads();
}
extern "C" __global__ void outside_of_its_mask(int* out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffff, 1, 0);
}
extern "C" __global__ void asserts(int* out) {
  assert(threadIdx.x + 8 * blockIdx.x != 11);
}
extern "C" __global__ void traps(int* out) {
  if (threadIdx.y == 1) __trap();
}
extern "C" __global__ void spins(int* out) {
  while (atomicCAS(out, 1, 1) != 1) {}
}
"""


@pytest.mark.parametrize(
    "name, grid, block, error, message",
    [
        (
            "half_waits",
            (2,),
            (32,),
            BarrierError,
            r"kernel half_waits, block \(0, 0, 0\): no thread can go on: 16 threads wait at __syncthreads\(\) in line 4:"
            r" \(0, 0, 0\) to \(15, 0, 0\); 16 threads have ended: \(16, 0, 0\) to \(31, 0, 0\)",
        ),
        (
            "two_barriers",
            (2,),
            (32,),
            BarrierError,
            r"block \(1, 0, 0\), thread \(1, 0, 0\): it reaches the barrier in line 9 while others of its block \(1\)"
            r" wait at the one in line 11",
        ),
        (
            "lanes_wait",
            (1,),
            (32,),
            BarrierError,
            r"31 threads wait at __shfl_sync\(\) in line 15: \(0, 0, 0\) \.\.\. \(31, 0, 0\);"
            r" 1 thread waits at __syncthreads\(\) in line 16: \(5, 0, 0\)",
        ),
        (
            "outside_of_its_mask",
            (1,),
            (32,),
            BarrierError,
            r"thread \(16, 0, 0\): .*mask 0x0000ffff has no bit for this lane",
        ),
        (
            "asserts",
            (2,),
            (8,),
            TrapError,
            r"block \(1, 0, 0\), thread \(3, 0, 0\): assertion in line 22 does not hold: threadIdx.x",
        ),
        ("traps", (1,), (4, 2), TrapError, r"thread \(0, 1, 0\): __trap\(\) in line 25"),
        ("spins", (1,), (2,), BarrierError, r"spins in line 28 for what no other thread"),
    ],
)
def test_a_fault_names_block_thread_and_line(launch, name: str, grid, block, error, message: str) -> None:
    out = np.zeros(64, np.int32)
    with pytest.raises(error, match=message):
        launch(FAULTS, name, out, grid=grid, block=block)


def test_a_module_works_after_a_fault(launch) -> None:
    out = np.zeros(64, np.int32)
    with pytest.raises(BarrierError):
        launch(FAULTS, "half_waits", out, block=(32,))
    out[:] = 0
    launch(FAULTS, "half_waits", out, block=(16,))
    np.testing.assert_array_equal(out, np.arange(64) < 16)


@pytest.mark.parametrize(
    "grid, block, shared_bytes, message",
    [
        ((1,), (1025,), 0, "a block's extent along x is 1 to 1024, got 1025"),
        ((1,), (33, 32), 0, "a block has at most 1024 threads, got \\(33, 32\\), that is 1056"),
        ((1,), (1, 1, 65), 0, "along z is 1 to 64, got 65"),
        ((1, 65536), (1,), 0, "a grid's extent along y is 1 to 65535, got 65536"),
        ((0,), (1,), 0, "a grid's extent along x is 1 to 2147483647, got 0"),
        ((1, 1, 1, 1), (1,), 0, "a grid has one to three extents"),
        (
            (1,),
            (1,),
            232449,
            "0 to 232448 bytes of dynamic shared memory beside the 0 that the kernel declares, got 232449",
        ),
    ],
)
def test_launches_that_no_device_accepts(launch, grid, block, shared_bytes: int, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        launch(THREADS, "indices", np.zeros(6, np.int32), grid=grid, block=block, shared_bytes=shared_bytes)


def test_declared_and_dynamic_shared_memory_share_the_limit(launch) -> None:
    with pytest.raises(
        LaunchError,
        match="0 to 231936 bytes of dynamic shared memory beside the 512 that the kernel declares",
    ):
        launch(THREADS, "reverse", np.zeros(128, np.float32), block=(128,), shared_bytes=231937)


def test_too_much_declared_shared_memory() -> None:
    kernel = """
    extern "C" __global__ void k(float* a) {
      __shared__ float b[SIZE];
      b[threadIdx.x] = 1; __syncthreads(); *a = b[*(int*)a];
    }"""
    module = emulate(kernel.replace("SIZE", "12288"), ["k"])
    assert module.static_shared_bytes == {"k": 49152}
    with pytest.raises(
        KernelSourceError,
        match="kernel k declares 49156 bytes of shared memory, and 49152 is the most; use dynamic",
    ):
        emulate(kernel.replace("SIZE", "12289"), ["k"])


def test_shared_memory_of_functions(launch) -> None:
    """Of inlined functions, of templates, and of one that several kernels call."""
    data = np.arange(32, dtype=np.float32)
    out = data.copy()
    launch(FUNCTIONS, "turns_twice", out)
    np.testing.assert_array_equal(out, data)
    launch(FUNCTIONS, "turns", out)
    np.testing.assert_array_equal(out, data[::-1])


def test_the_largest_block(launch) -> None:
    out = np.full((1024, 6), -1, np.int32)
    launch(THREADS, "indices", out, block=(16, 8, 8))
    np.testing.assert_array_equal(out[-1], [0, 0, 0, 15, 7, 7])
