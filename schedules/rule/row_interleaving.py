"""RowInterleaving: rows that a program computes one by one, such as running sums, run several at a time on each core.

    for row (parallel): for k: s[0] += A[row, k]; B[row, k] = s[0]

waits for every addition before the next one. With four rows side by side,

    for row0 (parallel): for k:
        for row1 (unrolled): s[row1] += A[row0 * 4 + row1, k]
        for row1 (unrolled): B[row0 * 4 + row1, k] = s[row1]

the core adds to the other three meanwhile. It needs no knowledge of what a row computes: iterations of a parallel loop are independent.
"""

from __future__ import annotations

from functools import partial

from ir import tir
from ir.tir import ForKind

from ..block_facts import node_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, all_blocks
from .base import ScheduleRule, unless_refused


class RowInterleaving(ScheduleRule):
    """Offer the parallel loops in an opaque block with several iterations at a time; how many is sampled.

    Args:
        max_rows: iterations at a time at most.
    """

    def __init__(self, max_rows: int = 16) -> None:
        self.max_rows = max_rows

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        names = [] if node.iter_vars else [item.name for item in all_blocks(node) if _is_row(item)]
        if not names:
            return [sch]
        return [sch, *unless_refused(sch, partial(self._interleave, names=names))]

    def _interleave(self, sch: Schedule, names: list[str]) -> list[Schedule]:
        for name in names:
            loop = sch.get_loops(sch.get_block(name))[-1]
            jobs, rows = sch.sample_perfect_tile(loop, 2, self.max_rows)
            sch.restrict_tile([jobs, rows], lambda table: table[:, 1] > 1)
            sch.interleave(loop, rows)
        return [sch]


def _is_row(block: BlockNode) -> bool:
    """Whether a block is all that a parallel loop of known extent holds."""
    loop = block.parent
    return (
        isinstance(loop, LoopNode)
        and loop.kind == ForKind.PARALLEL
        and isinstance(loop.extent, tir.IntImm)
        and loop.extent.value > 1
        and not block.iter_vars
    )
