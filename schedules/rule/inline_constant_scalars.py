"""InlineConstantScalars: put constants that have a block of their own where they are used."""

from __future__ import annotations

from ..block_facts import is_leaf_block, is_one, node_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from .base import ScheduleRule


class InlineConstantScalars(ScheduleRule):
    """Inline blocks that read nothing and write a single element."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        single = is_leaf_block(node) and all(
            is_one(dim) for region in node.writes for dim in region.buffer.shape
        )
        if node.reads or not single:
            return [sch]
        sch.compute_inline(block)
        return [sch]
