"""Whether a block writes all of the box that it is said to write: a copy of that box would otherwise carry elements that nobody wrote.

A box is covered where each dimension of the stored index is a sum of steps of loops of its own without gaps, and the store happens
in every iteration that a copy of the box has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.tir.stmt_functor import loads_in, substitute

from .affine import (
    constant_difference,
    mentions,
    simplify_polynomial,
)
from .analysis import read_buffers
from .bounds import clause_beyond, inside, is_open
from .filled_box import fills_box, may_pass_over, reduced_extents, says_how_far
from .first_instance import is_tiled, why_not_begun_first
from .region import relax_domains
from .stores import Store, calls_in, is_harmless, stores_in
from .surroundings import evaluated_by, nodes_around
from .touches import buffers_read_elsewhere
from .tree import BlockNode, LeafNode, LoopNode, TreeNode, loops_around, loops_below, walk


def why_not_unconditional(block: BlockNode, buffer: tir.Buffer) -> str | None:
    """The reason why a block may leave elements that it is said to write as they are, conditions of its loops aside."""
    stores = _stores_of(block, buffer, None)
    return stores if isinstance(stores, str) else _why_some_conditional(block, stores)


def _why_some_conditional(block: BlockNode, stores: Sequence[Store]) -> str | None:
    found = next((store.buffer for store in stores if store.is_conditional), None)
    return None if found is None else f"block {block.name!r} stores to {found.name} under a condition"


def why_not_covered(
    block: BlockNode, buffer: tir.Buffer, place: TreeNode, region: tir.BufferRegion | None = None
) -> str | None:
    """The reason why a block, while the loops below ``place`` run, may not write all of the box of a buffer that it touches.

    Args:
        block: the writer.
        buffer: what it writes.
        place: loops below it run.
        region: what the block is taken to write; what it states, if that is not given.
    """
    stores = _stores_of(block, buffer, region)
    if isinstance(stores, str):
        return stores
    reason = _why_some_conditional(block, stores) or why_conditional(block, place)
    if reason is not None:
        return reason
    if len(stores) > 1 and len({store.stated_by for store in stores} - {None}) != 1:
        return f"block {block.name!r} stores to {buffer.name} in several places"
    return _why_not_reached(block, buffer, place, region, stores, passes_over=False)


def why_not_contiguous(block: BlockNode, buffer: tir.Buffer, place: TreeNode) -> str | None:
    """The reason why a block, while the loops below ``place`` run, may pass over elements of the box of a buffer that it touches.

    Unlike :func:`why_not_covered` this lets the block pass over elements that it does not write in any other iteration either: conditions
    do not count, but for predicates by which an uneven split leaves to another iteration what the box has.
    """
    stores = _stores_of(block, buffer, None)
    if isinstance(stores, str):
        return stores
    return _why_not_reached(block, buffer, place, None, stores, passes_over=True)


def _stores_of(block: BlockNode, buffer: tir.Buffer, region: tir.BufferRegion | None) -> list[Store] | str:
    """The stores of a block to a buffer, or what stands for its calls: these are taken to fill what the innermost block around them
    states; or the reason why they are not known. ``region`` is what the block itself is taken to state, if that is given.
    """
    stores = stores_in(block, buffer)
    view = next((store.buffer for store in stores if store.buffer is not buffer), None)
    if view is not None:
        return f"block {block.name!r} stores to {buffer.name} through {view.name}, a view of it"
    if stores:
        return stores
    calls = calls_in(block, buffer)
    if not calls:
        return f"block {block.name!r} has no statement that is known to write {buffer.name}"
    found = []
    for call in calls:
        scope, stated = _stated_around(call, block, buffer, region)
        if stated is None:
            return f"block {block.name!r} does not say what it writes of {buffer.name}"
        loops, indices = _over_all(stated)
        found.append(replace(call, indices=indices, loops=(*call.loops, *loops), stated_by=scope))
    return found


def _stated_around(
    call: Store, block: BlockNode, buffer: tir.Buffer, region: tir.BufferRegion | None
) -> tuple[BlockNode, tir.BufferRegion | None]:
    """The innermost block around a call that states to write a buffer, and what it states."""
    for node in call.nodes:
        if isinstance(node, BlockNode) and node is not block:
            stated = _stated(node, buffer)
            if stated is not None:
                return node, stated
    return block, region or _stated(block, buffer)


def _why_not_reached(
    block: BlockNode,
    buffer: tir.Buffer,
    place: TreeNode,
    region: tir.BufferRegion | None,
    stores: Sequence[Store],
    *,
    passes_over: bool,
) -> str | None:
    """The reason why stores may not reach all of the box that a block is taken to write, or, where it ``passes_over`` elements that it
    does not write in any iteration, may leave some of it to other iterations.
    """
    shape = None if passes_over else buffer.shape
    for store in stores:
        reason = _why_guarded(store, place, shape) or _why_no_box(
            block, buffer, place, region, store, passes_over=passes_over
        )
        if reason is not None:
            return reason
    return None


def _why_guarded(store: Store, place: TreeNode, shape: Sequence[Any] | None) -> str | None:
    """The reason why predicates of the blocks around a store may leave out elements of its box, while the loops below ``place`` run.

    Args:
        store: where it stores.
        place: loops below it run.
        shape: where the box is cut; without one, elements may be left out that the blocks store to in no iteration.
    """
    indices, running = store.indices, dict(store.loops)
    for node in store.nodes:
        if isinstance(node, LoopNode):
            running[node.var] = node.range()
        elif isinstance(node, BlockNode):
            clause = _no_guard(node, indices, shape, running, place)
            if clause is not None:
                return f"block {node.name!r} runs only where {clause}"
            indices, running = _bound(node, indices, running)
    return None


def _stated(block: BlockNode, buffer: tir.Buffer) -> tir.BufferRegion | None:
    """What a block says that it writes of a buffer."""
    return next((item for item in block.writes if item.buffer is buffer), None)


def _bound(
    block: BlockNode, indices: Sequence[tir.PrimExpr], running: Mapping[Any, tir.Range]
) -> tuple[tuple[tir.PrimExpr, ...], dict[Any, tir.Range]]:
    """Indices, and loops inside of a block, in terms of what is around the block."""
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    return (
        tuple(substitute(index, values) for index in indices),
        {var: substitute(item, values) for var, item in running.items()},
    )


def _over_all(
    region: tir.BufferRegion,
) -> tuple[list[tuple[tir.Var, tir.Range]], tuple[tir.PrimExpr, ...]]:
    """Loops over all elements of a region, and the indices of an element."""
    loops, indices = [], []
    for item in region.region:
        lane = tir.Var("lane", item.min.dtype)
        loops.append((lane, tir.Range.from_min_extent(tir.const(0, lane.dtype), item.extent)))
        indices.append(item.min + lane)
    return loops, tuple(indices)


def _why_no_box(
    block: BlockNode,
    buffer: tir.Buffer,
    place: TreeNode,
    region: tir.BufferRegion | None,
    store: Store,
    *,
    passes_over: bool,
) -> str | None:
    """The reason why a store may not reach all of the box that a block is taken to write, while the loops below ``place`` run."""
    indices, running, is_stated = store.indices, dict(store.loops), True
    own, within = indices, running
    initialised: set[tir.Var] = set()
    reduced: tuple[tir.PrimExpr, ...] = ()
    for node in store.nodes:
        if isinstance(node, LoopNode):
            running[node.var] = node.range()
        elif isinstance(node, BlockNode):
            if node is block:
                is_stated = _is_stated(block, buffer, region, indices, running)
                own, within = indices, dict(running)
            if node.init is not None:
                initialised |= running.keys()
                reduced += reduced_extents(node)
            values, running = _bound(node, (*indices, *reduced), running)
            indices, reduced = values[: len(indices)], values[len(indices) :]
    around = {loop.var: loop.range() for loop in loops_below(block, place)}
    running |= around
    if any(_is_empty(item) for item in running.values()):
        return f"block {block.name!r} has a loop without iterations around it"
    asked = around.keys() if passes_over else running.keys() - initialised
    if may_pass_over(block, indices, running, asked=asked, reduced=reduced):
        return f"block {block.name!r} has a loop around what it stores that may have no iterations"
    ends = [end for item in running.values() for end in (item.min, item.extent)]
    moving = _why_moving((*indices, *ends), block, place)
    if moving is not None:
        return moving
    if any(is_open(item.extent) for item in running.values()):
        # Tiles with open decisions split loops that ran over the variables' domains.
        indices, running = own, within | {item.var: item.dom for item in block.iter_vars}
    if not fills_box(indices, running):
        text = ", ".join(map(str, indices))
        return f"block {block.name!r} stores to {buffer.name} at [{text}], which is not known to fill a box"
    if not says_how_far(indices, running, buffer.shape):
        return f"block {block.name!r} has loops around it whose extents do not bound what is known of its box of {buffer.name}"
    if not is_stated:
        return f"block {block.name!r} states that it writes more of {buffer.name} than it stores to"
    return None


def why_conditional(block: BlockNode, place: TreeNode | None = None) -> str | None:
    """The reason why a block may not run in all iterations of the loops below a place (all in its scope), its predicate aside; or None."""
    for node in nodes_around(block):
        if node is place:
            break
        if not is_harmless(node):
            return f"block {block.name!r} runs under a condition"
    return None


def _why_moving(exprs: Sequence[tir.PrimExpr], block: BlockNode, place: TreeNode) -> str | None:
    """The reason why expressions over the loops around a block may have other values elsewhere below ``place``: they load what is written
    there, or use a name for a value that ends before.
    """
    for node in takewhile(lambda node: node is not place, nodes_around(block)):
        template = getattr(node, "template", None)
        if isinstance(template, tir.LetStmt) and any(mentions(expr, {template.var}) for expr in exprs):
            return f"block {block.name!r} depends on {template.var.name}, a name that is known only around it"
    source = changing_source(exprs, place)
    if source is not None:
        return f"block {block.name!r} stores where {source.name} says, which changes meanwhile"
    return None


def changing_source(exprs: Iterable[tir.PrimExpr], place: TreeNode) -> tir.Buffer | None:
    """A buffer that some expressions load from and that is written below a place; without one they have one value there, wherever they
    stand.
    """
    loaded = [load.buffer for expr in exprs for load in loads_in(expr)]
    written = _written_below(place) if loaded else set()
    return next((buffer for buffer in loaded if buffer.data in written), None)


def _written_below(place: TreeNode) -> set[tir.Var]:
    """The pointers of the buffers that are written below a place."""
    found: set[tir.Var] = set()

    def visit(item: Any) -> None:
        if isinstance(item, tir.BufferStore):
            found.add(item.buffer.data)

    for node in walk(place):
        if isinstance(node, BlockNode):
            found.update(region.buffer.data for region in node.writes)
        elif isinstance(node, LeafNode):
            tir.post_order_visit(node.leaf, visit)
    return found


def why_not_whole(block: BlockNode, variables: Sequence[tir.IterVar]) -> str | None:
    """The reason why a block may not run for every combination of the values that some of its variables are said to take.

    Other variables count only in that they let the block run at all.
    """
    points = [simplify_polynomial(item.var - item.dom.min) for item in variables]
    shape = [item.dom.extent for item in variables]
    clause = _no_guard(block, points, shape, {}, block)
    if clause is not None:
        return f"block {block.name!r} runs only where {clause}"
    return why_not_over_all_values(block, variables)


def why_not_over_all_values(block: BlockNode, variables: Sequence[tir.IterVar]) -> str | None:
    """The same as far as loops decide it: whatever the block's predicate says is left to the caller."""
    conditional = why_conditional(block)
    if conditional is not None:
        return conditional
    bound = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    values = [bound[item.var] for item in variables]
    running = {loop.var: loop.range() for loop in loops_around(block)}
    if any(_is_empty(item) for item in running.values()):
        return f"block {block.name!r} has a loop without iterations around it"
    if may_pass_over(block, values, running, reduced=reduced_extents(block)):
        return f"block {block.name!r} has a loop around it that may have no iterations"
    if any(is_open(item.extent) for item in running.values()):
        return None  # tiles with open decisions split loops that ran over the variables' domains
    if not fills_box(values, running):
        return f"block {block.name!r} does not run over all values of its variables"
    for item, value in zip(variables, values, strict=True):
        if not _reaches_all(value, item.dom, running):
            return f"block {block.name!r} does not run over all values of its variable {item.var.name!r}"
    return None


