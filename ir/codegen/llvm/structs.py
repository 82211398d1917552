"""Fields of tensors and of arguments of packed functions, as DLPack and callers of such functions lay them out."""

from __future__ import annotations

from ... import dtype as dt
from ...dlpack_layout import PLACES, TENSOR_BYTES, VALUE_BYTES, Field
from ...tir import expr as E
from ..error import CodegenError
from .builder import Value, constant
from .conversion import from_memory, to_memory
from .emitter import FunctionEmitter
from .types import element_bytes, memory_type


def _place(emitter: FunctionEmitter, call: E.Call) -> Value:
    """The address of the field that a call names."""
    struct, index, field = call.args[:3]
    number = Field(field.value)  # type: ignore[attr-defined]
    size, offset = (VALUE_BYTES, 0) if number == Field.VALUE else (TENSOR_BYTES, PLACES[number][0])
    base = _struct(emitter, struct, index, size)
    return emitter.b.define(f"getelementptr i8, ptr {base.ref}, i64 {offset}", "ptr") if offset else base


def _struct(emitter: FunctionEmitter, struct: E.PrimExpr, index: E.PrimExpr, size: int) -> Value:
    base, number = emitter.value(struct), emitter.index(index)
    if number.literal == 0:
        return base
    distance = emitter.b.binary("mul", number, constant(size, "i64"))
    return emitter.b.define(f"getelementptr i8, ptr {base.ref}, i64 {distance.ref}", "ptr")


def struct_get(emitter: FunctionEmitter, call: E.Call) -> Value:
    """Loads a field.

    Raises:
        CodegenError: the field has another dtype.
    """
    number = Field(call.args[2].value)  # type: ignore[attr-defined]
    if number != Field.VALUE and PLACES[number][1] != call.dtype:
        raise CodegenError(f"{call}: this field is of {PLACES[number][1]}")
    loaded = emitter.b.load(memory_type(call.dtype), _place(emitter, call), _alignment(call.dtype))
    return from_memory(emitter.b, loaded, call.dtype)


def struct_set(emitter: FunctionEmitter, call: E.Call) -> Value:
    """Stores a field."""
    dtype = call.args[3].dtype
    value = to_memory(emitter.b, emitter.value(call.args[3]), dtype)
    emitter.b.store(value, _place(emitter, call), _alignment(dtype))
    return constant(0, "i32")


def _alignment(dtype: str) -> int:
    return 8 if dtype == "handle" else element_bytes(dt.element_of(dtype))
