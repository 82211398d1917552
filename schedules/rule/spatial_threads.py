"""SpatialThreads: nests that reuse nothing, on the threads of a GPU - elementwise chains, copies, transpositions, gathers.

A block over the axes i, j whose result is contiguous along j becomes

    for b (blockIdx.x): for n: for t (threadIdx.x): for v (vector): B[...] = f(A[...], ...)

where neighbouring threads compute neighbouring vectors, so that a warp reads and writes whole sectors, and each thread computes several
vectors a block's width apart, so that several loads are under way. Where an operand is contiguous along another axis than the
result, every order is strided in one of the two: a tile of it passes through shared memory, filled in its own order and
read in that of the result (Ruetsch and Micikevicius: "Optimizing matrix transpose in CUDA", 2009). That is a structure of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..block_facts import extent_at, is_injective, is_one, is_plain_nest, node_of, stands_beside_tiles
from ..choice import one_of
from ..error import ScheduleError
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around
from .base import ScheduleRule, unless_refused
from .device_limits import THREADS_PER_BLOCK, product_of
from .memory_order import contiguous_loop, transposed_operands, walk_through
from .shared_tile import copy_tile_to_shared


class SpatialThreads(ScheduleRule):
    """Bind the loops of an injective block that no other rule has bound to the blocks and threads of a GPU.

    Beside reductions that other rules have tiled, a transposition is offered in one way, through shared memory where it fits: the time
    of such programs is spent elsewhere, and ways of several blocks would multiply.

    Args:
        thread_extents: candidates of the threads of a block.
        vector_lengths: candidates of the elements that a thread computes side by side, as far as they are 16 bytes at most.
        items: candidates of how many vectors a thread computes.
        sides: the shortest and the longest side of a tile that passes through shared memory.
    """

    def __init__(
        self,
        thread_extents: Sequence[int] = THREADS_PER_BLOCK,
        vector_lengths: Sequence[int] = (1, 2, 4, 8, 16),
        items: Sequence[int] = (1, 2, 4, 8),
        sides: tuple[int, int] = (8, 64),
    ) -> None:
        for name, numbers in (
            ("thread_extents", thread_extents),
            ("vector_lengths", vector_lengths),
            ("items", items),
            ("sides", sides),
        ):
            if not numbers or any(number < 1 for number in numbers):
                raise ScheduleError(f"SpatialThreads: {name} must be positive numbers, got {list(numbers)}")
        self.thread_extents, self.vector_lengths = list(thread_extents), list(vector_lengths)
        self.items, self.sides = list(items), sides

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not is_injective(node) or LAYOUT_REWRITE_PREPROC in node.annotations or not is_plain_nest(node):
            return [sch]
        written = contiguous_loop(node, node.writes[0])
        along = unless_refused(sch, partial(self._along_result, block=block))
        found: list[Schedule] = []
        if written is not None:
            for region in transposed_operands(node, written):
                other = contiguous_loop(node, region)
                if other is not None and other != written and self._is_tile(node, region, written, other):
                    found += unless_refused(
                        sch,
                        partial(
                            self._through_shared, block=block, region=region, written=written, other=other
                        ),
                    )
        if stands_beside_tiles(node):
            return (found or along)[:1] or [sch]
        return [*along, *found] or [sch]

    def _is_tile(self, node: BlockNode, region: tir.BufferRegion, *positions: int) -> bool:
        """Whether a tile of the result reads a tile of an operand and no more, and loops can be split into its sides evenly."""
        # Of positions that are data, or of several places, what lies between them would be copied.
        if not all(is_one(item.extent) and _is_shifted(item.min) for item in region.region):
            return False
        shortest, longest = self.sides
        extents = [extent_at(node, position) for position in positions]
        return all(any(extent % side == 0 for side in range(shortest, longest + 1)) for extent in extents)

    # ---- in the result's order -----------------------------------------------------------------------------------

    def _along_result(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        loops, natural = sch.get_loops(block), list(range(len(loops_around(node))))
        order = walk_through(node, node.writes[0], natural)
        if list(order) != natural:
            sch.reorder(*[loops[position] for position in order])
        total = prod(extent_at(node, position) for position in natural)
        vectors = self._vectors(node)
        fused = sch.fuse(*[loops[position] for position in order])
        lanes = _number_of(sch, vectors)
        items = _number_of(
            sch, [count for count in self.items if count * min(self.thread_extents) <= total] or [1]
        )
        threads = _number_of(sch, self._threads(total))
        blocks, _items, own, elements = sch.split(fused, [None, items, threads, lanes])
        sch.bind(blocks, "blockIdx.x")
        sch.bind(own, "threadIdx.x")
        if vectors != [1]:
            sch.vectorize(elements)
        return [sch]

    def _vectors(self, node: BlockNode) -> list[int]:
        """Lengths that fill whole rows of the result, and of which no access is wider than a thread's."""
        written = contiguous_loop(node, node.writes[0])
        if written is None:
            return [1]
        widest = max(dt.bytes_of(region.buffer.dtype) for region in (*node.reads, *node.writes))
        extent = extent_at(node, written)
        fitting = [
            length
            for length in self.vector_lengths
            if length == 1 or (length * widest <= ACCESS_BYTES and extent % length == 0)
        ]
        return fitting or [1]

    def _threads(self, total: int) -> list[int]:
        """How many threads a block may have: not more than there is work for, but for the fewest."""
        most = int(self.target.max_threads_per_block)
        fitting = [count for count in self.thread_extents if count <= most]
        if not fitting:
            raise ScheduleError(
                f"SpatialThreads: none of the thread extents {self.thread_extents} is within {most}"
            )
        return [count for count in fitting if count <= total] or fitting[:1]

    # ---- through shared memory -----------------------------------------------------------------------------------

    def _through_shared(
        self, sch: Schedule, block: BlockRV, region: tir.BufferRegion, written: int, other: int
    ) -> list[Schedule]:
        loops = sch.get_loops(block)
        outer = [loop for position, loop in enumerate(loops) if position not in (written, other)]
        rows_out, items, rows = self._split_side(sch, loops[other], 3)
        columns_out, columns = self._split_side(sch, loops[written], 2)
        blocks = [*outer, rows_out, columns_out]
        sch.reorder(*blocks, rows, columns, items)
        self._keep_threads(sch, [rows, columns])
        sch.bind(sch.fuse(*blocks), "blockIdx.x")
        own = sch.fuse(rows, columns)
        sch.bind(own, "threadIdx.x")
        copy_tile_to_shared(sch, block, region, own)
        return [sch]

    def _split_side(self, sch: Schedule, loop: LoopRV, n_levels: int) -> list[LoopRV]:
        """Split a loop into tiles, and what is in them into so many levels less one."""
        shortest, longest = self.sides
        factors = sch.sample_perfect_tile(loop, n_levels, longest)
        sch.restrict_tile(
            factors, lambda table: np.isin(table[:, 1:].prod(axis=1), range(shortest, longest + 1))
        )
        return sch.split(loop, factors)

    def _keep_threads(self, sch: Schedule, loops: Sequence[LoopRV]) -> None:
        """Allow only as many threads as a block may have, and no fewer than a warp."""
        fewest, most = int(self.target.thread_warp_size), int(self.target.max_threads_per_block)
        threads = product_of(sch.get(loop).extent for loop in loops)
        sch.constrain_numbers([threads], lambda count: (count >= fewest) & (count <= most))
        if not sch.has_candidates():
            raise ScheduleError(f"SpatialThreads: no tile has {fewest} to {most} threads")


def _is_shifted(index: tir.PrimExpr) -> bool:
    """Whether an index is a variable or a number, and what is added to it a number."""
    while isinstance(index, tir.Add | tir.Sub) and isinstance(index.b, tir.IntImm):
        index = index.a
    return isinstance(index, tir.Var | tir.IntImm)


def _number_of(sch: Schedule, candidates: Sequence[int]) -> int | ExprRV:
    """One of some numbers, a decision where there are several."""
    return candidates[0] if len(candidates) == 1 else one_of(sch, candidates)
