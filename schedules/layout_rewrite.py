"""Weights in the layout that a schedule wants: separate the packing of constant weights from the kernel that uses them.

A scheduled function may contain blocks annotated ``meta_schedule.layout_rewrite_preproc`` that copy a constant weight into
panels. Those copies run once when a model is compiled; the kernel proper takes the packed weight as its parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir import IRModule, tir
from ir.tir import IndexMap, PrimFunc
from ir.tir.stmt_functor import substitute

from .error import ScheduleError
from .tree import BlockNode, LeafNode, child_blocks, detach, tree_of

PREPROC = "meta_schedule.layout_rewrite_preproc"
MAPS_ATTRIBUTE = "layout_rewrite_maps"


def split_weight_packing(func: PrimFunc) -> PrimFunc:
    """The kernel without its weight packing: packed buffers become parameters in place of the originals.

    The attribute ``layout_rewrite_maps`` maps the positions of such parameters to the IndexMap from the original layout to the
    packed one; the same function comes back when nothing is packed.

    Raises:
        ScheduleError: an annotated block is not a plain copy of a parameter.
    """
    root = tree_of(func.body)
    if not isinstance(root, BlockNode):
        return func
    maps: dict[int, IndexMap] = dict(func.attrs.get(MAPS_ATTRIBUTE, {}))
    buffers = dict(func.buffer_map)
    for block in child_blocks(root):
        if PREPROC not in block.annotations:
            continue
        position, packed, index_map = _packing(func, block)
        detach(block)
        parameter = func.params[position]
        buffers[parameter] = packed
        root.change(alloc_buffers=tuple(item for item in root.alloc_buffers if item is not packed))
        maps[position] = index_map
    if all(buffers[param] is buffer for param, buffer in func.buffer_map.items()):
        return func
    kernel: PrimFunc = func.replace(body=root.stmt(), buffer_map=buffers).with_attr(MAPS_ATTRIBUTE, maps)
    return kernel


def _packing(func: PrimFunc, block: BlockNode) -> tuple[int, tir.Buffer, IndexMap]:
    """(parameter position, packed buffer, map from the original indices to the packed ones)."""
    store = block.body.leaf if isinstance(block.body, LeafNode) else None
    if not isinstance(store, tir.BufferStore) or not isinstance(store.value, tir.BufferLoad):
        raise ScheduleError(f"layout rewrite: block {block.name!r} is not a plain copy")
    source = store.value.buffer
    for position, param in enumerate(func.params):
        if func.buffer_map.get(param) is source:
            return position, store.buffer, _forward_map(block, store.value.indices, store.indices)
    raise ScheduleError(f"layout rewrite: block {block.name!r} packs {source.name}, which is no parameter")


def _forward_map(
    block: BlockNode, indices: Sequence[tir.PrimExpr], written: Sequence[tir.PrimExpr]
) -> IndexMap:
    """From the indices that a copy reads to those that it writes; either are its variables."""
    if all(isinstance(index, tir.Var) for index in indices):
        return IndexMap(list(indices), list(written))
    # The number of the only panel is 0, whatever width it counts in.
    zeros = {
        item.var: tir.const(0, item.var.dtype)
        for item in block.iter_vars
        if isinstance(item.dom.extent, tir.IntImm)
        and item.dom.extent.value == 1
        and not any(index is item.var for index in indices)
    }
    moving = [item for item in block.iter_vars if item.var not in zeros]
    inverse = IndexMap([item.var for item in moving], [substitute(index, zeros) for index in indices])
    forward = inverse.inverse([item.dom.extent for item in moving])
    finals = iter(forward.final_indices)
    return IndexMap(
        forward.initial_indices,
        [zeros[item.var] if item.var in zeros else next(finals) for item in block.iter_vars],
    )


def split_module(mod: IRModule) -> IRModule:
    """:func:`split_weight_packing` on every PrimFunc of a module."""
    functions = {
        var: split_weight_packing(func) if isinstance(func, PrimFunc) else func
        for var, func in mod.functions.items()
    }
    return mod.replace(functions=functions)
