"""Quantization to 8-bit integers, by arithmetic that later passes can fuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr

from ..context import NodeContext
from ..registry import converter
from .elementwise import onnx_dtype


def _along_axis(ctx: NodeContext, value: Expr, like: Expr) -> Expr:
    """A scale or zero point in a shape that broadcasts: scalars as they are, vectors along ``axis``."""
    shape, rank = ctx.shape(value), ctx.rank(like)
    if not shape or shape == [1]:
        return value
    if len(shape) > 1 or int(ctx.attr("block_size", 0)):
        raise ctx.error("blocked quantization is not supported")
    axis = ctx.axis(int(ctx.attr("axis", 1)), rank)
    return ctx.emit(_op.reshape(value, [-1 if i == axis else 1 for i in range(rank)]))


def _zero_point(ctx: NodeContext, x: Expr, dtype: str) -> Expr | None:
    """The zero point in a dtype; None when there is none or it is zero."""
    known = ctx.known(2)
    if not ctx.has(2) or (known is not None and not np.any(known)):
        return None
    return ctx.emit(_op.astype(_along_axis(ctx, ctx.expr(2), x), dtype))


@converter("QuantizeLinear", since=10)
def _quantize_linear(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    dtype = "uint8"
    if ctx.has(2):
        dtype = ctx.dtype(ctx.expr(2))
    elif ctx.attr("output_dtype"):
        dtype = onnx_dtype(ctx.attr("output_dtype"))
    if dtype not in ("uint8", "int8", "uint16", "int16"):
        raise ctx.error(f"quantization to {dtype} is not supported; to uint8, int8, uint16 and int16 it is")
    if ctx.dtype(x) == "int32":
        x = ctx.emit(_op.astype(x, "float32"))
    scaled = ctx.emit(_op.round(_op.divide(x, _along_axis(ctx, ctx.expr(1), x))))
    point = _zero_point(ctx, x, ctx.dtype(scaled))
    if point is not None:
        scaled = ctx.emit(_op.add(scaled, point))
    limits = np.iinfo(dtype)
    return _op.astype(_op.clip(scaled, float(limits.min), float(limits.max)), dtype)


@converter("DequantizeLinear", since=10)
def _dequantize_linear(ctx: NodeContext) -> Any:
    x, scale = ctx.expr(0), ctx.expr(1)
    if ctx.dtype(x) not in ("uint8", "int8", "uint16", "int16", "int32"):
        raise ctx.error(
            f"dequantization of {ctx.dtype(x)} is not supported; of 8-, 16- and 32-bit integers it is"
        )
    point = _zero_point(ctx, x, "int32")
    whole = ctx.emit(_op.astype(x, "int32")) if ctx.dtype(x) != "int32" else x
    if point is not None:
        whole = ctx.emit(_op.subtract(whole, point))
    return _op.multiply(_op.astype(whole, ctx.dtype(scale)), _along_axis(ctx, scale, x))
