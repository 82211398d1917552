"""Weights in the layout that a schedule wants: separate the packing of constant weights from the kernel that uses them.

A scheduled function may contain blocks annotated ``meta_schedule.layout_rewrite_preproc`` that copy a constant weight into
panels, or transform it before that. Those run once when a model is compiled; the kernel proper takes the packed weight as its parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import IRModule, tir
from ir.tir import IndexMap, PrimFunc
from ir.tir.kernel_attributes import (
    LAYOUT_REWRITE_MAPS,
    LAYOUT_REWRITE_PREPROC,
    WEIGHT_PROGRAMS,
    layout_free_positions,
)
from ir.tir.stmt_functor import substitute

from .error import ScheduleError
from .tree import BlockNode, LeafNode, LoopNode, TreeNode, child_blocks, detach, tree_of


def layout_free_parameters(func: PrimFunc) -> list[tir.Buffer]:
    """The tensors that are constants of a model, whose layout is the kernel's to choose (``layout_free_buffers``)."""
    params = dict(enumerate(func.params))
    named = [params.get(position) for position in layout_free_positions(func)]
    return [func.buffer_map[param] for param in named if param in func.buffer_map]


def split_weight_packing(func: PrimFunc) -> PrimFunc:
    """The kernel without its weight packing: packed buffers become parameters in place of the originals.

    The attribute ``layout_rewrite_maps`` maps the positions of such parameters to the IndexMap from the original layout to the
    packed one. Where weights are not only copied, but computed (as for Winograd's convolutions), ``weight_programs`` maps their positions
    to a PrimFunc from the original weight to what is computed, which the IndexMap, if there is one, begins with. The same function comes
    back when nothing is packed, and where a kernel reads a weight in two layouts, or as it is besides, or in more steps than these two: it
    packs by itself then.

    Raises:
        ScheduleError: an annotated block reads more than one tensor, or what is neither a parameter nor written by such a block.
    """
    root = tree_of(func.body)
    if not isinstance(root, BlockNode):
        return func
    maps: dict[int, IndexMap] = dict(func.attrs.get(LAYOUT_REWRITE_MAPS, {}))
    programs: dict[int, PrimFunc] = dict(func.attrs.get(WEIGHT_PROGRAMS, {}))
    position_of: dict[tir.Buffer, int] = {
        func.buffer_map[param]: position
        for position, param in enumerate(func.params)
        if param in func.buffer_map
    }
    buffers = dict(func.buffer_map)
    replaced: set[tir.Buffer] = set()
    for block in child_blocks(root):
        if LAYOUT_REWRITE_PREPROC not in block.annotations:
            continue
        source, made = _source_and_result(block)
        if source in replaced:
            return func
        if source not in position_of:
            raise ScheduleError(
                f"layout rewrite: block {block.name!r} packs {source.name}, which is no parameter"
            )
        position = position_of.pop(source)
        replaced.add(source)
        position_of[made] = position
        store = block.body.leaf if isinstance(block.body, LeafNode) else None
        if isinstance(store, tir.BufferStore) and isinstance(store.value, tir.BufferLoad):
            forward = _forward_map(block, store.value.indices, store.indices)
            if position in maps:
                return func
            maps[position] = forward
        elif position in maps or position in programs:
            return func
        else:
            programs[position] = _program(block, source, made)
        detach(block)
        root.change(alloc_buffers=tuple(item for item in root.alloc_buffers if item is not made))
        buffers[func.params[position]] = made
    body = root.stmt()
    if not replaced or _touches(body, replaced):
        return func
    kernel: PrimFunc = func.replace(body=body, buffer_map=buffers).with_attr(LAYOUT_REWRITE_MAPS, maps)
    return kernel.with_attr(WEIGHT_PROGRAMS, programs) if programs else kernel


def _touches(body: tir.Stmt, buffers: set[tir.Buffer]) -> bool:
    """Whether a statement names one of some buffers, or the memory of one."""
    found: list[bool] = []
    memory = {buffer.data for buffer in buffers}

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore | tir.BufferRegion):
            found.append(node.buffer in buffers)
        elif isinstance(node, tir.Var):
            found.append(node in memory)

    tir.post_order_visit(body, visit)
    return any(found)


def _source_and_result(block: BlockNode) -> tuple[tir.Buffer, tir.Buffer]:
    """The only tensor that an annotated block reads, and the only one that it writes."""
    read, written = ({region.buffer for region in regions} for regions in (block.reads, block.writes))
    if len(read) != 1 or len(written) != 1:
        raise ScheduleError(f"layout rewrite: block {block.name!r} does not make one tensor of another one")
    return read.pop(), written.pop()


def _program(block: BlockNode, source: tir.Buffer, made: tir.Buffer) -> PrimFunc:
    """The nest of a block as a program of its own."""
    top: TreeNode = block
    while isinstance(top.parent, LoopNode):
        top = top.parent
    root = tir.Block((), (), (), "root", top.stmt())
    return PrimFunc(
        [source, made],
        tir.BlockRealize((), True, root),
        attrs={"global_symbol": "main", "tir.noalias": True},
    )


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
