"""The two blocks that factoring a loop out of a reduction makes: the one of partial results, and the one that combines them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.analysis.reducer import Reduction, stored
from ir.tir.conjunction import conjuncts
from ir.tir.stmt_functor import substitute, variables_in

from ..affine import mentions, simplify_polynomial
from ..reduction_order import predicate_at_begin
from ..region import point_region
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    fresh_block_name,
    insert_beside,
    loops_around,
    loops_of_its_own,
    replace_node,
    scope_of,
    take_place_of,
)


@dataclass
class Terms:
    """What a reduction of a chain adds, where it is relative to partial results of another one (:mod:`.rfactor_chain`)."""

    operands: list[tir.PrimExpr]
    """What one iteration contributes to each output, with the names below."""
    reads: tuple[tir.BufferRegion, ...]
    scales: list[tir.BufferLoad | None]
    """What the partial results of each output are multiplied by when they are combined; with the name of the part."""
    part: tir.Var
    """Stands for the number of the part."""
    within: tir.Var
    """Stands for the place within the part."""
    place: tir.PrimExpr
    """That place, in variables of loops."""


@dataclass
class Factored:
    """A reduction in two blocks, not yet in the tree."""

    partial: list[tir.Buffer]
    rf_block: BlockNode
    nest: TreeNode
    """The loops of the block that combines the partial results."""
    final: BlockNode

    def put_in_place_of(self, block: BlockNode, behind: TreeNode | None = None) -> None:
        """Replace a block; what combines the parts comes directly behind them, or behind another nest.

        The caller's reference to the block follows the one that combines; the partial results are allocated around both.
        """
        own = loops_of_its_own(block)
        scope = scope_of(block)
        assert scope is not None
        replace_node(block, self.rf_block)
        insert_beside(behind or own[0], self.nest, before=False)
        scope.change(alloc_buffers=(*scope.alloc_buffers, *self.partial))
        take_place_of(block, self.final)


def factored(
    block: BlockNode, loop: LoopNode, axis: int, reduction: Reduction, terms: Terms | None = None
) -> Factored:
    """Factor a loop out of a reduction, the new dimension of its partial results at an axis."""
    partial = [partial_buffer(buffer, loop.extent, axis) for buffer in reduction.outputs]
    rf_block = _partial_block(block, loop, axis, partial, reduction, terms)
    nest, final = _final_block(block, loop, axis, partial, reduction, terms)
    return Factored(partial, rf_block, nest, final)


def partial_buffer(buffer: tir.Buffer, extent: tir.PrimExpr, axis: int) -> tir.Buffer:
    """Room for a buffer's partial results, their number as a new dimension."""
    shape = list(buffer.shape)
    shape.insert(axis, extent)
    return tir.decl_buffer(
        shape, buffer.dtype, f"{buffer.name}.rf", scope="" if buffer.scope() == "global" else buffer.scope()
    )


def _parts_of(loop: LoopNode, kind: int) -> IterVar:
    """The variable that counts the parts from 0, wherever the loop begins."""
    return IterVar(
        tir.Range.from_min_extent(tir.const(0, loop.var.dtype), loop.extent),
        tir.Var(f"v{loop.var.name}", loop.var.dtype),
        kind,
    )


def _part_in(loop: LoopNode, var: tir.PrimExpr) -> tir.PrimExpr:
    """The number of the part that an iteration computes."""
    return var if loop.begins_at_zero else var - loop.min


def _partial_block(
    block: BlockNode,
    loop: LoopNode,
    axis: int,
    partial: list[tir.Buffer],
    reduction: Reduction,
    terms: Terms | None,
) -> BlockNode:
    """The block that reduces over everything but ``loop``, which becomes data-parallel.

    Where nothing is left to reduce it stores what each iteration contributes.
    """
    buffers = dict(zip(reduction.outputs, partial, strict=True))
    parts = _parts_of(loop, IterVar.DataPar)
    factor_var = parts.var
    iter_vars = [parts]
    values: list[Any] = [_part_in(loop, loop.var)]
    renamed: dict[Any, Any] = {}
    reduce_vars: dict[Any, Any] = {loop.var: factor_var if loop.begins_at_zero else loop.min + factor_var}
    around = {item.var: item for item in loops_around(block)}
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if item.iter_type == IterVar.DataPar or not mentions(value, {loop.var}):
            fresh = tir.Var(item.var.name, item.var.dtype)
            renamed[item.var] = fresh
            iter_vars.append(IterVar(item.dom, fresh, item.iter_type))
            values.append(value)
            continue
        for var in variables_in(value):
            if var not in reduce_vars and var in around:
                fresh = tir.Var(f"v{var.name}", var.dtype)
                reduce_vars[var] = fresh
                iter_vars.append(IterVar(around[var].range(), fresh, IterVar.CommReduce))
                values.append(var)
        renamed[item.var] = substitute(value, reduce_vars)
    if terms is not None:
        renamed[terms.part] = factor_var
        renamed[terms.within] = substitute(terms.place, reduce_vars)

    def widened(region: tir.BufferRegion) -> tir.BufferRegion:
        ranges = [
            tir.Range.from_min_extent(
                simplify_polynomial(substitute(item.min, renamed)), substitute(item.extent, renamed)
            )
            for item in region.region
        ]
        new = buffers.get(region.buffer)
        if new is None:
            return tir.BufferRegion(region.buffer, ranges)
        point = tir.Range.from_min_extent(factor_var, tir.const(1, factor_var.dtype))
        return tir.BufferRegion(new, [*ranges[:axis], point, *ranges[axis:]])

    indices = [substitute(index, renamed) for index in reduction.indices]
    indices.insert(axis, factor_var)
    added = reduction.operands if terms is None else terms.operands
    operands = [substitute(item, renamed) for item in added]
    init: tir.Stmt | None = None
    if any(item.iter_type == IterVar.CommReduce for item in iter_vars):
        init = tir.seq(
            *[
                tir.BufferStore(buffer, item.value, indices)
                for buffer, item in zip(partial, reduction.inits, strict=True)
            ]
        )
        values_there = [tir.BufferLoad(buffer, indices) for buffer in partial]
        update = stored(partial, reduction.combine(values_there, operands), indices)
    else:
        update = tir.seq(
            *[tir.BufferStore(buffer, item, indices) for buffer, item in zip(partial, operands, strict=True)]
        )
    return BlockNode(
        fresh_block_name(block, f"{block.name}_rf"),
        tuple(iter_vars),
        tuple(values),
        tuple(widened(region) for region in (block.reads if terms is None else terms.reads)),
        tuple(widened(region) for region in block.writes),
        LeafNode(update),
        block.predicate,
        init,
        annotations=block.annotations,
    )


