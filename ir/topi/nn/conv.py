"""Convolutions of one to three spatial axes in any layout, grouped and dilated ones, and depthwise convolutions.

Every convolution pads in a stage of its own (``pad_temp``), so that the reduction has affine indices and no
conditions; a schedule inlines the stage where that pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.reduction import sum as te_sum
from ...te.tensor import Tensor
from ...tir.expr import IterVar, PrimExpr, Range, Var
from ...tir.operators import const, floordiv
from ..accumulate import accumulator, rounded
from ..shape import is_const, same_extent, simplify
from .pad import pad, pad_amounts, per_axis

_KERNEL_LAYOUTS = {
    "NCW": "OIW",
    "NWC": "WIO",
    "NCHW": "OIHW",
    "NHWC": "HWIO",
    "HWCN": "HWIO",
    "NCDHW": "OIDHW",
    "NDHWC": "DHWIO",
}
_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def reduce_over(extent: Any, name: str) -> IterVar:
    """A reduction axis from 0 over an extent, in the extent's dtype."""
    return IterVar(
        Range.from_min_extent(const(0, extent.dtype), extent), Var(name, extent.dtype), IterVar.CommReduce
    )


def refuse_rewritten_layout(operator: str, layout: str | None, original_shape: Any) -> None:
    """Weights that another system has packed are not read: packing is a schedule's (see ``RewriteLayout``)."""
    if layout or original_shape:
        raise IRValueError(
            f"{operator}: operands come in their own layout, got auto_scheduler_rewritten_layout={layout!r} and"
            f" meta_schedule_original_shape={original_shape!r}"
        )


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str | None = None,
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
) -> Tensor:
    """Convolution for any layout of data (letters N, C and up to D, H, W) and kernel (O, I and the same).

    The reduction axes are called rc, ry, rx, rz and stand in the order of ``data_layout``. Products are made in
    ``out_dtype`` (default: the input's), or in float32 where that is narrower, and their sum is rounded once.
    """
    refuse_rewritten_layout("conv", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    dim = len(data_layout) - 2
    if dim not in _SPATIAL or inp.ndim != dim + 2:
        raise IRValueError(f"conv: data of {inp.ndim} dimensions does not fit layout {data_layout!r}")
    kernel_layout = kernel_layout or _KERNEL_LAYOUTS.get(data_layout, "OI" + _SPATIAL[dim])
    kind = out_dtype or inp.dtype
    spatial = _SPATIAL[dim]
    data_axes = [data_layout.index(letter) for letter in "NC" + spatial]
    kernel_axes = [kernel_layout.index(letter) for letter in "OI" + spatial]
    strides, dilations = per_axis(stride, dim, "stride"), per_axis(dilation, dim, "dilation")
    batch, in_channel, *extents = (inp.shape[axis] for axis in data_axes)
    num_filter, kernel_channel, *kernel = (filt.shape[axis] for axis in kernel_axes)
    _check_groups(in_channel, num_filter, kernel_channel, groups)
    before, after, out_extents = _out_extents(extents, kernel, strides, padding, dilations)
    padded = _pad_spatial(inp, data_axes[2:], before, after, "pad_temp")
    rc = reduce_over(simplify(floordiv(in_channel, groups)), "rc")
    total = accumulator(kind)
    rs = [reduce_over(size, name) for size, name in zip(kernel, ("ry", "rx", "rz"))]
    by_letter: dict[str, Any] = dict(zip("NC" + spatial, (batch, num_filter, *out_extents), strict=True))
    axis_names = dict(zip("NC" + spatial, ("nn", "ff", "yy", "xx", "zz")))

    def element(*indices: Any) -> PrimExpr:
        at = dict(zip(data_layout, indices, strict=True))
        n, f = at["N"], at["C"]
        channel: Any = rc.var
        if groups > 1:
            channel = floordiv(f, floordiv(num_filter, groups)) * floordiv(in_channel, groups) + rc.var
        places = [
            at[letter] * step + r.var * spread
            for letter, r, step, spread in zip(spatial, rs, strides, dilations, strict=True)
        ]
        data_index = dict(zip("NC" + spatial, (n, channel, *places), strict=True))
        kernel_index = dict(zip("OI" + spatial, (f, rc.var, *[r.var for r in rs]), strict=True))
        value = padded(*[data_index[letter] for letter in data_layout]).astype(total)
        weight = filt(*[kernel_index[letter] for letter in kernel_layout]).astype(total)
        reduced = dict(zip("C" + spatial, (rc, *rs), strict=True))
        return te_sum(value * weight, axis=[reduced[letter] for letter in data_layout if letter != "N"])

    name = f"{'group_' if groups > 1 else ''}conv{dim}d_{data_layout.lower()}"
    result = compute(
        tuple(by_letter[letter] for letter in data_layout),
        element,
        name,
        name,
        {"layout_free_placeholders": [filt]} if auto_scheduler_should_rewrite_layout else None,
        [axis_names[letter] for letter in data_layout],
    )
    return rounded(result, kind)


def _out_extents(
    extents: Sequence[PrimExpr],
    kernel: Sequence[PrimExpr],
    strides: list[Any],
    padding: Any,
    dilations: list[Any],
) -> tuple[list[Any], list[Any], list[PrimExpr]]:
    """Padding before and after every spatial axis, and the extents of the result."""
    dilated = [simplify((size - 1) * step + 1) for size, step in zip(kernel, dilations, strict=True)]
    before, after = pad_amounts(padding, dilated)
    outs = [
        simplify(floordiv(extent - size + low + high, step) + 1)
        for extent, size, low, high, step in zip(extents, dilated, before, after, strides, strict=True)
    ]
    return before, after, outs


def _pad_spatial(data: Tensor, axes: Sequence[int], before: list[Any], after: list[Any], name: str) -> Tensor:
    low, high = [0] * data.ndim, [0] * data.ndim
    for axis, first, last in zip(axes, before, after, strict=True):
        low[axis], high[axis] = first, last
    return pad(data, low, high, name=name)


def _check_groups(in_channel: PrimExpr, num_filter: PrimExpr, kernel_channel: PrimExpr, groups: int) -> None:
    if not is_const(in_channel, num_filter, kernel_channel):
        return
    channels, filters, depth = in_channel.value, num_filter.value, kernel_channel.value  # type: ignore[attr-defined]
    if channels % groups or filters % groups:
        raise IRValueError(
            f"conv: {channels} input and {filters} output channels are not divisible into {groups} groups"
        )
    if channels // groups != depth:
        raise IRValueError(
            f"conv: {channels} input channels in {groups} groups need a kernel of {channels // groups} channels, it has {depth}"
        )


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """1-D convolution in any layout."""
    return conv(data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype)


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """1-D convolution, data NCW, kernel OIW."""
    return conv1d(data, kernel, strides, padding, dilation, 1, "NCW", "", out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """1-D convolution, data NWC, kernel WIO."""
    return conv1d(data, kernel, strides, padding, dilation, 1, "NWC", "", out_dtype)


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Grouped 1-D convolution, data NCW, kernel OIW."""
    return conv1d(data, kernel, strides, padding, dilation, groups, "NCW", "", out_dtype)


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Grouped 1-D convolution, data NWC, kernel WIO."""
    return conv1d(data, kernel, strides, padding, dilation, groups, "NWC", "", out_dtype)


def conv2d(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """2-D convolution in any layout."""
    return conv(data, kernel, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)


def conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: str | None = None
) -> Tensor:
    """2-D convolution, data NCHW, kernel OIHW."""
    return conv2d(Input, Filter, stride, padding, dilation, "NCHW", "", out_dtype)


def conv2d_hwcn(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: str | None = None
) -> Tensor:
    """2-D convolution, data HWCN, kernel HWIO."""
    return conv2d(Input, Filter, stride, padding, dilation, "HWCN", "", out_dtype)


def conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
) -> Tensor:
    """2-D convolution, data NHWC, kernel HWIO."""
    return conv(
        Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype,
        auto_scheduler_rewritten_layout, meta_schedule_original_shape, auto_scheduler_should_rewrite_layout,
    )  # fmt: skip


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """Grouped 2-D convolution, data NCHW, kernel OIHW."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype)


def group_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """Grouped 2-D convolution, data NHWC, kernel HWIO."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype)


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """3-D convolution, data NCDHW, kernel OIDHW."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype)


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_origin_shape: Any = None,
) -> Tensor:
    """3-D convolution, data NDHWC, kernel DHWIO."""
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype,
        auto_scheduler_rewritten_layout, meta_schedule_origin_shape,
    )  # fmt: skip


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: str | None = None
) -> Tensor:
    """Depthwise 2-D convolution: data (N, C, H, W), kernel (C, M, KH, KW), result (N, C * M, OH, OW)."""
    return _depthwise(Input, Filter, stride, padding, dilation, "NCHW", "OIHW", out_dtype)


def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> Tensor:
    """Depthwise 2-D convolution: data (N, H, W, C), result (N, OH, OW, C * M).

    ``kernel_layout`` says where the channels C ("O") and their multiplier M ("I") stand: "HWOI" is (KH, KW, C, M).
    """
    return _depthwise(Input, Filter, stride, padding, dilation, "NHWC", kernel_layout, out_dtype)


def _depthwise(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    data_layout: str,
    kernel_layout: str,
    out_dtype: str | None,
) -> Tensor:
    kind = out_dtype or data.dtype
    data_axes = [data_layout.index(letter) for letter in "NCHW"]
    batch, channel, *extents = (data.shape[axis] for axis in data_axes)
    _, multiplier, *window = (kernel.shape[kernel_layout.index(letter)] for letter in "OIHW")
    strides, dilations = per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    before, after, outs = _out_extents(extents, window, strides, padding, dilations)
    padded = _pad_spatial(data, data_axes[2:], before, after, "PaddedInput")
    di, dj = reduce_over(window[0], "di"), reduce_over(window[1], "dj")
    single = same_extent(multiplier, 1)
    total = accumulator(kind)

    def element(*indices: Any) -> PrimExpr:
        b, c, i, j = (indices[axis] for axis in data_axes)
        source, inner = (c, const(0, c.dtype)) if single else (c // multiplier, c % multiplier)
        y, x = i * strides[0] + di.var * dilations[0], j * strides[1] + dj.var * dilations[1]
        at = dict(zip("NCHW", (b, source, y, x), strict=True))
        kernel_at = dict(zip("OIHW", (source, inner, di.var, dj.var), strict=True))
        value = padded(*[at[letter] for letter in data_layout]).astype(total)
        weight = kernel(*[kernel_at[letter] for letter in kernel_layout]).astype(total)
        return te_sum(value * weight, axis=[di, dj])

    extent_of = dict(zip("NCHW", (batch, simplify(channel * multiplier), *outs), strict=True))
    name = f"depthwise_conv2d_{data_layout.lower()}"
    axis_names = dict(zip("NCHW", "bcij", strict=True))
    result = compute(
        tuple(extent_of[letter] for letter in data_layout),
        element,
        "DepthwiseConv2d",
        name,
        None,
        [axis_names[letter] for letter in data_layout],
    )
    return rounded(result, kind)
