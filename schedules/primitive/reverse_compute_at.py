"""The primitive that moves a block under a loop of its producers: reverse_compute_at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.stmt_functor import substitute

from ..access import reads_with_init, relaxed_below, state_around
from ..affine import constant_difference, mentions
from ..analysis import consumers_of, producers_of, read_buffers, require, scope_children, written_buffers
from ..argument import Argument, Block, Loop
from ..bounds import analyzer_of, is_open
from ..coverage import why_not_contiguous, why_not_covered
from ..declaration import PrimitiveFamily, primitive
from ..error import ScheduleError
from ..order import why_not_final
from ..random_variable import BlockRV, LoopRV
from ..region import Box, bind_region, lies_inside, relax_region, union_boxes
from ..state import INLINE, ComputeLocation
from ..surroundings import nodes_around
from ..tree import BlockNode, LoopNode, WrapNode, detach, insert_beside, is_ancestor, loops_around, scope_of
from .block_domains import is_constant, solve_domains
from .boxes import are_adjacent, boxes_of_each, required_boxes
from .caching import reads_within
from .inline import inline_into_producer
from .moving import (
    children_under,
    defined,
    position_among,
    rebuild_nest,
    require_below,
    require_movable,
    require_no_more_instances,
    require_only_guards,
    require_whole,
    said_by_standing_data,
)


class ReverseComputeAtPrimitives(PrimitiveFamily):
    """Where a block is computed that uses what others produce."""

    @primitive(
        "ReverseComputeAt",
        moves=True,
        block=Block(),
        loop=Loop(),
        preserve_unit_loops=Argument(),
        index=Argument(),
    )
    def reverse_compute_at(
        self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop of its producers, consuming what one iteration produces: the mirror of ``compute_at``.

        ``for i: B[i] = f(A[i])`` followed by ``C = g(B)`` becomes ``for i: B[i] = f(A[i]); C[i] = g(B[i])``.

        Raises:
            ScheduleError: a producer is not under the loop or not finished in one iteration, or a consumer comes before.
        """
        node, place = self._block(block), self._node(loop)
        if not isinstance(place, ComputeLocation):
            _reverse_compute_at(node, self._loop(loop), preserve_unit_loops, index)
        elif place.decision == INLINE:
            inline_into_producer(node)


def _reverse_compute_at(block: BlockNode, loop: LoopNode, preserve_unit_loops: bool, index: int) -> None:
    primitive = "reverse_compute_at"
    require_movable(block, loop, primitive)
    require_whole(block, block.iter_vars, primitive)
    producers = producers_of(block)
    require_below(loop, producers, primitive, f"producer {{}} of block {block.name!r}")
    for producer in producers:
        _require_finished(producer, loop, block)
        require_only_guards(producer, primitive, stays=True)
        for buffer in written_buffers(producer) & read_buffers(block):
            reason = why_not_contiguous(producer, buffer, loop)
            require(reason is None, primitive, f"{reason}, in one iteration of loop {loop.var.name!r}")
            _require_all_produced(producer, buffer, block)
    _require_final(block, producers, loop)
    consumers = consumers_of(block)
    order = scope_children(block)
    first_below = next(n for n, item in enumerate(order) if is_ancestor(loop, item))
    for item in consumers:
        require(
            is_ancestor(loop, item) or any(item is other for other in order[first_below:]),
            primitive,
            f"consumer {item.name!r} of block {block.name!r} comes before loop {loop.var.name!r}",
        )
    _require_unconditional(loop, block)
    _require_reduction_whole(block, loop)
    produced: set[tir.Buffer] = set().union(*[written_buffers(item) for item in producers])
    _require_adjacent(producers, loop, produced & read_buffers(block))
    boxes = required_boxes(producers, loop, produced, writes=True, across_threads=False)
    domains = said_by_standing_data(solve_domains(block, block.reads, boxes), block, loop)
    domains = defined(domains, producers, loop)
    _require_all_read(block, domains, boxes)
    _require_only_finished_reads(block, domains, boxes, [*loops_around(loop), loop])
    branches = children_under(loop)
    last_producer = max(
        (i for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in producers)),
        default=-1,
    )
    first_consumer = next(
        (i for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in consumers)),
        len(branches),
    )
    require(
        last_producer < first_consumer,
        primitive,
        f"a consumer of block {block.name!r} comes before its producers",
    )
    position = position_among(index, last_producer + 1, first_consumer, primitive)
    anchor = branches[max(position - 1, 0)]
    require_no_more_instances(block, domains, loop, primitive)
    detach(block)
    nest = rebuild_nest(block, loop, domains, preserve_unit_loops)
    _skip_where_nothing_is_produced(block, loop, domains)
    insert_beside(anchor, nest, before=position == 0)
    state_around(block)


