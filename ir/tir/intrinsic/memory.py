"""Addresses: where an element lies, and hints about it."""

from __future__ import annotations

from typing import Any

from ...span import Span
from ..expr import Call, PrimExpr
from ..operators import const, convert
from .control import type_annotation
from .declaration import CallEffectKind, call, intrinsic, primitive


@intrinsic(arity=1, result="handle", effect=CallEffectKind.READ_STATE, lowering={"default": primitive})
def address_of(obj: Any, span: Span | None = None) -> PrimExpr:
    """The address of a buffer's element (a BufferLoad), or of a buffer's first element."""
    load = obj if isinstance(obj, PrimExpr) else obj[(0,) * len(obj.shape)]
    return call("address_of", load, span=span)


@intrinsic(arity=5, result="handle", effect=CallEffectKind.READ_STATE, lowering={"default": primitive})
def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: int) -> Call:
    """A pointer into a buffer with the extent and the mask (1 read, 2 write) of what is accessed through it."""
    annotation = type_annotation(ptype) if isinstance(ptype, str) else ptype
    return call("tvm_access_ptr", annotation, data, offset, extent, rw_mask)


@intrinsic(arity=1, result="handle", effect=CallEffectKind.READ_STATE)
def buffer_offset(load: Any) -> Call:
    """How many elements behind its buffer's first one an element (a BufferLoad) lies."""
    return call("buffer_offset", load)


@intrinsic(arity=2, result="handle")
def handle_add_byte_offset(handle: Any, offset: Any) -> Call:
    """A pointer moved by a number of bytes."""
    return call("handle_add_byte_offset", handle, offset)


def _is_zero(pointer: Call) -> PrimExpr:
    return call("reinterpret", pointer.args[0], dtype="uint64") == const(0, "uint64")


@intrinsic(arity=1, result="bool", lowering={"default": _is_zero})
def isnullptr(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether a pointer is null."""
    return call("isnullptr", convert(x), span=span)


@intrinsic(arity=4, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering={"default": primitive})
def prefetch(address: PrimExpr, rw: int = 0, locality: int = 3, cache: int = 1) -> PrimExpr:
    """Hint that memory will be used soon; never faults.

    Args:
        address: a pointer, such as :func:`address_of` gives; it may lie outside of the buffer.
        rw: 0 for reading, 1 for writing.
        locality: from 0 (used once) to 3 (keep in every cache).
        cache: 1 for data, 0 for instructions.
    """
    return call("prefetch", address, rw, locality, cache)
