"""Matrix products, convolutions and pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr, const
from ir.relax.struct_info import TensorStructInfo

from ..context import Known, NodeContext, computed_widely
from ..registry import converter

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


@converter("MatMul")
def _mat_mul(ctx: NodeContext) -> Expr:
    return _op.matmul(ctx.expr(0), ctx.expr(1))


def _transposed(ctx: NodeContext, index: int) -> Expr:
    """A matrix transposed, at once when it is a constant."""
    value = ctx.inputs[index]
    if isinstance(value, Known) and not value.is_param and not value.is_symbolic:
        return const(np.ascontiguousarray(value.array.T), str(value.array.dtype))
    return _op.permute_dims(ctx.expr(index), [1, 0])


@converter("Gemm")
def _gemm(ctx: NodeContext) -> Expr:
    alpha, beta = float(ctx.attr("alpha", 1.0)), float(ctx.attr("beta", 1.0))
    a, b = (_transposed(ctx, i) if ctx.attr(f"trans{'AB'[i]}", 0) else ctx.expr(i) for i in (0, 1))
    out = ctx.emit(_op.matmul(a, b))
    if alpha != 1.0:
        out = ctx.emit(_op.multiply(out, ctx.scalar(alpha, out)))
    if not ctx.has(2) or beta == 0.0:
        return out
    bias = ctx.expr(2)
    return _op.add(out, bias if beta == 1.0 else _op.multiply(bias, ctx.scalar(beta, out)))


@converter("FusedMatMul", domain="com.microsoft")
def _fused_mat_mul(ctx: NodeContext) -> Expr:
    a, b = ctx.expr(0), ctx.expr(1)
    if ctx.attr("transBatchA", 0) or ctx.attr("transBatchB", 0):
        raise ctx.error("transposed batches are not supported")

    def swapped(x: Expr) -> Expr:
        rank = ctx.rank(x)
        return _op.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])

    out = _op.matmul(swapped(a) if ctx.attr("transA", 0) else a, swapped(b) if ctx.attr("transB", 0) else b)
    alpha = float(ctx.attr("alpha", 1.0))
    return out if alpha == 1.0 else _op.multiply(ctx.emit(out), ctx.scalar(alpha, a))


# ---------------------------------------------------------------------------------------------------- convolutions
def _window(ctx: NodeContext, x: Expr, kernel: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Strides, paddings (all begins, then all ends) and dilations of a window over the spatial axes."""
    spatial = len(kernel)
    strides = [int(item) for item in ctx.attr("strides", [1] * spatial)]
    dilations = [int(item) for item in ctx.attr("dilations", [1] * spatial)]
    auto = ctx.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        return strides, [int(item) for item in ctx.attr("pads", [0] * (2 * spatial))], dilations
    if auto == "VALID":
        return strides, [0] * (2 * spatial), dilations
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise ctx.error(f"auto_pad {auto!r} is unknown")
    extents = ctx.static_shape(x, list(range(2, 2 + spatial)))
    begins, ends = [], []
    for extent, size, stride, dilation in zip(extents, kernel, strides, dilations):
        total = max(0, (-(-extent // stride) - 1) * stride + (size - 1) * dilation + 1 - extent)
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return strides, begins + ends, dilations


def _biased(ctx: NodeContext, out: Expr, spatial: int) -> Expr:
    if not ctx.has(2):
        return out
    bias = ctx.known(2)
    shape = [1, -1, *[1] * spatial]
    if bias is not None and bias.dtype != object and not getattr(ctx.inputs[2], "is_param", False):
        return _op.add(out, const(bias.reshape(shape), str(bias.dtype)))
    offset, channels = ctx.emit(ctx.expr(2)), ctx.shape(out)[1]
    if isinstance(channels, int) and ctx.shape(offset) != [channels]:
        offset = ctx.builder.match_cast(offset, TensorStructInfo([channels], ctx.dtype(offset)))
    return _op.add(out, _op.reshape(offset, shape))


def _with_kernel(ctx: NodeContext, weight: Expr) -> tuple[Expr, list[int]]:
    """A weight, and its spatial extents: those of ``kernel_shape`` if the weight's are symbolic, which the run compares."""
    shape, spatial = ctx.shape(weight), range(2, ctx.rank(weight))
    given = [int(item) for item in ctx.attr("kernel_shape") or ctx.static_shape(weight, spatial)]
    if any(not isinstance(dim, int) for dim in shape[2:]):
        meant = TensorStructInfo([*shape[:2], *given], ctx.dtype(weight))
        weight = ctx.builder.match_cast(ctx.emit(weight), meant)
    return weight, given


@converter("Conv")
def _conv(ctx: NodeContext) -> Expr:
    x, weight = ctx.expr(0), ctx.expr(1)
    spatial = ctx.rank(x) - 2
    if spatial not in _SPATIAL:
        raise ctx.error(f"convolution over {spatial} axes is not supported; one, two or three are")
    weight, kernel = _with_kernel(ctx, weight)
    strides, pads, dilations = _window(ctx, x, kernel)
    make = {1: _op.nn.conv1d, 2: _op.nn.conv2d, 3: _op.nn.conv3d}[spatial]
    axes = _SPATIAL[spatial]
    out = make(
        x,
        weight,
        strides=strides,
        padding=pads,
        dilation=dilations,
        groups=int(ctx.attr("group", 1)),
        data_layout="NC" + axes,
        kernel_layout="OI" + axes,
    )
    return _biased(ctx, ctx.emit(out) if ctx.has(2) else out, spatial)


@converter("ConvTranspose")
def _conv_transpose(ctx: NodeContext) -> Expr:
    x, weight = ctx.expr(0), ctx.expr(1)
    spatial = ctx.rank(x) - 2
    makes = {1: _op.nn.conv1d_transpose, 2: _op.nn.conv2d_transpose, 3: _op.nn.conv3d_transpose}
    if spatial not in makes:
        raise ctx.error(f"transposed convolution over {spatial} axes is not supported; one, two or three are")
    weight, kernel = _with_kernel(ctx, weight)
    strides = [int(item) for item in ctx.attr("strides", [1] * spatial)]
    dilations = [int(item) for item in ctx.attr("dilations", [1] * spatial)]
    extra = [int(item) for item in ctx.attr("output_padding", [0] * spatial)]
    pads, extra = _transposed_pads(ctx, x, kernel, strides, dilations, extra)
    axes = _SPATIAL[spatial]
    out = makes[spatial](
        x,
        weight,
        strides=strides,
        padding=pads,
        output_padding=extra,
        dilation=dilations,
        groups=int(ctx.attr("group", 1)),
        data_layout="NC" + axes,
        kernel_layout="IO" + axes,
    )
    return _biased(ctx, ctx.emit(out) if ctx.has(2) else out, spatial)


def _transposed_pads(
    ctx: NodeContext, x: Expr, kernel: list[int], strides: list[int], dilations: list[int], extra: list[int]
) -> tuple[list[int], list[int]]:
    """Paddings (of input and output) of a transposed convolution: given, or such that the result gets the wanted shape."""
    spatial = len(kernel)
    auto = ctx.attr("auto_pad", "NOTSET")
    wanted = ctx.attr("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [
            extent * stride for extent, stride in zip(ctx.static_shape(x, range(2, 2 + spatial)), strides)
        ]
    if wanted is None:
        return [int(item) for item in ctx.attr("pads", [0] * (2 * spatial))], extra
    begins, ends, added = [], [], []
    extents = ctx.static_shape(x, range(2, 2 + spatial))
    for i, extent in enumerate(extents):
        natural = strides[i] * (extent - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        surplus = natural - int(wanted[-spatial:][i])
        total = max(0, surplus)
        added.append(extra[i] + max(0, -surplus))
        half = total // 2
        begins.append(half if auto == "SAME_UPPER" else total - half)
        ends.append(total - begins[-1])
    return begins + ends, added


# --------------------------------------------------------------------------------------------------------- pooling
def _pool_maker(kind: str, spatial: int) -> Any:
    return getattr(_op.nn, f"{kind}_pool{spatial}d")


@converter("MaxPool")
def _max_pool(ctx: NodeContext) -> Expr:
    if ctx.n_outputs > 1:
        raise ctx.error("the indices of the maxima are not supported as an output")
    if ctx.attr("storage_order", 0):
        raise ctx.error("storage_order=1 (column major) is not supported")
    return _pooled(ctx, "max", {})


@converter("AveragePool")
def _average_pool(ctx: NodeContext) -> Expr:
    return _pooled(ctx, "avg", {"count_include_pad": bool(ctx.attr("count_include_pad", 0))})


def _pooled(ctx: NodeContext, kind: str, options: dict[str, Any], x: Expr | None = None) -> Expr:
    x = ctx.expr(0) if x is None else x
    kernel = [int(item) for item in ctx.attr("kernel_shape")]
    if len(kernel) not in _SPATIAL:
        raise ctx.error(f"pooling over {len(kernel)} axes is not supported; one, two or three are")
    strides, pads, dilations = _window(ctx, x, kernel)
    if ctx.attr("ceil_mode", 0):
        spatial = len(kernel)
        ends = _ceil_ends(ctx, x, kernel, strides, pads, dilations)
        if options.get("count_include_pad"):
            # The model's own padding counts as input, what rounding up adds behind it does not.
            given = [min(end, pad) for end, pad in zip(ends, pads[spatial:])]
            widths = [width for pair in zip(pads[:spatial], given) for width in pair]
            x = ctx.emit(_op.nn.pad(x, [0, 0, 0, 0, *widths]))
            ends = [end - pad for end, pad in zip(ends, given)]
            pads, options = [0] * (2 * spatial), {"count_include_pad": False}
        pads = pads[:spatial] + ends
    return _pool_maker(kind, len(kernel))(
        x, pool_size=kernel, strides=strides, padding=pads, dilation=dilations, ceil_mode=False, **options
    )


def _ceil_ends(
    ctx: NodeContext, x: Expr, kernel: list[int], strides: list[int], pads: list[int], dilations: list[int]
) -> list[int]:
    """Padding behind each axis with which rounding down gives the windows that ONNX has when it rounds up.

    A last window that would begin behind the input, in the padding, is left out.
    """
    spatial = len(kernel)
    ends = []
    for i, extent in enumerate(ctx.static_shape(x, list(range(2, 2 + spatial)))):
        span = (kernel[i] - 1) * dilations[i] + 1
        padded = extent + pads[i] + pads[i + spatial]
        count = -(-(padded - span) // strides[i]) + 1
        if (count - 1) * strides[i] >= extent + pads[i]:
            count -= 1
        ends.append(max(0, (count - 1) * strides[i] + span - extent - pads[i]))
    return ends


@converter("LpPool")
@computed_widely()
def _lp_pool(ctx: NodeContext) -> Expr:
    x, p = ctx.expr(0), float(ctx.attr("p", 2))
    powers = ctx.emit(_op.multiply(x, x) if p == 2 else _op.power(_op.abs(x), ctx.scalar(p, x)))
    kernel = [int(item) for item in ctx.attr("kernel_shape")]
    strides, pads, dilations = _window(ctx, x, kernel)
    if ctx.attr("ceil_mode", 0):
        pads = pads[: len(kernel)] + _ceil_ends(ctx, x, kernel, strides, pads, dilations)
    # Padding, the model's own and what rounding up adds, brings nothing to a sum: it is the mean over whole windows times their size.
    widths = [width for pair in zip(pads[: len(kernel)], pads[len(kernel) :], strict=True) for width in pair]
    if any(widths):
        powers = ctx.emit(_op.nn.pad(powers, [0, 0, 0, 0, *widths]))
    mean = ctx.emit(
        _pool_maker("avg", len(kernel))(powers, pool_size=kernel, strides=strides, dilation=dilations)
    )
    size = math.prod(kernel)
    total = ctx.emit(_op.multiply(mean, ctx.scalar(size, x)))
    return _op.sqrt(total) if p == 2 else _op.power(total, ctx.scalar(1.0 / p, x))


@converter("GlobalAveragePool")
def _global_average_pool(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.mean(x, list(range(2, ctx.rank(x))), keepdims=True)


@converter("GlobalMaxPool")
def _global_max_pool(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.max(x, list(range(2, ctx.rank(x))), keepdims=True)


@converter("GlobalLpPool", since=2)
@computed_widely()
def _global_lp_pool(ctx: NodeContext) -> Expr:
    x, p = ctx.expr(0), float(ctx.attr("p", 2))
    axes = list(range(2, ctx.rank(x)))
    total = ctx.emit(_op.sum(_op.power(_op.abs(x), ctx.scalar(p, x)), axes, keepdims=True))
    return _op.power(total, ctx.scalar(1.0 / p, x))


@converter("MatMulInteger", since=10)
def _mat_mul_integer(ctx: NodeContext) -> Expr:
    factors: list[Expr] = []
    for index, zero in ((0, 2), (1, 3)):
        value = ctx.emit(_op.astype(ctx.expr(index), "int32"))
        if ctx.has(zero) and (ctx.known(zero) is None or np.any(ctx.known(zero))):
            point = ctx.emit(_op.astype(ctx.expr(zero), "int32"))
            if index == 0 and ctx.rank(point) == 1 and ctx.shape(point) != [1]:
                point = ctx.emit(_op.reshape(point, [-1, 1]))  # one for each row
            value = ctx.emit(_op.subtract(value, point))
        factors.append(value)
    return _op.matmul(factors[0], factors[1])
