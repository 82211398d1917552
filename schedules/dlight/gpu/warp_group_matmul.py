"""WarpGroupMatmul: products on Hopper by warp groups (wgmma), whose operands the tensor copy engine brings."""

from __future__ import annotations

from ir.target import Target

from ...analysis import producers_of
from ...block_facts import elementwise_consumer, node_of
from ...random_variable import BlockRV
from ...rule.product_form import is_matrix_product
from ...rule.warp_group_tiling import (
    MOST_ROWS_OF_TILES,
    WarpGroupTile,
    tile_for_warp_groups,
    warp_group_tiles,
)
from ...schedule import Schedule
from ...tree import BlockNode
from .rule import GPUScheduleRule, Nests


class WarpGroupMatmul(GPUScheduleRule):
    """Tile products, ``C[b, m, n] = sum_k(A[b, m, k] * B[b, n, k])`` or ``B[b, k, n]``, where the target has ``wgmma``.

    It knows products of static shapes that whole tiles fill, whose operands lie in memory as they are: of float16, bfloat16, int8, float8,
    and of float32 that is rounded to tf32. A block of threads computes a tile, the largest of which there are enough for all
    multiprocessors; its sums go to shared memory and from there, through the elementwise consumer, to the result. All other products are
    left to :class:`Matmul`.
    """

    def stays(self, node: BlockNode) -> bool:
        return is_matrix_product(node)

    def schedule(self, nests: Nests) -> bool:
        sch = nests.sch
        products = [block for block in nests.blocks() if is_matrix_product(node_of(sch, block))]
        tiles = [_tile_for(node_of(sch, block), nests.target) for block in products]
        for block, tile in zip(products, tiles, strict=True):
            if tile is None:
                return False
            tile_for_warp_groups(sch, block, tile, MOST_ROWS_OF_TILES, _followers(sch, block))
        return bool(products)


def _tile_for(node: BlockNode, target: Target) -> WarpGroupTile | None:
    fitting = warp_group_tiles(node, target)
    enough = [tile for tile in fitting if tile.blocks >= target.multi_processor_count]
    return next(iter(enough or fitting[-1:]), None)


def _followers(sch: Schedule, block: BlockRV) -> list[BlockRV]:
    """What uses the results one by one, and nothing else that is still to be computed."""
    consumer = elementwise_consumer(node_of(sch, block))
    if consumer is None or len(producers_of(consumer)) > 1:
        return []
    return [sch.get_block(consumer.name)]
