"""nvcuda::wmma of emulated kernels: fragments are loaded, multiplied and stored in all layouts, against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ir.codegen.cuda.emulation.compile import emulate
from ir.codegen.cuda.emulation.errors import BarrierError, KernelSourceError, TrapError

TYPES = {
    "half": ("half", "half", np.float16),
    "bf16": ("__nv_bfloat16", "__nv_bfloat16", ml_dtypes.bfloat16),
    "s8": ("signed char", "signed char", np.int8),
    "u8": ("unsigned char", "unsigned char", np.uint8),
    "tf32": ("wmma::precision::tf32", "float", np.float32),
    "f64": ("double", "double", np.float64),
}
ACCUMULATORS = {"float": np.float32, "half": np.float16, "int": np.int32, "double": np.float64}
CASES = [
    *(
        ("half", shape, acc)
        for shape in ((16, 16, 16), (32, 8, 16), (8, 32, 16))
        for acc in ("float", "half")
    ),
    *(("bf16", shape, "float") for shape in ((16, 16, 16), (32, 8, 16), (8, 32, 16))),
    *((kind, shape, "int") for kind in ("s8", "u8") for shape in ((16, 16, 16), (32, 8, 16), (8, 32, 16))),
    ("tf32", (16, 16, 8), "float"),
    ("f64", (8, 8, 4), "double"),
]


def _name(kind: str, shape: tuple[int, int, int], accumulator: str, a: str, b: str) -> str:
    return f"mma_{kind}_{'_'.join(map(str, shape))}_{accumulator}_{a}_{b}"


def _stride(columns: int, kind: str) -> int:
    """Rows start at multiples of 16 bytes."""
    per_16_bytes = 16 // np.dtype(TYPES[kind][2]).itemsize
    return -(-columns // per_16_bytes) * per_16_bytes


def _stored(matrix: np.ndarray, kind: str) -> np.ndarray:
    """In rows of the stride, with 1 in the gaps."""
    out = np.ones((matrix.shape[0], _stride(matrix.shape[1], kind)), matrix.dtype)
    out[:, : matrix.shape[1]] = matrix
    return out


def _kernel(kind: str, shape: tuple[int, int, int], accumulator: str, a: str, b: str) -> str:
    m, n, k = shape
    operand, storage, _ = TYPES[kind]
    dims = f"{m}, {n}, {k}"
    convert = (
        "  for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);\n"
        "  for (int i = 0; i < fb.num_elements; ++i) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);\n"
        if kind == "tf32"
        else ""
    )
    return f"""
extern "C" __global__ void {_name(kind, shape, accumulator, a, b)}(
    const {storage}* a, const {storage}* b, const {accumulator}* c, {accumulator}* d) {{
  wmma::fragment<wmma::matrix_a, {dims}, {operand}, wmma::{a}_major> fa;
  wmma::fragment<wmma::matrix_b, {dims}, {operand}, wmma::{b}_major> fb;
  wmma::fragment<wmma::accumulator, {dims}, {accumulator}> fc, fd;
  wmma::load_matrix_sync(fa, a, {_stride(k if a == "row" else m, kind)});
  wmma::load_matrix_sync(fb, b, {_stride(n if b == "row" else k, kind)});
  wmma::load_matrix_sync(fc, c, {n}, wmma::mem_row_major);
{convert}  wmma::mma_sync(fd, fa, fb, fc);
  for (int i = 0; i < fd.num_elements; ++i) fd.x[i] = fd.x[i] + fd.x[i];
  wmma::store_matrix_sync(d, fd, {m}, wmma::mem_col_major);
}}
"""


LAYOUTS = [("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")]
SOURCE = (
    "#include <mma.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda;\n"
    + "".join(_kernel(*case, *layout) for case in CASES for layout in LAYOUTS)
)


@pytest.mark.parametrize("a_layout, b_layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)).replace(" ", ""))
def test_products(launch, case, a_layout: str, b_layout: str) -> None:
    kind, (m, n, k), accumulator = case
    dtype, sum_dtype = TYPES[kind][2], ACCUMULATORS[accumulator]
    rng = np.random.default_rng(m + n)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max + 1, shape).astype(dtype) for shape in ((m, k), (k, n)))
        c = rng.integers(-100, 100, (m, n)).astype(sum_dtype)
    else:
        a, b = (rng.integers(-32, 33, shape).astype(dtype) for shape in ((m, k), (k, n)))
        c = rng.integers(-32, 33, (m, n)).astype(sum_dtype)
    stored_a = _stored(a if a_layout == "row" else a.T, kind)
    stored_b = _stored(b if b_layout == "row" else b.T, kind)
    d = np.zeros((n, m), sum_dtype)
    launch(SOURCE, _name(*case, a_layout, b_layout), stored_a, stored_b, c, d)
    product = (a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)).astype(sum_dtype)
    np.testing.assert_array_equal(d.T, product + product)


TILES = r"""
#include <mma.h>
using namespace nvcuda;
// C = A * B with 64 by 64 by 64, four warps of 32 by 32 each, through shared memory that is wider than a tile.
extern "C" __global__ void __launch_bounds__(128) tiled(const half* a, const half* b, float* c) {
  __shared__ __align__(32) half tile_a[64 * 24];
  __shared__ __align__(32) half tile_b[16 * 72];
  int warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
  for (int k = 0; k < 64; k += 16) {
    for (int i = threadIdx.x; i < 64 * 16; i += 128) {
      tile_a[i / 16 * 24 + i % 16] = a[i / 16 * 64 + k + i % 16];
      tile_b[i / 64 * 72 + i % 64] = b[(k + i / 64) * 64 + i % 64];
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
    for (int i = 0; i < 2; ++i) {
      wmma::load_matrix_sync(fa[i], tile_a + (row + 16 * i) * 24, 24);
      wmma::load_matrix_sync(fb[i], tile_b + column + 16 * i, 72);
    }
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], fa[i], fb[j], sums[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(c + (row + 16 * i) * 64 + column + 16 * j, sums[i][j], 64, wmma::mem_row_major);
}
extern "C" __global__ void half_a_warp(const half* a) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  if (threadIdx.x < 16) wmma::load_matrix_sync(fa, a, 16);
}
extern "C" __global__ void odd_stride(const half* a) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::load_matrix_sync(fa, a, 20);
}
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tiled_product(launch, seed: int) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    launch(TILES, "tiled", a, b, c, block=(128,), seed=seed)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_mistakes(launch) -> None:
    data = np.zeros((16, 20), np.float16)
    with pytest.raises(
        BarrierError, match=r"16 threads wait at wmma::load_matrix_sync\(\) in line 34.*16 threads have ended"
    ):
        launch(TILES, "half_a_warp", data)
    with pytest.raises(TrapError, match="a stride of 20 elements is no multiple of 16 bytes"):
        launch(TILES, "odd_stride", data)
    source = (
        "#include <mma.h>\nusing namespace nvcuda;\n"
        'extern "C" __global__ void k() { wmma::fragment<wmma::matrix_a, 16, 16, 8, half, wmma::row_major> f; }\n'
    )
    with pytest.raises(KernelSourceError, match="wmma has no fragment of this shape, type and layout"):
        emulate(source, ["k"])
