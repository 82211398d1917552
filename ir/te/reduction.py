"""Reducers for tensor expressions: ``te.sum(A[i, k], axis=k)``; called with two or more values they combine these instead."""

from __future__ import annotations

from typing import Any

from ..tir.expr import PrimExpr, Reduce
from ..tir.op import comm_reducer, max, min, sum
from ..tir.operators import const, convert, logical_and, logical_or

prod = comm_reducer(lambda x, y: x * y, lambda t: const(1, t), name="prod")
reduce_all = comm_reducer(lambda x, y: logical_and(x, y), lambda t: const(True, t), name="all")
reduce_any = comm_reducer(lambda x, y: logical_or(x, y), lambda t: const(False, t), name="any")


def const_reduce(value: Any, expr: Any, axis: Any) -> PrimExpr:
    """The sum over ``axis`` that starts at the constant ``value`` instead of zero."""
    result = sum(expr, axis, init=const(value, convert(expr).dtype))
    assert isinstance(result, Reduce)
    return result


__all__ = ["comm_reducer", "const_reduce", "max", "min", "prod", "reduce_all", "reduce_any", "sum"]
