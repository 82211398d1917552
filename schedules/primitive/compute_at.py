"""The primitive that moves a block under a loop of its consumers: compute_at."""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.tir import IterVar

from ..access import relaxed_below, state_around
from ..affine import mentions
from ..analysis import consumers_of, is_output_block, producers_of, require, written_buffers
from ..argument import Argument, Block, Loop
from ..coverage import run_by_loops_of_their_own, why_not_covered, why_not_whole
from ..declaration import PrimitiveFamily, primitive
from ..error import ScheduleError
from ..random_variable import BlockRV, LoopRV
from ..reduction_order import require_made_for_init
from ..state import INLINE, ComputeLocation
from ..tree import BlockNode, LoopNode, detach, insert_beside, is_ancestor, loops_around, scope_of
from .block_domains import is_constant, solve_domains, within_iteration
from .boxes import required_boxes
from .caching import reads_within
from .filled import is_all_read
from .inline import inline_into_consumers
from .moving import (
    children_under,
    defined,
    position_among,
    rebuild_nest,
    require_below,
    require_movable,
    require_no_more_instances,
    require_whole,
    said_by_standing_data,
)


class ComputeAtPrimitives(PrimitiveFamily):
    """Where a block is computed that others use."""

    @primitive(
        "ComputeAt",
        moves=True,
        block=Block(),
        loop=Loop(),
        preserve_unit_loops=Argument(),
        index=Argument(),
    )
    def compute_at(
        self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a producer under a loop of its consumers, computing only what one iteration needs.

        ``B = f(A); for i: C[i] = g(B[i])`` becomes ``for i: B[i] = f(A[i]); C[i] = g(B[i])``.

        Args:
            block: the producer.
            loop: where to; a sampled location that is no loop inlines the block, or leaves it where it is.
            preserve_unit_loops: keep loops of one iteration.
            index: the position among what is under the loop; -1 is the last possible, -2 the first.

        Raises:
            ScheduleError: a consumer is not under the loop, or the block writes an output, or it is neither complete nor a
                reduction.
        """
        node, place = self._block(block), self._node(loop)
        if not isinstance(place, ComputeLocation):
            _compute_at(node, self._loop(loop), preserve_unit_loops, index)
        elif place.decision == INLINE:
            inline_into_consumers(node)


def _is_computed_here(
    block: BlockNode, loop: LoopNode, consumers: Sequence[BlockNode], buffer: tir.Buffer
) -> bool:
    """Whether a block has computed, where it is, all that its consumers state to read of a buffer: no instance is new under the loop.
    (That they do read it would be enough, see :func:`is_all_read`.)
    """
    shared = [item for item in loops_around(block) if is_ancestor(item, loop)]
    place = shared[-1] if shared else scope_of(block)
    assert place is not None
    return why_not_covered(block, buffer, place) is None and any(
        region.buffer is buffer
        and reads_within(relaxed_below(block, region, place), consumers, buffer, place)
        for region in block.writes
    )


def _require_sums_once(block: BlockNode, loop: LoopNode) -> None:
    """What a block has summed up so far it would sum up again in each iteration of a new loop inside of one of its reduction."""
    values = [
        value
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.CommReduce
    ]
    shared = [item for item in loops_around(block) if is_ancestor(item, loop)]
    reducing = [
        item
        for item in shared
        if not is_constant(item.extent, 1) and any(mentions(value, {item.var}) for value in values)
    ]
    repeating = [
        item for item in (*loops_around(loop), loop) if item not in shared and not is_constant(item.extent, 1)
    ]
    if reducing and repeating:
        raise ScheduleError(
            f"compute_at: loop {reducing[0].var.name!r} around loop {loop.var.name!r} is one of the reduction of block {block.name!r},"
            " which would sum up again what it has summed up"
        )


def _compute_at(block: BlockNode, loop: LoopNode, preserve_unit_loops: bool, index: int) -> None:
    primitive = "compute_at"
    require_movable(block, loop, primitive)
    require(
        not is_output_block(block),
        primitive,
        f"block {block.name!r} writes an output of the function; it cannot be partial",
    )
    consumers = consumers_of(block)
    require(consumers, primitive, f"block {block.name!r} has no consumer")
    require_below(loop, consumers, primitive, f"consumer {{}} of block {block.name!r}")
    require_made_for_init(consumers, written_buffers(block), loop, primitive)
    boxes = required_boxes(consumers, loop, written_buffers(block), writes=False)
    domains = said_by_standing_data(solve_domains(block, block.writes, boxes), block, loop)
    domains = defined(domains, consumers, loop)
    if why_not_whole(block, block.iter_vars) is not None:
        unsolved = [item for item in block.iter_vars if item.var not in domains]
        is_known = (
            run_by_loops_of_their_own(block, unsolved)
            and len(boxes) == 1
            and all(
                is_all_read(consumers, buffer, box, loop) or _is_computed_here(block, loop, consumers, buffer)
                for buffer, box in boxes.items()
            )
        )
        require_whole(block, unsolved if is_known else block.iter_vars, primitive)
    domains = within_iteration(block, domains, loop)
    branches = children_under(loop)
    first = next(i for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in consumers))
    producers = producers_of(block)
    earliest = max(
        (i + 1 for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in producers)),
        default=0,
    )
    require(earliest <= first, primitive, f"a producer of block {block.name!r} comes behind its consumers")
    anchor = branches[position_among(index, earliest, first, primitive)]
    require_no_more_instances(block, domains, loop, primitive)
    _require_sums_once(block, loop)
    detach(block)
    insert_beside(anchor, rebuild_nest(block, loop, domains, preserve_unit_loops), before=True)
    state_around(block)
