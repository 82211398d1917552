"""ParallelizeVectorizeUnroll: mark how the loops run that no other rule has marked."""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..affine import mentions
from ..analysis import why_not_complete, why_not_reduction
from ..annotation import PARALLEL, UNROLL_EXPLICIT, UNROLL_IMPLICIT, UNROLL_MAX_STEP, VECTORIZE
from ..block_facts import contiguous_var, is_data_parallel, is_leaf_block, node_of, reduce_vars
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, blocks_below, loops_around
from .base import ScheduleRule

_MIN_PARALLEL_WORK = 4096
"""Iterations of a nest below which waking other cores costs more than it saves."""


class ParallelizeVectorizeUnroll(ScheduleRule):
    """Mark outer data-parallel loops as parallel and contiguous inner loops as vector loops.

    Args:
        max_jobs_per_core: enough iterations of parallel loops per core, further loops stay serial (-1: none is parallel).
        max_vectorize_extent: lanes at most (-1: none are vectorized).
        unroll_max_steps: candidates of how far the loops of reductions are unrolled, sampled once for the program; None leaves
            that to the marks of other rules.
        unroll_explicit: unroll in TIR (rather than leave it to LLVM).
    """

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_vectorize_extent = max_vectorize_extent
        self.unroll_max_steps = list(unroll_max_steps or ())
        self.unroll_explicit = unroll_explicit

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if LAYOUT_REWRITE_PREPROC in node.annotations or not is_leaf_block(node):
            return [sch]
        if why_not_complete(node) is not None and why_not_reduction(node) is not None:
            return [sch]
        if self.unroll_max_steps and reduce_vars(node) and not _says_how_far(node):
            self._sample_unrolling(sch)
        if self.max_vectorize_extent >= 2:
            self._bring_contiguous_loop_inside(sch, block)
        loops = loops_around(node)
        rvs = sch.get_loops(block)
        if not loops:
            return [sch]
        marked = any(PARALLEL in loop.annotations for loop in loops)
        if not marked and _work(loops) >= _MIN_PARALLEL_WORK:
            for position in self._parallel_loops(loops):
                sch.annotate(rvs[position], PARALLEL, 1)
        self._mark_vector(sch, node, loops, rvs)
        return [sch]

    def _sample_unrolling(self, sch: Schedule) -> None:
        """Annotate the root block, once, with a sampled number of steps; the postprocessor applies it to all nests."""
        func = sch.func_working_on
        assert func is not None
        root = sch._root(func)
        key = UNROLL_EXPLICIT if self.unroll_explicit else UNROLL_IMPLICIT
        if key not in root.annotations:
            count = len(self.unroll_max_steps)
            steps = sch.sample_categorical(self.unroll_max_steps, [1.0 / count] * count)
            sch.annotate(sch.get_block(root.name), key, steps)

    def _bring_contiguous_loop_inside(self, sch: Schedule, block: BlockRV) -> None:
        """Where a small reduction runs inside the contiguous axis (pooling), the contiguous axis becomes the vector loop."""
        node = node_of(sch, block)
        var = contiguous_var(node)
        loops = loops_around(node)
        if var is None or not reduce_vars(node) or any(loop.annotations for loop in loops):
            return
        value = next(v for item, v in zip(node.iter_vars, node.iter_values, strict=True) if item.var is var)
        position = next((i for i, loop in enumerate(loops) if loop.var is value), None)
        if position is None or position == len(loops) - 1 or not _is_contiguous_read(node, var):
            return
        extent = loops[position].extent
        if not isinstance(extent, tir.IntImm) or extent.value < 8:
            return
        rvs = sch.get_loops(block)
        try:
            sch.reorder(*rvs[:position], *rvs[position + 1 :], rvs[position])
        except ScheduleError:
            return  # several blocks share these loops; they stay as they are

    def _parallel_loops(self, loops: Sequence[LoopNode]) -> list[int]:
        """Positions of the outermost loops that may run in parallel, until there are enough jobs; never the vector loop."""
        chosen: list[int] = []
        jobs = 1
        enough = self.max_jobs_per_core * self.target.num_cores
        for position, loop in enumerate(loops):
            inner_most = position == len(loops) - 1
            if jobs >= enough or (inner_most and jobs > 1) or not is_data_parallel(loop):
                break
            if inner_most and _extent(loop) < 2 * self.max_vectorize_extent:
                break
            chosen.append(position)
            jobs *= _extent(loop)
            if len(loop.body.children()) != 1 and not isinstance(loop.body, BlockNode):
                break
        return chosen

    def _mark_vector(
        self, sch: Schedule, node: BlockNode, loops: Sequence[LoopNode], rvs: Sequence[object]
    ) -> None:
        last = loops[-1]
        if self.max_vectorize_extent < 2 or last.annotations or not is_data_parallel(last):
            return
        if any(item is not node and reduce_vars(item) for item in blocks_below(last)):
            return  # sums along memory inside; lanes would make them strided
        var = contiguous_var(node)
        if var is None:
            return
        value = next(v for item, v in zip(node.iter_vars, node.iter_values, strict=True) if item.var is var)
        if mentions(value, {last.var}):
            sch.annotate(rvs[-1], VECTORIZE, 1)  # type: ignore[arg-type]


def _says_how_far(node: BlockNode) -> bool:
    """Whether another rule has said how far a nest is unrolled."""
    return any(UNROLL_MAX_STEP in loop.annotations for loop in loops_around(node)[:1])


def _is_contiguous_read(node: BlockNode, var: object) -> bool:
    """Whether some operand is contiguous along the variable."""
    return any(region.region and region.region[-1].min is var for region in node.reads)


def _extent(loop: LoopNode) -> int:
    """The extent, or a typical one where a decision is open."""
    return loop.extent.value if isinstance(loop.extent, tir.IntImm) else 16


def _work(loops: Sequence[LoopNode]) -> int:
    """Iterations of a nest, as far as extents are known."""
    total = 1
    for loop in loops:
        total *= _extent(loop)
    return total
