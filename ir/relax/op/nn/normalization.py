"""Normalization layers and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...expr import Call, Expr, Tuple, const
from ...struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ..array import in_float32
from ..create import ones_like
from ..declaration import Decomposition, MixedPrecisionPolicy, OpPatternKind, call, make, operator
from ..inference import (
    common_dtype,
    fail,
    normalize_axes,
    normalize_axis,
    optional_int_tuple,
    require_float,
    require_ndim,
    same_as,
    tensor_arg,
    tensor_args,
)
from ..layout_rule import Desired, LayoutPlan, Layouts, along_axis
from ..legalization import topi_function
from ..memory_effect import MemoryEffect, View
from ..requirement import require_equal, require_multiple

FOLLOW, NEVER = MixedPrecisionPolicy.FOLLOW, MixedPrecisionPolicy.NEVER


def _check_scales(
    node: Call, info: TensorStructInfo, scales: Sequence[TensorStructInfo], axes: Sequence[int]
) -> None:
    """Parameters have the data's dtype and the extents of the normalized axes."""
    for item in scales:
        require_ndim(node, item, len(axes), "a scale or offset")
        if item.shape_values is None or info.shape_values is None:
            continue
        for axis, dim in zip(axes, item.shape_values, strict=True):
            text = f"a scale or offset has extent {{}} where axis {axis} of the data has {{}}"
            require_equal(node, dim, info.shape_values[axis], text)


def _along(values: np.ndarray, ndim: int, axes: Sequence[int]) -> np.ndarray:
    """The parameters reshaped to broadcast along ``axes`` of the data."""
    shape = [1] * ndim
    for axis, extent in zip(axes, values.shape, strict=True):
        shape[axis] = extent
    return values.reshape(shape)


# batch_norm


def _infer_batch_norm(node: Call, builder: Any) -> StructInfo:
    info, *rest = tensor_args(node, 5)
    require_float(node, info)
    common_dtype(node, [info, *rest])
    if info.ndim != -1:
        _check_scales(node, info, rest, [normalize_axis(node, info.ndim, node.attrs["axis"])])
    moving_mean, moving_var = rest[2], rest[3]
    return TupleStructInfo([same_as(info), same_as(moving_mean), same_as(moving_var)])


def _legalize_batch_norm(bb: Any, node: Call) -> Expr:
    attrs = node.attrs
    return bb.call_te(
        topi_function("nn.batch_norm"),
        data=node.args[0],
        gamma=node.args[1],
        beta=node.args[2],
        moving_mean=node.args[3],
        moving_var=node.args[4],
        axis=attrs["axis"],
        epsilon=attrs["epsilon"],
        center=attrs["center"],
        scale=attrs["scale"],
        training=attrs["training"],
        momentum=attrs["momentum"],
        primfunc_name_hint="batch_norm",
    )


def _np_batch_norm(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, **attrs: Any) -> list[np.ndarray]:
    axis = attrs["axis"] % x.ndim
    new_mean, new_var = mean, var
    if attrs["training"]:
        others = tuple(i for i in range(x.ndim) if i != axis)
        batch_mean, batch_var = x.mean(others), x.var(others)
        momentum = attrs["momentum"]
        new_mean = (1 - momentum) * mean + momentum * batch_mean
        new_var = (1 - momentum) * var + momentum * batch_var
        mean, var = batch_mean, batch_var
    y = (x - _along(mean, x.ndim, [axis])) / np.sqrt(_along(var, x.ndim, [axis]) + attrs["epsilon"])
    if attrs["scale"]:
        y = y * _along(gamma, x.ndim, [axis])
    if attrs["center"]:
        y = y + _along(beta, x.ndim, [axis])
    return [y.astype(x.dtype), new_mean.astype(x.dtype), new_var.astype(x.dtype)]


def _batch_norm_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    plan = along_axis(node, layouts, desired)
    return None if plan is None else replace(plan, results=(plan.results, (0,), (0,)))


def _along_one_axis(value: Expr, axis: int, ndim: int) -> Expr:
    """A vector as a tensor that broadcasts along ``axis`` of ``ndim`` dimensions."""
    axes = [i for i in range(ndim) if i != axis % ndim]
    return make.expand_dims(value, axes) if axes else value


