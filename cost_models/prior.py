"""The analytical model: estimated seconds of every candidate from its loops alone, without any measurement.

A roofline with cache levels: per nest, the larger of the time that the instructions of the straight-line body need (arithmetic
pipes, load and store ports, dependence chains, issue width, spills) and the time that each cache needs to be filled, divided over
the cores, plus the wait for weights that come from memory (:mod:`cost_models.weights`) and the start of parallel regions (for GPUs
see :mod:`cost_models.gpu`). Its purpose is order, not truth: it puts hopeless candidates last, gives the search a start before the
first measurement, and chooses the default schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ir.target import Target
from schedules.population.skeleton import Nest, Skeleton

from .arithmetic import RegisterTile, compiler_vectorizes, executions, register_tile
from .calibration import Calibration
from .gpu import Gpu, gpu_seconds
from .loops import Array, NestLoops, at_level, nest_loops
from .machine import Machine
from .memory import Slot, Traffic, companions, slots_of, traffic_of
from .patterns import by_patterns
from .weights import Weights, constants_of, weights_of

_WAITS = 0.5
"""How much of the time in which weights come from memory, fetched by nobody before, the core computes nothing."""


@dataclass
class NestEstimate:
    """What the model thinks of one nest; arrays are float64 [N]."""

    seconds: Array
    """Elapsed time of the nest on all cores."""
    compute_cycles: Array
    """Cycles of the instructions, of all cores together."""
    body_cycles: Array
    """Cycles of one straight-line body."""
    memory_cycles: list[Array]
    """Cycles to fill each cache, of all cores together."""
    balance: Array
    """Elapsed time over the time of perfectly shared work, at least 1 / cores."""


@dataclass
class NestFacts:
    """Everything known about one nest of a population."""

    nest: Nest
    loops: NestLoops
    slots: list[Slot]
    tile: RegisterTile
    traffic: Traffic
    estimate: NestEstimate


def analyze(skeleton: Skeleton, machine: Machine) -> list[NestFacts]:
    """Facts and estimates of every nest that runs (those that run when the model is compiled are left out).

    The same accesses of a buffer must go alike in all candidates (:mod:`cost_models.patterns`).
    """
    all_loops = nest_loops(skeleton)
    all_slots = slots_of(skeleton, all_loops, machine.line_bytes)
    free = compiler_vectorizes(all_loops) if all_loops else np.zeros(skeleton.size, dtype=bool)
    running = [
        (nest, loops, slots, register_tile(loops, slots, machine, free))
        for nest, loops, slots in zip(skeleton.nests, all_loops, all_slots, strict=True)
        if not nest.is_preprocessing
    ]
    beside = companions(
        [loops for _, loops, _, _ in running],
        [slots for _, _, slots, _ in running],
        [tile.in_registers for _, _, _, tile in running],
        machine,
    )
    constants = constants_of(skeleton)
    result = []
    for (nest, loops, slots, tile), others in zip(running, beside, strict=True):
        weights = weights_of(slots, loops, machine.line_bytes, constants)
        ahead = sum((item.ahead(loops.count + 1, machine.line_bytes) for item in weights), 0.0)
        traffic = traffic_of(slots, loops, machine, tile.in_registers, others, ahead)
        estimate = _estimate(nest, loops, slots, tile, traffic, weights, machine)
        result.append(NestFacts(nest, loops, slots, tile, traffic, estimate))
    return result


def _body_cycles(
    nest: Nest, loops: NestLoops, slots: list[Slot], tile: RegisterTile, machine: Machine
) -> Array:
    """Cycles of one straight-line body once it runs in a steady state."""
    arithmetic, operations = np.zeros_like(tile.lanes), np.zeros_like(tile.lanes)
    in_flight = np.zeros_like(tile.lanes)
    for group in nest.groups:
        times = executions(group, loops, tile)
        in_flight += times * group.counts.get("float_math", 0)
        arithmetic += times * sum(machine.vector_cycles(kind) * count for kind, count in group.counts.items())
        operations += times * sum(group.counts.values())
    # Polynomials that are computed side by side keep their temporaries at the same time.
    crowded = machine.polynomial_registers * in_flight + tile.accumulators - machine.vector_registers
    spill_moves = tile.spilled + np.where(in_flight > 1, np.maximum(crowded, 0.0), 0.0)
    loads = (tile.loads + spill_moves) / machine.loads_per_cycle
    stores = (tile.stores + spill_moves + 2.0 * tile.scattered) / machine.stores_per_cycle
    shuffles = tile.gathered / machine.shuffles_per_cycle
    # A broadcast is folded into the instruction that uses it about half of the time.
    issued = (
        operations
        + tile.loads
        - 0.5 * tile.broadcasts
        + tile.stores
        + 2.0 * spill_moves
        + 2.0 * tile.gathered
        + 2.0 * tile.scattered
        + 2.0
    )
    # A chain of dependent additions: the core runs as many at a time as its window holds. The compiler interleaves four vectors of
    # a reduction that it vectorizes.
    apart = np.clip(issued * _chained_bodies(loops, slots, tile) / machine.window, 0.25, 1.0)
    chain = np.where(tile.chained & tile.implicit, 0.25, apart) * tile.steps * machine.fma_latency
    chain = np.where(nest.is_reduction, chain, 0.0)
    # Bodies beyond what the instruction cache holds are fed slowly from the level behind it.
    slow = 1.0 + np.clip(issued / 4000.0 - 1.0, 0.0, 2.0)
    parts = (arithmetic, loads, stores, shuffles, chain, issued / machine.issue_per_cycle * slow)
    total = np.zeros_like(arithmetic)
    for part in parts:
        total = total + np.square(np.square(part))
    return np.asarray(np.maximum(np.sqrt(np.sqrt(total)), 1.0) + machine.reload * tile.reloads)


def _chained_bodies(loops: NestLoops, slots: list[Slot], tile: RegisterTile) -> Array:
    """How many bodies one after the other an accumulator connects: iterations of the loops just outside that do not move it."""
    bodies = np.ones_like(tile.lanes)
    connected = tile.chained
    for position in range(loops.count - 1, -1, -1):
        outside = position < loops.body
        for slot in slots:
            if slot.writes and slot.reads:
                connected = connected & ~(outside & slot.moved_by(position))
        bodies = np.where(outside & connected, bodies * loops.extents[position], bodies)
    return bodies


def _estimate(
    nest: Nest,
    loops: NestLoops,
    slots: list[Slot],
    tile: RegisterTile,
    traffic: Traffic,
    weights: Sequence[Weights],
    machine: Machine,
) -> NestEstimate:
    body_cycles = _body_cycles(nest, loops, slots, tile, machine)
    bodies = loops.inner[0] / tile.iterations
    exits = at_level(loops.outer, np.maximum(loops.body - 1, 0))
    compute = bodies * body_cycles + np.where(loops.body > 0, exits, 0.0) * machine.loop_exit
    jobs = np.maximum(loops.jobs, 1.0)
    busy = np.where(loops.launches > 0, np.minimum(jobs, machine.cores), 1.0)
    memory = []
    for cache, lines, runs, fitting in zip(
        machine.caches, traffic.lines, traffic.runs, traffic.fitting, strict=True
    ):
        cycles = lines.sum(axis=0) * machine.line_bytes / cache.rate(busy) + runs * cache.run_start
        memory.append(np.where(fitting == 0, 0.25, 1.0) * cycles)
    rounds = np.ceil(jobs / machine.cores)
    balance = np.where(loops.launches > 0, rounds / jobs, 1.0)
    busiest = np.maximum(compute, memory[0])
    for cycles in memory[1:]:
        busiest = np.maximum(busiest, cycles)
    # Out-of-order execution overlaps computation with most, not all, of the data movement.
    elapsed = busiest + 0.25 * (compute + sum(memory) - busiest)
    for item in weights:
        fetched = item.bytes / machine.caches[2].rate(busy) + item.more / machine.caches[1].rate(busy)
        waited = item.exposed(traffic.fitting[1]) * np.minimum(fetched, compute)
        elapsed = np.maximum(elapsed, fetched) + _WAITS * waited
    elapsed = elapsed * balance
    if loops.opens_region:
        # A region of one job is a call.
        start = (
            np.where(jobs > 1, machine.parallel_launch, machine.region_call) + rounds * machine.job_overhead
        )
        elapsed = elapsed + loops.launches * start
    return NestEstimate(elapsed / machine.hertz, compute, body_cycles, memory, balance)


class AnalyticalPrior:
    """Estimates run times of populations on one target.

    Args:
        target: the target.
        machine: figures to use instead of those derived from the target.
        calibration: what was measured of the target's machine.
    """

    def __init__(
        self, target: Target, machine: Machine | None = None, calibration: Calibration | None = None
    ) -> None:
        self.machine = machine or Machine.of(target, calibration)
        self.gpu = Gpu.of(target) if target.is_gpu else None

    def seconds(self, skeleton: Skeleton) -> Array:
        """Estimated seconds of every candidate: float64 [N]."""
        return by_patterns(skeleton, self._seconds)

    def _seconds(self, skeleton: Skeleton) -> Array:
        if self.gpu is not None:
            nests = gpu_seconds(skeleton, self.gpu)
        else:
            nests = [facts.estimate.seconds for facts in analyze(skeleton, self.machine)]
        return np.asarray(sum(nests, np.zeros(skeleton.size)))


def estimate_seconds(skeleton: Skeleton, target: Target, calibration: Calibration | None = None) -> Array:
    """Estimated seconds [N] of a skeleton's candidates on a target, by what was measured of its machine where that is given.

    >>> from ir import te
    >>> from schedules.space import PostOrderApply
    >>> A = te.placeholder((1024,), name="A")
    >>> func = te.create_prim_func([A, te.compute((1024,), lambda i: A[i] + 1.0, name="B")])
    >>> target = Target("llvm -num-cores 4")
    >>> (sketch,) = PostOrderApply().generate_sketches(func, target)
    >>> rows = sketch.all_rows(100)
    >>> seconds = estimate_seconds(sketch.skeleton(rows), target)
    >>> seconds.shape == (len(rows),) and bool((seconds > 0).all())
    True
    """
    return AnalyticalPrior(target, calibration=calibration).seconds(skeleton)
