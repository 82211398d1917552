"""AddRFactor: split a reduction with few outputs over the cores."""

from __future__ import annotations

import numpy as np

from ir import tir

from ..analysis import why_not_reduction
from ..annotation import PARALLEL
from ..block_facts import has_data_reuse, is_leaf_block, is_scheduled, node_of, reduce_vars, reduction_loops
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import loops_around
from .base import ScheduleRule
from .jobs import MOST_JOBS_PER_CORE


class AddRFactor(ScheduleRule):
    """Reduce in parts where the outputs alone do not keep the cores busy.

    The outermost reduction loop that has an iteration for each core, or else the longest, is split, and its outer part, which runs in
    parallel, factored out.

    Args:
        max_jobs_per_core: reductions with at least this many outputs per core are left alone.
        max_innermost_factor: bound of the innermost factor of the split; None for none.
    """

    def __init__(self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = max_innermost_factor

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if why_not_reduction(node) is not None or not is_leaf_block(node) or is_scheduled(node):
            return [sch]
        loops = loops_around(node)
        shared = [loops[i].extent for i in reduction_loops(node)]
        if not shared or not all(isinstance(extent, tir.IntImm) for extent in shared):
            return [sch]
        outputs, reduced = 1, 1
        reductions = set(reduce_vars(node))
        for item in node.iter_vars:
            if not isinstance(item.dom.extent, tir.IntImm):
                return [sch]
            if item.var in reductions:
                reduced *= item.dom.extent.value
            else:
                outputs *= item.dom.extent.value
        if (
            outputs >= self.max_jobs_per_core * self.target.num_cores
            or reduced < 4096
            or has_data_reuse(node)
        ):
            return [sch]
        self._factor(sch, block)
        return [sch]

    def _factor(self, sch: Schedule, block: BlockRV) -> None:
        node = node_of(sch, block)
        loops = sch.get_loops(block)
        reduction = [loops[i] for i in reduction_loops(node)]
        spatial = [loop for loop in loops if loop not in reduction]
        sch.reorder(*spatial, *reduction)
        # The widest reduction loop is shared out; fusing would hide its contiguity from the vectorizer.
        extents = [sch.get(loop).extent.value for loop in reduction]
        chosen = reduction[0] if extents[0] >= self.target.num_cores else reduction[int(np.argmax(extents))]
        factors = sch.sample_perfect_tile(chosen, 2, self.max_innermost_factor or max(extents))
        cores = self.target.num_cores
        sch.restrict_tile(
            factors, lambda table: (table[:, 0] >= cores) & (table[:, 0] <= MOST_JOBS_PER_CORE * cores)
        )
        outer, _inner = sch.split(chosen, factors)
        sch.reorder(outer, *spatial)
        partial = sch.rfactor(outer, 0)
        sch.annotate(_loop_of(sch, partial, 0), PARALLEL, 1)


def _loop_of(sch: Schedule, block: BlockRV, var_position: int) -> LoopRV:
    """The loop bound to the block variable at a position."""
    node = node_of(sch, block)
    value = node.iter_values[var_position]
    for rv, item in zip(sch.get_loops(block), loops_around(node), strict=True):
        if item.var is value:
            return rv
    raise ScheduleError(f"rule: variable {var_position} of block {node.name!r} is bound to no single loop")
