"""Features of candidates: one row of numbers per nest ("per store"), computed as array expressions for a whole population.

The steps in which the lanes of a vector are combined are nests, too, but have no row: their time counts to the nest that they end.

The same code serves a population of a sketch (N rows at once) and a materialized schedule (N = 1); the names and meaning of the
columns are the same for every program, so that one model learns across structures and workloads. Features follow the ideas of
Ansor (Zheng et al., OSDI 2020) and add cache traffic, register-tile facts and the analytical model's own estimate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np

from ir.kinds import Kinds
from ir.target import Target
from schedules import Schedule
from schedules.population.extraction import Extraction
from schedules.population.skeleton import Nest, Skeleton

from .arithmetic import KINDS, operation_counts
from .calibration import Calibration
from .error import CostModelError
from .gpu import Gpu, gpu_seconds
from .loops import Array, at_level
from .machine import Machine
from .memory import Slot
from .patterns import by_patterns
from .prior import NestFacts, analyze

LOG_SECONDS = "prior.log_seconds"
"""The column with the natural logarithm of the seconds that the analytical model gives a nest."""


_LINE = 16
"""Numbers in a cache line."""


class Context(Protocol):
    """What a feature extractor or cost model needs of a tuning context; one that has a ``calibration`` besides is taken at it."""

    @property
    def mod(self) -> Any:
        """The workload."""

    @property
    def target(self) -> Any:
        """The target."""


class Candidate(Protocol):
    """What a feature extractor needs of a measure candidate."""

    @property
    def sch(self) -> Schedule:
        """The schedule."""


@dataclass
class FeatureMatrix:
    """Features of N candidates of one structure.

    Attributes:
        values: float32 [N, n_nests, n_features]; in memory a feature of all candidates stands together, as it is computed.
        names: the n_features column names.
        nests: names of the nests.
    """

    values: Array
    names: tuple[str, ...]
    nests: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> Array:
        """One feature of all candidates and nests: float32 [N, n_nests]."""
        return np.asarray(self.values[:, :, self.names.index(name)])

    def take(self, rows: Any) -> FeatureMatrix:
        """The features of some candidates."""
        return FeatureMatrix(self.values[rows], self.names, self.nests)

    def prior_seconds(self) -> Array:
        """The analytical model's estimate: float64 [N]; one where the features carry none."""
        return self._nest_seconds().sum(axis=1) if LOG_SECONDS in self.names else np.ones(len(self))

    def prior_scores(self) -> Array:
        """Scores that rank by the analytical estimate: minus the logarithm of its seconds, float64 [N]."""
        return np.asarray(-np.log(np.maximum(self.prior_seconds(), 1e-12)))

    def nest_shares(self) -> Array:
        """Each nest's share of its candidate's estimated time: float64 [N, n_nests]; equal shares without an estimate."""
        seconds = self._nest_seconds()
        return seconds / np.maximum(seconds.sum(axis=1, keepdims=True), 1e-12)

    def _nest_seconds(self) -> Array:
        if LOG_SECONDS not in self.names:
            return np.ones(self.values.shape[:2])
        return np.asarray(np.exp(self.column(LOG_SECONDS).astype(np.float64)))


class FeatureExtractor(ABC):
    """Turns candidates into numbers.

    Contract: all arrays that one extractor returns have the same number of columns, whatever the program.
    """

    kinds: ClassVar[Kinds[Callable[..., FeatureExtractor]]] = Kinds(
        "feature extractor", CostModelError, __package__
    )
    """The extractors that :meth:`create` knows; each registers itself where it is defined."""

    @abstractmethod
    def extract_from(self, context: Context, candidates: Sequence[Candidate]) -> list[Array]:
        """Features of each candidate: float32 [n_nests, n_features] each, as many as ``candidates``."""

    @staticmethod
    def create(kind: str, **options: Any) -> FeatureExtractor:
        """An extractor by name: ``"per-store-feature"``, ``"random"``; the options are its constructor's."""
        return FeatureExtractor.kinds[kind](**options)


class PyFeatureExtractor(FeatureExtractor):
    """Base class of feature extractors that users write; override :meth:`extract_from`."""


