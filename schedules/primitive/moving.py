"""What compute_at and reverse_compute_at have in common: which blocks may leave their loops, and the loops that they get elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import tir
from ir.arith.analyzer import constraints
from ir.tir import IterVar
from ir.tir.stmt_functor import loads_in, substitute, variables_in

from ..affine import constant_difference, mentions, polynomial, simplify_polynomial
from ..analysis import (
    require,
    require_blocks_only,
    require_complete_or_reduction,
    scope_children,
    written_buffers,
)
from ..bounds import analyzer_of, clause_beyond, guards, inside, is_open, nonempty, tiles_at_most
from ..coverage import only_reduces, why_not_whole
from ..dependence import has_elements_of_its_own, require_own_elements
from ..early import always_runs, may_be_undefined
from ..order import require_order_kept
from ..reduction_order import loops_of_sums, why_not_begun_once
from ..tree import BlockNode, LoopNode, SeqNode, TreeNode, blocks_below, is_ancestor, loops_around, scope_of
from .block_domains import is_constant
from .boxes import unit_loops


def rebuild_nest(
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


def require_no_more_instances(
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
        most = extent if tiles_at_most(extent, dom.extent) else tir.operators.min(extent, dom.extent)
        return low, most, True
    if is_open(low):
        return low, extent, True
    return low, extent, False


def children_under(loop: LoopNode) -> list[TreeNode]:
    return loop.body.nodes if isinstance(loop.body, SeqNode) else [loop.body]


def require_movable(block: BlockNode, loop: LoopNode, primitive: str) -> None:
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
    require_only_guards(block, primitive)
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


def require_whole(block: BlockNode, variables: Sequence[IterVar], primitive: str) -> None:
    """New loops run over the domains that a block states for its variables: its loops must have done so."""
    reason = why_not_whole(block, variables)
    require(reason is None, primitive, f"{reason}; its new loops would run over all")


def require_only_guards(block: BlockNode, primitive: str, *, stays: bool = False) -> None:
    """New loops get new guards; what a predicate says beside them, of loops that need none, would be lost.

    A block that ``stays`` may leave out iterations of its reduction, but for the first one: what it writes is whole then.
    """
    if block.is_unconditional:
        return
    kept = [inside(value, item.dom) for item, value in zip(block.iter_vars, block.iter_values, strict=True)]
    around = loops_around(block)
    first = {loop.var: loop.min for loop in around if stays and only_reduces(loop, block)}
    clause = clause_beyond(block.predicate, kept, around, first)
    require(
        clause is None,
        primitive,
        f"block {block.name!r} runs only where {clause}, which is no guard of its variables' ranges",
    )


def said_by_standing_data(
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


def defined(
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
    around = [*loops_around(loop), loop]
    with constraints(analyzer_of(around), *nonempty(around)) as analyzer:
        return {
            var: domain
            for var, domain in domains.items()
            if var not in doubtful or not any(may_be_undefined(part, analyzer) for part in domain)
        }


def require_below(loop: LoopNode, blocks: list[BlockNode], primitive: str, what: str) -> None:
    below = list(blocks_below(loop))
    for item in blocks:
        require(
            any(item is other for other in below),
            primitive,
            f"{what.format(repr(item.name))} is not under loop {loop.var.name!r}",
        )


def position_among(index: int, first: int, last: int, primitive: str) -> int:
    if index == -1:
        return last
    if index == -2:
        return first
    require(first <= index <= last, primitive, f"index {index} is not between {first} and {last}")
    return index
