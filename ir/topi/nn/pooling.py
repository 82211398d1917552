"""Pooling over windows of one to three spatial axes, over whole images, and to a given output size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import dtype as dt
from ...error import IRValueError
from ...te.reduction import max as te_max
from ...te.reduction import sum as te_sum
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import IntImm, PrimExpr
from ...tir.operators import cast, const, convert, floordiv
from ...tir.operators import max as _max
from ...tir.operators import min as _min
from .. import tag
from ..accumulate import accumulator
from ..shape import as_int, ax_compute, is_const, simplify
from .conv import reduce_over
from .pad import ax_pad, pad_amounts, per_axis


def _spatial_axes(layout: str, letters: str) -> list[int]:
    """Positions of the spatial axes in a layout such as NCHW or NCHW4c."""
    plain = "".join(char for char in layout if not char.isdigit())
    try:
        return [plain.index(letter) for letter in letters]
    except ValueError:
        raise IRValueError(f"pool: layout {layout!r} lacks one of the axes {letters}") from None


def pool_nd(
    data: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
    pool_type: str,
    axes: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling with a window over ``axes``; ``pool_type`` is "max" or "avg".

    ``ceil_mode`` keeps windows that stick out behind. An average divides by the window's elements that lie in the
    data (with ``count_include_pad`` in the padded data).
    """
    if pool_type not in ("max", "avg"):
        raise IRValueError(f"pool_type must be 'max' or 'avg', got {pool_type!r}")
    count = len(axes)
    before, after = pad_amounts(padding, [0] * count)
    outs, beyond = [], []
    for position, axis in enumerate(axes):
        extent, size = data.shape[axis], (kernel[position] - 1) * dilation[position] + 1
        more = stride[position] - 1 if ceil_mode else 0
        span = extent - size + before[position] + after[position]
        out = simplify(floordiv(span + more, stride[position]) + 1)
        if ceil_mode:
            # The last window starts inside the data or the padding before it, never behind.
            last_start_allowed = floordiv(extent + before[position] - 1, stride[position]) + 1
            out = simplify(_min(out, simplify(last_start_allowed)))
        outs.append(out)
        beyond.append(after[position] + more)
    low: list[Any] = [0] * data.ndim
    high: list[Any] = [0] * data.ndim
    for position, axis in enumerate(axes):
        low[axis], high[axis] = before[position], beyond[position]
    padded_any = any(as_nonzero(item) for item in (*before, *beyond))
    shape = list(data.shape)
    for axis, out in zip(axes, outs, strict=True):
        shape[axis] = out
    window = [
        reduce_over(const(size, data.shape[axis].dtype), f"rv{position}")
        for position, (size, axis) in enumerate(zip(kernel, axes, strict=True))
    ]

    def places(i: Sequence[Any]) -> list[Any]:
        found = list(i)
        for position, axis in enumerate(axes):
            found[axis] = i[axis] * stride[position] + window[position].var * dilation[position]
        return found

    if pool_type == "max":
        source = ax_pad(data, low, high, T.max_identity(data.dtype), "pad_temp") if padded_any else data
        attrs = {"schedule_rule": "meta_schedule.pool_max"}
        return ax_compute(
            shape, lambda i: te_max(source(*places(i)), axis=window), "pool_max", "pool_max", attrs
        )
    source = ax_pad(data, low, high, 0, "pad_temp") if padded_any else data
    wide = accumulator(data.dtype)
    total = ax_compute(
        shape, lambda i: te_sum(source(*places(i)).astype(wide), axis=window), "pool_sum", "pool_sum"
    )
    whole = 1
    for size in kernel:
        whole *= size

    def average(i: Sequence[Any]) -> PrimExpr:
        if count_include_pad and not ceil_mode:
            return _divided(total(*i), const(whole, "int32")).astype(data.dtype)
        elements: Any = None
        for position, axis in enumerate(axes):
            start = i[axis] * stride[position] - before[position]
            extent = data.shape[axis] + (after[position] if count_include_pad else 0)
            inside = _taps_inside(start, extent, kernel[position], dilation[position], not count_include_pad)
            elements = inside if elements is None else elements * inside
        return _divided(total(*i), _max(elements, const(1, elements.dtype))).astype(data.dtype)

    attrs = {"schedule_rule": "meta_schedule.pool_avg"}
    return ax_compute(shape, average, "pool_avg", tag.ELEMWISE, attrs)


def _taps_inside(start: PrimExpr, extent: PrimExpr, size: int, step: int, from_zero: bool) -> PrimExpr:
    """How many of the places ``start + step * (0 .. size)`` lie below ``extent`` (and from 0 on, with ``from_zero``)."""
    last = _min(start + (size - 1) * step, extent - 1)
    if from_zero:
        # Steps from a place in the padding to the first one in the data.
        start = start + step * _max(floordiv((step - 1) - start, step), const(0, start.dtype))
    return floordiv(last - start, step) + 1


def as_nonzero(value: Any) -> bool:
    """Whether a padding amount is not the constant 0."""
    expr = convert(value)
    return not (isinstance(expr, IntImm) and expr.value == 0)


