"""Floats to integers: rounded towards zero; what does not fit becomes the nearest integer that does, and NaN becomes 0.

LLVM has operations of that meaning, but takes their vectors apart lane by lane; these are a handful of vector instructions, and none
but the conversion where the range of the float is known.
"""

from __future__ import annotations

from ... import dtype as dt
from ...tir.analysis.float_range import FloatRange
from .builder import FunctionBuilder, Value, constant, element_of, vector

_DIGITS = {"float": 24, "double": 53}


def float_to_integer(b: FunctionBuilder, value: Value, target: str, range_: FloatRange) -> Value:
    """A float as an integer of the target's dtype, saturated.

    Args:
        b: where the instructions go.
        value: ``float`` or ``double``, or a vector of them.
        target: dtype of the integer, with the lanes of the value.
        range_: what is known of the value.
    """
    low, high = dt.integer_range(target)
    # a narrow integer is cut from a wider one, which all machines convert to
    through = vector(f"i{max(32, dt.bits(target))}", dt.lanes(target))
    convert = "fptosi" if dt.is_int(target) or dt.bits(target) < 32 else "fptoui"
    top = _largest_float(high, element_of(value.type))
    clamped, may_be_nan = value, range_.may_be_nan
    if range_.low <= low - 1:
        least = constant(float(low), value.type)
        clamped = b.select(b.fcmp("ogt", clamped, least), clamped, least)
        may_be_nan = may_be_nan and low != 0  # NaN has become the least integer
    above = range_.high >= high + 1
    if above:
        greatest = constant(top, value.type)
        clamped = b.select(b.fcmp("olt", greatest, clamped), greatest, clamped)
    if may_be_nan:
        clamped = b.select(b.fcmp("ord", value, value), clamped, constant(0.0, value.type))
    result = b.cast(convert, clamped, through)
    if above and top != high:  # the largest integer lies between two floats
        beyond = b.fcmp("oge", value, constant(float(high + 1), value.type))
        result = b.select(beyond, constant(high, through), result)
    return b.cast("trunc", result, vector(f"i{dt.bits(target)}", dt.lanes(target)))


def _largest_float(integer: int, element: str) -> float:
    """The largest float of a type that is not greater than a positive integer: its leading digits."""
    cut = max(0, integer.bit_length() - _DIGITS[element])
    return float(integer >> cut << cut)
