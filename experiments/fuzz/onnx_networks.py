"""The templates of random ONNX models for what networks are made of: products, convolutions, pools, norms, resizes, quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from .onnx_models import Graph, Value
from .onnx_templates import finite, template, without_nan


@template(4)
def product(g: Graph) -> None:
    x = g.pick(
        lambda v: v.rank >= 1 and v.dtype in ("float32", "float64", "float16", "int32"),
        lambda v: v.bound <= 64,
    )
    inner, columns = x.shape[-1], g.rng.choice([1, 1, 2, 3, 5, 8, 17, 0])
    shape = [inner, columns] if g.rng.random() < 0.8 or x.rank < 3 else [*x.shape[:-2], inner, columns]
    if g.rng.random() < 0.1:
        shape = [inner]
    y = g.given(x.dtype, shape, small=True)
    result = np.matmul(np.empty(x.shape), np.empty(shape)).shape
    g.node("MatMul", [x, y], x.dtype, result, bound=max(1, inner) * x.bound * 4)


@template(2)
def gemm(g: Graph) -> None:
    x = g.pick(lambda v: v.rank == 2 and v.dtype in ("float32", "float64"), lambda v: v.bound <= 64)
    ta, tb = g.rng.randint(0, 1), g.rng.randint(0, 1)
    rows, inner = x.shape[::-1] if ta else x.shape
    columns = g.rng.choice([1, 2, 3, 4, 9])
    y = g.given(x.dtype, [columns, inner] if tb else [inner, columns], small=True)
    operands: list[Any] = [x, y]
    if g.rng.random() < 0.6:
        operands.append(
            g.given(x.dtype, g.rng.choice([[columns], [rows, columns], [1], [rows, 1]]), small=True)
        )
    attrs: dict[str, Any] = {
        "transA": ta,
        "transB": tb,
        "alpha": g.rng.choice([1.0, 0.5, 2.0]),
        "beta": g.rng.choice([1.0, 2.0]),
    }
    g.node("Gemm", operands, x.dtype, [rows, columns], bound=2 * max(1, inner) * x.bound * 8, **attrs)


def _image(g: Graph, dim: int) -> Value:
    fits = [v for v in g.values if v.rank == dim + 2 and v.dtype == "float32" and v.size and v.bound <= 64]
    if fits and g.rng.random() < 0.6:
        return g.rng.choice(fits)
    shape = [g.rng.randint(1, 2), g.rng.choice([1, 2, 3, 4, 6]), *[g.rng.randint(3, 8) for _ in range(dim)]]
    return g.given("float32", shape, edges=g.rng.random() < 0.3)


@template(3)
def convolution(g: Graph) -> None:
    dim = g.rng.choice([1, 2, 2])
    x = _image(g, dim)
    channels = x.shape[1]
    group = g.rng.choice([1, 1, *[n for n in (2, 3, channels) if channels % n == 0]])
    filters = group * g.rng.randint(1, 3)
    kernel = [g.rng.randint(1, min(3, extent)) for extent in x.shape[2:]]
    strides = [g.rng.randint(1, 2) for _ in kernel]
    pads = [g.rng.randint(0, 1) for _ in range(2 * dim)]
    w = g.given("float32", [filters, channels // group, *kernel], small=True)
    operands: list[Any] = [x, w]
    if g.rng.random() < 0.5:
        operands.append(g.given("float32", [filters], small=True))
    outs = [
        (extent + pads[n] + pads[n + dim] - kernel[n]) // strides[n] + 1
        for n, extent in enumerate(x.shape[2:])
    ]
    bound = x.bound * 4 * channels * np.prod(kernel) + 4
    g.node(
        "Conv", operands, "float32", [x.shape[0], filters, *outs], bound=float(bound),
        kernel_shape=kernel, strides=strides, pads=pads, group=group,
    )  # fmt: skip


@template()
def transposed_convolution(g: Graph) -> None:
    dim = g.rng.choice([1, 2])
    x = _image(g, dim)
    filters = g.rng.randint(1, 3)
    kernel = [g.rng.randint(1, 3) for _ in range(dim)]
    strides = [g.rng.randint(1, 2) for _ in kernel]
    w = g.given("float32", [x.shape[1], filters, *kernel], small=True)
    outs = [(extent - 1) * s + k for extent, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    bound = float(x.bound * 4 * x.shape[1] * np.prod(kernel))
    g.node("ConvTranspose", [x, w], "float32", [x.shape[0], filters, *outs], bound=bound, strides=strides)


@template(2)
def pooling(g: Graph) -> None:
    x = _image(g, g.rng.choice([1, 2, 2]))
    op = g.rng.choice(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    if "Max" in op:
        x = without_nan(g, x)  # which ONNX Runtime drops, unlike numpy and PyTorch
    if op.startswith("Global"):
        shape = [*x.shape[:2], *[1] * (x.rank - 2)]
        g.node(op, [x], "float32", shape, exact=op == "GlobalMaxPool", bound=x.bound)
        return
    kernel = [g.rng.randint(1, min(3, extent)) for extent in x.shape[2:]]
    strides = [g.rng.randint(1, 2) for _ in kernel]
    outs = [(extent - k) // s + 1 for extent, k, s in zip(x.shape[2:], kernel, strides, strict=True)]
    exact = op == "MaxPool"
    g.node(op, [x], "float32", [*x.shape[:2], *outs], exact, x.bound, kernel_shape=kernel, strides=strides)


@template(2)
def normalization(g: Graph) -> None:
    op = g.rng.choice(
        ["Softmax", "LogSoftmax", "LayerNormalization", "BatchNormalization", "InstanceNormalization"]
    )
    if op in ("Softmax", "LogSoftmax"):
        x = g.pick(lambda v: v.dtype in ("float32", "float64") and v.rank > 0 and v.bound <= 64)
        g.node(op, [x], x.dtype, x.shape, exact=False, bound=64, axis=g.axis(x))
        return
    x = _image(g, g.rng.choice([1, 2]))
    if op == "LayerNormalization":
        axis = g.axis(x)
        scale = g.given("float32", x.shape[axis % x.rank :], small=True)
        g.node(op, [x, scale], "float32", x.shape, exact=False, bound=64, axis=axis)
        return
    vectors = [g.given("float32", [x.shape[1]], small=True) for _ in range(3)]
    if op == "InstanceNormalization":
        g.node(op, [x, *vectors[:2]], "float32", x.shape, exact=False, bound=64)
        return
    variance = g.weight(np.array([g.rng.choice([0.25, 1, 4]) for _ in range(x.shape[1])]), "float32")
    g.node(op, [x, *vectors, variance], "float32", x.shape, exact=False, bound=128)


@template()
def resize(g: Graph) -> None:
    x = _image(g, g.rng.choice([1, 2]))
    sizes = [*x.shape[:2], *[g.rng.randint(1, 9) for _ in x.shape[2:]]]
    mode = g.rng.choice(["nearest", "nearest", "linear"])
    attrs: dict[str, Any] = {"mode": mode}
    attrs["coordinate_transformation_mode"] = g.rng.choice(
        ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    )
    if mode == "nearest":
        # Other roundings, and places that are halves or whole up to float error, are a matter of taste of implementations.
        attrs["nearest_mode"] = g.rng.choice(["floor", "round_prefer_floor"])
        sizes[2:] = [extent * g.rng.randint(1, 3) for extent in x.shape[2:]]
    else:
        x = finite(
            g, x
        )  # runtimes multiply different neighbours by 0 where an element is hit: rule [op-weight]
    g.node(
        "Resize",
        [x, "", "", g.weight(sizes)],
        "float32",
        sizes,
        exact=mode == "nearest",
        bound=x.bound,
        **attrs,
    )


@template()
def quantization(g: Graph) -> None:
    x = g.pick(lambda v: v.dtype == "float32" and v.exact and v.bound <= 64)
    x = without_nan(g, x)  # what NaN is as an integer, ONNX leaves open
    kind = g.rng.choice(["uint8", "int8"])
    scale, point = g.weight(g.rng.choice([0.5, 1.0, 2.0]), "float32"), g.weight(g.rng.randint(0, 5), kind)
    small = g.node("QuantizeLinear", [x, scale, point], kind, x.shape, bound=255)
    if g.rng.random() < 0.7:
        g.node("DequantizeLinear", [small, scale, point], "float32", x.shape, bound=512)
