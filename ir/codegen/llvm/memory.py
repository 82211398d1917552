"""Memory accesses: addresses, plain, strided, gathered and masked loads and stores."""

from __future__ import annotations

from collections.abc import Callable

from ... import dtype as dt
from ...tir import expr as E
from ...tir.analysis.contiguous import (
    Lanes,
    constant_lanes,
    first_of_piece,
    is_picked,
    may_read_the_start,
    stride_of,
)
from ...tir.buffer import Buffer
from ...tir.expr import PrimExpr
from ..error import CodegenError
from .builder import Value, element_of, lanes_of, mangled, vector
from .conversion import from_memory, to_memory
from .emitter import FunctionEmitter, prints
from .types import element_bytes, memory_type

_MOST_SHARED = 4
"""Elements that the lanes of an access share, up to which each of them is loaded by itself."""


# -- addresses ---------------------------------------------------------------------
def flat_index(indices: tuple[PrimExpr, ...], buffer: Buffer) -> PrimExpr | None:
    """The one index of an access, None for a buffer without dimensions.

    Raises:
        CodegenError: there are several.
    """
    if len(indices) > 1:
        raise CodegenError(
            f"buffer {buffer.name} is accessed with {len(indices)} indices; run ir.tir.transform.FlattenBuffer first"
        )
    return indices[0] if indices else None


def address(emitter: FunctionEmitter, buffer: Buffer, index: PrimExpr | None, displacement: int = 0) -> Value:
    """Address of the element at a scalar index plus a constant."""
    pointer, constant = base_address(emitter, buffer, index)
    displacement += constant
    if displacement:
        pointer = emitter.offset(pointer, memory_type(buffer.dtype), Value(str(displacement), "i64"))
    return pointer


def base_address(emitter: FunctionEmitter, buffer: Buffer, index: PrimExpr | None) -> tuple[Value, int]:
    """An address that copies of an unrolled body share, and how many elements behind it the one at a scalar index is."""
    pointer = emitter.variable(buffer.data)
    displacement = 0
    for step in () if index is None else _steps(index):
        if isinstance(step, E.IntImm):
            displacement += step.value
        else:
            pointer = emitter.offset(pointer, memory_type(buffer.dtype), emitter.index(step))
    return pointer, displacement


def _steps(index: PrimExpr) -> list[PrimExpr]:
    """What an address is computed by: what a loop does not change, what it does, what copies of an unrolled body differ in."""
    steps = [index]
    # sums of data may have wrapped
    while (
        isinstance(sum_ := steps[0], E.Add)
        and isinstance(sum_.b, E.Var | E.IntImm)
        and dt.is_index(sum_.dtype)
    ):
        steps[:1] = [sum_.a, sum_.b]
    return steps


def _lane_addresses(emitter: FunctionEmitter, buffer: Buffer, index: PrimExpr) -> list[Value]:
    stride = stride_of(index)
    if isinstance(index, E.Ramp) and stride is not None:
        return [address(emitter, buffer, index.base, i * stride) for i in range(index.lanes)]
    base = emitter.variable(buffer.data)
    lanes = emitter.value(index)
    unsigned = dt.is_uint(index.dtype)
    offsets = (emitter.widened(emitter.b.extract(lanes, i), unsigned) for i in range(lanes_of(lanes.type)))
    return [emitter.b.element_pointer(base, memory_type(buffer.dtype), offset) for offset in offsets]


def _address_vector(emitter: FunctionEmitter, buffer: Buffer, index: PrimExpr) -> Value:
    lanes = emitter.value(index)
    count = lanes_of(lanes.type)
    if element_of(lanes.type) != "i64":
        lanes = emitter.b.cast("zext" if dt.is_uint(index.dtype) else "sext", lanes, vector("i64", count))
    base = emitter.variable(buffer.data)
    return emitter.b.define(
        f"getelementptr {memory_type(buffer.dtype)}, ptr {base.ref}, {lanes.type} {lanes.ref}",
        vector("ptr", count),
    )


# -- loads -------------------------------------------------------------------------
@prints(E.BufferLoad)
def _load(emitter: FunctionEmitter, expr: E.BufferLoad) -> Value:
    index = flat_index(expr.indices, expr.buffer)
    if expr.predicate is None:
        value = _plain_load(emitter, expr, index)
    else:
        value = _masked_load(emitter, expr, index, expr.predicate)
    return from_memory(emitter.b, value, expr.dtype)


