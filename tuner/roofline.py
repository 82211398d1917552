"""The roofline of a machine: what a kernel could reach at most, by its arithmetic and by the bytes that it has to move.

A kernel of an arithmetic intensity (FLOPs per byte of its arguments, each counted once) reaches no more than the bandwidth times that, and
no more than the peak of the arithmetic. (Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures", Communications of the ACM 52, 2009.) Peaks of a processor are those that ``loopsmith calibrate`` measured; those of a
GPU are what its target declares.
"""

from __future__ import annotations

from dataclasses import dataclass

from cost_models import Calibration, CostModelError
from cost_models.gpu import Gpu
from database import Database
from ir import dtype as dt
from ir.target import Target
from ir.tir import IntImm, PrimFunc

from .calibration import VERSION
from .names import target_text

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Bandwidth:
    """One slope of a roofline.

    >>> Bandwidth("memory", 2e10).gb_per_s
    20.0
    """

    name: str
    bytes_per_s: float

    @property
    def gb_per_s(self) -> float:
        """In GB/s."""
        return self.bytes_per_s / 1e9


@dataclass(frozen=True)
class Roofline:
    """Peaks of one machine with all of its cores.

    Attributes:
        machine: what it is called.
        flops_per_s: float32 operations per second, multiply-adds counted twice.
        bandwidths: from the slowest, which is that of memory; those of caches behind it.
        source: where the figures come from.
    """

    machine: str
    flops_per_s: float
    bandwidths: tuple[Bandwidth, ...]
    source: str

    def bound(self, intensity: float) -> float:
        """FLOP/s that a kernel of this many FLOPs per byte reaches at most, where its arguments come from memory.

        >>> roof = Roofline("m", 1e11, (Bandwidth("memory", 2e10),), "measured")
        >>> roof.bound(1.0), roof.bound(100.0)
        (20000000000.0, 100000000000.0)
        """
        return min(self.flops_per_s, self.bandwidths[0].bytes_per_s * intensity)

    def bound_secs(self, flops: float, n_bytes: float) -> float:
        """Seconds that a kernel takes at least, where its arguments come from memory."""
        return max(flops / self.flops_per_s, n_bytes / self.bandwidths[0].bytes_per_s)


def roofline_of(database: Database | None, target: Target) -> Roofline | None:
    """The roofline of a target's machine; None for a processor of which the database has no calibration."""
    if target.is_gpu:
        return _of_gpu(target)
    found = None if database is None else stored_calibration(database, target)
    return None if found is None else roofline_of_calibration(found, target)


def stored_calibration(database: Database, target: Target) -> Calibration | None:
    """The newest calibration of a target's processor that a database has, whichever machine measured it."""
    for item in reversed(database.get_calibrations()):
        if item.version != VERSION:
            continue
        measured = Target(str(item.fingerprint.get("target", "cpu")))
        if (measured.kind_name, measured.mcpu) != (target.kind_name, target.mcpu):
            continue
        try:
            return Calibration.from_json(item.figures)
        except CostModelError:  # somebody edited it
            continue
    return None


def roofline_of_calibration(found: Calibration, target: Target) -> Roofline | None:
    """The peaks that a calibration measured; None where it lacks the clock, the arithmetic, or the bandwidth of memory."""
    if found.hertz is None or found.fma_per_cycle is None:
        return None
    cores = min(max(1, target.num_cores), found.cores)
    lanes = max(1, target.vector_bits // (8 * _FLOAT_BYTES))
    rates = {
        "memory": found.l3_fill_all or found.l3_fill,
        "L3": found.l2_fill_all or found.l2_fill,
        "L2": found.l1_fill_all or found.l1_fill,
    }
    slopes = [Bandwidth(name, rate * cores * found.hertz) for name, rate in rates.items() if rate is not None]
    if not slopes or slopes[0].name != "memory":
        return None
    return Roofline(
        f"{target.mcpu or target.kind_name}, {cores} {'core' if cores == 1 else 'cores'}",
        2.0 * lanes * found.fma_per_cycle * found.hertz * cores,
        tuple(slopes),
        "measured by loopsmith calibrate",
    )


def _of_gpu(target: Target) -> Roofline | None:
    gpu = Gpu.of(target)
    flops = 2.0 * gpu.multiprocessors * gpu.each.float32_lanes * gpu.hertz
    if not flops or not gpu.memory_bytes_per_second:
        return None
    memory = Bandwidth("memory", gpu.memory_bytes_per_second)
    return Roofline(
        target_text(target),
        flops,
        (memory,),
        "declared by the target, without tensor cores; nothing was measured",
    )


def argument_bytes(func: PrimFunc) -> float:
    """Bytes of a kernel's tensors, each counted once: what it moves at least. Symbolic extents count as 1.

    >>> from ir import te
    >>> A = te.placeholder((8, 4), name="A")
    >>> argument_bytes(te.create_prim_func([A, te.compute((8, 4), lambda i, j: A[i, j] * 2.0, name="B")]))
    256.0
    """
    total = 0.0
    for buffer in func.buffer_map.values():
        count = 1
        for extent in buffer.shape:
            count *= extent.value if isinstance(extent, IntImm) else 1
        total += count * dt.bits(buffer.dtype) / 8
    return total
