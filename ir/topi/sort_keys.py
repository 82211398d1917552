"""What is sorted in place of numbers: unsigned integers in the same order, which compare in one instruction and have digits."""

from __future__ import annotations

from typing import Any

from .. import dtype as dt
from ..tir.expr import PrimExpr, Select
from ..tir.intrinsic.bits import reinterpret
from ..tir.operators import cast, const


def key_bits(dtype: str) -> int:
    """How many bits the keys of a dtype have; those of narrow floats are those of float32."""
    bits = dt.bits(dtype)
    if dt.is_float(dtype):
        return bits if bits >= 16 else 32
    return max(8, bits)


def key_of(value: PrimExpr, *, descending: bool = False) -> PrimExpr:
    """An unsigned integer of :func:`key_bits` bits that is smaller, equal or larger as the number is.

    NaN is greater than every number, zeros are equal.
    """
    bits = key_bits(value.dtype)
    kind = f"uint{bits}"
    if dt.is_float(value.dtype):
        key = _key_of_float(value if dt.bits(value.dtype) >= 16 else cast("float32", value), kind)
    elif dt.is_int(value.dtype):
        key = reinterpret(kind, cast(f"int{bits}", value)) ^ _sign(kind)
    else:
        key = cast(kind, value)
    return ~key if descending else key


def _sign(kind: str) -> PrimExpr:
    return const(1 << (dt.bits(kind) - 1), kind)


def _key_of_float(value: PrimExpr, kind: str) -> PrimExpr:
    """Bits of positive numbers grow with them; those of negative ones fall, and come behind."""
    sign = _sign(kind)
    bits = reinterpret(kind, value)
    number = Select(bits < sign, bits | sign, ~bits)
    key: Any = Select(value.equal(const(0, value.dtype)), sign, number)
    return Select(value.equal(value), key, const((1 << dt.bits(kind)) - 1, kind))


def number_of(key: PrimExpr, dtype: str, *, descending: bool = False) -> PrimExpr:
    """The number that has a key; one of several that are equal."""
    bits = key_bits(dtype)
    kind = f"uint{bits}"
    known = ~key if descending else key
    if dt.is_float(dtype):
        wide = dtype if dt.bits(dtype) >= 16 else "float32"
        sign = _sign(kind)
        return cast(dtype, reinterpret(wide, Select(known < sign, ~known, known ^ sign)))
    if dt.is_int(dtype):
        return cast(dtype, reinterpret(f"int{bits}", known ^ _sign(kind)))
    return cast(dtype, known)
