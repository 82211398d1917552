"""Every operator against numpy: inferred shapes (static and symbolic), and numbers after legalization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ir
from ir import relax as rx
from ir import tir
from ir.relax.analysis.memory import MemoryAnalysis
from ir.relax.op import OPERATORS
from ir.relax.op.declaration import make
from ir.relax.op.layout_rule import identity, ndim_of
from ir.relax.op.memory_effect import (
    EFFECT,
    FRESH,
    IDENTITY,
    OPAQUE,
    UNKNOWN,
    MemoryEffect,
    ReadFromCall,
    View,
    releases,
    reuses,
    view_of,
    writes,
)
from ir.relax.testing import evaluate
from ir.script import from_source

R = rx.op


def floats(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype("float32")


def ints(*shape: int, low: int = 0, high: int = 5, dtype: str = "int64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).integers(low, high, shape).astype(dtype)


def bools(*shape: int) -> np.ndarray:
    return ints(*shape, high=2).astype(bool)


@dataclass
class Case:
    """An operator, a function that builds its call, inputs, and which input axes to make symbolic."""

    op: str
    build: Callable[..., Any]
    inputs: list[np.ndarray]
    symbolic: dict[tuple[int, int], str] = field(default_factory=dict)
    numbers: bool = True
    tolerance: float = 1e-5
    label: str = ""

    def __str__(self) -> str:
        return self.op.removeprefix("relax.") + (f"-{self.label}" if self.label else "")


ROWS = {(0, 0): "n"}
BOTH = {(0, 0): "n", (1, 0): "n"}
CASES: list[Case] = []


def case(
    op: str,
    build: Callable[..., Any],
    *inputs: np.ndarray,
    symbolic: Any = None,
    label: str = "",
    **options: Any,
) -> None:
    CASES.append(Case(f"relax.{op}", build, list(inputs), symbolic or {}, label=label, **options))


for name in "asinh atan cos erf exp sigmoid sin sinh tan tanh cosh".split():
    case(name, getattr(R, name), floats(2, 3), symbolic=ROWS, tolerance=2e-5)
for name in "abs ceil floor negative round sign square trunc isfinite isinf isnan".split():
    case(name, getattr(R, name), floats(2, 3), symbolic=ROWS)
for name in "acos asin atanh".split():
    case(name, getattr(R, name), floats(2, 3, low=-0.9, high=0.9), symbolic=ROWS, tolerance=2e-5)
for name in "log sqrt rsqrt".split():
    case(name, getattr(R, name), floats(2, 3, low=0.5), symbolic=ROWS)
case("acosh", R.acosh, floats(2, 3, low=1.1), symbolic=ROWS)
case("bitwise_not", R.bitwise_not, ints(2, 3), symbolic=ROWS)
case("logical_not", R.logical_not, bools(2, 3), symbolic=ROWS)
case("clip", lambda x: R.clip(x, -1, 1), floats(2, 3), symbolic=ROWS)

for name in "add subtract multiply maximum minimum log_add_exp atan2".split():
    case(name, getattr(R, name), floats(2, 3), floats(2, 3, seed=1), symbolic=BOTH)
    case(name, getattr(R, name), floats(4, 1, 3), floats(2, 1, seed=1), symbolic=ROWS, label="broadcast")
for name in "divide floor_divide floor_mod mod power".split():
    case(name, getattr(R, name), floats(2, 3, low=0.5), floats(2, 3, seed=1, low=0.5), symbolic=BOTH)
for name in "divide floor_divide floor_mod mod".split():
    case(
        name,
        getattr(R, name),
        ints(3, 4, low=-9, high=9),
        ints(3, 4, low=1, high=4, seed=3),
        label="int",
        symbolic=BOTH,
    )
for name in "equal not_equal less less_equal greater greater_equal".split():
    case(name, getattr(R, name), ints(2, 3), ints(2, 3, seed=1), symbolic=BOTH)
for name in "logical_and logical_or logical_xor".split():
    case(name, getattr(R, name), bools(4, 3), bools(4, 3)[::-1].copy(), symbolic=BOTH)
for name in "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split():
    case(name, getattr(R, name), ints(2, 3, high=60), ints(2, 3, seed=1), symbolic=BOTH)
case(
    "add",
    lambda x: R.add(x, rx.const(2.0, x.struct_info.dtype)),
    floats(2, 3),
    label="scalar",
    symbolic=ROWS,
)

case(
    "ewise_fma",
    R.ewise_fma,
    floats(2, 3),
    floats(2, 3, seed=1),
    floats(2, 3, seed=2),
    symbolic={**BOTH, (2, 0): "n"},
)

# manipulation
case("broadcast_to", lambda x: R.broadcast_to(x, (4, 2, 3)), floats(2, 1))
case("concat", lambda x, y: R.concat([x, y], 1), floats(2, 3), floats(2, 5), symbolic=BOTH)
case(
    "concat",
    lambda x, y: R.concat([x, y], 0),
    floats(2, 3),
    floats(4, 3),
    symbolic=ROWS,
    label="symbolic-axis",
)
case("stack", lambda x, y: R.stack([x, y], 1), floats(2, 3), floats(2, 3, seed=2), symbolic=BOTH)
case("expand_dims", lambda x: R.expand_dims(x, [0, -1]), floats(2, 3), symbolic=ROWS)
case("squeeze", lambda x: R.squeeze(x, 1), floats(2, 1, 3), symbolic=ROWS)
case("squeeze", lambda x: R.squeeze(x), floats(2, 1, 3), label="all")
case("flatten", R.flatten, floats(2, 3, 4), symbolic=ROWS)
case("reshape", lambda x: R.reshape(x, (-1, 6)), floats(4, 3), label="infer")
case("reshape", lambda x: R.reshape(x, (0, 2, -1)), floats(4, 6), symbolic=ROWS, label="copy")
case("permute_dims", lambda x: R.permute_dims(x, [2, 0, 1]), floats(2, 3, 4), symbolic=ROWS)
case("permute_dims", lambda x: R.permute_dims(x), floats(2, 3, 4), symbolic=ROWS, label="reverse")
case("flip", lambda x: R.flip(x, 1), floats(2, 3), symbolic=ROWS)
case("split", lambda x: R.split(x, 3, 1), floats(2, 6), symbolic=ROWS)
case("split", lambda x: R.split(x, [1, 4], 1), floats(2, 6), symbolic=ROWS, label="indices")
case("split", lambda x: R.split(x, 3, 1), floats(2, 7), symbolic=ROWS, label="uneven")
case("repeat", lambda x: R.repeat(x, 2, 1), floats(2, 3), symbolic=ROWS)
case("repeat", lambda x: R.repeat(x, 2), floats(2, 3), symbolic=ROWS, label="flat")
case("tile", lambda x: R.tile(x, (2, 1, 3)), floats(2, 3), symbolic=ROWS)
case("collapse_sum_to", lambda x: R.collapse_sum_to(x, (3, 1)), floats(2, 3, 4), symbolic=ROWS)
case("collapse_sum_like", R.collapse_sum_like, floats(2, 3, 4), floats(3, 1), symbolic=ROWS)
case("meshgrid", lambda x, y: R.meshgrid([x, y]), floats(3), floats(4), symbolic=ROWS)
case(
    "one_hot",
    lambda x: R.one_hot(
        x, rx.PrimValue(tir.const(1.0, "float32")), rx.PrimValue(tir.const(0.0, "float32")), 5
    ),
    ints(2, 3),
    symbolic=ROWS,
)
case(
    "layout_transform",
    lambda x: R.layout_transform(x, lambda i, j: (j // 4, i, j % 4)),
    floats(3, 8),
    symbolic=ROWS,
)
case(
    "layout_transform",
    lambda x: R.layout_transform(x, lambda i: (i // 4, i % 4), 2.0),
    floats(6),
    label="padded",
)

# products
case("matmul", R.matmul, floats(4, 5), floats(5, 3), symbolic=ROWS)
case("matmul", R.matmul, floats(2, 3, 4, 5), floats(3, 5, 6), symbolic=ROWS, label="batch")
case("matmul", R.matmul, floats(5), floats(5, 3), label="vector")
case("matmul", R.matmul, floats(4, 5), floats(5), symbolic=ROWS, label="matrix-vector")
case("matmul", R.matmul, floats(5), floats(5), label="dot")
case("einsum", lambda x, y: R.einsum([x, y], "ij,jk->ik"), floats(3, 4), floats(4, 2), symbolic=ROWS)
case("einsum", lambda x: R.einsum([x], "bij->bji"), floats(2, 3, 4), symbolic=ROWS, label="transpose")
case("outer", R.outer, floats(3), floats(4), symbolic=ROWS)

# reductions
for name in "max min sum prod mean std variance".split():
    for axis, keepdims, label in ((None, False, "all"), ([1], True, "keepdims"), ([-1, 0], False, "axes")):
        case(
            name,
            lambda x, name=name, axis=axis, keepdims=keepdims: getattr(R, name)(x, axis, keepdims),
            floats(2, 3, 4),
            symbolic=ROWS,
            label=label,
            tolerance=3e-5,
        )
for name in "argmax argmin".split():
    case(name, lambda x, name=name: getattr(R, name)(x, 1), floats(2, 5), symbolic=ROWS)
    case(name, lambda x, name=name: getattr(R, name)(x), floats(2, 5), label="all")
for name in "cumsum cumprod".split():
    case(name, lambda x, name=name: getattr(R, name)(x, 1), floats(2, 5), symbolic=ROWS)
    case(name, lambda x, name=name: getattr(R, name)(x, exclusive=True), floats(2, 3), label="flat-exclusive")
case("median", lambda x: R.median(x), floats(3, 5), label="all")
case("median", lambda x: R.median(x, 1), floats(3, 5), symbolic=ROWS)

# creation
case("full", lambda: R.full((2, 3), 1.5, "float32"))
case("full_like", lambda x: R.full_like(x, 1.5), floats(2, 3), symbolic=ROWS)
case("ones", lambda: R.ones((2, 3), "float32"))
case("zeros", lambda: R.zeros((2, 3), "int32"))
case("ones_like", lambda x: R.ones_like(x), floats(2, 3), symbolic=ROWS)
case("zeros_like", lambda x: R.zeros_like(x, "int32"), floats(2, 3), symbolic=ROWS)
case("arange", lambda: R.arange(1, 10, 3))
case("arange", lambda: R.arange(0.0, 1.0, 0.25), label="float")
case("arange", lambda: R.arange(5, 0, -2), label="down")
case("eye", lambda: R.eye(3, 4, 1))
case("eye_like", lambda x: R.eye_like(x), floats(3, 4), symbolic=ROWS)
case("tril", lambda x: R.tril(x, 1), floats(4, 5), symbolic=ROWS)
case("triu", lambda x: R.triu(x, -1), floats(2, 4, 5), symbolic=ROWS)
case("hamming_window", lambda: R.hamming_window(6))
case("astype", lambda x: R.astype(x, "int32"), floats(2, 3), symbolic=ROWS)
case("wrap_param", lambda: R.wrap_param(rx.const([1.0, 2.0], "float16"), "float32"))

# indexing
case("take", lambda x, i: R.take(x, i, 1), floats(2, 5), ints(3), symbolic=ROWS)
case(
    "take", lambda x, i: R.take(x, i, 0), floats(5, 3), ints(2, 2), symbolic={(1, 0): "n"}, label="embedding"
)
case("take", lambda x: R.take(x, 2, 1), floats(2, 5), symbolic=ROWS, label="scalar")
case("strided_slice", lambda x: R.strided_slice(x, [0, 1], [0, 1], [2, 100]), floats(3, 6))
case(
    "strided_slice",
    lambda x: R.strided_slice(x, [1], [-2], [-100], [-2]),
    floats(3, 6),
    symbolic=ROWS,
    label="backwards",
)
case(
    "strided_slice",
    lambda x: R.strided_slice(x, [0], [1], [2**40], [2]),
    floats(7, 2),
    symbolic=ROWS,
    label="symbolic",
)
case(
    "dynamic_strided_slice",
    R.dynamic_strided_slice,
    floats(5, 6),
    np.asarray([1, -1]),
    np.asarray([4, -9]),
    np.asarray([2, -2]),
)
case("gather_elements", lambda x, i: R.gather_elements(x, i, 1), floats(2, 5), ints(2, 3), symbolic=BOTH)
case("gather_nd", R.gather_nd, floats(5, 6, 2), ints(3, 2), symbolic={(1, 0): "n"})
case("gather_nd", lambda x, i: R.gather_nd(x, i, 1), floats(2, 5, 6), ints(2, 3, 2), label="batch")
case("index_tensor", lambda x, i, j: R.index_tensor(x, [i, j]), floats(5, 6, 2), ints(3, 1), ints(4))
case(
    "scatter_elements",
    lambda x, i, u: R.scatter_elements(x, i, u, 1),
    floats(2, 5),
    np.asarray([[0, 2], [4, 1]]),
    floats(2, 2),
)
case(
    "scatter_elements",
    lambda x, i, u: R.scatter_elements(x, i, u, 0, "add"),
    floats(4, 2),
    ints(3, 2, high=4),
    floats(3, 2),
    label="add",
)
case("scatter_nd", R.scatter_nd, floats(5, 3), np.asarray([[1], [4]]), floats(2, 3))
case(
    "scatter_nd",
    lambda x, i, u: R.scatter_nd(x, i, u, "add"),
    floats(5, 3),
    np.asarray([[1], [1]]),
    floats(2, 3),
    label="add",
)
case(
    "index_put",
    lambda x, i, j, v: R.index_put(x, [i, j], v),
    floats(4, 5),
    np.asarray([0, 2]),
    np.asarray([1, 3]),
    floats(2),
)
case(
    "index_put",
    lambda x, i, v: R.index_put(x, [i], v, True),
    floats(4),
    np.asarray([1, 1]),
    floats(2),
    label="accumulate",
)
case(
    "slice_scatter", lambda x, s: R.slice_scatter(x, s, 1, 6, 2, 1), floats(2, 7), floats(2, 3), symbolic=BOTH
)

# search, sorting
case("where", R.where, bools(2, 3), floats(2, 3), floats(3), symbolic=BOTH)
case("bucketize", R.bucketize, floats(2, 3), np.asarray([-1.0, 0.0, 1.0], "float32"), symbolic=ROWS)
case("sort", lambda x: R.sort(x, 1, True), floats(2, 6), symbolic=ROWS)
case("argsort", lambda x: R.argsort(x, 1), floats(2, 6), symbolic=ROWS)
case("topk", lambda x: R.topk(x, 2, 1), floats(2, 6), symbolic=ROWS)
case("topk", lambda x: R.topk(x, 3, 0, "values", False), floats(5, 2), label="values")
case("unique", lambda x: R.unique(x, True, True, True, True), ints(10))
case("nonzero", R.nonzero, ints(3, 4, high=2))
case(
    "multinomial_from_uniform",
    R.multinomial_from_uniform,
    np.full((2, 4), 0.25, "float32"),
    floats(3, 1, low=0, high=1),
    ints(3, 1, high=2),
)

# quantization
case(
    "quantize",
    lambda x, s, z: R.quantize(x, s, z, 0),
    floats(2, 3),
    np.asarray([0.1, 0.2], "float32"),
    np.asarray([3, 4], "int8"),
)
case(
    "dequantize",
    lambda x, s, z: R.dequantize(x, s, z),
    ints(2, 3, dtype="int8"),
    np.asarray(0.5, "float32"),
    np.asarray(2, "int8"),
    symbolic=ROWS,
)

# networks
N = R.nn
for name in "relu relu6 gelu gelu_tanh silu selu softplus leakyrelu".split():
    case(f"nn.{name}", getattr(N, name), floats(2, 5), symbolic=ROWS, tolerance=2e-5)
case("nn.prelu", N.prelu, floats(2, 3, 4), floats(3, low=0.1), symbolic=ROWS)
case("nn.softmax", lambda x: N.softmax(x, 1), floats(2, 5), symbolic=ROWS)
case("nn.log_softmax", lambda x: N.log_softmax(x), floats(2, 5), symbolic=ROWS)
case(
    "nn.conv1d",
    lambda x, w: N.conv1d(x, w, 2, 1),
    floats(2, 3, 9),
    floats(4, 3, 3),
    symbolic=ROWS,
    tolerance=1e-4,
)
case(
    "nn.conv2d",
    lambda x, w: N.conv2d(x, w, 2, (1, 0), 1),
    floats(1, 3, 7, 6),
    floats(4, 3, 3, 3),
    tolerance=1e-4,
    symbolic={(0, 0): "n", (0, 2): "h"},
)
case(
    "nn.conv2d",
    lambda x, w: N.conv2d(x, w, dilation=2, groups=2),
    floats(1, 4, 7, 6),
    floats(6, 2, 2, 2),
    label="groups",
    tolerance=1e-4,
)
case(
    "nn.conv2d",
    lambda x, w: N.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
    floats(1, 5, 5, 3),
    floats(3, 3, 3, 2),
    label="nhwc",
    tolerance=1e-4,
)
case(
    "nn.conv3d",
    lambda x, w: N.conv3d(x, w, padding=1),
    floats(1, 2, 3, 4, 4),
    floats(2, 2, 3, 3, 3),
    tolerance=1e-4,
)
case(
    "nn.conv1d_transpose",
    lambda x, w: N.conv1d_transpose(x, w, 2, 1, 1),
    floats(2, 3, 5),
    floats(3, 2, 3),
    symbolic=ROWS,
    tolerance=1e-4,
)
case(
    "nn.conv2d_transpose",
    lambda x, w: N.conv2d_transpose(x, w, 2, 1, groups=2),
    floats(1, 4, 4, 3),
    floats(4, 3, 3, 3),
    tolerance=1e-4,
)
case(
    "nn.conv3d_transpose",
    lambda x, w: N.conv3d_transpose(x, w, 2),
    floats(1, 2, 2, 2, 2),
    floats(2, 2, 2, 2, 2),
    tolerance=1e-4,
)
for dims, data_layout, kernel_layout in ((1, "NWC", "WIO"), (2, "NHWC", "HWIO"), (3, "NDHWC", "DHWIO")):
    case(
        f"nn.conv{dims}d_transpose",
        lambda x, w, d=dims, layouts=(data_layout, kernel_layout): getattr(N, f"conv{d}d_transpose")(
            x, w, 2, 1, 1, data_layout=layouts[0], kernel_layout=layouts[1]
        ),
        floats(2, *[4, 3, 2][:dims], 3),
        floats(*[3, 4, 2][:dims], 3, 2),
        label="channels_last",
        tolerance=1e-4,
    )
for dims in (1, 2, 3):
    shape = (2, 2, *([5] * dims))
    case(
        f"nn.max_pool{dims}d",
        lambda x, d=dims: getattr(N, f"max_pool{d}d")(x, 2, 2, 1),
        floats(*shape),
        symbolic=ROWS,
    )
    case(
        f"nn.avg_pool{dims}d",
        lambda x, d=dims: getattr(N, f"avg_pool{d}d")(x, 2, 2, 1),
        floats(*shape),
        symbolic=ROWS,
    )
    case(
        f"nn.adaptive_avg_pool{dims}d",
        lambda x, d=dims: getattr(N, f"adaptive_avg_pool{d}d")(x, 2),
        floats(*shape),
        symbolic=ROWS,
    )
case("nn.max_pool2d", lambda x: N.max_pool2d(x, 3, 2, ceil_mode=True), floats(1, 2, 6, 6), label="ceil")
case(
    "nn.avg_pool2d",
    lambda x: N.avg_pool2d(x, 3, 2, 1, count_include_pad=True),
    floats(1, 2, 6, 6),
    label="include-pad",
)
BN = [floats(2, 3, 4), floats(3), floats(3, seed=1), floats(3, seed=2), floats(3, seed=3, low=0.5)]
case("nn.batch_norm", lambda *a: N.batch_norm(*a, axis=1, training=False), *BN, symbolic=ROWS, tolerance=3e-5)
case(
    "nn.batch_norm", lambda *a: N.batch_norm(*a, axis=1), *BN, symbolic=ROWS, tolerance=3e-5, label="training"
)
case(
    "nn.layer_norm",
    lambda x, g, b: N.layer_norm(x, g, b, -1),
    floats(2, 3, 6),
    floats(6),
    floats(6, seed=1),
    symbolic=ROWS,
    tolerance=3e-5,
)
case(
    "nn.group_norm",
    lambda x, g, b: N.group_norm(x, g, b, 2, 1, [2, 3]),
    floats(2, 4, 3, 3),
    floats(4),
    floats(4, seed=1),
    symbolic=ROWS,
    tolerance=3e-5,
)
case(
    "nn.instance_norm",
    lambda x, g, b: N.instance_norm(x, g, b, 1, [2, 3]),
    floats(2, 4, 3, 3),
    floats(4),
    floats(4, seed=1),
    symbolic=ROWS,
    tolerance=3e-5,
)
case("nn.rms_norm", N.rms_norm, floats(2, 3, 6), floats(6), symbolic=ROWS, tolerance=3e-5)
case("nn.dropout", N.dropout, floats(2, 3), symbolic=ROWS)
case("nn.pad", lambda x: N.pad(x, [1, 2, 0, 1]), floats(2, 3), symbolic=ROWS)
for mode in ("reflect", "replicate", "circular"):
    case("nn.pad", lambda x, mode=mode: N.pad(x, [1, 2, 2, 1], mode), floats(4, 5), label=mode)
case("nn.pixel_shuffle", lambda x: N.pixel_shuffle(x, 2), floats(1, 8, 2, 3), symbolic=ROWS)
case("nn.batch_flatten", N.batch_flatten, floats(2, 3, 4), symbolic=ROWS)
QKV = [floats(1, 4, 4, 8), floats(1, 5, 2, 8, seed=1), floats(1, 5, 2, 6, seed=2)]
case("nn.attention", N.attention, *QKV, symbolic={(0, 1): "n"}, tolerance=3e-5)
case(
    "nn.attention",
    lambda q, k, v: N.attention(q, k, v, causal_mask="BottomRight", window_size=3),
    *QKV,
    label="causal",
    tolerance=3e-5,
)
case(
    "nn.attention_bias",
    lambda q, k, v, b: N.attention(q, k, v, b, 0.3),
    *QKV,
    floats(1, 1, 4, 5),
    tolerance=3e-5,
)
case(
    "nn.cross_entropy_with_logits",
    N.cross_entropy_with_logits,
    floats(2, 3),
    floats(2, 3, seed=1),
    symbolic=BOTH,
)
for mode in ("mean", "sum", "none"):
    case(
        "nn.nll_loss",
        lambda x, t, w, mode=mode: N.nll_loss(x, t, w, mode, 1),
        floats(3, 4),
        np.asarray([0, 1, 3]),
        floats(4, low=0.5),
        label=mode,
    )

case("grad.no_grad", R.grad.no_grad, floats(2, 3))
case("grad.start_checkpoint", R.grad.start_checkpoint, floats(2, 3))
case("grad.end_checkpoint", R.grad.end_checkpoint, floats(2, 3))
case(
    "grad.nll_loss_backward",
    lambda g, x, t, w: R.grad.nll_loss_backward(g, x, t, w, "mean", 1),
    np.asarray(0.5, "float32"),
    floats(3, 4),
    np.asarray([0, 1, 3]),
    floats(4, low=0.5),
)
case(
    "grad.take_backward",
    lambda g, x, i: R.grad.take_backward(g, x, i, 1),
    floats(2, 3, 4),
    floats(2, 5, 4),
    ints(3),
)
case(
    "grad.max_pool2d_backward",
    lambda g, x: R.grad.max_pool2d_backward(g, x, 3, 2, 1),
    floats(1, 2, 3, 3),
    floats(1, 2, 6, 5),
)
case(
    "grad.avg_pool2d_backward",
    lambda g, x: R.grad.avg_pool2d_backward(g, x, 3, 2, 1),
    floats(1, 2, 3, 3),
    floats(1, 2, 6, 5),
)
case("builtin.stop_lift_params", R.builtin.stop_lift_params, floats(2, 3))
case("hint_on_device", lambda x: R.hint_on_device(x, "cpu"), floats(2, 3), numbers=False)
case("to_vdevice", lambda x: R.to_vdevice(x, ir.VDevice()), floats(2, 3), numbers=False)
case("image.resize2d", lambda x: R.image.resize2d(x, (4, 6)), floats(1, 2, 3, 3), symbolic=ROWS)
case(
    "image.resize2d",
    lambda x: R.image.resize2d(
        x,
        (6, 6),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    floats(1, 2, 3, 3),
    label="nearest",
)
case(
    "image.resize2d",
    lambda x: R.image.resize2d(x, (7, 5), method="cubic", coordinate_transformation_mode="align_corners"),
    floats(1, 2, 4, 3),
    label="cubic",
)
case("memory.view", lambda x: R.memory.view(x, (6,), "int32"), floats(2, 3), numbers=False)
case("memory.ensure_zero_offset", R.memory.ensure_zero_offset, floats(2, 3), numbers=False)

WITHOUT_NUMBERS = {
    # calls of functions, effects, memory of the virtual machine, several workers: tested where they are lowered
    name
    for name in OPERATORS
    if name.startswith(
        (
            "relax.call_",
            "relax.invoke_",
            "relax.make_",
            "relax.memory.",
            "relax.vm.",
            "relax.ccl.",
            "relax.dist.",
            "relax.inspect.",
        )
    )
} | {
    "relax.print",
    "relax.assert_op",
    "relax.null_value",
    "relax.shape_of",
    "relax.shape_to_tensor",
    "relax.tensor_to_shape",
    "relax.builtin.alloc_tensor",
    "relax.nn.attention_var_len",
}


def test_every_operator_has_a_case() -> None:
    tested = {item.op for item in CASES}
    assert set(OPERATORS) - tested - WITHOUT_NUMBERS == set()


BUILT_BY_OTHERS = {
    # attention decides by its arguments which operator it calls; builtins take their arguments in another form
    "relax.nn.attention_bias",
    "relax.call_builtin_with_ctx",
}


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - BUILT_BY_OTHERS))
def test_every_operator_is_found_under_its_name(name: str) -> None:
    found: Any = R
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    assert found is OPERATORS[name].build


def params_of(item: Case, symbolic: bool) -> tuple[list[rx.Var], dict[str, int]]:
    names: dict[str, tir.Var] = {}
    values: dict[str, int] = {}
    params = []
    for number, array in enumerate(item.inputs):
        dims: list[Any] = list(array.shape)
        for axis in range(array.ndim):
            name = item.symbolic.get((number, axis)) if symbolic else None
            if name:
                dims[axis] = names.setdefault(name, tir.Var(name, "int64"))
                values[name] = array.shape[axis]
        params.append(rx.Var(f"x{number}", rx.TensorStructInfo(dims, ir.dtype.from_numpy(array.dtype))))
    return params, values


def build(item: Case, params: list[rx.Var], legal: bool) -> ir.IRModule:
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        value = bb.normalize(item.build(*params))
        if legal:
            legalize = value.op.get_attr("FLegalize")
            value = legalize(bb, value)
        bb.emit_func_output(bb.emit(value))
    return bb.finalize()


def reference(item: Case, params: list[rx.Var]) -> Any:
    return evaluate(build(item, params, False), *item.inputs)


def flat(value: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in value] if isinstance(value, list | tuple) else [np.asarray(value)]


def check_info(info: Any, expected: Any, values: dict[str, int], known: bool) -> None:
    infos = info.fields if isinstance(info, rx.TupleStructInfo) else [info]
    arrays = flat(expected)
    assert len(infos) == len(arrays)
    for one, array in zip(infos, arrays, strict=True):
        assert isinstance(one, rx.TensorStructInfo)
        assert one.ndim in (array.ndim, -1)
        if not known:
            continue
        assert one.shape_values is not None, one
        sizes = []
        for dim in one.shape_values:
            table = {v: tir.const(values[v.name], "int64") for v in rx.analysis.tir_vars_in_struct_info(one)}
            sizes.append(int(ir.arith.Analyzer().simplify(tir.substitute(dim, table)).value))
        assert tuple(sizes) == array.shape


DATA_DEPENDENT = {name for name, declaration in OPERATORS.items() if declaration.data_dependent}


VIEW = view_of(0)
MEMORY: dict[str, Any] = {
    # what is not named here makes new memory
    **{name: VIEW for name in "reshape expand_dims squeeze flatten nn.batch_flatten memory.view".split()},
    **{name: VIEW for name in "to_vdevice hint_on_device memory.ensure_zero_offset".split()},
    **{name: VIEW for name in "grad.no_grad grad.start_checkpoint grad.end_checkpoint".split()},
    **{name: VIEW for name in "builtin.stop_lift_params dist.annotate_sharding dist.redistribute".split()},
    "make_closure": view_of(1),
    "nn.dropout": MemoryEffect(views=(View((0,), (0,)),)),
    "nn.batch_norm": MemoryEffect(views=(View((3,), (1,)), View((4,), (2,)))),
    **{name: reuses(0, 1) for name in "add subtract multiply divide".split()},
    **{name: reuses(0) for name in "nn.relu nn.silu".split()},
    "builtin.alloc_tensor": IDENTITY,
    **{name: IDENTITY | EFFECT for name in "memory.alloc_storage vm.alloc_storage".split()},
    **{name: VIEW | IDENTITY | EFFECT for name in "memory.alloc_tensor vm.alloc_tensor".split()},
    **{
        name: releases(0) | EFFECT for name in "memory.kill_storage memory.kill_tensor vm.kill_object".split()
    },
    "vm.call_tir_dyn": writes(1) | EFFECT,
    **{name: EFFECT for name in "print assert_op".split()},
    "invoke_closure": OPAQUE,
    "invoke_pure_closure": UNKNOWN,
}
READ_FROM_CALL = {"call_tir_inplace", "call_pure_packed", "call_inplace_packed", "call_builtin_with_ctx"}


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_memory(name: str) -> None:
    """Every operator's declaration against this table, and its purity against its declaration."""
    short = name.removeprefix("relax.")
    declared = OPERATORS[name].memory
    if short in READ_FROM_CALL:
        assert isinstance(declared, ReadFromCall)
    else:
        assert declared == MEMORY.get(short, FRESH)
    assert ir.Op.get(name).get_attr("FPurity") is declared.pure