def _require_final(block: BlockNode, producers: Sequence[BlockNode], loop: LoopNode) -> None:
    """A consumer that waited for the last iteration of loops read what that one left of an element; so it must be with the first."""
    joined = [item for item in (*loops_around(loop), loop) if not is_ancestor(item, block)]
    for buffer in read_buffers(block):
        writers = [item for item in producers if buffer in written_buffers(item)]
        for item in joined if writers else ():
            reason = why_not_final(buffer, writers, item)
            require(reason is None, "reverse_compute_at", f"{reason}, which block {block.name!r} reads")


def _require_adjacent(producers: list[BlockNode], loop: LoopNode, buffers: set[tir.Buffer]) -> None:
    """What several producers write of a buffer in one iteration must be one box: what is between is produced by other iterations."""
    for buffer, boxes in boxes_of_each(producers, loop, buffers, writes=True, across_threads=False).items():
        joined, *apart = boxes
        while apart:
            beside = next((box for box in apart if are_adjacent(joined, box)), None)
            require(
                beside is not None,
                "reverse_compute_at",
                f"what one iteration of loop {loop.var.name!r} produces of {buffer.name} is not known to be one box",
            )
            assert beside is not None
            joined = union_boxes([joined, beside], buffer.shape)
            apart = [box for box in apart if box is not beside]


def _require_unconditional(loop: LoopNode, block: BlockNode) -> None:
    """A consumer that goes under a condition would not run where that does not hold."""
    for node in nodes_around(loop):
        require(
            not isinstance(node, WrapNode),
            "reverse_compute_at",
            f"loop {loop.var.name!r} is below a condition, under which block {block.name!r} would not always run",
        )


def _skip_where_nothing_is_produced(
    block: BlockNode, loop: LoopNode, domains: Mapping[Any, tuple[Any, Any]]
) -> None:
    """A block that runs through the whole domain of a variable does so only where its producers wrote some of it.

    A loop that was split unevenly has iterations without any.
    """
    around = [*loops_around(loop), loop]
    outer = {other.var for other in around}
    analyzer = analyzer_of(around)
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        low, extent = domains.get(item.var, (item.dom.min, item.dom.extent))
        if is_open(low) or is_open(extent) or mentions(value, outer) or not mentions(low, outer):
            continue
        for condition in (low < item.dom.min + item.dom.extent, low + extent > item.dom.min):
            if not analyzer.can_prove(condition):
                predicate = tir.operators.logical_and(block.predicate, analyzer.simplify(condition))
                block.change(predicate=predicate)


def _require_all_produced(producer: BlockNode, buffer: tir.Buffer, block: BlockNode) -> None:
    """Of memory from outside of the scope a consumer may read what nobody produces; no iteration of the producer would take that along."""
    scope = scope_of(block)
    assert scope is not None
    if buffer in scope.alloc_buffers or any(is_open(loop.extent) for loop in loops_around(producer)):
        return
    reason = why_not_covered(producer, buffer, scope)
    require(reason is None, "reverse_compute_at", f"{reason}; block {block.name!r} may read more")
    for region in producer.writes:
        require(
            region.buffer is not buffer
            or reads_within(relaxed_below(producer, region, scope), [block], buffer, scope),
            "reverse_compute_at",
            f"block {block.name!r} reads more of {buffer.name} than block {producer.name!r} writes",
        )


