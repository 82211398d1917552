"""Attention: a product, a softmax and a product in one kernel, on tensor cores where these multiply its operands."""

from __future__ import annotations

from functools import partial
from math import prod

from ...block_facts import node_of
from ...random_variable import BlockRV
from ...rule.base import unless_refused
from ...rule.online_fragments import WarpTiles, fuse_in_fragments
from ...rule.online_tiles import (
    OnlineTiles,
    Shape,
    fuse_online,
    inline_producers,
    inline_rounded_weights,
    operand_loads_of,
    sizes_of,
)
from ...rule.online_tiles_tensor_core import OnlineTilesTensorCore, prepared, shared_bytes_of
from ...rule.reduction_chain import Chain, chain_of, has_mask, is_extreme, is_sum
from ...tree import BlockNode
from .rule import GPUScheduleRule, Nests

_WARPS = 8
"""Of a block at least, where its tile has work for them: two for each scheduler of a multiprocessor, of which one may wait."""
_SCHEDULERS = 4
"""Of a multiprocessor, each with a warp of a block on tensor cores, and room for another one that waits meanwhile."""
_FED_ROWS = 128
"""Of a tile: more do not make loads from global memory less than others."""
_SLOWER = 4
"""Times the rate at which shared memory feeds tensor cores that other units multiply at, about."""


class Attention(GPUScheduleRule):
    """Compute ``softmax(Q K^T) V`` tile by tile of the keys, with a running maximum.

    Operands of float16 and bfloat16 in whole tiles of 16 are multiplied by tensor cores (:class:`~schedules.rule.OnlineTilesTensorCore`),
    others by :class:`~schedules.rule.OnlineTiles`. Tiles that a mask hides are passed over. Of the shapes that fit a block, the
    one that loads least for each product is taken, among those with work for all multiprocessors. Chains without a product, of a
    single row such as a query of a decoder, or with extents that no tile divides, are left to the rules behind.
    """

    splits_groups = False

    def stays(self, node: BlockNode) -> bool:
        return is_sum(node)

    def schedule(self, nests: Nests) -> bool:
        sch = nests.sch
        for node in nests.nodes():
            if not is_extreme(node):
                continue
            block = sch.get_block(node.name)
            inline_producers(sch, block)
            if self._in_fragments(nests, block) or self._in_tiles(nests, block):
                return True
        return False

    def _in_fragments(self, nests: Nests, block: BlockRV) -> bool:
        """On tensor cores, if they multiply the operands."""
        (start,) = unless_refused(nests.sch, partial(prepared, block=block)) or [nests.sch]
        chain = chain_of(node_of(start, block))
        sizes = sizes_of(chain) if chain is not None else None
        if chain is None or sizes is None:
            return False
        rule = OnlineTilesTensorCore()
        rule.initialize(nests.target)
        rows, processors = prod(chain.rows), int(nests.target.attrs.get("multi_processor_count", 1))
        room = int(nests.target.shared_memory_per_multiprocessor)

        def cost(shape: WarpTiles) -> tuple[float | bool, ...]:
            """First that there is work for all schedulers and multiprocessors, then what it loads."""
            resident = shape.warps * (room // shared_bytes_of(shape, *sizes[1:]))
            return (
                -min(1.0, rows / (shape.warp_rows * _SCHEDULERS * processors)),
                shape.warps < _SCHEDULERS,
                rows // shape.tile.rows < processors // 2,
                resident < 2 * _SCHEDULERS,
                not shape.is_pipelined,
                _fragment_loads_of(shape),
                shape.warps,
            )

        shape = min(rule.shapes(chain), key=cost, default=None)
        if shape is None:
            return False
        for skips in (True, False) if has_mask(chain) else (False,):
            made = unless_refused(start, partial(fuse_in_fragments, block=block, shape=shape, skips=skips))
            if made:
                (nests.sch,) = made
                return True
        return False

    def _in_tiles(self, nests: Nests, block: BlockRV) -> bool:
        sch = nests.sch
        inline_rounded_weights(sch, block)
        chain = chain_of(node_of(sch, block))
        rule = OnlineTiles()
        rule.initialize(nests.target)
        if chain is None or not chain.has_product or sizes_of(chain) is None:
            return False
        shape = self._preferred([item for item in rule.shapes(chain) if item.tile.rows > 1], chain, nests)
        if shape is None:
            return False
        skipping = partial(fuse_online, block=block, shape=shape, skips=True)
        skips = has_mask(chain) and bool(unless_refused(sch, skipping))
        fuse_online(sch, block, shape, skips)
        return True

    def _preferred(self, shapes: list[Shape], chain: Chain, nests: Nests) -> Shape | None:
        sizes = sizes_of(chain)
        if not shapes or sizes is None:
            return None
        processors = int(nests.target.attrs.get("multi_processor_count", 1))
        warp = int(nests.target.thread_warp_size)

        def cost(shape: Shape) -> tuple[bool, bool, float]:
            n_blocks = prod(chain.rows) // shape.tile.rows
            return n_blocks < processors, shape.threads < _WARPS * warp, operand_loads_of(shape, sizes[1])

        return min(shapes, key=cost)


def _fragment_loads_of(shape: WarpTiles) -> float:
    """What a warp loads from shared memory for each product of both kinds that it takes, what the block does from global memory, and how
    often other units bring results to a new maximum.
    """
    queries = 0 if shape.keeps_queries else 1 / shape.tile.keys
    rescaled = _SLOWER / shape.tile.keys
    return 2 / shape.warp_rows + queries + 2 / min(shape.tile.rows, _FED_ROWS) + rescaled
