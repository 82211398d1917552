"""Transpose: copies whose operand lies in another order than the result."""

from __future__ import annotations

from math import prod

from ir import tir
from ir.target.gpu_facts import MAX_BLOCKS_ASIDE

from ...block_facts import is_injective, is_one, node_of, number_of, stands_alone
from ...random_variable import BlockRV
from ...rule.memory_order import contiguous_loop, transposed_operands
from ...rule.shared_tile import copy_tile_to_shared
from ...tree import BlockNode, loops_around
from .rule import GPUScheduleRule, Nests

_SIDE = 32
"""Of the tile that a block of threads moves: a row of it is one access of a warp on either side."""
_ROWS = 8
"""Rows of threads, of which each moves several of the tile."""


class Transpose(GPUScheduleRule):
    """Pass ``B[j, i] = A[i, j]`` through shared memory in tiles.

    Threads read a tile along its rows and write it along its columns, so that both sides are accessed in whole sectors.
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
    return prod(outer) <= MAX_BLOCKS_ASIDE and (extents[written] or 1) <= _SIDE * MAX_BLOCKS_ASIDE


def _through_shared(nests: Nests, block: BlockRV, region: tir.BufferRegion, written: int, other: int) -> None:
    sch = nests.sch
    loops = sch.get_loops(block)
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
    copy_tile_to_shared(sch, block, region, column_tiles)
