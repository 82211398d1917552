"""Products in axes and layouts of all kinds, as tensor expressions: dense layers, batches, convolutions, with and without an epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import te, tir, topi
from ir.tir import PrimFunc


def dense(
    shape: tuple[int, int, int] = (32, 48, 64),
    dtype: str = "float16",
    total: str = "float32",
    trans_a: bool = False,
    trans_b: bool = False,
    batch: Sequence[int] = (),
    has_epilogue: bool = False,
) -> PrimFunc:
    """``C[m, n] += A * B``, A as ``A[k, m]`` and B as ``B[n, k]`` if transposed; the epilogue is bias, relu, residual and a cast."""
    m, n, k = shape
    outer = tuple(batch)
    x = te.placeholder((*outer, *((k, m) if trans_a else (m, k))), dtype, "x")
    y = te.placeholder((*outer, *((n, k) if trans_b else (k, n))), dtype, "y")
    r = te.reduce_axis((0, k), "r")

    def term(*index: Any) -> Any:
        *b, i, j = index
        left = x[(*b, r, i) if trans_a else (*b, i, r)].astype(total)
        right = y[(*b, j, r) if trans_b else (*b, r, j)].astype(total)
        return te.sum(left * right, axis=r)

    z = te.compute((*outer, m, n), term, name="z")
    return _finished([x, y], z, -1, dtype, total, has_epilogue)


def convolution(
    layout: str = "NHWC",
    dtype: str = "float16",
    total: str = "float32",
    image: int = 6,
    channels: tuple[int, int] = (16, 16),
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    batch: int = 1,
    has_epilogue: bool = False,
) -> PrimFunc:
    """A convolution of a square image, channels first or last."""
    ci, co = channels
    is_last = layout == "NHWC"
    x = te.placeholder((batch, image, image, ci) if is_last else (batch, ci, image, image), dtype, "x")
    taps = (kernel, kernel, ci // groups, co) if is_last else (co, ci // groups, kernel, kernel)
    w = te.placeholder(taps, dtype, "w")
    found = topi.nn.conv(
        x, w, stride, kernel // 2, 1, groups, layout, "HWIO" if is_last else "OIHW", out_dtype=total
    )
    return _finished([x, w], found, 3 if is_last else 1, dtype, total, has_epilogue)


def transposed_convolution(dtype: str = "float16") -> PrimFunc:
    """Channels last, of stride 2, whose channels fill tiles."""
    x, w = te.placeholder((1, 4, 4, 16), dtype, "x"), te.placeholder((4, 4, 16, 16), dtype, "w")
    return te.create_prim_func([x, w, topi.nn.conv2d_transpose_nhwc(x, w, 2, 1)])


def norm(rows: int = 512, columns: int = 512) -> PrimFunc:
    """The norm of a matrix: one result of many elements."""
    a = te.placeholder((1, rows, columns), "float32", "A")
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")
    squares = te.compute((1,), lambda b: te.sum(a[b, i, j] * a[b, i, j], axis=[i, j]), name="C")
    return te.create_prim_func([a, te.compute((1,), lambda b: te.sqrt(squares[b]), name="D")])


def _finished(
    inputs: list[Any], z: Any, channel: int, dtype: str, total: str, has_epilogue: bool
) -> PrimFunc:
    if not has_epilogue:
        return te.create_prim_func([*inputs, z])
    bias = te.placeholder((z.shape[channel],), total, "bias")
    residual = te.placeholder(z.shape, dtype, "residual")
    biased = te.compute(z.shape, lambda *i: z[i] + bias[i[channel]], name="biased")
    clipped = te.compute(z.shape, lambda *i: tir.max(biased[i], tir.const(0, total)), name="clipped")
    summed = te.compute(z.shape, lambda *i: clipped[i] + residual[i].astype(total), name="summed")
    out = te.compute(z.shape, lambda *i: summed[i].astype(dtype), name="out")
    return te.create_prim_func([*inputs, bias, residual, out])
