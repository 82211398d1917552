"""Primitives that stage data in another buffer: cache_read and cache_write."""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.tir import IterVar
from ir.tir.functor import substitute

from ..analysis import require, scope_children, top_level_ancestor, written_buffers
from ..region import Box, bind_region, relax_region, union_boxes
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    SeqNode,
    TreeNode,
    insert_beside,
    is_ancestor,
    loops_around,
    scope_of,
    walk,
)


def replace_buffer(node: TreeNode, old: tir.Buffer, new: tir.Buffer) -> None:
    """Make every block of a subtree access ``new`` where it accessed ``old`` (same shape): loads, stores, regions."""
    for item in list(walk(node)):
        if isinstance(item, LeafNode):
            leaf = substitute(item.leaf, {old: new, old.data: new.data})
            if leaf is not item.leaf:
                item.leaf = leaf
                item.touch()
        elif isinstance(item, BlockNode):
            reads = tuple(_renamed(region, old, new) for region in item.reads)
            writes = tuple(_renamed(region, old, new) for region in item.writes)
            init = None if item.init is None else substitute(item.init, {old: new, old.data: new.data})
            same = all(a is b for a, b in zip((*reads, *writes), (*item.reads, *item.writes), strict=True))
            if not same or init is not item.init:
                item.change(reads=reads, writes=writes, init=init)


def _renamed(region: tir.BufferRegion, old: tir.Buffer, new: tir.Buffer) -> tir.BufferRegion:
    return tir.BufferRegion(new, region.region) if region.buffer is old else region


def similar_buffer(buffer: tir.Buffer, scope: str, name: str | None = None) -> tir.Buffer:
    """A new buffer of the same shape in another storage scope, named ``<buffer>_<scope>``."""
    suffix = scope.replace(".", "_") if scope else "global"
    return tir.decl_buffer(buffer.shape, buffer.dtype, name or f"{buffer.name}_{suffix}", scope="" if scope == "global" else scope)


def relaxed_to_scope(block: BlockNode, region: tir.BufferRegion) -> Box:
    """The box of a buffer that a block touches over all the loops around it."""
    values = dict(zip([item.var for item in block.iter_vars], block.iter_values, strict=True))
    running = {loop.var: loop.extent for loop in loops_around(block)}
    return relax_region(bind_region(region.region, values), running, region.buffer.shape)


def _copy_block(source: tir.Buffer, target: tir.Buffer, box: Box, name: str) -> tuple[TreeNode, BlockNode]:
    """Loops ``ax0, ax1, ...`` around a block that copies a box of ``source`` to ``target``."""
    loop_vars, block_vars, values, indices = [], [], [], []
    for axis, ((low, extent), dim) in enumerate(zip(box, source.shape, strict=True)):
        loop_var = tir.Var(f"ax{axis}", extent.dtype)
        block_var = tir.Var(f"v{axis}", dim.dtype)
        loop_vars.append((loop_var, extent))
        block_vars.append(IterVar(tir.Range.from_min_extent(tir.const(0, dim.dtype), dim), block_var, IterVar.DataPar))
        values.append(low + loop_var)
        indices.append(block_var)
    point = [tir.Range.from_min_extent(index, tir.const(1, index.dtype)) for index in indices]
    block = BlockNode(
        name,
        tuple(block_vars),
        tuple(values),
        (tir.BufferRegion(source, point),),
        (tir.BufferRegion(target, point),),
        LeafNode(tir.BufferStore(target, tir.BufferLoad(source, indices), indices)),
    )
    node: TreeNode = block
    for loop_var, extent in reversed(loop_vars):
        node = LoopNode(loop_var, extent, node)
    return node, block


def cache_read(
    block: BlockNode, read_buffer_index: int, storage_scope: str, consumer_blocks: Sequence[BlockNode] | None = None
) -> BlockNode:
    """Copy a buffer that a block reads into ``storage_scope`` first, and read the copy."""
    require(
        0 <= read_buffer_index < len(block.reads),
        "cache_read",
        f"block {block.name!r} reads {len(block.reads)} buffers, there is no read buffer {read_buffer_index}",
    )
    scope = scope_of(block)
    require(scope is not None, "cache_read", "the root block has no scope to put the copy into")
    assert scope is not None
    buffer = block.reads[read_buffer_index].buffer
    chosen = list(consumer_blocks) if consumer_blocks else None
    consumers = [
        item
        for item in scope_children(block)
        if any(region.buffer is buffer for region in item.reads)
        and buffer not in written_buffers(item)
        and (chosen is None or any(item is other for other in chosen))
    ]
    require(consumers, "cache_read", f"no consumer of {buffer.name} in the scope reads it without writing it")
    boxes = [
        relaxed_to_scope(item, region) for item in consumers for region in item.reads if region.buffer is buffer
    ]
    box = union_boxes(boxes, buffer.shape)
    cache = similar_buffer(buffer, storage_scope)
    nest, copy = _copy_block(buffer, cache, box, cache.name)
    writers = [item for item in scope_children(block) if buffer in written_buffers(item)]
    if writers:
        insert_beside(top_level_ancestor(writers[-1], scope), nest, before=False)
    else:
        insert_beside(_first_child(scope), nest, before=True)
    for item in consumers:
        replace_buffer(item, buffer, cache)
    scope.change(alloc_buffers=(*scope.alloc_buffers, cache))
    return copy


def _first_child(scope: BlockNode) -> TreeNode:
    body = scope.body
    children = body.children()
    return children[0] if isinstance(body, SeqNode) else body


def cache_write(
    block: BlockNode, write_buffer_index: int, storage_scope: str, consumer_blocks: Sequence[BlockNode] | None = None
) -> BlockNode:
    """Let a block write into ``storage_scope`` first, and copy the result behind it."""
    require(
        0 <= write_buffer_index < len(block.writes),
        "cache_write",
        f"block {block.name!r} writes {len(block.writes)} buffers, there is no write buffer {write_buffer_index}",
    )
    scope = scope_of(block)
    require(scope is not None, "cache_write", "the root block has no scope to put the copy into")
    assert scope is not None
    region = block.writes[write_buffer_index]
    buffer = region.buffer
    writers = [item for item in scope_children(block) if buffer in written_buffers(item)]
    require(
        len(writers) == 1, "cache_write", f"buffer {buffer.name} is written by {len(writers)} blocks of the scope, not one"
    )
    box = relaxed_to_scope(block, region)
    cache = similar_buffer(buffer, storage_scope)
    nest, copy = _copy_block(cache, buffer, box, cache.name)
    replace_buffer(block, buffer, cache)
    for consumer in consumer_blocks or ():
        require(
            not is_ancestor(consumer, block), "cache_write", f"consumer block {consumer.name!r} contains the writing block"
        )
        replace_buffer(consumer, buffer, cache)
    insert_beside(top_level_ancestor(block, scope), nest, before=False)
    scope.change(alloc_buffers=(*scope.alloc_buffers, cache))
    return copy
