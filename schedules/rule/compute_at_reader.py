"""ComputeAtReader: a short reduction is computed where its one reader wants each result, in a register of the same thread.

    for i, j: for p in 4: C[i, j] += P[p, i, j]          for i, j: c = 0
    for i, j: D[i, j] = f(C[i, j])                                 for p in 4: c += P[p, i, j]
                                                                   D[i, j] = f(c)

So the sum of the parts of a split reduction has its epilogue in its kernel, and so has a pooling.
"""

from __future__ import annotations

from functools import partial

from ir import tir

from ..block_facts import (
    elementwise_consumer,
    has_data_reuse,
    is_leaf_block,
    is_scheduled,
    node_of,
    reduce_vars,
    reduction_loops,
    stands_alone,
)
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around
from .base import ScheduleRule, unless_refused


class ComputeAtReader(ScheduleRule):
    """Offer a short reduction without data reuse below the innermost loop of what reads it elementwise, beside the nest of its own.

    Args:
        most_elements: of each reduction.
    """

    def __init__(self, most_elements: int = 64) -> None:
        if most_elements < 1:
            raise ScheduleError(f"ComputeAtReader: most_elements must be positive, got {most_elements}")
        self.most_elements = most_elements

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        reader = elementwise_consumer(node_of(sch, block)) if self._is_short(node_of(sch, block)) else None
        if reader is None or is_scheduled(reader) or not stands_alone(reader):
            return [sch]
        return [*unless_refused(sch, partial(_moved, block=block, reader=reader.name)), sch]

    def _is_short(self, node: BlockNode) -> bool:
        if not is_leaf_block(node) or not reduce_vars(node) or has_data_reuse(node) or is_scheduled(node):
            return False
        if not stands_alone(node):
            return False
        elements = 1
        for position in reduction_loops(node):
            extent = loops_around(node)[position].extent
            if not isinstance(extent, tir.IntImm):
                return False
            elements *= extent.value
        return elements <= self.most_elements


def _moved(sch: Schedule, block: BlockRV, reader: str) -> list[Schedule]:
    loops = sch.get_loops(sch.get_block(reader))
    sch.compute_at(block, loops[-1])
    return [sch]
