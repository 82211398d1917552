"""Whether iterations of a parallel loop keep apart: no element is stored to by two of them, or stored by one and loaded by another.

A race shows in a call only when threads meet in it, which small loops seldom do. So the elements that each iteration touches are
counted: for every parallel loop, every access to memory from outside of it is evaluated for all values of the variables that
stand in its index, and the first iteration that stores to an element owns it. Indices that depend on data are not followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import IRModule
from ir.node import post_order_visit
from ir.tir.expr import BufferLoad, Ramp, Var
from ir.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, LetStmt
from ir.tir.stmt_functor import substitute
from ir.tir.transform.plan_and_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)

from .arrays import ArrayEvaluator, Unknown
from .facts import entry

Array = np.ndarray[Any, Any]
_MOST = 1 << 21
"""Elements of one access that are looked at; of more, the first, second and last values of each variable within."""


@dataclass(slots=True)
class _Access:
    """One load or store inside of a parallel loop."""

    buffer: Any
    indices: tuple[Any, ...]
    stores: bool
    conditions: tuple[Any, ...]
    extents: Mapping[Any, tuple[int, int]]
    """Begin and extent of the loops within the parallel one."""


@dataclass(slots=True)
class _Place:
    """Where a walk is: loops around, values of block variables and names, conditions."""

    extents: dict[Any, tuple[int, int]] = field(default_factory=dict)
    values: dict[Any, Any] = field(default_factory=dict)
    conditions: tuple[Any, ...] = ()


def race_of(mod: IRModule) -> str | None:
    """Which iterations of which parallel loop meet, in one sentence; None when none do, as far as that is known.

    A buffer that is used within an iteration only is that iteration's own, wherever it is declared: lowering moves it there.
    """
    planned = PlanAndUpdateBufferAllocationLocation()(mod)
    loops: list[tuple[For, _Place]] = []
    _find(entry(planned).body, _Place(), loops)
    for loop, place in loops:
        found = _race_in(loop, place)
        if found is not None:
            return found
    return None


def _find(node: Any, place: _Place, loops: list[tuple[For, _Place]]) -> None:
    """All parallel loops, with the block variables around them."""
    if isinstance(node, For) and node.kind == ForKind.PARALLEL:
        loops.append((node, place))
    for child, inner in _children(node, place):
        _find(child, inner, loops)


def _children(node: Any, place: _Place) -> Iterator[tuple[Any, _Place]]:
    """The statements in a statement, and where they stand."""
    if isinstance(node, For):
        begin, extent = (getattr(item, "value", None) for item in (node.min, node.extent))
        inner = _Place(dict(place.extents), place.values, place.conditions)
        if begin is not None and extent is not None:
            inner.extents[node.loop_var] = (begin, extent)
        yield node.body, inner
    elif isinstance(node, BlockRealize):
        values = dict(place.values)
        for axis, value in zip(node.block.iter_vars, node.iter_values):
            values[axis.var] = substitute(value, place.values)
        predicate = substitute(node.predicate, place.values)
        inner = _Place(place.extents, values, (*place.conditions, predicate))
        yield node.block, inner
    elif isinstance(node, Block):
        for part in (node.init, node.body):
            if part is not None:
                yield part, place
    elif isinstance(node, IfThenElse):
        condition = substitute(node.condition, place.values)
        yield node.then_case, _Place(place.extents, place.values, (*place.conditions, condition))
        if node.else_case is not None:
            yield node.else_case, _Place(place.extents, place.values, (*place.conditions, ~condition))
    elif isinstance(node, LetStmt):
        values = {**place.values, node.var: substitute(node.value, place.values)}
        yield node.body, _Place(place.extents, values, place.conditions)
    elif not isinstance(node, BufferStore):
        below: list[Any] = []
        node._visit_children(below.append)
        for child in below:
            if hasattr(child, "span") and not hasattr(child, "dtype"):
                yield child, place


def _race_in(loop: For, place: _Place) -> str | None:
    extent = getattr(loop.extent, "value", None)
    if extent is None or extent < 2:
        return None
    own: set[Any] = set()
    accesses: list[_Access] = []
    inside = _Place({}, place.values, place.conditions)
    _collect(loop.body, inside, accesses, own)
    written = {item.buffer.data for item in accesses if item.stores} - own
    shared = [item for item in accesses if item.buffer.data in written]
    owners: dict[Any, Array] = {}
    for item in sorted(shared, key=lambda access: not access.stores):
        try:
            flat, iteration = _touched(item, loop, extent)
        except Unknown:
            continue
        size = math.prod(int(getattr(length, "value", 1)) for length in item.buffer.shape)
        owner = owners.setdefault(item.buffer.data, np.full(size, -1, np.int32))
        if item.stores:
            free = owner[flat] < 0
            owner[flat[free][::-1]] = iteration[free][
                ::-1
            ]  # of several the last one written stays: the first
        other = owner[flat]
        met = (other >= 0) & (other != iteration)
        if met.any():
            at = int(np.argmax(met))
            what = "store to" if item.stores else "touch"
            return (
                f"iterations {int(other[at])} and {int(iteration[at])} of the parallel loop {loop.loop_var.name} "
                f"{what} the same element of {item.buffer.name}"
            )
    return None


def _collect(node: Any, place: _Place, accesses: list[_Access], own: set[Any]) -> None:
    """All accesses under a node; ``own`` gets what is allocated there, which every iteration has for itself."""
    if isinstance(node, Block):
        own.update(buffer.data for buffer in node.alloc_buffers)
    if isinstance(node, BufferStore):
        _note(node.buffer, node.indices, True, place, accesses)
        for expr in (node.value, *node.indices):
            _collect_loads(expr, place, accesses)
    for child, inner in _children(node, place):
        _collect(child, inner, accesses, own)


def _collect_loads(expr: Any, place: _Place, accesses: list[_Access]) -> None:
    post_order_visit(
        expr,
        lambda item: (
            _note(item.buffer, item.indices, False, place, accesses) if isinstance(item, BufferLoad) else None
        ),
    )


def _note(buffer: Any, indices: Sequence[Any], stores: bool, place: _Place, accesses: list[_Access]) -> None:
    given = tuple(substitute(index, place.values) for index in indices)
    accesses.append(_Access(buffer, given, stores, place.conditions, place.extents))


def _touched(item: _Access, loop: For, extent: int) -> tuple[Array, Array]:
    """The elements of an access, flattened, and the iterations that touch them."""
    indices = [_first_lane(index) for index in item.indices]
    used: set[Any] = set()
    for index in [*indices, *item.conditions]:
        post_order_visit(index, lambda node: used.add(node) if isinstance(node, Var) else None)
    within = [variable for variable in item.extents if variable in used]
    ranges = {variable: np.arange(*_span(item.extents[variable])) for variable in within}
    iterations = np.arange(extent)
    if extent * math.prod(values.size for values in ranges.values()) > _MOST:
        ranges = {
            variable: np.unique(values[[0, min(1, values.size - 1), -1]])
            for variable, values in ranges.items()
        }
        iterations = iterations[: max(2, _MOST // math.prod(values.size for values in ranges.values()))]
    grid = np.meshgrid(iterations, *ranges.values(), indexing="ij", sparse=True)
    # Loops around the parallel one stand still: any of their values will do.
    variables: dict[Any, Any] = {variable: 0 for variable in used}
    begin = int(getattr(loop.min, "value", 0))
    variables[loop.loop_var] = grid[0] + begin
    variables.update(zip(ranges, grid[1:]))
    evaluate = ArrayEvaluator(variables)
    shape = np.broadcast_shapes(*(axis.shape for axis in grid))
    legal = np.ones(shape, np.bool_)
    for condition in item.conditions:  # a guard over data is not known: the access is not followed
        legal &= np.broadcast_to(np.asarray(evaluate(condition), np.bool_), shape)
    flat = np.zeros(shape, np.int64)
    for index, length in zip(indices, item.buffer.shape):
        size = int(getattr(length, "value", 1))
        value = np.broadcast_to(evaluate(index), shape)
        legal &= (value >= 0) & (value < size)
        flat = flat * size + value
    return flat[legal], np.broadcast_to(grid[0], shape)[legal].astype(np.int32)


def _first_lane(index: Any) -> Any:
    return index.base if isinstance(index, Ramp) else index


def _span(begin_and_extent: tuple[int, int]) -> tuple[int, int]:
    begin, extent = begin_and_extent
    return begin, begin + extent
