"""Persistent blocks: as many blocks of threads as a GPU holds at a time, each of which computes several tiles, one after the other.

    for b in blocks (blockIdx): for t in tiles of a block: for w (threadIdx): ...

No block starts late, and what a block sets up is used for all of its tiles. (Gupta, Stuart, Owens: "A study of persistent threads style
GPU programming for GPGPU workloads", InPar 2012.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ir import tir
from ir.target import Target

from ..error import ScheduleError
from ..schedule import Schedule
from ..tree import BlockNode
from .device_limits import SharedCache, bytes_together, numbers_of

_FEWEST_TILES = 2
_BUSY = 0.75
"""The part of the multiprocessors that has a block at least."""


def require_tiles(node: BlockNode, target: Target) -> None:
    """Refuse a block, of which each iteration computes a smallest tile, that has not several for each multiprocessor.

    Raises:
        ScheduleError: it has too few. To find that out from open decisions would take long.
    """
    extents = [item.dom.extent for item in node.iter_vars if item.iter_type == tir.IterVar.DataPar]
    tiles = prod(extent.value for extent in extents if isinstance(extent, tir.IntImm))
    processors = int(target.attrs.get("multi_processor_count") or 1)
    if tiles < _FEWEST_TILES * _BUSY * processors:
        raise ScheduleError(f"block {node.name!r} has {tiles} tiles for {processors} multiprocessors")


def keep_resident(
    sch: Schedule,
    *,
    grid: tir.PrimExpr,
    tiles: tir.PrimExpr,
    threads: tir.PrimExpr,
    shared: Sequence[SharedCache],
    target: Target,
) -> None:
    """Allow only candidates whose blocks all run at a time, on most multiprocessors, with several tiles each.

    How many fit is said by their threads and shared memory; how many registers the compiler takes is not known before.

    Args:
        grid: blocks, in terms of open decisions.
        tiles: that each of them computes one after the other.
        threads: of a block.
        shared: what it has in shared memory.
        target: the device.

    Raises:
        ScheduleError: no candidate is left, as of products with fewer tiles than there are multiprocessors.
    """
    processors = int(target.attrs.get("multi_processor_count") or 1)
    facts = target.multiprocessor

    def fits(blocks: np.ndarray, own: np.ndarray, count: np.ndarray, *numbers: np.ndarray) -> np.ndarray:
        held = bytes_together(shared, count, *numbers) + facts.reserved_shared_memory_bytes
        resident = np.minimum(
            facts.threads // count, target.shared_memory_per_multiprocessor // np.maximum(held, 1)
        )
        most = processors * np.clip(resident, 1, facts.blocks)
        found: np.ndarray = (own >= _FEWEST_TILES) & (blocks <= most) & (blocks >= _BUSY * processors)
        return found

    sch.constrain_numbers([grid, tiles, threads, *numbers_of(shared)], fits)
    if not sch.has_candidates():
        raise ScheduleError(
            f"no tiles keep the {processors} multiprocessors of {target} busy with blocks that stay"
        )
