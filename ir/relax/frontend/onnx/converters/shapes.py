"""Operators that move elements: reshapes, transposes, slices, concatenation, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr, ShapeExpr
from ir.relax.expr import Tuple as RxTuple
from ir.relax.op.inference import int64, simplify
from ir.relax.struct_info import TensorStructInfo
from ir.relax.struct_info_lattice import prove_dim_equal
from ir.structural import structural_equal
from ir.tir import op as T
from ir.tir.expr import Select

from ..context import Dim, NodeContext, slice_places
from ..registry import converter

_FAR = (1 << 31) - 1  # a bound that lies behind every axis, or before it


@converter("Reshape")
def _reshape(ctx: NodeContext) -> Any:
    x = ctx.expr(0)
    target = ctx.dims(1, "the new shape") if ctx.opset >= 5 else [int(dim) for dim in ctx.attr("shape")]
    if target is None:
        raise ctx.error("the new shape is missing")
    if not ctx.attr("allowzero", 0):
        target = [
            ctx.shape(x)[i] if isinstance(dim, int) and dim == 0 else dim for i, dim in enumerate(target)
        ]
    elif -1 in [dim for dim in target if isinstance(dim, int)] and 0 in ctx.shape(x):
        raise ctx.error("an extent of -1 in the new shape has no value where another is 0")
    shape = _with_inferred(ctx.shape(x), target)
    if any(isinstance(dim, int) and dim == 0 for dim in shape) and -1 not in shape:
        return _op.reshape(x, ShapeExpr(list(shape)))  # zeros are extents now, not to be copied
    return _op.reshape(x, shape)


def _with_inferred(shape: list[Dim], target: Sequence[Dim]) -> Sequence[Dim]:
    """The target with its -1 replaced where equal factors of both shapes cancel: ``n * 4 / n`` is 4 without a proof."""
    unknown = [i for i, dim in enumerate(target) if isinstance(dim, int) and dim == -1]
    if len(unknown) != 1 or all(isinstance(dim, int) for dim in shape):
        return target
    have, taken = 1, 1
    symbolic = [dim for dim in shape if not isinstance(dim, int)]
    for dim in shape:
        have *= dim if isinstance(dim, int) else 1
    for dim in target:
        if isinstance(dim, int):
            taken *= dim if dim != -1 else 1
            continue
        equal = next((other for other in symbolic if structural_equal(other, dim)), None)
        if equal is None:
            return target
        symbolic = [other for other in symbolic if other is not equal]
    if taken == 0 or have % taken or len(symbolic) > 1:
        return target
    rest: Dim = have // taken
    if symbolic:
        rest = symbolic[0] if rest == 1 else symbolic[0] * rest
    return [rest if i == unknown[0] else dim for i, dim in enumerate(target)]


@converter("Flatten")
def _flatten(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    rank, axis = ctx.rank(x), int(ctx.attr("axis", 1))
    axis = axis if axis >= 0 else axis + rank
    shape = ctx.shape(x)
    return _op.reshape(x, [_product(shape[:axis]), _product(shape[axis:])])


def _product(dims: list[Dim]) -> Dim:
    total: Dim = 1
    for dim in dims:
        total = dim if isinstance(total, int) and total == 1 else total * dim
    return total


@converter("Transpose")
def _transpose(ctx: NodeContext) -> Expr:
    return _op.permute_dims(ctx.expr(0), ctx.attr("perm"))


@converter("Squeeze")
def _squeeze(ctx: NodeContext) -> Expr:
    x, axes = ctx.expr(0), ctx.ints_of(1, "axes")
    shape, rank = ctx.shape(x), ctx.rank(x)
    if axes is None:
        axes = [axis for axis, dim in enumerate(ctx.static_shape(x)) if dim == 1]
    axes = [ctx.axis(axis, rank) for axis in axes]
    if any(not isinstance(shape[axis], int) for axis in axes):
        # That the extent is 1, the run has to show.
        fitting = [1 if axis in axes else dim for axis, dim in enumerate(shape)]
        x = ctx.builder.match_cast(ctx.emit(x), TensorStructInfo(fitting, ctx.dtype(x)))
    return _op.squeeze(x, axes)


@converter("Unsqueeze")
def _unsqueeze(ctx: NodeContext) -> Expr:
    axes = ctx.ints_of(1, "axes")
    if axes is None:
        raise ctx.error("axes are missing")
    return _op.expand_dims(ctx.expr(0), axes)


@converter("Concat")
def _concat(ctx: NodeContext) -> Any:
    parts = ctx.exprs()
    if len(parts) == 1:
        return ctx.inputs[0]
    return _op.concat(RxTuple(parts), int(ctx.attr("axis", 1)))


@converter("Split")
def _split(ctx: NodeContext) -> Any:
    x = ctx.expr(0)
    axis = ctx.axis(int(ctx.attr("axis", 0)), ctx.rank(x))
    sizes = ctx.ints_of(1, "split")
    if sizes is None:
        count = int(ctx.attr("num_outputs", ctx.n_outputs))
        return [ctx.inputs[0]] if count == 1 else _op.split(x, count, axis)
    if not isinstance(ctx.shape(x)[axis], int):
        # That the parts make up the axis, the run has to show.
        whole = ctx.shape(x)
        whole[axis] = sum(sizes)
        x = ctx.builder.match_cast(ctx.emit(x), TensorStructInfo(whole, ctx.dtype(x)))
    if len(sizes) == 1:
        return [x]
    return _op.split(x, [int(item) for item in np.cumsum(sizes)[:-1]], axis)


@converter("Slice", since=10)
def _slice(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    starts, ends = ctx.dims(1, "starts"), ctx.dims(2, "ends")
    if starts is None or ends is None:
        raise ctx.error("starts or ends are missing")
    axes = ctx.ints(3, "axes")
    return _sliced(ctx, x, starts, ends, axes, ctx.ints(4, "steps"))


@converter("Slice", since=1)
def _slice_v1(ctx: NodeContext) -> Expr:
    return _sliced(ctx, ctx.expr(0), list(ctx.attr("starts")), list(ctx.attr("ends")), ctx.attr("axes"), None)


def _sliced(
    ctx: NodeContext,
    x: Expr,
    starts: list[Dim],
    ends: list[Dim],
    axes: list[int] | None,
    steps: list[int] | None,
) -> Expr:
    shape, rank = ctx.shape(x), ctx.rank(x)
    axes = [ctx.axis(axis, rank) for axis in (axes if axes is not None else range(len(starts)))]
    steps = steps or [1] * len(starts)
    kept: list[tuple[int, Dim, Dim, int]] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        extent = shape[axis]
        begin, limit = _bounds(start, end, step, extent)
        if step == 1 and isinstance(begin, int) and begin == 0 and _same(limit, extent):
            continue  # the whole axis, as exporters write it
        if isinstance(extent, int) and extent:
            step = max(-extent, min(step, extent))
        kept.append((axis, begin, limit, step))
    if not kept:
        return x
    chosen, begins, limits, strides = (list(column) for column in zip(*kept, strict=True))
    taken = ctx.emit(_op.strided_slice(x, chosen, begins, limits, strides))
    return _with_meant_extents(ctx, x, taken, kept)


def _bounds(start: Dim, end: Dim, step: int, extent: Dim) -> tuple[Dim, Dim]:
    """Bounds with which ``strided_slice``, which counts as numpy does, takes the places that ONNX's Slice takes."""
    if isinstance(start, int) and isinstance(end, int) and isinstance(extent, int):
        places = slice_places(start, end, step, extent)
        if not places:
            return 0, 0
        # A descending slice that includes the first element ends at -1, which must not be taken from the end again.
        return places.start, places.stop if places.stop >= 0 else -extent - 1
    start, end = (max(-_FAR, min(bound, _FAR)) if isinstance(bound, int) else bound for bound in (start, end))
    if step < 0 and not (isinstance(start, int) and start >= -1):
        # numpy takes nothing where a descending slice starts before the first element; ONNX starts at that.
        if isinstance(start, int):
            start = T.max(extent + start, int64(0))
        else:
            start = T.max(Select(start < 0, start + extent, start), int64(0))
    return start, extent if step > 0 and isinstance(end, int) and end == _FAR else end


