"""Matrix instructions of warps and asynchronous copies: fragments laid out as the PTX ISA's tables say, products against numpy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ir.codegen.cuda
from ir.codegen.cuda.emulation.errors import BarrierError, TrapError

CUDA = Path(ir.codegen.cuda.__file__).parent
PRELUDE = (CUDA / "prelude/tensor_cores.cuh").read_text()
EMULATED = (CUDA / "emulation/tensor_cores.h").read_text()

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
C_TYPES = {"f32": "float", "s32": "int", "f16": "void", "f64": "double"}

INSTRUCTIONS = sorted(set(re.findall(r"\bptx_mma_\w+(?=[,(])", EMULATED)))

# Row and column of element i of the lane with g = lane / 4 and t = lane % 4, as the tables of the PTX ISA give them.
Layout = Callable[[int, int, int], tuple[int, int]]
A_LAYOUTS: dict[tuple[str, int], Layout] = {
    ("m16n8k8", 16): lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
    ("m16n8k16", 16): lambda g, t, i: (
        g if 0 <= i < 2 or 4 <= i < 6 else g + 8,
        t * 2 + (i & 1) if i < 4 else t * 2 + (i & 1) + 8,
    ),
    ("m16n8k4", 32): lambda g, t, i: ((g, g + 8)[i], t),
    ("m16n8k8", 32): lambda g, t, i: ((g, g + 8, g, g + 8)[i], (t, t, t + 4, t + 4)[i]),
    ("m8n8k4", 64): lambda g, t, i: (g, t),
    ("m8n8k16", 8): lambda g, t, i: (g, t * 4 + i),
    ("m16n8k16", 8): lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)),
    ("m16n8k32", 8): lambda g, t, i: (
        g if 0 <= i < 4 or 8 <= i < 12 else g + 8,
        t * 4 + (i & 3) if i < 8 else t * 4 + (i & 3) + 16,
    ),
}
B_LAYOUTS: dict[tuple[str, int], Layout] = {
    ("m16n8k8", 16): lambda g, t, i: (t * 2 + i, g),
    ("m16n8k16", 16): lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g),
    ("m16n8k4", 32): lambda g, t, i: (t, g),
    ("m16n8k8", 32): lambda g, t, i: ((t, t + 4)[i], g),
    ("m8n8k4", 64): lambda g, t, i: (t, g),
    ("m8n8k16", 8): lambda g, t, i: (t * 4 + i, g),
    ("m16n8k16", 8): lambda g, t, i: (t * 4 + i, g),
    ("m16n8k32", 8): lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
}


def _c_layout(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8, t * 2 + (i & 1))


def _places(layout: Layout, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element of each lane; together they are every place of the matrix once."""
    count = rows * columns // 32
    places = np.array([[layout(lane // 4, lane % 4, i) for i in range(count)] for lane in range(32)])
    assert len({tuple(place) for place in places.reshape(-1, 2).tolist()}) == rows * columns
    return places[..., 0], places[..., 1]


def _parts(name: str) -> tuple[str, tuple[int, int, int], str, str, str]:
    found = re.fullmatch(r"ptx_mma_(m(\d+)n(\d+)k(\d+))_(\w+?)_(\w+?)_(\w+)", name)
    assert found is not None
    shape, m, n, k, a, b, c = found.groups()
    return shape, (int(m), int(n), int(k)), a, b, c


def _bits(dtype: str) -> int:
    return np.dtype(DTYPES[dtype]).itemsize * 8


def _products() -> str:
    kernels = []
    for name in INSTRUCTIONS:
        _, (m, n, k), a, b, c = _parts(name)
        pointer = C_TYPES[c]
        sizes = [m * k * _bits(a) // 256, k * n * _bits(b) // 256, m * n * _bits(c) // 256]
        kernels.append(
            f'extern "C" __global__ void {name[4:]}(char* d, const char* a, const char* b, const char* c) {{\n'
            f"  int i = threadIdx.x;\n"
            f"  {name}(({pointer}*)(d + i * {sizes[2]}), a + i * {sizes[0]}, b + i * {sizes[1]},"
            f" (const {pointer}*)(c + i * {sizes[2]}));\n"
            "}\n"
        )
    return "".join(kernels)


PRODUCTS = _products()


def _random(dtype: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    if dtype in ("s8", "u8"):
        info = np.iinfo(DTYPES[dtype])
        return rng.integers(info.min, info.max + 1, shape).astype(DTYPES[dtype])
    if dtype == "s32":
        return rng.integers(-1000, 1000, shape).astype(np.int32)
    return rng.standard_normal(shape).astype(DTYPES[dtype])


@pytest.mark.parametrize("name", INSTRUCTIONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_products_of_fragments(launch, name: str, seed: int) -> None:
    shape, (m, n, k), a_type, b_type, c_type = _parts(name)
    rng = np.random.default_rng(seed)
    a, b = _random(a_type, (m, k), rng), _random(b_type, (k, n), rng)
    c = _random(c_type, (m, n), rng)
    in_a = _places(A_LAYOUTS[shape, _bits(a_type)], m, k)
    in_b = _places(B_LAYOUTS[shape, _bits(b_type)], k, n)
    in_c = _places(_c_layout, m, n)
    fragments = [np.ascontiguousarray(matrix[place]) for matrix, place in ((a, in_a), (b, in_b), (c, in_c))]
    d = np.zeros_like(fragments[2])
    launch(PRODUCTS, name[4:], *(x.view(np.int8) for x in (d, *fragments)), seed=seed)
    if a_type == "tf32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    found = np.zeros((m, n), d.dtype)
    found[in_c] = d
    if c_type == "s32":
        np.testing.assert_array_equal(found, exact.astype(np.int64))
    else:
        np.testing.assert_allclose(
            found.astype(np.float64), exact, rtol=float(ml_dtypes.finfo(d.dtype).eps), atol=1e-7
        )


def test_integer_sums_wrap(launch) -> None:
    a = b = np.full((32, 4), 127, np.int8)
    c = np.full((32, 2), 2**31 - 1, np.int32)
    d = np.zeros_like(c)
    launch(PRODUCTS, "mma_m8n8k16_s8_s8_s32", *(x.view(np.int8) for x in (d, a, b, c)))
    assert (d == 2**31 - 1 + 16 * 127 * 127 - 2**32).all()


MATRICES = r"""
#include <cuda_fp16.h>
#include "tensor_cores.cuh"
extern "C" __global__ void rows(const unsigned short* in, unsigned* out) {  // in: 32 rows of 8; out: 6 ways, 32 lanes, 4 registers
  __shared__ __align__(16) unsigned short tile[32 * 8];
  int lane = threadIdx.x;
  for (int j = 0; j < 8; ++j) tile[lane * 8 + j] = in[lane * 8 + j];
  __syncthreads();
  const unsigned short* row = tile + lane * 8;
  unsigned* own = out + lane * 4;
  ptx_ldmatrix_x1(own, row);
  ptx_ldmatrix_x2(own + 128, row);
  ptx_ldmatrix_x4(own + 256, row);
  ptx_ldmatrix_x1_trans(own + 384, row);
  ptx_ldmatrix_x2_trans(own + 512, row);
  ptx_ldmatrix_x4_trans(own + 640, row);
}
extern "C" __global__ void back(const unsigned short* in, unsigned short* out) {  // six ways there and back
  __shared__ __align__(16) unsigned short tile[32 * 8];
  __shared__ __align__(16) unsigned short copy[6][32 * 8];
  int lane = threadIdx.x;
  for (int j = 0; j < 8; ++j) {
    tile[lane * 8 + j] = in[lane * 8 + j];
    for (int way = 0; way < 6; ++way) copy[way][lane * 8 + j] = 0;
  }
  __syncthreads();
  unsigned r[4];
  const unsigned short* row = tile + lane * 8;
  ptx_ldmatrix_x1(r, row); ptx_stmatrix_x1(copy[0] + lane * 8, r);
  ptx_ldmatrix_x2(r, row); ptx_stmatrix_x2(copy[1] + lane * 8, r);
  ptx_ldmatrix_x4(r, row); ptx_stmatrix_x4(copy[2] + lane * 8, r);
  ptx_ldmatrix_x1_trans(r, row); ptx_stmatrix_x1_trans(copy[3] + lane * 8, r);
  ptx_ldmatrix_x2_trans(r, row); ptx_stmatrix_x2_trans(copy[4] + lane * 8, r);
  ptx_ldmatrix_x4_trans(r, row); ptx_stmatrix_x4(copy[5] + lane * 8, r);
  __syncthreads();
  for (int way = 0; way < 6; ++way)
    for (int j = 0; j < 8; ++j) out[(way * 32 + lane) * 8 + j] = copy[way][lane * 8 + j];
}
// A 16 by 16 and B 16 by 8, both by rows, from shared memory through ldmatrix into a product.
extern "C" __global__ void tile_product(const half* a, const half* b, float* c) {
  __shared__ __align__(16) half tile_a[16 * 16];
  __shared__ __align__(16) half tile_b[16 * 8];
  int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) tile_a[i] = a[i];
  for (int i = lane; i < 128; i += 32) tile_b[i] = b[i];
  __syncthreads();
  unsigned fragment_a[4], fragment_b[2];
  float sums[4] = {0, 0, 0, 0};
  ptx_ldmatrix_x4(fragment_a, tile_a + lane % 16 * 16 + lane / 16 * 8);
  ptx_ldmatrix_x2_trans(fragment_b, tile_b + lane % 16 * 8);
  ptx_mma_m16n8k16_f16_f16_f32(sums, fragment_a, fragment_b, sums);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}
extern "C" __global__ void rounded(const float* in, float* out) { out[threadIdx.x] = ptx_cvt_rna_tf32(in[threadIdx.x]); }
"""


def test_rows_that_ldmatrix_loads(launch) -> None:
    tile = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    out = np.full((6, 32, 4), 0xFFFFFFFF, np.uint32)
    launch(MATRICES, "rows", tile, out)
    for way, (count, transposed) in enumerate([(1, 0), (2, 0), (4, 0), (1, 1), (2, 1), (4, 1)]):
        matrices = tile.transpose(0, 2, 1) if transposed else tile
        for matrix in range(4):
            expected = np.ascontiguousarray(matrices[matrix]).view(np.uint32).reshape(32)
            np.testing.assert_array_equal(out[way, :, matrix], expected if matrix < count else 0xFFFFFFFF)


def test_stmatrix_is_the_way_back(launch) -> None:
    tile = np.random.default_rng(0).integers(1, 2**16, (4, 8, 8), dtype=np.uint16)
    out = np.zeros((6, 4, 8, 8), np.uint16)
    launch(MATRICES, "back", tile, out)
    for way, count in enumerate([1, 2, 4, 1, 2]):
        np.testing.assert_array_equal(out[way, :count], tile[:count])
        assert (out[way, count:] == 0).all()
    np.testing.assert_array_equal(out[5], tile.transpose(0, 2, 1))


@pytest.mark.parametrize("seed", [0, 1])
def test_ldmatrix_loads_what_mma_multiplies(launch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((16, 8)).astype(np.float16)
    c = np.zeros((16, 8), np.float32)
    launch(MATRICES, "tile_product", a, b, c, seed=seed)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-6, atol=1e-6)


def test_rounding_to_tf32_moves_ties_away_from_zero(launch) -> None:
    unit = 2.0**-10
    values = [
        1,
        1 + unit,
        1 + unit / 2,
        1 + 1.5 * unit,
        -1 - unit / 2,
        1 + unit / 2 - 2.0**-23,
        0,
        np.inf,
        -np.inf,
    ]
    expected = [1, 1 + unit, 1 + unit, 1 + 2 * unit, -1 - unit, 1, 0, np.inf, -np.inf]
    out = np.zeros(len(values), np.float32)
    launch(MATRICES, "rounded", np.array(values, np.float32), out, block=(len(values),))
    assert out.tolist() == expected


ASYNC = r"""
extern "C" __global__ void visible(const float* in, float* out) {
  __shared__ __align__(16) float tile[3][32];
  int i = threadIdx.x;
  for (int stage = 0; stage < 3; ++stage) {
    tile[stage][i] = -1;
    ptx_cp_async_4(&tile[stage][i], in + stage * 32 + i);
    ptx_cp_async_commit_group();
  }
  for (int stage = 0; stage < 3; ++stage) out[stage * 32 + i] = tile[stage][i];
  ptx_cp_async_wait_group<1>();
  for (int stage = 0; stage < 3; ++stage) out[(3 + stage) * 32 + i] = tile[stage][i];
  ptx_cp_async_wait_group<0>();
  for (int stage = 0; stage < 3; ++stage) out[(6 + stage) * 32 + i] = tile[stage][i];
}
extern "C" __global__ void sizes(const float* in, float* out, int n) {
  extern __shared__ __align__(16) float tile[];
  int i = threadIdx.x;
  ptx_cp_async_4(tile + i, in + i);
  ptx_cp_async_8(tile + 32 + 2 * i, in + 2 * i);
  ptx_cp_async_16(tile + 96 + 4 * i, in + 4 * i);
  ptx_cp_async_4_zfill(tile + 224 + i, in + i, i < n);
  ptx_cp_async_8_zfill(tile + 256 + 2 * i, in + 2 * i, i < n);
  ptx_cp_async_16_zfill(tile + 320 + 4 * i, in + 4 * i, i < n);
  ptx_cp_async_wait_all();
  __syncthreads();
  for (int j = i; j < 448; j += 32) out[j] = tile[j];
}
// Two stages: while one is computed with, the other one is filled.
extern "C" __global__ void pipeline(const float* in, float* out, int steps) {
  __shared__ __align__(16) float stage[2][64];
  int i = threadIdx.x;
  float sum = 0;
  ptx_cp_async_4(&stage[0][i], in + i);
  ptx_cp_async_commit_group();
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) ptx_cp_async_4(&stage[(step + 1) % 2][i], in + (step + 1) * 64 + i);
    ptx_cp_async_commit_group();
    ptx_cp_async_wait_group<1>();
    __syncthreads();
    sum += stage[step % 2][63 - i];
    __syncthreads();
  }
  out[i] = sum;
}
"""


def test_copies_are_visible_when_their_group_is_waited_for(launch) -> None:
    data = np.random.default_rng(0).standard_normal((3, 32)).astype(np.float32)
    out = np.zeros((3, 3, 32), np.float32)
    launch(ASYNC, "visible", data, out)
    assert np.isnan(out[0]).all()
    np.testing.assert_array_equal(out[1, :2], data[:2])
    assert np.isnan(out[1, 2]).all()
    np.testing.assert_array_equal(out[2], data)


@pytest.mark.parametrize("valid", [0, 9, 32])
def test_sizes_and_zeros(launch, valid: int) -> None:
    data = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    out = np.zeros(448, np.float32)
    launch(ASYNC, "sizes", data, out, valid, shared_bytes=448 * 4)
    kept = [np.where(np.arange(32 * width) < valid * width, data[: 32 * width], 0) for width in (1, 2, 4)]
    np.testing.assert_array_equal(out, np.concatenate([data[:32], data[:64], data, *kept]))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_pipeline_of_copies(launch, seed: int) -> None:
    data = np.random.default_rng(0).integers(-50, 50, (7, 64)).astype(np.float32)
    out = np.zeros(64, np.float32)
    launch(ASYNC, "pipeline", data, out, 7, block=(64,), seed=seed)
    np.testing.assert_array_equal(out, data.sum(0)[::-1])


FAULTS = r"""
extern "C" __global__ void from_global(unsigned* out) {
  ptx_ldmatrix_x1(out + 4 * threadIdx.x, out);
}
extern "C" __global__ void misaligned(float* out) {
  __shared__ __align__(16) float tile[64];
  ptx_cp_async_16(tile + threadIdx.x, out + 4 * threadIdx.x);
}
extern "C" __global__ void to_global(float* out) {
  ptx_cp_async_4(out, out + 1);
}
extern "C" __global__ void some_lanes(float* out) {
  unsigned a[2] = {0, 0}, b = 0;
  float c[4] = {0, 0, 0, 0};
  if (threadIdx.x != 7) ptx_mma_m16n8k8_f16_f16_f32(c, a, &b, c);
  out[threadIdx.x] = c[0];
}
"""


@pytest.mark.parametrize(
    "name, block, error, message",
    [
        (
            "from_global",
            32,
            TrapError,
            r"ptx_ldmatrix_x1\(\) in line 3: the address 0x\w+ is not in shared memory",
        ),
        (
            "misaligned",
            32,
            TrapError,
            r"thread \(1, 0, 0\): ptx_cp_async_16\(\) in line 7: the shared address \w+ is not aligned to 16",
        ),
        (
            "to_global",
            1,
            TrapError,
            r"ptx_cp_async_4\(\) in line 10: the address 0x\w+ is not in shared memory",
        ),
        (
            "some_lanes",
            32,
            BarrierError,
            r"31 threads wait at ptx_mma_m16n8k8_f16_f16_f32\(\) in line 15.*; 1 thread has ended",
        ),
        (
            "some_lanes",
            40,
            TrapError,
            r"ptx_mma_m16n8k8_f16_f16_f32\(\) in line 15 needs all 32 lanes of a warp",
        ),
    ],
)
def test_mistakes_with_matrices_and_copies(launch, name: str, block: int, error, message: str) -> None:
    dtype = np.uint32 if name == "from_global" else np.float32
    with pytest.raises(error, match=message):
        launch(FAULTS, name, np.zeros(256, dtype), block=(block,))


# ------------------------------------------------------------------------------- the same list for GPUs and for the CPU


def _names(text: str) -> list[str]:
    text = re.sub(r"//.*", "", text)
    named = re.findall(r"^(?:PTX|EMULATION)_\w+\((ptx_\w+)", text, re.M)
    named += re.findall(r"^(?:__device__ __forceinline__|inline)? ?(?:void|float) (ptx_\w+)\(", text, re.M)
    for size in re.findall(r"^(?:PTX|EMULATION)_CP_ASYNC\((\d+)", text, re.M):
        named += [f"ptx_cp_async_{size}", f"ptx_cp_async_{size}_zfill"]
    return sorted(named)


def test_the_cpu_has_the_functions_of_the_prelude() -> None:
    names = _names(PRELUDE)
    assert names == _names(EMULATED)
    assert len(names) == len(set(names)) == 29 + 12 + 6 + 3 + 1


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_is_the_one_that_the_name_says(name: str) -> None:
    shape, (m, n, k), a, b, c = _parts(name)
    assert (
        f'"mma.sync.aligned.{shape}.row.col.{c}.{a}.{b}.{c} ' in PRELUDE
        or f'"{shape}.row.col.{c}.{a}.{b}.{c}")' in PRELUDE
    )
    assert re.search(rf"EMULATION_MMA\({name}, {m}, {n}, {k}, ", EMULATED)
    if c != "f64":
        registers = f"A{m * k * _bits(a) // 1024}_B{k * n * _bits(b) // 1024}_{c.upper()}"
        assert f"PTX_MMA_{registers}({name}," in PRELUDE
