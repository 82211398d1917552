"""Rounding between the formats of floats: each conversion rounds once, to nearest even, on every machine.

bfloat16 and the floats of at most eight bits are integer arithmetic everywhere; float16 is where the machine has no instructions for
it, since LLVM would call functions of a runtime library that nobody links.
"""

from __future__ import annotations

from ... import dtype as dt
from ...narrow_float import NARROW_FLOATS, POWERS_OF_TWO, NarrowFloat
from .builder import FunctionBuilder, Value, constant, element_of, lanes_of, vector

_INFINITY = 0x7F800000  # of float32


FLOATS_IN_INTEGERS = frozenset(NARROW_FLOATS) - {"float16"} | {"bfloat", POWERS_OF_TWO}
"""Codes of the dtypes whose values are kept as their bits."""


def widen_float(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """A float of at most 16 bits as float32; other floats as they are."""
    code, bits, lanes = dt.parse(dtype)
    if code == POWERS_OF_TWO:
        return _widen_power(b, value)
    if code == "bfloat":
        wide = b.cast("zext", value, vector("i32", lanes))
        shifted = b.binary("shl", wide, constant(16, wide.type))
        return b.cast("bitcast", shifted, vector("float", lanes))
    if bits >= 32:
        return value
    if bits == 16 and b.computes_halves:
        return b.cast("fpext", value, vector("float", lanes))
    return _widen(b, value, NARROW_FLOATS[dt.element_of(dtype)])


def narrow_float(b: FunctionBuilder, value: Value, dtype: str) -> Value:
    """float32 or float64 rounded to a float of at most 16 bits; for other dtypes the value as it is."""
    code, bits, lanes = dt.parse(dtype)
    if bits >= 32:
        return value
    if element_of(value.type) == "double":
        value = _round_to_odd(b, value)
    if code == "bfloat":
        return _float_to_bfloat(b, value)
    if code == POWERS_OF_TWO:
        return _float_to_power(b, value)
    if bits == 16 and b.computes_halves:
        return b.cast("fptrunc", value, vector("half", lanes))
    return _narrow(b, value, NARROW_FLOATS[dt.element_of(dtype)])


def integer_to_narrow(b: FunctionBuilder, value: Value, signed: bool, dtype: str) -> Value:
    """An integer rounded to a float of at most 16 bits."""
    lanes, bits = lanes_of(value.type), int(element_of(value.type)[1:])
    convert = "sitofp" if signed else "uitofp"
    if bits <= 24 or dt.code(dtype) not in ("bfloat", POWERS_OF_TWO):
        # float32 holds the integers, or at least those in the range of the dtype
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


def _widen_power(b: FunctionBuilder, value: Value) -> Value:
    """The code is float32's exponent; the least power is subnormal there."""
    code = b.cast("zext", value, vector("i32", lanes_of(value.type)))
    i32, digit = code.type, constant(1 << 22, code.type)
    moved = b.binary("shl", code, constant(23, i32))
    is_special = b.binary("or", b.icmp("eq", code, constant(0, i32)), b.icmp("eq", code, constant(0xFF, i32)))
    bits = b.select(is_special, b.binary("or", moved, digit), moved)
    return b.cast("bitcast", bits, vector("float", lanes_of(value.type)))


def _float_to_power(b: FunctionBuilder, value: Value) -> Value:
    """The nearest power, the greater of two; below 2^-126 the next one upwards, as ml_dtypes has it. What is not above 0 is NaN."""
    lanes = lanes_of(value.type)
    bits = b.cast("bitcast", value, vector("i32", lanes))
    i32 = bits.type
    is_normal = b.cast("zext", b.icmp("uge", bits, constant(1 << 23, i32)), i32)
    half = b.binary("add", is_normal, constant((1 << 22) - 1, i32))
    code = b.binary("lshr", b.binary("add", bits, half), constant(23, i32))
    is_power = b.binary(
        "and", b.icmp("sgt", bits, constant(0, i32)), b.icmp("ult", code, constant(0xFF, i32))
    )
    return b.cast("trunc", b.select(is_power, code, constant(0xFF, i32)), vector("i8", lanes))


def _widen(b: FunctionBuilder, value: Value, form: NarrowFloat) -> Value:
    """The bits moved to their places in a float32, and the difference of the biases added to the exponent by an exact product."""
    lanes = lanes_of(value.type)
    codes = b.cast("bitcast", value, vector(f"i{form.stored_bits}", lanes))
    bits = b.cast("zext", codes, vector("i32", lanes))
    if form.bits < form.stored_bits:
        bits = b.binary("and", bits, constant((1 << form.bits) - 1, bits.type))
    i32, float_ = bits.type, vector("float", lanes)
    size = b.binary("and", bits, constant((1 << (form.bits - 1)) - 1, i32))
    sign = b.binary("shl", b.binary("xor", bits, size), constant(32 - form.bits, i32))
    moved = b.binary("shl", size, constant(23 - form.digits, i32))
    scaled = b.binary("fmul", b.cast("bitcast", moved, float_), constant(2.0 ** (127 - form.bias), float_))
    number = b.cast("bitcast", scaled, i32)
    if form.has_one_zero:
        is_number = b.icmp("ne", bits, constant(form.nan, i32))
        special = constant(_INFINITY | 1 << 22, i32)
    else:
        is_number = b.icmp("ule", size, constant(form.largest, i32))
        special = b.binary("or", moved, constant(_INFINITY, i32))
    result = b.select(is_number, number, special)
    return b.cast("bitcast", b.binary("or", result, sign), float_)


def _narrow(b: FunctionBuilder, value: Value, form: NarrowFloat) -> Value:
    """float32 rounded: in integers where the result is normal, by a sum where it is not.

    The last place of the sum's constant is that of the least number of the format, so the addition rounds as it should.
    """
    lanes = lanes_of(value.type)
    bits = b.cast("bitcast", value, vector("i32", lanes))
    i32, cut = bits.type, 23 - form.digits
    size = b.binary("and", bits, constant((1 << 31) - 1, i32))
    sign = b.binary("lshr", b.binary("xor", bits, size), constant(32 - form.bits, i32))
    odd = b.binary("and", b.binary("lshr", size, constant(cut, i32)), constant(1, i32))
    rebased = b.binary("add", size, constant((1 << (cut - 1)) - 1 - ((127 - form.bias) << 23), i32))
    normal = b.binary("lshr", b.binary("add", rebased, odd), constant(cut, i32))
    grid = constant(2.0 ** (24 - form.bias - form.digits), value.type)
    sum_ = b.binary("fadd", b.cast("bitcast", size, value.type), grid)
    subnormal = b.binary("sub", b.cast("bitcast", sum_, i32), b.cast("bitcast", grid, i32))
    result = b.select(b.icmp("ult", size, constant((128 - form.bias) << 23, i32)), subnormal, normal)
    result = b.select(b.icmp("ule", result, constant(form.largest, i32)), result, constant(form.beyond, i32))
    result = b.select(b.icmp("ugt", size, constant(_INFINITY, i32)), constant(form.nan, i32), result)
    if form.has_one_zero:
        sign = b.select(b.icmp("eq", result, constant(0, i32)), constant(0, i32), sign)
    codes = b.cast("trunc", b.binary("or", result, sign), vector(f"i{form.stored_bits}", lanes))
    return b.cast("bitcast", codes, vector("half", lanes)) if form.bits == 16 else codes
