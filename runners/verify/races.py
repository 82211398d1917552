"""Whether iterations of a parallel loop keep apart: no element is stored to by two of them, or stored by one and loaded by another.

A race shows in a call only when threads meet in it, which small loops seldom do. So the elements that each iteration touches are
counted: for every parallel loop, every access to memory from outside of it is evaluated for all values of the variables that
stand in its index, and the first iteration that stores to an element owns it. Indices of data are followed on the arrays of a call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import IRModule
from ir.node import post_order_visit
from ir.tir.expr import BufferLoad, IntImm, Ramp, Var
from ir.tir.stmt import (
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    While,
)
from ir.tir.stmt_functor import substitute
from ir.tir.transform.plan_and_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)

from .arrays import ArrayEvaluator, Unknown
from .facts import entry

Array = np.ndarray[Any, Any]
_MOST = 1 << 21
"""Elements of one access that are looked at; of more, the first, second and last values of each variable within."""
_ASKED = 3
"""Of so many loops around, of which conditions ask, several turns are looked at."""


@dataclass(frozen=True, slots=True)
class Iterations:
    """What is known of the iterations of a program's parallel loops."""

    met: str | None
    """Which two of them touch the same element, in one sentence; None when none do, as far as that is known."""
    followed: bool
    """Every element that they share memory with was looked at: that none meet is certain."""


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


def iterations_of(mod: IRModule, arguments: Sequence[Array] | None = None) -> Iterations:
    """Whether iterations of parallel loops meet.

    A buffer that is used within an iteration only is that iteration's own, wherever it is declared: lowering moves it there.

    Args:
        mod: the program.
        arguments: the arrays of a call; with them, indices and conditions that load what the program does not write are followed
            as far as this call goes.
    """
    func = entry(PlanAndUpdateBufferAllocationLocation()(mod))
    body = func.body
    loops: list[tuple[For, _Place]] = []
    _find(body, _Place(), loops)
    followed = not loops or (_is_plain(body) and arguments is None)
    given = {} if arguments is None else _read_only(func, arguments)
    for loop, place in loops:
        found = _race_in(loop, place, given)
        if found.met is not None:
            return found
        followed = followed and found.followed
    return Iterations(None, followed)


def _read_only(func: Any, arguments: Sequence[Array]) -> dict[Any, Array]:
    """The arrays of the parameters that a program only reads."""
    written: set[Any] = set()
    post_order_visit(
        func.body, lambda node: written.add(node.buffer.data) if isinstance(node, BufferStore) else None
    )
    buffers = [func.buffer_map[param] for param in func.params]
    return {
        buffer.data: array
        for buffer, array in zip(buffers, arguments, strict=True)
        if buffer.data not in written
    }


def _is_plain(body: Any) -> bool:
    """Whether memory is touched by loads and stores of buffers alone: no views of regions, no calls for their effect."""
    plain = True

    def visit(node: Any) -> None:
        nonlocal plain
        if isinstance(node, Block) and node.match_buffers:
            plain = False
        elif isinstance(node, Evaluate) and not isinstance(node.value, IntImm):
            plain = False

    post_order_visit(body, visit)
    return plain


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


def _race_in(loop: For, place: _Place, given: Mapping[Any, Array]) -> Iterations:
    extent = getattr(loop.extent, "value", None)
    if extent is None:
        return Iterations(None, False)
    if extent < 2:
        return Iterations(None, True)
    own: set[Any] = set()
    accesses: list[_Access] = []
    inside = _Place({}, place.values, place.conditions)
    _collect(loop.body, inside, accesses, own)
    written = {item.buffer.data for item in accesses if item.stores} - own
    shared = [item for item in accesses if item.buffer.data in written]
    shared.sort(key=lambda access: not access.stores)
    followed = True
    for around in _turns_around(shared, place):
        found = _meeting(shared, loop, extent, around, given)
        if found.met is not None:
            return found
        followed = followed and found.followed
    return Iterations(None, followed)


def _turns_around(shared: Sequence[_Access], place: _Place) -> Iterator[dict[Any, int]]:
    """Values of the loops around that conditions ask for: the first, second and last of each.

    In one turn of those all iterations of the parallel loop run; where only indices name them, any turn will do.
    """
    asked: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, Var) and node in place.extents and node not in asked:
            asked.append(node)

    for condition in dict.fromkeys(condition for item in shared for condition in item.conditions):
        post_order_visit(condition, visit)
    ends: list[list[int]] = []
    for variable in asked[:_ASKED]:
        begin, extent = place.extents[variable]
        ends.append(
            sorted({begin, begin + min(1, extent - 1), begin + extent - 1}) if extent > 0 else [begin]
        )
    for values in itertools.product(*ends):
        yield dict(zip(asked, values))


