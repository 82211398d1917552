"""Tiles of operands that pass through the shared memory of a block of threads, read in another order than they lie in."""

from __future__ import annotations

from ir import tir
from ir.target.gpu_facts import BANKS

from ..annotation import COOPERATIVE_FETCH
from ..block_facts import is_one, node_of
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule


def copy_tile_to_shared(sch: Schedule, block: BlockRV, region: tir.BufferRegion, place: LoopRV) -> None:
    """Let the threads of a block copy what a loop's iteration reads of an operand, row by row, before a block reads it.

    Rows are one word longer than there are banks, so that a column has an element in each.

    Args:
        sch: has the block.
        block: reads the operand once.
        region: that it reads.
        place: the loop, inside of which the copy is made.
    """
    operand = next(i for i, item in enumerate(node_of(sch, block).reads) if item.buffer is region.buffer)
    copy = sch.cache_read(block, operand, "shared", consumer_blocks=[block])
    sch.compute_at(copy, place, preserve_unit_loops=True)
    dimensions = len(node_of(sch, copy).iter_vars)
    sch.fuse(*sch.get_loops(copy)[-dimensions:])
    sch.annotate(copy, COOPERATIVE_FETCH, 1)
    sch.storage_align(copy, 0, axis=_row_axis(region), factor=BANKS, offset=1)


def _row_axis(region: tir.BufferRegion) -> int:
    """The dimension whose step is a row: the one before that along which a buffer is contiguous."""
    wide = [axis for axis, extent in enumerate(region.buffer.shape) if not is_one(extent)]
    return wide[-1] - 1
