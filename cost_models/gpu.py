"""The analytical model of GPUs: estimated seconds of every candidate from its loops alone, without any measurement.

The nests under one grid of blocks are one kernel. Per block are counted: results of the arithmetic units, instructions that schedulers
begin, words that shared memory serves (bank conflicts one after the other), sectors that warps ask of the level-2 cache (what is not
adjacent costs more of them), and the rounds of loads that wait for each other. How many blocks a multiprocessor holds (occupancy) says how
far latencies are hidden; whole waves of blocks, how well the device is filled. A kernel takes as long as what it needs most of. (After
Hong and Kim: "An analytical model for a GPU architecture with memory-level and thread-level parallelism awareness", ISCA 2009; Williams et
al.: "Roofline", 2009; Volkov: "Better performance at lower occupancy", 2010.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ir.target import Target
from ir.target.gpu_facts import ACCESS_BYTES, MultiprocessorFacts
from schedules.population.skeleton import WARP, Access, LoopAxis, Nest, Skeleton

from .loops import Array

_SECTOR = 32
"""Bytes that the level-2 cache hands out together."""
_BANKS, _BANK_BYTES = 32, 4
_SPECIAL = {"float_math", "float_divmod"}
# What follows is of the model rather than of a card: round figures of the right order on all of them.
_ARITHMETIC_LATENCY = 4.0
_MEMORY_LATENCY = 500.0
"""Cycles from a load to its data in device memory."""
_BASE_REGISTERS = 32.0
"""Of a thread, for addresses and operands."""
_MOST_REGISTERS = 255.0
_L2_SPEED_UP = 3.0
"""Bandwidth of the level-2 cache, in bandwidths of the memory behind it."""
_PORT = 64.0
"""Bytes that a multiprocessor gets from the level-2 cache in a cycle."""
_LAUNCH_SECONDS = 2e-6


@dataclass(frozen=True)
class Gpu:
    """A device."""

    multiprocessors: int
    each: MultiprocessorFacts
    hertz: float
    memory_bytes_per_second: float
    l2_bytes: float

    @staticmethod
    def of(target: Target) -> Gpu:
        """The device of a GPU target."""
        return Gpu(
            target.multi_processor_count,
            target.multiprocessor,
            target.clock_mhz * 1e6,
            target.memory_gb_per_s * 1e9,
            float(target.l2_cache_bytes),
        )


@dataclass
class Kernel:
    """What the nests under one grid need; arrays are float64 [N]."""

    blocks: Array
    threads: Array
    """Of a block."""
    shared_bytes: Array
    """Of a block."""
    registers: Array
    """Of a thread."""
    occupancy: Array
    """Blocks that a multiprocessor holds at a time."""
    sectors: Array
    """Of the level-2 cache, that all blocks ask for."""
    unique_bytes: Array
    """Of device memory, that anybody touches."""
    seconds: Array


def kernels_of(skeleton: Skeleton, gpu: Gpu) -> list[tuple[list[int], Kernel]]:
    """The kernels of a program in order: the numbers of their nests, and what they need."""
    groups: dict[int, list[int]] = {}
    for number, nest in enumerate(skeleton.nests):
        if not nest.is_preprocessing:
            grid = next((loop.key for loop in nest.loops if _is_grid(loop)), -1 - number)
            groups.setdefault(grid, []).append(number)
    return [
        (numbers, _kernel([skeleton.nests[number] for number in numbers], skeleton.size, gpu))
        for numbers in groups.values()
    ]


def gpu_seconds(skeleton: Skeleton, gpu: Gpu) -> list[Array]:
    """Estimated seconds [N] of each nest that runs, in order; a kernel's are shared out by the iterations of its nests."""
    result: dict[int, Array] = {}
    for numbers, kernel in kernels_of(skeleton, gpu):
        work = [np.broadcast_to(skeleton.nests[number].iterations(), (skeleton.size,)) for number in numbers]
        total = np.maximum(sum(work), 1.0)
        for number, own in zip(numbers, work, strict=True):
            result[number] = kernel.seconds * own / total
    return [result[number] for number in sorted(result)]


def _is_grid(loop: LoopAxis) -> bool:
    return loop.mark.startswith("blockIdx")


def _is_thread(loop: LoopAxis) -> bool:
    return loop.mark.startswith("threadIdx")


def _product(loops: Sequence[LoopAxis], size: int) -> Array:
    total = np.ones(size)
    for loop in loops:
        total = total * np.maximum(loop.extent, 1)
    return total


@dataclass
class _Work:
    """What one nest asks of a block's multiprocessor."""

    arithmetic: Array
    """Cycles of the arithmetic units."""
    instructions: Array
    """Of warps."""
    shared_cycles: Array
    sectors: Array
    rounds: Array
    """Loads from device memory that one thread waits for, one after the other."""


