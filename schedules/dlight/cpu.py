"""The CPU's default schedule: the design space's own structures with decisions that simple rules prefer.

A kernel without a record gets the same kind of program that a search would find - tiled, vectorized, parallel -
only with its numbers chosen by rank instead of by measurement. Searches for GPUs begin with such a schedule, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..population import Nest, Skeleton, Sketch
from ..postproc import postprocess
from ..rule.default import default_rules
from ..schedule import Schedule
from ..space import PostOrderApply

Rank = Callable[[Skeleton, Target], np.ndarray]
"""Estimated cost [N] of the candidates of a skeleton; lower is better."""

_SAMPLES = 512
_STRUCTURES = 12
"""Structures among which the default is chosen: builds take seconds."""
_STEPS = 32
"""Changes of one decision at a time that follow the best sample."""


def default_schedule(mod: IRModule | PrimFunc, target: Target, rank: Rank | None = None) -> Schedule:
    """A postprocessed schedule that needs no measurement.

    Args:
        mod: the kernel, static shapes.
        target: what it is for.
        rank: an estimate of cost, such as :func:`cost_models.estimate_seconds`; by default simple rules about tiles.

    Raises:
        ScheduleError: no structure of the design space applies, which is a defect.
    """
    # What rounds otherwise, and reads four times the weights, or depends on data, is for a search to measure and to check.
    rules = [
        rule for rule in default_rules(target) if not rule.changes_rounding and not rule.needs_measurement
    ]
    space = PostOrderApply(sch_rules=rules, max_sketches=_STRUCTURES)
    sketches = space.generate_sketches(mod, target)
    generator = np.random.default_rng(0)
    candidates: list[tuple[float, int, np.ndarray]] = []
    for number, sketch in enumerate(sketches):
        rows = sketch.sample(_SAMPLES, generator)
        if not len(rows):
            continue
        costs = (rank or rule_of_thumb)(sketch.skeleton(rows), target)
        for position in np.argsort(costs, kind="stable")[:3]:
            candidates.append((float(costs[position]), number, rows[position]))
    candidates.sort(key=lambda item: (item[0], item[1]))
    if candidates and not _reduces(sketches[candidates[0][1]], candidates[0][2]):
        _, number, row = candidates[0]
        better = _descended(sketches[number], row, rank or rule_of_thumb, target)
        candidates.insert(0, (candidates[0][0], number, better))
    for _cost, number, row in candidates:
        try:
            sch = sketches[number].materialize(mod, row)
            if postprocess(sch, target):
                return sch
        except ScheduleError:
            continue  # numbers of which a primitive finds that they are illegal; the next ones may be legal
    raise ScheduleError(
        f"default schedule: none of the {len(sketches)} structures of the design space applies"
    )


def _reduces(sketch: Sketch, row: np.ndarray) -> bool:
    """Whether a nest reduces: of such tiles estimates are least certain, and the very best by estimate are those of which they err most."""
    return any(nest.is_reduction for nest in sketch.skeleton(row[None]).nests)


def _descended(sketch: Sketch, row: np.ndarray, rank: Rank, target: Target) -> np.ndarray:
    """A row of which no neighbour is better; of nests with decisions of their own a sample holds no best one."""
    cost = float(rank(sketch.skeleton(row[None]), target)[0])
    for _ in range(_STEPS):
        near = sketch.neighbours(row)
        if not len(near):
            break
        costs = rank(sketch.skeleton(near), target)
        best = int(np.argmin(costs))
        if costs[best] >= cost:
            break
        row, cost = near[best], float(costs[best])
    return row


def rule_of_thumb(skeleton: Skeleton, target: Target) -> np.ndarray:
    """Cost [N] by rules: busy vector lanes, enough accumulators, work for every core, reuse in registers."""
    total = np.zeros(skeleton.size)
    for nest in skeleton.nests:
        total += _nest_cost(nest, target, skeleton.size)
    return total


def _nest_cost(nest: Nest, target: Target, size: int) -> np.ndarray:
    lanes = max(1, target.vector_bits // 32)
    vector = np.ones(size)
    unrolled = np.ones(size)
    jobs = np.ones(size)
    for loop in nest.loops:
        if loop.mark == "vectorize":
            vector = vector * loop.extent
        elif loop.mark == "unroll" and not loop.is_reduction:
            unrolled = unrolled * loop.extent
        elif loop.mark == "parallel":
            jobs = jobs * loop.extent
    # Extents are zero where a tensor is empty.
    vector, jobs = np.maximum(1, vector), np.maximum(1, jobs)
    vectors = np.ceil(vector / lanes)
    utilisation = np.where(vector > 1, vector / (vectors * lanes), 1.0 / lanes)
    accumulators = vectors * unrolled if nest.is_reduction else np.full(size, 16.0)
    # Sixteen independent accumulators hide the latency of two FMA units; more than the registers hold spill.
    hiding = np.minimum(accumulators, 16) / 16
    spilling = np.where(accumulators > target.vector_registers - 4, 4.0, 1.0)
    # Loads per multiply-add: one vector per column and one broadcast per row of the register tile.
    loads = (vectors + unrolled) / np.maximum(1.0, vectors * unrolled) if nest.is_reduction else np.ones(size)
    cores = max(1, target.num_cores)
    balance = np.ceil(jobs / cores) * cores / jobs
    cost: np.ndarray = (
        nest.iterations()
        / lanes
        / utilisation
        / np.maximum(hiding, 1e-3)
        * spilling
        * (1 + loads)
        * balance
        / np.minimum(jobs, cores)
    )
    return cost
