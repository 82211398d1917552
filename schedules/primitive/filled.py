"""Whether what a copy takes was written before it: it may take more than the blocks that use it do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ir import tir

from ..access import access_regions, relaxed_below
from ..analysis import producers_of, require
from ..bounds import clipped
from ..coverage import why_not_covered
from ..early import is_conditional
from ..filled_box import fills_box, may_pass_over
from ..region import Box, bind_region, contains, relax_loops
from ..tree import BlockNode, LeafNode, LoopNode, TreeNode, is_ancestor, loops_around, scope_of


def require_read_or_filled(
    readers: Sequence[BlockNode],
    buffer: tir.Buffer,
    box: Box,
    place: TreeNode,
    around: Sequence[LoopNode],
    primitive: str,
) -> None:
    """:func:`require_filled`, unless one of the blocks that use a copy reads all that it takes.

    Args:
        readers: use the copy, in one scope.
        buffer: what is copied.
        box: what one copy takes, in terms of the loops around it.
        place: the copy is made before the loops below it run.
        around: the loops around the copy.
        primitive: its name, for the error.
    """
    if _is_allocated_in(_scopes_around(readers[0]), buffer) and not is_all_read(readers, buffer, box, place):
        require_filled(readers[0], buffer, box, around, primitive)


def _is_allocated_in(scopes: Sequence[BlockNode], buffer: tir.Buffer) -> bool:
    return any(item is buffer for scope in scopes for item in scope.alloc_buffers)


def is_all_read(consumers: Sequence[BlockNode], buffer: tir.Buffer, box: Box, place: TreeNode) -> bool:
    """Whether one of some blocks reads every element of a box while the loops below ``place`` run: then all of that has been written."""
    for item in consumers:
        if not isinstance(item.body, LeafNode) or not item.is_unconditional:
            continue
        if is_conditional(item, place):
            continue
        reads, _ = access_regions(item, item.init)
        values = dict(zip([var.var for var in item.iter_vars], item.iter_values, strict=True))
        running = {
            loop.var: loop.range()
            for loop in loops_around(item)
            if loop is not place and is_ancestor(place, loop)
        }
        for region in reads:
            if region.buffer is not buffer or not all(_is_one(part.extent) for part in region.region):
                continue
            indices = [part.min for part in bind_region(region.region, values)]
            if (
                not may_pass_over(item, indices, running)
                and fills_box(indices, running)
                and contains(relaxed_below(item, region, place), box)
            ):
                return True
    return False


def _is_one(extent: tir.PrimExpr) -> bool:
    return isinstance(extent, tir.IntImm) and extent.value == 1


def require_filled(
    block: BlockNode, buffer: tir.Buffer, box: Box, around: Sequence[LoopNode], primitive: str
) -> None:
    """The copy takes a box along of which the block may read a part only: unless all of that was written when the function began, a block
    before it must have done so, in its scope or in one around it.

    Args:
        block: reads the copy.
        buffer: what is copied.
        box: what one copy takes, in terms of the loops around it.
        around: those loops; of the ones that a writer is in too, one iteration must fill it.
        primitive: its name, for the error.
    """
    ranges = [tir.Range.from_min_extent(low, extent) for low, extent in box]
    scopes = [block, *_scopes_around(block)]
    if not _is_allocated_in(scopes[1:], buffer):
        return
    for inside, scope in pairwise(scopes):
        if _is_filled_before(inside, scope, buffer, ranges, around):
            return
        if _is_allocated_in([scope], buffer):
            break
        reach = relax_loops(ranges, around, buffer.shape)
        values = dict(zip([item.var for item in scope.iter_vars], scope.iter_values, strict=True))
        ranges = bind_region([tir.Range.from_min_extent(low, extent) for low, extent in reach], values)
        around = loops_around(scope)
    require(
        False,
        primitive,
        f"no block before block {block.name!r} is known to fill what it touches of {buffer.name}",
    )


def _scopes_around(block: BlockNode) -> list[BlockNode]:
    """The blocks around a block, innermost first."""
    found: list[BlockNode] = []
    scope = scope_of(block)
    while scope is not None:
        found.append(scope)
        scope = scope_of(scope)
    return found


def _is_filled_before(
    block: BlockNode,
    scope: BlockNode,
    buffer: tir.Buffer,
    ranges: Sequence[tir.Range],
    around: Sequence[LoopNode],
) -> bool:
    """Whether a block of a scope that comes before another one writes all of some ranges of a buffer."""
    for writer in producers_of(block):
        shared = sum(one is other for one, other in zip(around, loops_around(writer), strict=False))
        place: TreeNode = around[shared - 1] if shared else scope
        reach = relax_loops(ranges, around[shared:], buffer.shape)
        existing = [clipped(*bounds, dim)[:2] for bounds, dim in zip(reach, buffer.shape, strict=True)]
        for region in writer.writes:
            if region.buffer is not buffer or why_not_covered(writer, buffer, place) is not None:
                continue
            if contains(relaxed_below(writer, region, place), existing):
                return True
    return False