def _scaled(node: Call, shifted: Expr, spread: Expr, gamma: Expr, beta: Expr) -> Expr:
    """``shifted / spread * gamma + beta``, the last two as the attributes say."""
    result = make.divide(shifted, spread)
    if node.attrs.get("scale", True):
        result = make.multiply(result, gamma)
    if node.attrs.get("center", True):
        result = make.add(result, beta)
    return result  # type: ignore[no-any-return]


def _normalized_by(node: Call, mean: Expr, variance: Expr) -> Expr:
    data, gamma, beta = node.args[:3]
    info = tensor_arg(node, 0)
    axis, ndim = int(node.attrs["axis"]), info.ndim
    shift = _along_one_axis(mean, axis, ndim)
    epsilon = const(float(node.attrs["epsilon"]), info.dtype)
    spread = make.sqrt(make.add(_along_one_axis(variance, axis, ndim), epsilon))
    scale, offset = _along_one_axis(gamma, axis, ndim), _along_one_axis(beta, axis, ndim)
    return _scaled(node, make.subtract(data, shift), spread, scale, offset)


def _batch_norm_inference(node: Call) -> Expr:
    """The result with the running statistics, which stay as they are."""
    mean, variance = node.args[3], node.args[4]
    return Tuple([_normalized_by(node, mean, variance), mean, variance])


def _batch_norm_training(node: Call) -> Expr:
    """The result with the batch's statistics, and running statistics moved towards them."""
    data, running_mean, running_variance = node.args[0], node.args[3], node.args[4]
    info = tensor_arg(node, 0)
    axes = [i for i in range(info.ndim) if i != int(node.attrs["axis"]) % info.ndim]
    mean, variance = make.mean(data, axes), make.variance(data, axes)
    momentum = float(node.attrs.get("momentum", 0.1))
    old, new = const(1 - momentum, info.dtype), const(momentum, info.dtype)
    moved = [
        make.add(make.multiply(old, running), make.multiply(new, batch))
        for running, batch in ((running_mean, mean), (running_variance, variance))
    ]
    return Tuple([_normalized_by(node, mean, variance), *moved])


@operator(
    "relax.nn.batch_norm",
    infer=_infer_batch_norm,
    legalize=_legalize_batch_norm,
    reference=in_float32(_np_batch_norm),
    memory=MemoryEffect(views=(View(of=(3,), at=(1,)), View(of=(4,), at=(2,)))),
    layout=_batch_norm_layout,
    decomposition=Decomposition(inference=_batch_norm_inference, training=_batch_norm_training),
    mixed_precision=NEVER,
    pattern=OpPatternKind.kOutEWiseFusable,
)
def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = True,
) -> Expr:
    """Batch normalization; a tuple of the result, the new moving mean and the new moving variance.

    In training the batch's own mean and variance normalize and the moving ones are updated with ``momentum``; otherwise the
    moving ones normalize and come back as they were.

    Args:
        data: the input.
        gamma, beta, moving_mean, moving_var: vectors of the extent of ``axis``.
        axis: the channel axis.
        epsilon: added to the variance.
        center, scale: whether to add ``beta`` and multiply by ``gamma``.
    """
    attrs = {
        "axis": int(axis),
        "epsilon": float(epsilon),
        "center": bool(center),
        "scale": bool(scale),
        "momentum": float(momentum),
        "training": bool(training),
    }
    return call("relax.nn.batch_norm", data, gamma, beta, moving_mean, moving_var, attrs=attrs)


# layer_norm, group_norm, instance_norm, rms_norm


def _infer_layer_norm(node: Call, builder: Any) -> StructInfo:
    info, gamma, beta = tensor_args(node, 3)
    require_float(node, info)
    common_dtype(node, [info, gamma, beta])
    if info.ndim != -1:
        _check_scales(node, info, [gamma, beta], normalize_axes(node, info.ndim, node.attrs["axes"], "axes"))
    return same_as(info)


def _legalize_layer_norm(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("nn.layer_norm"),
        *node.args,
        axis=list(node.attrs["axes"]),
        epsilon=node.attrs["epsilon"],
        primfunc_name_hint="layer_norm",
    )


def _np_layer_norm(
    x: Any, gamma: Any, beta: Any, axes: Any, epsilon: float, center: bool, scale: bool
) -> np.ndarray:
    places = [axis % x.ndim for axis in axes]
    mean, var = x.mean(tuple(places), keepdims=True), x.var(tuple(places), keepdims=True)
    y = (x - mean) / np.sqrt(var + epsilon)
    if scale:
        y = y * _along(gamma, x.ndim, places)
    return (y + _along(beta, x.ndim, places) if center else y).astype(x.dtype)