def _with_meant_extents(
    ctx: NodeContext, x: Expr, taken: Expr, kept: list[tuple[int, Dim, Dim, int]]
) -> Expr:
    """A slice up to a symbolic bound, such as ``table[:length]``, with the extent ``length`` that the model means.

    Bounds are limited to the axis, so the extent is ``min(length, 1024)`` until it is compared; that they lie within the axis
    is checked when the program runs.
    """
    meant = ctx.shape(taken)
    for axis, begin, limit, step in kept:
        counts_on = not isinstance(begin, int) or begin >= 0
        if step == 1 and counts_on and not isinstance(limit, int) and limit is not ctx.shape(x)[axis]:
            meant[axis] = simplify(limit - begin)
    if structural_equal(meant, ctx.shape(taken)):
        return taken
    return ctx.builder.match_cast(taken, TensorStructInfo(meant, ctx.dtype(taken)))


def _same(a: Dim, b: Dim) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else a is b


@converter("Expand", since=8)
def _expand(ctx: NodeContext) -> Any:
    x = ctx.expr(0)
    target = ctx.dims(1, "the shape")
    if target is None:
        raise ctx.error("the shape is missing")
    shape = ctx.shape(x)
    rank = max(len(shape), len(target))
    olds, news = ([*[1] * (rank - len(dims)), *dims] for dims in (shape, target))
    out = [_of_both(old, new) for old, new in zip(olds, news)]
    if len(out) == ctx.rank(x) and all(_same(a, b) for a, b in zip(out, ctx.shape(x))):
        return ctx.inputs[0]
    whole = ctx.emit(_op.broadcast_to(x, out))
    meant = [
        old if isinstance(old, int) and not isinstance(extent, int) and old != 1 else extent
        for old, extent in zip(olds, out)
    ]
    if all(map(_same, meant, out)):
        return whole
    return ctx.builder.match_cast(whole, TensorStructInfo(meant, ctx.dtype(whole)))


