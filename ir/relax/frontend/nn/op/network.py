"""Activations, convolutions, normalizations, attention, resizing and embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr, const
from ir.tir.expr import PrimExpr

from ..error import NNTypeError, NNValueError
from ..tensor import Tensor, wrap_nested
from ..tracing import current_builder


# ----------------------------------------------------------------------------------------------------- activations
def relu(x: Tensor, name: str = "relu") -> Tensor:
    """``max(x, 0)``."""
    return wrap_nested(_op.nn.relu(x._expr), name)


def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """``min(max(x, 0), 6)``."""
    return wrap_nested(_op.clip(x._expr, 0, 6), name)


def silu(x: Tensor, name: str = "silu") -> Tensor:
    """``x * sigmoid(x)`` of a float tensor."""
    return wrap_nested(_op.nn.silu(x._expr), name)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """``0.5 * x * (1 + erf(x * 0.5**0.5))`` of a float tensor, or with ``approximate="tanh"`` its usual approximation."""
    if approximate not in (None, "none", "tanh"):
        raise NNValueError(f"gelu: approximate is None or 'tanh', got {approximate!r}")
    make = _op.nn.gelu_tanh if approximate == "tanh" else _op.nn.gelu
    return wrap_nested(make(x._expr), name)


def sigmoid(x: Tensor, name: str = "sigmoid") -> Tensor:
    """``1 / (1 + exp(-x))`` of a float tensor."""
    return wrap_nested(_op.sigmoid(x._expr), name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """``exp(x) / sum(exp(x))`` of a float tensor, the sum along ``axis``."""
    return wrap_nested(_op.nn.softmax(x._expr, axis), name)


# ---------------------------------------------------------------------------------------------------- convolutions
def _with_bias(out: Expr, bias: Tensor | None, data_layout: str) -> Expr:
    """Add a bias of shape ``[O]`` along the channels."""
    if bias is None:
        return out
    return _op.add(out, _op.reshape(bias._expr, [-1 if axis == "C" else 1 for axis in data_layout]))


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value


def _padding(padding: Any, weight: Tensor, dilation: Any) -> Any:
    """Padding as numbers: ``"same"`` keeps the size at stride one, ``"valid"`` is none."""
    if not isinstance(padding, str):
        return _given(padding, 0)
    kernel = weight.shape[2:]
    if padding.lower() == "valid":
        return 0
    if padding.lower() != "same" or not all(isinstance(size, int) for size in kernel):
        raise NNValueError(
            f"padding is a number, numbers, 'same' (with a kernel of known size) or 'valid', got {padding!r}"
        )
    spread = [dilation or 1] * len(kernel) if not isinstance(dilation, tuple | list) else list(dilation)
    totals = [(int(size) - 1) * step for size, step in zip(kernel, spread) if isinstance(size, int)]
    return [total // 2 for total in totals] + [total - total // 2 for total in totals]


def _layout_and_name(data_layout: str | None, default: str, name: str) -> tuple[str, str]:
    """The layout and the name; in older programs the name stands where the layout came to stand."""
    if data_layout is None:
        return default, name
    return (data_layout, name) if set(data_layout) <= set("NCDHWnchw0123456789") else (default, data_layout)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple | None = 1,
    padding: int | tuple | str | None = 0,
    dilation: int | tuple | None = 1,
    groups: int | None = 1,
    name: str = "conv1d",
) -> Tensor:
    r"""1D convolution.

    .. math:: out[b, c, x] = \sum_{dx, k} data[b, k, stride * x + dx] * weight[c, k, dx]

    Args:
        x: the input, ``[B, C, W]``.
        weight: ``[O, C/groups, kW]``.
        bias: ``[O]``, or None.
        stride: the stride.
        padding: on both sides, one number, or one for each side.
        dilation: the dilation of the kernel.
        groups: groups of channels that are convolved on their own.
    """
    out = _op.nn.conv1d(
        x._expr,
        weight._expr,
        strides=_given(stride, 1),
        padding=_padding(padding, weight, dilation),
        dilation=_given(dilation, 1),
        groups=_given(groups, 1),
    )
    return wrap_nested(_with_bias(out, bias, "NCW"), name)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple | None = 1,
    padding: int | tuple | str | None = 0,
    dilation: int | tuple | None = 1,
    groups: int | None = 1,
    data_layout: str | None = "NCHW",
    name: str = "conv2d",
) -> Tensor:
    """2D convolution of an image.

    Args:
        x: the input, ``[B, C, H, W]`` in the layout NCHW.
        weight: ``[O, C/groups, kH, kW]`` (in that order for every layout of the data).
        bias: ``[O]``, or None.
        stride, padding, dilation: one number or one for each of the two axes.
        groups: groups of channels that are convolved on their own.
        data_layout: the layout of input and output.

    Returns:
        ``[B, O, oH, oW]``.
    """
    layout, name = _layout_and_name(data_layout, "NCHW", name)
    out = _op.nn.conv2d(
        x._expr,
        weight._expr,
        strides=_given(stride, 1),
        padding=_padding(padding, weight, dilation),
        dilation=_given(dilation, 1),
        groups=_given(groups, 1),
        data_layout=layout,
    )
    return wrap_nested(_with_bias(out, bias, layout), name)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple | None = 1,
    padding: int | tuple | str | None = 0,
    dilation: int | tuple | None = 1,
    groups: int | None = 1,
    data_layout: str | None = "NCDHW",
    name: str = "conv3d",
) -> Tensor:
    """3D convolution; ``x`` is ``[B, C, D, H, W]``, ``weight`` ``[O, C/groups, kD, kH, kW]``, the rest as for :func:`conv2d`."""
    layout, name = _layout_and_name(data_layout, "NCDHW", name)
    out = _op.nn.conv3d(
        x._expr,
        weight._expr,
        strides=_given(stride, 1),
        padding=_padding(padding, weight, dilation),
        dilation=_given(dilation, 1),
        groups=_given(groups, 1),
        data_layout=layout,
    )
    return wrap_nested(_with_bias(out, bias, layout), name)


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int] | None = 1,
    padding: int | tuple[int, ...] | None = 0,
    output_padding: int | tuple[int] | None = 0,
    dilation: int | tuple | None = 1,
    groups: int | None = 1,
    name: str = "conv1d_transpose",
) -> Tensor:
    """1D transposed convolution, the gradient of :func:`conv1d`.

    ``x`` is ``[B, C, W]`` and ``weight`` ``[C, O/groups, kW]``, where C is a multiple of ``groups``. The result's width is
    ``(W - 1) * stride + kW - 2 * padding + output_padding``.
    """
    out = _op.nn.conv1d_transpose(
        x._expr,
        weight._expr,
        strides=_given(stride, 1),
        padding=_padding(padding, weight, dilation),
        output_padding=_given(output_padding, 0),
        dilation=_given(dilation, 1),
        groups=_given(groups, 1),
    )
    return wrap_nested(_with_bias(out, bias, "NCW"), name)


# -------------------------------------------------------------------------------------------------- normalizations
def layer_norm(
    x: Tensor,
    normalized_shape: int | list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """Layer normalization (Lei Ba et al., 2016): ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Args:
        x: the input.
        normalized_shape: the shape of the last axes, over which mean and variance are taken; a number is the shape of one axis.
        weight, bias: tensors of that shape; None stands for ones and zeros.
        eps: added to the variance.
    """
    shape = [normalized_shape] if isinstance(normalized_shape, int | PrimExpr) else list(normalized_shape)
    gamma = (
        weight._expr if weight is not None else const(np.ones(_static(shape, "layer_norm")), dtype=x.dtype)
    )
    beta = bias._expr if bias is not None else const(np.zeros(_static(shape, "layer_norm")), dtype=x.dtype)
    axes = list(range(-len(shape), 0))
    return wrap_nested(_op.nn.layer_norm(x._expr, gamma, beta, axes=axes, epsilon=eps), name)


def _static(shape: Sequence[Any], name: str) -> list[int]:
    if not all(isinstance(extent, int) for extent in shape):
        raise NNValueError(
            f"{name}: weight and bias may be left out only where the normalized shape is constant, it is {shape}"
        )
    return [int(extent) for extent in shape]


def rms_norm(
    x: Tensor, weight: Tensor, axes: int | list[int], epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    """Root mean square normalization (Zhang and Sennrich, 2019): ``x / sqrt(mean(x**2) + epsilon) * weight``.

    Args:
        x: the input.
        weight: the scale, of the shape of the axes.
        axes: the axes over which the mean is taken.
        epsilon: added to the mean of squares.
    """
    return wrap_nested(
        _op.nn.rms_norm(x._expr, weight._expr, [axes] if isinstance(axes, int) else axes, epsilon), name
    )


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: list[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """Group normalization (Wu and He, 2018).

    Args:
        x: the input.
        num_groups: groups to separate the channels into.
        weight, bias: scale and offset, one for each channel; None stands for ones and zeros.
        eps: added to the variance.
        channel_axis: the axis of the channels.
        axes: the axes to normalize over besides the channels of a group; by default all but the first two.
    """
    if axes is None:
        axes = list(range(2, x.ndim))
    channels = [x.shape[channel_axis]]
    gamma = (
        weight._expr if weight is not None else const(np.ones(_static(channels, "group_norm")), dtype=x.dtype)
    )
    beta = bias._expr if bias is not None else const(np.zeros(_static(channels, "group_norm")), dtype=x.dtype)
    out = _op.nn.group_norm(
        x._expr, gamma, beta, num_groups=num_groups, channel_axis=channel_axis, axes=axes, epsilon=eps
    )
    return wrap_nested(out, name)


# ------------------------------------------------------------------------------------------ attention, embeddings
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool | None = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """Scaled dot product attention.

    Args:
        query: ``[batch, seq_len, num_heads, head_size]``.
        key: ``[batch, seq_len_kv, num_heads_kv, head_size]``.
        value: ``[batch, seq_len_kv, num_heads_kv, head_size_value]``.
        attn_mask: added to the scores, ``[batch, num_heads, seq_len, seq_len_kv]`` (extents of one broadcast); None for no mask.
        is_causal: hide the keys behind each query's position.
        scale: of the scores; by default ``head_size ** -0.5``.
    """
    out = _op.nn.attention(
        query._expr,
        key._expr,
        value._expr,
        None if attn_mask is None else attn_mask._expr,
        scale,
        "TopLeft" if is_causal else None,
    )
    return wrap_nested(out, name)


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Sinusoidal embeddings of time steps, as in Denoising Diffusion Probabilistic Models (Ho et al., 2020).

    Args:
        x: ``[N]`` time steps.
        embedding_dim: the dimension of the result.
        flip_sin_to_cos: cosines first.
        downscale_freq_shift: adjusts the frequencies.
        scale: a factor on the angles.
        max_period: sets the lowest frequency.

    Returns:
        ``[N, embedding_dim]``, of the dtype of ``x``.
    """
    half_dim = embedding_dim // 2
    timesteps = _op.astype(x._expr, "float32")
    steps = _op.arange(start=0, end=half_dim, dtype="float32")
    exponent = _op.multiply(const(-math.log(max_period), "float32"), steps)
    exponent = _op.divide(exponent, const(half_dim - downscale_freq_shift, "float32"))
    emb = _op.multiply(_op.expand_dims(timesteps, 1), _op.expand_dims(_op.exp(exponent), 0))
    if scale != 1:
        emb = _op.multiply(const(scale, "float32"), emb)
    angles = current_builder().emit(emb)
    halves = [_op.sin(angles), _op.cos(angles)]
    emb = _op.concat(halves[::-1] if flip_sin_to_cos else halves, axis=-1)
    if embedding_dim % 2 == 1:
        emb = _op.nn.pad(emb, (0, 0, 0, 1))
    return wrap_nested(_op.astype(emb, x.dtype), name)