def _layer_norm_training(node: Call) -> Expr:
    data, gamma, beta = node.args
    axes = [int(axis) for axis in node.attrs["axes"]]
    mean, variance = make.mean(data, axes, keepdims=True), make.variance(data, axes, keepdims=True)
    epsilon = const(float(node.attrs["epsilon"]), tensor_arg(node, 0).dtype)
    spread = make.sqrt(make.add(variance, epsilon))
    return _scaled(node, make.subtract(data, mean), spread, gamma, beta)


_NORM: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kOutEWiseFusable}


@operator(
    "relax.nn.layer_norm",
    infer=_infer_layer_norm,
    legalize=_legalize_layer_norm,
    reference=in_float32(_np_layer_norm),
    decomposition=Decomposition(training=_layer_norm_training),
    **_NORM,
)
def layer_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Expr:
    """Layer normalization over ``axes``; ``gamma`` and ``beta`` have the shape of those axes."""
    attrs = {
        "axes": optional_int_tuple(axes),
        "epsilon": float(epsilon),
        "center": bool(center),
        "scale": bool(scale),
    }
    return call("relax.nn.layer_norm", data, gamma, beta, attrs=attrs)


def _infer_group_norm(node: Call, builder: Any) -> StructInfo:
    info, gamma, beta = tensor_args(node, 3)
    require_float(node, info)
    common_dtype(node, [info, gamma, beta])
    if info.ndim != -1:
        channel = normalize_axis(node, info.ndim, node.attrs["channel_axis"], "channel_axis")
        axes = normalize_axes(node, info.ndim, node.attrs["axes"], "axes")
        if channel in axes:
            raise fail(node, f"the channel axis {channel} must not be among the normalized axes {axes}")
        _check_scales(node, info, [gamma, beta], [channel])
        if info.shape_values is not None:
            groups = node.attrs["num_groups"]
            text = f"{{}} channels are not divisible into {groups} groups"
            require_multiple(node, info.shape_values[channel], groups, text)
    return same_as(info)


def _legalize_group_norm(bb: Any, node: Call) -> Expr:
    attrs = node.attrs
    return bb.call_te(
        topi_function("nn.group_norm"),
        node.args[0],
        node.args[1],
        node.args[2],
        attrs["num_groups"],
        attrs["channel_axis"],
        list(attrs["axes"]),
        attrs["epsilon"],
        primfunc_name_hint="group_norm",
    )


