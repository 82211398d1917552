"""A calibration of the machine that this process runs on, in a second or two: probes, their data, and what their times mean.

Every figure is the time of a kernel of ``kernels.py`` on data of a chosen size, divided by what it did. Working sets lie between the
sizes of two caches, at their geometric mean, so that neither a cache of the next smaller kind holds a good part of them nor the next
larger one is left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np

from cost_models import Calibration
from ir.codegen.build import build
from ir.target import Target
from runners.lock import machine
from runners.native import NativeKernel
from runners.worker import phase

from .kernels import probe_module, stretch_vectors, tile_vectors
from .sampling import Probe, sample_in_turns

VERSION = 1
"""Raised when what is measured, or how, changes: what older versions have measured is then measured again."""

SAMPLING_SECONDS = 1.0
"""Time for samples; compiling the probes takes about a third of a second besides."""
_LIMIT_SECONDS = 60.0
_MOST_MEMORY = 1 << 30
"""Bytes read to find the memory's bandwidth, at most."""
_PARTS = 8
"""Parts of that memory that are read in turn: when one comes again the caches have seen all others."""
_PASS_BYTES = 4 << 20
"""Bytes that a sample reads from a cache, at least: a parallel region must take long beside its start."""
_NEAR_BYTES, _FAR_BYTES = 512, 4096
"""Distance of short stretches in a cache and in memory, to which a line is added so that they fall on all sets of a cache: what lives
in a cache has short rows, what lives in memory has long ones, and each of their stretches lies in a page of its own."""
_ATTEMPTS, _PAUSE_SECONDS = 2, 0.2
"""How often to wait for a moment in which all cores are free, and how long."""
_WILD = 0.3
"""A probe whose fastest samples differ by more has not shown what the machine can do."""
_ROUNDS = 16
"""Jobs of each core in a region of many jobs."""
_OF_REGIONS = ("parallel_launch", "job_overhead")
_VECTORS = 64
"""Vectors of data in registers' reach: a few kilobytes."""
_CHAIN = 80_000


def measure_calibration(target: Target, seconds: float = SAMPLING_SECONDS) -> Calibration:
    """Measure this machine, alone on it, for a target that describes it.

    Args:
        target: code is made for it, and all of its cores take part.
        seconds: time for samples.
    """
    phase("compiling probes", _LIMIT_SECONDS)
    bench = _Bench(target)
    phase("waiting for the machine", None)
    with machine(alone=True):
        phase("measuring", _LIMIT_SECONDS)
        return bench.measure(seconds)