@FeatureExtractor.kinds.register("per-store-feature")
class PerStoreFeature(FeatureExtractor):
    """Features per nest that stores to a buffer.

    Args:
        buffers_per_store: buffers per nest that get columns of their own, those that touch most bytes.
        arith_intensity_curve_num_samples: points of the curve of operations per byte over the loop levels.
        cache_line_bytes: bytes of a cache line; by default those of the target's.
        extract_workload: add columns that describe the whole program (the same in all its nests).
    """

    def __init__(
        self,
        buffers_per_store: int = 5,
        arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int | None = None,
        extract_workload: bool = False,
    ) -> None:
        if cache_line_bytes is not None and cache_line_bytes < 1:
            raise CostModelError(f"cache_line_bytes is a positive number, got {cache_line_bytes!r}")
        self.buffers_per_store = buffers_per_store
        self.arith_intensity_curve_num_samples = arith_intensity_curve_num_samples
        self.cache_line_bytes = cache_line_bytes
        self.extract_workload = extract_workload

    @property
    def names(self) -> tuple[str, ...]:
        """Column names."""
        return feature_names(
            self.buffers_per_store, self.arith_intensity_curve_num_samples, self.extract_workload
        )

    @property
    def feature_vector_length(self) -> int:
        """Number of columns."""
        return len(self.names)

    def extract_from(self, context: Context, candidates: Sequence[Candidate]) -> list[Array]:
        """Features of each candidate as it is before postprocessing: float32 [n_nests, n_features] each."""
        target = context.target if isinstance(context.target, Target) else Target(context.target or "cpu")
        calibration: Calibration | None = getattr(context, "calibration", None)
        return [
            self.features_of(skeleton_of_schedule(candidate.sch, context.mod), target, calibration).values[0]
            for candidate in candidates
        ]

    def features_of(
        self, skeleton: Skeleton, target: Target, calibration: Calibration | None = None
    ) -> FeatureMatrix:
        """Features of all candidates of a population at once, on what was measured of the target's machine if that is given."""
        machine = Machine.of(target, calibration)
        if self.cache_line_bytes is not None:
            machine = machine.with_lines(self.cache_line_bytes)
        values = by_patterns(skeleton, lambda part: self._values_of(part, target, machine))
        running = [nest for nest in skeleton.nests if not nest.is_preprocessing]
        return FeatureMatrix(
            values, self.names, tuple(running[place].name for place in _with_columns(running))
        )

    def _values_of(self, skeleton: Skeleton, target: Target, machine: Machine) -> Array:
        """Features of candidates whose accesses go alike: float32 [N, n_nests, n_features]."""
        facts = analyze(skeleton, machine)
        seconds = [nest.estimate.seconds for nest in facts]
        if target.is_gpu:
            seconds = gpu_seconds(skeleton, Gpu.of(target))
        names, places = self.names, _with_columns([nest.nest for nest in facts])
        values = np.zeros((len(places), len(names), apart(skeleton.size)), dtype=np.float32)
        values = values[:, :, : skeleton.size]
        for number, (place, end) in enumerate(pairwise([*places, len(facts)])):
            columns, nest = _Columns(values[number]), facts[place]
            _operation_columns(columns, nest)
            _loop_columns(columns, nest, machine)
            _tile_columns(columns, nest, machine)
            _cache_columns(columns, nest, machine)
            _intensity_columns(columns, nest, self.arith_intensity_curve_num_samples)
            _buffer_columns(columns, nest, self.buffers_per_store)
            columns.put(np.log(np.maximum(sum(seconds[place:end]), 1e-12)), log=False)
            if self.extract_workload:
                _workload_columns(columns, facts)
            if columns.filled != len(names):
                raise AssertionError(f"{columns.filled} columns were filled, {len(names)} are named")
        return values.transpose(2, 0, 1)


def skeleton_of_schedule(sch: Schedule, mod: Any = None) -> Skeleton:
    """The skeleton (N = 1) of a schedule; one that is postprocessed is replayed from ``mod`` without its postprocessing."""
    trace = sch.trace
    if mod is not None and trace is not None and any(inst.kind.is_postproc for inst in trace.insts):
        plain = Schedule(mod, error_render_level="none", seed=0)
        trace.apply_to_schedule(plain, remove_postproc=True)
        sch = plain
    func = sch.func_working_on
    if func is None:
        raise CostModelError("the schedule works on no function; call sch.work_on(name) first")
    return Extraction(sch._root(func)).evaluate({}, 1)