def run_by_loops_of_their_own(block: BlockNode, variables: Sequence[tir.IterVar]) -> bool:
    """Whether no loop feeds both some variables of a block and others: all values that the ones take go with each of the others then."""
    chosen = {item.var for item in variables}
    values: dict[bool, list[tir.PrimExpr]] = {True: [], False: []}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        values[item.var in chosen].append(value)
    return not any(
        all(any(mentions(value, {loop.var}) for value in group) for group in values.values())
        for loop in loops_around(block)
        if constant_difference(loop.extent, 1) != 0
    )


def _reaches_all(value: tir.PrimExpr, dom: tir.Range, running: Mapping[Any, tir.Range]) -> bool:
    """Whether a value goes from one end of a domain to the other, or beyond that, while loops run."""
    point = [tir.Range.from_min_extent(value, tir.const(1, value.dtype))]
    ((low, extent),) = relax_domains(point, running, [dom.extent])
    analyzer = Analyzer()
    return analyzer.can_prove(low <= dom.min) and analyzer.can_prove(low + extent >= dom.min + dom.extent)


def why_not_begun(block: BlockNode, buffer: tir.Buffer, place: TreeNode) -> str | None:
    """The reason why a block, while the loops below ``place`` run, may go on with what a buffer held before; or None where it begins with
    its init, or never looks.
    """
    if block.init is None:
        if buffer in read_buffers(block):
            return f"block {block.name!r} updates {buffer.name} without initialising it"
        return None
    if buffer in buffers_read_elsewhere(block):
        return f"block {block.name!r} reads elements of {buffer.name} beside the one that it initialises"
    below = loops_below(block, place)
    if is_tiled(block, below):
        return None
    reason = why_not_begun_first(block, below)
    if reason is not None:
        return f"what block {block.name!r} reduces is not finished here: {reason}"
    return _why_not_first(block, place, {loop.var: loop.min for loop in below if only_reduces(loop, block)})


