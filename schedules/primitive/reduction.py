"""decompose_reduction: separate the initialisation of a reduction from its updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import substitute

from ..affine import mentions
from ..analysis import read_buffers, require, require_blocks_only, why_not_reduction
from ..argument import Block, Loop
from ..declaration import PrimitiveFamily, primitive
from ..dependence import has_elements_of_its_own, runs_each_instance_once
from ..random_variable import BlockRV, LoopRV
from ..tree import BlockNode, LoopNode, TreeNode, insert_beside, loops_around, tree_of


class ReductionPrimitives(PrimitiveFamily):
    """Reductions as several blocks."""

    @primitive("DecomposeReduction", block=Block(), loop=Loop())
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a reduction into an init block before ``loop`` and an update block; returns the init block.

        ``for i: for k: (init: C[i] = 0) C[i] += A[i, k]`` at loop k becomes ``for i: C[i] = 0; for k: C[i] += A[i, k]``.

        Raises:
            ScheduleError: the block is no reduction with an init, the loop is not around it, or a reduction also runs outside.
        """
        node, before = self._block(block), self._loop(loop)
        moved = _loops_of_init(node, before)
        nest, init_block = _init_nest(node, moved)
        insert_beside(before, nest, before=True)
        listed = read_buffers(node)
        own = [region for region in node.writes if region.buffer not in listed]
        node.change(init=None, name=f"{node.name}_update", reads=(*own, *node.reads))
        return self._new(init_block)


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
    require_empty_domains(block, loops[position:], "decompose_reduction")
    for item_loop in loops[position:]:
        used = any(mentions(value, {item_loop.var}) for value in block.iter_values)
        require(
            used or (isinstance(item_loop.extent, tir.IntImm) and item_loop.extent.value == 1),
            "decompose_reduction",
            f"loop {item_loop.var.name!r} repeats block {block.name!r} without feeding its variables; initialised once, the updates"
            " would add up",
        )
    _require_each_instance_once(block, loops[position:])
    return loops[position:]


def _require_each_instance_once(block: BlockNode, moved: Sequence[LoopNode]) -> None:
    """Refuse loops that run an instance again, or two that sum into one element: each would begin its sum anew, updates add up."""
    names = ", ".join(repr(item.var.name) for item in moved)
    require(
        runs_each_instance_once(block, moved),
        "decompose_reduction",
        f"the iterations of {names} run instances of block {block.name!r} more than once; initialised once, the updates would"
        " add up",
    )
    require(
        has_elements_of_its_own(block),
        "decompose_reduction",
        f"several instances of block {block.name!r} may sum into one element; initialised once, all of them would add up",
    )


def require_empty_domains(block: BlockNode, loops: Sequence[LoopNode], primitive: str) -> None:
    """Refuse loops without iterations over a domain that has some: they do nothing, where over an empty domain ``init`` runs.

    That is rule ``[reduce-empty]`` of ``docs/semantics.md``.
    """
    reduced = [item for item in block.iter_vars if item.iter_type == IterVar.CommReduce]
    if any(_is_zero(item.dom.extent) for item in reduced):
        return
    values = [
        value
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.iter_type == IterVar.CommReduce
    ]
    for loop in loops:
        require(
            not _is_zero(loop.extent) or not any(mentions(value, {loop.var}) for value in values),
            primitive,
            f"loop {loop.var.name!r} has no iterations, but the domain of the reduction has some, so that block {block.name!r}"
            " initialises nothing",
        )


def _is_zero(extent: tir.PrimExpr) -> bool:
    return isinstance(extent, tir.IntImm) and extent.value <= 0


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
    for condition in conjuncts_without(
        block.predicate, [item for item in inner_loops if item.var not in loop_vars]
    ):
        predicate = tir.operators.logical_and(predicate, substitute(condition, loop_vars))
    assert block.init is not None
    init_block = BlockNode(
        f"{block.name}_init",
        tuple(IterVar(item.dom, block_vars[item.var], item.iter_type) for item, _ in spatial),
        tuple(substitute(value, loop_vars) for _, value in spatial),
        (),
        tuple(
            tir.BufferRegion(region.buffer, [substitute(item, block_vars) for item in region.region])
            for region in block.writes
        ),
        tree_of(substitute(block.init, block_vars)),
        predicate,
        annotations=block.annotations,
    )
    node: TreeNode = init_block
    for item in reversed(needed):
        low, extent = substitute(item.min, loop_vars), substitute(item.extent, loop_vars)
        node = LoopNode(
            loop_vars[item.var], extent, node, item.kind, low, item.annotations, item.thread_binding
        )
    return node, init_block
