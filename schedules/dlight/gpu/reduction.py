"""Reduction: one reduction, with what is computed of its result."""

from __future__ import annotations

from ...block_facts import (
    elementwise_consumer,
    is_product,
    node_of,
    reduce_vars,
    reduces_side_by_side,
    stands_alone,
)
from ...rule.split_reduction import numbers_of_parts, split_reduction
from .rows import schedule_rows
from .rule import GPUScheduleRule, Nests
from .sharing import COLUMNS, PART_THREADS, SHARING, is_short, share_columns, share_rows


class Reduction(GPUScheduleRule):
    """Let threads share a reduction, ``B[i] = sum_j(A[i, j])``: a block of threads for each result where A is contiguous along j.

    Where it is contiguous along i, neighbouring threads have neighbouring columns, and some rows of threads share each column. An
    elementwise consumer of the result is computed in the same kernel. Of a few long reductions parts are computed first, in a kernel of
    their own, so that all multiprocessors have something to do. Short reductions are left to rules behind this one.
    """

    def schedule(self, nests: Nests) -> bool:
        sch, blocks = nests.sch, nests.blocks()
        nodes = [node_of(sch, block) for block in blocks]
        if [bool(reduce_vars(node)) for node in nodes] not in ([True], [True, False]):
            return False
        node = nodes[0]
        if not stands_alone(node) or is_short(node) or is_product(node):
            return False
        if len(blocks) == 2 and elementwise_consumer(node) is None:
            return False
        parts = numbers_of_parts(node, nests.target)
        if not reduces_side_by_side(node):
            if parts:
                first = split_reduction(sch, blocks[0], parts[0])
                share_rows(sch, first, nests.number(PART_THREADS, [128, 256, 512]))
            return schedule_rows(nests, blocks)
        columns, sharing = nests.number(COLUMNS, [16, 32, 64]), nests.number(SHARING, [4, 8, 16])
        if parts:
            share_columns(sch, split_reduction(sch, blocks[0], parts[0]), None, columns, sharing)
        share_columns(sch, blocks[0], blocks[1] if len(blocks) == 2 else None, columns, sharing)
        return True
