"""Reductions over axes, cumulative sums, and selection by value."""

from __future__ import annotations

from typing import Any

from ir.relax import op as _op
from ir.relax.expr import Expr, const

from ..context import NodeContext, computed_widely
from ..registry import converter


def _axes(ctx: NodeContext) -> list[int] | None:
    """The axes to reduce; None for all, an empty list for none."""
    axes = ctx.ints_of(1, "axes")
    if axes:
        return axes
    return [] if ctx.attr("noop_with_empty_axes", 0) else None


def _reduce(ctx: NodeContext, make: Any, x: Expr) -> Expr:
    axes = _axes(ctx)
    return x if axes == [] else make(x, axes, bool(ctx.attr("keepdims", 1)))


@converter("ReduceSum")
def _reduce_sum(ctx: NodeContext) -> Expr:
    return _reduce(ctx, _op.sum, ctx.expr(0))


@converter("ReduceMean")
def _reduce_mean(ctx: NodeContext) -> Expr:
    return _reduce(ctx, _op.mean, ctx.expr(0))


@converter("ReduceMax")
def _reduce_max(ctx: NodeContext) -> Expr:
    return _reduce(ctx, _op.max, ctx.expr(0))


@converter("ReduceMin")
def _reduce_min(ctx: NodeContext) -> Expr:
    return _reduce(ctx, _op.min, ctx.expr(0))


@converter("ReduceProd")
def _reduce_prod(ctx: NodeContext) -> Expr:
    return _reduce(ctx, _op.prod, ctx.expr(0))


@converter("ReduceL1")
def _reduce_l1(ctx: NodeContext) -> Expr:
    return _reduce(ctx, _op.sum, ctx.emit(_op.abs(ctx.expr(0))))


@converter("ReduceSumSquare")
@computed_widely()
def _reduce_sum_square(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _reduce(ctx, _op.sum, ctx.emit(_op.multiply(x, x)))


@converter("ReduceL2")
@computed_widely(integers=True)
def _reduce_l2(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.sqrt(_reduce(ctx, _op.sum, ctx.emit(_op.multiply(x, x))))


@converter("ReduceLogSum")
@computed_widely(integers=True)
def _reduce_log_sum(ctx: NodeContext) -> Expr:
    return _op.log(_reduce(ctx, _op.sum, ctx.expr(0)))


@converter("ReduceLogSumExp")
@computed_widely(integers=True)
def _reduce_log_sum_exp(ctx: NodeContext) -> Expr:
    x, axes = ctx.expr(0), _axes(ctx)
    if axes == []:
        return x
    # Shifting by the maximum keeps the exponentials finite; the difference of infinities would be no number.
    top = ctx.emit(_op.max(x, axes, True))
    top = ctx.emit(_op.where(_op.isfinite(top), top, ctx.scalar(0, top)))
    total = ctx.emit(_op.log(_op.sum(_op.exp(_op.subtract(x, top)), axes, True)))
    result = _op.add(total, top)
    return result if ctx.attr("keepdims", 1) else _op.squeeze(ctx.emit(result), axes)


def _arg(ctx: NodeContext, make: Any) -> Expr:
    x = ctx.expr(0)
    axis, keepdims = int(ctx.attr("axis", 0)), bool(ctx.attr("keepdims", 1))
    if not ctx.attr("select_last_index", 0):
        return _op.astype(make(x, axis, keepdims), "int64")
    axis = ctx.axis(axis, ctx.rank(x))
    extent = ctx.shape(x)[axis]
    flipped = make(_op.flip(x, axis), axis, keepdims)
    if isinstance(extent, int):
        last: Expr = const(extent - 1, "int64")
    else:
        last = _op.squeeze(ctx.emit(_op.arange(extent - 1, extent, dtype="int64")))
    return _op.subtract(ctx.emit(last), _op.astype(flipped, "int64"))


@converter("ArgMax")
def _arg_max(ctx: NodeContext) -> Expr:
    return _arg(ctx, _op.argmax)


@converter("ArgMin")
def _arg_min(ctx: NodeContext) -> Expr:
    return _arg(ctx, _op.argmin)


@converter("CumSum", since=11)
def _cum_sum(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    axis = (ctx.ints(1, "axis") or [0])[0]
    exclusive, reverse = bool(ctx.attr("exclusive", 0)), bool(ctx.attr("reverse", 0))
    if reverse:
        x = ctx.emit(_op.flip(x, axis))
    result = _op.cumsum(x, axis, exclusive=exclusive)
    return _op.flip(ctx.emit(result), axis) if reverse else result


@converter("TopK")
def _top_k(ctx: NodeContext) -> Any:
    k = int(ctx.attr("k")) if ctx.opset < 10 else (ctx.ints(1, "k") or [1])[0]
    x, axis = ctx.expr(0), int(ctx.attr("axis", -1))
    if not k:  # which the operator takes for all
        nothing = ctx.emit(_op.strided_slice(x, [ctx.axis(axis, ctx.rank(x))], [0], [0]))
        return [nothing, _op.zeros(ctx.shape(nothing), "int64")]
    # With sorted=0 any order will do, the sorted one too.
    return _op.topk(
        x,
        k=k,
        axis=axis,
        ret_type="both",
        largest=bool(ctx.attr("largest", 1)),
        dtype="int64",
    )