def _of_both(old: Dim, new: Dim) -> Dim:
    """What two extents broadcast to; which of two symbolic ones is 1, a run tells."""
    if _same(old, new) or (isinstance(old, int) and old == 1):
        return new
    if isinstance(new, int):
        return old if new == 1 else new
    old = int64(old) if isinstance(old, int) else old
    return old if prove_dim_equal(old, new) else Select(new.equal(1), old, new)


@converter("Tile", since=6)
def _tile(ctx: NodeContext) -> Expr:
    return _op.tile(ctx.expr(0), ctx.ints(1, "repeats") or [])


@converter("Pad", since=11)
def _pad(ctx: NodeContext) -> Expr:
    pads = ctx.ints(1, "pads")
    if pads is None:
        raise ctx.error("pads are missing")
    fill = ctx.constant(2, "the padding value")
    axes = ctx.ints(3, "axes")
    return _padded(ctx, pads, 0.0 if fill is None else fill.reshape(-1)[0].item(), axes)


@converter("Pad", since=2)
def _pad_v2(ctx: NodeContext) -> Expr:
    return _padded(ctx, [int(item) for item in ctx.attr("pads")], float(ctx.attr("value", 0.0)), None)


def _padded(ctx: NodeContext, pads: list[int], value: float, axes: list[int] | None) -> Expr:
    x = ctx.expr(0)
    rank = ctx.rank(x)
    chosen = list(range(rank)) if axes is None else [ctx.axis(axis, rank) for axis in axes]
    widths = [0] * (2 * rank)
    for i, axis in enumerate(chosen):
        widths[2 * axis], widths[2 * axis + 1] = pads[i], pads[i + len(chosen)]
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    mode = ctx.attr("mode", "constant")
    if mode not in modes:
        raise ctx.error(f"mode {mode!r} is not supported; there are {sorted(modes)}")
    for axis, extent in enumerate(ctx.shape(x)):
        if isinstance(extent, int) and extent + widths[2 * axis] + widths[2 * axis + 1] < 0:
            raise ctx.error(f"pads {pads} remove more than the {extent} elements of axis {axis}")
    if mode != "constant" and any(width < 0 for width in widths):
        # Negative padding removes elements; then what is left is repeated.
        shape = ctx.static_shape(x)
        begin = [max(0, -widths[2 * axis]) for axis in range(rank)]
        end = [shape[axis] - max(0, -widths[2 * axis + 1]) for axis in range(rank)]
        x = ctx.emit(_op.strided_slice(x, list(range(rank)), begin, end))
        widths = [max(0, width) for width in widths]
    return _op.nn.pad(x, widths, pad_mode=modes[mode], pad_value=value)


@converter("DepthToSpace")
def _depth_to_space(ctx: NodeContext) -> Expr:
    x, block = ctx.expr(0), int(ctx.attr("blocksize"))
    batch, channels, height, width = ctx.shape(x)
    depth = channels // (block * block)
    if ctx.attr("mode", "DCR") == "DCR":
        cut = _op.reshape(x, [batch, block, block, depth, height, width])
        moved = _op.permute_dims(cut, [0, 3, 4, 1, 5, 2])
    else:
        cut = _op.reshape(x, [batch, depth, block, block, height, width])
        moved = _op.permute_dims(cut, [0, 1, 4, 2, 5, 3])
    return _op.reshape(moved, [batch, depth, height * block, width * block])


@converter("SpaceToDepth")
def _space_to_depth(ctx: NodeContext) -> Expr:
    x, block = ctx.expr(0), int(ctx.attr("blocksize"))
    batch, channels, height, width = ctx.shape(x)
    cut = _op.reshape(x, [batch, channels, height // block, block, width // block, block])
    moved = _op.permute_dims(
        cut, [0, 3, 5, 1, 2, 4] if ctx.attr("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    )
    return _op.reshape(moved, [batch, channels * block * block, height // block, width // block])


@converter("Trilu", since=14)
def _trilu(ctx: NodeContext) -> Expr:
    k = (ctx.dims(1, "k") or [0])[0]
    return (_op.triu if int(ctx.attr("upper", 1)) else _op.tril)(ctx.expr(0), k)


@converter("Shape")
def _shape(ctx: NodeContext) -> Expr:
    # Only a shape that is not known while importing comes here.
    whole = ctx.emit(_op.shape_to_tensor(ctx.emit(_op.shape_of(ctx.expr(0)))))
    start, end = int(ctx.attr("start", 0)), ctx.attr("end")
    if start == 0 and end is None:
        return whole
    rank = ctx.rank(ctx.expr(0))
    first, last, _ = slice(start, end).indices(rank)
    return _op.strided_slice(whole, [0], [first], [last])


@converter("Size")
def _size(ctx: NodeContext) -> Expr:
    whole = ctx.emit(_op.shape_to_tensor(ctx.emit(_op.shape_of(ctx.expr(0)))))
    return _op.prod(whole, None, False)
