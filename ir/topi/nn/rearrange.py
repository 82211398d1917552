"""Image and channel rearrangements: flatten, depth and space, pixel shuffle, upsampling, batch and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import IRValueError
from ...te.operation import compute
from ...te.tensor import Tensor
from ...tir.expr import PrimExpr
from ...tir.operators import const, floordiv, floormod
from .. import tag
from ..image.resize import resize2d, resize3d
from ..shape import as_ints, ax_compute, product, simplify, unravel_index
from ..transform import reshape, strided_slice, transpose
from .pad import pad


def flatten(data: Tensor) -> Tensor:
    """All axes but the first as one."""
    rest = data.shape[1:]
    size = product(rest)

    def element(i: Any, j: Any) -> PrimExpr:
        return data(i, *unravel_index(j, rest))

    return compute((data.shape[0], size), element, name="tensor", tag=tag.INJECTIVE)


def _channels(layout: str) -> bool:
    if layout not in ("NCHW", "NHWC"):
        raise IRValueError(f"the layout must be 'NCHW' or 'NHWC', got {layout!r}")
    return layout == "NCHW"


def depth_to_space(data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Channels moved into blocks of ``block_size`` by ``block_size`` pixels.

    ``mode``: "DCR" takes the block's position from the outer part of the channel, "CRD" from the inner part.
    """
    if mode not in ("DCR", "CRD"):
        raise IRValueError(f"depth_to_space: mode must be 'DCR' or 'CRD', got {mode!r}")
    first = _channels(layout)
    n = data.shape[0]
    c, h, w = (data.shape[i] for i in ((1, 2, 3) if first else (3, 1, 2)))
    depth = simplify(floordiv(c, block_size * block_size))
    rows, columns = simplify(h * block_size), simplify(w * block_size)

    def element(*i: Any) -> PrimExpr:
        b, channel, y, x = i if first else (i[0], i[3], i[1], i[2])
        block_y, block_x = floormod(y, block_size), floormod(x, block_size)
        inner = block_y * block_size + block_x
        source = inner * depth + channel if mode == "DCR" else channel * (block_size * block_size) + inner
        place = (source, floordiv(y, block_size), floordiv(x, block_size))
        return data(b, *place) if first else data(b, place[1], place[2], place[0])

    shape = (n, depth, rows, columns) if first else (n, rows, columns, depth)
    return compute(shape, element, name="depth_to_space", tag=tag.INJECTIVE)


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Blocks of ``block_size`` by ``block_size`` pixels moved into channels."""
    first = _channels(layout)
    n = data.shape[0]
    c, h, w = (data.shape[i] for i in ((1, 2, 3) if first else (3, 1, 2)))
    depth = simplify(c * (block_size * block_size))
    rows, columns = simplify(floordiv(h, block_size)), simplify(floordiv(w, block_size))

    def element(*i: Any) -> PrimExpr:
        b, channel, y, x = i if first else (i[0], i[3], i[1], i[2])
        source = floormod(channel, c)
        inner = floordiv(channel, c)
        place = (
            source,
            y * block_size + floordiv(inner, block_size),
            x * block_size + floormod(inner, block_size),
        )
        return data(b, *place) if first else data(b, place[1], place[2], place[0])

    shape = (n, depth, rows, columns) if first else (n, rows, columns, depth)
    return compute(shape, element, name="space_to_depth", tag=tag.INJECTIVE)


def pixel_shuffle(data: Tensor, upscale_factor: int, name: str = "PixelShuffle") -> Tensor:
    """``(..., C * r * r, H, W)`` to ``(..., C, H * r, W * r)``."""
    r = upscale_factor
    if data.ndim < 3:
        raise IRValueError(f"pixel_shuffle needs at least 3 dimensions, {data.name} has {data.ndim}")
    *batch, c, h, w = data.shape
    shape = (*batch, simplify(floordiv(c, r * r)), simplify(h * r), simplify(w * r))

    def element(*i: Any) -> PrimExpr:
        *outer, channel, y, x = i
        source = channel * (r * r) + floormod(y, r) * r + floormod(x, r)
        return data(*outer, source, floordiv(y, r), floordiv(x, r))

    return compute(shape, element, name=name, tag=tag.INJECTIVE)


def pixel_unshuffle(data: Tensor, downscale_factor: int, name: str = "PixelUnshuffle") -> Tensor:
    """``(..., C, H * r, W * r)`` to ``(..., C * r * r, H, W)``."""
    r = downscale_factor
    *batch, c, h, w = data.shape
    shape = (*batch, simplify(c * (r * r)), simplify(floordiv(h, r)), simplify(floordiv(w, r)))

    def element(*i: Any) -> PrimExpr:
        *outer, channel, y, x = i
        inner = floormod(channel, r * r)
        return data(*outer, floordiv(channel, r * r), y * r + floordiv(inner, r), x * r + floormod(inner, r))

    return compute(shape, element, name=name, tag=tag.INJECTIVE)


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[Any] | None = None,
) -> Tensor:
    """2-D images resized by factors; "nearest_neighbor", "bilinear" or "bicubic"."""
    axes = (2, 3) if _channels(layout) else (1, 2)
    size = (
        list(output_shape)
        if output_shape is not None
        else [
            _scaled(data.shape[axis], factor) for axis, factor in zip(axes, (scale_h, scale_w), strict=True)
        ]
    )
    mode = "align_corners" if align_corners else "asymmetric"
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    return resize2d(data, [0.0] * 4, size, layout, kind, mode, "floor" if kind == "nearest_neighbor" else "")


def upsampling3d(
    data: Tensor,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Sequence[Any] | None = None,
) -> Tensor:
    """3-D images resized by factors; "nearest_neighbor" or "trilinear"."""
    axes = (2, 3, 4) if layout == "NCDHW" else (1, 2, 3)
    size = (
        list(output_shape)
        if output_shape is not None
        else [
            _scaled(data.shape[axis], factor)
            for axis, factor in zip(axes, (scale_d, scale_h, scale_w), strict=True)
        ]
    )
    kind = {"trilinear": "linear"}.get(method, method)
    return resize3d(data, [0.0] * 6, size, layout, kind, coordinate_transformation_mode)


def _scaled(extent: PrimExpr, factor: float) -> PrimExpr:
    if float(factor).is_integer():
        return simplify(extent * int(factor))
    value = getattr(extent, "value", None)
    if value is None:
        raise IRValueError(f"upsampling by {factor} needs constant extents")
    return const(round(value * factor), extent.dtype)


def space_to_batch_nd(
    data: Tensor,
    block_shape: Any,
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Blocks of the spatial axes (from the second on) moved into the batch axis, after padding."""
    blocks = as_ints(block_shape, "block_shape")
    rest = data.ndim - 1 - len(blocks)
    padded = pad(data, [0, *pad_before, *[0] * rest], [0, *pad_after, *[0] * rest], pad_value)
    batch, *extents = padded.shape
    shape = [batch]
    for extent, block in zip(extents, blocks, strict=False):
        shape += [simplify(floordiv(extent, block)), const(block, extent.dtype)]
    shape += extents[len(blocks) :]
    split_up = reshape(padded, shape)
    inner = [2 * i + 2 for i in range(len(blocks))]
    outer = [2 * i + 1 for i in range(len(blocks))]
    moved = transpose(split_up, [*inner, 0, *outer, *range(2 * len(blocks) + 1, len(shape))])
    total = simplify(batch * product(blocks))
    return reshape(moved, [total, *[shape[i] for i in outer], *extents[len(blocks) :]])


