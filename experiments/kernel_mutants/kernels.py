"""The kernels whose check is tried: the operator suite in small shapes, and what else models are made of.

Most are small, so that many candidates are judged in an hour. What depends on the size of a kernel (thousands of terms in a sum)
shows in large ones only: those have the shape in their names, as in ``softmax:128x30522`` or ``C3D:1x16x14x14x256x256x3x1x1``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from experiments.operators.first_suite import WORKLOADS
from experiments.operators.suite import tensors
from ir import IRModule, te, topi

Inputs = list[tuple[tuple[int, ...], str]]
F32, F16, BF16 = "float32", "float16", "bfloat16"

_SUITE_SHAPES = {
    "C1D": (1, 32, 8, 16, 3, 2, 1),
    "C2D": (1, 10, 10, 8, 16, 3, 1, 1),
    "C3D": (1, 4, 6, 6, 4, 8, 3, 1, 1),
    "GRP": (1, 10, 10, 8, 16, 3, 2, 1, 1, 4),
    "DIL": (1, 10, 10, 8, 16, 3, 1, 1, 2),
    "DEP": (1, 16, 16, 8, 3, 1, 1),
    "T2D": (1, 6, 6, 8, 8, 4, 2, 1),
    "CAP": (1, 4, 4, 4, 4, 3, 1, 1),
    "GMM": (1, 24, 32, 40),
    "TBG": (1, 16, 3, 16),
    "NRM": (2, 24, 32),
    "SFM": (24, 64),
}


def _attention(q: Any, k: Any, v: Any) -> Any:
    weights = topi.nn.softmax(topi.nn.batch_matmul(q, k) * 0.25, axis=-1)
    return topi.nn.batch_matmul(weights, v, transpose_b=False)


def _masked_attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = topi.where(mask, topi.nn.batch_matmul(q, k), topi.full_like(topi.nn.batch_matmul(q, k), -1e9))
    return topi.nn.batch_matmul(topi.nn.softmax(scores, axis=-1), v, transpose_b=False)


def _integer_product(a: Any, b: Any) -> Any:
    return _summed(a, b, "int32")


def _wide_product(a: Any, b: Any) -> Any:
    return topi.cast(_summed(a, b, F32), a.dtype)


def _summed(a: Any, b: Any, dtype: str) -> Any:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute(
        (a.shape[0], b.shape[0]),
        lambda i, j: te.sum(a[i, k].astype(dtype) * b[j, k].astype(dtype), axis=k),
        name="product",
    )


def _pool(kind: str) -> Callable[[Any], Any]:
    return lambda x: topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], kind)


_OTHERS: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "attention": (_attention, [((2, 12, 16), F32)] * 3),
    "attention_bf16": (_attention, [((2, 12, 16), BF16)] * 3),
    "masked_attention": (_masked_attention, [((2, 12, 16), F32)] * 3 + [((2, 12, 12), "bool")]),
    "dense_relu": (lambda x, w, b: topi.nn.relu(topi.nn.dense(x, w) + b), [((20, 48), F32), ((24, 48), F32), ((24,), F32)]),
    "dense_bf16": (_wide_product, [((16, 64), BF16), ((24, 64), BF16)]),
    "dense_f16": (_wide_product, [((16, 64), F16), ((24, 64), F16)]),
    "dense_int8": (_integer_product, [((16, 64), "int8"), ((24, 64), "int8")]),
    "dense_uint8_int8": (_integer_product, [((16, 64), "uint8"), ((24, 64), "int8")]),
    "softmax": (topi.nn.softmax, [((12, 40), F32)]),
    "softmax_f16": (topi.nn.softmax, [((12, 40), F16)]),
    "log_softmax": (topi.nn.log_softmax, [((12, 40), F32)]),
    "layer_norm": (lambda x, g, b: topi.nn.layer_norm(x, g, b, [1]), [((12, 40), F32), ((40,), F32), ((40,), F32)]),
    "rms_norm": (lambda x, g: topi.nn.rms_norm(x, g, [1]), [((12, 40), F32), ((40,), F32)]),
    "max_pool": (_pool("max"), [((1, 6, 13, 13), F32)]),
    "avg_pool": (_pool("avg"), [((1, 6, 13, 13), F32)]),
    "argmax": (lambda x: topi.argmax(x, axis=1), [((12, 40), F32)]),
    "argmin_int": (lambda x: topi.argmin(x, axis=1), [((12, 40), "int32")]),
    "row_max": (lambda x: topi.max(x, axis=1), [((24, 40), F32)]),
    "row_min": (lambda x: topi.min(x, axis=1), [((24, 40), F32)]),
    "column_sum": (lambda x: topi.sum(x, axis=0), [((48, 33), F32)]),
    "product_of_rows": (lambda x: topi.prod(x, axis=1), [((24, 9), F32)]),
    "cumsum": (lambda x: topi.cumsum(x, axis=1), [((12, 40), F32)]),
    "cumsum_int": (lambda x: topi.cumsum(x, axis=1), [((12, 40), "int32")]),
    "take": (lambda x, i: topi.take(x, i, axis=0, mode="fast"), [((30, 16), F32), ((24,), "int32")]),
    "gather": (lambda x, i: topi.gather(x, 1, i), [((12, 20), F32), ((12, 16), "int64")]),
    "gather_nd": (lambda x, i: topi.gather_nd(x, i), [((12, 10, 8), F32), ((2, 24), "int32")]),
    "one_hot": (lambda i: topi.one_hot(i, 1.0, 0.0, 20, -1, F32), [((24,), "int32")]),
    "transpose": (lambda x: topi.transpose(x, [0, 2, 1]), [((3, 18, 22), F32)]),
    "concatenate": (lambda a, b: topi.concatenate([a, b], axis=1), [((12, 20), F32), ((12, 14), F32)]),
    "pad": (lambda x: topi.nn.pad(x, [1, 2], [1, 3], 0.5), [((12, 20), F32)]),
    "strided_slice": (lambda x: topi.strided_slice(x, [1, 2], [11, 20], [2, 3]), [((12, 20), F32)]),
    "relu": (topi.nn.relu, [((24, 40), F32)]),
    "relu_int8": (lambda x: topi.maximum(x, te.const(0, "int8")), [((24, 40), "int8")]),
    "gelu": (lambda x: x * 0.5 * (1.0 + topi.erf(x * 0.70710678)), [((24, 40), F32)]),
    "silu_f16": (lambda x: x * topi.sigmoid(x), [((24, 40), F16)]),
    "batch_norm": (
        lambda x, s, b: topi.nn.relu(topi.nn.scale_shift_nchw(x, s, b)),
        [((1, 8, 9, 9), F32), ((8,), F32), ((8,), F32)],
    ),
    "conv_bias_relu": (
        lambda x, w, b: topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, 1, 1) + topi.reshape(b, (1, 8, 1, 1))),
        [((1, 6, 9, 9), F32), ((8, 6, 3, 3), F32), ((8,), F32)],
    ),
    "conv_nchw": (lambda x, w: topi.nn.conv2d_nchw(x, w, 2, 1, 1), [((1, 6, 11, 11), F32), ((8, 6, 3, 3), F32)]),
    "depthwise_nchw": (
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1), [((1, 8, 9, 9), F32), ((8, 1, 3, 3), F32)]
    ),
    "quantize": (lambda x: topi.cast(topi.clip(topi.round(x * 12.7), -128, 127), "int8"), [((24, 40), F32)]),
    "dequantize": (lambda x: (topi.cast(x, F32) - 3.0) * 0.125, [((24, 40), "uint8")]),
    "less_than": (lambda a, b: topi.less(a, b), [((24, 40), F32)] * 2),
    "where": (lambda c, a, b: topi.where(c, a, b), [((24, 40), "bool"), ((24, 40), F32), ((24, 40), F32)]),
    "divide_int": (lambda a, b: topi.floor_divide(a, b), [((24, 40), "int32")] * 2),
    "mean_var": (lambda x: topi.sum(x * x, axis=1) / 40.0 - topi.sum(x, axis=1) / 40.0, [((24, 40), F32)]),
    "double_sum": (lambda x: topi.sum(x, axis=1), [((24, 40), "float64")]),
    "sort": (lambda x: topi.sort(x), [((12, 20), F32)]),
    "topk": (lambda x: topi.topk(x, 4)[0], [((12, 20), F32)]),
    "upsampling": (lambda x: topi.nn.upsampling(x, 2, 2), [((1, 4, 6, 6), F32)]),
}  # fmt: skip


_LARGE_SHAPES: dict[str, list[list[tuple[int, ...]]]] = {
    "attention": [[(12, 128, 64)] * 3, [(2, 512, 64)] * 3],
    "attention_bf16": [[(12, 128, 64)] * 3],
    "masked_attention": [[(12, 128, 64)] * 3 + [(12, 128, 128)]],
    "dense_relu": [[(197, 768), (768, 768), (768,)], [(1, 4096), (4096, 4096), (4096,)]],
    "dense_bf16": [[(64, 1024), (1024, 1024)]],
    "dense_f16": [[(16, 4096), (256, 4096)]],
    "dense_int8": [[(128, 1024), (256, 1024)]],
    "dense_uint8_int8": [[(1, 9216), (512, 9216)]],
    "softmax": [[(4096, 64)], [(128, 30522)]],
    "softmax_f16": [[(32, 4096)]],
    "log_softmax": [[(16, 50257)]],
    "layer_norm": [[(197, 768), (768,), (768,)], [(8, 16384), (16384,), (16384,)]],
    "rms_norm": [[(16, 4096), (4096,)]],
    "max_pool": [[(1, 64, 112, 112)]],
    "avg_pool": [[(1, 64, 56, 56)]],
    "argmax": [[(16, 32000)]],
    "argmin_int": [[(16, 32000)]],
    "row_max": [[(64, 4096)]],
    "row_min": [[(4, 200000)]],
    "column_sum": [[(4096, 512)], [(50000, 8)]],
    "product_of_rows": [[(256, 64)]],
    "cumsum": [[(8, 4096)]],
    "cumsum_int": [[(8, 4096)]],
    "take": [[(30522, 768), (128,)]],
    "gather": [[(12, 4096), (12, 512)]],
    "transpose": [[(12, 128, 768)]],
    "concatenate": [[(128, 512), (128, 256)]],
    "gelu": [[(128, 3072)]],
    "silu_f16": [[(128, 3072)]],
    "conv_nchw": [[(1, 64, 56, 56), (128, 64, 3, 3)], [(1, 512, 7, 7), (512, 512, 3, 3)]],
    "depthwise_nchw": [[(1, 32, 112, 112), (32, 1, 3, 3)]],
    "quantize": [[(128, 768)]],
    "double_sum": [[(16, 100000)]],
    "sort": [[(16, 1000)]],
    "topk": [[(4, 1000)]],
    "upsampling": [[(1, 64, 28, 28)]],
}
"""Shapes of the inputs; their dtypes are those of the small kernel."""


def names() -> list[str]:
    """All small kernels."""
    return [*_SUITE_SHAPES, *_OTHERS]


def large_names() -> list[str]:
    """The same operators in sizes of models: the operator suite's own shapes, and others with the shape of their first input."""
    suite = [_with(name, shape) for name, work in WORKLOADS.items() for shape in work.shapes]
    return suite + [_with(name, shapes[0]) for name, many in _LARGE_SHAPES.items() for shapes in many]


def _with(name: str, shape: tuple[int, ...]) -> str:
    return f"{name}:{'x'.join(map(str, shape))}"


def module_of(name: str) -> IRModule:
    """The unscheduled program of a kernel.

    Raises:
        KeyError: there is no kernel of this name.
    """
    operator, _, dims = name.partition(":")
    shape = tuple(map(int, dims.split("x"))) if dims else None
    if operator in WORKLOADS:
        return IRModule({"main": te.create_prim_func(tensors(operator, shape or _SUITE_SHAPES[operator]))})
    function, inputs = _OTHERS[operator]
    if shape is not None:
        (shapes,) = [item for item in _LARGE_SHAPES[operator] if item[0] == shape]
        inputs = [(extents, dtype) for extents, (_, dtype) in zip(shapes, inputs, strict=True)]
    given = [te.placeholder(extents, dtype, f"p{number}") for number, (extents, dtype) in enumerate(inputs)]
    outputs = function(*given)
    return IRModule({"main": te.create_prim_func([*given, outputs])})
