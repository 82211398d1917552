"""The machine that the analytical model assumes: what a target says of itself, what was measured, and assumptions for the rest.

Cores, vectors, registers and caches are facts of the target. Clock, throughputs, latencies, bandwidths and the price of parallel
regions come from a :class:`~cost_models.calibration.Calibration` where there is one. Without it (a build that knows nothing but the
target's name) the defaults below hold: round figures of a current server core, chosen to be of the right order on any. Only ratios
matter for ranking. ``experiments/search/cost_model_quality.py`` compares the estimates with the records of a database.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ir.target import Target

from .calibration import Calibration
from .loops import Array

_T = TypeVar("_T")


@dataclass(frozen=True)
class CacheLevel:
    """One data cache as a core sees it."""

    capacity: float
    """Bytes that a core may use (a shared cache is divided by the cores that share it)."""
    ways: int
    bytes_per_cycle: float
    """Sustained bandwidth of filling this level from the one behind it, for one core alone."""
    total_bytes_per_cycle: float
    """The same for all cores of the machine together."""
    run_start: float = 0.0
    """Cycles lost where a stretch of adjacent bytes begins, of which nothing was read ahead."""
    line_bytes: int = 64

    @property
    def sets(self) -> int:
        """Number of sets of lines, at least one."""
        return max(1, int(self.capacity) // (self.line_bytes * self.ways))

    def rate(self, busy: Array) -> Array:
        """Bytes per cycle of each of ``busy`` cores [N] that fill their caches at a time."""
        return np.minimum(self.bytes_per_cycle, self.total_bytes_per_cycle / busy)


@dataclass(frozen=True)
class Machine:
    """Facts and figures that cost estimates use; times are in cycles unless said otherwise. The defaults are assumptions."""

    cores: int
    vector_bytes: int
    vector_registers: int
    caches: tuple[CacheLevel, CacheLevel, CacheLevel]
    line_bytes: int = 64
    hertz: float = 4e9
    fma_per_cycle: float = 2.0
    fma_latency: float = 4.0
    loads_per_cycle: float = 2.0
    stores_per_cycle: float = 1.0
    divide_cycles: float = 8.0
    """Throughput of dividing a vector."""
    elementary_cycles: float = 16.0
    """Throughput of a polynomial such as exp's on a vector."""
    shuffles_per_cycle: float = 1.0
    """Lanes inserted per cycle when a vector is gathered element by element."""
    parallel_launch: float = 10_000.0
    """Cycles to start and join a parallel region (next to nothing on one core)."""
    job_overhead: float = 60.0
    """Cycles to hand one iteration of a parallel loop to a core."""
    region_call: float = 100.0
    """Cycles to call a parallel region that one thread runs alone."""
    # What follows is of the model rather than of a processor, and is not measured.
    window: float = 400.0
    """Instructions that a core looks ahead."""
    issue_per_cycle: float = 8.0
    polynomial_registers: float = 3.0
    """Vectors that a polynomial such as exp's keeps: its argument, what the argument was reduced by, and the sum so far."""
    reload: float = 0.6
    """Cycles lost per vector that is spilled to the stack and loaded again although memory had it anyway."""
    loop_exit: float = 4.0
    """Cycles lost each time an innermost loop ends: a mispredicted branch, now and then, and a pipeline that fills again."""
    usable: float = 0.7
    """Share of a cache that a working set may take before lines of it are evicted in practice."""

    def vector_cycles(self, kind: str) -> float:
        """Cycles of throughput per vector instruction of a kind of operation (:data:`~cost_models.arithmetic.KINDS`)."""
        if kind == "float_divmod":
            return self.divide_cycles
        if kind == "float_math":
            return self.elementary_cycles
        # Every core has at least twice as many units for integers as for multiply-adds.
        return (0.5 if kind in ("int_ops", "bool_ops") else 1.0) / self.fma_per_cycle

    def with_lines(self, line_bytes: int) -> Machine:
        """The same machine with cache lines of another length."""
        first, second, last = (replace(cache, line_bytes=line_bytes) for cache in self.caches)
        return replace(self, caches=(first, second, last), line_bytes=line_bytes)

    @staticmethod
    def of(target: Target, calibration: Calibration | None = None) -> Machine:
        """The machine of a CPU target, with what was measured of it."""
        cores = max(1, target.num_cores)
        found = calibration or Calibration(cores)
        line = target.cache_line_bytes
        ways = target.cache_ways
        l3 = max(target.l3_cache_bytes, target.l2_cache_bytes) / max(1, target.l3_cache_cores)
        # Several cores draw more from memory than one does, but share what there is.
        memory = 12.0 * cores / (1.0 + cores)

        def level(
            capacity: float, ways: int, name: str, alone: float, total: float, start: float
        ) -> CacheLevel:
            fill: float | None = getattr(found, f"{name}_fill")
            fill_all: float | None = getattr(found, f"{name}_fill_all")
            start = _or(getattr(found, f"{name}_run_start", None), start)
            if fill is not None:
                scale = total / (cores * alone)
                alone, total = fill, found.cores * _or(fill_all, fill * scale)
            return CacheLevel(capacity, ways, alone, total, start, line)

        return Machine(
            cores=cores,
            vector_bytes=max(4, target.vector_bits // 8),
            vector_registers=target.vector_registers,
            caches=(
                level(target.l1_cache_bytes, ways[0], "l1", 40.0, 40.0 * cores, 0.0),
                level(target.l2_cache_bytes, ways[1], "l2", 12.0, 12.0 * cores, 10.0),
                level(l3, ways[2], "l3", 6.0, memory, 60.0),
            ),
            line_bytes=line,
            hertz=_or(found.hertz, Machine.hertz),
            fma_per_cycle=_or(found.fma_per_cycle, Machine.fma_per_cycle),
            fma_latency=_or(found.fma_latency, Machine.fma_latency),
            loads_per_cycle=_or(found.loads_per_cycle, Machine.loads_per_cycle),
            stores_per_cycle=_or(found.stores_per_cycle, Machine.stores_per_cycle),
            divide_cycles=_or(found.divide_cycles, Machine.divide_cycles),
            elementary_cycles=_or(found.elementary_cycles, Machine.elementary_cycles),
            shuffles_per_cycle=_or(found.gathered_per_cycle, Machine.shuffles_per_cycle),
            # On one core a region is a call, and its jobs are iterations of a loop in it.
            parallel_launch=_or(found.parallel_launch, Machine.parallel_launch)
            if cores > 1
            else Machine.region_call,
            job_overhead=_or(found.job_overhead, Machine.job_overhead) if cores > 1 else 0.0,
        )


def _or(measured: _T | None, assumed: _T) -> _T:
    return assumed if measured is None else measured
