"""Kernels written as tensor expressions, by size: what searches, rules and whole compilations are tried on."""

from __future__ import annotations

from typing import Any

from ir import te, tir, topi
from ir.tir import PrimFunc


def elementwise(n: int = 16, m: int = 32) -> PrimFunc:
    """Two elementwise blocks, of which the first may go into the second."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + 1.0, name="C")
    return te.create_prim_func([a, c])


def row_sum(n: int = 2, m: int = 8192) -> PrimFunc:
    """A long reduction with few outputs: parallel only if it is factored."""
    a = te.placeholder((n, m), name="A")
    r = te.reduce_axis((0, m), name="r")
    b = te.compute((n,), lambda i: te.sum(a[i, r], axis=r), name="B")
    return te.create_prim_func([a, b])


def _product(n: int, m: int, depth: int) -> tuple[Any, Any, Any]:
    a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")


def matmul(n: int = 64) -> PrimFunc:
    """A product of square matrices with nothing behind it: one block ``C`` with a reduction over ``k``."""
    return te.create_prim_func(list(_product(n, n, n)))


def matmul_bias(n: int = 8, m: int = 32, depth: int = 8) -> PrimFunc:
    """A product with an addition of a vector behind it, in a block ``D``: an epilogue that tiles may take along."""
    a, b, c = _product(n, m, depth)
    bias = te.placeholder((m,), name="bias")
    d = te.compute((n, m), lambda i, j: c[i, j] + bias[j], name="D")
    return te.create_prim_func([a, b, bias, d])


def matmul_relu(n: int, m: int, depth: int) -> PrimFunc:
    """A product with ``max(x, 0)`` behind it, in a block ``D``: an epilogue that reads nothing else."""
    a, b, c = _product(n, m, depth)
    d = te.compute((n, m), lambda i, j: tir.max(c[i, j], tir.const(0.0, "float32")), name="D")
    return te.create_prim_func([a, b, d])


def softmax(n: int = 8, m: int = 64) -> PrimFunc:
    """Two reductions and two elementwise blocks (``M``, ``E``, ``S``, ``D``): several nests that depend on each other."""
    a = te.placeholder((n, m), name="A")
    k, q = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="q")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="M")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="E")
    s = te.compute((n,), lambda i: te.sum(e[i, q], axis=q), name="S")
    return te.create_prim_func([a, te.compute((n, m), lambda i, j: e[i, j] / s[i], name="D")])


def convolution(size: int, in_channels: int, out_channels: int, stride: int) -> PrimFunc:
    """A convolution of 3 by 3 with its padding in a block ``pad``, which may be computed where it is needed."""
    a = te.placeholder((size, size, in_channels), name="A")
    w = te.placeholder((3, 3, in_channels, out_channels), name="W")
    padded = te.compute(
        (size + 2, size + 2, in_channels),
        lambda y, x, c: tir.if_then_else(
            tir.all(y >= 1, y < size + 1, x >= 1, x < size + 1),
            a[y - 1, x - 1, c],
            tir.const(0.0, "float32"),
        ),
        name="pad",
    )
    r, s = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "s")
    c = te.reduce_axis((0, in_channels), "c")
    extent = (size - 1) // stride + 1
    result = te.compute(
        (extent, extent, out_channels),
        lambda y, x, f: te.sum(padded[y * stride + r, x * stride + s, c] * w[r, s, c, f], axis=[r, s, c]),
        name="C",
    )
    return te.create_prim_func([a, w, result])


def conv2d(size: int = 14, channels: int = 32) -> PrimFunc:
    """The library's convolution of 3 by 3 with channels last, as models have it: four loops around three."""
    data = te.placeholder((1, size, size, channels), name="data")
    kernel = te.placeholder((3, 3, channels, channels), name="kernel")
    return te.create_prim_func([data, kernel, topi.nn.conv2d_nhwc(data, kernel, 1, 1, 1)])


def grouped_conv2d() -> PrimFunc:
    """The library's convolution in four groups: indices with quotients of loop variables."""
    data = te.placeholder((1, 14, 14, 32), name="data")
    kernel = te.placeholder((3, 3, 8, 32), name="kernel")
    return te.create_prim_func([data, kernel, topi.nn.group_conv2d_nhwc(data, kernel, 1, 1, 1, 4)])


def library_softmax(n: int = 64) -> PrimFunc:
    """The library's softmax, as models have it: reductions whose results are read again."""
    data = te.placeholder((n, n), name="data")
    return te.create_prim_func([data, topi.nn.softmax(data)])
