"""The analytical model of GPUs: estimated seconds of every candidate from its loops alone, without any measurement.

The nests under one grid of blocks are one kernel. Per block are counted: results of the arithmetic units, products of the tensor cores,
instructions that schedulers begin, words that shared memory serves (bank conflicts one after the other), sectors that warps ask of the
level-2 cache (what is not adjacent costs more of them), and the rounds of loads that wait for each other: those that all threads of a block
wait for before they go on, and those behind which others, or asynchronous copies, go on with what came before. How many blocks a
multiprocessor holds (occupancy) says how far latencies are hidden; whole waves of blocks, how well the device is filled. A kernel takes as
long as what it needs most of. (After Hong and Kim: "An analytical model for a GPU architecture with memory-level and thread-level
parallelism awareness", ISCA 2009; Williams et al.: "Roofline", 2009; Volkov: "Better performance at lower occupancy", 2010.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from ir.target import Target
from ir.target.gpu_facts import (
    ACCESS_BYTES,
    BANK_BYTES,
    BANKS,
    MAX_REGISTERS_OF_THREAD,
    WARP,
    MultiprocessorFacts,
)
from ir.target.tensor_core import TF32
from schedules.population.skeleton import Access, LoopAxis, Nest, Skeleton
from schedules.population.warp_tile import WarpTile, elements_of_lane

from .gpu_accesses import (
    SECTOR,
    accumulator_words,
    conflicts,
    operand_words,
    sectors_of,
    shared_bytes,
    steps_ahead,
    times,
    unique_bytes,
)
from .loops import Array

_SPECIAL = {"float_math", "float_divmod"}
# What follows is of the model rather than of a card: round figures of the right order on all of them.
_ARITHMETIC_LATENCY = 4.0
_MEMORY_LATENCY = 500.0
"""Cycles from a load to its data in device memory."""
_BASE_REGISTERS = 32.0
"""Of a thread, for addresses and operands."""
_L2_SPEED_UP = 3.0
"""Bandwidth of the level-2 cache, in bandwidths of the memory behind it."""
_PORT = 64.0
"""Bytes that a multiprocessor gets from the level-2 cache in a cycle."""
_LAUNCH_SECONDS = 2e-6
_GROUP = 128
"""Threads of a group of warps."""
_PRODUCT_WORDS = 4.0
"""Registers of a thread for the sums of one instruction of a warp, 16 rows of 8."""
_MATRICES_OF_LOAD = 4.0
"""Tiles of 8 rows of 16 bytes that ``ldmatrix`` loads at once."""


@dataclass(frozen=True)
class Gpu:
    """A device."""

    multiprocessors: int
    each: MultiprocessorFacts
    hertz: float
    memory_bytes_per_second: float
    l2_bytes: float
    target: Target

    @staticmethod
    def of(target: Target) -> Gpu:
        """The device of a GPU target."""
        return Gpu(
            target.multi_processor_count,
            target.multiprocessor,
            target.clock_mhz * 1e6,
            target.memory_gb_per_s * 1e9,
            float(target.l2_cache_bytes),
            target,
        )

    def products_per_cycle(self, tile: WarpTile) -> float:
        """Multiply-adds of a multiprocessor; without tensor cores for them the arithmetic units do what they can."""
        rate = self.target.tensor_core_rate(tile.operand, tile.sums, tile.instruction)
        return rate or float(self.each.float32_lanes)

    def products_of_instruction(self, tile: WarpTile) -> float:
        """Multiply-adds of what a warp begins at once."""
        shapes = self.target.tensor_core_shapes(tile.operand, tile.sums, tile.instruction)
        return float(max((shape.m * shape.n * shape.k for shape in shapes), default=WARP))


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
    """What one nest asks of a block's multiprocessor: arrays [N]."""

    arithmetic: Array
    """Cycles of the arithmetic units."""
    products: Array
    """Cycles of the tensor cores that wait for the products before."""
    group_products: Array
    """Cycles of the tensor cores that groups of warps keep busy."""
    instructions: Array
    """Of warps."""
    shared_cycles: Array
    sectors: Array
    rounds: Array
    """Loads from device memory that one thread waits for, one after the other, while other threads, or what came before, go on."""
    waits: Array
    """Those that the block's threads wait for together, since they fill shared memory with what all are to work on."""

    @classmethod
    def none(cls, size: int) -> _Work:
        """Nothing."""
        return cls(*(np.zeros(size) for _ in fields(cls)))

    def __add__(self, other: _Work) -> _Work:
        return _Work(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))


