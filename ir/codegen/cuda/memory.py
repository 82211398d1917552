"""Memory accesses: one element at a time, or neighbours at once where their address is a multiple of their size."""

from __future__ import annotations

from ... import dtype as dt
from ...target.gpu_facts import ACCESS_BYTES
from ...tir import expr as E
from ...tir.analysis.contiguous import first_of_piece
from ...tir.buffer import Buffer
from ...tir.effects import has_effect
from ...tir.expr import PrimExpr
from ...tir.thread_axis import is_private_scope
from ..error import CodegenError
from .conversions import cast_operand, from_memory, to_half
from .emitter import KernelEmitter, Lanes, prints
from .expression import refuse_lanes
from .pair_forms import pair_forms
from .text import Text, binary, call, cast, choice
from .types import is_half, memory_type


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


def is_one_piece(emitter: KernelEmitter, buffer: Buffer, index: PrimExpr | None) -> bool:
    """Whether an access is one of neighbours at once: the hardware's vectors have a power of two of bytes, and lie at multiples of that."""
    lanes = 1 if index is None else dt.lanes(index.dtype)
    size = lanes * dt.bytes_of(buffer.dtype)
    if lanes == 1 or is_private_scope(buffer.scope()) or size > ACCESS_BYTES or size & (size - 1):
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
    if is_half(load.dtype):
        floats = loaded_floats(emitter, load)
        if floats is not None:
            return floats
    return [from_memory(emitter, lane, load.dtype) for lane in loaded(emitter, load)]


def loaded(emitter: KernelEmitter, load: E.BufferLoad) -> Lanes:
    """What lies in memory, lane by lane, as its C++ type of memory."""
    piece = _as_one_piece(emitter, load)
    if piece is not None:
        return piece
    index = _index(load.buffer, load.indices)
    if load.predicate is not None:
        return _masked(emitter, load, index, load.predicate)
    return _elements(emitter, load.buffer, index)


def loaded_pairs(emitter: KernelEmitter, load: E.BufferLoad) -> Lanes | None:
    """What lies in memory, two lanes at a time; None where it is not loaded at once, or has no :class:`.pair_forms.PairForms`."""
    forms, lanes = pair_forms(load.dtype), _as_one_piece(emitter, load)
    if forms is None or lanes is None:
        return None
    function = f"{emitter.use('pair_at')}<{forms.type}>"
    name = lanes[0].code.partition(".")[0]
    return [call(function, name, str(number)) for number in range(len(lanes) // 2)]


def loaded_floats(emitter: KernelEmitter, load: E.BufferLoad) -> Lanes | None:
    """Narrow floats that lie in memory as float32, converted two at a time; None where they are not loaded so."""
    forms, pairs = pair_forms(load.dtype), loaded_pairs(emitter, load)
    if forms is None or pairs is None:
        return None
    key = f"floats {pairs[0].code}"
    found = emitter.loaded.get(key)
    if found is None:
        found = emitter.loaded[key] = []
        for pair in pairs:
            name = emitter.fresh(f"{load.buffer.name}_floats")
            emitter.line(f"const float2 {name} = {forms.to_floats}({pair.code});")
            found += [Text(f"{name}.x"), Text(f"{name}.y")]
    return found


def _as_one_piece(emitter: KernelEmitter, load: E.BufferLoad) -> Lanes | None:
    """The lanes of neighbours that are loaded at once; None of other loads."""
    index = _index(load.buffer, load.indices)
    if emitter.is_conditional or not is_one_piece(emitter, load.buffer, index):
        return None
    if load.predicate is not None and not isinstance(load.predicate, E.Broadcast):
        return None
    assert isinstance(index, E.Ramp)
    return _vector(emitter, load.buffer, index, None if load.predicate is None else load.predicate.value)


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
        return [to_half(emitter, lane, source, dtype) for lane in cast_operand(emitter, value)]
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
    if predicate is not None and has_effect(value):
        _store_guarded(emitter, buffer, indices, value, predicate)
        return
    values = stored(emitter, value)
    if emitter.in_order and any(map(has_effect, indices)):  # what is stored is known before
        values = [item if item.is_atom else held(emitter, buffer.dtype, item) for item in values]
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


def _store_guarded(
    emitter: KernelEmitter,
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    value: PrimExpr,
    predicate: PrimExpr,
) -> None:
    """A store of a value with effects, which happen where the predicate holds."""
    uniform = predicate.value if isinstance(predicate, E.Broadcast) else predicate
    if dt.lanes(uniform.dtype) > 1:
        refuse_lanes(value)
    with emitter.block(f"if ({emitter.index(uniform).code})"):
        store(emitter, buffer, indices, value, None)


def _store(emitter: KernelEmitter, buffer: Buffer, index: PrimExpr | None, values: Lanes) -> None:
    if is_one_piece(emitter, buffer, index):
        assert isinstance(index, E.Ramp)
        lanes, type_ = index.lanes, memory_type(buffer.dtype)
        is_narrow = dt.is_integral(buffer.dtype) and dt.bits(buffer.dtype) < 32  # C++ computes it in int
        items = [cast(type_, item) if is_narrow else item for item in values]
        joined = Text(f"vec<{type_}, {lanes}>{{{{{', '.join(item.code for item in items)}}}}}")
        emitter.line(call(emitter.use("store_vec"), _address(emitter, buffer, index), joined).code + ";")
        return
    store_lanes(emitter, buffer, index, values)


def store_joined(emitter: KernelEmitter, buffer: Buffer, index: E.Ramp, pairs: Lanes) -> None:
    """Prints a store of neighbours at once, which are given two at a time."""
    emitter.type_of(buffer.dtype)
    joined = call(f"{emitter.use('joined_pairs')}<{memory_type(buffer.dtype)}>", *pairs)
    emitter.line(call(emitter.use("store_vec"), _address(emitter, buffer, index), joined).code + ";")


def store_lanes(emitter: KernelEmitter, buffer: Buffer, index: PrimExpr | None, values: Lanes) -> None:
    """Prints stores of values one by one."""
    places = _elements(emitter, buffer, index)
    for place, item in zip(places, _named(emitter, buffer, values), strict=True):
        emitter.line(f"{place.code} = {item.code};")


def _named(emitter: KernelEmitter, buffer: Buffer, values: Lanes) -> Lanes:
    """What is stored in several elements, under names: one of them may be read where another one is written."""
    return [
        item if item.is_atom or len(values) == 1 else held(emitter, buffer.dtype, item) for item in values
    ]


def held(emitter: KernelEmitter, dtype: str, value: Text) -> Text:
    """What is stored in an element, under a name."""
    name = emitter.fresh("value")
    emitter.line(f"const {memory_type(dtype)} {name} = {value.code};")
    return Text(name)