def _plain_load(emitter: FunctionEmitter, expr: E.BufferLoad, index: PrimExpr | None) -> Value:
    b, buffer = emitter.b, expr.buffer
    type_, element, align = memory_type(expr.dtype), memory_type(buffer.dtype), element_bytes(buffer.dtype)
    one_piece, first = first_of_piece(index)
    if one_piece:
        return b.load(type_, address(emitter, buffer, first), align)
    if dt.lanes(buffer.dtype) > 1:
        assert index is not None
        return _joined(
            emitter, [b.load(element, pointer, align) for pointer in _lane_addresses(emitter, buffer, index)]
        )
    if isinstance(index, E.Broadcast):
        return b.splat(b.load(element, address(emitter, buffer, index.value), align), index.lanes)
    if isinstance(index, E.Ramp) and stride_of(index) == -1:
        straight = b.load(type_, address(emitter, buffer, index.base, 1 - index.lanes), align)
        return b.shuffle(straight, straight, range(index.lanes - 1, -1, -1))  # type: ignore[arg-type]
    assert index is not None
    # Registers are addressed piece by piece: vectors that overlap would keep them in memory.
    if isinstance(index, E.Ramp) and is_picked(index) and buffer.scope() != "local":
        return _picked_from_pieces(emitter, buffer, index)
    lanes = constant_lanes(index)
    if lanes is not None and len(set(lanes.offsets)) <= _MOST_SHARED:
        return _shared_by_lanes(emitter, buffer, lanes)
    result = Value("poison", type_)
    for i, pointer in enumerate(_lane_addresses(emitter, buffer, index)):
        result = b.insert(result, b.load(element, pointer, align), i)
    return result


def _shared_by_lanes(emitter: FunctionEmitter, buffer: Buffer, lanes: Lanes) -> Value:
    """The lanes of an access that many of them share: each element is loaded once, and put into all lanes that it is for."""
    b, base = emitter.b, E.IntImm("int64", 0) if lanes.base is None else lanes.base
    element, align = memory_type(buffer.dtype), element_bytes(buffer.dtype)
    count = len(lanes.offsets)
    first, *others = sorted(set(lanes.offsets))
    whole = b.splat(b.load(element, address(emitter, buffer, base, first), align), count)
    for offset in others:
        part = b.splat(b.load(element, address(emitter, buffer, base, offset), align), count)
        picked = [count + lane if lanes.offsets[lane] == offset else lane for lane in range(count)]
        whole = b.shuffle(whole, part, picked)
    return whole


def _joined(emitter: FunctionEmitter, parts: list[Value]) -> Value:
    """Vectors of one length one behind the other: the elements, vectors themselves, that an access finds apart from each other."""
    b, (whole, *others) = emitter.b, parts
    width = lanes_of(whole.type)
    for number, part in enumerate(others, 1):
        wider = b.shuffle(part, part, [min(lane, width - 1) for lane in range(number * width)])
        whole = b.shuffle(whole, wider, list(range((number + 1) * width)))
    return whole