def _threads_of(nest: Nest, size: int) -> Array:
    """Threads of a block that run a nest [N]; a loop over warps has a warp in each iteration."""
    threads = _product([loop for loop in nest.loops if _is_thread(loop)], size)
    return threads * WARP if nest.tile is not None and not _has_lanes(nest) else threads


def _has_lanes(nest: Nest) -> bool:
    return any(loop.mark == "threadIdx.x" for loop in nest.loops)


def _kernel(nests: Sequence[Nest], size: int, gpu: Gpu) -> Kernel:
    blocks, threads = np.ones(size), np.ones(size)
    for nest in nests:
        blocks = np.maximum(blocks, _product([loop for loop in nest.loops if _is_grid(loop)], size))
        threads = np.maximum(threads, _threads_of(nest, size))
    work = sum((_work_of(nest, threads, size, gpu) for nest in nests), _Work.none(size))
    held_shared, accumulators = shared_bytes(nests, size), accumulator_words(nests, size)
    registers = _BASE_REGISTERS + accumulators + operand_words(nests, size) + _group_sums(nests, size)
    held = np.minimum(registers, MAX_REGISTERS_OF_THREAD)
    each = gpu.each
    warps = np.ceil(threads / WARP)
    occupancy = np.minimum(each.blocks, np.floor(each.threads / (warps * WARP)))
    occupancy = np.minimum(occupancy, np.floor(each.registers / (held * warps * WARP)))
    occupancy = np.minimum(occupancy, np.floor(each.shared_memory_bytes / np.maximum(held_shared, 1.0)))
    occupancy = np.maximum(occupancy, 1.0)
    per_processor = np.ceil(blocks / gpu.multiprocessors)
    waves = np.ceil(blocks / (gpu.multiprocessors * occupancy))
    resident = np.minimum(occupancy, per_processor)

    spills = 1.0 + np.maximum(registers - MAX_REGISTERS_OF_THREAD, 0.0) / 64.0
    # Chains of dependent operations: warps and independent results take turns.
    in_turns = resident * warps / (_ARITHMETIC_LATENCY * each.schedulers)
    arithmetic = spills * work.arithmetic / np.minimum(in_turns * np.clip(accumulators, 1.0, 8.0), 1.0)
    tiles = np.clip(accumulators / _PRODUCT_WORDS, 1.0, 8.0)
    products = spills * work.products / np.minimum(in_turns * tiles, 1.0) + work.group_products
    issued = spills * work.instructions / each.schedulers
    busy = np.maximum.reduce([arithmetic, products, issued, work.shared_cycles])
    # Nothing computes while a block waits, unless others are there.
    on_processor = per_processor * busy + waves * work.waits * _MEMORY_LATENCY / resident
    rounds = waves * (work.rounds + work.waits) * _MEMORY_LATENCY
    asked = work.sectors * SECTOR * blocks
    unique = unique_bytes(nests, size)
    # What does not fit the level-2 cache comes again from behind it. Blocks that run at a time share what they read: of a square of
    # tiles, for which they read rows and columns, a part that is the root of theirs of the tiles.
    generations = np.sqrt(np.maximum(waves * _tiles_in_turn(nests, size), 1.0))
    again = np.minimum(
        np.maximum(asked - unique, 0.0), unique_bytes(nests, size, only_read=True) * (generations - 1.0)
    )
    again = again * np.clip(1.0 - gpu.l2_bytes / np.maximum(unique, 1.0), 0.0, 1.0)
    per_cycle = gpu.memory_bytes_per_second / gpu.hertz
    l2 = np.maximum(asked / (_L2_SPEED_UP * per_cycle), per_processor * work.sectors * SECTOR / _PORT)
    memory = (unique + again) / per_cycle
    parts = [on_processor, rounds, l2, memory]
    longest = np.maximum.reduce(parts)
    cycles = longest + 0.25 * (sum(parts) - longest)
    seconds = np.asarray(cycles / gpu.hertz + _LAUNCH_SECONDS)
    return Kernel(blocks, threads, held_shared, registers, occupancy, work.sectors * blocks, unique, seconds)


def _tiles_in_turn(nests: Sequence[Nest], size: int) -> Array:
    """Tiles that a block computes one after the other [N]: iterations of the loops around its threads that all its nests share."""
    found, common = np.ones(size), set.intersection(*({loop.key for loop in nest.loops} for nest in nests))
    for nest in nests:
        thread = next((place for place, loop in enumerate(nest.loops) if _is_thread(loop)), 0)
        around = [loop for loop in nest.loops[:thread] if not loop.mark and loop.key in common]
        found = np.maximum(found, _product(around, size))
    return found


