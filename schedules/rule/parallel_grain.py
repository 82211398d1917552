"""ParallelGrain: how many jobs the rows of a nest are in which several blocks run one after the other.

    for i (128): ...                                  # a reduction along memory, and what is computed from it

becomes, as a structure of its own,

    for i0 (parallel): for i1: ...

Jobs of one row each share the work out evenly; few long ones cost less to hand out. A nest of which only the rows are known, such
as one of positions of maxima, is shared out by this rule alone.
"""

from __future__ import annotations

from ir import tir

from ..annotation import PARALLEL
from ..block_facts import is_data_parallel, is_one, node_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, blocks_below, child_blocks, loops_around, scope_of
from .base import ScheduleRule


class ParallelGrain(ScheduleRule):
    """Offer the rows of a program's only nest in jobs of a sampled length, where several blocks run in it.

    The nest as it was is offered too: its rows are marked as :class:`~schedules.rule.ParallelizeVectorizeUnroll` finds.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        position = _rows(node_of(sch, block))
        if position is None:
            return [sch]
        shared = sch.copy()
        loop = shared.get_loops(block)[position]
        extent = shared.get(loop).extent
        jobs, _ = shared.split(loop, shared.sample_perfect_tile(loop, 2, int(extent.value)))
        shared.annotate(jobs, PARALLEL, 1)
        return [sch, shared]


def _rows(node: BlockNode) -> int | None:
    """The position of the outermost loop that runs more than once, if the block ends the only nest of a program."""
    loops = loops_around(node)
    root = scope_of(node)
    if not loops or root is None or root.body is not loops[0] or child_blocks(root)[-1] is not node:
        return None
    position = next((i for i, loop in enumerate(loops) if not is_one(loop.extent)), None)
    if position is None or any(loop.annotations for loop in loops[: position + 1]):
        return None
    rows = loops[position]
    if not isinstance(rows.extent, tir.IntImm) or not rows.begins_at_zero or not is_data_parallel(rows):
        return None
    return position if len(blocks_below(rows)) > 1 else None
