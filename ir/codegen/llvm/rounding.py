"""Rounding between the formats of floats: each conversion rounds once, to nearest even, on every machine.

bfloat16 is integer arithmetic everywhere; float16 is where the machine has no instructions for it, since LLVM would call functions
of a runtime library that nobody links.
"""

from __future__ import annotations

from ... import dtype as dt
from .builder import FunctionBuilder, Value, constant, element_of, lanes_of, vector

_SIGN, _INFINITY = 0x80000000, 0x7F800000  # of float32
_HALF_INFINITY, _HALF_NAN = 0x7C00, 0x7E00


def widen_float(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """float16 or bfloat16 as float32; other floats as they are."""
    lanes = dt.lanes(dtype)
    if dt.code(dtype) == "bfloat":
        wide = b.cast("zext", value, vector("i32", lanes))
        shifted = b.binary("shl", wide, constant(16, wide.type))
        return b.cast("bitcast", shifted, vector("float", lanes))
    if dt.bits(dtype) != 16:
        return value
    if b.computes_halves:
        return b.cast("fpext", value, vector("float", lanes))
    return _half_to_float(b, value)


def narrow_float(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """float32 or float64 rounded to float16 or bfloat16; for other dtypes the value as it is."""
    if dt.bits(dtype) != 16:
        return value
    if element_of(value.type) == "double":
        value = _round_to_odd(b, value)
    if dt.code(dtype) == "bfloat":
        return _float_to_bfloat(b, value)
    if b.computes_halves:
        return b.cast("fptrunc", value, vector("half", dt.lanes(dtype)))
    return _float_to_half(b, value)


def integer_to_half(b: FunctionBuilder, value: Value, signed: bool, dtype: str) -> Value:
    """An integer rounded to float16 or bfloat16."""
    lanes, bits = lanes_of(value.type), int(element_of(value.type)[1:])
    convert = "sitofp" if signed else "uitofp"
    if bits <= 24 or dt.code(dtype) == "float":
        # float32 holds the integers, or at least those in the range of float16
        return narrow_float(b, b.cast(convert, value, vector("float", lanes)), dtype)
    if bits > 32:
        value = _sticky(b, value)
    return narrow_float(b, b.cast(convert, value, vector("double", lanes)), dtype)


def _sticky(b: FunctionBuilder, value: Value) -> Value:
    """The 64-bit integer rounded to odd at its sixteenth bit where float64 may not hold it, so that one rounding is left."""
    low = constant(0xFFFF, value.type)
    carried = b.binary("or", value, b.binary("add", b.binary("and", value, low), low))
    odd = b.binary("and", carried, constant(~0xFFFF, value.type))
    moved = b.binary("add", value, constant(1 << 52, value.type))
    fits = b.icmp("ult", moved, constant(1 << 53, value.type))
    return b.select(fits, value, odd)


def _round_to_odd(b: FunctionBuilder, value: Value) -> Value:
    """float64 as the float32 beside it whose last bit is set, unless it is exact: what is rounded again is rounded once.

    Boldo and Melquiond, When double rounding is odd, 2005.
    """
    lanes = lanes_of(value.type)
    nearest = b.cast("fptrunc", value, vector("float", lanes))
    back = b.cast("fpext", nearest, value.type)
    bits = b.cast("bitcast", nearest, vector("i32", lanes))
    up = b.binary(
        "xor",
        b.fcmp("ogt", back, value),
        b.icmp("slt", bits, constant(0, bits.type)),
    )
    inexact = b.fcmp("one", back, value)
    # towards zero: away from it is one more, whatever the sign
    away = b.cast("zext", b.binary("and", up, inexact), bits.type)
    odd = b.binary("or", b.binary("sub", bits, away), b.cast("zext", inexact, bits.type))
    return b.cast("bitcast", odd, nearest.type)


def _float_to_bfloat(b: FunctionBuilder, value: Value) -> Value:
    lanes = lanes_of(value.type)
    bits = b.cast("bitcast", value, vector("i32", lanes))
    upper = b.binary("lshr", bits, constant(16, bits.type))
    odd = b.binary("and", upper, constant(1, bits.type))
    rounded = b.binary("add", b.binary("add", bits, constant(0x7FFF, bits.type)), odd)
    result = b.binary("lshr", rounded, constant(16, bits.type))
    nan = b.binary("or", upper, constant(0x40, bits.type))  # stays a NaN when its low bits are cut off
    result = b.select(b.fcmp("uno", value, value), nan, result)
    return b.cast("trunc", result, vector("i16", lanes))


def _half_to_float(b: FunctionBuilder, value: Value) -> Value:
    """The bits of a float16 moved to their places in a float32, and 112 added to the exponent by a product, which is exact."""
    lanes = lanes_of(value.type)
    bits = b.cast("zext", b.cast("bitcast", value, vector("i16", lanes)), vector("i32", lanes))
    i32 = bits.type
    size = b.binary("and", bits, constant(0x7FFF, i32))
    sign = b.binary("shl", b.binary("xor", bits, size), constant(16, i32))
    moved = b.binary("shl", size, constant(13, i32))
    scaled = b.binary(
        "fmul", b.cast("bitcast", moved, vector("float", lanes)), constant(2.0**112, vector("float", lanes))
    )
    finite = b.icmp("ult", size, constant(_HALF_INFINITY, i32))
    special = b.binary("or", moved, constant(_INFINITY, i32))
    result = b.select(finite, b.cast("bitcast", scaled, i32), special)
    return b.cast("bitcast", b.binary("or", result, sign), vector("float", lanes))


def _float_to_half(b: FunctionBuilder, value: Value) -> Value:
    """float32 rounded to float16: in integers where the result is normal, by a sum with 0.5 where it is not.

    The sum's last place is that of the least float16, so the addition rounds as it should.
    """
    lanes = lanes_of(value.type)
    bits = b.cast("bitcast", value, vector("i32", lanes))
    i32 = bits.type
    size = b.binary("and", bits, constant(_SIGN - 1, i32))
    sign = b.binary("lshr", b.binary("xor", bits, size), constant(16, i32))
    odd = b.binary("and", b.binary("lshr", size, constant(13, i32)), constant(1, i32))
    rebased = b.binary("add", size, constant(0xFFF - (112 << 23), i32))
    normal = b.binary("lshr", b.binary("add", rebased, odd), constant(13, i32))
    half = constant(0.5, value.type)
    sum_ = b.binary("fadd", b.cast("bitcast", size, value.type), half)
    subnormal = b.binary("sub", b.cast("bitcast", sum_, i32), b.cast("bitcast", half, i32))
    result = b.select(b.icmp("ult", size, constant(113 << 23, i32)), subnormal, normal)
    # 65520 and more round to infinity: normal numbers carry into it, larger ones do not fit
    large = b.icmp("uge", size, constant(143 << 23, i32))
    nan = b.icmp("ugt", size, constant(_INFINITY, i32))
    special = b.select(nan, constant(_HALF_NAN, i32), constant(_HALF_INFINITY, i32))
    result = b.binary("or", b.select(large, special, result), sign)
    return b.cast("bitcast", b.cast("trunc", result, vector("i16", lanes)), vector("half", lanes))
