"""Gather and scatter; negative indices count from the end, in ONNX as in the operators."""

from __future__ import annotations

from ir.relax import op as _op
from ir.relax.expr import Expr, PrimValue
from ir.relax.struct_info import TensorStructInfo
from ir.tir.expr import SizeVar
from ir.tir.operators import const

from ..context import NodeContext
from ..registry import converter


@converter("Gather")
def _gather(ctx: NodeContext) -> Expr:
    data = ctx.expr(0)
    return _op.take(data, ctx.expr(1), ctx.axis(int(ctx.attr("axis", 0)), ctx.rank(data)))


@converter("GatherElements", since=11)
def _gather_elements(ctx: NodeContext) -> Expr:
    data = ctx.expr(0)
    axis = ctx.axis(int(ctx.attr("axis", 0)), ctx.rank(data))
    return _op.gather_elements(data, ctx.expr(1), axis)


@converter("GatherND", since=11)
def _gather_nd(ctx: NodeContext) -> Expr:
    ctx.static_shape(ctx.expr(1), [-1])  # how many axes an index names is no number of the run
    return _op.gather_nd(ctx.expr(0), ctx.expr(1), int(ctx.attr("batch_dims", 0)))


@converter("ScatterElements", since=11)
@converter("Scatter", since=9)
def _scatter_elements(ctx: NodeContext) -> Expr:
    data = ctx.expr(0)
    axis = ctx.axis(int(ctx.attr("axis", 0)), ctx.rank(data))
    return _op.scatter_elements(data, ctx.expr(1), ctx.expr(2), axis, _reduction(ctx))


@converter("ScatterND", since=11)
def _scatter_nd(ctx: NodeContext) -> Expr:
    ctx.static_shape(ctx.expr(1), [-1])
    return _op.scatter_nd(ctx.expr(0), ctx.expr(1), ctx.expr(2), _reduction(ctx))


def _reduction(ctx: NodeContext) -> str:
    reduction = ctx.attr("reduction", "none")
    return {"none": "update"}.get(reduction, reduction)


@converter("OneHot", since=9)
def _one_hot(ctx: NodeContext) -> Expr:
    depth = (ctx.ints(1, "depth") or [0])[0]
    values = ctx.constant(2, "values")
    if values is None:
        raise ctx.error("values are missing")
    dtype = str(values.dtype)
    off, on = (PrimValue(const(item.item(), dtype)) for item in values.reshape(-1))
    indices = ctx.expr(0)
    if ctx.dtype(indices) not in ("int32", "int64"):
        indices = ctx.emit(_op.astype(indices, "int64"))
    shifted = _op.where(
        _op.less(indices, ctx.scalar(0, indices)), _op.add(indices, ctx.scalar(depth, indices)), indices
    )
    return _op.one_hot(ctx.emit(shifted), on, off, depth, int(ctx.attr("axis", -1)))


@converter("NonZero", since=9)
def _non_zero(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    found = ctx.emit(_op.nonzero(x))
    if not ctx.rank(x):
        return found
    count = SizeVar("count", "int64")  # which the run says
    return ctx.builder.match_cast(found, TensorStructInfo([ctx.rank(x), count], "int64"))


@converter("Unique", since=11)
def _unique(ctx: NodeContext) -> Expr:
    return _op.unique(
        ctx.expr(0),
        sorted=bool(ctx.attr("sorted", 1)),
        return_index=ctx.n_outputs > 1,
        return_inverse=ctx.n_outputs > 2,
        return_counts=ctx.n_outputs > 3,
        axis=ctx.attr("axis"),
    )
