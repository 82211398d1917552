"""Primitives that change a program's meaning on request, and those that only re-describe blocks and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir.stmt_functor import StmtExprMutator

from ..affine import simplify_polynomial
from ..analysis import require
from ..tree import BlockNode, LeafNode, TreeNode, walk
from .caching import replace_buffer
from .layout import allocating_scope, buffer_of, map_indices


def reorder_block_iter_var(block: BlockNode, new_order: Sequence[int]) -> None:
    """Put a block's iteration variables into another order."""
    order = [int(item) for item in new_order]
    require(
        sorted(order) == list(range(len(block.iter_vars))),
        "reorder_block_iter_var",
        f"{order} is no permutation of the {len(block.iter_vars)} iteration variables of block {block.name!r}",
    )
    block.change(
        iter_vars=tuple(block.iter_vars[item] for item in order),
        iter_values=tuple(block.iter_values[item] for item in order),
    )


def unsafe_hide_buffer_access(block: BlockNode, buf_type: str, buf_index_array: Sequence[int]) -> None:
    """Strike regions from the list of what a block reads or writes."""
    primitive = "unsafe_hide_buffer_access"
    require(buf_type in ("read", "write"), primitive, f"buf_type must be 'read' or 'write', got {buf_type!r}")
    regions = block.reads if buf_type == "read" else block.writes
    for index in buf_index_array:
        require(
            0 <= int(index) < len(regions),
            primitive,
            f"block {block.name!r} has {len(regions)} {buf_type} regions, there is no region {index}",
        )
    hidden = {int(item) for item in buf_index_array}
    kept = tuple(region for n, region in enumerate(regions) if n not in hidden)
    block.change(**{"reads" if buf_type == "read" else "writes": kept})


def annotate_buffer_access(block: BlockNode, buffer_index: int, buf_type: str, ranges: tir.IndexMap) -> None:
    """Replace the region that a block states for a buffer: ``ranges`` maps its variables to begin and end per dimension."""
    primitive = "annotate_buffer_access"
    require(buf_type in ("read", "write"), primitive, f"buf_type must be 'read' or 'write', got {buf_type!r}")
    buffer = buffer_of(block, buffer_index, buf_type == "write", primitive)
    bounds = map_indices(ranges, [item.var for item in block.iter_vars])
    require(
        len(bounds) == 2 * len(buffer.shape),
        primitive,
        f"got {len(bounds) // 2} ranges, buffer {buffer.name} has {len(buffer.shape)} dimensions",
    )
    region = [
        tir.Range.from_min_extent(first, simplify_polynomial(last - first))
        for first, last in zip(bounds[::2], bounds[1::2], strict=True)
    ]
    field = "reads" if buf_type == "read" else "writes"
    regions = list(getattr(block, field))
    regions[buffer_index] = tir.BufferRegion(buffer, region)
    key = f"explicit_{buf_type}_region"
    marked = tuple(dict.fromkeys([*block.annotations.get(key, ()), buffer_index]))
    block.change(**{field: tuple(regions), "annotations": {**block.annotations, key: marked}})


class _Cast(StmtExprMutator):
    """Stores convert to the buffer's new dtype, loads convert back."""

    def __init__(self, old: tir.Buffer, new: tir.Buffer) -> None:
        super().__init__()
        self._old, self._new = old, new

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        if load.buffer is not self._old:
            return mapped
        return tir.Cast(self._old.dtype, tir.BufferLoad(self._new, mapped.indices))

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        if store.buffer is not self._old:
            return mapped
        return tir.BufferStore(self._new, tir.Cast(self._new.dtype, mapped.value), mapped.indices)


def unsafe_set_dtype(block: BlockNode, buffer_index: int, dtype: str) -> None:
    """Store an intermediate buffer in another dtype, with casts at its accesses; results lose or gain precision."""
    primitive = "unsafe_set_dtype"
    buffer = buffer_of(block, buffer_index, True, primitive)
    scope = allocating_scope(block, buffer)
    require(
        scope is not None,
        primitive,
        f"buffer {buffer.name} is no intermediate: it is a parameter of the function",
    )
    assert scope is not None
    if buffer.dtype == dtype:
        return
    new = tir.decl_buffer(
        buffer.shape,
        dtype,
        buffer.name,
        strides=buffer.strides,
        scope="" if buffer.scope() == "global" else buffer.scope(),
    )
    cast = _Cast(buffer, new)
    for node in list(walk(scope)):
        if isinstance(node, LeafNode):
            leaf = cast.visit(node.leaf)
            if leaf is not node.leaf:
                node.leaf = leaf
                node.touch()
        elif isinstance(node, BlockNode) and node.init is not None:
            node.change(init=cast.visit(node.init))
    replace_buffer(scope, buffer, new)
    scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))


def set_axis_separator(
    block: BlockNode,
    buffer_index: int,
    is_write: bool,
    axis_separators: Sequence[int],
    function_buffers: dict[Any, tir.Buffer],
) -> None:
    """Say between which axes flattening must keep a buffer's dimensions apart."""
    primitive = "set_axis_separator"
    buffer = buffer_of(block, buffer_index, is_write, primitive)
    separators = [int(getattr(item, "value", item)) for item in axis_separators]
    require(
        all(0 <= item <= len(buffer.shape) for item in separators) and separators == sorted(separators),
        primitive,
        f"separators {separators} are not ascending positions among the {len(buffer.shape)} axes of {buffer.name}",
    )
    scope = allocating_scope(block, buffer)
    new = buffer.replace(axis_separators=tuple(tir.const(item) for item in separators))
    top: TreeNode = block
    while top.parent is not None:
        top = top.parent
    if scope is not None:
        scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))
    for param, item in list(function_buffers.items()):
        if item is buffer:
            function_buffers[param] = new
    replace_buffer(scope or top, buffer, new)
