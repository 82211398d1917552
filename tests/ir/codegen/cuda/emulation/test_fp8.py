"""The two formats of eight bits, against ml_dtypes: every code, and rounding at the middles between neighbours."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

_KERNELS = r"""
extern "C" __global__ void NAME_to(const __nv_fp8_NAME* in, float* out, __half* halves, __nv_bfloat16* brains) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = float(in[i]);
  halves[i] = __half(in[i]); brains[i] = __nv_bfloat16(in[i]);
  __half_raw raw = __nv_cvt_fp8_to_halfraw(in[i].__x, __NV_KIND);
  if (__half(raw) != halves[i] && !__hisnan(halves[i])) __trap();
}
extern "C" __global__ void NAME_from(const float* in, __nv_fp8_NAME* saturating, unsigned char* other) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  saturating[i] = __nv_fp8_NAME(in[i]);
  other[i] = __nv_cvt_float_to_fp8(in[i], __NV_NOSAT, __NV_KIND);
}
extern "C" __global__ void NAME_from_half(const __half* in, __nv_fp8_NAME* out, unsigned char* raw) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __nv_fp8_NAME(in[i]);
  raw[i] = __nv_cvt_halfraw_to_fp8(in[i], __NV_SATFINITE, __NV_KIND);
}
extern "C" __global__ void NAME_vectors(const float4* in, __nv_fp8x4_NAME* four, __nv_fp8x2_NAME* two, float4* back) {
  four[0] = __nv_fp8x4_NAME(in[0]);
  two[0] = __nv_fp8x2_NAME(make_float2(in[0].x, in[0].y));
  two[1] = __nv_fp8x2_NAME(__floats2half2_rn(in[0].z, in[0].w));
  back[0] = float4(four[0]);
  float2 first = float2(two[0]);
  back[1] = make_float4(first.x, first.y, 0, 0);
}
"""

SOURCE = "#include <cuda_fp8.h>\n" + "".join(
    _KERNELS.replace("NAME", name).replace("KIND", name.upper()) for name in ("e4m3", "e5m2")
)

TYPES = pytest.mark.parametrize(
    "name, dtype, largest",
    [("e4m3", ml_dtypes.float8_e4m3fn, 448.0), ("e5m2", ml_dtypes.float8_e5m2, 57344.0)],
)


def _all(dtype) -> np.ndarray:
    return np.arange(256, dtype=np.uint8).view(dtype)


@TYPES
def test_every_code_becomes_the_number_that_it_is(launch, name: str, dtype, largest: float) -> None:
    out, halves, brains = (
        np.zeros(256, np.float32),
        np.zeros(256, np.float16),
        np.zeros(256, ml_dtypes.bfloat16),
    )
    launch(SOURCE, f"{name}_to", _all(dtype), out, halves, brains, block=(256,))
    expected = _all(dtype).astype(np.float32)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(halves.astype(np.float32), expected)
    np.testing.assert_array_equal(brains.astype(np.float32), expected)


def _floats(dtype) -> np.ndarray:
    """Every number, the middles between neighbours, what lies beside them, and what is too large or too small."""
    numbers = _all(dtype).astype(np.float32)
    ordered = np.unique(numbers[np.isfinite(numbers)])
    middles = (ordered[1:] + ordered[:-1]) / 2
    beside = [np.nextafter(middles, np.float32(side)) for side in (np.inf, -np.inf)]
    more = np.array(
        [np.inf, -np.inf, np.nan, 464, 465, 480, 1e6, -1e6, 61440, 61439, 1e-30, -1e-8, -0.0], np.float32
    )
    floats = np.concatenate([ordered, middles, *beside, more])
    return np.concatenate([floats, np.zeros(-len(floats) % 256, np.float32)])


@TYPES
def test_floats_are_rounded_to_nearest_even_and_saturate(launch, name: str, dtype, largest: float) -> None:
    floats = _floats(dtype)
    saturating, other = np.zeros(len(floats), dtype), np.zeros(len(floats), np.uint8)
    launch(SOURCE, f"{name}_from", floats, saturating, other, grid=(len(floats) // 256,), block=(256,))
    within = np.clip(floats, -largest, largest).astype(dtype)
    np.testing.assert_array_equal(np.isnan(saturating.astype(np.float32)), np.isnan(floats))
    numbers = ~np.isnan(floats)
    np.testing.assert_array_equal(saturating.view(np.uint8)[numbers], within.view(np.uint8)[numbers])
    expected = floats.astype(dtype).astype(np.float32)  # ml_dtypes: NaN or infinity for what is too large
    np.testing.assert_array_equal(other.view(dtype).astype(np.float32), expected)


@TYPES
def test_halves_are_rounded_once(launch, name: str, dtype, largest: float) -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    out, raw = np.zeros(2**16, dtype), np.zeros(2**16, np.uint8)
    launch(SOURCE, f"{name}_from_half", halves, out, raw, grid=(64,), block=(1024,))
    numbers = ~np.isnan(halves)
    expected = np.clip(np.where(numbers, halves.astype(np.float32), 0), -largest, largest).astype(dtype)
    np.testing.assert_array_equal(out.view(np.uint8)[numbers], expected.view(np.uint8)[numbers])
    np.testing.assert_array_equal(raw, out.view(np.uint8))
    assert np.isnan(out.astype(np.float32)[~numbers]).all()


@TYPES
def test_twos_and_fours(launch, name: str, dtype, largest: float) -> None:
    data = np.array([0.3, -1.7, 1e9, 5.1], np.float32)
    four, two, back = np.zeros(4, np.uint8), np.zeros(4, np.uint8), np.zeros(8, np.float32)
    launch(SOURCE, f"{name}_vectors", data, four, two, back, block=(1,))
    expected = np.clip(data, -largest, largest).astype(dtype)
    np.testing.assert_array_equal(four, expected.view(np.uint8))
    np.testing.assert_array_equal(two, expected.view(np.uint8))
    np.testing.assert_array_equal(back[:4], expected.astype(np.float32))
    np.testing.assert_array_equal(back[4:], [*expected[:2].astype(np.float32), 0, 0])
