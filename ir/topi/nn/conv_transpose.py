"""Transposed convolutions: as a convolution over the input with zeros put between its elements, and by phases.

The first form is what the operators of models use; :func:`conv2d_transpose_nhwc` splits the output by its position
modulo the stride, which needs ``stride ** 2`` times fewer multiplications and has affine indices as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.reduction import sum as te_sum
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import PrimExpr, const, floordiv, floormod
from .. import tag
from ..shape import as_int, ax_compute, simplify
from .conv import reduce_over
from .pad import dilate, pad, pad_amounts, per_axis

_REDUCE_NAMES = {1: ("dw",), 2: ("dh", "dw"), 3: ("dd", "dh", "dw")}
_LAYOUTS = {1: "ncw", 2: "nchw", 3: "ncdhw"}


def _conv_transpose(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str, output_padding: Any, groups: int
) -> Tensor:
    """Data (N, C, spatial...), kernel (C, O / groups, spatial...)."""
    dim = data.ndim - 2
    kind = out_dtype or data.dtype
    strides = per_axis(stride, dim, "stride")
    extra = per_axis(output_padding, dim, "output_padding")
    if any(isinstance(e, int) and isinstance(s, int) and e >= s for e, s in zip(extra, strides, strict=True)):
        raise IRValueError(
            f"conv{dim}d_transpose: output_padding {extra} must be smaller than the strides {strides}"
        )
    batch, in_channel, *_ = data.shape
    _, group_out, *sizes = kernel.shape
    before, after = pad_amounts(padding, sizes)
    dilated = dilate(data, [1, 1, *strides], name="data_dilate")
    low = [simplify(size - 1 - amount) for size, amount in zip(sizes, before, strict=True)]
    high = [
        simplify(size - 1 - amount + more) for size, amount, more in zip(sizes, after, extra, strict=True)
    ]
    padded = pad(dilated, [0, 0, *low], [0, 0, *high], name="data_pad")

    def flipped(o: Any, i: Any, *places: Any) -> PrimExpr:
        return kernel(i, o, *[size - 1 - place for size, place in zip(sizes, places, strict=True)])

    names = ["o", "i", *["d", "h", "w"][3 - dim :]]
    transformed = compute(
        (group_out, in_channel, *sizes), flipped, name="kernel_transform", varargs_names=names[2:]
    )
    per_group = simplify(floordiv(in_channel, groups))
    dc = reduce_over(per_group, "dc")
    window = [reduce_over(size, name) for size, name in zip(sizes, _REDUCE_NAMES[dim], strict=True)]
    outs = [simplify(extent - size + 1) for extent, size in zip(padded.shape[2:], sizes, strict=True)]

    def element(b: Any, c: Any, *places: Any) -> PrimExpr:
        channel: Any = dc.var
        out: Any = c
        if groups > 1:
            channel = floordiv(c, group_out) * per_group + dc.var
            out = floormod(c, group_out)
        value = padded(b, channel, *[place + r.var for place, r in zip(places, window, strict=True)])
        weight = transformed(out, channel, *[r.var for r in window])
        return te_sum(value.astype(kind) * weight.astype(kind), axis=[dc, *window])

    prefix = "group_" if groups > 1 else ""
    return compute(
        (batch, simplify(group_out * groups), *outs),
        element,
        tag=f"{prefix}conv{dim}d_transpose_{_LAYOUTS[dim]}",
        varargs_names=names[2:],
    )


def conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str, output_padding: Any
) -> Tensor:
    """Transposed 1-D convolution: data (N, C, W), kernel (C, O, KW)."""
    return _conv_transpose(data, kernel, stride, padding, out_dtype, output_padding, 1)


def group_conv1d_transpose_ncw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str, output_padding: Any, groups: int
) -> Tensor:
    """Grouped transposed 1-D convolution: data (N, C, W), kernel (C, O / groups, KW)."""
    return _conv_transpose(data, kernel, stride, padding, out_dtype, output_padding, groups)


def conv2d_transpose_nchw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: str, output_padding: Any
) -> Tensor:
    """Transposed 2-D convolution: data (N, C, H, W), kernel (C, O, KH, KW)."""
    return _conv_transpose(Input, Filter, strides, padding, out_dtype, output_padding, 1)


def group_conv2d_transpose_nchw(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, out_dtype: str, output_padding: Any, groups: int
) -> Tensor:
    """Grouped transposed 2-D convolution: data (N, C, H, W), kernel (C, O / groups, KH, KW)."""
    return _conv_transpose(data, kernel, stride, padding, out_dtype, output_padding, groups)


def conv3d_transpose_ncdhw(
    Input: Tensor, Filter: Tensor, strides: Any, padding: Any, out_dtype: str, output_padding: Any
) -> Tensor:
    """Transposed 3-D convolution: data (N, C, D, H, W), kernel (C, O, KD, KH, KW)."""
    return _conv_transpose(Input, Filter, strides, padding, out_dtype, output_padding, 1)


def group_conv3d_transpose_ncdhw(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, out_dtype: str, output_padding: Any, groups: int
) -> Tensor:
    """Grouped transposed 3-D convolution: data (N, C, D, H, W), kernel (C, O / groups, KD, KH, KW)."""
    return _conv_transpose(data, kernel, strides, padding, out_dtype, output_padding, groups)


def conv2d_transpose_nhwc(
    Input: Tensor,
    Filter: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Any = 0,
) -> Tensor:
    """Transposed 2-D convolution by phases: data (N, H, W, C), kernel (KH, KW, C, O), result (N, OH, OW, O).

    With ``y = h + padding = stride * q + p`` an output sums only the kernel rows ``p + stride * r``, at input rows
    ``q - r``: a dense convolution with kernel ``ceil(K / stride)`` per phase ``p``. The last stage puts the phases in order.
    """
    kind = out_dtype or Input.dtype
    step = per_axis(strides, 2, "strides")
    extra = per_axis(output_padding, 2, "output_padding")
    batch, *extents, in_channel = Input.shape
    *sizes, _, out_channel = Filter.shape
    before, after = pad_amounts(padding, sizes)
    taps = [-(-as_int(size, "kernel extent") // s) for size, s in zip(sizes, step, strict=True)]
    outs = [
        simplify((extent - 1) * s + size - low - high + more)
        for extent, s, size, low, high, more in zip(extents, step, sizes, before, after, extra, strict=True)
    ]
    quotients = [
        simplify(floordiv(out + low + (s - 1), s)) for out, low, s in zip(outs, before, step, strict=True)
    ]
    behind = [simplify(q - extent) for q, extent in zip(quotients, extents, strict=True)]
    behind = [const(0, item.dtype) if getattr(item, "value", 1) < 0 else item for item in behind]
    padded = pad(Input, [0, taps[0] - 1, taps[1] - 1, 0], [0, *behind, 0], name="pad_temp")
    kernel = _phase_kernel(Filter, step, taps)
    index = in_channel.dtype
    rc = reduce_over(in_channel, "rc")
    ry, rx = reduce_over(const(taps[0], index), "ry"), reduce_over(const(taps[1], index), "rx")

    def phase(nn: Any, yy: Any, xx: Any, py: Any, px: Any, ff: Any) -> PrimExpr:
        value = padded(nn, yy + (taps[0] - 1) - ry.var, xx + (taps[1] - 1) - rx.var, rc.var)
        weight = kernel(py, px, ry.var, rx.var, rc.var, ff)
        return te_sum(value.astype(kind) * weight.astype(kind), axis=[ry, rx, rc])

    phases = compute(
        (batch, *quotients, const(step[0], index), const(step[1], index), out_channel),
        phase,
        name="conv2d_transpose_nhwc",
        tag="conv2d_transpose_nhwc",
    )

    def ordered(indices: Sequence[Any]) -> PrimExpr:
        n, h, w, f = indices
        y, x = h + before[0], w + before[1]
        return phases(
            n, floordiv(y, step[0]), floordiv(x, step[1]), floormod(y, step[0]), floormod(x, step[1]), f
        )

    return ax_compute((batch, *outs, out_channel), ordered, "conv2d_transpose_output", tag.INJECTIVE)


def _phase_kernel(Filter: Tensor, step: Sequence[int], taps: Sequence[int]) -> Tensor:
    """The kernel as (phase y, phase x, tap y, tap x, in, out), zero where the kernel's extent ends."""
    height, width, in_channel, out_channel = Filter.shape
    index = in_channel.dtype
    shape = [const(item, index) for item in (*step, *taps)]

    def element(py: Any, px: Any, ry: Any, rx: Any, rc: Any, ff: Any) -> PrimExpr:
        y, x = py + ry * step[0], px + rx * step[1]
        value = Filter(y, x, rc, ff)
        conditions = []
        if as_int(height) < taps[0] * step[0]:
            conditions.append(y < height)
        if as_int(width) < taps[1] * step[1]:
            conditions.append(x < width)
        return T.if_then_else(T.all(*conditions), value, const(0, Filter.dtype)) if conditions else value

    return compute((*shape, in_channel, out_channel), element, name="kernel_phases", tag=tag.INJECTIVE)