def _kernel(nests: Sequence[Nest], size: int, gpu: Gpu) -> Kernel:
    blocks, threads = np.ones(size), np.ones(size)
    for nest in nests:
        blocks = np.maximum(blocks, _product([loop for loop in nest.loops if _is_grid(loop)], size))
        threads = np.maximum(threads, _product([loop for loop in nest.loops if _is_thread(loop)], size))
    work = [_work_of(nest, threads, size, gpu) for nest in nests]
    shared_bytes, accumulators = _shared_bytes(nests, size), _local_words(nests, size)
    registers = _BASE_REGISTERS + accumulators
    held = np.minimum(registers, _MOST_REGISTERS)
    each = gpu.each
    warps = np.ceil(threads / WARP)
    occupancy = np.minimum(each.blocks, np.floor(each.threads / (warps * WARP)))
    occupancy = np.minimum(occupancy, np.floor(each.registers / (held * warps * WARP)))
    occupancy = np.minimum(occupancy, np.floor(each.shared_memory_bytes / np.maximum(shared_bytes, 1.0)))
    occupancy = np.maximum(occupancy, 1.0)
    per_processor = np.ceil(blocks / gpu.multiprocessors)
    waves = np.ceil(blocks / (gpu.multiprocessors * occupancy))
    resident = np.minimum(occupancy, per_processor)

    spills = 1.0 + np.maximum(registers - _MOST_REGISTERS, 0.0) / 64.0
    # Chains of dependent operations: warps and independent results take turns.
    chains = resident * warps * np.clip(accumulators, 1.0, 8.0)
    hidden = np.minimum(chains / (_ARITHMETIC_LATENCY * each.schedulers), 1.0)
    arithmetic = spills * sum(item.arithmetic for item in work) / hidden
    issued = spills * sum(item.instructions for item in work) / each.schedulers
    shared = sum(item.shared_cycles for item in work)
    sectors = sum(item.sectors for item in work)
    on_processor = per_processor * np.maximum(np.maximum(arithmetic, issued), shared)
    rounds = waves * sum(item.rounds for item in work) * _MEMORY_LATENCY
    asked = sectors * _SECTOR * blocks
    unique = _unique_bytes(nests, size)
    # What does not fit the level-2 cache comes again from behind it.
    again = np.maximum(asked - unique, 0.0) * np.clip(1.0 - gpu.l2_bytes / np.maximum(unique, 1.0), 0.0, 1.0)
    per_cycle = gpu.memory_bytes_per_second / gpu.hertz
    l2 = np.maximum(asked / (_L2_SPEED_UP * per_cycle), per_processor * sectors * _SECTOR / _PORT)
    memory = (unique + again) / per_cycle
    parts = [on_processor, rounds, l2, memory]
    longest = np.maximum.reduce(parts)
    cycles = longest + 0.25 * (sum(parts) - longest)
    seconds = np.asarray(cycles / gpu.hertz + _LAUNCH_SECONDS)
    return Kernel(blocks, threads, shared_bytes, registers, occupancy, sectors * blocks, unique, seconds)


def _work_of(nest: Nest, threads: Array, size: int, gpu: Gpu) -> _Work:
    own = [loop for loop in nest.loops if not _is_grid(loop) and not _is_thread(loop)]
    iterations = _product(own, size)
    if nest.shared_out is None:
        runs = _product([loop for loop in nest.loops if _is_thread(loop)], size)
    else:
        runs = np.ones(size)
    lanes_of_result = _float_lanes(nest, gpu.each)
    arithmetic, operations = np.zeros(size), 0
    for kind, count in nest.operations.items():
        lanes = (
            gpu.each.special_lanes
            if kind in _SPECIAL
            else lanes_of_result
            if kind.startswith("float")
            else gpu.each.int32_lanes
        )
        arithmetic = arithmetic + count * iterations * runs / lanes
        operations += count
    # A warp that is not full takes as long as a full one.
    full = np.ceil(threads / WARP) * WARP / threads
    arithmetic = arithmetic * full
    instructions = operations * iterations * runs * full / WARP
    shared_cycles, sectors, rounds = np.zeros(size), np.zeros(size), np.zeros(size)
    for access in nest.accesses:
        if access.scope.startswith("local"):
            continue
        adjacent = _adjacent(access, nest, size)
        each = _times(access, nest, size) * runs * full / WARP / adjacent
        times = access.count * each
        instructions = instructions + times
        if access.scope.startswith("shared"):
            shared_cycles = shared_cycles + times * _conflicts(access, adjacent)
        else:
            sectors = sectors + times * _sectors_of(access, adjacent)
            if not access.is_write:
                # The compiler begins a few loads before it waits for the first; those of one iteration are under way together.
                outer = _product(own[:-1] if nest.shared_out is not None else own, size)
                rounds = np.maximum(rounds, np.minimum(outer, each * WARP / np.maximum(threads, 1.0)) / 4.0)
    return _Work(arithmetic, instructions, shared_cycles, sectors, rounds)


def _float_lanes(nest: Nest, each: MultiprocessorFacts) -> int:
    wide = any(access.element_bytes == 8 for access in nest.accesses if access.is_write)
    return each.float64_lanes if wide else each.float32_lanes