def _why_not_first(block: BlockNode, place: TreeNode, first: Mapping[Any, Any]) -> str | None:
    """The reason why a block that runs in a later iteration of loops may not run in the ``first`` one, or None."""
    for node in takewhile(lambda node: node is not place, nodes_around(block)):
        exprs = [] if is_harmless(node) else evaluated_by(node)
        if any(mentions(expr, first) for expr in exprs) or changing_source(exprs, place) is not None:
            return f"block {block.name!r} runs under a condition, which may leave out its init"
    kept = [inside(value, item.dom) for item, value in zip(block.iter_vars, block.iter_values, strict=True)]
    pending = [block.predicate]
    while pending:
        clause = pending.pop()
        if isinstance(clause, tir.And):
            pending += [clause.a, clause.b]
        elif not mentions(clause, first):
            kept.append(clause)
    beyond = clause_beyond(block.predicate, kept, loops_around(block), first)
    return (
        None
        if beyond is None
        else f"block {block.name!r} runs only where {beyond}, which may leave out its init"
    )


def _is_empty(item: tir.Range) -> bool:
    return isinstance(item.extent, tir.IntImm) and item.extent.value <= 0


def _is_stated(
    block: BlockNode,
    buffer: tir.Buffer,
    region: tir.BufferRegion | None,
    indices: Sequence[Any],
    running: Mapping[Any, tir.Range],
) -> bool:
    """Whether a region, or what a block states, is what a store in it reaches while the loops inside of the block run."""
    region = region or _stated(block, buffer)
    if region is None:
        return False
    points = [tir.Range.from_min_extent(index, tir.const(1, index.dtype)) for index in indices]
    return all(
        constant_difference(low, stated.min) == 0 and constant_difference(extent, stated.extent) == 0
        for (low, extent), stated in zip(
            relax_domains(points, running, buffer.shape), region.region, strict=True
        )
    )