@dataclass(frozen=True)
class WorkingSets:
    """Bytes that one core reads in the probes of each level; None where the caches leave no room for one."""

    l1: int
    l2: int
    l3: int | None
    memory: int | None

    @staticmethod
    def of(target: Target, available: int) -> WorkingSets:
        """Sizes for a target's caches and so many bytes of free memory."""
        l1, l2, l3 = target.l1_cache_bytes, target.l2_cache_bytes, target.l3_cache_bytes
        share = l3 // target.l3_cache_cores
        memory = max(32 << 20, 3 * l3)
        return WorkingSets(
            l1 // 2,
            math.isqrt(2 * l1 * l2),
            math.isqrt(2 * l2 * share) if share >= 4 * l2 else None,
            memory if memory <= min(available // 4, _MOST_MEMORY) else None,
        )


class _Bench:
    """The compiled probes and their data."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.cores = target.num_cores
        self.lanes = max(1, target.vector_bits // 32)
        self.line = target.cache_line_bytes // 4
        self.module = build(probe_module(self.lanes, target.vector_registers, self.line), target)
        self.sets = WorkingSets.of(target, available_memory())
        self.probes: list[Probe] = []
        self.notes: list[str] = []

    def measure(self, seconds: float) -> Calibration:
        """Time everything and make figures of it."""
        derive = [self._core(), self._first_cache(), self._caches(), self._memory(), self._regions()]
        notes = sample_in_turns(self.probes, seconds)
        for _ in range(_ATTEMPTS):
            if self._had_all_cores():
                break
            time.sleep(_PAUSE_SECONDS)
            notes = sample_in_turns([probe for probe in self.probes if probe.all_cores], seconds / 2)
        figures: dict[str, float] = {}
        for figures_of in derive:
            figures.update(figures_of())
        disturbed = any(probe.spread > _WILD for probe in self.probes)
        if not self._had_all_cores():
            disturbed = True
            shared = [name for name in figures if name.endswith("_all") or name in _OF_REGIONS]
            figures = {name: value for name, value in figures.items() if name not in shared}
            meanings = [item.metadata["meaning"] for item in Calibration.figures() if item.name in shared]
            notes.append(f"other processes left no moment with all cores free for: {'; '.join(meanings)}")
        return Calibration.checked(
            figures, cores=self.cores, notes=(*self.notes, *notes), disturbed=disturbed
        )

    def _had_all_cores(self) -> bool:
        """Whether the chains of all cores took no longer than one: they ran at the same time, at least once."""
        return self._clocks.seconds < 1.3 * self._clock.seconds + 2e-5

    # ---- what the probes share --------------------------------------------------------------------------------

    def _probe(
        self, name: str, kernel: str, *arguments: object, tolerance: float = 0.03, all_cores: bool = False
    ) -> Probe:
        """A probe that calls a kernel on arguments."""
        return self._probe_in_turn(name, kernel, [arguments], cycle([0]), tolerance, all_cores)

    def _probe_in_turn(
        self,
        name: str,
        kernel: str,
        arguments: Sequence[tuple[object, ...]],
        turn: Iterator[int],
        tolerance: float = 0.1,
        all_cores: bool = False,
    ) -> Probe:
        """A probe that calls a kernel on one of several sets of arguments; whose turn it is, several probes may share."""
        calls = [NativeKernel(self.module, kernel, self.cores).bind(*items) for items in arguments]
        probe = Probe(name, lambda: calls[next(turn)](), tolerance, all_cores)
        self.probes.append(probe)
        return probe

    def _hertz(self) -> float:
        return 2 * _CHAIN / self._clock.seconds

    def _cycles(self, probe: Probe) -> float:
        return probe.seconds * self._hertz()

    def _vectors(self, size: int) -> int:
        """Blocks of eight vectors that hold so many bytes."""
        return max(1, size // (32 * self.lanes))

    # ---- groups of figures ------------------------------------------------------------------------------------

    def _core(self) -> Callable[[], dict[str, float]]:
        tile = tile_vectors(self.target.vector_registers)
        half = _aligned((4, self.lanes), np.float32, 0.5)
        values = _aligned((_VECTORS, self.lanes), np.float32, 1.25)
        result = _aligned((_VECTORS, self.lanes), np.float32, 0)
        steps = 16_384
        chains = _aligned((self.cores, 16), np.int32, 0x5A5A5A)
        self._clock = self._probe("clock", "integer_chains", chains[:1], _CHAIN, tolerance=0.01)
        self._clocks = self._probe(
            "clock, all cores", "integer_chains", chains, _CHAIN, tolerance=0.2, all_cores=True
        )
        chain = self._probe("fma latency", "fma_chain", half, 2 * steps)
        many = self._probe(
            "fma throughput", "fma_tile", half[:3], _aligned((tile, self.lanes), np.float32, 0), steps
        )
        divide = self._probe("division", "divide", values, result, _VECTORS, 512)
        exponential = self._probe("exp", "exponential", values, result, _VECTORS, 128)

        def figures() -> dict[str, float]:
            return {
                "hertz": self._hertz(),
                "fma_latency": self._cycles(chain) / (2 * steps),
                "fma_per_cycle": tile * steps / self._cycles(many),
                "divide_cycles": self._cycles(divide) / (512 * _VECTORS),
                "elementary_cycles": self._cycles(exponential) / (128 * _VECTORS),
            }

        return figures

    def _first_cache(self) -> Callable[[], dict[str, float]]:
        blocks = self._vectors(self.sets.l1)
        passes = max(1, 20_000 // blocks)
        data = _aligned((1, blocks, 8, self.lanes), np.int32, 1)
        load = self._probe("loads", "read", data, self._result(1), blocks, passes)
        store = self._probe("stores", "store", data[0], blocks, passes)
        table = _aligned((_VECTORS + 17 * self.lanes,), np.int32, 1)
        gathered = _aligned((_VECTORS, self.lanes), np.int32, 0)
        gather = self._probe("gathers", "gather", table, gathered, _VECTORS, 256)

        def figures() -> dict[str, float]:
            vectors = 8 * blocks * passes
            return {
                "loads_per_cycle": vectors / self._cycles(load),
                "stores_per_cycle": vectors / self._cycles(store),
                "gathered_per_cycle": 256 * _VECTORS * self.lanes / self._cycles(gather),
            }

        return figures

    def _caches(self) -> Callable[[], dict[str, float]]:
        first = self._level("l1", "L2", [self._blocks(self.sets.l2)])
        if self.sets.l3 is None:
            self.notes.append("reading from L3: the caches leave no room between L2 and a core's part of L3")
            return first
        second = self._level("l2", "L3", [self._blocks(self.sets.l3)])
        return lambda: {**first(), **second()}

    def _blocks(self, size: int) -> np.ndarray:
        """A set of so many bytes for each core."""
        return _aligned((self.cores, self._vectors(size), 8, self.lanes), np.int32, 1)

    def _memory(self) -> Callable[[], dict[str, float]]:
        if self.sets.memory is None:
            self.notes.append("reading from memory: there is too little free memory beside so large a cache")
            return dict
        blocks = self._vectors(self.sets.memory // (_PARTS * self.cores))
        parts = _aligned((_PARTS, self.cores, blocks, 8, self.lanes), np.int32, 1)
        return self._level("l3", "memory", list(parts))

    def _level(self, level: str, where: str, parts: list[np.ndarray]) -> Callable[[], dict[str, float]]:
        """Bandwidths and starts of reading what lies behind a cache, in parts that are read in turn: [cores, blocks, 8, lanes] each.

        From a cache each core reads a set of its own, and one alone only its own; from memory one alone reads all of a part.
        """
        turn = cycle(range(len(parts)))
        cores, blocks = parts[0].shape[:2]
        passes = 1 if len(parts) > 1 else max(1, _PASS_BYTES // parts[0][0].nbytes)
        own = [part.reshape(1, -1, 8, self.lanes) if len(parts) > 1 else part[:1] for part in parts]
        distance = (_FAR_BYTES if len(parts) > 1 else _NEAR_BYTES) // 4 + self.line
        pitch = max(1, distance // self.lanes)
        vectors = stretch_vectors(self.lanes, self.line)
        rows = own[0].size // (pitch * self.lanes)
        pitched = [
            part.reshape(-1)[: rows * pitch * self.lanes].reshape(rows, pitch, self.lanes) for part in own
        ]
        one, all_ = self._result(1), self._result(cores)
        short = _aligned((1, vectors, self.lanes), np.int32, 0)
        name = f"reading from {where}"
        alone = self._probe_in_turn(name, "read", [(part, one, part.shape[1], passes) for part in own], turn)
        together = self._probe_in_turn(
            f"{name}, all cores",
            "read",
            [(part, all_, blocks, passes) for part in parts],
            turn,
            all_cores=True,
        )
        stretches = None
        if level != "l1":
            stretches = self._probe_in_turn(
                f"short stretches in {where}",
                "read_stretches",
                [(part, short, rows, passes) for part in pitched],
                turn,
            )

        def figures() -> dict[str, float]:
            rate = passes * own[0].nbytes / self._cycles(alone)
            # More cores do not make one faster; where it looks so, it was disturbed when it was alone.
            rate_all = min(rate, passes * parts[0][0].nbytes / self._cycles(together))
            found = {f"{level}_fill": rate, f"{level}_fill_all": rate_all}
            if stretches is not None:
                begin = self._cycles(stretches) / (passes * rows) - 4 * vectors * self.lanes / rate
                found[f"{level}_run_start"] = max(0.0, begin)
            return found

        return figures

    def _regions(self) -> Callable[[], dict[str, float]]:
        if self.cores == 1:
            return dict
        # A region without work would be over before a second core has heard of it: each core gets some microseconds, in one
        # job, and in many short ones that the cores fetch from each other.
        steps = _CHAIN // 8
        chains = _aligned((self.cores * _ROUNDS, 16), np.int32, 0x5A5A5A)
        alone = self._probe("short chain", "integer_chains", chains[:1], steps, tolerance=0.1)
        region = self._probe(
            "short parallel region",
            "integer_chains",
            chains[: self.cores],
            steps,
            tolerance=0.1,
            all_cores=True,
        )
        jobs = self._probe(
            "region of many jobs", "integer_chains", chains, steps // _ROUNDS, tolerance=0.1, all_cores=True
        )

        def figures() -> dict[str, float]:
            launch = self._cycles(region) - self._cycles(alone)
            more = self._cycles(jobs) - self._cycles(region)
            return {"parallel_launch": max(1.0, launch), "job_overhead": max(0.0, more / (_ROUNDS - 1))}

        return figures

    def _result(self, jobs: int) -> np.ndarray:
        return _aligned((jobs, 8, self.lanes), np.int32, 0)


def _aligned(shape: tuple[int, ...], dtype: type, value: float) -> np.ndarray:
    """An array at a multiple of 64 bytes, every page of which has been written."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(count + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    array: np.ndarray = memory[begin : begin + count].view(dtype).reshape(shape)
    array.fill(value)
    return array


def available_memory() -> int:
    """Bytes that may be used without others going without, as Linux tells; little where it does not."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass  # not Linux
    return 1 << 30
