"""RandomComputeLocation: where blocks that feed others are computed (at the root, or under a loop of their consumer)."""

from __future__ import annotations

from functools import cache, partial

from ir import tir
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..affine import mentions
from ..analysis import consumers_of, is_output_block, why_not_complete, why_not_reduction
from ..annotation import PARALLEL, UNROLL, VECTORIZE
from ..block_facts import is_one, is_scheduled, node_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, loops_around
from .base import Alternatives, ScheduleRule, unless_refused


class RandomComputeLocation(ScheduleRule):
    """Offer compute locations as alternative structures.

    A compute location changes the loop tree, so each is a structure of its own. What is most likely comes first: the innermost loop of the
    consumer at which nothing is computed twice; the loops around a tile that needs the block (computing halos again); the root; then every
    other loop of the consumers outside of their register tiles.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        node = node_of(sch, block)
        if is_output_block(node) or is_scheduled(node) or LAYOUT_REWRITE_PREPROC in node.annotations:
            return [sch]
        if why_not_complete(node) is not None and why_not_reduction(node) is not None:
            return [sch]
        consumers = consumers_of(node)
        if not consumers or any(LAYOUT_REWRITE_PREPROC in item.annotations for item in consumers):
            return [sch]
        common = _common_loops(consumers)
        depth = free_depth(node, consumers, common)
        is_complete = why_not_complete(node) is None
        tiled = [i for i, loop in enumerate(common) if PARALLEL in loop.annotations]
        likely = [depth - 1] if depth else []
        if tiled and is_complete:
            # Under the last core-level loop, and one cache level further in.
            likely += [tiled[-1], min(len(common) - 1, tiled[-1] + len(tiled))]
        # A reduction is not computed twice; of what is, loops of one iteration are no other places than the loops around them.
        others = [i for i in range(len(common)) if not is_one(common[i].extent)] if is_complete else []
        start = sch.copy()  # what is offered may be changed before the next one is asked for

        @cache
        def under(place: int) -> list[Schedule]:
            return _moved(start, block, place)

        places = [partial(under, place) for place in dict.fromkeys(likely)]
        if depth < len(common) or not depth or not under(depth - 1):
            places.append(partial(list, [sch]))
        return Alternatives([*places, *(partial(under, place) for place in others if place not in likely)])


def _moved(sch: Schedule, block: BlockRV, position: int) -> list[Schedule]:
    """A copy with the block computed at the consumer loop of that position; none where that is illegal."""

    def move(copy: Schedule) -> list[Schedule]:
        consumer = copy.get_consumers(block)[0]
        loop = copy.get_loops(consumer)[position]
        copy.compute_at(block, loop, preserve_unit_loops=True)
        node = node_of(copy, block)
        if loops_around(node)[-1].var.name.startswith("ax") and why_not_complete(node) is None:
            copy.annotate(copy.get_loops(block)[-1], VECTORIZE, 1)
        return [copy]

    return unless_refused(sch, move)


def _common_loops(consumers: list[BlockNode]) -> list[LoopNode]:
    """Loops around all consumers, without those of the register tile and of reductions: in there everything is scalar."""
    common = loops_around(consumers[0])
    tile = (VECTORIZE, UNROLL)
    first = next(
        (i for i, loop in enumerate(common) if any(mark in loop.annotations for mark in tile)), len(common)
    )
    common = common[:first]
    for consumer in consumers[1:]:
        around = loops_around(consumer)
        common = [loop for loop in common if any(loop is item for item in around)]
    return common


def free_depth(node: BlockNode, consumers: list[BlockNode], common: list[LoopNode]) -> int:
    """How many of the common loops select distinct parts of what the block writes: under those nothing is repeated."""
    buffers = {region.buffer for region in node.writes}
    depth = 0
    for loop in common:
        for consumer in consumers:
            values = dict(zip([item.var for item in consumer.iter_vars], consumer.iter_values, strict=True))
            for region in consumer.reads:
                if region.buffer not in buffers:
                    continue
                indices = [tir.substitute(item.min, values) for item in region.region]
                if not any(mentions(index, {loop.var}) for index in indices):
                    return depth
                wide = any(
                    not is_one(item.extent) and mentions(tir.substitute(item.min, values), {loop.var})
                    for item in region.region
                )
                if wide:
                    return depth
        depth += 1
    return depth
