# ruff: noqa: E501  scripts have long calls
"""Kernels of one or more warps that multiply matrices with tensor cores, as scripts."""

from __future__ import annotations

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.script import from_source

WMMA = """@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, {a_shape}, "{dtype}")
    B = T.match_buffer(b, {b_shape}, "{dtype}")
    C = T.match_buffer(c, ({m2}, {n2}), "{total}")
    bx = T.launch_thread("blockIdx.x", 2)
    ty = T.launch_thread("threadIdx.y", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    af = T.allocate([{a_size}], "{dtype}", "wmma.matrix_a")
    bf = T.allocate([{b_size}], "{dtype}", "wmma.matrix_b")
    cf = T.allocate([{c_size}], "{total}", "wmma.accumulator")
    T.evaluate(T.tvm_fill_fragment(cf, {mnk}, 0, T.Cast("{total}", 0)))
    for s in range(3):
        T.evaluate(T.tvm_load_matrix_sync(af, {mnk}, 0, T.tvm_access_ptr(T.type_annotation("{dtype}"), A.data, {a_at}, {a_size}, 1), {a_step}, "{a_layout}"))
        T.evaluate(T.tvm_load_matrix_sync(bf, {mnk}, 0, T.tvm_access_ptr(T.type_annotation("{dtype}"), B.data, {b_at}, {b_size}, 1), {b_step}, "{b_layout}"))
        T.evaluate(T.tvm_mma_sync(cf, 0, af, 0, bf, 0, cf, 0))
    T.evaluate(T.tvm_store_matrix_sync(cf, {mnk}, 0, T.tvm_access_ptr(T.type_annotation("{total}"), C.data, bx * {m} * {n2} + ty * {n}, {c_size}, 2), {n2}, "row_major"))
"""


def wmma_product(
    shape: tuple[int, int, int], dtype: str, total: str, columns: tuple[bool, bool] = (False, False)
) -> tir.PrimFunc:
    """Two by two tiles of results, three steps of the sum; ``columns``: whether the operands are stored by columns."""
    m, n, k = shape
    inner = 3 * k
    of_a, of_b = columns
    return from_source(
        WMMA.format(
            m=m, n=n, k=k, mnk=f"{m}, {n}, {k}", dtype=dtype, total=total,
            m2=2 * m, n2=2 * n, a_size=m * k, b_size=k * n, c_size=m * n,
            a_shape=(inner, 2 * m) if of_a else (2 * m, inner),
            b_shape=(2 * n, inner) if of_b else (inner, 2 * n),
            a_at=f"s * {k * 2 * m} + bx * {m}" if of_a else f"bx * {m * inner} + s * {k}",
            b_at=f"ty * {n * inner} + s * {k}" if of_b else f"s * {k * 2 * n} + ty * {n}",
            a_step=2 * m if of_a else inner, b_step=inner if of_b else 2 * n,
            a_layout="col_major" if of_a else "row_major", b_layout="col_major" if of_b else "row_major",
        )
    )  # fmt: skip


MMA = """@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, ({m}, {k}), "{a}")
    B = T.match_buffer(b, ({k}, {n}), "{b}")
    C = T.match_buffer(c, ({m}, {n}), "{total}")
    tx = T.launch_thread("threadIdx.x", 32)
    left = T.decl_buffer(({a_count},), "{a}", scope="local")
    right = T.decl_buffer(({b_count},), "{b}", scope="local")
    sums = T.decl_buffer(({c_count},), "{total}", scope="local")
    for i in range({a_count}):
        left[i] = A[tx // 4 + i // {pa} % 2 * 8, tx % 4 * {pa} + i % {pa} + i // {pa} // 2 * {pa4}]
    for i in range({b_count}):
        right[i] = B[tx % 4 * {pb} + i % {pb} + i // {pb} * {pb4}, tx // 4]
    T.evaluate(T.mma_fill("{total}", {c_count}, sums.data, 0))
    for s in range(2):
        T.evaluate(T.ptx_mma("{total}", "{shape}", "row", "col", "{ptx_a}", "{ptx_b}", "{ptx_c}", left.data, 0, right.data, 0, sums.data, 0, False))
    T.evaluate(T.mma_store("{total}", {m}, {n}, T.tvm_access_ptr(T.type_annotation("{total}"), C.data, 0, {mn}, 2), sums.data, 0, {n}))
"""


