"""LaneReduction: reductions along memory run in vectors, whose lanes hold partial results until the end.

    for i, k: B[i] = max(B[i], A[i, k])

becomes, with the parts in registers,

    for i:
        for k0: for k1 (unrolled): for k2 (vector): parts[k1, k2] = max(parts[k1, k2], A[i, (k0, k1, k2)])
        for k1 (unrolled): for k2 (vector): lanes[k2] = max(lanes[k2], parts[k1, k2])
        for k2 (unrolled): B[i] = max(B[i], lanes[k2])

The compiler's own vectorizer does the like for sums alone; this rule for every combiner that ``rfactor`` knows, a position of a
maximum too. (Suriana, Adams, Kamil: "Parallel associative reductions in Halide", CGO 2017.)
"""

from __future__ import annotations

from functools import partial
from math import prod

from ir import tir

from ..affine import coefficient_of
from ..analysis import lanes_of, why_not_reduction
from ..annotation import UNROLL, VECTORIZE
from ..block_facts import loop_position, node_of, operand_loads, reduce_vars, reduction_loops
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LeafNode, loops_around, loops_of_its_own
from .base import ScheduleRule, unless_refused
from .padding import pad_loop, padded_extent


class LaneReduction(ScheduleRule):
    """Reduce along memory in vectors of partial results; how many of them there are is sampled.

    An extent without good divisors is padded: what lies beyond its end is cut off in the last tile.

    Args:
        max_vectors: vectors of partial results at most.
    """

    def __init__(self, max_vectors: int = 8) -> None:
        if max_vectors < 1:
            raise ScheduleError(f"LaneReduction: max_vectors must be positive, got {max_vectors}")
        self.max_vectors = max_vectors

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if why_not_reduction(node) is not None or not isinstance(node.body, LeafNode) or _is_marked(node):
            return [sch]
        if len(reduction_loops(node)) < len(reduce_vars(node)) or _extent(node) < 2 * lanes_of(
            self.target, node
        ):
            return [sch]
        return unless_refused(sch, partial(self._reduce, block=block)) or [sch]

    def _reduce(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        lanes, axis = lanes_of(self.target, node), len(node.writes[0].region)
        around, vectors, elements = self._split(sch, block)
        in_lanes = _in_parts(sch, elements, axis)
        if around:
            sch.reverse_compute_at(block, around[-1])
        in_vectors = _in_parts(sch, vectors, axis)
        for parts in (in_lanes, in_vectors):
            _mark(sch, parts)
        while lanes > 2:  # by halves, so that few operations wait for each other
            lanes //= 2
            _, lower = sch.split(sch.get_loops(block)[-1], [2, lanes])
            _mark(sch, _in_parts(sch, lower, axis))
        sch.annotate(sch.get_loops(block)[-1], UNROLL, 1)
        return [sch]

    def _split(self, sch: Schedule, block: BlockRV) -> tuple[list[LoopRV], LoopRV, LoopRV]:
        """Bring the reduction inside and tile it: the block's own other loops, the loop over vectors, and that over their elements."""
        node = node_of(sch, block)
        lanes, extent = lanes_of(self.target, node), _extent(node)
        loops, along, reduced = sch.get_loops(block), loops_along_memory(node), reduction_loops(node)
        n_shared = len(loops) - len(loops_of_its_own(node))
        around = [loops[i] for i in range(n_shared, len(loops)) if i not in reduced]
        inside = [loops[i] for i in along]
        sch.reorder(*around, *[loops[i] for i in reduced if i not in along], *inside)
        loop = sch.fuse(*inside) if len(inside) > 1 else inside[0]
        most = min(self.max_vectors, extent // lanes)  # each begins inside
        padded = padded_extent(extent, lanes, most)
        if padded != extent:
            loop = pad_loop(sch, loop, padded)
        rest, elements = sch.split(loop, [None, lanes])
        _, vectors = sch.split(rest, sch.sample_perfect_tile(rest, 2, most))
        return around, vectors, elements


def loops_along_memory(node: BlockNode) -> list[int]:
    """The reduction loops of known extents, as positions from the outermost on, that together run through operands element by element.

    An operand that they do not move along does not count.
    """
    offsets = [_offset(load) for load in operand_loads(node)]
    if None in offsets:
        return []
    loops = loops_around(node)
    left = {var: position for var in reduce_vars(node) if (position := loop_position(node, var)) is not None}
    found: list[int] = []
    moved: list[bool] | None = None
    step = 1
    while True:
        steps = {var: [coefficient_of(offset, var) for offset in offsets] for var in left}
        # what one loop moves along, the next one does, too
        fitting = [
            var
            for var in left
            if set(steps[var]) - {0} == {step} and moved in (None, [item != 0 for item in steps[var]])
        ]
        extent = loops[left[fitting[0]]].extent if len(fitting) == 1 else None
        if not isinstance(extent, tir.IntImm):
            return found[::-1]
        moved = [item != 0 for item in steps[fitting[0]]]
        found.append(left.pop(fitting[0]))
        step *= extent.value


def _offset(load: tir.BufferLoad) -> tir.PrimExpr | None:
    """Where an element is in memory, counted in elements; None where that is not known."""
    shape = load.buffer.shape
    if load.buffer.strides or not all(isinstance(dim, tir.IntImm) for dim in shape):
        return None
    offset: tir.PrimExpr = tir.const(0)
    for index, dim in zip(load.indices, shape, strict=True):
        offset = offset * dim + index
    return offset


def _extent(node: BlockNode) -> int:
    """How many elements a reduction takes one after the other from memory."""
    loops = loops_around(node)
    extents = [loops[position].extent for position in loops_along_memory(node)]
    return prod(extent.value for extent in extents if isinstance(extent, tir.IntImm))


def _in_parts(sch: Schedule, loop: LoopRV, axis: int) -> BlockRV:
    """Factor a loop out of the reduction that it runs, into parts in registers."""
    parts = sch.rfactor(loop, axis)
    for position in range(len(node_of(sch, parts).writes)):
        sch.set_scope(parts, position, "local")
    return parts


def _mark(sch: Schedule, parts: BlockRV) -> None:
    *_, outer, inner = sch.get_loops(parts)
    sch.annotate(outer, UNROLL, 1)
    sch.annotate(inner, VECTORIZE, 1)


def _is_marked(node: BlockNode) -> bool:
    """Whether another rule has decided how the loops in it run."""
    return any(mark in loop.annotations for loop in loops_around(node) for mark in (UNROLL, VECTORIZE))
