"""Convolutions and transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....error import IRValueError
from ....tir.expr import PrimExpr
from ...expr import Call, Expr
from ...struct_info import StructInfo, TensorStructInfo
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from ..inference import (
    as_int,
    common_dtype,
    common_vdevice,
    fail,
    optional_dtype,
    require_ndim,
    simplify,
    tensor_args,
)
from ..layout import axes_of, canonical_shape, check_layout, shape_in
from ..legalization import topi_function

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def per_axis(value: Any, count: int, op: str, name: str) -> list[int]:
    """One integer per spatial axis, from one or several."""
    values = [int(value)] * count if isinstance(value, int) else [int(item) for item in value]
    if len(values) == 1:
        values *= count
    if len(values) != count:
        raise IRValueError(f"{op}: {name} must have 1 or {count} entries, got {len(values)}")
    return values


def full_padding(value: Any, count: int, op: str) -> list[int]:
    """Padding before every spatial axis, then after every one, from 1, ``count`` or ``2 * count`` entries."""
    values = [int(value)] if isinstance(value, int) else [int(item) for item in value]
    if len(values) == 1:
        return values * (2 * count)
    if len(values) == count:
        return values * 2
    if len(values) == 2 * count:
        return values
    raise IRValueError(f"{op}: padding must have 1, {count} or {2 * count} entries, got {len(values)}")


def _shapes(node: Call, count: int, kernel_axes: str) -> tuple[Any, Any, TensorStructInfo, TensorStructInfo]:
    """The canonical shapes of data and weight (None when unknown) after the checks that all convolutions share."""
    data, weight = tensor_args(node, 2)
    attrs = node.attrs
    require_ndim(node, data, len(axes_of(attrs["data_layout"])), "data")
    require_ndim(node, weight, len(axes_of(attrs["kernel_layout"])), "weight")
    left = right = None
    if data.shape_values is not None:
        left = canonical_shape(attrs["data_layout"], data.shape_values, "NC" + _SPATIAL[count])
    if weight.shape_values is not None:
        right = canonical_shape(attrs["kernel_layout"], weight.shape_values, kernel_axes + _SPATIAL[count])
    return left, right, data, weight


def _result(node: Call, canonical: list[PrimExpr] | None, data: Any, weight: Any, count: int) -> StructInfo:
    attrs = node.attrs
    dtype = attrs["out_dtype"] or common_dtype(node, [data, weight])
    vdevice = common_vdevice(node, [data, weight])
    if canonical is None:
        return TensorStructInfo(None, dtype, vdevice, len(axes_of(attrs["out_layout"])))
    return TensorStructInfo(shape_in(attrs["out_layout"], "NC" + _SPATIAL[count], canonical), dtype, vdevice)


def _infer_conv(node: Call, builder: Any) -> StructInfo:
    count = len(node.attrs["strides"])
    data_shape, weight_shape, data, weight = _shapes(node, count, "OI")
    if data_shape is None or weight_shape is None:
        return _result(node, None, data, weight, count)
    attrs, groups = node.attrs, node.attrs["groups"]
    in_channels, per_group, out_channels = (
        as_int(data_shape[1]),
        as_int(weight_shape[1]),
        as_int(weight_shape[0]),
    )
    if in_channels is not None and per_group is not None and in_channels != per_group * groups:
        raise fail(
            node,
            f"data has {in_channels} channels, the weight's {per_group} input channels times {groups} groups make"
            f" {per_group * groups}",
        )
    if out_channels is not None and out_channels % groups:
        raise fail(node, f"{out_channels} output channels are not divisible by {groups} groups")
    dims = [data_shape[0], weight_shape[0]]
    for i in range(count):
        extent = data_shape[2 + i] + (attrs["padding"][i] + attrs["padding"][i + count])
        window = (weight_shape[2 + i] - 1) * attrs["dilation"][i] + 1
        out = simplify((extent - window) // attrs["strides"][i] + 1)
        size = as_int(out)
        if size is not None and size < 1:
            raise fail(node, f"the window of {window} exceeds the padded extent of spatial axis {i}")
        dims.append(out)
    return _result(node, dims, data, weight, count)


def _legalize_conv(bb: Any, node: Call) -> Expr:
    attrs = node.attrs
    count = len(attrs["strides"])
    if attrs["out_layout"] != attrs["data_layout"]:
        return node  # no kernel changes the layout on its way; ConvertLayout inserts transforms
    if len(attrs["data_layout"]) != count + 2 or len(attrs["kernel_layout"]) != count + 2:
        return node
    return bb.call_te(
        topi_function("nn.conv"),
        inp=node.args[0],
        filt=node.args[1],
        stride=list(attrs["strides"]),
        padding=list(attrs["padding"]),
        dilation=list(attrs["dilation"]),
        groups=attrs["groups"],
        data_layout=attrs["data_layout"],
        kernel_layout=attrs["kernel_layout"],
        out_dtype=attrs["out_dtype"] or None,
        primfunc_name_hint=f"conv{count}d",
    )


def _to_order(x: np.ndarray, layout: str, wanted: str) -> np.ndarray:
    return x.transpose([layout.index(letter) for letter in wanted])


def np_conv(x: np.ndarray, w: np.ndarray, **attrs: Any) -> np.ndarray:
    """Convolution by the definition, one window at a time."""
    count = len(attrs["strides"])
    axes = _SPATIAL[count]
    x = _to_order(x, attrs["data_layout"], "NC" + axes)
    w = _to_order(w, attrs["kernel_layout"], "OI" + axes)
    pads = attrs["padding"]
    x = np.pad(x, [(0, 0), (0, 0), *((pads[i], pads[i + count]) for i in range(count))])
    kernel, groups = w.shape[2:], attrs["groups"]
    window = [(k - 1) * d + 1 for k, d in zip(kernel, attrs["dilation"], strict=True)]
    out = [(e - s) // t + 1 for e, s, t in zip(x.shape[2:], window, attrs["strides"], strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    ci, co = x.shape[1] // groups, w.shape[0] // groups
    for place in np.ndindex(*out):
        index = tuple(
            slice(p * s, p * s + n, d)
            for p, s, n, d in zip(place, attrs["strides"], window, attrs["dilation"], strict=True)
        )
        for g in range(groups):
            patch = x[(slice(None), slice(g * ci, (g + 1) * ci), *index)]
            y[(slice(None), slice(g * co, (g + 1) * co), *place)] = np.tensordot(
                patch, w[g * co : (g + 1) * co], (list(range(1, count + 2)), list(range(1, count + 2)))
            )
    y = y.transpose([("NC" + axes).index(letter) for letter in attrs["out_layout"]])
    return y.astype(attrs["out_dtype"]) if attrs["out_dtype"] else y


def _conv(
    count: int,
    data: Expr,
    weight: Expr,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str | None,
    out_dtype: str | None,
) -> Expr:
    name = f"relax.nn.conv{count}d"
    out_layout = out_layout or data_layout
    check_layout(name, "data_layout", data_layout, "NC" + _SPATIAL[count])
    check_layout(name, "kernel_layout", kernel_layout, "OI" + _SPATIAL[count])
    check_layout(name, "out_layout", out_layout, "NC" + _SPATIAL[count])
    if groups < 1:
        raise IRValueError(f"{name}: groups must be positive, got {groups}")
    attrs = {
        "strides": per_axis(strides, count, name, "strides"),
        "padding": full_padding(padding, count, name),
        "dilation": per_axis(dilation, count, name, "dilation"),
        "groups": int(groups),
        "data_layout": data_layout,
        "kernel_layout": kernel_layout,
        "out_layout": out_layout,
        "out_dtype": optional_dtype(out_dtype),
    }
    return call(name, data, weight, attrs=attrs)


def _conv_in(node: Call, out_dtype: str) -> Expr:
    return Call(node.op, node.args, {**node.attrs.dict, "out_dtype": out_dtype})


_CONV: dict[str, Any] = {
    "infer": _infer_conv,
    "legalize": _legalize_conv,
    "reference": np_conv,
    "mixed_precision": MixedPrecisionPolicy.ALWAYS,
    "infer_mixed_precision": _conv_in,
    "pattern": OpPatternKind.kOutEWiseFusable,
}


@operator("relax.nn.conv1d", **_CONV)
def conv1d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Expr:
    """1D convolution of data (N, C, W) with a weight (O, C / groups, kernel width).

    ``padding`` has 1 or 2 entries; ``out_layout`` defaults to ``data_layout``; ``out_dtype`` to the operands' dtype.
    """
    return _conv(
        1, data, weight, strides, padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype
    )


@operator("relax.nn.conv2d", **_CONV)
def conv2d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Expr:
    """2D convolution of data (N, C, H, W) with a weight (O, C / groups, kernel height, kernel width).

    ``padding`` has 1, 2 or 4 entries (top, left, bottom, right); ``out_layout`` defaults to ``data_layout``; ``out_dtype``
    to the operands' dtype.
    """
    return _conv(
        2, data, weight, strides, padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype
    )


@operator("relax.nn.conv3d", **_CONV)
def conv3d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Expr:
    """3D convolution of data (N, C, D, H, W) with a weight (O, C / groups, kernel depth, height, width).

    ``padding`` has 1, 3 or 6 entries; ``out_layout`` defaults to ``data_layout``; ``out_dtype`` to the operands' dtype.
    """
    return _conv(
        3, data, weight, strides, padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype
    )


def _infer_conv_transpose(node: Call, builder: Any) -> StructInfo:
    count = len(node.attrs["strides"])
    data_shape, weight_shape, data, weight = _shapes(node, count, "IO")
    if data_shape is None or weight_shape is None:
        return _result(node, None, data, weight, count)
    attrs, groups = node.attrs, node.attrs["groups"]
    in_channels, weight_in = as_int(data_shape[1]), as_int(weight_shape[0])
    if in_channels is not None and weight_in is not None and in_channels != weight_in:
        raise fail(node, f"data has {in_channels} channels, the weight takes {weight_in}")
    if in_channels is not None and in_channels % groups:
        raise fail(node, f"{in_channels} input channels are not divisible by {groups} groups")
    dims = [data_shape[0], simplify(weight_shape[1] * groups)]
    for i in range(count):
        stride = attrs["strides"][i]
        if attrs["output_padding"][i] >= stride:
            raise fail(
                node, f"output_padding {attrs['output_padding'][i]} must be less than the stride {stride}"
            )
        window = (weight_shape[2 + i] - 1) * attrs["dilation"][i] + 1
        pads = attrs["padding"][i] + attrs["padding"][i + count]
        dims.append(simplify((data_shape[2 + i] - 1) * stride + window - pads + attrs["output_padding"][i]))
    return _result(node, dims, data, weight, count)


def _legalize_conv_transpose(bb: Any, node: Call) -> Expr:
    """A convolution of the data with zeros between its elements and the flipped, transposed weight."""
    from .... import te, tir

    attrs = node.attrs
    count = len(attrs["strides"])
    canonical, kernel = "NC" + _SPATIAL[count], "IO" + _SPATIAL[count]
    if (
        attrs["data_layout"] != canonical
        or attrs["kernel_layout"] != kernel
        or attrs["out_layout"] != canonical
    ):
        return node
    out_shape = list(node.struct_info.shape_values)
    out_dtype, groups = node.struct_info.dtype, attrs["groups"]

    def te_conv_transpose(data: Any, weight: Any) -> Any:
        in_per_group = tir.floordiv(data.shape[1], groups)
        out_per_group = weight.shape[1]
        channel = te.reduce_axis((0, in_per_group), name="dc")
        window = [
            te.reduce_axis((0, weight.shape[2 + i]), name=f"d{_SPATIAL[count][i].lower()}")
            for i in range(count)
        ]

        def element(n: Any, c: Any, *places: Any) -> Any:
            group = tir.floordiv(c, out_per_group)
            source = channel if groups == 1 else group * in_per_group + channel
            inside, index = [], []
            for i, (place, tap) in enumerate(zip(places, window, strict=True)):
                # output = input * stride - padding + tap * dilation
                shifted = place + attrs["padding"][i] - tap * attrs["dilation"][i]
                stride = attrs["strides"][i]
                inside += [shifted >= 0, tir.floordiv(shifted, stride) < data.shape[2 + i]]
                if stride != 1:
                    inside.append(tir.floormod(shifted, stride) == 0)
                index.append(tir.floordiv(shifted, stride))
            zero = tir.const(0, data.dtype)
            value = tir.if_then_else(tir.all(*inside), data(n, source, *index), zero)
            factor = weight(source, c if groups == 1 else tir.floormod(c, out_per_group), *window)
            if out_dtype != data.dtype:
                value, factor = value.astype(out_dtype), factor.astype(out_dtype)
            return te.sum(value * factor, axis=[channel, *window])

        return te.compute(out_shape, element, name="conv_transpose")

    return bb.call_te(te_conv_transpose, *node.args, primfunc_name_hint=f"conv{count}d_transpose")


def np_conv_transpose(x: np.ndarray, w: np.ndarray, **attrs: Any) -> np.ndarray:
    """Transposed convolution by scattering every input element through the kernel."""
    count = len(attrs["strides"])
    groups, kernel = attrs["groups"], w.shape[2:]
    full = [
        (n - 1) * s + (k - 1) * d + 1 + o
        for n, s, k, d, o in zip(
            x.shape[2:], attrs["strides"], kernel, attrs["dilation"], attrs["output_padding"], strict=True
        )
    ]
    ci, co = x.shape[1] // groups, w.shape[1]
    y = np.zeros((x.shape[0], co * groups, *full), x.dtype)
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*kernel):
            at = tuple(
                p * s + t * d
                for p, s, t, d in zip(place, attrs["strides"], tap, attrs["dilation"], strict=True)
            )
            for g in range(groups):
                values = x[(slice(None), slice(g * ci, (g + 1) * ci), *place)]
                factors = w[(slice(g * ci, (g + 1) * ci), slice(None), *tap)]
                y[(slice(None), slice(g * co, (g + 1) * co), *at)] += values @ factors
    pads = attrs["padding"]
    return y[(slice(None), slice(None), *(slice(pads[i], full[i] - pads[i + count]) for i in range(count)))]


_TRANSPOSE: dict[str, Any] = {
    "infer": _infer_conv_transpose,
    "legalize": _legalize_conv_transpose,
    "reference": np_conv_transpose,
    "mixed_precision": MixedPrecisionPolicy.ALWAYS,
    "infer_mixed_precision": _conv_in,
    "pattern": OpPatternKind.kOutEWiseFusable,
}


def _conv_transpose(
    count: int,
    data: Expr,
    weight: Expr,
    strides: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str | None,
    out_dtype: str | None,
) -> Expr:
    name = f"relax.nn.conv{count}d_transpose"
    out_layout = out_layout or data_layout
    check_layout(name, "data_layout", data_layout, "NC" + _SPATIAL[count])
    check_layout(name, "kernel_layout", kernel_layout, "IO" + _SPATIAL[count])
    attrs = {
        "strides": per_axis(strides, count, name, "strides"),
        "padding": full_padding(padding, count, name),
        "output_padding": per_axis(output_padding, count, name, "output_padding"),
        "dilation": per_axis(dilation, count, name, "dilation"),
        "groups": int(groups),
        "data_layout": data_layout,
        "kernel_layout": kernel_layout,
        "out_layout": out_layout,
        "out_dtype": optional_dtype(out_dtype),
    }
    return call(name, data, weight, attrs=attrs)


@operator("relax.nn.conv1d_transpose", **_TRANSPOSE)
def conv1d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Expr:
    """Transposed 1D convolution: data (N, I, W), weight (I, O / groups, kernel width)."""
    return _conv_transpose(
        1,
        data,
        weight,
        strides,
        padding,
        output_padding,
        dilation,
        groups,
        data_layout,
        kernel_layout,
        out_layout,
        out_dtype,
    )


@operator("relax.nn.conv2d_transpose", **_TRANSPOSE)
def conv2d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    output_padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Expr:
    """Transposed 2D convolution: data (N, I, H, W), weight (I, O / groups, kernel height, kernel width)."""
    return _conv_transpose(
        2,
        data,
        weight,
        strides,
        padding,
        output_padding,
        dilation,
        groups,
        data_layout,
        kernel_layout,
        out_layout,
        out_dtype,
    )


@operator("relax.nn.conv3d_transpose", **_TRANSPOSE)
def conv3d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    output_padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Expr:
    """Transposed 3D convolution: data (N, I, D, H, W), weight (I, O / groups, kernel depth, height, width)."""
    return _conv_transpose(
        3,
        data,
        weight,
        strides,
        padding,
        output_padding,
        dilation,
        groups,
        data_layout,
        kernel_layout,
        out_layout,
        out_dtype,
    )
