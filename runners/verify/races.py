"""Whether iterations of a parallel loop keep apart: no element is stored to by two of them, or stored by one and loaded by another.

A race shows in a call only when threads meet in it, which small loops seldom do. So the elements that each iteration touches are
counted: for every parallel loop, every access to memory from outside of it is evaluated for all values of the variables that
stand in its index, and the first iteration that stores to an element owns it. Indices of data are followed on the arrays of a call.
Of memory that an iteration has for itself it must have written what it reads: see :mod:`~runners.verify.own_memory`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import IRModule
from ir.node import post_order_visit
from ir.tir.expr import Call, IntImm
from ir.tir.intrinsic.declaration import CallEffectKind, effect_of
from ir.tir.stmt import Block, BufferStore, Evaluate, For, ForKind
from ir.tir.stmt_functor import variables_in
from ir.tir.transform.plan_and_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)

from . import accesses
from .accesses import Access, Accesses, Layout, Place, children, touched, views_of
from .arrays import Unknown
from .facts import entry
from .own_memory import read_before_written, read_unwritten

Array = np.ndarray[Any, Any]
_ASKED = 3
"""Of so many loops around, of which conditions ask, several turns are looked at, where all of them are too many."""
_TURNS = 32
"""So many turns are all looked at."""


@dataclass(frozen=True, slots=True)
class Iterations:
    """What is known of the iterations of a program's parallel loops."""

    met: str | None
    """Which two of them touch the same element, or what one of them or the program reads that it has not written, in one sentence; None
    when nothing is found, as far as that is known."""
    followed: bool
    """Every element that they share memory with was looked at: that none meet is certain."""


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
    loops: list[tuple[For, Place]] = []
    _find(body, Place(), loops)
    followed = not loops or (_is_plain(body) and arguments is None)
    given = {} if arguments is None else _read_only(func, arguments)
    for loop, place in loops:
        found = _race_in(loop, place, given)
        if found.met is not None:
            return found
        followed = followed and found.followed
    unwritten = _read_unwritten(body)
    return Iterations(unwritten, followed and unwritten is None)


def _read_unwritten(body: Any) -> str | None:
    """What is read of allocated memory before it is written, in one sentence, in a few turns of the loops around the allocation.

    Native code finds anything there, and compilers assume whatever suits them: the calls tell nothing. What an iteration of a parallel loop
    allocates once is looked at with the others.
    """
    blocks: list[tuple[Block, Place]] = []
    _find_allocations(body, Place(), blocks)
    for block, place in blocks:
        below = Accesses()
        for child, inner in children(block, Place({}, place.values)):
            below.collect(child, inner)
        allocated = {buffer.data for buffer in block.alloc_buffers} - below.escaping
        own = [item for item in below.found if item.buffer.data in allocated]
        for turn in _few_turns(place):
            found = read_unwritten(own, turn)
            if found is not None:
                return found
    return None


def _find_allocations(
    node: Any, place: Place, blocks: list[tuple[Block, Place]], is_own: bool = False
) -> None:
    """The blocks that allocate memory, but those of which the innermost loop around is parallel: ``is_own``."""
    if isinstance(node, For):
        is_own = node.kind == ForKind.PARALLEL
    if isinstance(node, Block) and node.alloc_buffers and not is_own:
        blocks.append((node, place))
    for child, inner in children(node, place):
        _find_allocations(child, inner, blocks, is_own)


def _few_turns(place: Place) -> Iterator[dict[Any, int]]:
    """The first turn of all loops around, the second, and the last."""
    chosen = [
        {
            variable: begin + min(max(extent - 1, 0), step)
            for variable, (begin, extent) in place.extents.items()
        }
        for step in (0, 1, max((extent for _, extent in place.extents.values()), default=0))
    ]
    return (turn for number, turn in enumerate(chosen) if turn not in chosen[:number])


def _read_only(func: Any, arguments: Sequence[Array]) -> dict[Any, Array]:
    """The arrays of the parameters that a program only reads, under no other name either."""
    written: set[Any] = set()

    def visit(node: Any) -> None:
        if isinstance(node, BufferStore):
            written.add(node.buffer.data)

    post_order_visit(func.body, visit)
    viewed = views_of(func)
    for view in list(written):
        while view in viewed:
            view = viewed[view]
            written.add(view)
    given = [(func.buffer_map.get(param), array) for param, array in zip(func.params, arguments, strict=True)]
    return {
        buffer.data: array for buffer, array in given if buffer is not None and buffer.data not in written
    }


def _is_plain(body: Any) -> bool:
    """Whether memory is touched by loads and stores of buffers alone: no views of regions, no calls that may have an effect."""
    plain = True

    def visit(node: Any) -> None:
        nonlocal plain
        if isinstance(node, Block) and node.match_buffers:
            plain = False
        elif isinstance(node, Evaluate) and not isinstance(node.value, IntImm):
            plain = False
        elif isinstance(node, Call) and effect_of(node) > CallEffectKind.READ_STATE:
            plain = False

    post_order_visit(body, visit)
    return plain


