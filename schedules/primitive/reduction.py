"""decompose_reduction: separate the initialisation of a reduction from its updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.analysis.empty_domains import may_be_empty
from ir.tir.analysis.own_updates import own_updates
from ir.tir.analysis.undefined_vars import undefined_vars
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import loads_in, substitute
from ir.tir.transform.fresh_copy import fresh_copy

from ..access import access_regions
from ..affine import mentions
from ..analysis import read_buffers, require, require_blocks_only, why_not_reduction, written_buffers
from ..argument import Block, Loop
from ..declaration import PrimitiveFamily, primitive
from ..dependence import why_iterations_conflict
from ..effects import require_no_effects
from ..filled_box import init_names
from ..random_variable import BlockRV, LoopRV
from ..reduction_order import predicate_at_begin, why_not_begun_once, why_not_run
from ..returns import require_no_return
from ..surroundings import loads_around
from ..tree import (
    BlockNode,
    LoopNode,
    TreeNode,
    blocks_below,
    insert_beside,
    is_ancestor,
    loops_around,
    scope_of,
    tree_of,
)


class ReductionPrimitives(PrimitiveFamily):
    """Reductions as several blocks."""

    @primitive("DecomposeReduction", block=Block(), loop=Loop())
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a reduction into an init block before ``loop`` and an update block; returns the init block.

        ``for i: for k: (init: C[i] = 0) C[i] += A[i, k]`` at loop k becomes ``for i: C[i] = 0; for k: C[i] += A[i, k]``.

        Raises:
            ScheduleError: the block is no reduction with an init, the loop is not around it, a reduction also runs outside, an element is
                not begun once and first, or another block in the loop would see the init.
        """
        node, before = self._block(block), self._loop(loop)
        require_no_effects([node], "decompose_reduction")
        moved = _loops_of_init(node, before)
        nest, init_block = _init_nest(node, moved)
        insert_beside(before, nest, before=True)
        updated = written_buffers(node)
        node.change(
            init=None,
            name=f"{node.name}_update",
            reads=(*own_updates(node.reads, node.writes, updated), *node.reads),
        )
        _state_updates_around(node, updated)
        return self._new(init_block)


def _state_updates_around(block: BlockNode, updated: set[tir.Buffer]) -> None:
    """The blocks around read what is updated in them, unless they have an init of their own for it: rule ``[region]``."""
    scope = scope_of(block)
    while scope is not None and scope.init is None and (scope.reads or scope.writes):
        updated = {
            next((view.source.buffer for view in scope.match_buffers if view.buffer is buffer), buffer)
            for buffer in updated
        }
        scope.change(reads=(*scope.reads, *own_updates(scope.reads, scope.writes, updated)))
        scope = scope_of(scope)


def conjuncts_without(predicate: tir.PrimExpr, dropped: Sequence[LoopNode]) -> list[tir.PrimExpr]:
    """The conditions of a predicate that do not depend on some loops; loops of extent 1 stand for their only value."""
    units = {
        loop.var: loop.min
        for loop in dropped
        if isinstance(loop.extent, tir.IntImm) and loop.extent.value == 1
    }
    others = {loop.var for loop in dropped if loop.var not in units}
    conditions = [substitute(item, units) for item in conjuncts(predicate)]
    return [item for item in conditions if not mentions(item, others)]


def _loops_of_init(block: BlockNode, loop: LoopNode) -> list[LoopNode]:
    """The loops from ``loop`` down to the block, when initialising once before them is the same."""
    require_blocks_only(block, "decompose_reduction")
    reason = why_not_reduction(block)
    require(reason is None, "decompose_reduction", f"block {block.name!r} is not a reduction block: {reason}")
    loops = loops_around(block)
    require(
        any(item is loop for item in loops),
        "decompose_reduction",
        f"loop {loop.var.name!r} is not around block {block.name!r}",
    )
    position = next(i for i, item in enumerate(loops) if item is loop)
    outer = {item.var for item in loops[:position]}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.CommReduce:
            require(
                not mentions(value, outer),
                "decompose_reduction",
                f"reduction {item.var.name!r} also runs outside loop {loop.var.name!r}; choose an outer loop",
            )
    require_begun_once(block, loops[position:], "decompose_reduction")
    _require_unseen(block, loops[position:])
    require_no_return(
        [loop], "decompose_reduction", f"loop {loop.var.name!r}, before which the init would be"
    )
    return loops[position:]


