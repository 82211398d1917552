"""Conversions between dtypes, to and from memory, and the rounding of half floats."""

from __future__ import annotations

from ... import dtype as dt
from ...tir.expr import Cast, Var
from .builder import FunctionBuilder, Value, constant, lanes_of, vector
from .emitter import FunctionEmitter, prints
from .types import register_type


def widen_float(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """float16 or bfloat16 as float32; other floats as they are."""
    lanes = dt.lanes(dtype)
    if dt.code(dtype) == "bfloat":
        wide = b.cast("zext", value, vector("i32", lanes))
        shifted = b.binary("shl", wide, constant(16, wide.type))
        return b.cast("bitcast", shifted, vector("float", lanes))
    return b.cast("fpext", value, vector("float", lanes)) if dt.bits(dtype) == 16 else value


def narrow_float(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """float32 rounded to the nearest even value of float16 or bfloat16; other floats as they are."""
    lanes = dt.lanes(dtype)
    if dt.code(dtype) == "bfloat":
        bits = b.cast("bitcast", value, vector("i32", lanes))
        upper = b.binary("lshr", bits, constant(16, bits.type))
        odd = b.binary("and", upper, constant(1, bits.type))
        rounded = b.binary("add", b.binary("add", bits, constant(0x7FFF, bits.type)), odd)
        result = b.binary("lshr", rounded, constant(16, bits.type))
        nan = b.binary("or", upper, constant(0x40, bits.type))  # stays a NaN when its low bits are cut off
        result = b.select(b.fcmp("uno", value, value), nan, result)
        return b.cast("trunc", result, vector("i16", lanes))
    return b.cast("fptrunc", value, vector("half", lanes)) if dt.bits(dtype) == 16 else value


def convert(b: FunctionBuilder, value: Value, source: str, target: str) -> Value:
    """Numeric conversion between dtypes of equal lanes."""
    if source == target:
        return value
    if dt.is_float(source):
        return _from_float(b, value, source, target)
    wanted, lanes = register_type(target), dt.lanes(target)
    signed = dt.is_int(source)
    if dt.is_float(target):
        wide = vector("float", lanes) if dt.bits(target) == 16 else wanted
        return narrow_float(b, b.cast("sitofp" if signed else "uitofp", value, wide), target)
    if dt.is_bool(target):
        return b.icmp("ne", value, constant(0, value.type))
    bits, new_bits = dt.bits(source), dt.bits(target)
    if new_bits == bits or (value.literal is not None and new_bits > bits):
        return Value(value.ref, wanted)
    if new_bits < bits:
        return b.cast("trunc", value, wanted)
    return b.cast("sext" if signed else "zext", value, wanted)


def _from_float(b: FunctionBuilder, value: Value, source: str, target: str) -> Value:
    wanted, lanes = register_type(target), dt.lanes(target)
    value = widen_float(b, value, source)
    if dt.is_bool(target):
        return b.fcmp("une", value, constant(0.0, value.type))
    if not dt.is_float(target):
        return b.cast("fptosi" if dt.is_int(target) else "fptoui", value, wanted)
    if dt.bits(target) == 16:
        if value.type != vector("float", lanes):
            value = b.cast("fptrunc", value, vector("float", lanes))
        return narrow_float(b, value, target)
    if value.type == wanted:
        return value
    return b.cast("fptrunc" if dt.bits(target) < dt.bits(source) else "fpext", value, wanted)


def from_memory(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """What was loaded, as it is kept in registers: a bool is a byte in memory."""
    return b.icmp("ne", value, constant(0, value.type)) if dt.is_bool(dtype) else value


def to_memory(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """A value as it is stored."""
    return b.cast("zext", value, vector("i8", lanes_of(value.type))) if dt.is_bool(dtype) else value


@prints(Cast)
def _cast(emitter: FunctionEmitter, expr: Cast) -> Value:
    source = expr.value
    if expr.dtype == "int64" and isinstance(source, Var):
        known = emitter.variable(source)
        if known.type == "i64":
            return known
    return convert(emitter.b, emitter.value(source), source.dtype, expr.dtype)
