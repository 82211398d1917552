"""Operands of products in shared memory: what all threads of a block fetch for a step, with what is computed of them on the way."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES

from ...affine import mentions
from ...annotation import COOPERATIVE_FETCH
from ...block_facts import is_spatial, node_of
from ...random_variable import BlockRV, LoopRV
from ...schedule import Schedule
from ...tree import BlockNode, loops_around


def staged(sch: Schedule, block: BlockRV, position: int, order: Sequence[int]) -> BlockRV:
    """A copy of an operand in shared memory, whose dimensions are those of the operand in another order.

    Args:
        sch: has the product.
        block: the product.
        position: of the operand among what it reads.
        order: the operand's dimensions, as the copy has them.
    """
    copy = sch.cache_read(block, position, "shared", consumer_blocks=[block])
    _inline_makers(sch, copy)
    if list(order) != list(range(len(order))):
        sch.transform_layout(copy, ("write", 0), lambda *indices: [indices[i] for i in order])
    return copy


def fetched(sch: Schedule, copy: BlockRV, step: LoopRV, threads: int, alignment: tuple[int, int]) -> None:
    """Let all threads make a copy's part of a step, in the order in which they find it in memory.

    Args:
        sch: has the copy.
        copy: what :func:`staged` gives.
        step: the loop over steps.
        threads: of a block.
        alignment: factor and offset to which rows of the copy are aligned, so that columns lie in several banks.
    """
    count = len(node_of(sch, copy).iter_vars)
    sch.compute_at(copy, step, preserve_unit_loops=True)
    node, loops = node_of(sch, copy), sch.get_loops(copy)[-count:]
    contiguous = _contiguous(node, count)
    if contiguous is not None and contiguous != count - 1:
        sch.reorder(loops[-1], loops[contiguous])
        loops[-1], loops[contiguous] = loops[contiguous], loops[-1]
    lanes = 1 if contiguous is None else lanes_of(node, node.reads[0])
    while lanes > 1 and threads * lanes > _elements_of(node, count):
        lanes //= 2
    sch.fuse(*loops)
    sch.annotate(copy, COOPERATIVE_FETCH, lanes)
    sch.storage_align(copy, 0, axis=count - 2, factor=alignment[0], offset=alignment[1])


def _inline_makers(sch: Schedule, copy: BlockRV) -> None:
    """Compute in a copy what is computed of an operand element by element, a convolution's padding included."""
    while makers := [item for item in sch.get_producers(copy) if _can_go(node_of(sch, item))]:
        sch.compute_inline(makers[0])


def _can_go(node: BlockNode) -> bool:
    """Whether a block computes every element once, and is not what writes out another product's tiles."""
    return is_spatial(node) and all(loop.thread_binding is None for loop in loops_around(node))


def _elements_of(node: BlockNode, count: int) -> int:
    """How often the innermost loops of a block run."""
    return prod(
        loop.extent.value for loop in loops_around(node)[-count:] if isinstance(loop.extent, tir.IntImm)
    )


def _contiguous(node: BlockNode, count: int) -> int | None:
    """The loop, among the innermost ones of a copy, along which the memory that it reads is contiguous."""
    for item, dim in zip(reversed(node.reads[0].region), reversed(node.reads[0].buffer.shape), strict=True):
        if isinstance(dim, tir.IntImm) and dim.value == 1:
            continue
        if not isinstance(item.min, tir.Var):
            return None
        value = dict(zip([axis.var for axis in node.iter_vars], node.iter_values, strict=True)).get(item.min)
        own = loops_around(node)[-count:]
        found = [i for i, loop in enumerate(own) if value is not None and mentions(value, {loop.var})]
        return found[0] if len(found) == 1 else None
    return None


def lanes_of(node: BlockNode, region: tir.BufferRegion) -> int:
    """Elements that a thread accesses at once in rows of a buffer."""
    row = region.buffer.shape[-1]
    lanes = ACCESS_BYTES // max(dt.bytes_of(item.buffer.dtype) for item in (*node.reads, *node.writes))
    while lanes > 1 and (not isinstance(row, tir.IntImm) or row.value % lanes):
        lanes //= 2
    return max(lanes, 1)


def writes_neighbours(node: BlockNode) -> bool:
    """Whether the innermost loop of a copy runs through neighbours in the memory that it writes."""
    last = node.writes[0].region[-1].min
    innermost = loops_around(node)[-1].var
    return any(
        item.var is last and mentions(value, {innermost})
        for item, value in zip(node.iter_vars, node.iter_values, strict=True)
    )