def batch_to_space_nd(
    data: Tensor, block_shape: Any, crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Tensor:
    """The inverse of :func:`space_to_batch_nd`, cropping instead of padding."""
    blocks = as_ints(block_shape, "block_shape")
    count = len(blocks)
    batch, *extents = data.shape
    rest = extents[count:]
    small = simplify(floordiv(batch, product(blocks)))
    opened = reshape(data, [*[const(item, batch.dtype) for item in blocks], small, *extents])
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    order += list(range(2 * count + 1, opened.ndim))
    joined = reshape(
        transpose(opened, order),
        [small, *[simplify(extent * block) for extent, block in zip(extents, blocks, strict=False)], *rest],
    )
    ends = [simplify(extent - crop) for extent, crop in zip(joined.shape[1:], crop_end_list, strict=False)]
    return strided_slice(joined, [0, *crop_begin_list], [joined.shape[0], *ends])


def channel_shuffle(data: Tensor, groups: int, axis: int = 1) -> Tensor:
    """Channels taken in turn from each of ``groups`` groups."""
    size = simplify(floordiv(data.shape[axis], groups))

    def element(i: tuple[Any, ...]) -> PrimExpr:
        source = floormod(i[axis], groups) * size + floordiv(i[axis], groups)
        return data(*i[:axis], source, *i[axis + 1 :])

    return ax_compute(data.shape, element, "channel_shuffle", tag.INJECTIVE)
