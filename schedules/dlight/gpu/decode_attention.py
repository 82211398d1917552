"""DecodeAttention: one query for each head, in two kernels that all multiprocessors share."""

from __future__ import annotations

from ...block_facts import node_of
from ...rule.online_tiles import inline_producers, inline_rounded_weights
from ...rule.reduction_chain import chain_of, is_extreme, is_sum
from ...rule.split_keys import shares_of, split_keys
from ...tree import BlockNode
from .rule import GPUScheduleRule, Nests


class DecodeAttention(GPUScheduleRule):
    """Compute ``softmax(q K^T) V`` of single queries in parts of the keys: :class:`~schedules.rule.SplitKeys`.

    Of the numbers of parts that divide the keys, the one is taken that gives each multiprocessor a few blocks of threads. Several
    queries of a head are left to :class:`~schedules.dlight.gpu.attention.Attention`, which loads keys once for all of them.
    """

    splits_groups = False

    def stays(self, node: BlockNode) -> bool:
        return is_sum(node)

    def schedule(self, nests: Nests) -> bool:
        sch = nests.sch
        for node in nests.nodes():
            if not is_extreme(node):
                continue
            block = sch.get_block(node.name)
            inline_producers(sch, block)
            inline_rounded_weights(sch, block)
            chain = chain_of(node_of(sch, block))
            shares = [] if chain is None else shares_of(chain, nests.target)
            if shares:
                split_keys(sch, block, shares[0])
                return True
        return False
