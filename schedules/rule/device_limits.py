"""What a GPU allows a tiled block, as constraints on its open decisions: threads, registers, shared memory.

Candidates beyond the limits are refused behind postprocessing (:class:`~schedules.postproc.VerifyGPUCode`); as constraints the limits
are a few array operations on a population, before any candidate becomes a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.target import Target
from ir.tir.stmt_functor import variables_in

from ..population.sketch import SketchSchedule
from ..random_variable import DecisionVar
from ..schedule import Schedule

_MOST_REGISTERS = 255
"""Registers of a thread that an instruction can name, on every CUDA device so far."""


@dataclass(frozen=True)
class SharedCache:
    """A cache of an operand in shared memory; numbers are in terms of open decisions."""

    copied: tir.PrimExpr
    """Elements that the threads copy together, for one virtual thread."""
    lanes: tir.PrimExpr
    """Elements that a thread copies at once, where that divides ``copied``."""
    tile_bytes: tir.PrimExpr
    """Memory for what one step of the reduction needs."""
    whole_bytes: tir.PrimExpr
    """Memory for what all steps need. Where the threads do not share the copy evenly, no analysis knows that each step fills its tile
    anew, nor that the last threads of a round copy nothing."""

    @property
    def numbers(self) -> list[tir.PrimExpr]:
        """What :meth:`bytes_of` is given, beside the threads."""
        return [self.copied, self.lanes, self.tile_bytes, self.whole_bytes]

    @property
    def is_known(self) -> bool:
        """Whether decisions alone say all numbers: a tile at a border may have the size that a loop says."""
        return all(isinstance(var, DecisionVar) for number in self.numbers for var in variables_in(number))

    @staticmethod
    def bytes_of(
        threads: np.ndarray, copied: np.ndarray, lanes: np.ndarray, tile: np.ndarray, whole: np.ndarray
    ) -> np.ndarray:
        """Bytes that are allocated [N]."""
        at_once = threads * np.where(copied % lanes == 0, lanes, 1)
        padded = -(-copied // at_once) * at_once
        return np.where(padded == copied, tile, whole * padded / np.maximum(copied, 1))


def keep_within_device(
    sch: Schedule,
    result: tir.Buffer,
    *,
    threads: tir.PrimExpr,
    virtual_threads: tir.PrimExpr,
    results: tir.PrimExpr,
    shared: Sequence[SharedCache],
    target: Target,
) -> None:
    """Allow only candidates that a device can run; a schedule without open decisions is left as it is.

    Args:
        result: what the tiled block writes.
        threads, virtual_threads: of a thread block, in terms of open decisions.
        results: elements that a virtual thread computes.
        shared: operands that are cached in shared memory.
        target: the device.
    """
    if not isinstance(sch, SketchSchedule):
        return
    warp, most_threads = int(target.thread_warp_size), int(target.max_threads_per_block)
    sch.constrain_numbers([threads], lambda count: (count >= warp) & (count <= most_threads))
    most_virtual = int(target.max_vthread_extent)
    sch.constrain_numbers([virtual_threads], lambda count: count <= most_virtual)
    width = -(-dt.bits(result.dtype) // 32)
    registers = int(target.registers_per_block)
    sch.constrain_numbers(
        [results * virtual_threads * width, threads],
        lambda held, count: (held <= _MOST_REGISTERS) & (held * count <= registers),
    )
    most_shared = int(target.max_shared_memory_per_block)

    def fits(count: np.ndarray, *numbers: np.ndarray) -> np.ndarray:
        sizes = [SharedCache.bytes_of(count, *numbers[i : i + 4]) for i in range(0, len(numbers), 4)]
        return np.asarray(np.sum(np.broadcast_arrays(*sizes), axis=0) <= most_shared)

    if shared:
        sch.constrain_numbers([threads, *[number for cache in shared for number in cache.numbers]], fits)


def product_of(extents: Iterable[tir.PrimExpr]) -> tir.PrimExpr:
    """The product of extents, 1 of none."""
    total: tir.PrimExpr = tir.const(1)
    for extent in extents:
        total = total * extent
    return total