def _with_columns(nests: Sequence[Nest]) -> list[int]:
    """The nests that have columns of their own: steps that end what stands before them are parts of that."""
    return [place for place, nest in enumerate(nests) if place == 0 or not nest.is_last_step]


def apart(count: int) -> int:
    """Elements of a row that holds ``count``: an odd number of cache lines, so that neighbours in a column lie in different sets."""
    lines = -(-count // _LINE) | 1
    return lines * _LINE


# ---- columns ----------------------------------------------------------------------------------------------------


class _Columns:
    """Writes columns one after the other into an array [n_features, N]."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self.filled = 0

    def put(self, column: Any, log: bool = True) -> None:
        """The next column; ``log`` scales it to log2(1 + x)."""
        row = self.values[self.filled]
        self.filled += 1
        if not log:
            row[...] = column
        elif np.ndim(column) == 0:
            row[...] = math.log2(1.0 + float(column))
        else:
            row[...] = column
            np.log1p(row, out=row)
            row *= np.float32(1.4426950408889634)

    def skip(self, count: int) -> None:
        """Leave columns at zero."""
        self.filled += count


@lru_cache(maxsize=16)
def feature_names(buffers: int, samples: int, workload: bool) -> tuple[str, ...]:
    """Names of the columns, in order."""
    names = [f"ops.{kind}" for kind in KINDS] + [f"ops.total.{kind}" for kind in KINDS] + ["ops.flops"]
    names += list(_LOOP_NAMES) + list(_TILE_NAMES)
    for level in ("l1", "l2", "l3"):
        names += [f"{level}.{name}" for name in _CACHE_NAMES]
    names += ["memory.footprint", "memory.body_footprint"]
    names += [f"intensity.{i}" for i in range(samples)]
    for slot in range(buffers):
        names += [f"buffer{slot}.{name}" for name in _BUFFER_NAMES]
    names.append(LOG_SECONDS)
    if workload:
        names += [f"workload.{kind}" for kind in KINDS] + ["workload.iterations", "workload.nests"]
    return tuple(names)


_LOOP_NAMES = (
    "loop.iterations",
    "loop.count",
    "loop.reduction",
    "loop.is_reduction",
    "loop.innermost",
    "loop.innermost_is_reduction",
    "loop.parallel_jobs",
    "loop.jobs_per_core",
    "loop.imbalance",
    "loop.launches",
    "loop.opens_region",
    "loop.per_job_iterations",
    "loop.vector",
    "loop.unroll",
    "loop.spatial_outside_body",
    "loop.reduction_outside_body",
    "loop.block_threads",
    "loop.grid_blocks",
)


def _loop_columns(columns: _Columns, facts: NestFacts, machine: Machine) -> None:
    loops = facts.loops
    spatial = [not item for item in loops.reductions]
    reduction = loops.product(loops.reductions)
    count = (loops.extents > 1).sum(axis=0)
    jobs = np.maximum(loops.jobs, 1.0)
    put = columns.put
    put(loops.inner[0])
    put(count, log=False)
    put(reduction)
    put(float(facts.nest.is_reduction), log=False)
    put(loops.innermost(loops.extents, 1.0))
    put(
        loops.innermost(
            np.asarray(loops.reductions, dtype=np.float64)[:, None] * np.ones_like(loops.extents)
        ),
        log=False,
    )
    put(jobs)
    put(jobs / machine.cores)
    put(np.ceil(jobs / machine.cores) * machine.cores / jobs)
    put(loops.launches)
    put(float(loops.opens_region), log=False)
    put(loops.inner[0] / jobs)
    put(loops.product([mark == "vectorize" for mark in loops.marks]))
    put(loops.product([mark == "unroll" for mark in loops.marks]))
    put(loops.product(spatial) / loops.product_inside(loops.body, spatial) / jobs)
    put(reduction / loops.product_inside(loops.body, loops.reductions))
    put(loops.product([mark.startswith("threadIdx") for mark in loops.marks]))
    put(loops.product([mark.startswith("blockIdx") for mark in loops.marks]))


def _operation_columns(columns: _Columns, facts: NestFacts) -> None:
    counts = operation_counts(facts.nest)
    iterations = facts.loops.inner[0]
    for kind in KINDS:
        columns.put(counts[kind], log=False)
    for kind in KINDS:
        columns.put(counts[kind] * iterations)
    columns.put(_flops(facts) * iterations)


def _flops(facts: NestFacts) -> float:
    counts = operation_counts(facts.nest)
    return float(sum(counts[kind] for kind in KINDS if kind.startswith("float")) + counts["float_mad"])


_TILE_NAMES = (
    "tile.lanes",
    "tile.lane_use",
    "tile.implicit_vector",
    "tile.vectors",
    "tile.body",
    "tile.body_vectors",
    "tile.steps",
    "tile.chained",
    "tile.accumulators",
    "tile.operands",
    "tile.register_use",
    "tile.spilled",
    "tile.reloads_per_op",
    "tile.loads_per_op",
    "tile.broadcasts_per_op",
    "tile.gathered_per_op",
    "tile.stores_per_op",
    "tile.scattered_per_op",
    "tile.chains",
    "tile.body_cycles",
    "tile.cycles_per_op",
    "tile.compute_cycles",
)


def _tile_columns(columns: _Columns, facts: NestFacts, machine: Machine) -> None:
    tile = facts.tile
    width = min((slot.element_bytes for slot in facts.slots if slot.writes), default=4)
    hardware = max(1, machine.vector_bytes // width)
    operations = tile.vector_iterations
    put = columns.put
    put(tile.lanes, log=False)
    put(tile.lanes / hardware, log=False)
    put(tile.implicit, log=False)
    put(tile.vector_extent / tile.lanes)
    put(tile.iterations)
    put(tile.vector_iterations)
    put(tile.steps)
    put(tile.chained, log=False)
    put(tile.accumulators)
    put(tile.operands)
    put((tile.accumulators + tile.operands) / machine.vector_registers)
    put(tile.spilled)
    put(tile.reloads / operations)
    put(tile.loads / operations)
    put(tile.broadcasts / operations)
    put(tile.gathered / operations)
    put(tile.stores / operations)
    put(tile.scattered / operations)
    put(operations / tile.steps)
    put(facts.estimate.body_cycles)
    put(facts.estimate.body_cycles / operations)
    put(facts.estimate.compute_cycles)


_CACHE_NAMES = (
    "bytes",
    "bytes_per_iteration",
    "fitting_iterations",
    "fitting_bytes",
    "headroom",
    "cycles",
    "share",
)


def _cache_columns(columns: _Columns, facts: NestFacts, machine: Machine) -> None:
    traffic, loops = facts.traffic, facts.loops
    put = columns.put
    for level, cache in enumerate(machine.caches):
        moved = traffic.lines[level].sum(axis=0) * machine.line_bytes
        fitting = at_level(traffic.footprint, traffic.fitting[level])
        cycles = facts.estimate.memory_cycles[level]
        put(moved)
        put(moved / loops.inner[0])
        put(at_level(loops.inner, traffic.fitting[level]))
        put(fitting)
        put(fitting / cache.capacity)
        put(cycles)
        put(cycles / np.maximum(facts.estimate.compute_cycles, 1.0))
    put(traffic.footprint[0])
    put(at_level(traffic.footprint, loops.body))


def _intensity_columns(columns: _Columns, facts: NestFacts, samples: int) -> None:
    """Operations per byte of the working set, where it is interpolated over the iterations of the inner loops."""
    loops = facts.loops
    flops = max(_flops(facts), 1.0)
    size = loops.inner.shape[1]
    work = np.log2(loops.inner).astype(np.float32)
    touched = np.zeros((loops.count + 1, size))
    for slot in facts.slots:
        touched += slot.elements * slot.element_bytes
    curve = np.log2(1.0 + flops * loops.inner / np.maximum(touched, 1.0)).astype(np.float32)
    points = np.linspace(0.0, 1.0, samples, dtype=np.float32)[:, None] * work[0]
    value = np.broadcast_to(curve[loops.count], (samples, size)).copy()
    for level in range(loops.count - 1, -1, -1):
        # Piecewise linear: every level adds the part of its rise that lies below the point.
        width = np.maximum(work[level] - work[level + 1], np.float32(1e-6))
        share = (points - work[level + 1]) / width
        np.clip(share, 0.0, 1.0, out=share)
        share *= curve[level] - curve[level + 1]
        value += share
    for sample in range(samples):
        columns.put(value[sample], log=False)


_BUFFER_NAMES = (
    "reads",
    "writes",
    "is_local",
    "in_registers",
    "bytes",
    "unique_bytes",
    "lines",
    "reuse",
    "vector_stride",
    "innermost_stride",
    "body_unique",
    "body_reuse",
    "invariant_iterations",
    "reuse_distance_bytes",
    "reuse_distance_iterations",
    "l1_lines",
    "l2_lines",
    "l3_lines",
    "contiguous_bytes",
    "row_bytes",
)


def _buffer_columns(columns: _Columns, facts: NestFacts, count: int) -> None:
    slots = list(range(len(facts.slots)))
    loops = facts.loops
    size = loops.inner.shape[1]
    start = columns.filled
    width = len(_BUFFER_NAMES)
    if len(slots) > count:
        table = np.zeros((len(slots), width, size), dtype=np.float32)
        for number in slots:
            _one_buffer(_Columns(table[number]), facts, number)
        touched = np.stack([slot.elements[0] * slot.element_bytes for slot in facts.slots])
        chosen = np.sort(np.argsort(-touched, axis=0, kind="stable")[:count], axis=0)
        picked = np.take_along_axis(table, chosen[:, None, :], axis=0)
        columns.values[start : start + count * width] = picked.reshape(count * width, size)
    else:
        for number in slots:
            _one_buffer(columns, facts, number)
    columns.filled = start + count * width


def _one_buffer(columns: _Columns, facts: NestFacts, number: int) -> None:
    slot, loops = facts.slots[number], facts.loops
    put = columns.put
    iterations = loops.inner[0]
    total = iterations * slot.element_bytes * max(1, slot.reads + slot.writes)
    unique = slot.elements[0] * slot.element_bytes
    stride = loops.innermost(slot.strides.astype(np.float64))
    vector = stride
    if loops.vector is not None:
        vector = np.where(loops.extents[loops.vector] == 1, stride, slot.strides[loops.vector])
    invariant, distance_bytes, distance = _reuse(slot, facts)
    body = at_level(slot.elements, loops.body)
    put(slot.reads, log=False)
    put(slot.writes, log=False)
    put(float(slot.is_local), log=False)
    put(facts.tile.in_registers[number], log=False)
    put(total)
    put(unique)
    put(slot.lines[0])
    put(total / np.maximum(unique, 1.0))
    put(vector)
    put(stride)
    put(body)
    put(facts.tile.iterations / np.maximum(body, 1.0))
    put(invariant)
    put(distance_bytes)
    put(distance)
    for lines in facts.traffic.lines:
        put(lines[number])
    put(slot.chunk[0])
    put(slot.row_bytes)


def _reuse(slot: Slot, facts: NestFacts) -> tuple[Array, Array, Array]:
    """(iterations of loops that do not move the slot, bytes and iterations between uses at the innermost of those loops)."""
    loops = facts.loops
    size = loops.inner.shape[1]
    invariant = np.ones(size)
    distance_bytes, distance = np.zeros(size), np.zeros(size)
    for position in range(loops.count):
        extent = loops.extents[position]
        still = ~slot.moved_by(position) & (extent > 1)
        invariant = np.where(still, invariant * extent, invariant)
        distance_bytes = np.where(still, facts.traffic.footprint[position + 1], distance_bytes)
        distance = np.where(still, loops.inner[position + 1], distance)
    return invariant, distance_bytes, distance


def _workload_columns(columns: _Columns, facts: Sequence[NestFacts]) -> None:
    """The whole program: operations of each kind, iterations, nests."""
    for kind in KINDS:
        columns.put(sum(operation_counts(item.nest)[kind] * item.loops.inner[0] for item in facts))
    columns.put(sum(item.loops.inner[0] for item in facts))
    columns.put(len(facts), log=False)