def _require_unseen(block: BlockNode, moved: Sequence[LoopNode]) -> None:
    """Refuse to initialise in front of others in the loops what they read, or with what they write: each must see what it saw, older
    values or finished ones.
    """
    name, before = block.name, True
    written, loaded = written_buffers(block), _loaded_by(block.init)
    for other in blocks_below(moved[0]):
        require(
            not loaded & written_buffers(other),
            "decompose_reduction",
            f"the init of block {name!r} reads what block {other.name!r} writes in loop {moved[0].var.name!r}",
        )
        if other is block:
            before = False
            continue
        if not written & (read_buffers(other) | {item.load.buffer for item in loads_around(other)}):
            continue
        require(
            not before,
            "decompose_reduction",
            f"block {other.name!r} reads what block {name!r} would then have initialised, before loop {moved[0].var.name!r}",
        )
        spatial = [
            value
            for item, value in zip(block.iter_vars, block.iter_values, strict=True)
            if item.iter_type == IterVar.DataPar
        ]
        for loop in moved:  # the reduction begins in the first iteration of those that feed it alone
            if is_ancestor(loop, other) and any(mentions(value, {loop.var}) for value in spatial):
                reason = why_iterations_conflict(loop, [block, other], between_blocks=True, is_left=True)
                require(reason is None, "decompose_reduction", f"{reason}")


def _loaded_by(stmt: tir.Stmt | None) -> set[tir.Buffer]:
    return set() if stmt is None else {load.buffer for load in loads_in(stmt)}


def require_begun_once(block: BlockNode, loops: Sequence[LoopNode], primitive: str) -> None:
    """Refuse to initialise before some loops around a block, the innermost ones, what it does not begin in them once and first."""
    for reason in (why_not_begun_once(block, loops), why_not_run(block, loops)):
        require(reason is None, primitive, f"{reason}")


def _init_nest(block: BlockNode, inner_loops: list[LoopNode]) -> tuple[TreeNode, BlockNode]:
    """The init block under copies of those loops that its data-parallel variables need."""
    spatial = [
        (item, value)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.DataPar
    ]
    needed = [item for item in inner_loops if any(mentions(value, {item.var}) for _, value in spatial)]
    loop_vars: dict[Any, Any] = {
        item.var: tir.Var(f"{item.var.name}_init", item.var.dtype) for item in needed
    }
    block_vars: dict[Any, Any] = {item.var: tir.Var(item.var.name, item.var.dtype) for item, _ in spatial}
    predicate: Any = tir.const(True)
    gone = [item for item in inner_loops if item.var not in loop_vars]
    for condition in predicate_at_begin(block, conjuncts(block.predicate), gone, "decompose_reduction"):
        predicate = tir.operators.logical_and(predicate, substitute(condition, loop_vars))
    variables = [IterVar(item.dom, block_vars[item.var], item.iter_type) for item, _ in spatial]
    init_block = block_of_init(
        block,
        variables,
        [substitute(value, loop_vars) for _, value in spatial],
        predicate,
        lambda node: substitute(node, block_vars),
        "decompose_reduction",
    )
    init_block.change(annotations=block.annotations)
    node: TreeNode = init_block
    for item in reversed(needed):
        low, extent = substitute(item.min, loop_vars), substitute(item.extent, loop_vars)
        node = LoopNode(
            loop_vars[item.var], extent, node, item.kind, low, item.annotations, item.thread_binding
        )
    return node, init_block


def block_of_init(
    block: BlockNode,
    variables: Sequence[IterVar],
    values: Sequence[tir.PrimExpr],
    predicate: tir.PrimExpr,
    inside: Callable[[Any], Any],
    primitive: str,
) -> BlockNode:
    """A block that does what the init of another one does, with memory and views of its own.

    Args:
        block: with the init, which knows the reduction variables at their begin.
        variables: of the new block.
        values: what they are bound to.
        predicate: where the new block runs.
        inside: says what the other block says, in terms of the variables.
        primitive: its name, for the error.

    Raises:
        ScheduleError: over an empty domain the init does not run, and the new block would.
    """
    assert block.init is not None
    reduced = [item for item in block.iter_vars if item.iter_type == IterVar.CommReduce]
    begins = {item.var: item.dom.min for item in reduced}
    require(
        not any(may_be_empty(item.dom.extent) for item in reduced) or not init_names(block, begins),
        primitive,
        f"the init of block {block.name!r} names what it reduces over, so that it does not run where that is nothing",
    )

    def first(node: Any) -> Any:
        return inside(substitute(node, begins))

    used = set(undefined_vars(block.init))
    views = [item for item in block.match_buffers if item.buffer.data in used]
    used.update(view.source.buffer.data for view in views)
    made = BlockNode(
        f"{block.name}_init",
        tuple(variables),
        tuple(values),
        (),
        tuple(_moved(region, first) for region in block.writes),
        tree_of(first(block.init)),
        predicate,
        alloc_buffers=tuple(item for item in block.alloc_buffers if item.data in used),
        match_buffers=tuple(tir.MatchBufferRegion(view.buffer, _moved(view.source, first)) for view in views),
    )
    copy = tree_of(fresh_copy(made.stmt()))
    assert isinstance(copy, BlockNode)
    copy.change(reads=access_regions(copy, None)[0])
    return copy


def _moved(region: tir.BufferRegion, inside: Callable[[Any], Any]) -> tir.BufferRegion:
    return tir.BufferRegion(region.buffer, [inside(item) for item in region.region])