def origins(func: rx.Function) -> list[set[tuple[int, tuple[int, ...]]]]:
    """For each field of a function's result, the parameters that it may be memory of, by number and path."""
    place = MemoryAnalysis().aliases(func).result
    numbers = {param: number for number, param in enumerate(func.params)}
    fields = place if isinstance(place, tuple) else (place,)
    return [{(numbers[root.owner], root.path) for root in field if root.owner in numbers} for field in fields]


@pytest.mark.parametrize("item", [item for item in CASES if OPERATORS[item.op].legalize], ids=str)
def test_lowered_forms_share_no_more_memory_than_declared(item: Case) -> None:
    """What an operator becomes must not be a view of an argument that the operator does not declare to view."""
    params, _ = params_of(item, False)

    for lowered, declared in zip(
        origins(build(item, params, True)["main"]), origins(build(item, params, False)["main"]), strict=True
    ):
        assert lowered <= declared


def test_what_is_not_legalized_has_another_way_down() -> None:
    """By a lowering, a packed function, or because lowered programs consist of it; what has none is listed here."""
    nowhere = {
        name
        for name, item in OPERATORS.items()
        if not (item.legalize or item.lowering or item.call_packed or item.is_lowered)
    }
    # the last is unwrapped by RemovePurityChecking, those of several devices have no runtime
    assert {name.removeprefix("relax.") for name in nowhere} == {
        "dist.annotate_sharding",
        "dist.redistribute",
        "dist.redistribute_replica_to_shard",
        "nn.attention_var_len",
        "invoke_pure_closure",
    }


