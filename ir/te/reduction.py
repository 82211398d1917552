"""Reducers for tensor expressions: ``te.sum(A[i, k], axis=k)``; called with two or more values they combine these instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..error import IRTypeError
from ..tir import op as tir_op
from ..tir.expr import IterVar, PrimExpr, Reduce, const, convert, logical_and, logical_or
from ..tir.expr import max as _max
from ..tir.expr import min as _min


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A commutative reducer from a combiner and its identity.

    The reducer is called as ``reducer(expr, axis, where=None, init=None)`` with reduction axes. For tuples, ``expr`` is
    a tuple, ``fcombine`` takes and returns tuples, and ``fidentity`` takes one dtype per element. Called with values
    instead of axes, it combines them.

    >>> maximum = comm_reducer(lambda x, y: tir.max(x, y), lambda t: tir.min_value(t), name="max")  # doctest: +SKIP
    """
    reduce_over = tir_op.comm_reducer(fcombine, fidentity, name)

    def reducer(expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any) -> Any:
        if isinstance(axis, IterVar) or (
            isinstance(axis, tuple | list) and all(isinstance(i, IterVar) for i in axis)
        ):
            _check_axes(name, axis)
            return reduce_over(expr, axis, where, init)
        result = convert(expr)
        for value in (axis, where, init, *args):
            if value is not None:
                result = fcombine(result, convert(value))
        return result

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"Reduce by {name} over axes, or combine values directly: see :func:`comm_reducer`."
    return reducer


def _check_axes(name: str, axis: Any) -> None:
    for item in axis if isinstance(axis, tuple | list) else (axis,):
        if item.iter_type != IterVar.CommReduce:
            raise IRTypeError(f"{name}: {item.var.name} is no reduction axis; make one with te.reduce_axis")


sum = comm_reducer(lambda x, y: x + y, lambda t: const(0, t), name="sum")
prod = comm_reducer(lambda x, y: x * y, lambda t: const(1, t), name="prod")
max = comm_reducer(lambda x, y: _max(x, y), lambda t: tir_op.min_value(t), name="max")
min = comm_reducer(lambda x, y: _min(x, y), lambda t: tir_op.max_value(t), name="min")
reduce_all = comm_reducer(lambda x, y: logical_and(x, y), lambda t: const(True, t), name="all")
reduce_any = comm_reducer(lambda x, y: logical_or(x, y), lambda t: const(False, t), name="any")


def const_reduce(value: Any, expr: Any, axis: Any) -> PrimExpr:
    """The sum over ``axis`` that starts at the constant ``value`` instead of zero."""
    result = sum(expr, axis, init=const(value, convert(expr).dtype))
    assert isinstance(result, Reduce)
    return result
