"""Normalizations: batch, layer, group, instance, RMS, local response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...error import IRValueError
from ...te.reduction import comm_reducer
from ...te.reduction import sum as te_sum
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import PrimExpr
from ...tir.operators import cast, const, convert, power
from .. import broadcast as B
from .. import tag
from ..accumulate import accumulator, rounded
from ..math import cast as cast_tensor
from ..math import sqrt
from ..reduction import _reduce_axes, _source_indices, comm_reduce
from ..reduction import sum as sum_over
from ..shape import as_int, ax_compute, normalize_axes, normalize_axis, product
from ..transform import reshape
from .conv import reduce_over
from .pad import ax_pad

_pair_sum = comm_reducer(
    lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (const(0, a), const(0, b)), name="pair_sum"
)


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """``(x - mean) / sqrt(var + epsilon) * gamma + beta`` per index along ``axis``: [out, mean, var].

    With ``training`` mean and variance are those of the data, and the moving ones are updated by ``momentum``;
    without it (the default) the moving ones are used and returned.
    """
    if accumulator(data.dtype) != data.dtype:
        x, weight, bias, mean, var = (
            cast_tensor(item, accumulator(data.dtype))
            for item in (data, gamma, beta, moving_mean, moving_var)
        )
        found = batch_norm(x, weight, bias, mean, var, axis, epsilon, center, scale, training, momentum)
        return [cast_tensor(item, data.dtype) for item in found]
    along = normalize_axis(1 if axis is None else axis, data.ndim)
    small = 1e-5 if epsilon is None else epsilon
    blend = 0.1 if momentum is None else momentum
    shape = [data.shape[i] if i == along else const(1, data.shape[along].dtype) for i in range(data.ndim)]
    if training:
        others = [i for i in range(data.ndim) if i != along]
        count = cast(data.dtype, convert(product(data.shape[i] for i in others)))
        mean = B.divide(sum_over(data, others), count)
        mean_rs = reshape(mean, shape)
        centered = B.subtract(data, mean_rs)
        var = B.divide(sum_over(B.multiply(centered, centered), others), count)
        var_rs = reshape(var, shape)
    else:
        mean_rs, var_rs = reshape(moving_mean, shape), reshape(moving_var, shape)
    out = B.divide(B.subtract(data, mean_rs), sqrt(B.add(var_rs, const(small, data.dtype))))
    if scale is not False:
        out = B.multiply(out, reshape(gamma, shape))
    if center is not False:
        out = B.add(out, reshape(beta, shape))
    if training:
        return [
            out,
            B.add(B.multiply(1 - blend, moving_mean), B.multiply(blend, mean)),
            B.add(B.multiply(1 - blend, moving_var), B.multiply(blend, var)),
        ]
    return [out, B.multiply(moving_mean, 1), B.multiply(moving_var, 1)]


def _moments(data: Tensor, axes: list[int], accumulate: str, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Mean of the elements over ``axes``, and sums of the distances from their mean and of the squares of those.

    The distances would sum to zero if the mean were exact; their sum corrects it. That is the corrected two-pass algorithm of
    Chan, Golub and LeVeque (Algorithms for computing the sample variance, 1983): the difference between the mean of squares and
    the square of the mean, in one pass, has no right digit where the mean is far from zero.
    """
    inner = _reduce_axes(data, axes)
    shape = [extent for axis, extent in enumerate(data.shape) if axis not in axes]

    def value(i: tuple[Any, ...], over: Any) -> PrimExpr:
        return cast(accumulate, data(*_source_indices(data, i, axes, over, False)))

    total = ax_compute(shape, lambda i: te_sum(value(i, inner), axis=inner), f"{name}_red", tag.COMM_REDUCE)
    count = _count(data, axes, accumulate)
    mean = ax_compute(shape, lambda i: total(*i) / count, "mean", tag.INJECTIVE)
    again = _reduce_axes(data, axes)

    def element(i: tuple[Any, ...]) -> Any:
        distance = value(i, again) - mean(*i)
        return _pair_sum((distance, distance * distance), again)

    sums: Any = ax_compute(shape, element, f"{name}_red_temp", tag.COMM_REDUCE)
    return mean, *sums


def _count(data: Tensor, axes: list[int], dtype: str) -> PrimExpr:
    """The number of elements along ``axes``."""
    return cast(dtype, convert(product(data.shape[axis] for axis in axes)))


def _normalized(
    data: Tensor,
    axes: list[int],
    epsilon: float,
    name: str,
    affine: Callable[[PrimExpr, tuple[Any, ...]], PrimExpr],
    grouped: Tensor | None = None,
    split: Callable[[tuple[Any, ...]], Sequence[Any]] = tuple,
) -> Tensor:
    """``(x - mean) * rsqrt(var + epsilon)`` over ``axes``, then ``affine(value, indices)``.

    With ``grouped``, the data with one more axis, the axes are its axes, and ``split`` makes its indices of the data's.
    """
    source = grouped or data
    accumulate = accumulator(data.dtype)
    mean, distances, squares = _moments(source, axes, accumulate, data.op.name)
    count = _count(source, axes, accumulate)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        outer = [index for axis, index in enumerate(split(i)) if axis not in axes]
        error = distances(*outer) / count  # of the mean
        variance = squares(*outer) / count - error * error
        centered = cast(accumulate, data(*i)) - mean(*outer) - error
        return cast(data.dtype, affine(centered * T.rsqrt(variance + const(epsilon, accumulate)), i))

    return ax_compute(data.shape, element, name, tag.INJECTIVE)


