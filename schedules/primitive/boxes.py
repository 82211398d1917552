"""Which boxes of buffers blocks touch in one iteration of a loop: what is computed, or copied, for it. Threads that see each other's part
of a buffer count as running.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.tir.stmt_functor import substitute

from ..access import box_touched, reads_with_init
from ..affine import constant_difference, simplify_polynomial
from ..region import Box, contains, union_boxes
from ..tree import BlockNode, LoopNode, loops_around
from .block_domains import is_constant


def _loops_below(
    block: BlockNode, loop: LoopNode, buffer: tir.Buffer, across_threads: bool
) -> list[LoopNode]:
    """The loops that run while ``loop`` stands still: those inside it, and thread loops that share the buffer."""
    running = []
    inside = False
    for item in loops_around(block):
        if inside or (across_threads and _shares_between_threads(item, buffer)):
            running.append(item)
        inside = inside or item is loop
    return running


def _shares_between_threads(loop: LoopNode, buffer: tir.Buffer) -> bool:
    """Whether the threads of a loop see each other's part of a buffer: those of a block do in shared memory, and the
    first dimension of them in the memory of a warp. Global memory is no place to hand over data inside of a kernel.
    """
    if loop.thread_binding is None:
        return False
    scope = buffer.scope().split(".")[0]
    tag = loop.thread_binding.thread_tag
    return (scope == "shared" and tag.startswith("threadIdx")) or (scope == "warp" and tag == "threadIdx.x")


def required_boxes(
    accessors: list[BlockNode],
    loop: LoopNode,
    buffers: set[tir.Buffer],
    writes: bool,
    across_threads: bool = True,
) -> dict[tir.Buffer, Box]:
    """Per buffer, the box that ``accessors`` touch in one iteration of ``loop``."""
    found = boxes_of_each(accessors, loop, buffers, writes, across_threads)
    return {buffer: union_boxes(boxes, buffer.shape) for buffer, boxes in found.items()}


def boxes_of_each(
    accessors: list[BlockNode],
    loop: LoopNode,
    buffers: set[tir.Buffer],
    writes: bool,
    across_threads: bool = True,
) -> dict[tir.Buffer, list[Box]]:
    """Per buffer, the boxes that ``accessors`` touch in one iteration of ``loop``, one for each of their regions."""
    found: dict[tir.Buffer, list[Box]] = {}
    for block in accessors:
        for region in block.writes if writes else reads_with_init(block):
            buffer = region.buffer
            if buffer in buffers:
                running = _loops_below(block, loop, buffer, across_threads)
                box = box_touched(block, region, running, loop)
                found.setdefault(buffer, []).append(box)
    around = [*loops_around(loop), loop]
    return {buffer: comparable(boxes, around) if len(boxes) > 1 else boxes for buffer, boxes in found.items()}


def unit_loops(around: Sequence[LoopNode]) -> dict[tir.Var, tir.PrimExpr]:
    """The variables of loops of one iteration, and their values."""
    return {item.var: item.min for item in around if is_constant(item.extent, 1)}


def comparable(boxes: list[Box], around: Sequence[LoopNode]) -> list[Box]:
    """Boxes that can be compared although only some of them mention loops of one iteration."""
    units = unit_loops(around)
    if not units:
        return boxes
    return [
        [(simplify_polynomial(substitute(low, units)), substitute(extent, units)) for low, extent in box]
        for box in boxes
    ]


def are_adjacent(one: Box, other: Box) -> bool:
    """Whether boxes have no gap between them: the smallest one around both has nothing else."""
    if contains(one, other) or contains(other, one):
        return True
    differing = [
        (a, b)
        for a, b in zip(one, other, strict=True)
        if constant_difference(a[0], b[0]) != 0 or constant_difference(a[1], b[1]) != 0
    ]
    if len(differing) != 1:
        return False
    ((first, size), (low, extent)) = differing[0]
    gaps = constant_difference(low, first + size), constant_difference(first, low + extent)
    return all(gap is not None and gap <= 0 for gap in gaps)