def _picked_from_pieces(emitter: FunctionEmitter, buffer: Buffer, index: E.Ramp) -> Value:
    """The lanes of a strided access, a native vector of them at a time."""
    b = emitter.b
    most = max(emitter.context.vector_bits // (8 * element_bytes(buffer.dtype)), 2)
    whole: Value | None = None
    for first in range(0, index.lanes, most):
        count = min(most, index.lanes - first)
        part = _picked(emitter, buffer, index, first, count)
        if whole is None:
            whole = part
        elif count == 1:
            whole = b.shuffle(whole, whole, [*range(first), 0])
            whole = b.insert(whole, part, first)
        else:
            wider = b.shuffle(part, part, [min(lane, count - 1) for lane in range(first)])
            whole = b.shuffle(whole, wider, range(first + count))  # type: ignore[arg-type]
    assert whole is not None
    return whole


def _picked(emitter: FunctionEmitter, buffer: Buffer, index: E.Ramp, first: int, count: int) -> Value:
    """``count`` lanes of a strided access, picked out of vectors that hold everything from the first to the last of them.

    They reach no further, so that all of them lies in the buffer, whatever its extent.
    """
    b, align = emitter.b, element_bytes(buffer.dtype)
    stride = stride_of(index)
    assert stride is not None
    places = [(first + lane) * stride for lane in range(count)]
    low, reach = min(places), max(places) - min(places) + 1
    type_ = vector(memory_type(buffer.dtype), count)
    starts = [low + min(start, reach - count) for start in range(0, reach, count)]
    pieces = [b.load(type_, address(emitter, buffer, index.base, start), align) for start in starts]
    holders = [(place - low) // count for place in places]
    picked = pieces[0]
    lanes = [place - low if holder == 0 else 0 for place, holder in zip(places, holders)]
    for number in range(1, len(pieces)):
        lanes = [
            count + place - starts[number] if holder == number else lane
            for place, holder, lane in zip(places, holders, lanes)
        ]
        picked = b.shuffle(picked, pieces[number], lanes)
        lanes = list(range(count))
    return picked


def _masked_load(
    emitter: FunctionEmitter, expr: E.BufferLoad, index: PrimExpr | None, predicate: PrimExpr
) -> Value:
    """What is loaded where the predicate holds, zero elsewhere."""
    b, buffer = emitter.b, expr.buffer
    type_, align = memory_type(expr.dtype), element_bytes(buffer.dtype)
    one_piece, first = first_of_piece(index)
    nothing = Value("zeroinitializer", type_)
    uniform = predicate.value if isinstance(predicate, E.Broadcast) else predicate
    if one_piece and dt.lanes(uniform.dtype) == 1:
        condition = emitter.value(uniform)
        if may_read_the_start(expr):
            pointer = b.select(condition, address(emitter, buffer, first), emitter.variable(buffer.data))
            return b.select(condition, b.load(type_, pointer, align), nothing)
        return _guarded(
            emitter, condition, lambda: b.load(type_, address(emitter, buffer, first), align), type_
        )
    mask = emitter.value(predicate)
    if one_piece:
        pointer = address(emitter, buffer, first)
        name = f"llvm.masked.load.{mangled(type_)}.p0"
        emitter.module.declare(name, type_, ["ptr", "i32", mask.type, type_])
        return b.call(name, type_, [pointer, Value(str(align), "i32"), mask, nothing])
    assert index is not None
    _require_scalar_elements(buffer)
    pointers = _address_vector(emitter, buffer, index)
    name = f"llvm.masked.gather.{mangled(type_)}.v{lanes_of(type_)}p0"
    emitter.module.declare(name, type_, [pointers.type, "i32", mask.type, type_])
    return b.call(name, type_, [pointers, Value(str(align), "i32"), mask, nothing])


def _require_scalar_elements(buffer: Buffer) -> None:
    """Refuse an access under a mask to vectors apart from each other, of which LLVM ends the process."""
    if dt.lanes(buffer.dtype) > 1:
        raise CodegenError(
            f"buffer {buffer.name} of {buffer.dtype} is accessed under a mask at places apart from each other; "
            "access one element at a time, within an if"
        )


def _guarded(emitter: FunctionEmitter, condition: Value, compute: Callable[[], Value], type_: str) -> Value:
    """``compute()`` where the condition holds, else zero."""
    b = emitter.b
    then, join = b.fresh("then"), b.fresh("join")
    before = b.block
    b.cond_branch(condition, then, join)
    b.label(then)
    with emitter.conditionally():
        value = compute()
    last = b.block
    b.branch(join)
    b.label(join)
    return b.define(f"phi {type_} [{value.ref}, %{last}], [zeroinitializer, %{before}]", type_)


# -- stores ------------------------------------------------------------------------
def store(
    emitter: FunctionEmitter,
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    value: PrimExpr,
    predicate: PrimExpr | None,
) -> None:
    """Prints a store."""
    b = emitter.b
    index = flat_index(indices, buffer)
    stored = to_memory(b, emitter.value(value), value.dtype)
    align = element_bytes(buffer.dtype)
    if isinstance(index, E.Broadcast) and predicate is None:
        index = index.value  # all lanes go to one place: the last one wins
        stored = _element(emitter, stored, buffer, lanes_of(stored.type) // dt.lanes(buffer.dtype) - 1)
    if predicate is not None:
        _masked_store(emitter, buffer, index, stored, emitter.value(predicate), align)
        return
    one_piece, first = first_of_piece(index)
    if one_piece:
        b.store(stored, address(emitter, buffer, first), align)
        return
    assert index is not None
    for i, pointer in enumerate(_lane_addresses(emitter, buffer, index)):
        b.store(_element(emitter, stored, buffer, i), pointer, align)


def _element(emitter: FunctionEmitter, stored: Value, buffer: Buffer, number: int) -> Value:
    """One of the elements that are stored at once; those of a buffer of vectors are several lanes each."""
    width = dt.lanes(buffer.dtype)
    if width == 1:
        return emitter.b.extract(stored, number)
    return emitter.b.shuffle(stored, stored, list(range(number * width, (number + 1) * width)))


def _masked_store(
    emitter: FunctionEmitter, buffer: Buffer, index: PrimExpr | None, value: Value, mask: Value, align: int
) -> None:
    b = emitter.b
    count = lanes_of(value.type)
    one_piece, first = first_of_piece(index)
    if one_piece and count == 1:
        then, join = b.fresh("then"), b.fresh("join")
        pointer = address(emitter, buffer, first)
        b.cond_branch(mask, then, join)
        b.label(then)
        b.store(value, pointer, align)
        b.branch(join)
        b.label(join)
        return
    if one_piece:
        name = f"llvm.masked.store.{mangled(value.type)}.p0"
        emitter.module.declare(name, "void", [value.type, "ptr", "i32", mask.type])
        b.call(name, "void", [value, address(emitter, buffer, first), Value(str(align), "i32"), mask])
        return
    assert index is not None
    _require_scalar_elements(buffer)
    pointers = _address_vector(emitter, buffer, index)
    name = f"llvm.masked.scatter.{mangled(value.type)}.v{count}p0"
    emitter.module.declare(name, "void", [value.type, pointers.type, "i32", mask.type])
    b.call(name, "void", [value, pointers, Value(str(align), "i32"), mask])
