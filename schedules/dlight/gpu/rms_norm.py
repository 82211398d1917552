"""RMSNorm: rows that are divided by the root of their mean square."""

from __future__ import annotations

from ir import tir
from ir.arith.deep_equal import expr_deep_equal

from ...block_facts import is_injective, node_of, operand_loads, reduce_vars
from ...random_variable import BlockRV
from ...tree import BlockNode, LeafNode
from .rows import schedule_rows
from .rule import GPUScheduleRule, Nests


class RMSNorm(GPUScheduleRule):
    """One kernel of which each block of threads has a row: ``B[i, j] = A[i, j] * rsqrt(sum_k(A[i, k] ** 2) ...) * w[j]``.

    Other functions, also normalisations with a mean, are left to :class:`GeneralReduction`.
    """

    def schedule(self, nests: Nests) -> bool:
        blocks = nests.blocks()
        return len(blocks) == 2 and self._is_pattern(nests, *blocks) and schedule_rows(nests, blocks)

    def _is_pattern(self, nests: Nests, sum_of_squares: BlockRV, scaled: BlockRV) -> bool:
        first, second = node_of(nests.sch, sum_of_squares), node_of(nests.sch, scaled)
        if not reduce_vars(first) or not is_injective(second):
            return False
        squared = _squared_buffers(first)
        return len(squared) == 1 and any(load.buffer in squared for load in operand_loads(second))


def _squared_buffers(node: BlockNode) -> set[tir.Buffer]:
    """The buffer of which a block adds up squares, if that is all it does."""
    if not isinstance(node.body, LeafNode) or not isinstance(node.body.leaf, tir.BufferStore):
        return set()
    value = node.body.leaf.value
    if not isinstance(value, tir.Add) or not isinstance(value.b, tir.Mul):
        return set()
    loads = operand_loads(node)
    same = len(loads) == 2 and expr_deep_equal(loads[0], loads[1])
    return {loads[0].buffer} if same else set()
