"""Ways to break a scheduled kernel: each takes a function to the places where it applies, and makes one wrong program per place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ir import dtype as dt
from ir.node import Mutator, post_order_visit
from ir.tir import PrimFunc
from ir.tir.analysis.block_access_region import stating_its_accesses
from ir.tir.expr import (
    LE,
    LT,
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Select,
    Sub,
)
from ir.tir.operators import const
from ir.tir.stmt import Block, BlockRealize, BufferStore, Evaluate, For, ForKind, IterVar, SeqStmt, seq

Change = Callable[[Any], Any]
"""From a node to what takes its place; None where the mutation does not apply."""


@dataclass(frozen=True)
class Mutation:
    """One way to break a program."""

    name: str
    node: type | tuple[type, ...]
    changes: Callable[[PrimFunc], list[Change]]
    """The changes that apply to this function, each tried at every node."""


class _Replace(Mutator):
    """Puts another node in the place of one object, wherever that stands; blocks around it state what they access then."""

    def __init__(self, target: Any, new: Any) -> None:
        super().__init__()
        self._target, self._new = target, new

    def visit(self, node: Any) -> Any:
        if node is self._target:
            return self._new
        found = super().visit(node)
        is_changed_block = (
            found is not node and isinstance(found, Block) and bool(found.reads or found.writes)
        )
        return stating_its_accesses(found) if is_changed_block else found


def places(func: PrimFunc, mutation: Mutation) -> list[tuple[Any, Any]]:
    """Where a mutation applies: a node and what takes its place, in the order of the program."""
    nodes = _nodes(func, mutation.node)
    found = [(node, change(node)) for change in mutation.changes(func) for node in nodes]
    return [(node, new) for node, new in found if new is not None and new is not node]


def mutant(func: PrimFunc, place: tuple[Any, Any]) -> PrimFunc:
    """The function with one place changed.

    Raises:
        ValueError: the place is in another function.
    """
    body = _Replace(*place).visit(func.body)
    if body is func.body:
        raise ValueError(f"a {type(place[0]).__name__} to change is not in this function")
    return func.replace(body=body)


def _nodes(func: PrimFunc, kind: Any) -> list[Any]:
    """The nodes of a kind, children first; what blocks state of their accesses computes nothing."""
    found: list[Any] = []
    seen: set[int] = set()

    def walk(node: Any) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        stated = {id(region) for region in (*node.reads, *node.writes)} if isinstance(node, Block) else ()
        node._visit_children(lambda child: None if id(child) in stated else walk(child))
        if isinstance(node, kind):
            found.append(node)

    walk(func.body)
    return found


def _always(*changes: Change) -> Callable[[PrimFunc], list[Change]]:
    return lambda _func: list(changes)


def _extent(item: Any) -> int:
    return item.value if isinstance(item, IntImm) else 0


# ---- indices -----------------------------------------------------------------------------------------------------


def _moved(position: int, step: int) -> Change:
    """A load ``step`` further along one dimension, around its end."""

    def change(load: BufferLoad) -> Any:
        axis = position if position >= 0 else load.buffer.ndim + position
        if not 0 <= axis < load.buffer.ndim or _extent(load.buffer.shape[axis]) < 2:
            return None
        index = load.indices[axis]
        if dt.lanes(index.dtype) != 1:
            return None
        moved = (index + const(step, index.dtype)) % load.buffer.shape[axis]
        return load.replace(indices=[*load.indices[:axis], moved, *load.indices[axis + 1 :]])

    return change


def _stored_elsewhere(store: BufferStore) -> Any:
    index = store.indices[-1] if store.indices else None
    if index is None or dt.lanes(index.dtype) != 1 or _extent(store.buffer.shape[-1]) < 2:
        return None
    return store.replace(indices=[*store.indices[:-1], (index + 1) % store.buffer.shape[-1]])


# ---- loops and initialization ------------------------------------------------------------------------------------


def _shorter(loop: For) -> Any:
    return loop.replace(extent=loop.extent - 1) if _extent(loop.extent) > 1 else None


def _is_constant(node: Any) -> bool:
    return isinstance(node, BufferStore) and isinstance(node.value, FloatImm | IntImm)


def _without_init(node: Any) -> Any:
    """No first value: in a block, or where schedules have put it in a block of its own."""
    if isinstance(node, Block):
        return None if node.init is None else node.replace(init=None)
    return Evaluate(const(0)) if _is_constant(node) else None


def _init_every_time(node: Any) -> Any:
    """The first value again before each step of a sum."""
    if isinstance(node, Block):
        return None if node.init is None else node.replace(init=None, body=seq(node.init, node.body))
    if not isinstance(node.value, Add) or dt.lanes(node.value.dtype) != 1:
        return None
    if not any(
        isinstance(item, BufferLoad) and item.buffer is node.buffer for item in (node.value.a, node.value.b)
    ):
        return None
    return SeqStmt([BufferStore(node.buffer, const(0, node.value.dtype), node.indices), node])


def _init_changed(node: Any) -> Any:
    """Another first value."""
    if isinstance(node, Block):
        changed = None if node.init is None else _init_changed(node.init)
        return None if changed is None else node.replace(init=changed)
    if not _is_constant(node):
        return None
    return node.replace(value=const(1 if float(node.value.value) == 0 else 0, node.value.dtype))


def _race(func: PrimFunc) -> list[Change]:
    """A loop of a reduction is shared by threads."""
    over: set[Any] = set()
    for realize in _nodes(func, BlockRealize):
        for axis, value in zip(realize.block.iter_vars, realize.iter_values):
            if axis.iter_type == IterVar.CommReduce:
                post_order_visit(value, over.add)

    def change(loop: For) -> Any:
        if loop.loop_var not in over or _extent(loop.extent) < 2 or loop.kind == ForKind.PARALLEL:
            return None
        inside: list[Any] = []
        post_order_visit(loop.body, lambda node: inside.append(node) if isinstance(node, For) else None)
        if any(item.kind == ForKind.PARALLEL for item in inside) or loop.kind == ForKind.VECTORIZED:
            return None
        return loop.replace(kind=ForKind.PARALLEL)

    return [change]


# ---- arithmetic --------------------------------------------------------------------------------------------------


def _swapped(node: Any) -> Any:
    return type(node)(node.b, node.a)


def _sides_swapped(node: Any) -> Any:
    if isinstance(node, Select):
        return Select(node.condition, node.false_value, node.true_value)
    if node.op.name == "tir.if_then_else" and not any(
        isinstance(item, BufferLoad) for arg in node.args[1:] for item in _below(arg)
    ):
        return node.replace(args=(node.args[0], node.args[2], node.args[1]))
    return None


def _below(node: Any) -> list[Any]:
    found: list[Any] = []
    post_order_visit(node, found.append)
    return found


def _is_data(node: Any) -> bool:
    return dt.is_float(node.dtype) or any(isinstance(item, BufferLoad) for item in _below(node))


def _sign(node: Any) -> Any:
    if not _is_data(node):
        return None
    return Sub(node.a, node.b) if isinstance(node, Add) else Add(node.a, node.b)


def _negated(store: BufferStore) -> Any:
    value = store.value
    if dt.lanes(value.dtype) != 1 or not (dt.is_float(value.dtype) or dt.is_int(value.dtype)):
        return None
    if isinstance(value, FloatImm | IntImm):
        return None
    return store.replace(value=const(0, value.dtype) - value)


def _other_extreme(node: Any) -> Any:
    if not _is_data(node):
        return None
    return Min(node.a, node.b) if isinstance(node, Max) else Max(node.a, node.b)


def _other_comparison(node: Any) -> Any:
    if not dt.is_float(node.a.dtype) or dt.lanes(node.dtype) != 1:
        return None
    return LE(node.b, node.a) if isinstance(node, LT) else LT(node.b, node.a)


def _constant(node: FloatImm) -> Any:
    if node.value in (0.0, float("inf"), float("-inf")) or abs(node.value) > 1e30:
        return None
    return FloatImm(node.dtype, node.value * 1.01)


def _narrow(store: BufferStore) -> Any:
    """Sums kept in a narrower type."""
    narrower = {"float32": "bfloat16", "float64": "float32", "int32": "int16", "int64": "int16"}
    value = store.value
    if value.dtype not in narrower or not isinstance(value, Add):
        return None
    if not any(isinstance(item, BufferLoad) and item.buffer is store.buffer for item in (value.a, value.b)):
        return None
    return store.replace(value=Cast(value.dtype, Cast(narrower[value.dtype], value)))


def _twice(store: BufferStore) -> Any:
    """What a block does behind a sum, done twice."""
    value = store.value
    if isinstance(value, FloatImm | IntImm) or dt.lanes(value.dtype) != 1:
        return None
    loads = [item for item in _below(value) if isinstance(item, BufferLoad) and item.dtype == value.dtype]
    if not loads or any(item.buffer is store.buffer for item in loads) or value is loads[0]:
        return None
    return store.replace(value=_Replace(loads[0], value).visit(value))


# ---- memory ------------------------------------------------------------------------------------------------------


def _params(func: PrimFunc) -> list[Any]:
    return [func.buffer_map[param] for param in func.params if param in func.buffer_map]


def _beside(func: PrimFunc) -> list[Change]:
    """A store behind or before the array, beside the right one."""
    outputs = {buffer.data for buffer in _params(func)}

    def at(first: bool) -> Change:
        def change(store: BufferStore) -> Any:
            if store.buffer.data not in outputs or not store.indices:
                return None
            if any(dt.lanes(index.dtype) != 1 for index in store.indices):
                return None
            dtype = store.indices[0].dtype
            edge: list[Any] = [const(0, index.dtype) for index in store.indices]
            edge[0] = const(-1, dtype) if first else const(_extent(store.buffer.shape[0]), dtype)
            return SeqStmt([store, BufferStore(store.buffer, store.value, edge)])

        return change

    return [at(True), at(False)]


def _inputs_written(func: PrimFunc) -> list[Change]:
    written = {store.buffer.data for store in _nodes(func, BufferStore)}
    inputs = [buffer for buffer in _params(func) if buffer.data not in written]

    def on(buffer: Any) -> Change:
        def change(store: BufferStore) -> Any:
            if store.buffer.data not in {item.data for item in _params(func)}:
                return None
            zeros = [const(0) for _ in buffer.shape]
            value = const(1, buffer.dtype)
            return SeqStmt([store, BufferStore(buffer, value, zeros)])

        return change

    return [on(buffer) for buffer in inputs]


# ---- dtypes ------------------------------------------------------------------------------------------------------


def _six(node: Max) -> Any:
    for side in (node.a, node.b):
        if isinstance(side, FloatImm | IntImm) and side.value == 0:
            return Min(node, const(6, node.dtype))
    return None


def _clamped(load: BufferLoad) -> Any:
    return Max(load, const(-127, "int8")) if load.dtype == "int8" else None


def _as_signed(load: BufferLoad) -> Any:
    if load.dtype != "uint8":
        return None
    return Call(
        "uint8", "tir.reinterpret", (Max(Call("int8", "tir.reinterpret", (load,)), const(0, "int8")),)
    )


def _from_zero(store: BufferStore) -> Any:
    """The value that a maximum or minimum starts from."""
    value = store.value
    if isinstance(value, FloatImm) and abs(value.value) > 1e4:
        return store.replace(value=FloatImm(value.dtype, 0.0))
    if isinstance(value, IntImm) and dt.is_int(value.dtype) and value.value in dt.integer_range(value.dtype):
        return store.replace(value=const(0, value.dtype))
    return None


MUTATIONS = (
    Mutation("index off by one", BufferLoad, _always(_moved(-1, 1), _moved(-1, -1))),
    Mutation("read of the neighbour's row", BufferLoad, _always(_moved(0, 1))),
    Mutation("stored elsewhere", BufferStore, _always(_stored_elsewhere)),
    Mutation("dropped tail", For, _always(_shorter)),
    Mutation("missing init", (Block, BufferStore), _always(_without_init)),
    Mutation("repeated init", (Block, BufferStore), _always(_init_every_time)),
    Mutation("wrong init", (Block, BufferStore), _always(_init_changed)),
    Mutation("swapped operands", (Sub, Div, FloorDiv), _always(_swapped)),
    Mutation("swapped sides", (Select, Call), _always(_sides_swapped)),
    Mutation("wrong sign", (Add, Sub), _always(_sign)),
    Mutation("negated", BufferStore, _always(_negated)),
    Mutation("minimum for maximum", (Max, Min), _always(_other_extreme)),
    Mutation("other comparison", (LT, LE), _always(_other_comparison)),
    Mutation("constant off by one percent", FloatImm, _always(_constant)),
    Mutation("race on the accumulator", For, _race),
    Mutation("narrow accumulation", BufferStore, _always(_narrow)),
    Mutation("epilogue twice", BufferStore, _always(_twice)),
    Mutation("store beside the array", BufferStore, _beside),
    Mutation("input overwritten", BufferStore, _inputs_written),
    Mutation("relu6 for relu", Max, _always(_six)),
    Mutation("int8 clamped", BufferLoad, _always(_clamped)),
    Mutation("uint8 as int8", BufferLoad, _always(_as_signed)),
    Mutation("extreme from zero", BufferStore, _always(_from_zero)),
)