def _np_group_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float,
    center: bool,
    scale: bool,
) -> np.ndarray:
    channel = channel_axis % x.ndim
    places = [axis % x.ndim for axis in axes]
    split = [*x.shape[:channel], num_groups, x.shape[channel] // num_groups, *x.shape[channel + 1 :]]
    reduce = tuple([channel + 1, *(axis + (axis > channel) for axis in places)])
    grouped = x.reshape(split)
    y = (grouped - grouped.mean(reduce, keepdims=True)) / np.sqrt(
        grouped.var(reduce, keepdims=True) + epsilon
    )
    y = y.reshape(x.shape)
    if scale:
        y = y * _along(gamma, x.ndim, [channel])
    return (y + _along(beta, x.ndim, [channel]) if center else y).astype(x.dtype)


@operator(
    "relax.nn.group_norm",
    infer=_infer_group_norm,
    legalize=_legalize_group_norm,
    reference=in_float32(_np_group_norm),
    **_NORM,
)
def group_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    num_groups: int,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Expr:
    """Group normalization: channels in ``num_groups`` groups, each normalized over its channels and ``axes``."""
    attrs = {
        "num_groups": int(num_groups),
        "channel_axis": int(channel_axis),
        "axes": optional_int_tuple(axes),
        "epsilon": float(epsilon),
        "center": bool(center),
        "scale": bool(scale),
    }
    return call("relax.nn.group_norm", data, gamma, beta, attrs=attrs)


def _infer_instance_norm(node: Call, builder: Any) -> StructInfo:
    info, gamma, beta = tensor_args(node, 3)
    require_float(node, info)
    common_dtype(node, [info, gamma, beta])
    if info.ndim != -1:
        normalize_axes(node, info.ndim, node.attrs["axes"], "axes")
        channel = normalize_axis(node, info.ndim, node.attrs["channel_axis"], "channel_axis")
        _check_scales(node, info, [gamma, beta], [channel])
    return same_as(info)


def _legalize_instance_norm(bb: Any, node: Call) -> Expr:
    attrs = node.attrs
    return bb.call_te(
        topi_function("nn.instance_norm"),
        node.args[0],
        node.args[1],
        node.args[2],
        attrs["channel_axis"],
        list(attrs["axes"]),
        attrs["epsilon"],
        primfunc_name_hint="instance_norm",
    )


def _np_instance_norm(
    x: Any, gamma: Any, beta: Any, channel_axis: int, axes: Any, epsilon: float, center: bool, scale: bool
) -> np.ndarray:
    places = tuple(axis % x.ndim for axis in axes)
    y = (x - x.mean(places, keepdims=True)) / np.sqrt(x.var(places, keepdims=True) + epsilon)
    channel = channel_axis % x.ndim
    if scale:
        y = y * _along(gamma, x.ndim, [channel])
    return (y + _along(beta, x.ndim, [channel]) if center else y).astype(x.dtype)


@operator(
    "relax.nn.instance_norm",
    infer=_infer_instance_norm,
    legalize=_legalize_instance_norm,
    reference=in_float32(_np_instance_norm),
    **_NORM,
)
def instance_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Expr:
    """Instance normalization over ``axes``, with scale and offset per channel."""
    attrs = {
        "channel_axis": int(channel_axis),
        "axes": optional_int_tuple(axes),
        "epsilon": float(epsilon),
        "center": bool(center),
        "scale": bool(scale),
    }
    return call("relax.nn.instance_norm", data, gamma, beta, attrs=attrs)


def _infer_rms_norm(node: Call, builder: Any) -> StructInfo:
    info, weight = tensor_args(node, 2)
    require_float(node, info)
    common_dtype(node, [info, weight])
    if info.ndim != -1:
        _check_scales(node, info, [weight], normalize_axes(node, info.ndim, node.attrs["axes"], "axes"))
    return same_as(info)


def _legalize_rms_norm(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("nn.rms_norm"),
        node.args[0],
        node.args[1],
        axis=list(node.attrs["axes"]),
        epsilon=node.attrs["epsilon"],
        primfunc_name_hint="rms_norm",
    )


def _np_rms_norm(x: Any, weight: Any, axes: Any, epsilon: float) -> np.ndarray:
    places = [axis % x.ndim for axis in axes]
    wide = x.astype(np.promote_types(x.dtype, "float32"))
    scale = 1 / np.sqrt((wide**2).mean(tuple(places), keepdims=True) + epsilon)
    return (x * scale * _along(weight, x.ndim, places)).astype(x.dtype)


@operator(
    "relax.nn.rms_norm", infer=_infer_rms_norm, legalize=_legalize_rms_norm, reference=_np_rms_norm, **_NORM
)
def rms_norm(data: Expr, weight: Expr, axes: int | Sequence[int] = -1, epsilon: float = 1e-5) -> Expr:
    """``data / sqrt(mean(data ** 2, axes) + epsilon) * weight``."""
    return call(
        "relax.nn.rms_norm", data, weight, attrs={"axes": optional_int_tuple(axes), "epsilon": float(epsilon)}
    )


# dropout


def _infer_dropout(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    return TupleStructInfo([same_as(info), same_as(info)])


def _legalize_dropout(bb: Any, node: Call) -> Expr:
    """Outside training nothing is dropped: the input and a mask of ones."""
    return Tuple([node.args[0], bb.emit(ones_like(node.args[0]))])


def _dropout_inference(node: Call) -> Expr:
    return Tuple([node.args[0], ones_like(node.args[0])])


@operator(
    "relax.nn.dropout",
    infer=_infer_dropout,
    legalize=_legalize_dropout,
    reference=lambda x, rate: [x, np.ones_like(x)],
    memory=MemoryEffect(views=(View(of=(0,), at=(0,)),)),
    decomposition=Decomposition(inference=_dropout_inference),
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kElemWise,
)
def dropout(data: Expr, rate: float = 0.5) -> Expr:
    """A tuple of the input with elements dropped at ``rate`` and the mask; for inference, the input as it is."""
    return call("relax.nn.dropout", data, attrs={"rate": float(rate)})


__all__ = ["batch_norm", "dropout", "group_norm", "instance_norm", "layer_norm", "rms_norm"]