class PartLoops:
    """Loops over the outputs of a reduction and its parts: copies of the factored loop and of the data-parallel ones of its block."""

    def __init__(self, block: BlockNode, loop: LoopNode, kind: int) -> None:
        own = loops_of_its_own(block)
        spatial = [
            (item, value)
            for item, value in zip(block.iter_vars, block.iter_values, strict=True)
            if item.iter_type == IterVar.DataPar
        ]
        self._loops = [
            item for item in own if item is loop or any(mentions(value, {item.var}) for _, value in spatial)
        ]
        self._vars: dict[Any, Any] = {
            item.var: tir.Var(item.var.name, item.var.dtype) for item in self._loops
        }
        parts = _parts_of(loop, kind)
        self.part = parts.var
        """The variable that counts the parts."""
        self.names: dict[Any, Any] = {item.var: tir.Var(item.var.name, item.var.dtype) for item, _ in spatial}
        """The new names of the reduction's data-parallel variables."""
        self.iter_vars = (
            parts,
            *[IterVar(item.dom, self.names[item.var], item.iter_type) for item, _ in spatial],
        )
        self.iter_values = (
            _part_in(loop, self._vars[loop.var]),
            *[substitute(value, self._vars) for _, value in spatial],
        )
        self.predicate: Any = tir.const(True)
        gone = [item for item in own if item.var not in self._vars]
        for condition in predicate_at_begin(block, conjuncts(block.predicate), gone, "rfactor"):
            if not mentions(condition, {loop.var}):
                self.predicate = tir.operators.logical_and(self.predicate, substitute(condition, self._vars))

    def around(self, block: BlockNode) -> TreeNode:
        """The loops with a block inside."""
        node: TreeNode = block
        for item in reversed(self._loops):
            node = LoopNode(
                self._vars[item.var],
                substitute(item.extent, self._vars),
                node,
                item.kind,
                item.min,
                item.annotations,
                item.thread_binding,
            )
        return node


def _final_block(
    block: BlockNode,
    loop: LoopNode,
    axis: int,
    partial: list[tir.Buffer],
    reduction: Reduction,
    terms: Terms | None,
) -> tuple[TreeNode, BlockNode]:
    """The block that reduces the partial results, and its loops."""
    loops = PartLoops(block, loop, IterVar.CommReduce)
    indices = [substitute(index, loops.names) for index in reduction.indices]
    rf_indices = [*indices[:axis], loops.part, *indices[axis:]]
    there = [tir.BufferLoad(buffer, indices) for buffer in reduction.outputs]
    coming: list[tir.PrimExpr] = [tir.BufferLoad(buffer, rf_indices) for buffer in partial]
    reads = [point_region(buffer, rf_indices) for buffer in partial]
    if terms is not None:
        names = {**loops.names, terms.part: loops.part}
        scales = [None if scale is None else substitute(scale, names) for scale in terms.scales]
        coming = [item if scale is None else scale * item for scale, item in zip(scales, coming, strict=True)]
        scaling = {scale.buffer: scale for scale in scales if scale is not None}
        reads += [point_region(buffer, scale.indices) for buffer, scale in scaling.items()]
    inits = [tir.BufferStore(item.buffer, item.value, indices) for item in reduction.inits]
    final = BlockNode(
        block.name,
        loops.iter_vars,
        loops.iter_values,
        tuple(reads),
        tuple(point_region(buffer, indices) for buffer in reduction.outputs),
        LeafNode(stored(reduction.outputs, reduction.combine(there, coming), indices)),
        loops.predicate,
        tir.seq(*inits),
        annotations=block.annotations,
    )
    return loops.around(final), final
