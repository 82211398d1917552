"""The functions behind the Python operators of expressions: operands converted, brought to one dtype, constants folded.

They build the nodes of :mod:`ir.tir.expr`, whose Python operators call them through the registration at the end.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtype as dt
from ..conversion import cast_array, round_float
from ..error import IRTypeError, IRValueError
from ..integer import truncated_quotient, truncated_remainder
from ..span import Span
from . import expr
from .effects import has_effect
from .expr import (
    EQ,
    GE,
    GT,
    IMMEDIATES,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    StringImm,
    Sub,
)
from .intrinsic.declaration import INTRINSICS

FUNCTIONS = (
    "add subtract multiply div truncdiv truncmod floordiv floormod power cast const convert"
    " logical_and logical_or logical_not"
).split()
"""The functions that programs use by name, as ``tir.add`` and ``T.add``."""

# ---- constants and conversion -----------------------------------------------------------------------------------

_SMALL_INTS: dict[tuple[str, int], IntImm] = {}


def const(value: Any, dtype: str | None = None, span: Span | None = None) -> PrimExpr:
    """A constant of ``dtype``; without it ints are int32, floats float32, bools bool. A vector dtype broadcasts.

    >>> const(3).dtype, const(1.5, "float16").dtype
    ('int32', 'float16')
    """
    if value.__class__ is int and span is None:
        known = _SMALL_INTS.get((dtype, value))  # type: ignore[arg-type]  # None is no dtype of an entry
        if known is not None:
            return known
    if isinstance(value, PrimExpr):
        return value if dtype is None or value.dtype == dtype else cast(dtype, value)
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise IRTypeError(
                f"an array of numpy of shape {value.shape} is no number; take an element of it, as in a[0], or pass it as a parameter"
            )
        value = value.item()
    if dtype is None:
        if isinstance(value, bool | np.bool_):
            dtype = "bool"
        elif isinstance(value, np.generic):
            dtype = value.dtype.name
        elif isinstance(value, int):
            dtype = "int32" if -(1 << 31) <= value < (1 << 31) else "int64"
        elif isinstance(value, float):
            dtype = "float32"
        else:
            raise IRTypeError(f"cannot make a constant of {value!r} ({type(value).__name__})")
    n_lanes = dt.lanes(dtype)
    if n_lanes != 1:
        return Broadcast(const(value, dt.element_of(dtype)), n_lanes)
    if dt.is_float(dtype):
        return FloatImm(dtype, value, span)
    if dt.is_integral(dtype):
        number = int(bool(value)) if dt.is_bool(dtype) else wrap_integer(int(value), dtype)
        if span is None and -16 <= number <= 4096:
            key = (dtype, number)
            found = _SMALL_INTS.get(key)
            if found is None:
                found = _SMALL_INTS[key] = IntImm(dtype, number)
            return found
        return IntImm(dtype, number, span)
    raise IRTypeError(f"cannot make a constant of dtype {dtype!r} from {value!r}")


def wrap_integer(value: int, dtype: str) -> int:
    """The value that ``dtype`` holds where ``value`` overflows: its low bits, read with the dtype's sign."""
    low, high = dt.integer_range(dtype)
    if low <= value <= high:
        return value
    return (value - low) % (high - low + 1) + low


def located(expr: PrimExpr, span: Span | None) -> PrimExpr:
    """The expression with a place in the source, if one is given."""
    return expr if span is None else expr.replace(span=span)  # type: ignore[no-any-return]


def convert(value: Any, dtype: str | None = None) -> PrimExpr:
    """An expression from a Python or numpy number, a string, an iteration variable, or an expression."""
    if isinstance(value, IterVar):
        return value.var
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, str):
        return StringImm(value)
    asobject = getattr(value, "asobject", None)
    if asobject is not None:
        return asobject()
    return const(value, dtype)


