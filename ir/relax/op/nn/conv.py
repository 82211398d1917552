"""Convolutions in one, two and three dimensions; :mod:`.conv_transpose` shares their checks and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....error import IRValueError
from ....tir.expr import PrimExpr
from ...expr import Call, Expr, Var
from ...struct_info import StructInfo, TensorStructInfo
from ..array import in_out_dtype
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from ..gradient import in_wider_dtype, static_shape
from ..inference import (
    common_dtype,
    common_vdevice,
    optional_dtype,
    require_ndim,
    simplify,
    tensor_args,
)
from ..layout import axes_of, canonical_shape, check_layout, shape_in
from ..layout_rule import Desired, LayoutPlan, Layouts, between
from ..legalization import topi_function
from ..requirement import require_at_most, require_equal, require_multiple

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


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


def checked_shapes(
    node: Call, count: int, kernel_axes: str
) -> tuple[Any, Any, TensorStructInfo, TensorStructInfo]:
    """The canonical shapes of data and weight (None when unknown) after the checks that all convolutions share."""
    data, weight = tensor_args(node, 2)
    attrs = node.attrs
    require_ndim(node, data, len(axes_of(attrs["data_layout"])), "data")
    require_ndim(node, weight, len(axes_of(attrs["kernel_layout"])), "weight")
    left = right = None
    if data.shape_values is not None:
        left = canonical_shape(attrs["data_layout"], data.shape_values, "NC" + SPATIAL[count])
    if weight.shape_values is not None:
        right = canonical_shape(attrs["kernel_layout"], weight.shape_values, kernel_axes + SPATIAL[count])
    return left, right, data, weight


def conv_struct_info(
    node: Call, canonical: list[PrimExpr] | None, data: Any, weight: Any, count: int
) -> StructInfo:
    """The result of a convolution from its canonical (N, C, spatial) shape, None where that is unknown."""
    attrs = node.attrs
    dtype = attrs["out_dtype"] or common_dtype(node, [data, weight])
    vdevice = common_vdevice(node, [data, weight])
    if canonical is None:
        return TensorStructInfo(None, dtype, vdevice, len(axes_of(attrs["out_layout"])))
    return TensorStructInfo(shape_in(attrs["out_layout"], "NC" + SPATIAL[count], canonical), dtype, vdevice)


def _infer_conv(node: Call, builder: Any) -> StructInfo:
    count = len(node.attrs["strides"])
    data_shape, weight_shape, data, weight = checked_shapes(node, count, "OI")
    if data_shape is None or weight_shape is None:
        return conv_struct_info(node, None, data, weight, count)
    attrs, groups = node.attrs, node.attrs["groups"]
    text = f"data has {{}} channels, the weight's input channels times {groups} groups make {{}}"
    require_equal(node, data_shape[1], weight_shape[1] * groups, text)
    text = f"{{}} output channels are not divisible by {groups} groups"
    require_multiple(node, weight_shape[0], groups, text)
    dims = [data_shape[0], weight_shape[0]]
    for i in range(count):
        extent = data_shape[2 + i] + (attrs["padding"][i] + attrs["padding"][i + count])
        window = (weight_shape[2 + i] - 1) * attrs["dilation"][i] + 1
        text = f"the window of {{}} exceeds the padded extent {{}} of spatial axis {i}"
        require_at_most(node, window, extent, text)
        dims.append(simplify((extent - window) // attrs["strides"][i] + 1))
    return conv_struct_info(node, dims, data, weight, count)


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


def in_order(x: np.ndarray, layout: str, wanted: str) -> np.ndarray:
    """An array of one layout with its axes in the order of another."""
    return x.transpose([layout.index(letter) for letter in wanted])


@in_out_dtype
def np_conv(x: np.ndarray, w: np.ndarray, **attrs: Any) -> np.ndarray:
    """Convolution by the definition, one window at a time."""
    count = len(attrs["strides"])
    axes = SPATIAL[count]
    x = in_order(x, attrs["data_layout"], "NC" + axes)
    w = in_order(w, attrs["kernel_layout"], "OI" + axes)
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
            filters = w[g * co : (g + 1) * co].reshape(co, -1)
            # not np.dot, which leaves out products with a zero, of NaN too, where one factor is a single number
            y[(slice(None), slice(g * co, (g + 1) * co), *place)] = np.matmul(
                patch.reshape(len(x), filters.shape[1]), filters.T
            )
    return y.transpose([("NC" + axes).index(letter) for letter in attrs["out_layout"]])


def convolution(
    count: int,
    data: Expr,
    weight: Expr,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    layouts: tuple[str, str, str | None],
    out_dtype: str | None,
    output_padding: Any = None,
) -> Expr:
    """The call of a convolution over ``count`` spatial axes, of a transposed one where ``output_padding`` is given.

    Args:
        layouts: of the data, the kernel and the result (None: as the data).

    Raises:
        IRValueError: a layout lacks an axis, a window attribute has a wrong number of entries, or there are no groups.
    """
    transposed = output_padding is not None
    name = f"relax.nn.conv{count}d{'_transpose' if transposed else ''}"
    data_layout, kernel_layout, out_layout = layouts
    out_layout = out_layout or data_layout
    axes = SPATIAL[count]
    check_layout(name, "data_layout", data_layout, "NC" + axes)
    check_layout(name, "kernel_layout", kernel_layout, ("IO" if transposed else "OI") + axes)
    check_layout(name, "out_layout", out_layout, "NC" + axes)
    if groups < 1:
        raise IRValueError(f"{name}: groups must be positive, got {groups}")
    attrs: dict[str, Any] = {
        "strides": per_axis(strides, count, name, "strides"),
        "padding": full_padding(padding, count, name),
    }
    if transposed:
        attrs["output_padding"] = per_axis(output_padding, count, name, "output_padding")
    attrs |= {
        "dilation": per_axis(dilation, count, name, "dilation"),
        "groups": int(groups),
        "data_layout": data_layout,
        "kernel_layout": kernel_layout,
        "out_layout": out_layout,
        "out_dtype": optional_dtype(out_dtype),
    }
    return call(name, data, weight, attrs=attrs)


def in_dtype(node: Call, out_dtype: str) -> Expr:
    """The same convolution with another result dtype."""
    return Call(node.op, node.args, {**node.attrs.dict, "out_dtype": out_dtype})


def conv_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    """A convolution runs in the layouts that are asked for: of data, kernel and, if different from data, the result."""
    if desired is None:
        return None
    if len(desired) not in (2, 3):
        raise IRValueError(
            f"ConvertLayout: {node.op.name} takes [data, kernel] or [data, kernel, out] layouts, got {list(desired)}"  # type: ignore[attr-defined]
        )
    data, kernel, out = (*desired, desired[0])[:3]
    attrs = node.attrs
    operands = (between(attrs["data_layout"], data), between(attrs["kernel_layout"], kernel))
    result = between(attrs["out_layout"] or attrs["data_layout"], out)
    return LayoutPlan(operands, result, {"data_layout": data, "kernel_layout": kernel, "out_layout": out})


def channels_last(count: int) -> tuple[str, str]:
    """The layouts of data and kernel in which generated kernels are fastest on processors.

    Output channels are contiguous in weights and results, so that a register tile is a plain product of matrices.
    """
    return f"N{SPATIAL[count]}C", f"{SPATIAL[count]}IO"


_CONV: dict[str, Any] = {
    "infer": _infer_conv,
    "legalize": _legalize_conv,
    "reference": np_conv,
    "mixed_precision": MixedPrecisionPolicy.ALWAYS,
    "infer_mixed_precision": in_dtype,
    "layout": conv_layout,
    "pattern": OpPatternKind.kOutEWiseFusable,
}


@operator("relax.nn.conv1d", preferred_layouts=channels_last(1), **_CONV)
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
    layouts = (data_layout, kernel_layout, out_layout)
    return convolution(1, data, weight, strides, padding, dilation, groups, layouts, out_dtype)


def _conv2d_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """By the data: a transposed convolution. By the weight: the data convolved with the gradient, batch for channel."""
    data, weight = node.args
    attrs = node.attrs
    if attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW" or attrs["groups"] != 1:
        raise IRValueError("the gradient of relax.nn.conv2d needs layouts NCHW and OIHW and one group")
    in_dims, out_dims, kernel = static_shape(data)[2:], static_shape(grad)[2:], static_shape(weight)[2:]
    pads, strides, dilation = attrs["padding"], attrs["strides"], attrs["dilation"]
    missing = [
        in_dims[i]
        - ((out_dims[i] - 1) * strides[i] - pads[i] - pads[i + 2] + (kernel[i] - 1) * dilation[i] + 1)
        for i in range(2)
    ]
    to_data = make.nn.conv2d_transpose(grad, weight, strides, pads, missing, dilation)
    swapped = conv2d(
        make.permute_dims(data, [1, 0, 2, 3]),
        make.permute_dims(grad, [1, 0, 2, 3]),
        strides=dilation,
        padding=pads,
        dilation=strides,
    )
    cut = make.strided_slice(swapped, [2, 3], [0, 0], list(kernel))
    return [to_data, make.permute_dims(cut, [1, 0, 2, 3])]


@operator(
    "relax.nn.conv2d", gradient=in_wider_dtype(_conv2d_gradient), preferred_layouts=channels_last(2), **_CONV
)
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
    layouts = (data_layout, kernel_layout, out_layout)
    return convolution(2, data, weight, strides, padding, dilation, groups, layouts, out_dtype)


@operator("relax.nn.conv3d", preferred_layouts=channels_last(3), **_CONV)
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
    layouts = (data_layout, kernel_layout, out_layout)
    return convolution(3, data, weight, strides, padding, dilation, groups, layouts, out_dtype)


__all__ = ["conv1d", "conv2d", "conv3d"]
