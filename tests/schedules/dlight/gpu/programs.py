"""Functions of symbolic shapes, with what numpy computes for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import te, tir, topi
from ir.tir import PrimFunc

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Program:
    """A function whose inputs have symbolic extents.

    Attributes:
        func: of the inputs, then the output.
        shapes: of the inputs, given the value of the symbolic extent.
        reference: of the inputs.
    """

    func: PrimFunc
    shapes: Callable[[int], list[tuple[int, ...]]]
    reference: Callable[..., np.ndarray]

    def inputs(self, extent: int) -> Arrays:
        """Random arrays."""
        generator = np.random.default_rng(extent)
        return [generator.standard_normal(shape).astype("float32") for shape in self.shapes(extent)]


def _size(name: str = "n") -> Any:
    return tir.SizeVar(name, "int64")


def _long(*extents: Any) -> tuple[Any, ...]:
    return tuple(tir.IntImm("int64", item) if isinstance(item, int) else item for item in extents)


def _input(*extents: Any, name: str) -> Any:
    return te.placeholder(_long(*extents), "float32", name)


def matmul(transposed: bool = False, epilogue: bool = False) -> Program:
    """[n, 72] times [72, 80], whose second operand may be transposed, and whose result may be made positive."""
    n = _size()
    a = _input(n, 72, name="A")
    b = _input(80, 72, name="B") if transposed else _input(72, 80, name="B")
    bias = _input(80, name="bias")
    k = te.reduce_axis((tir.IntImm("int64", 0), tir.IntImm("int64", 72)), "k")
    c = te.compute(
        _long(n, 80),
        lambda i, j: te.sum(a[i, k] * (b[j, k] if transposed else b[k, j]), axis=k),
        name="C",
    )
    out = te.compute(c.shape, lambda i, j: tir.max(c[i, j] + bias[j], 0.0), name="D") if epilogue else c
    inputs = [a, b, bias] if epilogue else [a, b]

    def reference(x: np.ndarray, y: np.ndarray, *more: np.ndarray) -> np.ndarray:
        product = x @ (y.T if transposed else y)
        return np.maximum(product + more[0], 0) if more else product

    def shapes(extent: int) -> list[tuple[int, ...]]:
        return [(extent, 72), (80, 72) if transposed else (72, 80), (80,)][: len(inputs)]

    return Program(te.create_prim_func([*inputs, out]), shapes, reference)


def softmax(rows: bool = True) -> Program:
    """Of n rows of 50, or of 5 rows of n."""
    shape = (_size(), 50) if rows else (5, _size())
    x = _input(*shape, name="x")

    def reference(data: np.ndarray) -> np.ndarray:
        e = np.exp(data - data.max(1, keepdims=True))
        return np.asarray(e / e.sum(1, keepdims=True))

    return Program(
        te.create_prim_func([x, topi.nn.softmax(x)]),
        lambda extent: [(extent, 50) if rows else (5, extent)],
        reference,
    )


def scores_softmax(heads: bool = False) -> Program:
    """Of n queries by n keys, for each of 3 heads, or for each of n heads."""
    n = _size()
    x = _input(1, n if heads else 3, n, n, name="x")

    def reference(data: np.ndarray) -> np.ndarray:
        e = np.exp(data - data.max(3, keepdims=True))
        return np.asarray(e / e.sum(3, keepdims=True))

    return Program(
        te.create_prim_func([x, topi.nn.softmax(x)]),
        lambda extent: [(1, extent if heads else 3, extent, extent)],
        reference,
    )


def rms_norm() -> Program:
    """Of n rows of 96."""
    x, weight = _input(_size(), 96, name="x"), _input(96, name="weight")

    def reference(data: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return np.asarray(data / np.sqrt((data**2).mean(1, keepdims=True) + 1e-5) * scale)

    return Program(
        te.create_prim_func([x, weight, topi.nn.rms_norm(x, weight, [1])]),
        lambda extent: [(extent, 96), (96,)],
        reference,
    )


def gemv(rows: bool = True, few: int = 1) -> Program:
    """A matrix of n rows of 256, or of 12 rows of n, times one vector or a few."""
    n = _size()
    extents = (n, 256) if rows else (12, n)
    a, x = _input(*extents, name="A"), _input(few, extents[1], name="x")
    k = te.reduce_axis((tir.IntImm("int64", 0), _long(extents[1])[0]), "k")
    y = te.compute(_long(few, extents[0]), lambda b, i: te.sum(x[b, k] * a[i, k], axis=k), name="y")
    return Program(
        te.create_prim_func([a, x, y]),
        lambda extent: [(extent, 256), (few, 256)] if rows else [(12, extent), (few, extent)],
        lambda matrix, vectors: vectors @ matrix.T,
    )


def elementwise() -> Program:
    """Of n by 30 elements."""
    x = _input(_size(), 30, name="x")
    return Program(
        te.create_prim_func([x, te.compute(x.shape, lambda i, j: tir.exp(x[i, j]) + 1.0, name="y")]),
        lambda extent: [(extent, 30)],
        lambda data: np.exp(data) + 1,
    )


def transpose() -> Program:
    """Of n by 45 elements."""
    x = _input(_size(), 45, name="x")
    return Program(
        te.create_prim_func([x, te.compute((x.shape[1], x.shape[0]), lambda i, j: x[j, i], name="y")]),
        lambda extent: [(extent, 45)],
        lambda data: data.T,
    )


def column_sum() -> Program:
    """Of n rows of 40."""
    n = _size()
    x = _input(n, 40, name="x")
    k = te.reduce_axis((tir.IntImm("int64", 0), n), "k")
    return Program(
        te.create_prim_func([x, te.compute(_long(40), lambda j: te.sum(x[k, j], axis=k), name="y")]),
        lambda extent: [(extent, 40)],
        lambda data: data.sum(0),
    )


def group_convolution() -> Program:
    """Of n images, in two groups of two channels, with windows of 3 x 3."""
    data, weight = _input(_size(), 4, 5, 6, name="data"), _input(4, 2, 3, 3, name="weight")

    def reference(image: np.ndarray, taps: np.ndarray) -> np.ndarray:
        padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        groups = [np.einsum("nchwyx,ocyx->nohw", windows[:, at : at + 2], taps[at : at + 2]) for at in (0, 2)]
        return np.concatenate(groups, 1)

    return Program(
        te.create_prim_func([data, weight, topi.nn.group_conv2d_nchw(data, weight, 1, 1, 1, 2)]),
        lambda extent: [(extent, 4, 5, 6), (4, 2, 3, 3)],
        reference,
    )


def pool(kind: str, stride: int) -> Program:
    """Of two channels of n by n, with windows of 3 x 3 and a border of one element, which counts in means."""
    n = _size()
    data = _input(1, 2, n, n, name="data")
    out = topi.nn.pool2d(data, [3, 3], [stride, stride], [1, 1], [1, 1, 1, 1], kind, count_include_pad=True)

    def reference(image: np.ndarray) -> np.ndarray:
        border = -np.inf if kind == "max" else 0
        padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=border)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::stride, ::stride]
        return np.asarray(windows.max((4, 5)) if kind == "max" else windows.mean((4, 5)))

    return Program(te.create_prim_func([data, out]), lambda extent: [(1, 2, extent, extent)], reference)
