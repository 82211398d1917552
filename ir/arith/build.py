"""Quick constructors for the simplifiers: both operands are expressions of one dtype already, constants fold if the result fits."""

from __future__ import annotations

from typing import Any

from .. import dtype as dt
from ..error import IRValueError
from ..tir import expr as E
from ..tir import operators
from ..tir.expr import IntImm

_const = operators.const
_new_add: Any = E.Add._rebuild  # type: ignore[attr-defined]
_new_sub: Any = E.Sub._rebuild  # type: ignore[attr-defined]
_new_mul: Any = E.Mul._rebuild  # type: ignore[attr-defined]


def const(value: int, dtype: str) -> Any:
    """A constant of ``dtype`` (a broadcast for vectors)."""
    return _const(value, dtype)


class DoesNotFit(IRValueError):
    """A number of ℤ is none of the type that it is needed in."""


def number(value: int, dtype: str) -> Any:
    """The constant that is a number of ℤ.

    Raises:
        DoesNotFit: the type does not hold it, and a constant that wraps would be another number.
    """
    low, high = dt.integer_range(dtype)
    if not low <= value <= high:
        raise DoesNotFit(f"index arithmetic needs the constant {value}, which {dtype} does not hold")
    return _const(value, dtype)


def index_cast(dtype: str, value: Any) -> Any:
    """The cast of index arithmetic; what was cast from the dtype is what it was, for to lose the number on the way is undefined."""
    is_back = value.__class__ is E.Cast and value.value.dtype == dtype
    return value.value if is_back else operators.cast(dtype, value)


def _folded(node: Any, value: int, a: Any, b: Any) -> Any:
    """An operation on constants: as a constant where it does not overflow."""
    low, high = dt.integer_range(a.dtype)
    return _const(value, a.dtype) if low <= value <= high else node(None, a, b, None)


def is_const(expr: Any, value: int) -> bool:
    """Whether the expression is the integer constant ``value`` (or a broadcast of it)."""
    if expr.__class__ is IntImm:
        return bool(expr.value == value)
    return expr.__class__ is E.Broadcast and is_const(expr.value, value)


def add(a: Any, b: Any) -> Any:
    """``a + b``."""
    if a.__class__ is IntImm:
        if b.__class__ is IntImm:
            return _folded(_new_add, a.value + b.value, a, b)
        if a.value == 0:
            return b
    elif b.__class__ is IntImm and b.value == 0:
        return a
    return _new_add(None, a, b, None)


def sub(a: Any, b: Any) -> Any:
    """``a - b``."""
    if b.__class__ is IntImm:
        if a.__class__ is IntImm:
            return _folded(_new_sub, a.value - b.value, a, b)
        if b.value == 0:
            return a
    return _new_sub(None, a, b, None)


def mul(a: Any, b: Any) -> Any:
    """``a * b``."""
    if a.__class__ is IntImm:
        if b.__class__ is IntImm:
            return _folded(_new_mul, a.value * b.value, a, b)
        if a.value == 1:
            return b
        if a.value == 0:
            return a
    elif b.__class__ is IntImm:
        if b.value == 1:
            return a
        if b.value == 0:
            return b
    return _new_mul(None, a, b, None)


def floordiv(a: Any, b: Any) -> Any:
    """``a // b``; a division by the constant zero stays as it is (it may be in dead code)."""
    return E.FloorDiv(a, b) if is_const(b, 0) else operators.floordiv(a, b)


def floormod(a: Any, b: Any) -> Any:
    """``a % b``."""
    return E.FloorMod(a, b) if is_const(b, 0) else operators.floormod(a, b)


def truncdiv(a: Any, b: Any) -> Any:
    """C's ``a / b``."""
    return E.Div(a, b) if is_const(b, 0) else operators.truncdiv(a, b)


def truncmod(a: Any, b: Any) -> Any:
    """C's ``a % b``."""
    return E.Mod(a, b) if is_const(b, 0) else operators.truncmod(a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller."""
    return operators.min(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger."""
    return operators.max(a, b)


def compare(node: type, a: Any, b: Any) -> Any:
    """A comparison node, folded for constants."""
    return operators.compare(node, a, b)


def lt(a: Any, b: Any) -> Any:
    """``a < b``."""
    return operators.compare(E.LT, a, b)


def le(a: Any, b: Any) -> Any:
    """``a <= b``."""
    return operators.compare(E.LE, a, b)


def eq(a: Any, b: Any) -> Any:
    """``a == b``."""
    return operators.compare(E.EQ, a, b)


def ne(a: Any, b: Any) -> Any:
    """``a != b``."""
    return operators.compare(E.NE, a, b)


def logical_and(a: Any, b: Any) -> Any:
    """Both."""
    return operators.logical_and(a, b)


def logical_or(a: Any, b: Any) -> Any:
    """Either."""
    return operators.logical_or(a, b)


def logical_not(a: Any) -> Any:
    """The opposite."""
    return operators.logical_not(a)


def boolean(value: bool, like: str = "bool") -> Any:
    """True or False with the lanes of the dtype ``like``."""
    return _const(value, dt.with_lanes("bool", dt.lanes(like)))