def _find(node: Any, place: Place, loops: list[tuple[For, Place]]) -> None:
    """All parallel loops, with the block variables around them."""
    if isinstance(node, For) and node.kind == ForKind.PARALLEL:
        loops.append((node, place))
    for child, inner in children(node, place):
        _find(child, inner, loops)


def _race_in(loop: For, place: Place, given: Mapping[Any, Array]) -> Iterations:
    if not (isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)):
        return Iterations(None, False)
    extent = loop.extent.value
    if extent < 2:
        return Iterations(None, True)
    inside = Place({}, place.values, place.conditions)
    under = Accesses()
    under.collect(loop.body, inside)
    written = {item.buffer.data for item in under.found if item.stores} - under.own
    shared = [item for item in under.found if item.buffer.data in written]
    shared.sort(key=lambda access: not access.stores)
    own = [item for item in under.found if item.buffer.data in under.own]
    followed = not any(item.buffer.data in under.escaping for item in own)
    own = [item for item in own if item.buffer.data not in under.escaping]
    for around in _turns_around([*shared, *own], place):
        found = _meeting(shared, loop, extent, around, given)
        if found.met is not None:
            return found
        read, all_of_them = read_before_written(own, loop, extent, around, given)
        if read is not None:
            return Iterations(read, False)
        followed = followed and found.followed and all_of_them
    return Iterations(None, followed)


def _turns_around(found: Sequence[Access], place: Place) -> Iterator[dict[Any, int]]:
    """Values of the loops around: all turns of those that conditions ask for, or the first, second and last of each, then a few of all.

    In one turn of those all iterations of the parallel loop run.
    """
    conditions = dict.fromkeys(condition for item in found for condition in item.conditions)
    used = variables_in(*conditions)
    asked = {variable: _span(span) for variable, span in place.extents.items() if variable in used}
    first, *others = _few_turns(place)
    if math.prod(end - begin for begin, end in asked.values()) <= _TURNS:
        chosen: list[Sequence[int]] = [range(*span) for span in asked.values()]
    else:
        chosen = [sorted({turn[variable] for turn in (first, *others)}) for variable in [*asked][:_ASKED]]
    for values in itertools.product(*chosen):
        yield {**first, **dict(zip(asked, values))}
    indices = dict.fromkeys(index for item in found for index in item.indices)
    if place.extents.keys() & variables_in(*indices):
        yield from others


def _meeting(
    shared: Sequence[Access], loop: For, extent: int, around: Mapping[Any, int], given: Mapping[Any, Array]
) -> Iterations:
    """Two iterations that touch one element in one turn of the loops around, of which one stores to it."""
    owners: dict[Any, Array] = {}
    buffers: dict[Any, list[Any]] = {}
    for item in shared:
        buffers.setdefault(item.buffer.data, []).append(item.buffer)
    layouts = {data: Layout.of(names) for data, names in buffers.items()}
    followed = True
    for item in shared:
        data = item.buffer.data
        try:
            cells, iteration, all_of_them = _elements(item, layouts[data], loop, extent, around, given)
        except Unknown:
            followed = False
            continue
        followed = followed and all_of_them
        owner = owners.get(data, np.zeros(0, np.int32))
        missing = int(cells.max(initial=-1)) + 1 - len(owner)
        if missing > 0:
            owner = np.concatenate([owner, np.full(missing, -1, np.int32)])
        owners[data] = owner
        if item.stores:
            free = owner[cells] < 0
            # Of several iterations the last one written stays: the first.
            owner[cells[free][::-1]] = iteration[free][::-1]
        other = owner[cells]
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


def _elements(
    item: Access,
    layout: Layout,
    loop: For,
    extent: int,
    around: Mapping[Any, int],
    given: Mapping[Any, Array],
) -> tuple[Array, Array, bool]:
    """The cells of an access, the iterations that touch them, and whether these are all, whatever the rest is.

    Raises:
        Unknown: it depends on data, or on a symbol, or a loop whose begin or extent is no number.
    """
    used = variables_in(*item.indices, *item.conditions)
    within = [variable for variable in item.extents if variable in used]
    ranges = {variable: np.arange(*_span(item.extents[variable])) for variable in within}
    iterations = np.arange(extent)
    is_all = True
    if extent * math.prod(values.size for values in ranges.values()) > accesses.MOST:
        is_all = False
        ranges = {
            variable: np.unique(values[[0, min(1, values.size - 1), -1]])
            for variable, values in ranges.items()
        }
        iterations = iterations[
            : max(2, accesses.MOST // math.prod(values.size for values in ranges.values()))
        ]
    assert isinstance(loop.min, IntImm)
    begin = loop.min.value
    found = touched(
        item, layout, {loop.loop_var: iterations + begin, **ranges}, around, given, item.conditions
    )
    iteration = found.sum_of({loop.loop_var: (begin, 1)}).astype(np.int32)
    cells = found.cells
    return cells.ravel(), np.repeat(iteration, cells.shape[1]), is_all and found.is_all


def _span(begin_and_extent: tuple[int, int]) -> tuple[int, int]:
    begin, extent = begin_and_extent
    return begin, begin + extent
