"""Reduction: one reduction, with what is computed of its result."""

from __future__ import annotations

from ir import tir

from ...random_variable import BlockRV
from ...rule.block_facts import (
    elementwise_consumer,
    is_product,
    node_of,
    reduce_vars,
    reduces_side_by_side,
    reduction_loops,
    stands_alone,
)
from ...tree import BlockNode, loops_around
from .rows import move_reduction_inside, schedule_rows
from .rule import GPUScheduleRule, Nests

_SHORT = 32
"""Elements of reductions that a thread rather computes alone."""
_COLUMNS, _SHARING = 32, 8
"""Threads side by side on neighbouring columns, and threads that share each column."""


class Reduction(GPUScheduleRule):
    """Let threads share a reduction, ``B[i] = sum_j(A[i, j])``: a block of threads for each result where it is contiguous along j.

    Where it is contiguous along i, neighbouring threads have neighbouring columns, and some rows of threads share each column. An elementwise
    consumer of the result is computed in the same kernel. Short reductions are left to rules behind this one.
    """

    def schedule(self, nests: Nests) -> bool:
        blocks = nests.blocks()
        reductions = [block for block in blocks if reduce_vars(node_of(nests.sch, block))]
        if len(reductions) != 1 or len(blocks) > 2 or blocks[0] is not reductions[0]:
            return False
        node = node_of(nests.sch, blocks[0])
        if not stands_alone(node) or is_short(node) or is_product(node):
            return False
        if reduces_side_by_side(node):
            return len(blocks) == 1 and schedule_columns(nests, blocks[0])
        if len(blocks) == 2 and elementwise_consumer(node) is None:
            return False
        return schedule_rows(nests, blocks)


def is_short(node: BlockNode) -> bool:
    """Whether a reduction is known to be over a few elements."""
    total = 1
    for position in reduction_loops(node):
        extent = loops_around(node)[position].extent
        if not isinstance(extent, tir.IntImm):
            return False
        total *= extent.value
    return total < _SHORT


def schedule_columns(nests: Nests, block: BlockRV) -> bool:
    """Neighbouring results of a reduction on neighbouring threads, each shared by a few; False where there is but one result."""
    sch = nests.sch
    move_reduction_inside(sch, block)
    positions = reduction_loops(node_of(sch, block))
    loops = sch.get_loops(block)
    if not positions or positions[0] == 0:
        return False
    columns = sch.fuse(*loops[: positions[0]])
    reduced = sch.fuse(*loops[positions[0] :])
    blocks, own = sch.split(columns, [None, nests.number(_COLUMNS, [16, 32, 64])])
    _outer, sharing = sch.split(reduced, [None, nests.number(_SHARING, [4, 8, 16])])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(own, "threadIdx.x")
    sch.bind(sharing, "threadIdx.y")
    return True
