"""Primitives that move a block under a loop of its consumers (compute_at) or producers (reverse_compute_at)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, substitute, variables_in

from ..access import relaxed_below, state_around
from ..affine import constant_difference, mentions, polynomial, simplify_polynomial
from ..analysis import (
    consumers_of,
    is_output_block,
    producers_of,
    read_buffers,
    require,
    require_blocks_only,
    require_complete_or_reduction,
    scope_children,
    written_buffers,
)
from ..argument import Argument, Block, Loop
from ..bounds import analyzer_of, clause_beyond, guards, inside, is_open, tiles_at_most
from ..coverage import (
    run_by_loops_of_their_own,
    why_not_contiguous,
    why_not_covered,
    why_not_whole,
)
from ..declaration import PrimitiveFamily, primitive
from ..dependence import has_elements_of_its_own, require_own_elements
from ..early import always_runs, may_be_undefined
from ..error import ScheduleError
from ..order import require_order_kept, why_not_final
from ..random_variable import BlockRV, LoopRV
from ..reduction_order import loops_of_sums, require_made_for_init, why_not_begun_once
from ..region import Box, bind_region, lies_inside, relax_region, union_boxes
from ..state import INLINE, ComputeLocation
from ..surroundings import nodes_around
from ..tree import (
    BlockNode,
    LoopNode,
    SeqNode,
    TreeNode,
    WrapNode,
    blocks_below,
    detach,
    insert_beside,
    is_ancestor,
    loops_around,
    scope_of,
)
from .block_domains import is_constant, solve_domains, within_iteration
from .boxes import are_adjacent, boxes_of_each, required_boxes, unit_loops
from .caching import reads_within
from .filled import is_all_read
from .inline import inline_into_consumers, inline_into_producer


class ComputeAtPrimitives(PrimitiveFamily):
    """Where a block is computed."""

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


def _rebuild_nest(
    block: BlockNode,
    loop: LoopNode,
    domains: Mapping[Any, tuple[Any, Any]],
    preserve_unit_loops: bool,
) -> TreeNode:
    """New loops ``ax*`` around the (detached) block that iterate the given domains, clipped by predicates."""
    around = [*loops_around(loop), loop]
    units = unit_loops(around)
    loops: list[tuple[Any, Any]] = []
    values: list[Any] = []
    conditions: list[Any] = []
    standing = {other.var for other in around}
    analyzer = analyzer_of(around)
    for item, before in zip(block.iter_vars, block.iter_values, strict=True):
        whole = item.dom.min, item.dom.extent
        if _stands_still(before, standing):
            whole = before, tir.const(1, item.dom.extent.dtype)
        low, extent, bounded = _window(item, *domains.get(item.var, whole), units)
        if not polynomial(low).is_polynomial():
            low = analyzer.simplify(low)
        if is_constant(extent, 1) and not preserve_unit_loops:
            value = tir.cast(item.var.dtype, low)
            running = None
        else:
            running = tir.Var(f"ax{len(loops)}", item.var.dtype)
            loops.append((running, tir.cast(running.dtype, extent)))
            value = tir.cast(running.dtype, low) + running
        values.append(value)
        if not bounded:
            conditions += guards(value, running, extent, item.dom, around)
    predicate: Any = tir.const(True)
    for condition in conditions:
        predicate = tir.operators.logical_and(predicate, condition)
    block.change(iter_values=tuple(values), predicate=predicate)
    node: TreeNode = block
    for var, extent in reversed(loops):
        node = LoopNode(var, extent, node)
    return node


def _require_no_more_instances(
    block: BlockNode, domains: Mapping[Any, tuple[Any, Any]], loop: LoopNode, primitive: str
) -> None:
    """Instances that loops around the new place say, beside others, are no longer told apart: each must have elements of its own. What a
    reduction sums up in one iteration of these loops would become all that it sums up in the end.
    """
    around = [*loops_around(loop), loop]
    standing = {other.var for other in around} - unit_loops(around).keys()
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.var not in domains and mentions(value, standing) and not _stands_still(value, standing):
            require(
                item.iter_type != IterVar.CommReduce and has_elements_of_its_own(block),
                primitive,
                f"block {block.name!r} would run for more values of {item.var.name!r} than the loops around it say, and write"
                " the same elements",
            )


def _stands_still(value: tir.PrimExpr, loops: set[tir.Var]) -> bool:
    """Whether loops that stay around a block say the value of one of its variables."""
    found = variables_in(value)
    return bool(found) and loops.issuperset(found)


def _window(item: IterVar, low: Any, extent: Any, units: Mapping[Any, Any]) -> tuple[Any, Any, bool]:
    """(min, extent, whether it surely stays in the domain) of what a block variable runs through."""
    dom = item.dom
    low, extent = simplify_polynomial(substitute(low, units)), simplify_polynomial(substitute(extent, units))
    difference = constant_difference(extent, dom.extent)
    if difference is not None and difference >= 0:
        return dom.min, dom.extent, True
    if isinstance(low, tir.IntImm) and isinstance(extent, tir.IntImm) and isinstance(dom.extent, tir.IntImm):
        if not isinstance(dom.min, tir.IntImm):
            return low, extent, False
        first = max(low.value, dom.min.value)
        last = min(low.value + extent.value, dom.min.value + dom.extent.value)
        return tir.const(first, low.dtype), tir.const(max(last - first, 0), extent.dtype), True
    if is_open(extent):
        # An open tile never exceeds the dimension that it divides; a halo around it may, and is cut then, as is a tile of
        # a padded extent.
        whole = len(polynomial(extent).terms) == 1 and tiles_at_most(extent, dom.extent)
        return low, extent if whole else tir.operators.min(extent, dom.extent), True
    if is_open(low):
        return low, extent, True
    return low, extent, False


def _children_under(loop: LoopNode) -> list[TreeNode]:
    return loop.body.nodes if isinstance(loop.body, SeqNode) else [loop.body]


def _check_move(block: BlockNode, loop: LoopNode, primitive: str) -> None:
    require(scope_of(block) is not None, primitive, "the root block cannot be moved")
    require(
        scope_of(block) is scope_of(loop),
        primitive,
        f"block {block.name!r} and loop {loop.var.name!r} are in different scopes",
    )
    require(
        not is_ancestor(loop, block),
        primitive,
        f"loop {loop.var.name!r} is already around block {block.name!r}",
    )
    require_complete_or_reduction(block, primitive)
    require_blocks_only(block, primitive)
    _require_only_guards(block, primitive)
    require_own_elements(block, loops_around(block), primitive)
    _require_begun_once(block, primitive)
    require_order_kept(block, loop, primitive)
    outer = {item.var for item in loops_around(block)}
    if not block.iter_vars and outer:
        require(
            not mentions(block.stmt(), outer),
            primitive,
            f"block {block.name!r} has no iteration variables and uses the loops around it; it cannot leave them",
        )


def _require_begun_once(block: BlockNode, primitive: str) -> None:
    """New loops run each instance of a reduction once, the first one with its init: so must the old ones that run while an element is
    reduced.
    """
    if block.init is not None:
        reason = why_not_begun_once(block, loops_of_sums(block, loops_around(block)))
        require(reason is None, primitive, f"{reason}")


def _require_whole(block: BlockNode, variables: Sequence[IterVar], primitive: str) -> None:
    """New loops run over the domains that a block states for its variables: its loops must have done so."""
    reason = why_not_whole(block, variables)
    require(reason is None, primitive, f"{reason}; its new loops would run over all")


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


def _require_only_guards(block: BlockNode, primitive: str) -> None:
    """New loops get new guards; what a predicate says beside them, of loops that need none, would be lost."""
    if isinstance(block.predicate, tir.IntImm):
        return
    kept = [inside(value, item.dom) for item, value in zip(block.iter_vars, block.iter_values, strict=True)]
    clause = clause_beyond(block.predicate, kept, loops_around(block))
    require(
        clause is None,
        primitive,
        f"block {block.name!r} runs only where {clause}, which is no guard of its variables' ranges",
    )


def _compute_at(block: BlockNode, loop: LoopNode, preserve_unit_loops: bool, index: int) -> None:
    primitive = "compute_at"
    _check_move(block, loop, primitive)
    require(
        not is_output_block(block),
        primitive,
        f"block {block.name!r} writes an output of the function; it cannot be partial",
    )
    consumers = consumers_of(block)
    require(consumers, primitive, f"block {block.name!r} has no consumer")
    _require_below(loop, consumers, primitive, f"consumer {{}} of block {block.name!r}")
    require_made_for_init(consumers, written_buffers(block), loop, primitive)
    boxes = required_boxes(consumers, loop, written_buffers(block), writes=False)
    domains = _said_by_standing_data(solve_domains(block, block.writes, boxes), block, loop)
    domains = _defined(domains, consumers, loop)
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
        _require_whole(block, unsolved if is_known else block.iter_vars, primitive)
    domains = within_iteration(block, domains, loop)
    branches = _children_under(loop)
    first = next(i for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in consumers))
    producers = producers_of(block)
    earliest = max(
        (i + 1 for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in producers)),
        default=0,
    )
    require(earliest <= first, primitive, f"a producer of block {block.name!r} comes behind its consumers")
    anchor = branches[_position(index, earliest, first, primitive)]
    _require_no_more_instances(block, domains, loop, primitive)
    detach(block)
    insert_beside(anchor, _rebuild_nest(block, loop, domains, preserve_unit_loops), before=True)
    state_around(block)


def _said_by_standing_data(
    domains: Mapping[Any, tuple[Any, Any]], block: BlockNode, loop: LoopNode
) -> dict[Any, tuple[Any, Any]]:
    """The domains but for those that data says which changes under the loop: where the block will be, it may be another."""
    changing = set().union(
        *[written_buffers(item) for item in scope_children(block) if is_ancestor(loop, item)]
    )
    return {
        var: domain
        for var, domain in domains.items()
        if not any(load.buffer in changing for part in domain for load in loads_in(part))
    }


def _defined(
    domains: Mapping[Any, tuple[Any, Any]], users: Sequence[BlockNode], loop: LoopNode
) -> dict[Any, tuple[Any, Any]]:
    """The domains but for those whose ends may be undefined in iterations in which the blocks that say them do not run: loads, say, at
    the positions that an uneven split adds.
    """
    doubtful = {
        var for var, domain in domains.items() if not all(polynomial(part).is_polynomial() for part in domain)
    }
    if not doubtful or all(always_runs(item, loop) for item in users):
        return dict(domains)
    analyzer = analyzer_of([*loops_around(loop), loop])
    return {
        var: domain
        for var, domain in domains.items()
        if var not in doubtful or not any(may_be_undefined(part, analyzer) for part in domain)
    }


def _require_below(loop: LoopNode, blocks: list[BlockNode], primitive: str, what: str) -> None:
    below = list(blocks_below(loop))
    for item in blocks:
        require(
            any(item is other for other in below),
            primitive,
            f"{what.format(repr(item.name))} is not under loop {loop.var.name!r}",
        )


def _position(index: int, first: int, last: int, primitive: str) -> int:
    if index == -1:
        return last
    if index == -2:
        return first
    require(first <= index <= last, primitive, f"index {index} is not between {first} and {last}")
    return index


def _reverse_compute_at(block: BlockNode, loop: LoopNode, preserve_unit_loops: bool, index: int) -> None:
    primitive = "reverse_compute_at"
    _check_move(block, loop, primitive)
    _require_whole(block, block.iter_vars, primitive)
    producers = producers_of(block)
    _require_below(loop, producers, primitive, f"producer {{}} of block {block.name!r}")
    for producer in producers:
        _require_finished(producer, loop, block)
        _require_only_guards(producer, primitive)
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
    domains = _said_by_standing_data(solve_domains(block, block.reads, boxes), block, loop)
    domains = _defined(domains, producers, loop)
    _require_all_read(block, domains, boxes)
    _require_only_finished_reads(block, domains, boxes, [*loops_around(loop), loop])
    branches = _children_under(loop)
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
    position = _position(index, last_producer + 1, first_consumer, primitive)
    anchor = branches[max(position - 1, 0)]
    _require_no_more_instances(block, domains, loop, primitive)
    detach(block)
    nest = _rebuild_nest(block, loop, domains, preserve_unit_loops)
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
    for region in block.reads:
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