def _require_reduction_whole(block: BlockNode, loop: LoopNode) -> None:
    """A consumer that reduces over what the loop's iterations produce would mix its init with the updates of others."""
    outer = [item for item in [*loops_around(loop), loop] if not is_constant(item.extent, 1)]
    if block.init is None or not outer:
        return
    reductions = {item.var for item in block.iter_vars if item.iter_type == IterVar.CommReduce}
    produced = [region for item in producers_of(block) for region in item.writes]
    buffers = {region.buffer for region in produced}
    for region in block.reads:
        if region.buffer not in buffers:
            continue
        for position, item in enumerate(region.region):
            if not mentions(item.min, reductions):
                continue
            for producer in producers_of(block):
                values = dict(zip([v.var for v in producer.iter_vars], producer.iter_values, strict=True))
                for write in producer.writes:
                    if write.buffer is region.buffer and mentions(
                        substitute(write.region[position].min, values),
                        {outer_loop.var for outer_loop in outer},
                    ):
                        raise ScheduleError(
                            f"reverse_compute_at: block {block.name!r} reduces over dimension {position} of"
                            f" {region.buffer.name}, of which one iteration of loop {loop.var.name!r} has a part only"
                        )


def _require_all_read(
    block: BlockNode, domains: Mapping[Any, tuple[Any, Any]], boxes: Mapping[tir.Buffer, Box]
) -> None:
    """Iterations are found by what they read; those that pad read nothing that is produced, and would be lost."""
    values = {item.var: item.dom for item in block.iter_vars}
    found = {
        var
        for region in block.reads
        if region.buffer in boxes
        for index, dim in zip(region.region, region.buffer.shape, strict=True)
        if lies_inside(index, values, dim)
        for var in domains
        if mentions(index.min, {var})
    }
    for var in domains:
        require(
            var in found,
            "reverse_compute_at",
            f"for some values of {var.name} block {block.name!r} reads nothing of what its producers write, so they go along with"
            " no iteration of them",
        )


def _require_only_finished_reads(
    block: BlockNode,
    domains: Mapping[Any, tuple[Any, Any]],
    boxes: Mapping[tir.Buffer, Box],
    around: list[LoopNode],
) -> None:
    """Over its new domain the block may read only what this iteration produces."""
    analyzer = analyzer_of(around)
    lows = {var: low for var, (low, _) in domains.items()}
    running = {var: extent for var, (_, extent) in domains.items()}
    for item in block.iter_vars:
        if item.var not in lows:
            lows[item.var], running[item.var] = item.dom.min, item.dom.extent
    shifted = {var: low + var for var, low in lows.items()}
    for region in reads_with_init(block):
        box = boxes.get(region.buffer)
        if box is None:
            continue
        needed = relax_region(bind_region(region.region, shifted), running, region.buffer.shape)
        for (low, extent), (has_low, has_extent), dim in zip(needed, box, region.buffer.shape, strict=True):
            if constant_difference(has_extent, dim) == 0:
                continue
            below, above = (
                constant_difference(low, has_low),
                constant_difference(low + extent, has_low + has_extent),
            )
            if below is None or above is None:
                # Digits of a fused loop, say, that only make up its value again within its range.
                below = constant_difference(analyzer.simplify(low - has_low), 0)
                above = constant_difference(analyzer.simplify(low + extent - has_low - has_extent), 0)
            if below is None or above is None or below < 0 or above > 0:
                if constant_difference(has_extent, dim) is not None and is_constant(dim, 1):
                    continue
                raise ScheduleError(
                    f"reverse_compute_at: in one iteration block {block.name!r} would read {region.buffer.name} at"
                    f" [{low}, {low} + {extent}), but only [{has_low}, {has_low} + {has_extent}) is produced"
                )


def _require_finished(producer: BlockNode, loop: LoopNode, block: BlockNode) -> None:
    """One iteration of ``loop`` must finish what it produces: no reduction may run around or at the loop."""
    around = [*loops_around(loop), loop]
    outer = {item.var for item in around if not is_constant(item.extent, 1)}
    for item, value in zip(producer.iter_vars, producer.iter_values, strict=True):
        if item.iter_type == IterVar.CommReduce and mentions(value, outer):
            raise ScheduleError(
                f"reverse_compute_at: at loop {loop.var.name!r} the reduction {item.var.name!r} of producer"
                f" {producer.name!r} is not finished, so block {block.name!r} would read partial sums"
            )
