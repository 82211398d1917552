"""Floats of 8 bits and bfloat16 as their codes in integers: conversions, each rounded once to nearest even, in arithmetic of TIR.

The rounding of numbers below the least normal one is that of a sum: the last place of what is added is that of the format's least number.
"""

from __future__ import annotations

import numpy as np

from ... import dtype as dt
from ...error import IRTypeError
from ...narrow_float import NARROW_FLOATS, POWERS_OF_TWO, NarrowFloat
from ..expr import Broadcast, FloatImm, IntImm, PrimExpr, Select
from ..intrinsic.control import as_data
from ..intrinsic.declaration import call
from ..intrinsic.lowering import shared
from ..operators import cast, const, logical_and, logical_or

_INFINITY = 0x7F800000  # of float32
_NAN = _INFINITY | 1 << 22
_SIGN = 1 << 31


def code_dtype(dtype: str) -> str:
    """What holds the codes of a narrow dtype.

    >>> code_dtype("bfloat16x4"), code_dtype("float8_e5m2")
    ('uint16x4', 'uint8')
    """
    return dt.with_lanes(f"uint{max(8, dt.bits(dtype))}", dt.lanes(dtype))


def code_of_constant(number: FloatImm) -> IntImm:
    """The code of a constant."""
    code = np.asarray(number.value, dt.to_numpy(number.dtype)).tobytes()
    return IntImm(code_dtype(number.dtype), int.from_bytes(code, "little"))


def _like(name: str, value: PrimExpr) -> str:
    return dt.with_lanes(name, dt.lanes(value.dtype))


def _bits(value: PrimExpr, name: str = "uint32") -> PrimExpr:
    return call("reinterpret", value, dtype=_like(name, value))


def _float(bits: PrimExpr, name: str = "float32") -> PrimExpr:
    return call("reinterpret", bits, dtype=_like(name, bits))


# -- codes to numbers ----------------------------------------------------------------------------------------------
def decoded(code: PrimExpr, dtype: str) -> PrimExpr:
    """The numbers of codes of a dtype, in float32, which holds them all."""
    if isinstance(code, Broadcast):
        return Broadcast(decoded(code.value, dt.element_of(dtype)), code.lanes)
    element = dt.element_of(dtype)
    bits = cast(_like("uint32", code), code)
    if element == "bfloat16":
        return _float(bits << const(16, bits.dtype))
    if element == POWERS_OF_TWO:
        return shared([bits], _decoded_power)
    form = NARROW_FLOATS[element]
    return shared([bits], lambda x: _decoded(x, form))


def _decoded_power(code: PrimExpr) -> PrimExpr:
    """The code is float32's exponent; the least power is subnormal there."""
    u32 = code.dtype
    moved = code << const(23, u32)
    is_special = logical_or(code.equal(const(0, u32)), code.equal(const(0xFF, u32)))
    return _float(Select(is_special, moved | const(1 << 22, u32), moved))


def _decoded(code: PrimExpr, form: NarrowFloat) -> PrimExpr:
    """The bits moved to their places in a float32, and the difference of the biases added to the exponent by an exact product."""
    u32 = code.dtype
    size = code & const((1 << (form.bits - 1)) - 1, u32)
    sign = (code & const(1 << (form.bits - 1), u32)) << const(32 - form.bits, u32)
    moved = size << const(23 - form.digits, u32)
    number = _bits(_float(moved) * const(2.0 ** (127 - form.bias), _like("float32", code)))
    if form.has_one_zero:
        return _float(Select(code.equal(const(form.nan, u32)), const(_NAN, u32), number | sign))
    special = moved | const(_INFINITY, u32)
    return _float(Select(size <= const(form.largest, u32), number, special) | sign)


# -- numbers to codes ----------------------------------------------------------------------------------------------
def encoded(value: PrimExpr, dtype: str) -> PrimExpr:
    """The codes of numbers of any dtype, rounded once to a narrow one.

    Raises:
        IRTypeError: what is converted is a narrow float itself.
    """
    if isinstance(value, Broadcast):
        return Broadcast(encoded(value.value, dt.element_of(dtype)), value.lanes)
    element = dt.element_of(dtype)
    single = _single(value, element)
    if element == "bfloat16":
        code = shared([_bits(single)], _encoded_bfloat)
    elif element == POWERS_OF_TWO:
        code = shared([_bits(single)], _encoded_power)
    else:
        form = NARROW_FLOATS[element]
        code = shared([_bits(single)], lambda bits: _encoded(bits, form))
    return cast(code_dtype(dtype), code)


