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
from ir.target.gpu_facts import MAX_REGISTERS_OF_THREAD
from ir.tir.stmt_functor import variables_in

from ..error import ScheduleError
from ..random_variable import DecisionVar
from ..schedule import Schedule

THREADS_PER_BLOCK = (32, 64, 128, 256, 512, 1024)
"""Candidates of the threads of a block, where nothing else says how many there are."""


@dataclass(frozen=True)
class RowStep:
    """Rows in shared memory begin ``offset`` elements behind a multiple of ``factor``, as ``storage_align`` has it."""

    factor: int = 1
    offset: int = 0

    def of(self, columns: np.ndarray) -> np.ndarray:
        """Elements from a row to the next one."""
        step: np.ndarray = columns + (self.offset - columns) % self.factor
        return step


@dataclass(frozen=True)
class SharedCache:
    """A cache of an operand in shared memory; extents are in terms of open decisions, one for each dimension."""

    copied: Sequence[tir.PrimExpr]
    """Of what the threads copy together, for one virtual thread."""
    tile: Sequence[tir.PrimExpr]
    """Of what one step of the reduction needs, all virtual threads together."""
    whole: Sequence[tir.PrimExpr]
    """Of what all steps need."""
    lanes: tir.PrimExpr
    """Elements that a thread copies at once, where that divides their number."""
    element_bytes: int
    versions: tir.PrimExpr | int = 1
    """Copies for the stages of a pipeline."""
    row: RowStep = RowStep()
    """How far the rows of its last dimension lie apart."""

    @property
    def numbers(self) -> list[tir.PrimExpr]:
        """What :meth:`bytes_of` is given, beside the threads."""
        return [self.lanes, tir.convert(self.versions), *self.copied, *self.tile, *self.whole]

    @property
    def is_known(self) -> bool:
        """Whether decisions alone say all numbers: a tile at a border may have the size that a loop says."""
        return all(isinstance(var, DecisionVar) for number in self.numbers for var in variables_in(number))

    def bytes_of(
        self, threads: np.ndarray, lanes: np.ndarray, versions: np.ndarray, *extents: np.ndarray
    ) -> np.ndarray:
        """Bytes that are allocated at most [N], from numbers [N] or []: exactly those where the threads share the copy evenly.

        Where they do not, no analysis need know that each step fills its tile anew, and the last round reaches into rows behind it.
        """
        threads, lanes, versions, *sizes = np.broadcast_arrays(threads, lanes, versions, *extents)
        copied, tile, whole = np.split(np.stack(sizes), 3)
        number = copied.prod(axis=0)
        at_once = threads * np.where(number % lanes == 0, lanes, 1)
        padded = -(-number // at_once) * at_once
        first = (copied > 1).argmax(axis=0)[None]  # the outermost dimension that the copy runs through
        rows = np.take_along_axis(copied, first, 0)[0]
        beyond = -(-padded * rows // np.maximum(number, 1)) - rows
        with_last_round = whole.copy()
        np.put_along_axis(with_last_round, first, np.take_along_axis(whole, first, 0) + beyond, 0)
        elements = np.where(padded == number, self._stored(tile), self._stored(with_last_round))
        found: np.ndarray = versions * self.element_bytes * elements
        return found

    def _stored(self, extents: np.ndarray) -> np.ndarray:
        """Elements that a box takes, from its extents [dimensions, N]."""
        rows, columns = extents[:-1].prod(axis=0), extents[-1]
        return rows * (self.row.of(columns) if len(extents) > 1 else columns)


def keep_within_device(
    sch: Schedule,
    result: tir.Buffer,
    *,
    threads: tir.PrimExpr,
    virtual_threads: tir.PrimExpr,
    results: tir.PrimExpr,
    shared: Sequence[SharedCache],
    target: Target,
    operands: tir.PrimExpr | int = 0,
) -> None:
    """Allow only candidates that a device can run, and none whose results need more registers than there are.

    Some that it could run are left out, where threads do not share copies evenly, or are fewer than a warp. A schedule without open
    decisions is left as it is.

    Args:
        result: what the tiled block writes.
        threads, virtual_threads: of a thread block, in terms of open decisions.
        results: elements that a virtual thread computes.
        shared: what is cached in shared memory.
        target: the device.
        operands: registers of a thread that hold operands, besides.

    Raises:
        ScheduleError: no candidate is left, as of a block with fewer results than a warp has threads.
    """
    warp, most_threads = int(target.thread_warp_size), int(target.max_threads_per_block)
    sch.constrain_numbers([threads], lambda count: (count >= warp) & (count <= most_threads))
    most_virtual = int(target.max_vthread_extent)
    sch.constrain_numbers([virtual_threads], lambda count: count <= most_virtual)
    width = -(-dt.bits(result.dtype) // 32)
    registers = int(target.registers_per_block)
    sch.constrain_numbers(
        [results * virtual_threads * width + operands, threads],
        lambda held, count: (held <= MAX_REGISTERS_OF_THREAD) & (held * count <= registers),
    )
    most_shared = int(target.max_shared_memory_per_block_optin)
    if shared:
        sch.constrain_numbers(
            [threads, *numbers_of(shared)],
            lambda count, *numbers: bytes_together(shared, count, *numbers) <= most_shared,
        )
    if not sch.has_candidates():
        raise ScheduleError(f"no tile of {result.name!r} is within the limits of {target}")


def numbers_of(shared: Sequence[SharedCache]) -> list[tir.PrimExpr]:
    """What :func:`bytes_together` is given, beside the threads."""
    return [number for cache in shared for number in cache.numbers]


def bytes_together(shared: Sequence[SharedCache], threads: np.ndarray, *numbers: np.ndarray) -> np.ndarray:
    """Bytes of all caches of a block at most [N]."""
    left, total = list(numbers), np.zeros(1, dtype=np.int64)
    for cache in shared:
        own, left = left[: len(cache.numbers)], left[len(cache.numbers) :]
        total = total + cache.bytes_of(threads, *own)
    return total


def product_of(extents: Iterable[tir.PrimExpr]) -> tir.PrimExpr:
    """The product of extents, 1 of none."""
    total: tir.PrimExpr = tir.const(1)
    for extent in extents:
        total = total * extent
    return total
