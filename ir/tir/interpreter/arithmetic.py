"""Operations on two numbers: integers that wrap or, in index positions, must not overflow; floats as IEEE 754 says."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtype as dt
from .. import expr as E
from .error import refusal
from .numbers import rounding, wrapping

Operation = Callable[[Any, Any], Any]


# ---- integers ----------------------------------------------------------------------------------------------------


def _truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _truncated_remainder(a: int, b: int) -> int:
    return a - _truncated_quotient(a, b) * b


_INTEGERS: dict[type, Operation] = {
    E.Add: operator.add,
    E.Sub: operator.sub,
    E.Mul: operator.mul,
    E.FloorDiv: operator.floordiv,
    E.FloorMod: operator.mod,
    E.Div: _truncated_quotient,
    E.Mod: _truncated_remainder,
    E.Min: min,
    E.Max: max,
}
"""Exact, in ℤ."""


def exact_operation(node: E.BinaryOpExpr) -> Operation:
    """The operation in ℤ, which refuses a divisor of zero."""
    exact = _INTEGERS[type(node)]
    if not isinstance(node, E.DIVISIONS):
        return exact

    def divide(a: int, b: int) -> int:
        if b == 0:
            raise refusal("div-zero", f"{a} is divided by zero", node)
        return exact(a, b)

    return divide


def wrapping_operation(node: E.BinaryOpExpr) -> Operation:
    """The operation on data: modulo two to the power of the width."""
    exact = exact_operation(node)
    if isinstance(node, E.Min | E.Max):
        return exact
    wrap = wrapping(dt.element_of(node.dtype))
    return lambda a, b: wrap(exact(a, b))


def index_operation(node: E.BinaryOpExpr) -> Operation:
    """The operation on index numbers, which must fit their type."""
    exact = exact_operation(node)
    low, high = dt.integer_range(dt.element_of(node.dtype))

    def compute(a: int, b: int) -> int:
        found = exact(a, b)
        if not low <= found <= high:
            raise refusal("index-overflow", f"index arithmetic gives {found}, which is no {node.dtype}", node)
        return found

    return compute


# ---- floats ------------------------------------------------------------------------------------------------------


def _smaller(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b  # NaN is not equal to itself; if it is b, no comparison finds a


def _larger(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


_FLOATS: dict[type, Operation] = {
    E.Add: operator.add,
    E.Sub: operator.sub,
    E.Mul: operator.mul,
    E.Div: operator.truediv,
    E.Min: _smaller,
    E.Max: _larger,
}

_DIVISIONS: dict[type, Operation] = {E.FloorDiv: np.floor_divide, E.Mod: np.fmod, E.FloorMod: np.mod}


def float_operation(node: E.BinaryOpExpr) -> Operation:
    """The operation on floats, rounded to their type; what numpy has for float32 and float64 alone goes through float32."""
    found = _FLOATS.get(type(node))
    if found is not None:
        return found
    compute, rounded = _DIVISIONS[type(node)], rounding(dt.element_of(node.dtype))
    carried = np.float64 if dt.bits(node.dtype) == 64 else np.float32
    return lambda a, b: rounded(compute(carried(a), carried(b)))


def data_operation(node: E.BinaryOpExpr) -> Operation:
    """The operation on data of any type."""
    return float_operation(node) if dt.is_float(node.dtype) else wrapping_operation(node)


COMPARISONS: dict[type, Operation] = {
    E.EQ: lambda a, b: bool(a == b),
    E.NE: lambda a, b: bool(a != b),
    E.LT: lambda a, b: bool(a < b),
    E.LE: lambda a, b: bool(a <= b),
    E.GT: lambda a, b: bool(a > b),
    E.GE: lambda a, b: bool(a >= b),
}
"""On integers, bools and floats; NaN is unequal to everything."""
