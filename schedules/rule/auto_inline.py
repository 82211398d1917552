"""AutoInline: merge elementwise and injective blocks into their consumers or producers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from ir.tir.stmt_functor import loads_in, variables_in

from ..analysis import consumers_of, is_output_block, producers_of
from ..block_facts import (
    contains_call,
    elementwise_consumer,
    has_data_reuse,
    is_injective,
    is_leaf_block,
    is_long,
    is_spatial,
    node_of,
    read_count,
)
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode
from .base import ScheduleRule


class AutoInline(ScheduleRule):
    """Inline a block where its expression is cheap to repeat.

    Args:
        into_producer: try reverse_compute_inline.
        into_consumer: try compute_inline.
        inline_const_tensor: inline blocks without inputs (constants).
        disallow_if_then_else: keep blocks that branch (padding) as they are.
        require_injective: keep blocks that write elsewhere than at distinct variables of their own, such as a reshape, which may move into
            their producers only.
        require_ordered: keep blocks that read at their variables in another order than they write: transpositions.
        disallow_op: intrinsics that make a block too expensive to repeat.
    """

    def __init__(
        self,
        into_producer: bool = False,
        into_consumer: bool = True,
        inline_const_tensor: bool = True,
        disallow_if_then_else: bool = True,
        require_injective: bool = True,
        require_ordered: bool = False,
        disallow_op: Sequence[str] | None = None,
    ) -> None:
        self.into_producer, self.into_consumer = into_producer, into_consumer
        self.inline_const_tensor, self.disallow_if_then_else = inline_const_tensor, disallow_if_then_else
        self.require_injective, self.require_ordered = require_injective, require_ordered
        self.disallow_op = frozenset(disallow_op or ())

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if is_output_block(node) and not self.into_producer:
            return [sch]
        if not self._has_right_indices(node) or LAYOUT_REWRITE_PREPROC in node.annotations:
            return [sch]
        if not is_output_block(node) and any(item.buffer.scope() != "global" for item in node.writes):
            return [sch]  # another rule put it there: a cache
        if not node.reads and not self.inline_const_tensor:
            return [sch]
        if self.disallow_if_then_else and contains_call(node, frozenset({"tir.if_then_else"})):
            return [sch]
        if _ends_register_tile(node) and _is_read_by_reduction(node):
            return [sch]
        expensive = bool(self.disallow_op) and contains_call(node, self.disallow_op)
        if self.into_consumer and not is_output_block(node) and not _leaves_threads(node):
            consumers = consumers_of(node)
            repeated = len(consumers) > 1 or any(
                read_count(item, node.writes[0].buffer) > 1 for item in consumers
            )
            # An expensive expression may move into one elementwise consumer, not into a reduction that repeats it;
            # one that is just long, not where it is repeated in one expression.
            if not (expensive and (repeated or not all(is_injective(item) for item in consumers))) and not (
                repeated and is_long(node)
            ):
                try:
                    sch.compute_inline(block)
                    return [sch]
                except ScheduleError:
                    pass  # not inlinable here; other rules take the block
        if self.into_producer:
            try:
                sch.reverse_compute_inline(block)
            except ScheduleError:
                pass  # not inlinable here; other rules take the block
        return [sch]

    def _has_right_indices(self, node: BlockNode) -> bool:
        if not is_spatial(node) or not is_leaf_block(node) or node.init is not None:
            return False
        if self.require_injective and not is_injective(node):
            return False
        return not self.require_ordered or _reads_in_order(node)


def _leaves_threads(node: BlockNode) -> bool:
    """Whether a block takes results out of memory of threads, where other kernels would find nothing."""
    return any(region.buffer.scope() != "global" for region in node.reads)


def _reads_in_order(node: BlockNode) -> bool:
    """Whether each load of a leaf block has the variables of its store in their order, as far as it has them."""
    store = node.body.leaf  # type: ignore[attr-defined]
    order = {var: place for place, index in enumerate(store.indices) for var in variables_in(index)}
    for load in loads_in(store.value):
        places = [[order[var] for var in variables_in(index) if var in order] for index in load.indices]
        used = [place for place in places if place]
        if any(max(first) > min(second) for first, second in pairwise(used)):
            return False
    return True


def _ends_register_tile(node: BlockNode) -> bool:
    """Whether a block, alone or behind others that will be a part of it, takes the results of a reduction with reuse one by one."""
    for producer in producers_of(node):
        if elementwise_consumer(producer) is node:
            return has_data_reuse(producer) or (is_injective(producer) and _ends_register_tile(producer))
    return False


def _is_read_by_reduction(node: BlockNode) -> bool:
    """Whether a reduction with reuse alone reads a block, as it is or padded: inlined, it would be computed once for each use."""
    (*others, consumer) = consumers_of(node) or [node]
    if others or consumer is node:
        return False
    if has_data_reuse(consumer):
        return True
    return is_injective(consumer) and elementwise_consumer(node) is None and _is_read_by_reduction(consumer)
