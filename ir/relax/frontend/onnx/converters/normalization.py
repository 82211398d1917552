"""Normalizations and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr, const

from ..context import NodeContext, computed_widely
from ..registry import converter

MICROSOFT = "com.microsoft"


@converter("BatchNormalization")
def _batch_normalization(ctx: NodeContext) -> Any:
    if ctx.attr("training_mode", 0):
        raise ctx.error("training mode is not supported; export the model in inference mode (model.eval())")
    out = _op.nn.batch_norm(
        ctx.expr(0),
        gamma=ctx.expr(1),
        beta=ctx.expr(2),
        moving_mean=ctx.expr(3),
        moving_var=ctx.expr(4),
        axis=1,
        epsilon=float(ctx.attr("epsilon", 1e-5)),
        training=False,
    )
    return [ctx.emit(out)[0]]


@converter("InstanceNormalization")
@computed_widely()
def _instance_normalization(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    rank = ctx.rank(x)
    return _standardized(
        ctx,
        x,
        list(range(2, rank)),
        float(ctx.attr("epsilon", 1e-5)),
        ctx.expr(1),
        ctx.expr(2),
        [1, -1, *[1] * (rank - 2)],
    )


def _standardized(
    ctx: NodeContext,
    x: Expr,
    axes: list[int],
    epsilon: float,
    scale: Expr,
    bias: Expr | None,
    shape: list[int],
) -> Expr:
    """``(x - mean) / sqrt(var + epsilon) * scale + bias`` with scale and bias in the given shape."""
    mean = ctx.emit(_op.mean(x, axes, keepdims=True))
    centered = ctx.emit(_op.subtract(x, mean))
    variance = ctx.emit(_op.mean(_op.multiply(centered, centered), axes, keepdims=True))
    normed = ctx.emit(_op.divide(centered, _op.sqrt(_op.add(variance, ctx.scalar(epsilon, x)))))
    out = ctx.emit(_op.multiply(normed, _op.reshape(scale, shape)))
    return out if bias is None else _op.add(out, _op.reshape(bias, shape))


@converter("LayerNormalization", since=1)
def _layer_normalization(ctx: NodeContext) -> Any:
    x = ctx.expr(0)
    epsilon = float(ctx.attr("epsilon", 1e-5))
    normed = _layer_norm_of(ctx, x, ctx.expr(1), ctx.optional(2), epsilon)
    if ctx.n_outputs == 1:
        return normed
    axes = list(range(ctx.axis(int(ctx.attr("axis", -1)), ctx.rank(x)), ctx.rank(x)))
    if ctx.dtype(x) in ("float16", "bfloat16"):
        x = ctx.emit(_op.astype(x, "float32"))  # in which the statistics come out, too
    mean = ctx.emit(_op.mean(x, axes, keepdims=True))
    centered = ctx.emit(_op.subtract(x, mean))
    variance = ctx.emit(_op.mean(_op.multiply(centered, centered), axes, keepdims=True))
    return [normed, mean, _op.divide(ctx.scalar(1, x), _op.sqrt(_op.add(variance, ctx.scalar(epsilon, x))))]


def _layer_norm_of(ctx: NodeContext, x: Expr, scale: Expr, bias: Expr | None, epsilon: float) -> Expr:
    rank = ctx.rank(x)
    axis = ctx.axis(int(ctx.attr("axis", -1)), rank)
    shape = ctx.shape(x)[axis:]
    gamma = _spread(ctx, scale, shape)
    if bias is None:
        bias = (
            _op.zeros(shape, ctx.dtype(x))
            if not all(isinstance(dim, int) for dim in shape)
            else const(np.zeros([int(dim) for dim in shape if isinstance(dim, int)]), ctx.dtype(x))
        )
    return _op.nn.layer_norm(
        x, gamma, _spread(ctx, bias, shape), axes=list(range(axis - rank, 0)), epsilon=epsilon
    )


def _spread(ctx: NodeContext, weight: Expr, shape: list[Any]) -> Expr:
    """A weight in the full shape of the normalized axes; ONNX lets it broadcast."""
    known = weight.struct_info_
    if known is not None and [str(dim) for dim in ctx.shape(weight)] == [str(dim) for dim in shape]:
        return weight
    return ctx.emit(_op.broadcast_to(weight, shape))


@converter("RMSNormalization", since=23)
@converter("SimplifiedLayerNormalization", since=1)
def _rms_normalization(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    rank = ctx.rank(x)
    axis = ctx.axis(int(ctx.attr("axis", -1)), rank)
    scale = _spread(ctx, ctx.expr(1), ctx.shape(x)[axis:])
    return _op.nn.rms_norm(x, scale, list(range(axis - rank, 0)), float(ctx.attr("epsilon", 1e-5)))


@converter("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_normalization(ctx: NodeContext) -> Any:
    total = ctx.emit(_op.add(ctx.expr(0), ctx.expr(1)))
    if ctx.has(4):
        total = ctx.emit(_op.add(total, ctx.expr(4)))
    normed = _layer_norm_of(ctx, total, ctx.expr(2), ctx.optional(3), float(ctx.attr("epsilon", 1e-12)))
    if ctx.n_outputs == 1:
        return normed
    # The outputs between, mean and inverse deviation, exist for training only; exporters leave their names empty.
    return [normed, None, None, total]


@converter("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_rms_normalization(ctx: NodeContext) -> Expr:
    total = ctx.emit(_op.add(ctx.expr(0), ctx.expr(1)))
    if ctx.n_outputs > 1:
        raise ctx.error("only the first output is supported")
    return _op.nn.rms_norm(total, ctx.expr(2), [-1], float(ctx.attr("epsilon", 1e-6)))


@converter("GroupNormalization", since=18)
def _group_normalization(ctx: NodeContext) -> Expr:
    x, groups = ctx.expr(0), int(ctx.attr("num_groups"))
    rank = ctx.rank(x)
    scale, bias = ctx.expr(1), ctx.expr(2)
    if ctx.opset < 21:
        # Scale and bias were one for each group, before they became one for each channel.
        repeats = ctx.static_shape(x, [1])[0] // groups
        scale, bias = (ctx.emit(_op.repeat(item, repeats, 0)) for item in (scale, bias))
    return _op.nn.group_norm(
        x,
        scale,
        bias,
        num_groups=groups,
        channel_axis=1,
        axes=list(range(2, rank)),
        epsilon=float(ctx.attr("epsilon", 1e-5)),
    )


@converter("LpNormalization")
@computed_widely()
def _lp_normalization(ctx: NodeContext) -> Expr:
    x, axis, p = ctx.expr(0), int(ctx.attr("axis", -1)), int(ctx.attr("p", 2))
    if p == 1:
        norm = _op.sum(_op.abs(x), [axis], keepdims=True)
    else:
        norm = _op.sqrt(_op.sum(_op.multiply(x, x), [axis], keepdims=True))
    norm, zero = ctx.emit(norm), ctx.scalar(0, x)
    return _op.where(_op.equal(norm, zero), zero, _op.divide(x, norm))


@converter("MeanVarianceNormalization", since=9)
@computed_widely()
def _mean_variance_normalization(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    axes = [int(axis) for axis in ctx.attr("axes", [0, 2, 3])]
    mean = ctx.emit(_op.mean(x, axes, keepdims=True))
    centered = ctx.emit(_op.subtract(x, mean))
    variance = ctx.emit(_op.mean(_op.multiply(centered, centered), axes, keepdims=True))
    return _op.divide(centered, _op.add(_op.sqrt(variance), ctx.scalar(1e-9, x)))


@converter("LRN")
@computed_widely()
def _lrn(ctx: NodeContext) -> Expr:
    """Local response normalization: divided by a power of the sum of squares over neighbouring channels."""
    x, size = ctx.expr(0), int(ctx.attr("size"))
    rank = ctx.rank(x)
    channels = ctx.static_shape(x, [1])[0]
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    widths = [0, 0, before, after, *[0, 0] * (rank - 2)]
    squares = ctx.emit(_op.nn.pad(ctx.emit(_op.multiply(x, x)), widths))
    total = ctx.emit(_op.strided_slice(squares, [1], [0], [channels]))
    for offset in range(1, size):
        total = ctx.emit(_op.add(total, _op.strided_slice(squares, [1], [offset], [offset + channels])))
    alpha, beta = float(ctx.attr("alpha", 1e-4)), float(ctx.attr("beta", 0.75))
    base = _op.add(ctx.scalar(ctx.attr("bias", 1.0), x), _op.multiply(total, ctx.scalar(alpha / size, x)))
    return _op.divide(x, _op.power(ctx.emit(base), ctx.scalar(beta, x)))
