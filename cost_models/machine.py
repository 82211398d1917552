"""The machine that the analytical model assumes: what a target says of itself, and typical figures for what it does not say.

The defaults describe a current server core with 512-bit vectors (two FMA pipes, two vector loads and one vector store per
cycle, four cycles of FMA latency of which a part is hidden); narrower targets keep the same per-cycle structure with fewer
lanes. Only ratios matter for ranking. The figures were adjusted against 3,000 measured candidates of 60 kernels on a Zen 5
core; ``experiments/search/cost_model_quality.py`` compares the estimate with the records of a database.
"""

from __future__ import annotations

from dataclasses import dataclass

from ir.target import Target


@dataclass(frozen=True)
class CacheLevel:
    """One data cache as a core sees it."""

    capacity: float
    """Bytes that a core may use (a shared cache is divided by the cores)."""
    ways: int
    bytes_per_cycle: float
    """Sustained bandwidth, per core, of filling this level from the one behind it."""
    run_start: float = 0.0
    """Cycles lost where a stretch of adjacent bytes begins, of which nothing was read ahead."""

    @property
    def sets(self) -> int:
        """Number of sets of 64-byte lines, at least one."""
        return max(1, int(self.capacity) // (64 * self.ways))


@dataclass(frozen=True)
class Machine:
    """Facts and figures that cost estimates use; times are in cycles unless said otherwise."""

    cores: int
    vector_bytes: int
    vector_registers: int
    caches: tuple[CacheLevel, CacheLevel, CacheLevel]
    line_bytes: int = 64
    hertz: float = 4.4e9
    fma_per_cycle: float = 2.0
    fma_latency: float = 3.5
    loads_per_cycle: float = 2.0
    stores_per_cycle: float = 1.0
    window: float = 400.0
    """Instructions that a core looks ahead."""
    issue_per_cycle: float = 8.0
    shuffles_per_cycle: float = 1.0
    """Lanes inserted per cycle when a vector is gathered element by element."""
    reload: float = 0.6
    """Cycles lost per vector that is spilled to the stack and loaded again although memory had it anyway."""
    loop_exit: float = 4.0
    """Cycles lost each time an innermost loop ends: a mispredicted branch and a pipeline that fills again."""
    parallel_launch: float = 10_000.0
    """Cycles to start and join a parallel region (about two microseconds; next to nothing on one core)."""
    job_overhead: float = 60.0
    """Cycles to hand one iteration of a parallel loop to a core."""
    usable: float = 0.7
    """Share of a cache that a working set may take before lines of it are evicted in practice."""

    @staticmethod
    def of(target: Target) -> Machine:
        """The machine of a CPU target."""
        cores = max(1, target.num_cores)
        line = target.cache_line_bytes
        l3 = max(target.l3_cache_bytes, target.l2_cache_bytes)
        return Machine(
            cores=cores,
            vector_bytes=max(4, target.vector_bits // 8),
            vector_registers=target.vector_registers,
            caches=(
                CacheLevel(target.l1_cache_bytes, 12, 40.0),
                CacheLevel(target.l2_cache_bytes, 16, 38.0, 10.0),
                CacheLevel(l3 / cores, 16, 12.0 / (1.0 + cores), 60.0),
            ),
            line_bytes=line,
            parallel_launch=10_000.0 if cores > 1 else 100.0,
        )