def _divided(value: PrimExpr, count: PrimExpr) -> PrimExpr:
    if dt.is_float(value.dtype):
        return value / cast(value.dtype, count)
    return floordiv(value, cast(value.dtype, count))


def _pool(
    data: Tensor,
    letters: str,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
) -> Tensor:
    dim = len(letters)
    sizes = [as_int(item, "pool size") for item in per_axis(kernel, dim, "pool size")]
    strides = [as_int(item, "stride") for item in per_axis(stride, dim, "stride")]
    spread = [as_int(item, "dilation") for item in per_axis(dilation, dim, "dilation")]
    axes = _spatial_axes(layout, letters)
    return pool_nd(data, sizes, strides, spread, padding, pool_type, axes, ceil_mode, count_include_pad)


def pool1d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling over W; ``padding`` as (before, behind)."""
    return _pool(
        data, "W", kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad
    )


def pool2d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling over H and W; ``padding`` as (top, left, bottom, right)."""
    return _pool(
        data, "HW", kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad
    )


def pool3d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling over D, H and W; ``padding`` as (front, top, left, back, bottom, right)."""
    return _pool(
        data, "DHW", kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad
    )


def _adaptive(data: Tensor, output_size: Sequence[Any], pool_type: str, axes: Sequence[int]) -> Tensor:
    """Windows from ``floor(i * in / out)`` up to ``ceil((i + 1) * in / out)``."""
    if pool_type not in ("max", "avg"):
        raise IRValueError(f"pool_type must be 'max' or 'avg', got {pool_type!r}")
    outs = [
        data.shape[axis] if size is None else convert(size).astype(data.shape[axis].dtype)
        for size, axis in zip(output_size, axes, strict=True)
    ]
    shape = list(data.shape)
    for axis, out in zip(axes, outs, strict=True):
        shape[axis] = out
    window, ragged = [], []
    for position, (axis, out) in enumerate(zip(axes, outs, strict=True)):
        extent = data.shape[axis]
        one = is_const(out) and as_int(out) == 1
        even = one or (is_const(extent, out) and as_int(extent) % as_int(out) == 0)
        # Windows that do not divide the input overlap and differ in size by up to two elements.
        if even:
            size = simplify(floordiv(extent, out))
        elif is_const(extent, out):
            n, m = as_int(extent), as_int(out)
            size = const(max(-(-(i + 1) * n // m) - i * n // m for i in range(m)), extent.dtype)
        else:
            size = simplify(floordiv(extent + out - 1, out) + 1)
        window.append(reduce_over(size, f"rv{position}"))
        ragged.append(not even)

    def start(i: Sequence[Any], position: int) -> Any:
        axis = axes[position]
        if not ragged[position]:
            return i[axis] * window[position].dom.extent
        return floordiv(i[axis] * data.shape[axis], outs[position])

    def length(i: Sequence[Any], position: int) -> Any:
        axis, out = axes[position], outs[position]
        if not ragged[position]:
            return window[position].dom.extent
        return floordiv((i[axis] + 1) * data.shape[axis] + (out - 1), out) - start(i, position)

    def element(i: Sequence[Any], neutral: PrimExpr) -> PrimExpr:
        found = list(i)
        conditions = []
        for position, axis in enumerate(axes):
            found[axis] = start(i, position) + window[position].var
            if ragged[position]:
                conditions.append(window[position].var < length(i, position))
        value = data(*found)
        return T.if_then_else(T.all(*conditions), value, neutral) if conditions else value

    if pool_type == "max":
        return ax_compute(
            shape,
            lambda i: te_max(element(i, T.max_identity(data.dtype)), axis=window),
            "adaptive_pool_max",
            "adaptive_pool_max",
            {"schedule_rule": "meta_schedule.adaptive_pool_max"},
        )
    wide = accumulator(data.dtype)
    total = ax_compute(
        shape,
        lambda i: te_sum(element(i, const(0, data.dtype)).astype(wide), axis=window),
        "adaptive_pool_sum",
        "adaptive_pool_sum",
    )

    def average(i: Sequence[Any]) -> PrimExpr:
        count: Any = None
        for position in range(len(axes)):
            size = length(i, position)
            count = size if count is None else count * size
        return _divided(total(*i), count).astype(data.dtype)

    attrs = {"schedule_rule": "meta_schedule.adaptive_pool_avg"}
    return ax_compute(shape, average, "adaptive_pool_avg", tag.ELEMWISE, attrs)


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling to (height, width) ``output_size``."""
    return _adaptive(data, per_axis(output_size, 2, "output_size"), pool_type, _spatial_axes(layout, "HW"))


def adaptive_pool1d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCW") -> Tensor:
    """Pooling to width ``output_size``."""
    return _adaptive(data, per_axis(output_size, 1, "output_size"), pool_type, _spatial_axes(layout, "W"))


def adaptive_pool3d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """Pooling to (depth, height, width) ``output_size``."""
    return _adaptive(data, per_axis(output_size, 3, "output_size"), pool_type, _spatial_axes(layout, "DHW"))


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling over the whole image; H and W stay with extent 1."""
    return adaptive_pool(data, (1, 1), pool_type, layout)