# Layout rules: a call on permuted operands, as its rule plans it, gives the permuted result.


def _planned(item: Case, params: list[rx.Var]) -> tuple[Any, list[Any], rx.Call] | None:
    """The plan for operands whose axes are rotated, with the layouts of the arguments and the normalized call."""
    declaration = OPERATORS[item.op]
    bb = rx.BlockBuilder()
    with bb.testing_scope([]):
        call = bb.normalize(item.build(*params))
    ndim = max((array.ndim for array in item.inputs), default=0)

    def layout(arg: Any) -> Any:
        if isinstance(arg, rx.Tuple):
            return tuple(layout(field) for field in arg.fields)
        plain = identity(max(ndim_of(arg), 0))
        return (
            (*plain[1:], plain[0])
            if len(plain) == ndim > 1 and declaration.preferred_layouts is None
            else plain
        )

    layouts = [layout(arg) for arg in call.args]
    plan = declaration.layout(call, layouts, declaration.preferred_layouts)
    return None if plan is None else (plan, layouts, call)


LAID_OUT = [item for item in CASES if OPERATORS[item.op].layout is not None]


def _stored(array: np.ndarray, wanted: Any, have: Any) -> np.ndarray:
    """The operand that a plan asks for, of an array with its original axes."""
    if wanted is None:
        return array.transpose(have)
    if len(wanted) == array.ndim:
        return array.transpose(wanted)
    missing = len(wanted) - array.ndim
    return array.reshape((1,) * missing + array.shape).transpose(wanted)


