"""Tensors made from shapes and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr, const

from ..context import NodeContext
from ..registry import converter
from .elementwise import onnx_dtype


@converter("Constant")
def _constant(ctx: NodeContext) -> Any:
    scalars = {
        "value_float": np.float32,
        "value_int": np.int64,
        "value_floats": np.float32,
        "value_ints": np.int64,
    }
    if ctx.attr("value") is not None:
        return np.asarray(ctx.attr("value"))
    for name, dtype in scalars.items():
        if ctx.attr(name) is not None:
            return np.asarray(ctx.attr(name), dtype)
    raise ctx.error(
        f"a constant of strings or a sparse one is not supported (attributes {sorted(ctx.attributes)})"
    )


@converter("ConstantOfShape", since=9)
def _constant_of_shape(ctx: NodeContext) -> Expr:
    shape = ctx.dims(0, "the shape")
    value = ctx.attr("value")
    fill = np.zeros(1, np.float32) if value is None else np.asarray(value)
    dtype = str(fill.dtype)
    return _op.full(shape, const(fill.reshape(-1)[0], dtype), dtype)


@converter("Range", since=11)
def _range(ctx: NodeContext) -> Expr:
    dtype = str(ctx.known(2).dtype) if ctx.known(2) is not None else "int64"  # type: ignore[union-attr]
    bounds = [ctx.dims(index, "start, limit and step") for index in range(3)]
    start, limit, delta = (item[0] for item in bounds if item)
    return _op.arange(start, limit, delta, "int64" if dtype == "object" else dtype)


@converter("EyeLike", since=9)
def _eye_like(ctx: NodeContext) -> Any:
    x = ctx.expr(0)
    rows, columns = ctx.static_shape(x)
    dtype = onnx_dtype(ctx.attr("dtype")) if ctx.attr("dtype") is not None else ctx.dtype(x)
    return np.eye(rows, columns, int(ctx.attr("k", 0))).astype(dtype)
