"""Casts: conversions of lanes, and of floats of 8 bits that are loaded two at a time."""

from __future__ import annotations

from ... import dtype as dt
from ...tir import expr as E
from ...tir.expr import PrimExpr
from .conversions import cast_operand, converted, from_memory, to_float8, to_half
from .emitter import KernelEmitter, Lanes, prints
from .memory import loaded_floats
from .text import cast
from .types import is_float8, is_half


@prints(E.Cast)
def _cast(emitter: KernelEmitter, expr: E.Cast) -> Lanes:
    source, target = dt.element_of(expr.value.dtype), dt.element_of(expr.dtype)
    is_number = dt.is_index(source) and dt.is_index(target) and emitter.is_index(expr.value)
    if is_float8(source):
        source, values = "float32", _floats(emitter, expr.value)
    else:
        values = emitter.number(expr.value) if is_number else cast_operand(emitter, expr)
    if is_float8(target):
        return [to_float8(emitter, value, source, target) for value in values]
    if is_half(target):
        return [
            from_memory(emitter, lane, target)
            for lane in (to_half(emitter, item, source, target) for item in values)
        ]
    return [converted(emitter, value, source, target) for value in values]


def _floats(emitter: KernelEmitter, value: PrimExpr) -> Lanes:
    """Numbers of 8 bits in float32."""
    found = loaded_floats(emitter, value) if isinstance(value, E.BufferLoad) else None
    return [cast("float", lane) for lane in emitter.data(value)] if found is None else found