def _group_sums(nests: Sequence[Nest], size: int) -> Array:
    """Registers of a thread for the sums of a group of warps [N]."""
    found = np.zeros(size)
    for nest in nests:
        if nest.tile is not None and nest.tile.instruction == "wgmma":
            found = np.maximum(found, _product(nest.loops[-3:-1], size) / _GROUP)
    return found


def _work_of(nest: Nest, threads: Array, size: int, gpu: Gpu) -> _Work:
    if nest.box_dims:
        return _boxes(nest, size)
    if nest.tile is not None:
        return _tiles(nest, nest.tile, size, gpu)
    return _work_of_threads(nest, threads, size, gpu)


def _boxes(nest: Nest, size: int) -> _Work:
    """What the copy engine brings for a block, once, whichever threads there are."""
    work = _Work.none(size)
    read, written = nest.accesses
    moved_bytes = _product(_own_loops(nest), size) * read.element_bytes
    work.sectors, work.shared_cycles = moved_bytes / SECTOR, moved_bytes / (BANKS * BANK_BYTES)
    assert written.held is not None
    # So many copies are under way at a time as shared memory has room for.
    work.rounds = moved_bytes / (written.held * read.element_bytes)
    return work


def _tiles(nest: Nest, tile: WarpTile, size: int, gpu: Gpu) -> _Work:
    """What warps do together, or groups of them."""
    work = _Work.none(size)
    warps = _threads_of(nest, size) / WARP
    if tile.role == "multiply":
        groups = warps * WARP / _GROUP if tile.instruction == "wgmma" else warps
        products = _product(_own_loops(nest), size) * tile.calls * groups
        cycles = products / gpu.products_per_cycle(tile)
        if tile.instruction == "wgmma":
            m, n, k = (loop.extent for loop in nest.loops[-3:])
            work.group_products = cycles
            # Both operands come from shared memory for each product.
            work.shared_cycles = products * (1.0 / m + 1.0 / n) * tile.operand_bytes / (BANKS * BANK_BYTES)
            work.instructions = products / (m * n * k) * (_GROUP / WARP)
        else:
            work.products, work.instructions = cycles, products / gpu.products_of_instruction(tile)
            if tile.operand == TF32:  # warps round what they multiply, each time
                m, n = (loop.extent for loop in nest.loops[-3:-1])
                rounded = products * (1.0 / m + 1.0 / n)
                work.arithmetic = rounded / gpu.each.int32_lanes
                work.instructions += rounded / WARP
    elif tile.role in ("load", "store"):
        for access in nest.accesses:
            if access.scope.startswith("shared") or access.scope in ("", "global"):
                lanes = np.full(
                    size, float(elements_of_lane(min(item.element_bytes for item in nest.accesses)))
                )
                each = times(access, nest, size) * warps / (WARP * lanes)
                work.instructions += each / (_MATRICES_OF_LOAD if tile.instruction == "mma" else 1.0)
                if access.scope.startswith("shared"):
                    work.shared_cycles += each * conflicts(access, lanes)
                else:
                    work.sectors += each * sectors_of(access, lanes)
    return work


def _own_loops(nest: Nest) -> list[LoopAxis]:
    """The loops that a thread, or a warp, runs itself."""
    return [loop for loop in nest.loops if not _is_grid(loop) and not _is_thread(loop)]


def _work_of_threads(nest: Nest, threads: Array, size: int, gpu: Gpu) -> _Work:
    own, work = _own_loops(nest), _Work.none(size)
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
    work.arithmetic = arithmetic * full
    work.instructions = operations * iterations * runs * full / WARP
    rounds = np.zeros(size)
    for access in nest.accesses:
        if access.scope.startswith("local"):
            continue
        adjacent = _adjacent(access, nest, size)
        each = times(access, nest, size) * runs * full / WARP / adjacent
        accessed = access.count * each
        work.instructions += accessed
        if access.scope.startswith("shared"):
            work.shared_cycles += accessed * conflicts(access, adjacent)
        else:
            work.sectors += accessed * sectors_of(access, adjacent)
            if not access.is_write:
                # The compiler begins a few loads before it waits for the first; those of one iteration are under way together.
                outer = _product(own[:-1] if nest.shared_out is not None else own, size)
                rounds = np.maximum(rounds, np.minimum(outer, each * WARP / np.maximum(threads, 1.0)) / 4.0)
    ahead = steps_ahead(nest)
    if np.any(ahead):
        work.rounds = rounds / np.maximum(ahead, 1)
    elif nest.shared_out is not None:
        work.waits = rounds
    else:
        work.rounds = rounds
    return work


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
