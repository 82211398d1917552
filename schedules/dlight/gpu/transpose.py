"""Transpose: copies whose operand lies in another order than the result."""

from __future__ import annotations

from math import prod

from ir import tir

from ...annotation import COOPERATIVE_FETCH
from ...random_variable import BlockRV
from ...rule.block_facts import is_injective, is_one, node_of, stands_alone
from ...rule.memory_order import contiguous_loop, transposed_operands
from ...tree import BlockNode, loops_around
from .rule import GPUScheduleRule, Nests
from .sharing import number_of

_SIDE = 32
"""Of the tile that a block of threads moves: a row of it is one access of a warp on either side."""
_ROWS = 8
"""Rows of threads, of which each moves several of the tile."""
_BANKS = 32
_MOST_BLOCKS = (1 << 16) - 1
"""Along ``blockIdx.y`` and ``blockIdx.z``."""


class Transpose(GPUScheduleRule):
    """Pass ``B[j, i] = A[i, j]`` through shared memory in tiles.

    Threads read a tile along its rows and write it along its columns, so that both sides are accessed in whole sectors. Rows of the tile
    are one word longer than there are banks, so that a column has an element in each.
    """

    def schedule(self, nests: Nests) -> bool:
        blocks = nests.blocks()
        if len(blocks) != 1:
            return False
        node = node_of(nests.sch, blocks[0])
        if not is_injective(node) or not stands_alone(node):
            return False
        written = contiguous_loop(node, node.writes[0])
        if written is None:
            return False
        for region in transposed_operands(node, written):
            other = contiguous_loop(node, region)
            if (
                other is not None
                and other != written
                and _is_plain(region)
                and _fits_grid(node, written, other)
            ):
                _through_shared(nests, blocks[0], region, written, other)
                return True
        return False


def _is_plain(region: tir.BufferRegion) -> bool:
    return all(is_one(item.extent) and isinstance(item.min, tir.Var | tir.IntImm) for item in region.region)


def _fits_grid(node: BlockNode, written: int, other: int) -> bool:
    """Whether what runs along ``blockIdx.y`` and ``blockIdx.z`` is not known to be too long."""
    extents = [number_of(loop.extent) for loop in loops_around(node)]
    outer = [extent or 1 for position, extent in enumerate(extents) if position not in (written, other)]
    return prod(outer) <= _MOST_BLOCKS and (extents[written] or 1) <= _SIDE * _MOST_BLOCKS


def _through_shared(nests: Nests, block: BlockRV, region: tir.BufferRegion, written: int, other: int) -> None:
    sch = nests.sch
    node, loops = node_of(sch, block), sch.get_loops(block)
    operand = next(i for i, item in enumerate(node.reads) if item.buffer is region.buffer)
    outer = [loop for position, loop in enumerate(loops) if position not in (written, other)]
    row_tiles, items, rows = sch.split(loops[other], [None, _SIDE // _ROWS, _ROWS])
    column_tiles, columns = sch.split(loops[written], [None, _SIDE])
    sch.reorder(*outer, row_tiles, column_tiles, rows, columns, items)
    if outer:
        sch.bind(sch.fuse(*outer), "blockIdx.z")
    sch.bind(row_tiles, "blockIdx.x")
    sch.bind(column_tiles, "blockIdx.y")
    sch.bind(rows, "threadIdx.y")
    sch.bind(columns, "threadIdx.x")
    copy = sch.cache_read(block, operand, "shared", consumer_blocks=[block])
    sch.compute_at(copy, column_tiles, preserve_unit_loops=True)
    dimensions = len(node_of(sch, copy).iter_vars)
    sch.fuse(*sch.get_loops(copy)[-dimensions:])
    sch.annotate(copy, COOPERATIVE_FETCH, 1)
    sch.storage_align(copy, 0, axis=_row_axis(region), factor=_BANKS, offset=1)


def _row_axis(region: tir.BufferRegion) -> int:
    """The dimension whose step is a row of what a buffer is contiguous along."""
    wide = [axis for axis, extent in enumerate(region.buffer.shape) if not is_one(extent)]
    return wide[-1] - 1
