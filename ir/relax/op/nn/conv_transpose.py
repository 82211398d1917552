"""Transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import te
from ....tir.op import all as tir_all
from ....tir.op import if_then_else
from ....tir.operators import const, floordiv, floormod
from ....topi.accumulate import accumulator, rounded
from ...expr import Call, Expr
from ...struct_info import StructInfo
from ..array import in_out_dtype
from ..declaration import MixedPrecisionPolicy, OpPatternKind, operator
from ..inference import fail, simplify
from ..layout_rule import Desired, LayoutPlan, Layouts
from ..legalization import topi_function
from ..requirement import require_equal, require_multiple
from .conv import (
    SPATIAL,
    channels_last,
    checked_shapes,
    conv_layout,
    conv_struct_info,
    convolution,
    in_dtype,
    in_order,
)


def _infer_conv_transpose(node: Call, builder: Any) -> StructInfo:
    count = len(node.attrs["strides"])
    data_shape, weight_shape, data, weight = checked_shapes(node, count, "IO")
    if data_shape is None or weight_shape is None:
        return conv_struct_info(node, None, data, weight, count)
    attrs, groups = node.attrs, node.attrs["groups"]
    require_equal(node, data_shape[1], weight_shape[0], "data has {} channels, the weight takes {}")
    text = f"{{}} input channels are not divisible by {groups} groups"
    require_multiple(node, data_shape[1], groups, text)
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
    return conv_struct_info(node, dims, data, weight, count)


def has_channels_last_kernel(attrs: Any) -> bool:
    """Whether a channels-last kernel exists: without groups and dilation the output splits into phases."""
    return attrs["groups"] == 1 and all(item == 1 for item in attrs["dilation"])


def _legalize_conv_transpose(bb: Any, node: Call) -> Expr:
    """A dense convolution per phase where channels come last; else a sum over those taps that fall on an input element."""
    attrs = node.attrs
    count = len(attrs["strides"])
    canonical, kernel = "NC" + SPATIAL[count], "IO" + SPATIAL[count]
    last = ("N" + SPATIAL[count] + "C", SPATIAL[count] + "IO")
    if (attrs["data_layout"], attrs["kernel_layout"]) == last and attrs["out_layout"] == last[0]:
        if not has_channels_last_kernel(attrs):
            return node
        return bb.call_te(
            topi_function(f"nn.conv{count}d_transpose_n{SPATIAL[count].lower()}c"),
            *node.args,
            list(attrs["strides"]),
            list(attrs["padding"]),
            attrs["out_dtype"] or None,
            list(attrs["output_padding"]),
            primfunc_name_hint=f"conv{count}d_transpose",
        )
    if (
        attrs["data_layout"] != canonical
        or attrs["kernel_layout"] != kernel
        or attrs["out_layout"] != canonical
    ):
        return node
    out_shape = list(node.struct_info.shape_values)
    out_dtype, groups = node.struct_info.dtype, attrs["groups"]
    total = accumulator(out_dtype)

    def te_conv_transpose(data: Any, weight: Any, out_shape: list[Any]) -> Any:
        in_per_group = floordiv(data.shape[1], groups)
        out_per_group = weight.shape[1]
        channel = te.reduce_axis((0, in_per_group), name="dc")
        window = [
            te.reduce_axis((0, weight.shape[2 + i]), name=f"d{SPATIAL[count][i].lower()}")
            for i in range(count)
        ]

        def element(n: Any, c: Any, *places: Any) -> Any:
            group = floordiv(c, out_per_group)
            source = channel if groups == 1 else group * in_per_group + channel
            inside, index = [], []
            for i, (place, tap) in enumerate(zip(places, window, strict=True)):
                # output = input * stride - padding + tap * dilation
                shifted = place + attrs["padding"][i] - tap * attrs["dilation"][i]
                stride = attrs["strides"][i]
                inside += [shifted >= 0, floordiv(shifted, stride) < data.shape[2 + i]]
                if stride != 1:
                    inside.append(floormod(shifted, stride) == 0)
                index.append(floordiv(shifted, stride))
            value = data(n, source, *index).astype(total)
            factor = weight(source, c if groups == 1 else floormod(c, out_per_group), *window).astype(total)
            # The guard stands around the product: zero times an infinite weight would be no number.
            return te.sum(
                if_then_else(tir_all(*inside), value * factor, const(0, total)), axis=[channel, *window]
            )

        return rounded(te.compute(out_shape, element, name="conv_transpose"), out_dtype)

    return bb.call_te(te_conv_transpose, *node.args, out_shape, primfunc_name_hint=f"conv{count}d_transpose")


@in_out_dtype
def np_conv_transpose(x: np.ndarray, w: np.ndarray, **attrs: Any) -> np.ndarray:
    """Transposed convolution by scattering every input element through the kernel."""
    count = len(attrs["strides"])
    axes = SPATIAL[count]
    x = in_order(x, attrs["data_layout"], "NC" + axes)
    w = in_order(w, attrs["kernel_layout"], "IO" + axes)
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
    y = y[(slice(None), slice(None), *(slice(pads[i], full[i] - pads[i + count]) for i in range(count)))]
    return in_order(y, "NC" + axes, attrs["out_layout"])


def _conv_transpose_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    return conv_layout(node, layouts, desired) if has_channels_last_kernel(node.attrs) else None


_TRANSPOSE: dict[str, Any] = {
    "infer": _infer_conv_transpose,
    "legalize": _legalize_conv_transpose,
    "reference": np_conv_transpose,
    "mixed_precision": MixedPrecisionPolicy.ALWAYS,
    "infer_mixed_precision": in_dtype,
    "layout": _conv_transpose_layout,
    "pattern": OpPatternKind.kOutEWiseFusable,
}


@operator("relax.nn.conv1d_transpose", preferred_layouts=channels_last(1), **_TRANSPOSE)
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
    layouts = (data_layout, kernel_layout, out_layout)
    return convolution(
        1, data, weight, strides, padding, dilation, groups, layouts, out_dtype, output_padding
    )


@operator("relax.nn.conv2d_transpose", preferred_layouts=channels_last(2), **_TRANSPOSE)
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
    layouts = (data_layout, kernel_layout, out_layout)
    return convolution(
        2, data, weight, strides, padding, dilation, groups, layouts, out_dtype, output_padding
    )


@operator("relax.nn.conv3d_transpose", preferred_layouts=channels_last(3), **_TRANSPOSE)
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
    layouts = (data_layout, kernel_layout, out_layout)
    return convolution(
        3, data, weight, strides, padding, dilation, groups, layouts, out_dtype, output_padding
    )


__all__ = ["conv1d_transpose", "conv2d_transpose", "conv3d_transpose"]