def mma_product(
    shape: tuple[int, int, int], types: tuple[str, str, str], dtypes: tuple[str, str, str]
) -> tir.PrimFunc:
    """Twice the product of two matrices, by one warp."""
    m, n, k = shape
    pa, pb = (max(1, 32 // dt.bits(dtype)) for dtype in dtypes[:2])
    return from_source(
        MMA.format(
            m=m, n=n, k=k, mn=m * n, a=dtypes[0], b=dtypes[1], total=dtypes[2], shape=f"m{m}n{n}k{k}",
            a_count=m * k // 32, b_count=n * k // 32, c_count=m * n // 32, pa=pa, pb=pb, pa4=4 * pa, pb4=4 * pb,
            ptx_a=types[0], ptx_b=types[1], ptx_c=types[2],
        )
    )  # fmt: skip


LDMATRIX = """@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (16, 16), "float16")
    B = T.match_buffer(b, (16, 8), "float16")
    C = T.match_buffer(c, (16, 8), "float32")
    tx = T.launch_thread("threadIdx.x", 32)
    in_a = T.decl_buffer((256,), "float16", scope="shared")
    in_b = T.decl_buffer((128,), "float16", scope="shared")
    left = T.decl_buffer((8,), "float16", scope="local")
    right = T.decl_buffer((4,), "float16", scope="local")
    sums = T.decl_buffer((4,), "float32", scope="local")
    for i in range(8):
        in_a[tx * 8 + i] = A[tx // 2, tx % 2 * 8 + i]
    for i in range(4):
        in_b[tx * 4 + i] = B[tx // 2, tx % 2 * 4 + i]
    T.evaluate(T.tvm_storage_sync("shared"))
    T.evaluate(T.ptx_ldmatrix("float16", False, 4, ".b16", left.data, 0, in_a.data, tx % 16 * 16 + tx // 16 * 8))
    T.evaluate(T.ptx_ldmatrix("float16", True, 2, ".b16", right.data, 0, in_b.data, tx % 16 * 8))
    T.evaluate(T.mma_fill("float32", 4, sums.data, 0))
    T.evaluate(T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", left.data, 0, right.data, 0, sums.data, 0, False))
    T.evaluate(T.mma_store("float32", 16, 8, T.tvm_access_ptr(T.type_annotation("float32"), C.data, 0, 128, 2), sums.data, 0, 8))
"""
STMATRIX = """@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (16, 16), "float16")
    B = T.match_buffer(b, (16, 16), "float16")
    tx = T.launch_thread("threadIdx.x", 32)
    memory = T.decl_buffer((256,), "float16", scope="shared")
    held = T.decl_buffer((8,), "float16", scope="local")
    for i in range(8):
        held[i] = A[tx // 4 + i // 2 % 2 * 8, tx % 4 * 2 + i % 2 + i // 4 * 8]
    T.evaluate(T.ptx_stmatrix("float16", {trans}, 4, ".b16", memory.data, {row}, held.data, 0))
    T.evaluate(T.tvm_storage_sync("shared"))
    for i in range(8):
        B[tx // 2, tx % 2 * 8 + i] = memory[tx * 8 + i]
"""


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Random numbers of a dtype."""
    generator = np.random.default_rng(seed)
    if dt.is_integral(dtype):
        low, high = dt.integer_range(dtype)
        return generator.integers(low, high, shape, endpoint=True).astype(dt.to_numpy(dtype))
    return generator.standard_normal(shape).astype(dt.to_numpy(dtype))
