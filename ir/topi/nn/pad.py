"""Padding with constants, reflections, edges or wrapped elements, and dilation with zeros between elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import IntImm, PrimExpr
from ...tir.operators import cast, const, convert, floordiv, floormod
from ...tir.operators import max as _max
from ...tir.operators import min as _min
from .. import tag
from ..shape import simplify, wrapped


def _is_zero(value: Any) -> bool:
    expr = convert(value)
    return isinstance(expr, IntImm) and expr.value == 0


def _amounts(
    data: Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None
) -> tuple[list[Any], list[Any]]:
    before = list(pad_before)
    after = list(pad_after) if pad_after is not None else list(before)
    if len(before) != data.ndim or len(after) != data.ndim:
        raise IRValueError(
            f"pad: {data.name} has {data.ndim} dimensions, got {len(before)} amounts before and {len(after)} after"
        )
    return before, after


def _padded_shape(data: Tensor, before: Sequence[Any], after: Sequence[Any]) -> list[PrimExpr]:
    return [
        simplify(extent + cast(extent.dtype, convert(low)) + cast(extent.dtype, convert(high)))
        for extent, low, high in zip(data.shape, before, after, strict=True)
    ]


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Mapping[str, Any] | None = None,
    *,
    axis_names: Sequence[str] | None = None,
) -> Tensor:
    """``data`` with ``pad_value`` around it: ``pad_before[i]`` elements before and ``pad_after[i]`` behind axis i.

    Without ``pad_after`` both sides get the same.
    """
    before, after = _amounts(data, pad_before, pad_after)
    fill = (
        cast(data.dtype, convert(pad_value))
        if not isinstance(pad_value, int | float)
        else const(pad_value, data.dtype)
    )

    def element(*indices: Any) -> PrimExpr:
        conditions, moved = [], []
        for axis, index in enumerate(indices):
            low, high = convert(before[axis]), convert(after[axis])
            if _is_zero(low) and _is_zero(high):
                moved.append(index)
                continue
            low = cast(index.dtype, low)
            moved.append(index - low)
            if not _is_zero(low):
                conditions.append(low <= index)
            conditions.append(index < simplify(data.shape[axis] + low))
        value = data(*moved)
        return T.if_then_else(T.all(*conditions), value, fill) if conditions else value

    return compute(
        _padded_shape(data, before, after), element, name, tag.INJECTIVE + ",pad", attrs, axis_names
    )


def ax_pad(
    data: Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any], pad_value: Any, name: str
) -> Tensor:
    """:func:`pad` with axes called ``ax0, ax1, ...``."""
    names = [f"ax{i}" for i in range(data.ndim)]
    return pad(data, pad_before, pad_after, pad_value, name, axis_names=names)


def _moved_pad(
    data: Tensor,
    before: Sequence[Any],
    after: Sequence[Any],
    name: str,
    move: Callable[[PrimExpr, PrimExpr], PrimExpr],
) -> Tensor:
    """Padding that repeats elements: ``move(index, extent)`` brings an index from outside back inside."""

    def element(*indices: Any) -> PrimExpr:
        found = []
        for axis, index in enumerate(indices):
            if _is_zero(before[axis]) and _is_zero(after[axis]):
                found.append(index)
            else:
                found.append(move(index - cast(index.dtype, convert(before[axis])), data.shape[axis]))
        return data(*found)

    return compute(_padded_shape(data, before, after), element, name, tag.INJECTIVE)


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Padding by mirroring: "SYMMETRIC" repeats the edge element, "REFLECT" does not."""
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise IRValueError(f"mirror_pad: mode must be 'SYMMETRIC' or 'REFLECT', got {mode!r}")
    edge = 1 if mode == "SYMMETRIC" else 0
    before, after = _amounts(data, pad_before, pad_after)

    def move(index: PrimExpr, extent: PrimExpr) -> PrimExpr:
        below = const(-edge, index.dtype) - index
        above = extent * 2 - (2 - edge) - index
        return T.if_then_else(index >= extent, above, T.if_then_else(index < 0, below, index))

    return _moved_pad(data, before, after, name, move)


def reflect_pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    name: str = "ReflectPadInput",
) -> Tensor:
    """Padding by mirroring at the edge elements, which are not repeated."""
    return mirror_pad(data, pad_before, pad_after, "REFLECT", name)


def replicate_pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    name: str = "ReplicatePadInput",
) -> Tensor:
    """Padding that repeats the edge elements."""
    before, after = _amounts(data, pad_before, pad_after)
    return _moved_pad(
        data, before, after, name, lambda index, extent: _max(_min(index, extent - 1), const(0, index.dtype))
    )


edge_pad = replicate_pad
"""The name that numpy and ONNX use."""


def circular_pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    name: str = "CircularPadInput",
) -> Tensor:
    """Padding that wraps around."""
    before, after = _amounts(data, pad_before, pad_after)
    return _moved_pad(data, before, after, name, wrapped)


def dilate(
    data: Tensor, strides: Sequence[Any], dilation_value: float = 0.0, name: str = "DilatedInput"
) -> Tensor:
    """``strides[i] - 1`` elements of ``dilation_value`` put between neighbours along each axis."""
    if len(strides) != data.ndim:
        raise IRValueError(f"dilate: {data.name} has {data.ndim} dimensions, got {len(strides)} strides")
    shape = [simplify((extent - 1) * stride + 1) for extent, stride in zip(data.shape, strides, strict=True)]

    def element(*indices: Any) -> PrimExpr:
        conditions, found = [], []
        for index, stride in zip(indices, strides, strict=True):
            if isinstance(stride, int) and stride == 1:
                found.append(index)
            else:
                found.append(floordiv(index, stride))
                conditions.append(floormod(index, stride).equal(0))
        value = data(*found)
        if not conditions:
            return value
        return T.if_then_else(T.all(*conditions), value, const(dilation_value, data.dtype))

    return compute(shape, element, name, tag.INJECTIVE + ",dilate")


def pad_amounts(padding: Any, kernel: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Padding before and behind each spatial axis, from any of the forms that convolutions and pools accept.

    ``padding`` is one number, one per axis, twice that (all before, then all behind), "VALID" (none) or "SAME" (as
    many outputs as inputs at stride 1, for ``kernel`` extents that include dilation).
    """
    count = len(kernel)
    if isinstance(padding, str):
        if padding == "VALID":
            return [0] * count, [0] * count
        if padding == "SAME":
            total = [simplify(convert(extent) - 1) for extent in kernel]
            before = [simplify(floordiv(item + 1, 2)) for item in total]
            return before, [simplify(item - low) for item, low in zip(total, before, strict=True)]
        raise IRValueError(f"padding must be numbers, 'VALID' or 'SAME', got {padding!r}")
    if not isinstance(padding, tuple | list):
        return [padding] * count, [padding] * count
    values = list(padding)
    if len(values) == 1:
        return values * count, values * count
    if len(values) == count:
        return values, list(values)
    if len(values) == 2 * count:
        return values[:count], values[count:]
    raise IRValueError(
        f"padding of {count} spatial axes takes 1, {count} or {2 * count} numbers, got {len(values)}"
    )


def per_axis(value: Any, count: int, what: str) -> list[Any]:
    """A stride, dilation or kernel extent for each spatial axis, from one number or one per axis."""
    if not isinstance(value, tuple | list):
        return [value] * count
    if len(value) == 1:
        return list(value) * count
    if len(value) != count:
        raise IRValueError(f"{what} takes 1 or {count} numbers, got {len(value)}")
    return list(value)
