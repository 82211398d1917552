"""Primitives that move a block under a loop of its consumers (compute_at) or producers (reverse_compute_at)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ir import tir
from ir.tir import IterVar

from ..affine import constant_difference, mentions, polynomial, simplify_polynomial
from ..analysis import (
    consumers_of,
    is_output_block,
    producers_of,
    require,
    require_complete_or_reduction,
    written_buffers,
)
from ..error import ScheduleError
from ..region import Box, bind_region, relax_region, union_boxes
from ..tree import (
    BlockNode,
    LoopNode,
    SeqNode,
    TreeNode,
    blocks_below,
    detach,
    insert_beside,
    is_ancestor,
    loops_around,
    scope_of,
)

_THREAD_SCOPE_RANK = {"global": 0, "shared": 1, "shared.dyn": 1, "warp": 2, "local": 3}


def _loops_below(block: BlockNode, loop: LoopNode, buffer: tir.Buffer) -> dict[Any, tir.PrimExpr]:
    """The loops that run while ``loop`` stands still: those inside it, and thread loops that share the buffer."""
    running = {}
    inside = False
    for item in loops_around(block):
        if item is loop:
            inside = True
        elif inside or _shares_between_threads(item, buffer):
            running[item.var] = item.extent
    if _shares_between_threads(loop, buffer):
        running[loop.var] = loop.extent
    return running


def _shares_between_threads(loop: LoopNode, buffer: tir.Buffer) -> bool:
    if loop.thread_binding is None:
        return False
    rank = _THREAD_SCOPE_RANK.get(buffer.scope(), 0)
    tag = loop.thread_binding.thread_tag
    return (rank <= 1 and tag.startswith("threadIdx")) or (rank == 0 and tag.startswith("blockIdx"))


def _required_boxes(
    accessors: list[BlockNode], loop: LoopNode, buffers: set[tir.Buffer], writes: bool
) -> dict[tir.Buffer, Box]:
    """Per buffer, the box that ``accessors`` touch in one iteration of ``loop``."""
    found: dict[tir.Buffer, list[Box]] = {}
    for block in accessors:
        values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
        for region in block.writes if writes else block.reads:
            buffer = region.buffer
            if buffer in buffers:
                running = _loops_below(block, loop, buffer)
                bound = bind_region(region.region, values)
                found.setdefault(buffer, []).append(relax_region(bound, running, buffer.shape))
    return {buffer: union_boxes(boxes, buffer.shape) for buffer, boxes in found.items()}


def _solve_domains(
    block: BlockNode, regions: tuple[tir.BufferRegion, ...], boxes: Mapping[tir.Buffer, Box], primitive: str
) -> dict[Any, tuple[Any, Any]]:
    """The (min, extent) of each block variable that covers the boxes; variables that no index determines are absent."""
    domains: dict[Any, tuple[Any, Any]] = {}
    for region in regions:
        box = boxes.get(region.buffer)
        if box is None:
            continue
        for index, (low, extent) in zip(region.region, box, strict=True):
            solved = _solve_index(index, low, extent)
            if solved is None:
                continue
            var, new_low, new_extent = solved
            if var not in domains:
                domains[var] = (new_low, new_extent)
            else:
                ((low_a, extent_a),) = union_boxes([[domains[var]], [(new_low, new_extent)]], [_dim_of(block, var)])
                domains[var] = (low_a, extent_a)
    return domains


def _dim_of(block: BlockNode, var: tir.Var) -> tir.PrimExpr:
    return next(item.dom.extent for item in block.iter_vars if item.var is var)


def _solve_index(index: tir.Range, low: Any, extent: Any) -> tuple[Any, Any, Any] | None:
    """Solve ``var + constant`` in ``[low, low + extent)`` for the variable."""
    poly = polynomial(index.min)
    variables = [m for m in poly.terms if m]
    if len(variables) != 1 or len(variables[0]) != 1 or poly.terms[variables[0]] != 1:
        return None
    var = variables[0][0]
    if not isinstance(var, tir.Var):
        return None
    return var, simplify_polynomial(low - poly.terms.get((), 0)), extent


def _rebuild_nest(
    block: BlockNode,
    loop: LoopNode,
    domains: Mapping[Any, tuple[Any, Any]],
    preserve_unit_loops: bool,
) -> TreeNode:
    """New loops ``ax*`` around the (detached) block that iterate the given domains, clipped by predicates."""
    loops: list[tuple[Any, Any]] = []
    values, predicate = [], block.predicate
    predicate = tir.const(True)
    for item in block.iter_vars:
        dom = item.dom
        low, extent = domains.get(item.var, (dom.min, dom.extent))
        if constant_difference(extent, dom.extent) == 0:
            low = dom.min if constant_difference(low, dom.min) == 0 or _is_whole(low, extent, dom) else low
        extent = _clamped(extent, dom.extent)
        if isinstance(extent, tir.IntImm) and extent.value == 1 and not preserve_unit_loops:
            value = tir.cast(item.var.dtype, low)
        else:
            var = tir.Var(f"ax{len(loops)}", item.var.dtype)
            loops.append((var, tir.cast(var.dtype, extent)))
            value = simplify_polynomial(tir.cast(var.dtype, low) + var)
        values.append(value)
        for guard in _guards(value, low, extent, dom, loop):
            predicate = tir.expr.logical_and(predicate, guard)
    block.change(iter_values=tuple(values), predicate=predicate)
    node: TreeNode = block
    for var, extent in reversed(loops):
        node = LoopNode(var, extent, node)
    return node


def _is_whole(low: Any, extent: Any, dom: tir.Range) -> bool:
    return isinstance(low, tir.IntImm) and isinstance(dom.min, tir.IntImm) and low.value <= dom.min.value


def _clamped(extent: Any, whole: Any) -> Any:
    """No more iterations than the whole dimension has."""
    if isinstance(extent, tir.IntImm) and isinstance(whole, tir.IntImm):
        return extent if extent.value <= whole.value else whole
    if constant_difference(extent, whole) == 0:
        return whole
    # Products of tile factors that divide the dimension never exceed it; other sums (halos) may.
    if len([m for m in polynomial(extent).terms]) == 1:
        return extent
    return tir.expr.min(extent, whole)


def _guards(value: Any, low: Any, extent: Any, dom: tir.Range, loop: LoopNode) -> list[tir.PrimExpr]:
    """Conditions that keep a variable inside its domain where the new loops could leave it."""
    if isinstance(low, tir.IntImm) and isinstance(extent, tir.IntImm) and isinstance(dom.extent, tir.IntImm):
        inside = low.value >= 0 and low.value + extent.value <= dom.extent.value
        if inside:
            return []
    if not isinstance(dom.extent, tir.IntImm) or _is_symbolic(extent) or _is_symbolic(low):
        return []
    from ir.arith import Analyzer

    analyzer = Analyzer()
    for around in [*loops_around(loop), loop]:
        analyzer.bind(around.var, around.range())
    bound = analyzer.const_int_bound(tir.convert(low))
    guards = []
    size = extent.value if isinstance(extent, tir.IntImm) else analyzer.const_int_bound(extent).max_value
    if bound.min_value < 0:
        guards.append(tir.expr._compare(tir.GE, value, 0))
    if bound.max_value + size > dom.extent.value:
        guards.append(value < dom.extent)
    return guards


def _is_symbolic(expr: Any) -> bool:
    """Whether open decisions occur in it (their tiles divide evenly, so that nothing sticks out)."""
    from ..random_variable import DecisionVar

    found = []
    tir.post_order_visit(tir.convert(expr), lambda node: found.append(1) if isinstance(node, DecisionVar) else None)
    return bool(found)


def _children_under(loop: LoopNode) -> list[TreeNode]:
    return loop.body.nodes if isinstance(loop.body, SeqNode) else [loop.body]


def _check_move(block: BlockNode, loop: LoopNode, primitive: str) -> None:
    require(scope_of(block) is not None, primitive, "the root block cannot be moved")
    require(
        scope_of(block) is scope_of(loop), primitive, f"block {block.name!r} and loop {loop.var.name!r} are in different scopes"
    )
    require(
        not is_ancestor(loop, block), primitive, f"loop {loop.var.name!r} is already around block {block.name!r}"
    )
    require_complete_or_reduction(block, primitive)


def compute_at(block: BlockNode, loop: LoopNode, preserve_unit_loops: bool = False, index: int = -1) -> None:
    """Compute a block where its consumers under ``loop`` need it: only the region that one iteration needs."""
    _check_move(block, loop, "compute_at")
    require(
        not is_output_block(block), "compute_at", f"block {block.name!r} writes an output of the function; it cannot be partial"
    )
    consumers = consumers_of(block)
    require(consumers, "compute_at", f"block {block.name!r} has no consumer")
    below = list(blocks_below(loop))
    for consumer in consumers:
        require(
            any(consumer is item for item in below),
            "compute_at",
            f"consumer {consumer.name!r} of block {block.name!r} is not under loop {loop.var.name!r}",
        )
    boxes = _required_boxes(consumers, loop, written_buffers(block), writes=False)
    domains = _solve_domains(block, block.writes, boxes, "compute_at")
    _keep_reductions_whole(block, domains)
    branches = _children_under(loop)
    first = next(i for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in consumers))
    producers = producers_of(block)
    earliest = max(
        (i + 1 for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in producers)), default=0
    )
    require(earliest <= first, "compute_at", f"a producer of block {block.name!r} comes behind its consumers")
    position = _position(index, earliest, first, "compute_at")
    anchor = branches[position] if position < len(branches) else branches[-1]
    detach(block)
    nest = _rebuild_nest(block, loop, domains, preserve_unit_loops)
    insert_beside(anchor, nest, before=position < len(branches))


def _position(index: int, first: int, last: int, primitive: str) -> int:
    if index == -1:
        return last
    if index == -2:
        return first
    require(first <= index <= last, primitive, f"index {index} is not between {first} and {last}")
    return index


def _keep_reductions_whole(block: BlockNode, domains: dict[Any, tuple[Any, Any]]) -> None:
    for item in block.iter_vars:
        if item.iter_type != IterVar.DataPar:
            domains.pop(item.var, None)


def reverse_compute_at(block: BlockNode, loop: LoopNode, preserve_unit_loops: bool = False, index: int = -1) -> None:
    """Consume under ``loop`` what its iterations produce: the mirror image of :func:`compute_at`."""
    _check_move(block, loop, "reverse_compute_at")
    producers = producers_of(block)
    require(producers, "reverse_compute_at", f"block {block.name!r} has no producer")
    below = list(blocks_below(loop))
    for producer in producers:
        require(
            any(producer is item for item in below),
            "reverse_compute_at",
            f"producer {producer.name!r} of block {block.name!r} is not under loop {loop.var.name!r}",
        )
        _require_finished(producer, loop, block)
    consumers = consumers_of(block)
    produced = set().union(*[written_buffers(item) for item in producers])
    boxes = _required_boxes(producers, loop, produced, writes=True)
    domains = _solve_domains(block, block.reads, boxes, "reverse_compute_at")
    for region in block.reads:
        if region.buffer not in boxes:
            continue
        for index_range in region.region:
            undetermined = {item.var for item in block.iter_vars if item.var not in domains}
            if mentions(index_range.min, undetermined) and not _is_whole_dimension(block, region, boxes):
                raise ScheduleError(
                    f"reverse_compute_at: block {block.name!r} reads {region.buffer.name} at {index_range.min},"
                    " from which its iteration variables cannot be solved"
                )
    branches = _children_under(loop)
    last_producer = max(i for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in producers))
    first_consumer = next(
        (i for i, child in enumerate(branches) if any(is_ancestor(child, item) for item in consumers)), len(branches)
    )
    require(
        last_producer < first_consumer, "reverse_compute_at", f"a consumer of block {block.name!r} comes before its producers"
    )
    position = _position(index, last_producer + 1, first_consumer, "reverse_compute_at")
    anchor = branches[position - 1]
    detach(block)
    nest = _rebuild_nest(block, loop, domains, preserve_unit_loops)
    insert_beside(anchor, nest, before=False)


def _is_whole_dimension(block: BlockNode, region: tir.BufferRegion, boxes: Mapping[tir.Buffer, Box]) -> bool:
    return all(
        constant_difference(extent, dim) == 0
        for (_, extent), dim in zip(boxes[region.buffer], region.buffer.shape, strict=True)
    )


def _require_finished(producer: BlockNode, loop: LoopNode, block: BlockNode) -> None:
    """One iteration of ``loop`` must finish what it produces: no reduction may run around or at the loop."""
    around = [*loops_around(loop), loop]
    outer = {item.var for item in around}
    for item, value in zip(producer.iter_vars, producer.iter_values, strict=True):
        if item.iter_type == IterVar.CommReduce and mentions(value, outer):
            raise ScheduleError(
                f"reverse_compute_at: at loop {loop.var.name!r} the reduction {item.var.name!r} of producer"
                f" {producer.name!r} is not finished, so block {block.name!r} would read partial sums"
            )
