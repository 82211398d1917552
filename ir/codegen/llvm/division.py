"""Division of integers: rounded down or towards zero, without the traps of machines.

Machines end the process where a quotient does not fit, as that of the least number and -1 does not: it wraps here. A test for -1
is printed only where the divisor may be -1 and the dividend the least number.
"""

from __future__ import annotations

from ... import dtype as dt
from ...tir import expr as E
from .builder import FunctionBuilder, Value, constant, element_of, lanes_of, vector

_UNSIGNED: dict[type, str] = {E.Div: "udiv", E.FloorDiv: "udiv", E.Mod: "urem", E.FloorMod: "urem"}
_QUOTIENTS = (E.Div, E.FloorDiv)


def divide(b: FunctionBuilder, kind: type, x: Value, y: Value, dtype: str) -> Value:
    """The quotient or remainder that a class of nodes means, for integers of one type.

    Args:
        b: where the instructions go.
        kind: :class:`Div`, :class:`Mod`, :class:`FloorDiv` or :class:`FloorMod`.
        x, y: dividend and divisor; the divisor is not zero.
        dtype: of both.
    """
    divisor = _number(y)
    if not dt.is_int(dtype):
        if (quotient := _byte_quotient(b, x, divisor, signed=False)) is not None:
            return quotient if kind in _QUOTIENTS else _remainder(b, x, quotient, y)
        return b.binary(_UNSIGNED[kind], x, y)
    if divisor == -1:
        zero = constant(0, x.type)
        return b.binary("sub", zero, x) if kind in _QUOTIENTS else zero
    if kind in (E.FloorDiv, E.FloorMod):
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
            return _by_power_of_two(b, kind, x, divisor)
        return _floor(b, kind, x, y)
    return _truncate(b, kind, x, y)


def _number(y: Value) -> int | None:
    """The divisor if it is a number, in all lanes the same one."""
    if y.ref.startswith("splat ("):
        y = Value(y.ref[len("splat (") : -1].split(" ")[1], element_of(y.type))
    return y.literal


def _by_power_of_two(b: FunctionBuilder, kind: type, x: Value, divisor: int) -> Value:
    """Floor division as a shift, the remainder as a mask."""
    if kind is E.FloorDiv:
        return b.bound(b.binary("ashr", x, constant(divisor.bit_length() - 1, x.type)), b.magnitude(x))
    return b.bound(b.binary("and", x, constant(divisor - 1, x.type)), divisor.bit_length())


def _truncate(b: FunctionBuilder, kind: type, x: Value, y: Value) -> Value:
    """Signed division rounded towards zero, or its remainder."""
    if (quotient := _byte_quotient(b, x, _number(y), signed=True)) is not None:
        return quotient if kind is E.Div else _remainder(b, x, quotient, y)
    op = "sdiv" if kind is E.Div else "srem"
    if not _may_overflow(b, x, y):
        return b.binary(op, x, y)
    bits = int(element_of(x.type)[1:])
    if bits < 32:  # every quotient fits into a wider number
        wide = vector("i32", lanes_of(x.type))
        return b.cast("trunc", b.binary(op, b.cast("sext", x, wide), b.cast("sext", y, wide)), x.type)
    by_minus_one = b.icmp("eq", y, constant(-1, y.type))
    result = b.binary(op, x, b.select(by_minus_one, constant(1, y.type), y))
    if kind is E.Mod:
        return result  # 0 by 1 as by -1
    return b.select(by_minus_one, b.binary("sub", constant(0, x.type), x), result)


def _byte_quotient(b: FunctionBuilder, x: Value, divisor: int | None, signed: bool) -> Value | None:
    """The quotient towards zero of at most eight bytes by a number, as a product; None for other divisions.

    LLVM 22.1 makes zeros for x86 with AVX2 of so few bytes that are divided by a constant, permuted and multiplied.
    """
    lanes = lanes_of(x.type)
    if divisor is None or element_of(x.type) != "i8" or lanes > 8 or abs(divisor) & (abs(divisor) - 1) == 0:
        return None
    wide = b.cast("sext" if signed else "zext", x, vector("i32", lanes))
    # x times the error of the factor is less than 1 in the result's last place
    factor, bits = constant((1 << 16) // abs(divisor) + 1, wide.type), constant(16, wide.type)
    quotient = b.binary("ashr" if signed else "lshr", b.binary("mul", wide, factor), bits)
    if signed:
        quotient = b.binary("add", quotient, b.binary("lshr", wide, constant(31, wide.type)))
    if divisor < 0:
        quotient = b.binary("sub", constant(0, wide.type), quotient)
    return b.cast("trunc", quotient, x.type)


def _remainder(b: FunctionBuilder, x: Value, quotient: Value, y: Value) -> Value:
    return b.binary("sub", x, b.binary("mul", quotient, y))


def _may_overflow(b: FunctionBuilder, x: Value, y: Value) -> bool:
    """Whether the least number may be divided by -1."""
    if _number(y) is not None:
        return False  # -1 has been seen to
    dividend = _number(x)
    if dividend is not None:
        return dividend == -1 << (int(element_of(x.type)[1:]) - 1)
    return b.magnitude(x) == 64


def _floor(b: FunctionBuilder, kind: type, x: Value, y: Value) -> Value:
    """Signed division rounded down, or its remainder."""
    zero = constant(0, x.type)
    remainder = _truncate(b, E.Mod, x, y)
    differs = b.icmp("slt", b.binary("xor", remainder, y), zero)
    adjust = b.binary("and", differs, b.icmp("ne", remainder, zero))
    if kind is E.FloorDiv:
        return b.binary("add", _truncate(b, E.Div, x, y), b.cast("sext", adjust, x.type))
    return b.select(adjust, b.binary("add", remainder, y), remainder)