@pytest.mark.parametrize("item", LAID_OUT, ids=str)
def test_layout(item: Case) -> None:
    params, _ = params_of(item, False)
    expected = reference(item, params)
    found = _planned(item, params)
    if found is None:
        return
    plan, layouts, call = found
    arrays = dict(zip(params, item.inputs, strict=True))
    values: list[np.ndarray] = []
    new_params: list[rx.Var] = []

    def operand(arg: Any, wanted: Any, have: Any) -> Any:
        if isinstance(arg, rx.Tuple):
            return rx.Tuple([operand(*parts) for parts in zip(arg.fields, wanted, have, strict=True)])
        array = arrays.get(arg, arg.data if isinstance(arg, rx.Constant) else None)
        if array is None:
            return arg
        moved = np.ascontiguousarray(_stored(array, wanted, have))
        values.append(moved)
        info = rx.TensorStructInfo(moved.shape, ir.dtype.from_numpy(moved.dtype))
        new_params.append(rx.Var(f"p{len(values)}", info))
        return new_params[-1]

    args = [operand(*parts) for parts in zip(call.args, plan.operands, layouts, strict=True)]
    moved = rx.Call(call.op, args, {**call.attrs.dict, **(plan.attrs or {})}, call.sinfo_args)
    bb = rx.BlockBuilder()
    with bb.function("main", new_params):
        bb.emit_func_output(bb.emit(moved))
    got = flat(evaluate(bb.finalize(), *values))
    layouts_of_results = [plan.results] if len(got) == 1 else list(plan.results)
    for one, want, layout in zip(got, flat(expected), layouts_of_results, strict=True):
        np.testing.assert_allclose(one, want.transpose(layout), rtol=item.tolerance, atol=item.tolerance)


