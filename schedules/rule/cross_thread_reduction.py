"""CrossThreadReduction: let the threads of a GPU block share one reduction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ir import tir

from ..analysis import consumers_of, is_output_block
from ..block_facts import elementwise_prefix, has_data_reuse, node_of, reduce_vars, reduction_loops
from ..choice import one_of
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, loops_around, loops_of_its_own
from .base import ScheduleRule, unless_refused


class CrossThreadReduction(ScheduleRule):
    """Offer a reduction whose iterations are bound to ``threadIdx.x``, next to the block as it is.

    Where one block alone reads the result, the reduction is computed under that block's loops into shared memory, and the reader's
    innermost loops run on the same threads.

    Args:
        thread_extents: candidates of how many threads share a reduction.
    """

    def __init__(self, thread_extents: Sequence[int]) -> None:
        if not thread_extents or any(extent < 1 for extent in thread_extents):
            raise ScheduleError(
                f"CrossThreadReduction: thread_extents must be positive numbers, got {list(thread_extents)}"
            )
        self.thread_extents = list(thread_extents)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not self._fits(node):
            return [sch]
        return [sch, *unless_refused(sch, partial(self._share, block=block))]

    def _fits(self, node: BlockNode) -> bool:
        loops = loops_around(node)
        return (
            bool(reduce_vars(node))
            and not has_data_reuse(node)
            and bool(loops)
            and len(loops_of_its_own(node)) == len(loops)  # else a thread computes it for what it does next
            and all(loop.thread_binding is None for loop in loops)
            and all(isinstance(loop.extent, tir.IntImm) for loop in loops)
            and any(_extent(loops[i]) > 1 for i in reduction_loops(node))  # else there is nothing to share
        )

    def _share(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        reader = None
        if not is_output_block(node):
            consumers = consumers_of(node)
            reader = sch.get_consumers(block)[0] if len(consumers) == 1 else None
        lanes = one_of(sch, self.thread_extents)
        if reader is not None:
            shared = elementwise_prefix(node, node_of(sch, reader))
            loops = sch.get_loops(reader)
            if 0 < shared < len(loops):
                inner = sch.fuse(*loops[shared:]) if len(loops) - shared > 1 else loops[-1]
                _outer, threads = sch.split(inner, [None, lanes])
                sch.bind(threads, "threadIdx.x")
                sch.compute_at(block, loops[shared - 1], preserve_unit_loops=True)
                for position in range(len(node.writes)):
                    sch.set_scope(block, position, "shared")
        fused = self._fused_reduction(sch, block)
        _outer, threads = sch.split(fused, [None, lanes])
        sch.bind(threads, "threadIdx.x")
        return [sch]

    def _fused_reduction(self, sch: Schedule, block: BlockRV) -> LoopRV:
        """The reduction loops as one, inside of all others."""
        node = node_of(sch, block)
        positions = reduction_loops(node)
        loops = sch.get_loops(block)
        reduced = [loops[i] for i in positions]
        around = {i for i in range(len(loops)) if i not in positions}
        if positions != list(range(len(loops) - len(positions), len(loops))):
            sch.reorder(*[loops[i] for i in sorted(around) if i > positions[0]], *reduced)
        return sch.fuse(*reduced) if len(reduced) > 1 else reduced[0]


def _extent(loop: LoopNode) -> int:
    assert isinstance(loop.extent, tir.IntImm)
    return loop.extent.value
