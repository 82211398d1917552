"""The rows of a register tile in the order in which they are written.

A tile of a product adds to each of its rows one number, in all lanes, times the vectors of the other operand. LLVM's scheduler likes to
load the numbers of all rows first, and its register allocator to let a partial result go on in the register of the number that it
was added; both want registers that a good tile has not, and partial results wander through memory. So the address of what a row reads
is made to depend on the partial results of the row before and on that row's number: an empty piece of assembly takes them all. It costs
nothing when it runs, as the processor sees no dependence.

A row of dot products has a group of narrow numbers in place of the number; beside the sums a tile may have corrections of them, which
are of no row (see :class:`ir.tir.transform.HoistSignCorrection`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ... import dtype as dt
from ...arith.deep_equal import expr_deep_equal
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.analysis.contiguous import first_of_piece
from ...tir.effects import has_effect
from ...tir.expr import Var
from .builder import Value, element_of, lanes_of
from .emitter import FunctionEmitter
from .memory import base_address, flat_index, store
from .types import element_bytes, memory_type

_FEWEST_STEPS = 2
"""Vectors of a row, below which the number is an operand in memory of the only instruction that wants it."""

_MOST_VALUES = 15
"""Values that one piece of assembly takes, each in a register: machines have 16 of them or more, and LLVM ends the process where they
are too few. A tile with rows that long has no other row in registers."""

Place = tuple[str, int, str, str]
"""Where something is read: an address, how many elements behind it, elements of what dtype, and the dtype of what is read."""


@dataclass(frozen=True)
class Step:
    """A store ``x[vector] = x[vector] + number * vector`` in registers, or one of a ``dot_accumulate``."""

    store: S.BufferStore
    number: E.PrimExpr | None
    """The operand that is one number in all lanes; for a dot product the load of the group that is. None if it is constant."""
    load: E.BufferLoad | None
    """That number, or group."""
    vector: E.BufferLoad | None
    """The other operand, if it is a vector as it lies in memory."""

    @property
    def is_of_groups(self) -> bool:
        """Whether it is a dot product."""
        return self.number is self.load

    @property
    def reads(self) -> set[Var]:
        """The memory of both operands, as far as they are loaded here."""
        return {load.buffer.data for load in (self.load, self.vector) if load is not None}


@dataclass
class Tile:
    """The tile at hand: consecutive steps in one basic block, which store to one buffer, and perhaps to one of corrections. What they read
    is no part of them, so that it stays as it is until something else is stored."""

    block: str
    results_in: set[Var]
    """The memory of the buffers."""
    read: set[Var] = field(default_factory=set)
    """The memory of what was loaded."""
    place: Place | None = None
    """Of the number of the row at hand."""
    number: Value | None = None
    everywhere: dict[int, Value] = field(default_factory=dict)
    """That number in so many lanes."""
    vectors: dict[Place, Value] = field(default_factory=dict)
    """What was loaded of the other operand."""
    bases: dict[str, Value] = field(default_factory=dict)
    """Addresses as they are behind the rows so far."""
    results: list[Value] = field(default_factory=list)
    """The partial results of the row at hand."""
    before: tuple[Value, ...] = ()
    """Those of the row before, and its number in all lanes, where they are worth waiting for."""
    waiting: set[str] = field(default_factory=set)
    """Addresses that are behind that row already."""


def step_of(emitter: FunctionEmitter, node: S.BufferStore) -> Step | None:
    """The step of a tile that a store is, if it is one."""
    value = _inside(node.value)
    if (
        node.predicate is not None
        or node.buffer.scope() != "local"
        or node.buffer.data not in emitter.private
        or dt.lanes(value.dtype) == 1
        or dt.bits(value.dtype) < 32
        or any(has_effect(part) for part in (value, *node.indices))  # which may write what is loaded before
    ):
        return None
    if isinstance(value, E.Call):
        return _dot_product_of(value, node)
    if not isinstance(value, E.Add) or not dt.is_float(value.dtype):
        return None
    partial, product = (value.a, value.b) if isinstance(value.b, E.Mul) else (value.b, value.a)
    if not isinstance(product, E.Mul) or not _is_same_place(partial, node):
        return None
    for number, other in ((product.a, product.b), (product.b, product.a)):
        load = _number(number)
        if load is not None and load.buffer.data is not node.buffer.data:
            is_vector = isinstance(other, E.BufferLoad) and _is_plain_vector(other, node)
            return Step(node, number, load, other if is_vector else None)
    return None


def _dot_product_of(call: E.Call, node: S.BufferStore) -> Step | None:
    """The step of a tile of dot products that a store of a call is, if it is one."""
    if getattr(call.op, "name", "") != "tir.dot_accumulate":
        return None
    sums, first, second = call.args
    load = _unflipped(first)
    if (
        not _is_same_place(sums, node)
        or dt.lanes(first.dtype) == dt.lanes(second.dtype)
        or not isinstance(second, E.BufferLoad)
        or not _is_plain_vector(second, node)
    ):
        return None
    if isinstance(load, E.BufferLoad):
        return Step(node, load, load, second) if _is_plain_vector(load, node) else None
    return (
        Step(node, None, None, second)
        if isinstance(load, E.Broadcast) and isinstance(load.value, E.IntImm)
        else None
    )


def _unflipped(first: E.PrimExpr) -> E.PrimExpr:
    """The operand of a dot product whose signs may have been changed."""
    while isinstance(first, E.Call) and getattr(first.op, "name", "") in (
        "tir.reinterpret",
        "tir.bitwise_xor",
    ):
        first = first.args[0]
    return first


def _inside(value: E.PrimExpr) -> E.PrimExpr:
    """What stands in a call of ``in_order``: lanes of vectors are not reassociated anyway."""
    if isinstance(value, E.Call) and getattr(value.op, "name", "") == "tir.in_order":
        return value.args[0]
    return value


def _is_same_place(partial: E.PrimExpr, node: S.BufferStore) -> bool:
    return (
        isinstance(partial, E.BufferLoad)
        and partial.buffer is node.buffer
        and len(partial.indices) == len(node.indices)
        and all(expr_deep_equal(x, y) for x, y in zip(partial.indices, node.indices))
    )


def _number(operand: E.PrimExpr) -> E.BufferLoad | None:
    """The load of one element that an operand has in all lanes."""
    if isinstance(operand, E.Broadcast) and isinstance(operand.value, E.BufferLoad):
        load = operand.value
        return load if load.predicate is None and dt.lanes(load.dtype) == 1 else None
    if isinstance(operand, E.BufferLoad) and operand.predicate is None and len(operand.indices) == 1:
        (index,) = operand.indices
        if isinstance(index, E.Broadcast) and dt.lanes(operand.buffer.dtype) == 1:
            return E.BufferLoad(operand.buffer, [index.value])
    return None


def _is_plain_vector(operand: E.BufferLoad, node: S.BufferStore) -> bool:
    """Whether it is read in one piece, out of memory that the tile is not in."""
    return (
        operand.predicate is None
        and operand.buffer.data is not node.buffer.data
        and len(operand.indices) == 1
        and first_of_piece(operand.indices[0])[0]
    )


def store_step(emitter: FunctionEmitter, step: Step) -> None:
    """Prints the store of a step."""
    tile = emitter.tile
    node = step.store
    if tile is None or not _belongs_to(emitter, tile, step):
        tile = emitter.tile = Tile(emitter.b.block, {node.buffer.data})
    tile.results_in.add(node.buffer.data)
    tile.read |= step.reads
    known: list[tuple[E.PrimExpr, Value]] = []
    if step.load is not None and step.number is not None:
        number = _number_of_row(emitter, tile, step.load)
        lanes = dt.lanes(node.value.dtype)
        known.append(
            (step.number, number if step.is_of_groups else _in_all_lanes(emitter, tile, number, lanes))
        )
    if step.vector is not None:
        known.append((step.vector, _vector_of(emitter, tile, step.vector)))
    with emitter.knowing(*known):
        result = emitter.value(node.value)
    with emitter.knowing((node.value, result)):
        store(emitter, node.buffer, node.indices, node.value, None)
    tile.results.append(result)


def _belongs_to(emitter: FunctionEmitter, tile: Tile, step: Step) -> bool:
    """Whether a step goes on with the tile at hand."""
    memory = step.store.buffer.data
    if tile.block != emitter.b.block:
        return False
    if memory in tile.results_in:
        return tile.results_in.isdisjoint(step.reads)
    return step.is_of_groups and memory not in tile.read and tile.results_in.isdisjoint(step.reads)


def _number_of_row(emitter: FunctionEmitter, tile: Tile, load: E.BufferLoad) -> Value:
    """The number of a step, or its group: that of the row at hand, or of a new row."""
    _, first = first_of_piece(flat_index(load.indices, load.buffer))
    base, displacement = base_address(emitter, load.buffer, first)
    place = (base.ref, displacement, load.buffer.dtype, load.dtype)
    if place != tile.place or tile.number is None:
        tile.before, tile.results = _worth_waiting_for(emitter, tile), []
        tile.waiting.clear()
        tile.everywhere.clear()
        tile.place, tile.number = place, _load(emitter, tile, load, base, displacement)
    return tile.number


def _in_all_lanes(emitter: FunctionEmitter, tile: Tile, number: Value, lanes: int) -> Value:
    """The number of the row at hand in each lane."""
    if lanes not in tile.everywhere:
        tile.everywhere[lanes] = emitter.b.splat(number, lanes)
    return tile.everywhere[lanes]


def _vector_of(emitter: FunctionEmitter, tile: Tile, load: E.BufferLoad) -> Value:
    """The vector of a step, which the first row reads."""
    _, first = first_of_piece(flat_index(load.indices, load.buffer))
    base, displacement = base_address(emitter, load.buffer, first)
    place = (base.ref, displacement, load.buffer.dtype, load.dtype)
    if place not in tile.vectors:
        tile.vectors[place] = _load(emitter, tile, load, base, displacement)
    return tile.vectors[place]


def _load(emitter: FunctionEmitter, tile: Tile, load: E.BufferLoad, base: Value, displacement: int) -> Value:
    """What is read behind the row before; memory that may become registers has no address to wait with."""
    pointer = tile.bases.get(base.ref, base)
    if tile.before and base.ref not in tile.waiting and not _may_be_registers(emitter, load, base):
        pointer = tile.bases[base.ref] = _behind(emitter, pointer, tile.before)
        tile.waiting.add(base.ref)
    if displacement:
        element = memory_type(load.buffer.dtype)
        pointer = emitter.offset(pointer, element, Value(str(displacement), "i64"))
    return emitter.b.load(memory_type(load.dtype), pointer, element_bytes(load.buffer.dtype))


def _may_be_registers(emitter: FunctionEmitter, load: E.BufferLoad, base: Value) -> bool:
    """Whether an access is to a constant place in memory of the function's own, all of which LLVM may keep in registers."""
    data = load.buffer.data
    return data in emitter.private and base.ref == emitter.variables[data].ref


def _worth_waiting_for(emitter: FunctionEmitter, tile: Tile) -> tuple[Value, ...]:
    """What the row at hand has computed; nothing of rows with too few or too many steps, or with vectors that are no register."""
    values = (*tile.results, *tile.everywhere.values())
    if len(tile.results) < _FEWEST_STEPS or len(values) > _MOST_VALUES:
        return ()
    are_registers = all(_bits_of(value) in emitter.context.vector_constraints for value in values)
    return values if are_registers else ()


def _bits_of(value: Value) -> int:
    return lanes_of(value.type) * (64 if element_of(value.type) == "double" else 32)


def _behind(emitter: FunctionEmitter, pointer: Value, values: tuple[Value, ...]) -> Value:
    """The same address, which LLVM knows behind some values only."""
    pure = emitter.module.attributes("nounwind willreturn memory(none)")
    given = ", ".join(f"{item.type} {item.ref}" for item in (pointer, *values))
    constraints = ",".join(
        ["=r,0", *[emitter.context.vector_constraints[_bits_of(value)] for value in values]]
    )
    return emitter.b.define(f'call ptr asm "", "{constraints}"({given}) {pure}', "ptr")