def _no_guard(
    block: BlockNode,
    indices: Sequence[Any],
    shape: Sequence[Any] | None,
    running: Mapping[Any, tir.Range],
    place: TreeNode,
) -> tir.PrimExpr | None:
    """A clause of a block's predicate that does more than to keep its variables in their domains, or None.

    What is indexed is cut at the ends of its ``shape``, so that an index must reach these where a variable is at the ends of its domain,
    while loops inside of the block are ``running``, and those around it below ``place``. Without a shape it is enough that no other
    iteration goes further. Of a reduction it is enough that the first iteration happens, unless each one stores elsewhere.
    """
    if block.is_unconditional:
        return None
    around = loops_around(block)
    stored_at = {  # the loops that the indices depend on
        loop.var
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if any(mentions(index, {item.var}) for index in indices)
        for loop in around
        if mentions(value, {loop.var})
    }
    kept = [
        inside(value, item.dom)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if _ends_with(item, block, indices, shape, running, place)
    ]
    first = {loop.var: loop.min for loop in around if only_reduces(loop, block) and loop.var not in stored_at}
    return clause_beyond(block.predicate, kept, around, first)


def _ends_with(
    item: tir.IterVar,
    block: BlockNode,
    indices: Sequence[Any],
    shape: Sequence[Any] | None,
    running: Mapping[Any, tir.Range],
    place: TreeNode,
) -> bool:
    """Whether nothing is stored to beyond the elements that a variable has at the ends of its domain, by no iteration: the other
    variables that are in an index with it take all their values in each one.
    """
    used = [position for position, index in enumerate(indices) if mentions(index, {item.var})]
    if not used:
        return True
    below = {loop.var: loop.range() for loop in loops_below(block, place)}
    whole = {
        other.var: other.dom
        for other, value in zip(block.iter_vars, block.iter_values, strict=True)
        if other is item
        or constant_difference(other.dom.extent, 1) == 0
        or _reaches_all(value, other.dom, below)
    }
    others = {other.var for other in block.iter_vars} - whole.keys()
    domains = {**running, **whole}
    if any(mentions(indices[position], others) for position in used):
        return False
    if shape is None:
        return True
    # The digits of a domain that ends in the middle of a row go from end to end each, but leave out the rest of that row.
    return all(_is_whole(indices[position], domains, shape[position]) for position in used) and fills_box(
        [indices[position] for position in used], domains
    )


def _is_whole(index: Any, domains: Mapping[Any, tir.Range], dim: Any) -> bool:
    """Whether an index reaches from one end of a dimension to the other."""
    point = tir.Range.from_min_extent(index, tir.const(1, index.dtype))
    ((low, extent),) = relax_domains([point], domains, [dim])
    return constant_difference(low, 0) == 0 and constant_difference(extent, dim) == 0


def only_reduces(loop: LoopNode, block: BlockNode) -> bool:
    """Whether a loop feeds reduction variables of a block and no others."""
    kinds = {
        item.iter_type
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if mentions(value, {loop.var})
    }
    return kinds == {tir.IterVar.CommReduce}
