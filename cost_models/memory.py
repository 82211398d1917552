"""Memory behaviour of nests: what each buffer's accesses touch at every loop level, and the traffic between cache levels.

A cache of capacity S keeps what one iteration of a loop touches if that fits S; the data that the loop's next iteration needs
again are then still there. So lines are fetched into a cache once per entry of the innermost level that does not fit
(reuse by loop levels as in Ansor and in Goto and van de Geijn's analysis). Rows at strides of powers of two share few sets
of a cache, so they take more room than their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedules.population.skeleton import Access, Skeleton

from .loops import Array, NestLoops, at_level
from .machine import CacheLevel, Machine

_PAGE = 4096
"""Bytes that hardware reads ahead of an access at most."""
_STREAMS = 16
"""Stretches of memory that hardware keeps in view to read ahead of them."""


@dataclass
class Slot:
    """All accesses of a nest to one buffer with one pattern."""

    buffer: int
    name: str
    is_local: bool
    reads: int
    writes: int
    element_bytes: int
    elements: Array
    """Distinct elements touched from each level inwards: float64 [L + 1, N]."""
    lines: Array
    """Distinct cache lines touched from each level inwards: float64 [L + 1, N]."""
    chunk: Array
    """Adjacent bytes touched in the contiguous dimension: float64 [L + 1, N]."""
    runs: Array
    """Stretches of adjacent bytes touched from each level inwards, whole rows together being one: float64 [L + 1, N]."""
    row_bytes: Array
    """Distance of neighbouring rows of the contiguous dimension, 0 where there is one row: int64 [N]."""
    strides: Array
    """Elements that one step of each kept loop moves: int64 [L, N]."""
    allocated: int
    """Level at which the buffer is allocated anew (0 for the function's own buffers)."""
    shared: int
    """Number of kept outer loops that this nest shares with the other nests that use the buffer."""

    def moved_by(self, position: int) -> Array:
        """Whether a step of the loop reaches other elements: bool [N]."""
        return np.asarray(self.strides[position] != 0)


def slots_of(skeleton: Skeleton, loops: list[NestLoops], line_bytes: int) -> list[list[Slot]]:
    """Slots of every nest, in the order of the accesses; in candidates of the same patterns (:mod:`cost_models.patterns`)."""
    writers: dict[int, set[int]] = {}
    readers: dict[int, set[int]] = {}
    for number, nest in enumerate(skeleton.nests):
        for access in nest.accesses:
            (writers if access.is_write else readers).setdefault(access.buffer, set()).add(number)
    result = []
    for number, nest in enumerate(skeleton.nests):
        groups: dict[tuple[int, bytes], list[Access]] = {}
        for access in nest.accesses:
            pattern = (access.reach[:, :, :1] != 0).tobytes()  # alike in one candidate, alike in all
            groups.setdefault((access.buffer, pattern), []).append(access)
        slots = []
        for (buffer, _), accesses in groups.items():
            users = writers.get(buffer, set()) | readers.get(buffer, set())
            others = [loops[user].keys for user in users if user != number]
            shared = _common_prefix(loops[number].keys, others) if others else 0
            produced = buffer in writers and buffer in readers and len(users) > 1
            slots.append(_slot(accesses, loops[number], shared if produced else 0, shared, line_bytes))
        result.append(slots)
    return result


def _common_prefix(keys: list[int], others: list[list[int]]) -> int:
    """How many outer loops all nests share."""
    depth = 0
    for position, key in enumerate(keys):
        if not all(position < len(other) and other[position] == key for other in others):
            break
        depth += 1
    return depth


def _slot(accesses: list[Access], loops: NestLoops, allocated: int, shared: int, line_bytes: int) -> Slot:
    first = accesses[0]
    dims, size = first.reach.shape[0], loops.inner.shape[1]
    moving = np.logical_or.reduce([access.reach.any(axis=2) for access in accesses])[:, loops.kept]
    shape = [np.maximum(extent, 1).astype(np.float64) for extent in first.shape]
    ones = np.ones(size)
    span, times, unique = [ones] * dims, [ones] * dims, [ones] * dims
    elements = np.empty((loops.count + 1, size))
    lines = np.empty_like(elements)
    chunk, runs = np.empty_like(elements), np.empty_like(elements)
    line_elements = line_bytes / first.element_bytes
    elements[loops.count] = lines[loops.count] = ones
    chunk[loops.count] = first.element_bytes
    runs[loops.count] = ones
    for level in range(loops.count - 1, -1, -1):
        moved = np.flatnonzero(moving[:, level])
        if len(moved) == 0 or level < allocated:
            # Nothing new is reached, or the buffer is used again for the next tile.
            elements[level], lines[level], chunk[level] = (
                elements[level + 1],
                lines[level + 1],
                chunk[level + 1],
            )
            runs[level] = runs[level + 1]
            continue
        extent = loops.extents[level]
        for dim in moved.tolist():
            reach = np.abs(first.reach[dim, loops.kept[level]])
            for other in accesses[1:]:
                reach = np.maximum(reach, np.abs(other.reach[dim, loops.kept[level]]))
            span[dim] = span[dim] + (extent - 1.0) * reach
            # Of some candidates, perhaps: in the others the loop leaves this dimension where it is.
            times[dim] = times[dim] * np.where(reach != 0, extent, 1.0)
            unique[dim] = np.minimum(np.minimum(span[dim], times[dim]), shape[dim])
        rows = ones
        for dim in range(dims - 1):
            if unique[dim] is not ones:
                rows = rows * unique[dim]
        last = dims - 1
        elements[level] = total = rows * unique[last]
        wide = np.minimum(span[last], shape[last])
        partial = rows * np.minimum(unique[last], np.maximum(wide / line_elements, 1.0))
        whole = np.maximum(total / line_elements, 1.0)
        lines[level] = np.where(wide >= shape[last], np.minimum(whole, partial), partial)
        chunk[level] = wide * first.element_bytes
        runs[level] = np.where(wide >= shape[last], 1.0, rows)
    row_bytes = np.zeros(size, dtype=np.int64)
    if dims >= 2:
        # A buffer that is allocated within loops is compacted to what an iteration of them touches.
        row = np.minimum(span[-1], shape[-1]) if allocated else shape[-1]
        row_bytes = row.astype(np.int64) * first.element_bytes
    strides = np.abs(first.strides[loops.kept])
    return Slot(
        first.buffer,
        first.name,
        first.scope not in ("global", ""),
        sum(access.count for access in accesses if not access.is_write),
        sum(access.count for access in accesses if access.is_write),
        first.element_bytes,
        elements,
        lines,
        chunk,
        runs,
        row_bytes,
        strides,
        allocated,
        shared,
    )


def crowding(slot: Slot, cache: CacheLevel, line_bytes: int) -> Array:
    """How many times its bytes a slot takes of a cache because its rows share sets: float64 [L + 1, N], at least 1."""
    row_bytes = slot.row_bytes
    if (row_bytes == row_bytes[:1]).all():
        row_bytes = row_bytes[:1]  # as of most buffers
    rows = row_bytes // line_bytes
    aligned = (row_bytes % line_bytes == 0) & (rows > 0)
    power = cache.sets & -cache.sets
    step = np.where(aligned, np.gcd(np.where(aligned, rows, 1), power), 1)
    if step.max(initial=1) == 1:
        return np.ones((1, len(slot.row_bytes)))
    factor = np.maximum(step / np.maximum(slot.chunk / line_bytes, 1.0), 1.0)
    return np.asarray(np.where(slot.chunk >= row_bytes, 1.0, factor))


@dataclass
class Traffic:
    """Lines that move into each cache, and how far out each cache still holds the working set."""

    lines: list[Array]
    """Per cache level, lines fetched per slot over the whole nest: list of float64 [slots, N]."""
    runs: list[Array]
    """Per cache level, stretches of memory that these lines come from, one after the other, and that are shorter than a page: list of
    float64 [N]."""
    fitting: list[Array]
    """Per cache level, the outermost loop level whose working set fits: list of int64 [N]."""
    footprint: Array
    """Bytes of the working set from each loop level inwards: float64 [L + 1, N]."""


@dataclass
class Companion:
    """What another nest touches in the iterations of a reduction's loop that it shares with a nest."""

    buffers: list[int]
    """Of each slot of the other nest."""
    taken: list[list[Array]]
    """By cache and slot, bytes that it takes from each level of the other nest inwards: float64 [L' + 1, N]."""
    levels: Array
    """Levels of the nest that count: int64 [l]."""
    shared: Array
    """The levels of the other nest beside them, which are those of the shared loops: int64 [l]."""
    here: Array
    """Where they count: bool [l, N]."""


def companions(
    loops: Sequence[NestLoops],
    slots: Sequence[list[Slot]],
    in_registers: Sequence[list[Array]],
    machine: Machine,
) -> list[list[Companion]]:
    """For each nest what others bring into the caches between two steps of a reduction that they share.

    A tile of results that is added to in every block of a reduction stays only where it fits together with the block's operands.
    """
    known: dict[int, list[list[Array]]] = {}
    found: list[list[Companion]] = []
    for number, nest in enumerate(loops):
        beside = []
        for other, theirs in enumerate(loops):
            depth = 0 if other == number else _common_prefix(nest.keys, [theirs.keys])
            reducing = [nest.reductions[level] or theirs.reductions[level] for level in range(depth)]
            if not any(reducing):
                continue
            shared, here = _beside(nest, reducing)
            levels = np.flatnonzero(here.any(axis=1))
            if len(levels):
                if other not in known:
                    known[other] = [
                        _taken(slots[other], in_registers[other], cache, machine.line_bytes)
                        for cache in machine.caches
                    ]
                buffers = [slot.buffer for slot in slots[other]]
                beside.append(Companion(buffers, known[other], levels, shared[levels], here[levels]))
        found.append(beside)
    return found


def _beside(nest: NestLoops, reducing: Sequence[bool]) -> tuple[Array, Array]:
    """For each level of a nest the level of its outer loops that counts, int64 [L + 1], and where it does, bool [L + 1, N].

    Level by level as far as loops are shared, and on to the next loop that runs more than once.

    Args:
        reducing: of the loops that it shares, the outermost first, whether they reduce.
    """
    steps = np.ones_like(nest.outer[: len(reducing) + 1])
    for level, reduces in enumerate(reducing):
        steps[level + 1] = steps[level] * (nest.extents[level] if reduces else 1.0)
    levels = np.minimum(np.arange(nest.count + 1), len(reducing))
    return levels, (steps[levels] > 1) & (nest.outer == nest.outer[levels])


def _taken(
    slots: Sequence[Slot], in_registers: Sequence[Array], cache: CacheLevel, line_bytes: int
) -> list[Array]:
    """Bytes of a cache that each slot takes from each level inwards, sets that rows share included: float64 [L + 1, N]."""
    return [
        np.where(resident, 0.0, slot.lines * crowding(slot, cache, line_bytes)) * line_bytes
        for slot, resident in zip(slots, in_registers, strict=True)
    ]


def traffic_of(
    slots: list[Slot],
    loops: NestLoops,
    machine: Machine,
    in_registers: list[Array],
    beside: Sequence[Companion] = (),
    ahead: Array | float = 0.0,
) -> Traffic:
    """Cache traffic of a nest; slots held in registers [N, per slot] take no part where they are, what is touched ``beside`` takes room.

    So does what is fetched ``ahead`` into the second cache, in bytes from each level inwards [L + 1, N].
    """
    size = loops.inner.shape[1]
    footprint = np.zeros((loops.count + 1, size))
    for slot, resident in zip(slots, in_registers, strict=True):
        footprint += np.where(resident, 0.0, slot.lines) * machine.line_bytes
    all_lines, all_runs, fitting = [], [], []
    for number, cache in enumerate(machine.caches):
        taken = _taken(slots, in_registers, cache, machine.line_bytes)
        room = _room(slots, taken, np.zeros_like(loops.outer), number, beside)
        if cache is machine.caches[1]:
            room = room + ahead
        fits = room <= machine.usable * cache.capacity
        level = np.full(size, loops.count, dtype=np.int64)
        still = np.ones(size, dtype=bool)
        for position in range(loops.count - 1, -1, -1):
            still = still & fits[position]
            level = np.where(still, position, level)
        fitting.append(level)
        entered = np.maximum(level - 1, 0)
        times = at_level(loops.outer, entered)
        all_lines.append(
            np.stack(
                [
                    np.where(resident, 0.0, at_level(slot.lines, entered) * times)
                    for slot, resident in zip(slots, in_registers, strict=True)
                ]
            )
            if slots
            else np.zeros((0, size))
        )
        short = np.zeros(size)
        for slot, resident in zip(slots, in_registers, strict=True):
            starts = at_level(slot.runs, entered) * times * (at_level(slot.chunk, entered) < _PAGE)
            if cache is machine.caches[-1]:
                moved = at_level(slot.lines, entered) * times * machine.line_bytes
                starts = np.where(level > 0, _starts_by_turns(slot, moved, machine.line_bytes), starts)
            short += np.where(resident, 0.0, starts)
        all_runs.append(short)
    return Traffic(all_lines, all_runs, fitting, footprint)


def _starts_by_turns(slot: Slot, moved: Array, line_bytes: int) -> Array:
    """How often what comes from memory begins anew, where more stretches take turns than hardware keeps in view: float64 [N].

    Args:
        slot: the accesses.
        moved: bytes that come from memory [N].
        line_bytes: of a cache line.
    """
    level = np.full(slot.runs.shape[1], slot.runs.shape[0] - 1, dtype=np.int64)
    in_view = np.ones(slot.runs.shape[1], dtype=bool)
    for position in range(slot.runs.shape[0] - 2, -1, -1):
        in_view = in_view & (slot.runs[position] <= _STREAMS)
        level = np.where(in_view, position, level)
    stretch = at_level(slot.elements / slot.runs, level) * slot.element_bytes
    return np.where(stretch < _PAGE, moved / np.maximum(stretch, line_bytes), 0.0)


def _room(
    slots: Sequence[Slot], taken: Sequence[Array], room: Array, cache: int, beside: Sequence[Companion]
) -> Array:
    """Bytes of a cache that the working set takes from each level inwards, added to ``room``: float64 [L + 1, N].

    Args:
        taken: by each slot.
        cache: its number.
        beside: other nests. What they touch of a buffer that the nest touches itself takes room once.
    """
    own: dict[int, Array] = {}
    for slot, bytes_ in zip(slots, taken, strict=True):
        room += bytes_
        own[slot.buffer] = own[slot.buffer] + bytes_ if slot.buffer in own else bytes_.copy()
    for item in beside:
        for buffer, theirs in zip(item.buffers, item.taken[cache], strict=True):
            bytes_ = np.where(item.here, theirs[item.shared], 0.0)
            known = own.get(buffer)
            if known is None:
                known = own[buffer] = np.zeros_like(room)
            before = known[item.levels]
            room[item.levels] += np.maximum(bytes_ - before, 0.0)
            known[item.levels] = np.maximum(before, bytes_)
    return room
