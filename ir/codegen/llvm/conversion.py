"""Conversions between dtypes, to and from memory."""

from __future__ import annotations

from ... import dtype as dt
from ...tir.analysis.float_range import ANY_FLOAT, FloatRange, float_range
from ...tir.expr import Cast, Var
from ...tir.operators import wrap_integer
from .builder import FunctionBuilder, Value, constant
from .emitter import FunctionEmitter, prints
from .rounding import integer_to_narrow, narrow_float, widen_float
from .saturation import float_to_integer
from .types import memory_type, register_type


def convert(
    b: FunctionBuilder, value: Value, source: str, target: str, range_: FloatRange = ANY_FLOAT
) -> Value:
    """Numeric conversion between dtypes of equal lanes.

    Args:
        b: where the instructions go.
        value: what is converted.
        source, target: dtypes.
        range_: what is known of a float that becomes an integer; conversions that fit need no care.
    """
    if source == target:
        return value
    if dt.is_float(source):
        return _from_float(b, value, source, target, range_)
    wanted = register_type(target)
    signed = dt.is_int(source)
    if dt.is_float(target):
        if dt.bits(target) < 32:
            return integer_to_narrow(b, value, signed, target)
        return b.cast("sitofp" if signed else "uitofp", value, wanted)
    if dt.is_bool(target):
        return b.icmp("ne", value, constant(0, value.type))
    if value.literal is not None:
        return constant(wrap_integer(number_of(value, source), target), wanted)
    bits, new_bits = dt.bits(source), dt.bits(target)
    if new_bits == bits:
        return value
    if new_bits < bits:
        return b.cast("trunc", value, wanted)
    return b.cast("sext" if signed else "zext", value, wanted)


def number_of(literal: Value, dtype: str) -> int:
    """The number that a literal is as one of an integer dtype: the bits of ``i8 -1`` are 255 as uint8."""
    assert literal.literal is not None
    return wrap_integer(literal.literal, dtype)


def _from_float(b: FunctionBuilder, value: Value, source: str, target: str, range_: FloatRange) -> Value:
    wanted = register_type(target)
    value = widen_float(b, value, source)
    if dt.is_bool(target):
        return b.fcmp("une", value, constant(0.0, value.type))
    if not dt.is_float(target):
        return float_to_integer(b, value, target, range_)
    if dt.bits(target) < 32:
        return narrow_float(b, value, target)
    if value.type == wanted:
        return value
    return b.cast("fptrunc" if dt.bits(target) < dt.bits(source) else "fpext", value, wanted)


def from_memory(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """What was loaded, as it is kept in registers: a bool, or an integer of a few bits, is a byte in memory."""
    if dt.is_bool(dtype):
        return b.icmp("ne", value, constant(0, value.type))
    return (
        b.cast("trunc", value, register_type(dtype)) if memory_type(dtype) != register_type(dtype) else value
    )


def to_memory(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """A value as it is stored."""
    stored = memory_type(dtype)
    return b.cast("sext" if dt.is_int(dtype) else "zext", value, stored) if stored != value.type else value


@prints(Cast)
def _cast(emitter: FunctionEmitter, expr: Cast) -> Value:
    source = expr.value
    if expr.dtype == "int64" and isinstance(source, Var):
        known = emitter.variable(source)
        if known.type == "i64":
            return known
    known_range = ANY_FLOAT
    if dt.is_float(source.dtype) and dt.is_integral(expr.dtype):
        known_range = float_range(source, emitter.integer_bounds)
    return convert(emitter.b, emitter.value(source), source.dtype, expr.dtype, known_range)
