"""Activation functions, softmax among them."""

from __future__ import annotations

import numpy as np

from ir import dtype as dt
from ir.relax import op as _op
from ir.relax.expr import Expr, PrimValue
from ir.tir.operators import const

from ..context import NodeContext
from ..registry import converter

MICROSOFT = "com.microsoft"


@converter("Relu")
def _relu(ctx: NodeContext) -> Expr:
    return _op.nn.relu(ctx.expr(0))


@converter("LeakyRelu")
def _leaky_relu(ctx: NodeContext) -> Expr:
    return _op.nn.leakyrelu(ctx.expr(0), float(ctx.attr("alpha", 0.01)))


@converter("PRelu")
def _prelu(ctx: NodeContext) -> Expr:
    x, slope = ctx.expr(0), ctx.expr(1)
    rank, slope_rank = ctx.rank(x), ctx.rank(slope)
    if ctx.opset < 7 and slope_rank == 1 and rank > 1 and ctx.shape(slope) != [1]:
        # Before opset 7 a one-dimensional slope belonged to the channels.
        slope = _op.reshape(slope, [-1, *[1] * (rank - 2)])
    zero = ctx.scalar(0, x)
    return _op.where(_op.less(x, zero), _op.multiply(x, slope), x)


@converter("ThresholdedRelu", since=10)
def _thresholded_relu(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.where(_op.greater(x, ctx.scalar(ctx.attr("alpha", 1.0), x)), x, ctx.scalar(0, x))


def _exponential_unit(
    ctx: NodeContext, x: Expr, alpha: float, width: float = 1.0, gamma: float = 1.0
) -> Expr:
    """``gamma * x`` above zero and ``gamma * alpha * (exp(x / width) - 1)`` below."""
    scaled = x if width == 1.0 else _op.divide(x, ctx.scalar(width, x))
    below = _op.multiply(ctx.scalar(alpha, x), _op.subtract(_op.exp(scaled), ctx.scalar(1, x)))
    result = _op.where(_op.greater(x, ctx.scalar(0, x)), x, below)
    return result if gamma == 1.0 else _op.multiply(ctx.scalar(gamma, x), result)


@converter("Elu")
def _elu(ctx: NodeContext) -> Expr:
    return _exponential_unit(ctx, ctx.expr(0), float(ctx.attr("alpha", 1.0)))


@converter("Selu")
def _selu(ctx: NodeContext) -> Expr:
    alpha = float(ctx.attr("alpha", 1.67326319217681884765625))
    return _exponential_unit(
        ctx, ctx.expr(0), alpha, gamma=float(ctx.attr("gamma", 1.05070102214813232421875))
    )


@converter("Celu", since=12)
def _celu(ctx: NodeContext) -> Expr:
    alpha = float(ctx.attr("alpha", 1.0))
    return _exponential_unit(ctx, ctx.expr(0), alpha, width=alpha)


@converter("HardSigmoid")
def _hard_sigmoid(ctx: NodeContext) -> Expr:
    return _hard_sigmoid_of(ctx, ctx.expr(0), float(ctx.attr("alpha", 0.2)), float(ctx.attr("beta", 0.5)))


def _hard_sigmoid_of(ctx: NodeContext, x: Expr, alpha: float, beta: float) -> Expr:
    return _op.clip(_op.add(_op.multiply(x, ctx.scalar(alpha, x)), ctx.scalar(beta, x)), 0.0, 1.0)


@converter("HardSwish", since=14)
def _hard_swish(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.multiply(x, _hard_sigmoid_of(ctx, x, 1.0 / 6.0, 0.5))


@converter("Shrink", since=9)
def _shrink(ctx: NodeContext) -> Expr:
    x, bias, limit = ctx.expr(0), float(ctx.attr("bias", 0.0)), float(ctx.attr("lambd", 0.5))
    if not dt.is_float(ctx.dtype(x)):
        # Of integers too, bias and limit are fractions, and -limit is below zero: the result is cut off to the integer.
        return _op.astype(_shrunk(ctx, ctx.emit(_op.astype(x, "float64")), bias, limit), ctx.dtype(x))
    return _shrunk(ctx, x, bias, limit)


def _shrunk(ctx: NodeContext, x: Expr, bias: float, limit: float) -> Expr:
    above = _op.where(
        _op.greater(x, ctx.scalar(limit, x)), _op.subtract(x, ctx.scalar(bias, x)), ctx.scalar(0, x)
    )
    return _op.where(_op.less(x, ctx.scalar(-limit, x)), _op.add(x, ctx.scalar(bias, x)), above)


def _softplus_of(ctx: NodeContext, x: Expr) -> Expr:
    # max(x, 0) + log(1 + exp(-|x|)) does not overflow for large x.
    small = _op.log(_op.add(ctx.scalar(1, x), _op.exp(_op.negative(_op.abs(x)))))
    return _op.add(_op.nn.relu(x), small)


@converter("Softplus")
def _softplus(ctx: NodeContext) -> Expr:
    return _softplus_of(ctx, ctx.expr(0))


@converter("Softsign")
def _softsign(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.divide(x, _op.add(ctx.scalar(1, x), _op.abs(x)))


@converter("Mish", since=18)
def _mish(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.multiply(x, _op.tanh(_softplus_of(ctx, x)))


@converter("Silu", domain=MICROSOFT)
def _silu(ctx: NodeContext) -> Expr:
    return _op.nn.silu(ctx.expr(0))


@converter("Swish", since=24)
def _swish(ctx: NodeContext) -> Expr:
    x, alpha = ctx.expr(0), float(ctx.attr("alpha", 1.0))
    if alpha == 1.0:
        return _op.nn.silu(x)
    return _op.multiply(x, _op.sigmoid(_op.multiply(x, ctx.scalar(alpha, x))))


@converter("QuickGelu", domain=MICROSOFT)
def _quick_gelu(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.multiply(x, _op.sigmoid(_op.multiply(x, ctx.scalar(float(ctx.attr("alpha", 1.702)), x))))


@converter("Gelu", since=20)
def _gelu(ctx: NodeContext) -> Expr:
    make = _op.nn.gelu_tanh if ctx.attr("approximate", "none") == "tanh" else _op.nn.gelu
    return make(ctx.expr(0))


@converter("Gelu", domain=MICROSOFT)
def _gelu_microsoft(ctx: NodeContext) -> Expr:
    return _op.nn.gelu(ctx.expr(0))


@converter("BiasGelu", domain=MICROSOFT)
def _bias_gelu(ctx: NodeContext) -> Expr:
    return _op.nn.gelu(_op.add(ctx.expr(0), ctx.expr(1)))


@converter("FastGelu", domain=MICROSOFT)
def _fast_gelu(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.nn.gelu_tanh(_op.add(x, ctx.expr(1)) if ctx.has(1) else x)


@converter("Softmax", since=13)
def _softmax(ctx: NodeContext) -> Expr:
    return _op.nn.softmax(ctx.expr(0), int(ctx.attr("axis", -1)))


@converter("LogSoftmax", since=13)
def _log_softmax(ctx: NodeContext) -> Expr:
    return _op.nn.log_softmax(ctx.expr(0), int(ctx.attr("axis", -1)))


@converter("Softmax", "LogSoftmax", since=1)
def _softmax_v1(ctx: NodeContext) -> Expr:
    """Before opset 13 the input was flattened to a matrix at ``axis``, and its rows normalized."""
    x = ctx.expr(0)
    make = _op.nn.softmax if ctx.op_type == "Softmax" else _op.nn.log_softmax
    rank, shape = ctx.rank(x), ctx.shape(x)
    axis = ctx.axis(int(ctx.attr("axis", 1)), rank)
    if axis == rank - 1:
        return make(x, -1)
    rest = int(np.prod(ctx.static_shape(x, list(range(axis, rank))), dtype=np.int64))
    flat = _op.reshape(x, [*shape[:axis], rest])
    return _op.reshape(make(flat, -1), shape)


@converter("Hardmax")
def _hardmax(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    axis = ctx.axis(int(ctx.attr("axis", -1 if ctx.opset >= 13 else 1)), ctx.rank(x))
    depth = ctx.static_shape(x, [axis])[0]
    best = _op.argmax(x, axis, keepdims=False)
    return _op.one_hot(best, _prim(1.0, ctx.dtype(x)), _prim(0.0, ctx.dtype(x)), depth, axis)


def _prim(value: float, dtype: str) -> PrimValue:
    return PrimValue(const(value, dtype))
