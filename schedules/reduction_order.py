"""Whether the init of a reduction comes once to each element, and before its updates: what other orders of its instances stand on.

A block's init runs in its own first instance, where all reduction variables are at their begin. What moves the init away from
there, or other instances in front of it, computes the same only where that instance is the first of its element, and the only one.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ir import tir
from ir.arith.analyzer import constraints
from ir.tir import IterVar
from ir.tir.analysis.empty_domains import may_be_empty
from ir.tir.stmt_functor import substitute

from .access import read_by_init
from .affine import constant_difference, mentions
from .analysis import require, written_buffers
from .bounds import analyzer_of, is_open
from .coverage import only_reduces
from .dependence import has_elements_of_its_own, runs_each_instance_once
from .filled_box import may_reduce_over_nothing
from .first_instance import (
    begins_of,
    domains_of,
    inhabited,
    is_at_begin,
    is_tiled,
    is_unit,
    values_of_kind,
    why_not_begun_first,
)
from .surroundings import loads_around, nodes_around
from .touches import buffers_read_elsewhere
from .tree import BlockNode, LoopNode, WrapNode, is_ancestor, loops_around


def loops_of_sums(block: BlockNode, order: Sequence[LoopNode]) -> Sequence[LoopNode]:
    """Those of the loops around a block that run while an element is reduced: from the outermost on that feeds a reduction."""
    reduced = values_of_kind(block, IterVar.CommReduce)
    for position, loop in enumerate(order):
        if any(mentions(value, {loop.var}) for value in reduced):
            return order[position:]
    return ()


def why_not_begun_once(block: BlockNode, *orders: Sequence[LoopNode]) -> str | None:
    """The reason why, while some loops around a block run, an element's first instance may not be the one that runs its init, or that one
    may run again; or None.

    Args:
        block: with an init.
        orders: in which the innermost loops around it run, or shall run, outermost first; all that feed its reductions are among them.
    """
    longest = max(orders, key=len)
    if buffers_read_elsewhere(block) and any(not only_reduces(loop, block) for loop in longest):
        return f"block {block.name!r} reads elements that other instances of it initialise"
    if all(loop in longest for order in orders for loop in order) and is_tiled(block, longest):
        return _why_elements_are_shared(block, longest)
    return next((reason for order in orders if (reason := _why_not_begun_once(block, order))), None)


def _why_not_begun_once(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    name = block.name
    reason = _why_not_free(block, loops)
    if reason is not None:
        return reason
    for loop in loops:
        if not is_unit(loop.extent) and not any(mentions(value, {loop.var}) for value in block.iter_values):
            return (
                f"loop {loop.var.name!r} repeats block {name!r} without feeding its variables; what is initialised once would be"
                " summed up again"
            )
    if not runs_each_instance_once(block, loops):
        names = ", ".join(repr(loop.var.name) for loop in loops)
        return (
            f"the iterations of {names} run instances of block {name!r} more than once; what is initialised once would be summed up"
            " again"
        )
    return _why_elements_are_shared(block, loops) or why_not_begun_first(block, loops)


def _why_elements_are_shared(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    if has_elements_of_its_own(block, loops):
        return None
    return f"several instances of block {block.name!r} may sum into one element, each of which it initialises"


def why_not_run(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The reason why loops that feed the reductions of a block may have no iterations over domains that have some; or None.

    They do nothing then, where over an empty domain ``init`` runs: rule ``[reduce-empty]`` of ``docs/semantics.md``.
    """
    reduced = values_of_kind(block, IterVar.CommReduce)
    domains = domains_of(block, IterVar.CommReduce)
    if any(constant_difference(dom.extent, 0) == 0 for dom in domains):
        return None
    for loop in loops:
        if not may_be_empty(loop.extent) or is_open(loop.extent):
            continue
        if not any(mentions(value, {loop.var}) for value in reduced):
            continue
        if any(constant_difference(loop.extent, dom.extent) == 0 for dom in domains):
            continue
        analyzer = analyzer_of(loops_around(block))
        with constraints(analyzer, *inhabited(domains)):
            if not analyzer.can_prove(loop.extent > 0):
                return (
                    f"loop {loop.var.name!r} may have no iterations where the domain of the reduction has some, so that block"
                    f" {block.name!r} initialises nothing"
                )
    return None


def require_made_for_init(
    blocks: Sequence[BlockNode], buffers: Set[tir.Buffer], place: LoopNode, primitive: str
) -> None:
    """What is made anew in each iteration of a loop of a reduction is not there where the domain is empty: ``init`` runs, and no iteration.

    Args:
        blocks: read what is made.
        buffers: where it is.
        place: the loop.
        primitive: its name, for the error.

    Raises:
        ScheduleError: the init of one of the blocks reads it.
    """
    for block in blocks:
        loops = loops_of_sums(block, loops_around(block))
        if block.init is None or not any(loop is place or is_ancestor(loop, place) for loop in loops):
            continue
        if may_reduce_over_nothing(block):
            read = next((region.buffer for region in read_by_init(block) if region.buffer in buffers), None)
            require(
                read is None,
                primitive,
                f"the init of block {block.name!r} reads {read and read.name}, also where it reduces over nothing and loop"
                f" {place.var.name!r} has no iterations",
            )


def predicate_at_begin(
    block: BlockNode, conditions: Sequence[tir.PrimExpr], loops: Sequence[LoopNode], primitive: str
) -> list[tir.PrimExpr]:
    """What conditions say of an element's first instance, where loops that feed no data-parallel variable are at their begin.

    Over a domain that may be empty the init is under those conditions alone that do not depend on such a loop; others must hold by
    themselves.
    """
    if not conditions:
        return []
    begins = begins_of(loops)
    domains = domains_of(block, IterVar.CommReduce)
    is_inhabited = not any(may_be_empty(dom.extent) for dom in domains)
    analyzer = analyzer_of(loops_around(block))
    reduced = [
        (item, value)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.CommReduce
    ]
    kept: list[tir.PrimExpr] = []
    with constraints(analyzer, *inhabited(domains)):
        for condition in conditions:
            if not mentions(condition, begins):
                kept.append(condition)
                continue
            first = substitute(condition, begins)
            if analyzer.can_prove(first):
                continue
            feeding = {var for var in begins if any(mentions(value, {var}) for _, value in reduced)}
            require(
                all(is_at_begin(item, value, begins, analyzer) for item, value in reduced)
                and not mentions(condition, begins.keys() - feeding),
                primitive,
                f"{condition} says which instance of block {block.name!r} is the first, which is not where the loops begin",
            )
            require(
                is_inhabited,
                primitive,
                f"block {block.name!r} is initialised over an empty domain whether or not {condition} holds, else only where it does",
            )
            kept.append(first)
    return kept


def _why_not_free(block: BlockNode, loops: Sequence[LoopNode]) -> str | None:
    """The reason why what stands around a block may see when its elements are initialised, or decide it; or None."""
    written = written_buffers(block)
    for item in loads_around(block):
        if item.load.buffer in written:
            return f"whether block {block.name!r} runs depends on {item.load.buffer.name}, which it writes"
    below = 0
    for node in nodes_around(block):
        below += any(node is loop for loop in loops)
        if isinstance(node, WrapNode) and below < len(loops):
            return f"a statement {type(node.template).__name__} lies between loop {loops[0].var.name!r} and block {block.name!r}"
    return None