def _adjacent(access: Access, nest: Nest, size: int) -> Array:
    """Elements that a thread accesses at once: those of a vector, where they lie side by side, or its part of a copy."""
    if nest.shared_out is not None:
        return np.maximum(nest.shared_out, 1).astype(np.float64)
    if not nest.loops or nest.loops[-1].mark != "vectorize":
        return np.ones(size)
    fitting = max(1, ACCESS_BYTES // access.element_bytes)
    return np.where(access.strides[-1] == 1, np.clip(nest.loops[-1].extent, 1, fitting), 1).astype(np.float64)


def _times(access: Access, nest: Nest, size: int) -> Array:
    """How often a thread accesses memory: innermost loops that do not move the access keep its value in a register."""
    total, moved = np.ones(size), np.zeros(size, dtype=bool)
    for position in range(len(nest.loops) - 1, -1, -1):
        loop = nest.loops[position]
        if _is_grid(loop) or _is_thread(loop):
            continue
        moved = moved | ((access.strides[position] != 0) & (loop.extent > 1))
        total = np.where(moved, total * np.maximum(loop.extent, 1), total)
    return total


def _sectors_of(access: Access, at_once: Array) -> Array:
    """Sectors that a warp asks for at a time."""
    if access.warp is None:
        return np.ones(len(at_once))
    first = access.warp * access.element_bytes
    last = first + (at_once[:, None].astype(np.int64) - 1) * access.element_bytes
    return _distinct(np.concatenate([first // _SECTOR, last // _SECTOR], axis=1))


def _conflicts(access: Access, at_once: Array) -> Array:
    """Cycles in which shared memory serves a warp: one bank has one word at a time, equal words go to all who ask."""
    if access.warp is None:
        return np.ones(len(at_once))
    begin = access.warp * access.element_bytes
    first = begin // _BANK_BYTES
    last = (begin + at_once[:, None].astype(np.int64) * access.element_bytes - 1) // _BANK_BYTES
    longest = int((last - first).max(initial=0))
    words = np.concatenate([np.minimum(first + part, last) for part in range(longest + 1)], axis=1)
    words = np.sort(words, axis=1)
    is_new = np.concatenate([np.ones((len(words), 1), dtype=bool), np.diff(words, axis=1) != 0], axis=1)
    banks = words % _BANKS + _BANKS * np.arange(len(words))[:, None]
    hits = np.bincount(banks[is_new], minlength=_BANKS * len(words)).reshape(-1, _BANKS)
    return hits.max(axis=1).astype(np.float64)


def _distinct(values: Array) -> Array:
    ordered = np.sort(values, axis=1)
    return 1.0 + (np.diff(ordered, axis=1) != 0).sum(axis=1)


def _shared_bytes(nests: Sequence[Nest], size: int) -> Array:
    """Bytes of the buffers in shared memory."""
    found: dict[int, Array] = {}
    for nest in nests:
        for access in nest.accesses:
            if access.held is not None:
                held = access.held * access.element_bytes
                found[access.buffer] = np.maximum(held, found.get(access.buffer, 0))
    return np.asarray(sum(found.values(), np.zeros(size)))


def _local_words(nests: Sequence[Nest], size: int) -> Array:
    """Registers that a thread keeps results in."""
    found: dict[int, Array] = {}
    for nest in nests:
        for access in nest.accesses:
            if access.is_write and access.scope.startswith("local"):
                kept = [
                    position
                    for position, loop in enumerate(nest.loops)
                    if not _is_grid(loop) and not _is_thread(loop)
                ]
                held = _touched(access, nest, kept, size) * max(1.0, access.element_bytes / 4)
                found[access.buffer] = np.maximum(held, found.get(access.buffer, np.zeros(size)))
    return np.asarray(sum(found.values(), np.zeros(size)))


def _unique_bytes(nests: Sequence[Nest], size: int) -> Array:
    """Bytes of device memory that a kernel touches."""
    found: dict[int, Array] = {}
    for nest in nests:
        for access in nest.accesses:
            if access.scope in ("", "global"):
                touched = _touched(access, nest, range(len(nest.loops)), size) * access.element_bytes
                found[access.buffer] = np.maximum(touched, found.get(access.buffer, np.zeros(size)))
    return np.asarray(sum(found.values(), np.zeros(size)))


def _touched(access: Access, nest: Nest, positions: Sequence[int], size: int) -> Array:
    """Elements that some loops reach: of each dimension no more than it has, and no more than the loops have iterations."""
    total = np.ones(size)
    for dim, extent in enumerate(access.shape):
        span, times = np.ones(size), np.ones(size)
        for position in positions:
            moves = access.reach[dim, position] != 0
            count = nest.loops[position].extent
            span = span + np.where(moves, np.abs(access.reach[dim, position]) * (count - 1.0), 0.0)
            times = np.where(moves, times * np.maximum(count, 1), times)
        total = total * np.minimum(np.minimum(span, times), np.maximum(extent, 1))
    return total
