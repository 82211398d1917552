"""Instructions of a warp: shuffles with widths, votes, reductions, masks."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.cuda.emulation.errors import TrapError

SHUFFLES = r"""
extern "C" __global__ void shuffles(const int* in, int* out, int delta, int width) {
  int i = threadIdx.x, v = in[i];
  out[i] = __shfl_sync(0xffffffffu, v, delta, width);
  out[32 + i] = __shfl_up_sync(0xffffffffu, v, delta, width);
  out[64 + i] = __shfl_down_sync(0xffffffffu, v, delta, width);
  out[96 + i] = __shfl_xor_sync(0xffffffffu, v, delta, width);
}
template <class T> __device__ void rotate(T* data) {
  data[threadIdx.x] = __shfl_sync(0xffffffffu, data[threadIdx.x], threadIdx.x + 1);
}
extern "C" __global__ void rotate_u32(unsigned* data) { rotate(data); }
extern "C" __global__ void rotate_i64(long long* data) { rotate(data); }
extern "C" __global__ void rotate_f32(float* data) { rotate(data); }
extern "C" __global__ void rotate_f64(double* data) { rotate(data); }

extern "C" __global__ void warp_sums(const float* in, float* out) {
  float v = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = v;
}
extern "C" __global__ void incomplete(const float* in, float* out) {
  out[threadIdx.x] = __shfl_down_sync(__activemask(), in[threadIdx.x], 4);
}
extern "C" __global__ void halves(const int* in, int* out) {  // two groups of lanes in different branches
  unsigned mask = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
  int v = in[threadIdx.x];
  if (threadIdx.x < 16) {
    for (int i = 0; i < 3; ++i) v = __shfl_xor_sync(mask, v, 1 << i);
  } else {
    v = __shfl_xor_sync(mask, v, 8);
    __syncwarp(mask);
  }
  out[threadIdx.x] = v;
}
extern "C" __global__ void votes(const int* in, unsigned* out) {
  int i = threadIdx.x;
  out[i] = __ballot_sync(0xffffffffu, in[i] & 1);
  out[32 + i] = __any_sync(0xffffffffu, in[i] == 7);
  out[64 + i] = __all_sync(0xffffffffu, in[i] >= 0);
  out[96 + i] = __all_sync(0xffffffffu, in[i] != 7);
  out[128 + i] = __match_any_sync(0xffffffffu, in[i]);
  out[160 + i] = __activemask();
}
extern "C" __global__ void reductions(const int* in, int* out) {
  int v = in[threadIdx.x];
  out[threadIdx.x] = __reduce_add_sync(0xffffffffu, v);
  out[32 + threadIdx.x] = __reduce_min_sync(0xffffffffu, v);
  out[64 + threadIdx.x] = __reduce_max_sync(0xffffffffu, v);
  out[96 + threadIdx.x] = __reduce_and_sync(0xffffffffu, (unsigned)v);
  out[128 + threadIdx.x] = __reduce_or_sync(0xffffffffu, (unsigned)v);
  out[160 + threadIdx.x] = __reduce_xor_sync(0xffffffffu, (unsigned)v);
}
extern "C" __global__ void active(const float* in, float* out, unsigned* masks, int n) {
  if (threadIdx.x >= n) return;
  unsigned mask = __activemask();
  masks[threadIdx.x] = mask;
  out[threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 1);
  if (threadIdx.x % 2)
    masks[threadIdx.x] &= __activemask() | 1;
  else
    masks[threadIdx.x] &= __activemask();
}
extern "C" __global__ void odd_width(int* out) { out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0, 12); }
"""


@pytest.mark.parametrize("width", [32, 16, 8, 4, 2, 1])
@pytest.mark.parametrize("delta", [0, 1, 3, 5, 17, 31])
@pytest.mark.parametrize("seed", [0, 5])
def test_shuffles_with_widths(launch, width: int, delta: int, seed: int) -> None:
    """The PTX page of shfl.sync, in numpy: a lane's segment, its last lane, and which sources are in reach."""
    data = np.random.default_rng(2).integers(-1000, 1000, 32).astype(np.int32)
    out = np.zeros((4, 32), np.int32)
    launch(SHUFFLES, "shuffles", data, out, delta, width, seed=seed)
    lane = np.arange(32)
    first = lane // width * width
    last = first + width - 1
    sources = [
        first + delta % width,
        np.where(lane - delta >= first, lane - delta, lane),
        np.where(lane + delta <= last, lane + delta, lane),
        np.where((lane ^ delta) <= last, lane ^ delta, lane),
    ]
    np.testing.assert_array_equal(out, data[np.stack(sources)])