def test_every_layout_rule_is_tested() -> None:
    tested = {item.op for item in LAID_OUT if _planned(item, params_of(item, False)[0])}
    assert tested == {name for name, declaration in OPERATORS.items() if declaration.layout is not None}


# Decompositions compute the same, and share no more memory than the operator declares.


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("item", [item for item in CASES if OPERATORS[item.op].decomposition], ids=str)
def test_decomposition(item: Case, mode: str) -> None:
    rule = getattr(OPERATORS[item.op].decomposition, mode)
    if rule is None:
        return
    params, _ = params_of(item, False)
    bb = rx.BlockBuilder()
    with bb.function("main", params):
        call = bb.normalize(item.build(*params))
        told = {"training": mode == "training"} if "training" in call.attrs else {}
        decomposed = rx.Call(call.op, call.args, {**call.attrs.dict, **told})
        made = bb.normalize(rule(call))
        bb.emit_func_output(bb.emit(made))
    func = bb.finalize()["main"]
    other = rx.BlockBuilder()
    with other.function("main", params):
        other.emit_func_output(other.emit(decomposed))
    before = other.finalize()["main"]
    assert func.ret_struct_info == before.ret_struct_info
    for got, want in zip(
        flat(evaluate(func, *item.inputs)), flat(evaluate(before, *item.inputs)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=item.tolerance, atol=item.tolerance)
    for lowered, declared in zip(origins(func), origins(before), strict=True):
        assert lowered <= declared


@pytest.mark.parametrize("item", CASES, ids=str)
def test_static(item: Case) -> None:
    params, _ = params_of(item, False)
    expected = reference(item, params)
    func = build(item, params, False)["main"]
    check_info(func.ret_struct_info, expected, {}, item.op not in DATA_DEPENDENT)
    dtypes = [np.asarray(part).dtype for part in flat(expected)]
    infos = (
        func.ret_struct_info.fields
        if isinstance(func.ret_struct_info, rx.TupleStructInfo)
        else [func.ret_struct_info]
    )
    if item.numbers:
        got = flat(evaluate(build(item, params, True), *item.inputs))
        for one, want, info in zip(got, flat(expected), infos, strict=True):
            assert one.shape == want.shape
            assert ir.dtype.from_numpy(one.dtype) == info.dtype
            np.testing.assert_allclose(one, want, rtol=item.tolerance, atol=item.tolerance)
    assert [info.dtype for info in infos] == [ir.dtype.from_numpy(kind) for kind in dtypes]


@pytest.mark.parametrize("item", [item for item in CASES if item.symbolic], ids=str)
def test_symbolic(item: Case) -> None:
    params, values = params_of(item, True)
    expected = reference(item, params)
    func = build(item, params, False)["main"]
    check_info(func.ret_struct_info, expected, values, item.op not in DATA_DEPENDENT)
    if item.numbers:
        got = flat(evaluate(build(item, params, True), *item.inputs))
        for one, want in zip(got, flat(expected), strict=True):
            np.testing.assert_allclose(one, want, rtol=item.tolerance, atol=item.tolerance)


@pytest.mark.parametrize("item", CASES, ids=str)
def test_unknown_shape(item: Case) -> None:
    """With nothing known but the number of dimensions, inference still succeeds and never claims a wrong one."""
    params = [
        rx.Var(f"x{i}", rx.TensorStructInfo(None, ir.dtype.from_numpy(array.dtype), ndim=array.ndim))
        for i, array in enumerate(item.inputs)
    ]
    bb = rx.BlockBuilder()
    try:
        call = item.build(*params)
    except ir.IRValueError as error:
        assert "known shape" in str(error)
        return
    with bb.testing_scope([]):
        info = bb.normalize(call).struct_info
    static, _ = params_of(item, False)
    check_info(info, reference(item, static), {}, False)


@pytest.mark.parametrize("item", CASES, ids=str)
def test_printed_calls_are_read_back(item: Case) -> None:
    params, _ = params_of(item, bool(item.symbolic))
    mod = build(item, params, False)
    text = mod.script(show_meta=True)
    again = from_source(text)
    ir.assert_structural_equal(again, mod)
    assert again.script(show_meta=True) == text


def test_what_python_asks_of_any_object_is_no_operator() -> None:
    """Doctest follows ``__wrapped__`` as long as there is one."""
    assert not hasattr(make, "__wrapped__")
    assert callable(make.nn.relu)


def test_average_pools_count_their_padding_where_the_field_s_do() -> None:
    counts = [
        rx.op.nn.avg_pool1d(rx.Var("x", rx.TensorStructInfo([1, 2, 8], "float32"))),
        rx.op.nn.avg_pool2d(rx.Var("x", rx.TensorStructInfo([1, 2, 8, 8], "float32"))),
        rx.op.nn.avg_pool3d(rx.Var("x", rx.TensorStructInfo([1, 2, 8, 8, 8], "float32"))),
    ]
    assert [call.attrs["count_include_pad"] for call in counts] == [True, False, True]


def test_one_hot_of_an_index_out_of_range_is_nowhere_hot() -> None:
    reference = OPERATORS["relax.one_hot"].reference
    found = reference(np.array([1, -1, 7]), 1.0, 0.0, depth=3, axis=0)
    np.testing.assert_array_equal(found, [[0, 0, 0], [1, 0, 0], [0, 0, 0]])