def interpolate(
    x: Tensor,
    size: int | tuple[int] | None = None,
    scale_factor: float | tuple[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str | None = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """An image resized.

    Args:
        x: the input, four-dimensional.
        size, scale_factor: the size of the result, or a factor on that of the input; exactly one of them.
        mode: ``"nearest"`` (the index ``i * in / out`` rounded), ``"bilinear"`` (``"linear"``) or ``"bicubic"`` (``"cubic"``).
        align_corners: map corners to corners, else pixel areas to pixel areas.
        recompute_scale_factor, antialias: not supported; accepted for PyTorch's programs where they are False or None.
        data_layout: the layout of input and output.
    """
    if recompute_scale_factor:
        raise NNValueError("interpolate: recompute_scale_factor is not supported; pass size instead")
    if antialias:
        raise NNValueError("interpolate: antialias is not supported; pass antialias=False")
    if (size is None) == (scale_factor is None):
        raise NNValueError(f"interpolate: give one of size and scale_factor, got {size=} and {scale_factor=}")
    layout, name = _layout_and_name(data_layout, "NCHW", name)
    spatial = [x.shape[layout.index(axis)] for axis in "HW"]
    if size is not None:
        extents: list[Any] = [size, size] if isinstance(size, int) else list(size)
    else:
        factors = [scale_factor] * 2 if isinstance(scale_factor, int | float) else list(scale_factor or ())
        extents = [_scaled(extent, factor) for extent, factor in zip(spatial, factors)]
    if len(extents) != 2:
        raise NNValueError(f"interpolate: expected one or two values for the size, got {extents}")
    methods = {
        "nearest": "nearest_neighbor",
        "bilinear": "linear",
        "linear": "linear",
        "bicubic": "cubic",
        "cubic": "cubic",
    }
    if mode.startswith("nearest"):
        mode = "nearest"
    if mode not in methods:
        raise NNValueError(f"interpolate: mode is one of {sorted(methods)}, got {mode!r}")
    method = methods[mode]
    if method == "nearest_neighbor":
        transformation = "asymmetric"
    else:
        transformation = "align_corners" if align_corners else "half_pixel"
    out = _op.image.resize2d(
        x._expr, extents, layout=layout, method=method, coordinate_transformation_mode=transformation
    )
    return wrap_nested(out, name)


def _scaled(extent: Any, factor: Any) -> Any:
    if isinstance(extent, int):
        return int(extent * factor)
    if float(factor).is_integer():
        return extent * int(factor)
    raise NNTypeError(
        f"interpolate: the symbolic extent {extent} can only be scaled by an integer, got {factor}; pass size"
    )


# ---------------------------------------------------------------------------------------------------- collectives
def ccl_allreduce(
    x: Tensor, op_type: str = "sum", in_group: bool = True, name: str = "ccl_allreduce"
) -> Tensor:
    """Reduction over all workers.

    Args:
        x: the input.
        op_type: ``"sum"``, ``"prod"``, ``"min"``, ``"max"`` or ``"avg"``.
        in_group: within the worker's group only, or over all workers.
    """
    if isinstance(in_group, str):  # in older programs the name stands here
        in_group, name = True, in_group
    return wrap_nested(_op.ccl.allreduce(x._expr, op_type, in_group), name)


def ccl_allgather(x: Tensor, num_workers: int, name: str = "ccl_allgather") -> Tensor:
    """The tensors of all workers, joined along the first axis."""
    return wrap_nested(_op.ccl.allgather(x._expr, num_workers), name)


def ccl_broadcast_from_worker0(x: Tensor, name: str = "broadcast_from_worker") -> Tensor:
    """Worker 0's tensor on all workers."""
    return wrap_nested(_op.ccl.broadcast_from_worker0(x._expr), name)
