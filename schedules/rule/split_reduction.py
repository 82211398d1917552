"""SplitReduction: reductions with few results on all multiprocessors of a GPU, in two kernels.

    for p in parts: for i, j: for k: P[p, i, j] += A[i, p * n + k] * B[p * n + k, j]      # one kernel
    for i, j: for p: C[i, j] += P[p, i, j]                                                # another one

The parts are results like others: rules behind this one tile them, on tensor cores as well, or share them among threads. Sums are in
an order that is always the same, since nothing is added by atomic operations. ("Split-K": NVIDIA, "CUTLASS: Fast Linear Algebra in
CUDA C++", 2017; sums in two kernels: Harris, "Optimizing Parallel Reduction in CUDA", 2007.)
"""

from __future__ import annotations

from functools import partial
from math import prod

from ir import tir
from ir.target import Target

from ..analysis import why_not_reduction
from ..block_facts import (
    has_data_reuse,
    is_leaf_block,
    is_scheduled,
    node_of,
    reduce_vars,
    reduces_side_by_side,
    reduction_loops,
    stands_alone,
)
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around
from .base import ScheduleRule, unless_refused

_TILE = 64 * 64
"""Results of a product that one block of threads has at a time, about."""
STEPS = 4
"""A part has at least so many steps, of as many elements as a block has threads, or as a tile of a product reads at a time."""
PRODUCT_STEP = 16


class SplitReduction(ScheduleRule):
    """Offer a reduction in parts beside the block as it is, where the results alone leave multiprocessors idle.

    Args:
        most_waves: parts are at most so many times as many as keep every multiprocessor busy.
        most_ways: numbers of parts that are offered at most.
    """

    def __init__(self, most_waves: int = 4, most_ways: int = 3) -> None:
        if most_waves < 1 or most_ways < 1:
            raise ScheduleError(
                f"SplitReduction: most_waves and most_ways must be positive, got {most_waves} and {most_ways}"
            )
        self.most_waves, self.most_ways = most_waves, most_ways

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if is_scheduled(node):
            return [sch]
        found: list[Schedule] = []
        for parts in numbers_of_parts(node, self.target, self.most_waves)[: self.most_ways]:
            found += unless_refused(sch, partial(_in_parts, block=block, parts=parts))
        return [sch, *found]


def numbers_of_parts(node: BlockNode, target: Target, most_waves: int = 4) -> list[int]:
    """In how many parts a reduction may be split, those first that are nearest to one block of threads for each multiprocessor.

    None where its results alone are as many, or their elements too few, or extents are symbolic.
    """
    if why_not_reduction(node) is not None or not is_leaf_block(node) or not stands_alone(node):
        return []
    longest = _longest(node)
    extents = [_extent(item.dom.extent) for item in node.iter_vars]
    if longest is None or None in extents:
        return []
    reductions = set(reduce_vars(node))
    sizes = dict(zip([item.var for item in node.iter_vars], extents, strict=True))
    outputs = prod(size or 0 for var, size in sizes.items() if var not in reductions)
    reduced = prod(size or 0 for var, size in sizes.items() if var in reductions)
    blocks, step = outputs, int(target.max_threads_per_block)
    if has_data_reuse(node):
        blocks, step = -(-outputs // _TILE), PRODUCT_STEP
    elif reduces_side_by_side(node):  # neighbouring threads have neighbouring results
        warp = int(target.thread_warp_size)
        blocks, step = -(-outputs // warp), step // warp
    processors = int(target.attrs.get("multi_processor_count") or 1)
    if not blocks or blocks >= processors:
        return []
    iterations = _extent(loops_around(node)[longest].extent) or 1
    most = min(reduced // (STEPS * step), -(-most_waves * processors // blocks), iterations)
    fitting = [parts for parts in range(2, most + 1) if iterations % parts == 0]
    return sorted(fitting, key=lambda parts: abs(blocks * parts - processors))


def split_reduction(sch: Schedule, block: BlockRV, parts: int) -> BlockRV:
    """Compute a reduction in parts; returns the block that does so, while ``block`` adds them up.

    Raises:
        ScheduleError: its combiner is not known, or extents are symbolic.
    """
    node = node_of(sch, block)
    loops, summed, longest = sch.get_loops(block), reduction_loops(node), _longest(node)
    if longest is None:
        raise ScheduleError(f"block {node.name!r} has no reduction of known length")
    spatial = [position for position in range(len(loops)) if position not in summed]
    outer, loops[longest] = sch.split(loops[longest], [parts, None])
    sch.reorder(outer, *[loops[position] for position in (*spatial, *summed)])
    return sch.rfactor(outer, 0)


def _in_parts(sch: Schedule, block: BlockRV, parts: int) -> list[Schedule]:
    split_reduction(sch, block, parts)
    return [sch]


def _longest(node: BlockNode) -> int | None:
    """The reduction loop with the most iterations, the outermost of equal ones; None where one has no known number of them."""
    loops = loops_around(node)
    extents = {position: _extent(loops[position].extent) for position in reduction_loops(node)}
    if not extents or None in extents.values():
        return None
    return max(extents, key=lambda position: extents[position] or 0)


def _extent(extent: tir.PrimExpr) -> int | None:
    return extent.value if isinstance(extent, tir.IntImm) else None