def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Normalization over ``axis`` (one or more axes); ``gamma`` and ``beta`` have the shape of those axes."""
    axes = sorted(normalize_axes(axis, data.ndim))

    def affine(value: PrimExpr, i: tuple[Any, ...]) -> PrimExpr:
        inner = [i[position] for position in axes]
        value = value * gamma(*inner).astype(value.dtype)
        return value if beta is None else value + beta(*inner).astype(value.dtype)

    return _normalized(data, axes, epsilon, "T_layer_norm", affine)


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: int = 1, axis: Any = None, epsilon: float = 1e-5
) -> Tensor:
    """Normalization over the spatial axes ``axis`` (default: all behind the channel) for each channel of each sample."""
    channel = normalize_axis(channel_axis, data.ndim)
    axes = sorted(normalize_axes(axis if axis is not None else list(range(2, data.ndim)), data.ndim))

    def affine(value: PrimExpr, i: tuple[Any, ...]) -> PrimExpr:
        return value * gamma(i[channel]).astype(value.dtype) + beta(i[channel]).astype(value.dtype)

    return _normalized(data, axes, epsilon, "T_instance_norm", affine)


def group_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalization over ``axes`` and the channels of each of ``num_groups`` groups."""
    channel = normalize_axis(channel_axis, data.ndim)
    spatial = normalize_axes(list(axes), data.ndim)
    if channel in spatial:
        raise IRValueError(f"group_norm: axes {spatial} include the channel axis {channel}")
    channels = data.shape[channel]
    per_group = channels // num_groups
    shape = [*data.shape[:channel], const(num_groups, channels.dtype), per_group, *data.shape[channel + 1 :]]

    def joined(i: tuple[Any, ...]) -> Sequence[Any]:
        return [*i[:channel], i[channel] * per_group + i[channel + 1], *i[channel + 2 :]]

    def split(i: tuple[Any, ...]) -> Sequence[Any]:
        return [*i[:channel], i[channel] // per_group, i[channel] % per_group, *i[channel + 1 :]]

    def affine(value: PrimExpr, i: tuple[Any, ...]) -> PrimExpr:
        return value * gamma(i[channel]).astype(value.dtype) + beta(i[channel]).astype(value.dtype)

    grouped = ax_compute(shape, lambda i: data(*joined(i)), "grouped", tag.INJECTIVE)
    reduced = sorted([channel + 1, *[axis + 1 if axis > channel else axis for axis in spatial]])
    return _normalized(data, reduced, epsilon, "T_group_norm", affine, grouped, split)


def rms_norm(data: Tensor, weight: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """``x / sqrt(mean(x * x) + epsilon) * weight`` over ``axis``, accumulated in float32."""
    axes = sorted(normalize_axes(axis, data.ndim))
    source = data if data.dtype == "float32" or data.dtype == "float64" else cast_tensor(data, "float32")
    kind = source.dtype
    squares = B.multiply(source, source)
    total = sum_over(squares, axes)
    count = cast(kind, convert(product(data.shape[position] for position in axes)))
    inverse = ax_compute(
        total.shape, lambda i: T.rsqrt(total(*i) / count + const(epsilon, kind)), "rsqrt", tag.INJECTIVE
    )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        outer = [index for position, index in enumerate(i) if position not in axes]
        inner = [i[position] for position in axes]
        value = source(*i) * inverse(*outer)
        return cast(data.dtype, value * cast(kind, weight(*inner)))

    return ax_compute(data.shape, element, "T_rms_norm", tag.INJECTIVE)


def lrn(
    data: Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2
) -> Tensor:
    """Local response normalization: ``x / (bias + alpha / size * sum of squares around x along axis) ** beta``."""
    along = normalize_axis(axis, data.ndim)
    width = as_int(size, "size")
    if width % 2 == 0:
        raise IRValueError(f"lrn: size must be odd, got {width}")
    amounts = [width // 2 if position == along else 0 for position in range(data.ndim)]
    padded = ax_pad(data, amounts, amounts, 0, "pad_data")
    rxs = reduce_over(const(width, data.shape[along].dtype), "rxs")
    total = accumulator(data.dtype)

    def squares(i: tuple[Any, ...]) -> PrimExpr:
        place = list(i)
        place[along] = i[along] + rxs.var
        value = padded(*place).astype(total)
        return te_sum(value * value, axis=rxs)

    sqr_sum = ax_compute(data.shape, squares, "tensor")
    scaled = ax_compute(
        data.shape,
        lambda i: power(
            const(bias, total) + const(alpha, total) * sqr_sum(*i) / const(width, total), const(beta, total)
        ),
        "tensor",
    )
    return ax_compute(
        data.shape,
        lambda i: (data(*i).astype(total) / scaled(*i)).astype(data.dtype),
        "T_divide",
        tag.BROADCAST,
    )


def l2_normalize(data: Tensor, eps: float, axis: Any = None) -> Tensor:
    """``x / sqrt(max(sum(x * x), eps))`` over ``axis``."""
    total = accumulator(data.dtype)
    wide = data if data.dtype == total else cast_tensor(data, total)
    squares = comm_reduce(B.multiply(wide, wide), axis, True, te_sum)
    return rounded(B.divide(wide, sqrt(B.maximum(squares, const(eps, total)))), data.dtype)
