"""Memory accesses: one element at a time, or neighbours at once where their address is a multiple of their size."""

from __future__ import annotations

from ... import dtype as dt
from ...tir import expr as E
from ...tir.analysis.contiguous import first_of_piece
from ...tir.buffer import Buffer
from ...tir.expr import PrimExpr
from ...tir.thread_axis import is_private_scope
from ..error import CodegenError
from .emitter import KernelEmitter, Lanes, prints
from .expression import from_memory, to_half
from .text import Text, binary, call, cast, choice
from .types import is_half, memory_type

_WIDEST = 16
"""Bytes that a thread reads or writes at once, at most."""


def _index(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr | None:
    if len(indices) > 1:
        raise CodegenError(
            f"buffer {buffer.name} is accessed with {len(indices)} indices; run ir.tir.transform.FlattenBuffer first"
        )
    if dt.lanes(buffer.dtype) > 1:
        raise CodegenError(f"buffer {buffer.name} of {buffer.dtype}: elements of CUDA kernels are scalars")
    return indices[0] if indices else None


def element(emitter: KernelEmitter, buffer: Buffer, index: Text | None) -> Text:
    """An element of a buffer."""
    emitter.type_of(buffer.dtype)
    return Text(f"{emitter.address(buffer.data)}[{'0' if index is None else index.code}]")


def _elements(emitter: KernelEmitter, buffer: Buffer, index: PrimExpr | None) -> Lanes:
    positions = [None] if index is None else emitter.number(index)
    return [element(emitter, buffer, position) for position in positions]


def _is_one_piece(emitter: KernelEmitter, buffer: Buffer, index: PrimExpr | None) -> bool:
    """Whether an access is one of neighbours at once: the hardware's vectors have a power of two of bytes, and lie at multiples of that."""
    lanes = 1 if index is None else dt.lanes(index.dtype)
    size = lanes * dt.bytes_of(buffer.dtype)
    if lanes == 1 or is_private_scope(buffer.scope()) or size > _WIDEST or size & (size - 1):
        return False
    is_piece, first = first_of_piece(index)
    if not is_piece or first is None or emitter.aligned.get(buffer.data, 0) % size:
        return False
    found = emitter.analyzer.modular_set(first)
    return found.coeff % lanes == 0 and found.base % lanes == 0


def _address(emitter: KernelEmitter, buffer: Buffer, index: E.Ramp) -> Text:
    return binary("+", Text(emitter.address(buffer.data)), emitter.index(index.base))


# -- loads -------------------------------------------------------------------------
@prints(E.BufferLoad)
def _load(emitter: KernelEmitter, load: E.BufferLoad) -> Lanes:
    return [from_memory(emitter, lane, load.dtype) for lane in loaded(emitter, load)]


def loaded(emitter: KernelEmitter, load: E.BufferLoad) -> Lanes:
    """What lies in memory, lane by lane, as its C++ type of memory."""
    index = _index(load.buffer, load.indices)
    if load.predicate is not None:
        return _masked(emitter, load, index, load.predicate)
    if emitter.is_conditional or not _is_one_piece(emitter, load.buffer, index):
        return _elements(emitter, load.buffer, index)
    assert isinstance(index, E.Ramp)
    return _vector(emitter, load.buffer, index, None)


def _vector(emitter: KernelEmitter, buffer: Buffer, index: E.Ramp, condition: PrimExpr | None) -> Lanes:
    """Neighbours that are loaded at once, under a name; zero where a condition does not hold."""
    emitter.type_of(buffer.dtype)
    test = None if condition is None else emitter.index(condition).code
    value = call(f"{emitter.use('load_vec')}<{index.lanes}>", _address(emitter, buffer, index)).code
    found = emitter.loaded.get(f"{test} {value}")
    if found is None:
        name, type_ = emitter.fresh(f"{buffer.name}_vec"), f"vec<{memory_type(buffer.dtype)}, {index.lanes}>"
        if test is None:
            emitter.line(f"const {type_} {name} = {value};")
        else:
            emitter.line(f"{type_} {name} = {{}};")
            emitter.line(f"if ({test}) {name} = {value};")
        found = emitter.loaded[f"{test} {value}"] = [
            Text(f"{name}.lane[{lane}]") for lane in range(index.lanes)
        ]
    return found


def _masked(emitter: KernelEmitter, load: E.BufferLoad, index: PrimExpr | None, predicate: PrimExpr) -> Lanes:
    """Zero in the lanes for which the predicate does not hold."""
    if (
        isinstance(predicate, E.Broadcast)
        and not emitter.is_conditional
        and _is_one_piece(emitter, load.buffer, index)
    ):
        assert isinstance(index, E.Ramp)
        return _vector(emitter, load.buffer, index, predicate.value)
    conditions = emitter.number(predicate)
    with emitter.conditionally():
        elements = _elements(emitter, load.buffer, index)
    type_ = memory_type(load.dtype)  # both sides of a choice have it: the value does, too
    zero = call(type_, "0") if is_half(load.dtype) else cast(type_, Text("0"))
    if len(conditions) == 1:
        conditions = conditions * len(elements)
    return [choice(condition, item, zero) for condition, item in zip(conditions, elements, strict=True)]


# -- stores ------------------------------------------------------------------------
def stored(emitter: KernelEmitter, value: PrimExpr) -> Lanes:
    """A value as it lies in memory, lane by lane: floats of 16 bits are rounded once, and copied as they are."""
    dtype = value.dtype
    if not is_half(dtype):
        return emitter.data(value)
    if isinstance(value, E.BufferLoad):
        return loaded(emitter, value)
    if isinstance(value, E.Cast):
        source = dt.element_of(value.value.dtype)
        if is_half(source) and source != dt.element_of(dtype):
            source = "float32"
        return [to_half(emitter, lane, source, dtype) for lane in emitter.data(value.value)]
    return [to_half(emitter, lane, "float32", dtype) for lane in emitter.data(value)]


def store(
    emitter: KernelEmitter,
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    value: PrimExpr,
    predicate: PrimExpr | None,
) -> None:
    """Prints a store."""
    index = _index(buffer, indices)
    values = stored(emitter, value)
    if isinstance(index, E.Broadcast):  # all lanes go to one place: the last one wins
        index, values = index.value, values[-1:]
        predicate = predicate.value if isinstance(predicate, E.Broadcast) else predicate
    conditions = None if predicate is None else emitter.number(predicate)
    uniform = predicate is None or dt.lanes(predicate.dtype) == 1 or isinstance(predicate, E.Broadcast)
    if conditions is not None and uniform:
        with emitter.block(f"if ({conditions[0].code})"):
            _store(emitter, buffer, index, values)
        return
    if conditions is None:
        _store(emitter, buffer, index, values)
        return
    tests = [emitter.kept(item, "bool", "holds") for item in conditions]
    places, kept = _elements(emitter, buffer, index), _named(emitter, buffer, values)
    for test, place, item in zip(tests, places, kept, strict=True):
        emitter.line(f"if ({test.code}) {place.code} = {item.code};")


def _store(emitter: KernelEmitter, buffer: Buffer, index: PrimExpr | None, values: Lanes) -> None:
    if _is_one_piece(emitter, buffer, index):
        assert isinstance(index, E.Ramp)
        lanes, type_ = index.lanes, memory_type(buffer.dtype)
        is_narrow = dt.is_integral(buffer.dtype) and dt.bits(buffer.dtype) < 32  # C++ computes it in int
        items = [cast(type_, item) if is_narrow else item for item in values]
        joined = Text(f"vec<{type_}, {lanes}>{{{{{', '.join(item.code for item in items)}}}}}")
        emitter.line(call(emitter.use("store_vec"), _address(emitter, buffer, index), joined).code + ";")
        return
    places = _elements(emitter, buffer, index)
    for place, item in zip(places, _named(emitter, buffer, values), strict=True):
        emitter.line(f"{place.code} = {item.code};")


def _named(emitter: KernelEmitter, buffer: Buffer, values: Lanes) -> Lanes:
    """What is stored in several elements, under names: one of them may be read where another one is written."""
    type_, named = memory_type(buffer.dtype), []
    for item in values:
        named.append(item if item.is_atom or len(values) == 1 else Text(emitter.fresh("value")))
        if named[-1] is not item:
            emitter.line(f"const {type_} {named[-1].code} = {item.code};")
    return named
