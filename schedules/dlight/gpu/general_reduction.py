"""GeneralReduction: chains of reductions over the same rows."""

from __future__ import annotations

from ...block_facts import elementwise_consumer, node_of, reduce_vars
from .rows import schedule_rows
from .rule import GPUScheduleRule, Nests


class GeneralReduction(GPUScheduleRule):
    """One kernel for a softmax, a normalisation and the like: each row is a block of threads.

    Elementwise parts are computed where they are read, the results of reductions stay in shared memory, and the
    last nest - elementwise, or a reduction itself - runs on the same threads. One reduction alone, also with an elementwise
    consumer, is left to :class:`~schedules.dlight.gpu.reduction.Reduction`.
    """

    def schedule(self, nests: Nests) -> bool:
        blocks = nests.blocks()
        nodes = [node_of(nests.sch, block) for block in blocks]
        if not any(map(reduce_vars, nodes)) or len(nodes) < 2:
            return False
        if len(nodes) == 2 and not reduce_vars(nodes[1]) and elementwise_consumer(nodes[0]) is not None:
            return False
        return schedule_rows(nests, blocks)
