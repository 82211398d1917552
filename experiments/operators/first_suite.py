"""The first suite: thirteen operators that papers on tensor compilers report on.

Shapes list their parameters as the suite's page does: convolutions (N, spatial..., CI, CO, K, stride, padding
[, dilation[, groups]]) in channel-last layouts, the others as :data:`WORKLOADS` says. Weights that a model holds as
constants are layout-free placeholders, whose layout a schedule may choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Shape, Workload, in_float64, table


def _window(extent: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    return (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


# ---- convolutions -----------------------------------------------------------------------------------------------

_LAYOUTS = {1: ("NWC", "WIO"), 2: ("NHWC", "HWIO"), 3: ("NDHWC", "DHWIO")}


def _split(shape: Shape, dim: int) -> tuple[int, list[int], int, int, int, int, int, int, int]:
    """(N, spatial, CI, CO, K, stride, padding, dilation, groups) of a convolution's numbers."""
    n, *rest = shape
    spatial, numbers = list(rest[:dim]), list(rest[dim:])
    ci, co, k, stride, padding = numbers[:5]
    dilation = numbers[5] if len(numbers) > 5 else 1
    groups = numbers[6] if len(numbers) > 6 else 1
    return n, spatial, ci, co, k, stride, padding, dilation, groups


def _conv(dim: int) -> Callable[..., list[Any]]:
    def build(lang: Language, *shape: int) -> list[Any]:
        n, spatial, ci, co, k, stride, padding, dilation, groups = _split(shape, dim)
        data = lang.te.placeholder((n, *spatial, ci), "float32", name="data")
        kernel = lang.te.placeholder((*[k] * dim, ci // groups, co), "float32", name="kernel")
        layout, kernel_layout = _LAYOUTS[dim]
        out = lang.topi.nn.conv(
            data, kernel, stride, padding, dilation, groups, layout, kernel_layout,
            auto_scheduler_should_rewrite_layout=True,
        )  # fmt: skip
        return [data, kernel, out]

    return build


def _conv_reference(dim: int) -> Callable[..., Array]:
    def reference(arrays: Sequence[Array], *shape: int) -> Array:
        _, spatial, ci, co, k, stride, padding, dilation, groups = _split(shape, dim)
        data, kernel = (item.astype("float64") for item in arrays[:2])
        data = np.pad(data, [(0, 0), *[(padding, padding)] * dim, (0, 0)])
        outs = [_window(extent, k, stride, padding, dilation) for extent in spatial]
        result = np.zeros((data.shape[0], *outs, co))
        for tap in np.ndindex(*[k] * dim):
            rows = tuple(
                slice(t * dilation, t * dilation + (out - 1) * stride + 1, stride)
                for t, out in zip(tap, outs, strict=True)
            )
            patch = data[(slice(None), *rows)]
            for g in range(groups):
                into, out_of = ci // groups, co // groups
                part = patch[..., g * into : (g + 1) * into]
                result[..., g * out_of : (g + 1) * out_of] += (
                    part @ kernel[tap][:, g * out_of : (g + 1) * out_of]
                )
        return result

    return reference


def _conv_flops(dim: int) -> Callable[..., int]:
    def flops(*shape: int) -> int:
        n, spatial, ci, co, k, stride, padding, dilation, groups = _split(shape, dim)
        outs = [_window(extent, k, stride, padding, dilation) for extent in spatial]
        return int(2 * n * np.prod(outs) * co * (ci // groups) * k**dim)

    return flops


def _depthwise(
    lang: Language, n: int, h: int, w: int, c: int, k: int, stride: int, padding: int, factor: int = 1
) -> list[Any]:
    data = lang.te.placeholder((n, h, w, c), "float32", name="data")
    kernel = lang.te.placeholder((k, k, c, factor), "float32", name="kernel")
    out = lang.topi.nn.depthwise_conv2d_nhwc(data, kernel, stride, padding, 1)
    return [data, kernel, out]


def _depthwise_reference(
    arrays: Sequence[Array],
    n: int,
    h: int,
    w: int,
    c: int,
    k: int,
    stride: int,
    padding: int,
    factor: int = 1,
) -> Array:
    data, kernel = (item.astype("float64") for item in arrays[:2])
    data = np.pad(data, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    oh, ow = _window(h, k, stride, padding), _window(w, k, stride, padding)
    result = np.zeros((n, oh, ow, c, factor))
    for y, x in np.ndindex(k, k):
        patch = data[:, y : y + (oh - 1) * stride + 1 : stride, x : x + (ow - 1) * stride + 1 : stride]
        result += patch[..., None] * kernel[y, x]
    return result.reshape(n, oh, ow, c * factor)


def _depthwise_flops(
    n: int, h: int, w: int, c: int, k: int, stride: int, padding: int, factor: int = 1
) -> int:
    return 2 * n * _window(h, k, stride, padding) * _window(w, k, stride, padding) * c * factor * k * k


def _transposed(
    lang: Language, n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, padding: int
) -> list[Any]:
    data = lang.te.placeholder((n, h, w, ci), "float32", name="data")
    kernel = lang.te.placeholder((k, k, ci, co), "float32", name="kernel")
    if hasattr(lang.topi.nn, "conv2d_transpose_nhwc"):
        return [data, kernel, lang.topi.nn.conv2d_transpose_nhwc(data, kernel, stride, padding)]
    # by the definition: a convolution with the flipped kernel over the input spread out and padded
    spread = lang.topi.nn.dilate(data, (1, stride, stride, 1))
    edge = k - 1 - padding
    padded = lang.topi.nn.pad(spread, [0, edge, edge, 0])
    rh, rw, rc = (
        lang.te.reduce_axis((0, extent), name) for extent, name in ((k, "rh"), (k, "rw"), (ci, "rc"))
    )
    out = lang.te.compute(
        (n, (h - 1) * stride + k - 2 * padding, (w - 1) * stride + k - 2 * padding, co),
        lambda b, y, x, f: lang.te.sum(
            padded[b, y + rh, x + rw, rc] * kernel[k - 1 - rh, k - 1 - rw, rc, f], axis=[rh, rw, rc]
        ),
        name="conv2d_transpose_nhwc",
    )
    return [data, kernel, out]


def _transposed_reference(
    arrays: Sequence[Array], n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, padding: int
) -> Array:
    data, kernel = (item.astype("float64") for item in arrays[:2])
    full = np.zeros((n, (h - 1) * stride + k, (w - 1) * stride + k, co))
    for y, x in np.ndindex(k, k):
        full[:, y : y + (h - 1) * stride + 1 : stride, x : x + (w - 1) * stride + 1 : stride] += (
            data @ kernel[y, x]
        )
    return full[:, padding : full.shape[1] - padding, padding : full.shape[2] - padding]


def _transposed_flops(n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, padding: int) -> int:
    return 2 * n * h * w * ci * co * k * k


def _capsule(
    lang: Language,
    n: int,
    h: int,
    w: int,
    ci: int,
    co: int,
    k: int,
    stride: int,
    padding: int,
    capsule: int = 4,
) -> list[Any]:
    data = lang.te.placeholder((n, h, w, capsule, capsule, ci), "float32", name="data")
    kernel = lang.te.placeholder((k, k, capsule, capsule, ci, co), "float32", name="kernel")
    padded = lang.topi.nn.pad(data, [0, padding, padding, 0, 0, 0], name="pad_temp")
    rh, rw = lang.te.reduce_axis((0, k), "rh"), lang.te.reduce_axis((0, k), "rw")
    cap, rc = lang.te.reduce_axis((0, capsule), "cap"), lang.te.reduce_axis((0, ci), "rc")
    out = lang.te.compute(
        (n, _window(h, k, stride, padding), _window(w, k, stride, padding), capsule, capsule, co),
        lambda nn, yy, xx, ci_, cj, ff: lang.te.sum(
            padded[nn, yy * stride + rh, xx * stride + rw, ci_, cap, rc] * kernel[rh, rw, cap, cj, rc, ff],
            axis=[rh, rw, cap, rc],
        ),
        name="conv2d_capsule_nhwijc",
        attrs={"layout_free_placeholders": [kernel]},
    )
    return [data, kernel, out]


def _capsule_reference(
    arrays: Sequence[Array],
    n: int,
    h: int,
    w: int,
    ci: int,
    co: int,
    k: int,
    stride: int,
    padding: int,
    capsule: int = 4,
) -> Array:
    data, kernel = (item.astype("float64") for item in arrays[:2])
    data = np.pad(data, [(0, 0), (padding, padding), (padding, padding), (0, 0), (0, 0), (0, 0)])
    oh, ow = _window(h, k, stride, padding), _window(w, k, stride, padding)
    result = np.zeros((n, oh, ow, capsule, capsule, co))
    for y, x in np.ndindex(k, k):
        patch = data[:, y : y + (oh - 1) * stride + 1 : stride, x : x + (ow - 1) * stride + 1 : stride]
        result += np.einsum("nhwikc,kjco->nhwijo", patch, kernel[y, x], optimize=True)
    return result


def _capsule_flops(
    n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, padding: int, capsule: int = 4
) -> int:
    outs = _window(h, k, stride, padding) * _window(w, k, stride, padding)
    return 2 * n * outs * capsule**3 * ci * co * k * k


def _conv_bn_relu(lang: Language, *shape: int) -> list[Any]:
    data, kernel, conv = _conv(2)(lang, *shape)
    channels = conv.shape[-1]
    bias, scale, offset = (
        lang.te.placeholder((channels,), "float32", name=name) for name in ("bias", "bn_scale", "bn_offset")
    )
    biased = lang.te.compute(conv.shape, lambda n, h, w, c: conv[n, h, w, c] + bias[c], name="bias_add")
    scaled = lang.te.compute(conv.shape, lambda n, h, w, c: biased[n, h, w, c] * scale[c], name="bn_mul")
    moved = lang.te.compute(conv.shape, lambda n, h, w, c: scaled[n, h, w, c] + offset[c], name="bn_add")
    return [data, kernel, bias, scale, offset, lang.topi.nn.relu(moved)]


def _conv_bn_relu_reference(arrays: Sequence[Array], *shape: int) -> Array:
    bias, scale, offset = (item.astype("float64") for item in arrays[2:5])
    return np.maximum((_conv_reference(2)(arrays, *shape) + bias) * scale + offset, 0)


# ---- matrix products, reductions --------------------------------------------------------------------------------


def batch_matmul(lang: Language, b: int, n: int, m: int, k: int) -> list[Any]:
    """Products of matrices of activations."""
    x = lang.te.placeholder((b, n, k), "float32", name="X")
    y = lang.te.placeholder((b, k, m), "float32", name="Y")
    r = lang.te.reduce_axis((0, k), "k")
    z = lang.te.compute((b, n, m), lambda b, i, j: lang.te.sum(x[b, i, r] * y[b, r, j], axis=r), name="Z")
    return [x, y, z]


def _transpose_batch_matmul(lang: Language, batch: int, seq: int, heads: int, dim: int) -> list[Any]:
    query = lang.te.placeholder((batch, seq, heads, dim), "float32", name="query")
    value = lang.te.placeholder((batch, seq, heads, dim), "float32", name="value")
    query_t = lang.te.compute((batch, heads, seq, dim), lambda b, h, s, d: query[b, s, h, d], name="query_T")
    value_t = lang.te.compute((batch, heads, dim, seq), lambda b, h, d, s: value[b, s, h, d], name="value_T")
    k = lang.te.reduce_axis((0, dim), "k")
    out = lang.te.compute(
        (batch, heads, seq, seq),
        lambda b, h, i, j: lang.te.sum(query_t[b, h, i, k] * value_t[b, h, k, j], axis=k),
        name="C",
    )
    return [query, value, out]


def _norm(lang: Language, b: int, m: int, n: int) -> list[Any]:
    a = lang.te.placeholder((b, m, n), "float32", name="A")
    i, j = lang.te.reduce_axis((0, m), "i"), lang.te.reduce_axis((0, n), "j")
    squares = lang.te.compute((b,), lambda b: lang.te.sum(a[b, i, j] * a[b, i, j], axis=[i, j]), name="C")
    return [a, lang.te.compute((b,), lambda b: lang.te.sqrt(squares[b]), name="D")]


def softmax(lang: Language, m: int, n: int) -> list[Any]:
    """Of each row."""
    a = lang.te.placeholder((m, n), "float32", name="A")
    return [a, lang.topi.nn.softmax(a, axis=1)]


def softmax_by_numpy(arrays: Sequence[Array], m: int, n: int) -> Array:
    """The same, of floats of any width."""
    (a,) = arrays
    e = np.exp(a - a.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def _f64_einsum(formula: str) -> Callable[..., Array]:
    return lambda arrays, *shape: np.einsum(
        formula, *[item.astype("float64") for item in arrays[:2]], optimize=True
    )


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "C1D",
        "conv1d NLC (N, L, CI, CO, K, stride, padding)",
        ((1, 256, 64, 128, 3, 2, 1), (1, 32, 512, 512, 3, 1, 1)),
        _conv(1),
        _conv_reference(1),
        _conv_flops(1),
    ),
    Workload(
        "C2D",
        "conv2d NHWC (N, H, W, CI, CO, K, stride, padding)",
        ((1, 56, 56, 64, 64, 1, 1, 0), (1, 14, 14, 256, 256, 3, 1, 1)),
        _conv(2),
        _conv_reference(2),
        _conv_flops(2),
    ),
    Workload(
        "C3D",
        "conv3d NDHWC (N, D, H, W, CI, CO, K, stride, padding)",
        ((1, 16, 14, 14, 256, 256, 3, 1, 1),),
        _conv(3),
        _conv_reference(3),
        _conv_flops(3),
    ),
    Workload(
        "GRP",
        "grouped conv2d NHWC (N, H, W, CI, CO, K, stride, padding, dilation, groups)",
        ((1, 56, 56, 64, 128, 3, 2, 1, 1, 4),),
        _conv(2),
        _conv_reference(2),
        _conv_flops(2),
    ),
    Workload(
        "DIL",
        "dilated conv2d NHWC (N, H, W, CI, CO, K, stride, padding, dilation)",
        ((1, 14, 14, 256, 256, 3, 1, 1, 2),),
        _conv(2),
        _conv_reference(2),
        _conv_flops(2),
    ),
    Workload(
        "DEP",
        "depthwise conv2d NHWC (N, H, W, C, K, stride, padding)",
        ((1, 112, 112, 32, 3, 1, 1),),
        _depthwise,
        _depthwise_reference,
        _depthwise_flops,
    ),
    Workload(
        "T2D",
        "transposed conv2d NHWC (N, H, W, CI, CO, K, stride, padding)",
        ((1, 16, 16, 128, 64, 4, 2, 1),),
        _transposed,
        _transposed_reference,
        _transposed_flops,
    ),
    Workload(
        "CAP",
        "capsule conv2d NHWIJC, 4x4 capsules (N, H, W, CI, CO, K, stride, padding)",
        ((1, 8, 8, 32, 32, 3, 1, 1),),
        _capsule,
        _capsule_reference,
        _capsule_flops,
    ),
    Workload(
        "GMM",
        "batch matmul (B, N, M, K)",
        ((1, 128, 128, 128), (1, 1024, 1024, 1024)),
        batch_matmul,
        _f64_einsum("bnk,bkm->bnm"),
        lambda b, n, m, k: 2 * b * n * m * k,
    ),
    Workload(
        "TBG",
        "transpose and batch matmul (batch, seq, heads, dim)",
        ((1, 128, 12, 64),),
        _transpose_batch_matmul,
        _f64_einsum("bihd,bjhd->bhij"),
        lambda batch, seq, heads, dim: 2 * batch * heads * seq * seq * dim,
    ),
    Workload(
        "NRM",
        "matrix 2-norm (B, M, N)",
        ((1, 512, 512),),
        _norm,
        lambda arrays, *shape: np.sqrt((arrays[0].astype("float64") ** 2).sum((1, 2))),
        lambda b, m, n: 2 * b * m * n,
    ),
    Workload(
        "SFM",
        "softmax (M, N) over N",
        ((512, 512),),
        softmax,
        in_float64(softmax_by_numpy),
        lambda m, n: 4 * m * n,
    ),
    Workload(
        "CBR",
        "conv2d, batch norm, relu NHWC (N, H, W, CI, CO, K, stride, padding)",
        ((1, 28, 28, 128, 128, 3, 1, 1),),
        _conv_bn_relu,
        _conv_bn_relu_reference,
        _conv_flops(2),
    ),
)
