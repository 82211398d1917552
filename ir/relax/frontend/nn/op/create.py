"""Tensors made from nothing but a shape and a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.relax import op as _op
from ir.relax.expr import Expr, ShapeExpr, const
from ir.tir.expr import FloatImm, IntImm, PrimExpr

from ..error import NNTypeError
from ..tensor import Tensor, wrap_nested

IntExpr = int | PrimExpr


def full(
    shape: Sequence[IntExpr], fill_value: Tensor | Any, dtype: str = "float32", name: str = "full"
) -> Tensor:
    """A tensor filled with a scalar.

    Args:
        shape: the shape.
        fill_value: a scalar tensor, or a number.
        dtype: the dtype of the result.
    """
    if isinstance(fill_value, FloatImm | IntImm):
        value: Expr = const(fill_value.value, dtype=dtype)
    elif isinstance(fill_value, int | float):
        value = const(fill_value, dtype=dtype)
    elif isinstance(fill_value, Tensor):
        value = fill_value._expr
    else:
        raise NNTypeError(f"full: fill_value is a scalar tensor or a number, got {type(fill_value).__name__}")
    return wrap_nested(_op.full(ShapeExpr(shape), value, dtype), name)


def zeros(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "zeros") -> Tensor:
    """A tensor of zeros."""
    return wrap_nested(_op.zeros(ShapeExpr(shape), dtype), name)


def ones(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "ones") -> Tensor:
    """A tensor of ones."""
    return wrap_nested(_op.ones(ShapeExpr(shape), dtype), name)


def empty(shape: Sequence[IntExpr], dtype: str = "float32", name: str = "empty") -> Tensor:
    """An uninitialized tensor."""
    return wrap_nested(_op.builtin.alloc_tensor(ShapeExpr(shape), dtype=dtype, runtime_device_index=0), name)


def arange(
    start: int, end: int | None = None, step: int = 1, dtype: str = "float32", name: str = "arange"
) -> Tensor:
    """The numbers from ``start`` up to but without ``end``; ``arange(n)`` starts at 0."""
    return wrap_nested(_op.arange(start, end, step, dtype), name)