def match_dtypes(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Bring both operands to one dtype: lanes broadcast, then bool < int < float, and the wider of a kind."""
    if a.dtype == b.dtype:
        return a, b
    lanes_a, lanes_b = dt.lanes(a.dtype), dt.lanes(b.dtype)
    if lanes_a != lanes_b:
        if lanes_a == 1:
            a = Broadcast(a, lanes_b)
        elif lanes_b == 1:
            b = Broadcast(b, lanes_a)
        else:
            raise IRTypeError(f"operands have {lanes_a} and {lanes_b} lanes; their numbers must agree")
    if a.dtype == b.dtype:
        return a, b
    kind_a, kind_b = dt.code(a.dtype), dt.code(b.dtype)
    if "handle" in (kind_a, kind_b):
        raise IRTypeError(f"no common dtype of {a.dtype} and {b.dtype}")
    float_a, float_b = dt.is_float(a.dtype), dt.is_float(b.dtype)
    if float_a and not float_b:
        return a, cast(a.dtype, b)
    if float_b and not float_a:
        return cast(b.dtype, a), b
    if kind_a == "bool" and kind_b != "bool":
        return cast(b.dtype, a), b
    if kind_b == "bool" and kind_a != "bool":
        return a, cast(a.dtype, b)
    bits_a, bits_b = dt.bits(a.dtype), dt.bits(b.dtype)
    if bits_a > bits_b:
        return a, cast(a.dtype, b)
    if bits_b > bits_a:
        return cast(b.dtype, a), b
    # Same width: signed with unsigned meets in unsigned, as in C; bfloat16 with float16 meets in float32.
    if kind_a == "uint" and kind_b == "int":
        return a, cast(a.dtype, b)
    if kind_a == "int" and kind_b == "uint":
        return cast(b.dtype, a), b
    wide = dt.with_lanes("float32", dt.lanes(a.dtype))
    return cast(wide, a), cast(wide, b)


def operands(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both sides as expressions of one dtype; a Python number takes the dtype of the expression beside it (a float stays a float)."""
    if not isinstance(a, PrimExpr) or a.__class__ is IterVar:
        a = _number_like(a, b)
    if not isinstance(b, PrimExpr) or b.__class__ is IterVar:
        b = _number_like(b, a)
    return (a, b) if a.dtype == b.dtype else match_dtypes(a, b)


def _number_like(value: Any, other: Any) -> PrimExpr:
    if isinstance(value, np.integer):
        value = value.item()  # a plain number here: shapes of arrays are such
    if isinstance(value, bool | np.generic) or not isinstance(value, int | float):
        return convert(value)
    if isinstance(other, IterVar):
        other = other.var
    dtype = other.dtype if isinstance(other, PrimExpr) else None
    if dtype is None or dtype == "handle" or dt.is_bool(dtype):
        return const(value)
    if isinstance(value, float) and not dt.is_float(dtype):
        return const(value, dt.with_lanes("float32", dt.lanes(dtype)))
    if isinstance(value, int) and dt.is_integral(dtype):
        low, high = dt.integer_range(dt.element_of(dtype))
        if not low <= value <= high:
            return const(value)
    return const(value, dtype)


# ---- operators with folding -------------------------------------------------------------------------------------


def fold_value(dtype: str, value: Any) -> PrimExpr:
    """The constant of ``dtype`` that a computation on constants gives: rounded or wrapped as the machine does."""
    if dt.is_float(dtype):
        return FloatImm(dtype, round_float(value, dtype))
    return const(wrap_integer(int(value), dtype), dtype)


def _saturated(value: float, dtype: str) -> int:
    """The integer that a cast makes of a float: towards zero, at most the ends of the type, 0 for NaN."""
    low, high = dt.integer_range(dtype)
    if math.isnan(value):
        return 0
    return (
        int(builtins.min(builtins.max(value, low), high))
        if math.isfinite(value)
        else (high if value > 0 else low)
    )


def _is_const(expr: PrimExpr, value: int) -> bool:
    return expr.__class__ is IntImm and bool(expr.value == value)  # type: ignore[attr-defined]


def _is_float(expr: PrimExpr, value: float) -> bool:
    """Whether an expression is this very float: 0.0 is not -0.0."""
    return (
        expr.__class__ is FloatImm
        and expr.value == value  # type: ignore[attr-defined]
        and math.copysign(1.0, expr.value) == math.copysign(1.0, value)  # type: ignore[attr-defined]
    )


def _number(imm: Any) -> Any:
    """The value of a constant as its type holds it: programs may write digits that a narrow float has not."""
    return imm.value if imm.__class__ is IntImm else round_float(imm.value, imm.dtype)


def _numbers(lhs: Any, rhs: Any, what: str) -> tuple[PrimExpr, PrimExpr]:
    """Operands of arithmetic that bools do not have."""
    a, b = operands(lhs, rhs)
    refuse_bools(a, what)
    return a, b


def refuse_bools(value: PrimExpr, what: str) -> None:
    """Raise the IRTypeError that an operation is one of numbers, where it is given a bool."""
    if value.dtype[:4] == "bool":
        raise IRTypeError(f"{what} of bools is not defined; convert them to numbers with .astype")


def add(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """``lhs + rhs`` with dtype matching and constant folding; of bools, ``lhs or rhs``."""
    a, b = operands(lhs, rhs)
    if a.dtype[:4] == "bool":
        return logical_or(a, b, span)
    if isinstance(a, IMMEDIATES):
        if isinstance(b, IMMEDIATES):
            return fold_value(a.dtype, _number(a) + _number(b))
        if _is_const(a, 0) or _is_float(a, -0.0):  # 0.0 + x is 0.0 where x is -0.0
            return b
    elif _is_const(b, 0) or _is_float(b, -0.0):
        return a
    return Add(a, b, span)


def subtract(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """``lhs - rhs`` with dtype matching and constant folding."""
    a, b = _numbers(lhs, rhs, "subtraction")
    if isinstance(b, IMMEDIATES):
        if isinstance(a, IMMEDIATES):
            return fold_value(a.dtype, _number(a) - _number(b))
        if _is_const(b, 0) or _is_float(b, 0.0):
            return a
    return Sub(a, b, span)


def multiply(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """``lhs * rhs`` with dtype matching and constant folding; of bools, ``lhs and rhs``.

    A product of integers with 0 is 0 unless a call with effects stands in it.
    """
    a, b = operands(lhs, rhs)
    if a.dtype[:4] == "bool":
        return logical_and(a, b, span)
    if isinstance(a, IMMEDIATES) and isinstance(b, IMMEDIATES):
        return fold_value(a.dtype, _number(a) * _number(b))
    for factor, other in ((a, b), (b, a)):
        if isinstance(factor, IMMEDIATES):
            if factor.value == 1:
                return other
            if _is_const(factor, 0) and not has_effect(other):
                return factor
    return Mul(a, b, span)


def divide(lhs: Any, rhs: Any) -> PrimExpr:
    """Python's ``/``: floats only, raises IRTypeError for bools and for integers, whose rounding it would leave open."""
    a, b = _numbers(lhs, rhs, "division")
    if dt.is_integral(a.dtype):
        raise IRTypeError(
            "/ on integers is ambiguous; use // (floordiv), truncdiv or indexdiv (of T in script, of tir else), or convert to float first"
        )
    return div(a, b)


def _refuse_zero(b: PrimExpr, what: str) -> None:
    if isinstance(b, IntImm) and b.value == 0:
        raise IRValueError(f"{what} by zero")


def div(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """``a / b``; integers truncate towards zero."""
    a, b = operands(a, b)
    if dt.is_integral(a.dtype):
        return truncdiv(a, b, span)
    if isinstance(b, FloatImm):
        if b.value == 1:
            return a
        if isinstance(a, FloatImm) and b.value != 0:
            return fold_value(a.dtype, _number(a) / _number(b))
    return Div(a, b, span)


def truncdiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Integer division rounding towards zero, as in C."""
    a, b = _numbers(a, b, "division")
    _refuse_zero(b, "division")
    if isinstance(b, IntImm):
        if isinstance(a, IntImm):
            return fold_value(a.dtype, truncated_quotient(a.value, b.value))
        if b.value == 1:
            return a
    if _is_const(a, 0) and not has_effect(b):
        return a
    return Div(a, b, span)


def truncmod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Remainder of truncating division; it has a's sign."""
    a, b = _numbers(a, b, "remainder")
    _refuse_zero(b, "remainder")
    if isinstance(b, IntImm):
        if isinstance(a, IntImm):
            return fold_value(a.dtype, truncated_remainder(a.value, b.value))
        if b.value == 1 and not has_effect(a):
            return const(0, a.dtype)
    if _is_const(a, 0) and not has_effect(b):
        return a
    return Mod(a, b, span)


def floordiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """``a / b`` rounded towards minus infinity, as Python's ``//``."""
    a, b = _numbers(a, b, "division")
    _refuse_zero(b, "division")
    if isinstance(b, IMMEDIATES):
        if isinstance(a, IMMEDIATES) and b.value != 0:
            return fold_value(a.dtype, _number(a) // _number(b))
        if b.value == 1 and isinstance(b, IntImm):
            return a
    if _is_const(a, 0) and not has_effect(b):
        return a
    return FloorDiv(a, b, span)


def floormod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Remainder of floor division, as Python's ``%``."""
    a, b = _numbers(a, b, "remainder")
    _refuse_zero(b, "remainder")
    if isinstance(b, IMMEDIATES):
        if isinstance(a, IMMEDIATES) and b.value != 0:
            return fold_value(a.dtype, _number(a) % _number(b))
        if _is_const(b, 1) and not has_effect(a):
            return const(0, a.dtype)
    if _is_const(a, 0) and not has_effect(b):
        return a
    return FloorMod(a, b, span)


def _extreme(node: type, fold: Callable[[Any, Any], Any], lhs: Any, rhs: Any, span: Span | None) -> PrimExpr:
    a, b = operands(lhs, rhs)
    if a is b and not a.is_compound:  # one that is computed twice may have an effect
        return a
    if isinstance(a, IMMEDIATES) and isinstance(b, IMMEDIATES):
        return fold_value(a.dtype, fold(_number(a), _number(b)))
    return node(a, b, span)


def min(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """The smaller of two values; NaN if one is."""
    return _extreme(Min, lambda a, b: a if a <= b or a != a else b, lhs, rhs, span)


def max(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """The larger of two values; NaN if one is."""
    return _extreme(Max, lambda a, b: a if a >= b or a != a else b, lhs, rhs, span)


_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}


def comparable(a: str, b: str) -> bool:
    """Whether values of the two dtypes can be compared: no pointers, and lanes that broadcast."""
    return "handle" not in (a, b) and (dt.lanes(a) == dt.lanes(b) or 1 in (dt.lanes(a), dt.lanes(b)))


def compare(node: type, lhs: Any, rhs: Any) -> PrimExpr:
    """The comparison ``node`` (:class:`EQ`, :class:`LT` ...) with dtype matching and constant folding."""
    a, b = operands(lhs, rhs)
    if isinstance(a, IMMEDIATES) and isinstance(b, IMMEDIATES):
        return const(_COMPARISONS[node](_number(a), _number(b)), "bool")
    return node(a, b)


def as_condition(value: Any, what: str = "") -> PrimExpr:
    """An expression as a condition: bools are; integers hold where they are not 0, as Python's and C's do.

    Args:
        value: an expression or a number.
        what: whose condition it is, for the message.

    Raises:
        IRTypeError: it is a float or an address, which would hide what is compared.
    """
    expr = convert(value)
    if expr.dtype[:4] == "bool":
        return expr
    if not dt.is_integral(expr.dtype):
        raise IRTypeError(
            f"the condition{f' of {what}' if what else ''} must be bool, got {expr.dtype}; compare it, as in x != 0"
        )
    return cast(dt.with_lanes("bool", dt.lanes(expr.dtype)), expr)


def logical_and(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """Both hold."""
    a, b = operands(as_condition(lhs, "and"), as_condition(rhs, "and"))
    if isinstance(a, IntImm):
        return b if a.value else a
    if isinstance(b, IntImm):
        if b.value:
            return a
        if not has_effect(a):
            return b
    return And(a, b, span)


def logical_or(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """At least one holds."""
    a, b = operands(as_condition(lhs, "or"), as_condition(rhs, "or"))
    if isinstance(a, IntImm):
        return a if a.value else b
    if isinstance(b, IntImm):
        if not b.value:
            return a
        if not has_effect(a):
            return b
    return Or(a, b, span)


def logical_not(value: Any, span: Span | None = None) -> PrimExpr:
    """The condition does not hold."""
    a = as_condition(value, "not")
    if isinstance(a, IntImm):
        return const(not a.value, "bool")
    return Not(a, span)


def cast(dtype: str, value: Any, span: Span | None = None) -> PrimExpr:
    """``value`` converted to ``dtype``; constants fold, a scalar broadcasts into a vector dtype.

    Integers wrap, floats round once, and a float that becomes an integer is cut off, with the ends of the type as limits and 0 for NaN.
    """
    expr = convert(value)
    if expr.dtype == dtype:
        return expr
    n_lanes = dt.lanes(dtype)
    if n_lanes != 1 and dt.lanes(expr.dtype) == 1:
        return Broadcast(cast(dt.element_of(dtype), expr), n_lanes)
    if isinstance(expr, IMMEDIATES) and n_lanes == 1:
        value = _number(expr)
        if dt.is_float(dtype):
            return FloatImm(dtype, float(cast_array(np.asarray(value), dtype)), span)
        if dt.is_bool(dtype):
            return const(bool(value), dtype)
        if dt.is_integral(dtype):
            whole = _saturated(value, dtype) if isinstance(expr, FloatImm) else wrap_integer(value, dtype)
            return const(whole, dtype, span)
    return Cast(dtype, expr, span)


def index_number(expr: PrimExpr) -> PrimExpr:
    """An integer (or vector of such) as an index number: int32 and int64 are, others become the narrower of these that holds them.

    Extents and bounds are computed from the result: arithmetic in any other type wraps. uint64 becomes int64, which holds every index.
    """
    code, width, n_lanes = dt.parse(expr.dtype)
    if code == "int" and width in (32, 64):
        return expr
    return cast(dt.with_lanes("int32" if width < 32 else "int64", n_lanes), expr)


def bitwise(name: str, lhs: Any, rhs: Any) -> PrimExpr:
    """The intrinsic ``name`` of two integers with dtype matching and folding; ``&`` and ``|`` of bools are logical."""
    a, b = operands(lhs, rhs)
    if dt.is_bool(a.dtype) and name == "tir.bitwise_and":
        return logical_and(a, b)
    if dt.is_bool(a.dtype) and name == "tir.bitwise_or":
        return logical_or(a, b)
    if not dt.is_integral(a.dtype) or ("shift" in name and dt.is_bool(a.dtype)):
        raise IRTypeError(f"{name} needs integers, got {a.dtype}")
    is_defined = "shift" not in name or (isinstance(b, IntImm) and 0 <= b.value < dt.bits(a.dtype))
    if isinstance(a, IntImm) and isinstance(b, IntImm) and is_defined:
        meaning = INTRINSICS[name].meaning
        assert meaning is not None
        return fold_value(a.dtype, meaning(a.value, b.value))
    return Call(a.dtype, name, (a, b))


def absolute(x: Any, span: Span | None = None) -> PrimExpr:
    """The absolute value of any number, elementwise; raises IRTypeError for bools."""
    value = convert(x)
    refuse_bools(value, "tir.abs")
    if isinstance(value, IntImm | FloatImm):
        return const(value.value if value.value >= 0 else -value.value, value.dtype)
    if dt.is_float(value.dtype):
        return Call(value.dtype, "tir.fabs", (value,), span)
    if dt.is_uint(value.dtype):
        return value
    return Select(value >= const(0, value.dtype), value, const(0, value.dtype) - value)


def power(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """``x`` to the power ``y``; constant integer exponents of integers multiply out."""
    a = convert(x)
    b = convert(y, a.dtype)
    if dt.is_bool(a.dtype) and dt.is_bool(b.dtype):
        raise IRTypeError("a power of bools is not defined; convert them to numbers with .astype")
    if dt.is_integral(a.dtype) and dt.is_float(b.dtype):
        a = cast(b.dtype, a)
    if b.dtype != a.dtype:
        b = cast(a.dtype, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm) and b.value >= 0:
        return const(a.value**b.value, a.dtype)
    return Call(a.dtype, "tir.pow", (a, b), span)


expr.operators = sys.modules[__name__]
