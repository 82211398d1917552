"""MaskedReduction: a sum under a mask, such as a product with a triangular matrix, without the tiles that the mask hides.

    for i0, k0, i1, k1: C[i] += if_then_else(k <= i, A[i, k] * B[k], 0)    ->    the same where k0 has something that i0 sees

It comes behind the rules that make tiles, and marks the outermost loop of a reduction. The step is taken when reductions are initialised
apart (:class:`~schedules.postproc.SkipMasked`); that it means the same is shown here and there. Chains of reductions leave their tiles out
by themselves (:class:`~schedules.rule.ReductionChain`).
"""

from __future__ import annotations

from ir import tir
from ir.tir.conjunction import conjuncts

from ..affine import mentions
from ..analysis import why_not_reduction
from ..annotation import SKIP_MASKED
from ..block_facts import node_of, reduce_vars
from ..bounds import slack
from ..masked import Iteration, percentage_seen
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..stored_value import choices_in
from ..tree import BlockNode, LeafNode, LoopNode, loops_around
from .base import ScheduleRule, unless_refused

_MOST_COUNTED = 1 << 22
"""Instances at most that are counted one by one."""


class MaskedReduction(ScheduleRule):
    """Offer tiled reductions under a mask with those tiles left out of which the mask hides everything."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if why_not_reduction(node) is not None or not isinstance(node.body, LeafNode):
            return [sch]
        feeding = [loop for loop in loops_around(node) if _feeds_reduction(loop, node)]
        percentage = _percentage_seen(node)
        if (
            len(feeding) < 2
            or percentage is None
            or any(SKIP_MASKED in loop.annotations for loop in loops_around(node))
        ):
            return [sch]
        position = loops_around(node).index(feeding[0])

        def rehearsed(copy: Schedule) -> list[Schedule]:
            loop = copy.get_loops(block)[position]
            copy.decompose_reduction(block, loop)
            skipped = [item for hidden in Iteration(copy._loop(loop)).hidden for item in hidden.skipped]
            return [copy] if any(reduce_vars(item) for item in skipped) else []

        if not unless_refused(sch, rehearsed):
            return [sch]
        skipping = sch.copy()
        skipping.annotate(skipping.get_loops(block)[position], SKIP_MASKED, percentage)
        return [skipping, sch]


def _feeds_reduction(loop: LoopNode, node: BlockNode) -> bool:
    reductions = set(reduce_vars(node))
    return any(
        item.var in reductions and mentions(value, {loop.var})
        for item, value in zip(node.iter_vars, node.iter_values, strict=True)
    )


def _percentage_seen(node: BlockNode) -> int | None:
    """How much of a block's domain its masks leave, in percent, rounded up; None where that is not known."""
    assert isinstance(node.body, LeafNode)
    clauses = [clause for _, condition, _, _ in choices_in(node.body.leaf) for clause in conjuncts(condition)]
    masks = [distance for clause in clauses if (distance := slack(clause)) is not None]
    if not all(isinstance(item.dom.min, tir.IntImm) and item.dom.min.value == 0 for item in node.iter_vars):
        return None
    return percentage_seen(masks, {item.var: item.dom.extent for item in node.iter_vars}, _MOST_COUNTED)
