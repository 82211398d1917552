"""Conversions of values, one lane at a time: each rounds once, and says what `docs/semantics.md` says of it."""

from __future__ import annotations

from ... import dtype as dt
from ...tir import expr as E
from .emitter import KernelEmitter, Lanes
from .expression import integer
from .text import Text, binary, call, cast
from .types import is_half


def converted(emitter: KernelEmitter, value: Text, source: str, target: str) -> Text:
    """A value in another dtype that has more than 16 bits, or is no float."""
    if source == target or (is_half(source) and target == "float32"):
        return value
    if dt.is_bool(target):
        return binary("!=", value, Text("0"))
    type_ = emitter.type_of(target)
    if dt.is_float(source) and not dt.is_float(target):
        low, high = dt.integer_range(target)
        return call(
            f"{emitter.use('to_integer')}<{type_}>", value, integer(low, target), integer(high, target)
        )
    return cast(type_, value)


_TO_HALF = {
    "float16": ("__float2half_rn", "__double2half", "__ll2half_rn", "__ull2half_rn", "__half2float"),
    "bfloat16": (
        "__float2bfloat16_rn",
        "__double2bfloat16",
        "__ll2bfloat16_rn",
        "__ull2bfloat16_rn",
        "__bfloat162float",
    ),
}


def cast_operand(emitter: KernelEmitter, expr: E.Cast) -> Lanes:
    """What a cast converts: a value of 16 bits is carried as float, and is rounded before it becomes one of another type."""
    source = dt.element_of(expr.value.dtype)
    values = emitter.data(expr.value)
    if not is_half(source) or source == dt.element_of(expr.dtype) or _is_rounded(expr.value):
        return values
    return [from_memory(emitter, to_half(emitter, value, "float32", source), source) for value in values]


def _is_rounded(expr: E.PrimExpr) -> bool:
    """Whether a value of 16 bits is carried as a number that its type holds: it was loaded or cast, not computed."""
    if isinstance(expr, E.Max | E.Min):
        return _is_rounded(expr.a) and _is_rounded(expr.b)
    if isinstance(expr, E.Select):
        return _is_rounded(expr.true_value) and _is_rounded(expr.false_value)
    if isinstance(expr, E.Broadcast):
        return _is_rounded(expr.value)
    return isinstance(expr, E.BufferLoad | E.Cast | E.FloatImm)


def to_half(emitter: KernelEmitter, value: Text, source: str, target: str) -> Text:
    """A value rounded, once, to a float of 16 bits, as it is stored."""
    emitter.type_of(target)
    of_float, of_double, of_signed, of_unsigned, _ = _TO_HALF[dt.element_of(target)]
    if source == "float64":
        return call(of_double, value)
    if dt.is_float(source):
        return call(of_float, value)
    if dt.bits(source) <= 16:  # which float holds
        return call(of_float, cast("float", value))
    return (
        call(of_unsigned, cast("unsigned long long", value))
        if dt.is_uint(source)
        else call(of_signed, cast("long long", value))
    )


def to_float8(emitter: KernelEmitter, value: Text, source: str, target: str) -> Text:
    """A value rounded, once, to a float of 8 bits; float32 holds the integers that are in its range."""
    emitter.type_of(target)
    wide = value if source in ("float32", "float64") or is_half(source) else cast("float", value)
    return call(emitter.use(f"to_{dt.element_of(target)}"), wide)


def from_memory(emitter: KernelEmitter, value: Text, dtype: str) -> Text:
    """What was loaded, as it is computed with."""
    if dt.is_bool(dtype):
        return binary("!=", value, Text("0"))
    if is_half(dtype):
        emitter.type_of(dtype)
        return call(_TO_HALF[dt.element_of(dtype)][4], value)
    return value