def _single(value: PrimExpr, element: str) -> PrimExpr:
    """A number as the float32 that rounds to what the number itself rounds to."""
    source, single = value.dtype, _like("float32", value)
    if dt.is_float(source):
        if dt.bits(source) == 64:
            return shared([as_data(value)], _to_odd)
        if dt.element_of(source) in ("float16", "bfloat16", "float32"):  # which float32 holds
            return as_data(cast(single, value))
        raise IRTypeError(
            f"a number of {source} has no code here; run the pass that computes without it first"
        )
    if dt.bits(source) <= 24 or element not in ("bfloat16", POWERS_OF_TWO):
        return cast(single, value)  # which holds the integers, or at least those in the range of the dtype
    if dt.bits(source) > 32:
        value = shared([value], _sticky)
    return shared([cast(_like("float64", value), value)], _to_odd)


def _sticky(value: PrimExpr) -> PrimExpr:
    """An integer of 64 bits, rounded to odd at its sixteenth bit where float64 may not hold it, so that one rounding is left."""
    wide = value.dtype
    low = const(0xFFFF, wide)
    odd = (value | ((value & low) + low)) & (
        const(-1, wide) - low if dt.is_int(wide) else const((1 << 64) - (1 << 16), wide)
    )
    u64 = _like("uint64", value)
    moved = cast(u64, value) + const(1 << 52, u64)
    return Select(moved < const(1 << 53, u64), value, odd)


def _to_odd(value: PrimExpr) -> PrimExpr:
    """float64 as the float32 beside it whose last bit is set, unless it is exact: what is rounded again is rounded once.

    Boldo and Melquiond, When double rounding is odd, 2005.
    """
    single = cast(_like("float32", value), value)

    def to_odd(nearest: PrimExpr) -> PrimExpr:
        back = cast(value.dtype, nearest)
        bits = _bits(nearest)
        u32 = bits.dtype
        is_larger = Select(nearest < const(0, nearest.dtype), back < value, back > value)  # in size
        inexact = logical_or(back < value, back > value)
        towards_zero = bits - cast(u32, is_larger)
        return _float(Select(inexact, towards_zero | const(1, u32), bits))

    return shared([single], to_odd)


def _encoded_bfloat(bits: PrimExpr) -> PrimExpr:
    u32 = bits.dtype
    upper = bits >> const(16, u32)
    rounded = (bits + const(0x7FFF, u32) + (upper & const(1, u32))) >> const(16, u32)
    is_nan = (bits & const(_SIGN - 1, u32)) > const(_INFINITY, u32)
    return Select(is_nan, upper | const(0x40, u32), rounded)  # stays a NaN when its low bits are cut off


def _encoded_power(bits: PrimExpr) -> PrimExpr:
    """The nearest power, the greater of two; below 2^-126 the next one upwards, as ml_dtypes has it. What is not above 0 is NaN."""
    u32 = bits.dtype
    half = Select(bits >= const(1 << 23, u32), const(1 << 22, u32), const((1 << 22) - 1, u32))
    code = (bits + half) >> const(23, u32)
    is_positive = logical_and(bits > const(0, u32), bits < const(_SIGN, u32))
    return Select(logical_and(is_positive, code < const(0xFF, u32)), code, const(0xFF, u32))


def _encoded(bits: PrimExpr, form: NarrowFloat) -> PrimExpr:
    """In integers where the result is normal, by a sum where it is not."""
    u32, f32 = bits.dtype, _like("float32", bits)
    cut = 23 - form.digits
    grid = const(2.0 ** (24 - form.bias - form.digits), f32)
    sign = (bits & const(_SIGN, u32)) >> const(32 - form.bits, u32)

    def of_size(size: PrimExpr) -> PrimExpr:
        odd = (size >> const(cut, u32)) & const(1, u32)
        # smaller numbers wrap, and are not used
        rebased = size + const(((1 << (cut - 1)) - 1 - ((127 - form.bias) << 23)) % (1 << 32), u32)
        normal = (rebased + odd) >> const(cut, u32)
        subnormal = _bits(_float(size) + grid) - _bits(grid)
        code = Select(size < const((128 - form.bias) << 23, u32), subnormal, normal)

        def limited(found: PrimExpr) -> PrimExpr:
            finite = Select(found <= const(form.largest, u32), found, const(form.beyond, u32))
            whole = Select(size > const(_INFINITY, u32), const(form.nan, u32), finite)
            if not form.has_one_zero:
                return whole | sign
            return Select(found.equal(const(0, u32)), whole, whole | sign)

        return shared([code], limited)

    return shared([bits & const(_SIGN - 1, u32)], of_size)