@pytest.mark.parametrize(
    "name, dtype", [("u32", np.uint32), ("i64", np.int64), ("f32", np.float32), ("f64", np.float64)]
)
def test_shuffles_of_types(launch, name: str, dtype) -> None:
    data = (np.random.default_rng(3).random(32) * 1e9).astype(dtype)
    out = data.copy()
    launch(SHUFFLES, f"rotate_{name}", out)
    np.testing.assert_array_equal(out, np.roll(data, -1))


def test_every_warp_of_a_block_is_its_own(launch) -> None:
    data = np.random.default_rng(4).integers(0, 50, (8, 32)).astype(np.float32)
    out = np.zeros(8, np.float32)
    launch(SHUFFLES, "warp_sums", data, out, block=(256,))
    np.testing.assert_array_equal(out, data.sum(1))


def test_lanes_that_the_last_warp_lacks_give_poison(launch) -> None:
    data = np.arange(40, dtype=np.float32)
    out = np.zeros(40, np.float32)
    launch(SHUFFLES, "incomplete", data, out, block=(40,))
    np.testing.assert_array_equal(out[:28], data[4:32])
    np.testing.assert_array_equal(out[28:36], [28, 29, 30, 31, 36, 37, 38, 39])
    assert np.isnan(out[36:]).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_groups_of_lanes_in_different_branches(launch, seed: int) -> None:
    data = np.arange(100, 132, dtype=np.int32)
    out = np.zeros(32, np.int32)
    launch(SHUFFLES, "halves", data, out, seed=seed)
    lane = np.arange(32)
    np.testing.assert_array_equal(out, 100 + np.where(lane < 16, lane ^ 7, lane ^ 8))


def test_votes(launch) -> None:
    data = np.random.default_rng(5).integers(0, 6, 32).astype(np.int32)
    data[9] = 7
    out = np.zeros((6, 32), np.uint32)
    launch(SHUFFLES, "votes", data, out)
    bits = 1 << np.arange(32, dtype=np.uint64)
    assert (out[0] == (bits * (data & 1).astype(np.uint64)).sum()).all()
    assert (out[1] == 1).all() and (out[2] == 1).all() and (out[3] == 0).all()
    np.testing.assert_array_equal(out[4], [(bits * (data == x)).sum() for x in data])
    assert (out[5] == 0xFFFFFFFF).all()


def test_reductions(launch) -> None:
    data = np.random.default_rng(6).integers(-(2**31), 2**31, 32).astype(np.int32)
    out = np.zeros((6, 32), np.int32)
    launch(SHUFFLES, "reductions", data, out)
    expected = [
        data.sum(dtype=np.int32),
        data.min(),
        data.max(),
        np.bitwise_and.reduce(data),
        np.bitwise_or.reduce(data),
        np.bitwise_xor.reduce(data),
    ]
    np.testing.assert_array_equal(out, np.repeat(np.array(expected, np.int32)[:, None], 32, 1))


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_active_lanes_are_those_that_are_together(launch, seed: int) -> None:
    """Behind an early end of some lanes, and in both branches of a condition."""
    data = np.arange(40, dtype=np.float32)
    out = np.zeros(40, np.float32)
    masks = np.zeros(40, np.uint32)
    launch(SHUFFLES, "active", data, out, masks, 36, block=(40,), seed=seed)
    np.testing.assert_array_equal(out[:36], data[:36].astype(int) ^ 1)
    expected = np.where(np.arange(40) % 2, 0xAAAAAAAB, 0x55555555)
    np.testing.assert_array_equal(masks[:32], expected[:32])
    np.testing.assert_array_equal(masks[32:36], expected[:4] & 0xF)
    assert (masks[36:] == 0).all()


def test_a_width_that_is_no_power_of_two(launch) -> None:
    with pytest.raises(TrapError, match="the width is 12, not a power of two up to 32"):
        launch(SHUFFLES, "odd_width", np.zeros(32, np.int32))