def _meeting(
    shared: Sequence[_Access], loop: For, extent: int, around: Mapping[Any, int], given: Mapping[Any, Array]
) -> Iterations:
    """Two iterations that touch one element in one turn of the loops around, of which one stores to it."""
    owners: dict[Any, Array] = {}
    followed = True
    for item in shared:
        try:
            flat, iteration, all_of_them = _touched(item, loop, extent, around, given)
        except Unknown:
            followed = False
            continue
        followed = followed and all_of_them
        size = math.prod(int(getattr(length, "value", 1)) for length in item.buffer.shape)
        owner = owners.setdefault(item.buffer.data, np.full(size, -1, np.int32))
        if item.stores:
            free = owner[flat] < 0
            # Of several iterations the last one written stays: the first.
            owner[flat[free][::-1]] = iteration[free][::-1]
        other = owner[flat]
        met = (other >= 0) & (other != iteration)
        if met.any():
            at = int(np.argmax(met))
            what = "store to" if item.stores else "touch"
            message = (
                f"iterations {int(other[at])} and {int(iteration[at])} of the parallel loop {loop.loop_var.name} "
                f"{what} the same element of {item.buffer.name}"
            )
            return Iterations(message, followed)
    return Iterations(None, followed)


def _collect(node: Any, place: _Place, accesses: list[_Access], own: set[Any]) -> None:
    """All accesses under a node; ``own`` gets what is allocated there, which every iteration has for itself, and views, which
    are of other memory each time."""
    if isinstance(node, Block):
        own.update(buffer.data for buffer in node.alloc_buffers)
        own.update(match.buffer.data for match in node.match_buffers)
    if isinstance(node, BufferStore):
        _note(node.buffer, node.indices, True, place, accesses)
    for expr in _expressions(node):
        _collect_loads(expr, place, accesses)
    for child, inner in _children(node, place):
        _collect(child, inner, accesses, own)


def _expressions(node: Any) -> tuple[Any, ...]:
    """The expressions that a statement evaluates itself."""
    if isinstance(node, BufferStore):
        return (node.value, *node.indices)
    if isinstance(node, BlockRealize):
        return (node.predicate, *node.iter_values)
    if isinstance(node, For):
        return (node.min, node.extent)
    if isinstance(node, IfThenElse | While | AssertStmt):
        return (node.condition,)
    return (node.value,) if isinstance(node, LetStmt | Evaluate) else ()


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


def _touched(
    item: _Access, loop: For, extent: int, around: Mapping[Any, int], given: Mapping[Any, Array]
) -> tuple[Array, Array, bool]:
    """The elements of an access, flattened, the iterations that touch them, and whether these are all, whatever the rest is."""
    indices = [_first_lane(index) for index in item.indices]
    used: set[Any] = set()
    for index in [*indices, *item.conditions]:
        post_order_visit(index, lambda node: used.add(node) if isinstance(node, Var) else None)
    within = [variable for variable in item.extents if variable in used]
    ranges = {variable: np.arange(*_span(item.extents[variable])) for variable in within}
    iterations = np.arange(extent)
    # What neither this loop nor one within it binds is taken for zero, and so are the other lanes of a vector.
    everything = used <= {loop.loop_var, *within} and not any(isinstance(i, Ramp) for i in item.indices)
    if extent * math.prod(values.size for values in ranges.values()) > _MOST:
        everything = False
        ranges = {
            variable: np.unique(values[[0, min(1, values.size - 1), -1]])
            for variable, values in ranges.items()
        }
        iterations = iterations[: max(2, _MOST // math.prod(values.size for values in ranges.values()))]
    grid = np.meshgrid(iterations, *ranges.values(), indexing="ij", sparse=True)
    variables: dict[Any, Any] = {**dict.fromkeys(used, 0), **around}
    begin = int(getattr(loop.min, "value", 0))
    variables[loop.loop_var] = grid[0] + begin
    variables.update(zip(ranges, grid[1:]))
    evaluate = _OnArguments(variables, given)
    shape = np.broadcast_shapes(*(axis.shape for axis in grid))
    legal = np.ones(shape, np.bool_)
    for condition in item.conditions:  # where it is over data that is not known, the access is not followed
        legal &= np.broadcast_to(np.asarray(evaluate(condition), np.bool_), shape)
    flat = np.zeros(shape, np.int64)
    for index, length in zip(indices, item.buffer.shape):
        size = int(getattr(length, "value", 1))
        value = np.broadcast_to(evaluate(index), shape)
        within_extent = (value >= 0) & (value < size)
        # Beyond an extent lies another row, or nothing: the calls tell.
        everything = everything and bool(within_extent[legal].all())
        legal &= within_extent
        flat = flat * size + value
    return flat[legal], np.broadcast_to(grid[0], shape)[legal].astype(np.int32), everything


class _OnArguments(ArrayEvaluator):
    """Evaluates with the arrays of a call."""

    def __init__(self, variables: Mapping[Any, Any], given: Mapping[Any, Array]) -> None:
        super().__init__(variables)
        self._given = given

    def load(self, node: Any) -> Any:
        """The elements of an array that is only read."""
        array = self._given.get(node.buffer.data)
        if array is None or array.dtype.kind not in "iub" or array.ndim != len(node.indices):
            raise Unknown
        indices = [
            np.clip(self(index), 0, max(size - 1, 0)) for index, size in zip(node.indices, array.shape)
        ]
        return array[tuple(indices)].astype(np.int64) if array.size else np.int64(0)


def _first_lane(index: Any) -> Any:
    return index.base if isinstance(index, Ramp) else index


def _span(begin_and_extent: tuple[int, int]) -> tuple[int, int]:
    begin, extent = begin_and_extent
    return begin, begin + extent
