"""Transposed convolutions: as a convolution over the input with zeros put between its elements, and by phases.

The channels-first functions have the first form; the channels-last ones split the output by its position modulo the
stride, which needs ``stride ** 2`` times fewer multiplications for images and has affine indices as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.reduction import sum as te_sum
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import PrimExpr
from ...tir.operators import const, floordiv, floormod
from .. import tag
from ..accumulate import accumulator, rounded
from ..shape import as_int, ax_compute, simplify
from .conv import reduce_over
from .pad import dilate, pad, pad_amounts, per_axis

_REDUCE_NAMES = {1: ("dw",), 2: ("dh", "dw"), 3: ("dd", "dh", "dw")}
_AXES = {1: "x", 2: "yx", 3: "zyx"}
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
    total = accumulator(kind)
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
        return te_sum(value.astype(total) * weight.astype(total), axis=[dc, *window])

    prefix = "group_" if groups > 1 else ""
    result = compute(
        (batch, simplify(group_out * groups), *outs),
        element,
        tag=f"{prefix}conv{dim}d_transpose_{_LAYOUTS[dim]}",
        varargs_names=names[2:],
    )
    return rounded(result, kind)


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


def conv1d_transpose_nwc(
    Input: Tensor,
    Filter: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Any = 0,
) -> Tensor:
    """Transposed 1-D convolution by phases: data (N, W, C), kernel (KW, C, O), result (N, OW, O)."""
    return _by_phases(1, Input, Filter, strides, padding, out_dtype, output_padding)


def conv2d_transpose_nhwc(
    Input: Tensor,
    Filter: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Any = 0,
) -> Tensor:
    """Transposed 2-D convolution by phases: data (N, H, W, C), kernel (KH, KW, C, O), result (N, OH, OW, O)."""
    return _by_phases(2, Input, Filter, strides, padding, out_dtype, output_padding)


def conv3d_transpose_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Any = 0,
) -> Tensor:
    """Transposed 3-D convolution by phases: data (N, D, H, W, C), kernel (KD, KH, KW, C, O), result (N, OD, OH, OW, O)."""
    return _by_phases(3, Input, Filter, strides, padding, out_dtype, output_padding)


def _by_phases(
    dim: int,
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None,
    output_padding: Any,
) -> Tensor:
    """A dense convolution per phase, and a last stage that puts the phases in order.

    With ``y = h + padding = stride * q + p`` an output sums only the kernel rows ``p + stride * r``, at input rows
    ``q - r``: a convolution with kernel ``ceil(K / stride)`` for each phase ``p``.
    """
    kind = out_dtype or data.dtype
    step = per_axis(strides, dim, "strides")
    extra = per_axis(output_padding, dim, "output_padding")
    batch, *extents, in_channel = data.shape
    *sizes, _, out_channel = kernel.shape
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
    padded = pad(data, [0, *[tap - 1 for tap in taps], 0], [0, *behind, 0], name="pad_temp")
    split_kernel = _phase_kernel(kernel, step, taps)
    index = in_channel.dtype
    rc = reduce_over(in_channel, "rc")
    total = accumulator(kind)
    window = [reduce_over(const(tap, index), f"r{name}") for tap, name in zip(taps, _AXES[dim], strict=True)]

    def phase(nn: Any, *places: Any) -> PrimExpr:
        at, of, ff = places[:dim], places[dim:-1], places[-1]
        rows = [q + (tap - 1) - r.var for q, tap, r in zip(at, taps, window, strict=True)]
        value = padded(nn, *rows, rc.var)
        weight = split_kernel(*of, *[r.var for r in window], rc.var, ff)
        # A tap that the kernel does not have is left out: its zero times an infinite element would be no number.
        inside = [
            p + r.var * s < size
            for p, r, s, size, tap in zip(of, window, step, sizes, taps, strict=True)
            if as_int(size, "kernel extent") < tap * s
        ]
        return te_sum(
            value.astype(total) * weight.astype(total),
            axis=[*window, rc],
            where=T.all(*inside) if inside else None,
        )

    name = f"conv{dim}d_transpose_n{'dhw'[3 - dim :]}c"
    phases = compute(
        (batch, *quotients, *[const(s, index) for s in step], out_channel),
        phase,
        name=name,
        tag=name,
        varargs_names=[*[2 * axis for axis in _AXES[dim]], *["p" + axis for axis in _AXES[dim]], "ff"],
    )

    def ordered(indices: Sequence[Any]) -> PrimExpr:
        n, *places, f = indices
        shifted = [place + low for place, low in zip(places, before, strict=True)]
        at = [floordiv(y, s) for y, s in zip(shifted, step, strict=True)]
        of = [floormod(y, s) for y, s in zip(shifted, step, strict=True)]
        return phases(n, *at, *of, f).astype(kind)

    return ax_compute((batch, *outs, out_channel), ordered, f"conv{dim}d_transpose_output", tag.INJECTIVE)


def _phase_kernel(kernel: Tensor, step: Sequence[int], taps: Sequence[int]) -> Tensor:
    """The kernel as (phases, taps, in, out), zero where the kernel's extent ends."""
    *sizes, in_channel, out_channel = kernel.shape
    dim = len(sizes)
    shape = [const(item, in_channel.dtype) for item in (*step, *taps)]

    def element(*places: Any) -> PrimExpr:
        of, tap, channels = places[:dim], places[dim : 2 * dim], places[2 * dim :]
        rows = [p + r * s for p, r, s in zip(of, tap, step, strict=True)]
        value = kernel(*rows, *channels)
        conditions = [
            row < size
            for row, size, count, s in zip(rows, sizes, taps, step, strict=True)
            if as_int(size, "kernel extent") < count * s
        ]
        return T.if_then_else(T.all(*conditions), value, const(0, kernel.dtype)) if conditions else value

    names = [letter + axis for letter in "pr" for axis in _AXES[dim]]
    return compute(
        (*shape, in_channel, out_channel),
        element,
        name="kernel_phases",
        tag=tag.INJECTIVE,
        varargs_names=[*names, "rc", "ff"],
    )
