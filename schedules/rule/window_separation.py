"""WindowSeparation: overlapping windows that move along memory by several elements are reduced axis by axis.

The lanes of such windows (a 3 x 3 pooling of every other place, channels first) lie apart and are loaded one by one, for every element of
a window. With the rows reduced first, that is done for one row in place of three; what reduces the rows runs in whole vectors.
"""

from __future__ import annotations

from functools import partial

from ir import tir

from ..affine import coefficient_of
from ..analysis import why_not_reduction
from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..block_facts import loop_position, node_of, operand_loads, reduce_vars, reduction_loops, spatial_vars
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around
from .base import ScheduleRule, unless_refused

_MOST_LANES = 64
"""Windows of a row that are reduced at once at most."""


class WindowSeparation(ScheduleRule):
    """Offer windows over several axes (a pooling) with the outermost axis reduced first, as structures beside the whole windows: in a pass
    of its own, or row by row.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        node = node_of(sch, block)
        if why_not_reduction(node) is not None or not _move_along_memory(node):
            return [sch]
        position = reduction_loops(node)[0]
        ways = (_separate, _separate_row_by_row, partial(_separate_row_by_row, inline=True))
        return [
            sch,
            *(
                made
                for way in ways
                for made in unless_refused(sch, partial(way, block=block, position=position))
            ),
        ]


def _separate(sch: Schedule, block: BlockRV, position: int) -> list[Schedule]:
    """Reduce the rows in whole vectors, in a pass of its own."""
    rows = sch.separate(sch.get_loops(block)[position])
    *outer, elements, along = sch.get_loops(rows)
    sch.reorder(along, elements)
    for loop in outer[:2]:
        sch.annotate(loop, PARALLEL, 1)
    sch.annotate(elements, VECTORIZE, 1)
    return [sch]


def _separate_row_by_row(
    sch: Schedule, block: BlockRV, position: int, inline: bool = False
) -> list[Schedule]:
    """Reduce the rows of one row of windows in whole vectors just before those are, out of the nearest cache.

    Args:
        inline: whether what the windows read, such as a padded image, is computed where it is read, some of it more than once.
    """
    rows = sch.separate(sch.get_loops(block)[position])
    if inline:
        producers = sch.get_producers(rows)
        if not producers:
            return []
        for producer in producers:
            sch.compute_inline(producer)
    reductions = reduction_loops(node_of(sch, block))
    loops = sch.get_loops(block)
    *_, row, windows = [loop for number, loop in enumerate(loops) if number not in reductions]
    tiles, lanes = sch.split(windows, sch.sample_perfect_tile(windows, 2, _MOST_LANES))
    sch.reorder(tiles, *[loops[number] for number in reductions], lanes)
    sch.annotate(lanes, VECTORIZE, 1)
    sch.compute_at(rows, row)
    *_, elements, along = sch.get_loops(rows)
    sch.annotate(elements, VECTORIZE, 1)
    sch.annotate(along, UNROLL, 1)
    return [sch]


def _move_along_memory(node: BlockNode) -> bool:
    """Whether windows overlap along the contiguous axis, by which they move by more than an element."""
    loads = operand_loads(node)
    if len(reduction_loops(node)) < 2 or len(loads) != 1 or not loads[0].indices:
        return False
    last = loads[0].indices[-1]
    steps = [coefficient_of(last, place) for place in spatial_vars(node)]
    for along in reduce_vars(node):
        position = loop_position(node, along)
        if position is None or coefficient_of(last, along) != 1:
            continue
        window = loops_around(node)[position].extent
        if isinstance(window, tir.IntImm):
            return any(step is not None and 1 < step < window.value for step in steps)
    return False
