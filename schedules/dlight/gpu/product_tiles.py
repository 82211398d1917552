"""What tiles of products have in common, whatever computes them: extents rounded up, blocks of threads, what writes results out."""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.target.gpu_facts import MAX_BLOCKS_ASIDE

from ...analysis import producers_of
from ...block_facts import elementwise_consumer, node_of
from ...random_variable import BlockRV, LoopRV
from ...schedule import Schedule
from ...tree import BlockNode


def only_consumer(node: BlockNode) -> BlockNode | None:
    """What alone reads a product's result, element by element, and waits for nothing else."""
    consumer = elementwise_consumer(node)
    return None if consumer is not None and len(producers_of(consumer)) > 1 else consumer


def rounded_up(sch: Schedule, block: BlockRV, sizes: Sequence[int]) -> BlockRV | None:
    """Round the extents of a product up; returns the block that cuts the result to size, if it has to be."""
    extents = [item.dom.extent for item in node_of(sch, block).iter_vars]
    rounded = [
        not isinstance(extent, tir.IntImm) or extent.value % size != 0
        for extent, size in zip(extents, sizes, strict=True)
    ]
    if not any(rounded):
        return None
    result = node_of(sch, block).writes[0].buffer
    sch.pad_einsum(block, sizes)
    return None if node_of(sch, block).writes[0].buffer is result else sch.get_consumers(block)[0]


def bind_blocks(
    sch: Schedule, batch: Sequence[LoopRV], rows: LoopRV, columns: LoopRV, batches: int | None
) -> None:
    """Bind the loops over a product's tiles to blocks of threads; what may be many, or of unknown number, to the axis without a bound.

    Args:
        sch: has the loops.
        batch: those over the batch.
        rows, columns: those over tiles of m and n.
        batches: how many products there are; None where that is symbolic.
    """
    many = batches is None or batches > MAX_BLOCKS_ASIDE
    if batch:
        sch.bind(sch.fuse(*batch), "blockIdx.x" if many else "blockIdx.z")
    sch.bind(rows, "blockIdx.z" if many else "blockIdx.x")
    sch.bind(columns, "blockIdx.y")
