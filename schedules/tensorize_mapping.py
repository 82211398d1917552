"""How the iterations of a block map to those of a tensor intrinsic's description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.tir import IndexMap

from .affine import mentions
from .error import ScheduleError
from .random_variable import BlockRV
from .schedule import Schedule
from .tree import BlockNode, LoopNode, loops_around

_Signature = tuple[bool, tuple[bool, ...]]
"""Of an iteration variable: whether it is reduced, and which of the buffers it chooses elements of, the written ones first."""


@dataclass(frozen=True)
class TensorizeInfo:
    """Which loops of a block run over an intrinsic's tile."""

    loop_map: Mapping[LoopNode, tir.For]
    """For each of them the loop of the description."""
    desc_loop_indexer: Mapping[tir.For, int]
    """The positions of the description's loops, from the outermost on."""
    block_iter_paddings: Sequence[int] | None
    """To multiples of what the block's variables must be padded; None where they need no padding."""


@dataclass(frozen=True)
class AutoTensorizeMappingInfo:
    """How variables of a block are fused to those of an intrinsic."""

    mappings: Sequence[IndexMap]
    """From the block's variables to those that choose no place in a tile, and behind them one for each of the description's."""
    lhs_buffer_map: Mapping[tir.Buffer, tir.Buffer]
    """For each buffer of the block that of the description."""
    lhs_iters: Sequence[tir.IterVar]
    """The block's variables."""
    rhs_iters: Sequence[tir.IterVar]
    """The description's."""


def get_tensorize_loop_mapping(
    sch: Schedule, block: BlockRV, desc_func: tir.PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """The loops around a block that run over the tile of a description: for each of its variables the last of the block's of that kind.

    Args:
        sch: has the block.
        block: each of its variables is one loop.
        desc_func: the description of an intrinsic.
        allow_padding: whether extents that are no multiples of the tile's may be padded to such.

    Returns:
        None where there are fewer variables of a kind, or extents are no multiples.
    """
    node, (described, desc_loops) = _node(sch, block), _description(desc_func)
    loops: dict[Any, LoopNode] = {loop.var: loop for loop in loops_around(node)}
    free = list(zip(node.iter_vars, node.iter_values, strict=True))
    found: dict[LoopNode, tir.For] = {}
    paddings = {item.var: 1 for item in node.iter_vars}
    for item, desc_loop in reversed(list(zip(described.iter_vars, desc_loops, strict=True))):
        position = next(
            (n for n in reversed(range(len(free))) if free[n][0].iter_type == item.iter_type), None
        )
        if position is None:
            return None
        own, value = free[position]
        del free[position:]
        loop = loops.get(value)
        if loop is None or not isinstance(loop.extent, tir.IntImm):
            return None
        tile = int(desc_loop.extent)
        if loop.extent.value % tile and not allow_padding:
            return None
        paddings[own.var] = tile if loop.extent.value % tile else 1
        found[loop] = desc_loop
    needs = any(step > 1 for step in paddings.values())
    indexer = {loop: position for position, loop in enumerate(desc_loops)}
    return TensorizeInfo(found, indexer, list(paddings.values()) if needs else None)


def get_auto_tensorize_mapping_info(
    sch: Schedule, block: BlockRV, desc_func: tir.PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How a block's variables can be fused so that it computes what a description does: those go together that choose elements of the
    same operands, as those of rows, columns and channels of a convolution do of a product's rows.

    Returns:
        None where a variable of the description has no counterpart, or the buffers are not as many or of other dtypes.
    """
    node, (described, _) = _node(sch, block), _description(desc_func)
    own, other = _buffers(node.writes, node.reads), _buffers(described.writes, described.reads)
    if [buffer.dtype for buffer, _ in own] != [buffer.dtype for buffer, _ in other]:
        return None
    wanted = {_signature(item, other): item.var for item in described.iter_vars}
    groups: dict[Any, list[tir.IterVar]] = {var: [] for var in wanted.values()}
    rest: list[tir.IterVar] = []
    for item in node.iter_vars:
        group = groups.get(wanted.get(_signature(item, own)))
        (rest if group is None else group).append(item)
    if len(wanted) != len(described.iter_vars) or not all(groups.values()):
        return None
    if any(item.iter_type == tir.IterVar.CommReduce for item in rest):
        return None
    initial = [tir.Var(item.var.name, item.var.dtype) for item in node.iter_vars]
    names = dict(zip([item.var for item in node.iter_vars], initial, strict=True))
    final = [names[item.var] for item in rest]
    final += [_fused(groups[item.var], names) for item in described.iter_vars]
    buffers = {a: b for (a, _), (b, _) in zip(own, other, strict=True)}
    return AutoTensorizeMappingInfo([IndexMap(initial, final)], buffers, node.iter_vars, described.iter_vars)


def _node(sch: Schedule, block: BlockRV) -> BlockNode:
    node = sch._block(block)
    assert isinstance(node, BlockNode)
    return node


def _description(func: tir.PrimFunc) -> tuple[tir.Block, list[tir.For]]:
    """The inner block of a description and the loops around it, one for each of its variables, in their order."""
    stmt: Any = func.body
    loops: dict[Any, tir.For] = {}
    while not (isinstance(stmt, tir.BlockRealize) and stmt.block.iter_vars):
        if isinstance(stmt, tir.For):
            loops[stmt.loop_var] = stmt
            stmt = stmt.body
        elif isinstance(stmt, tir.BlockRealize):
            stmt = stmt.block.body
        else:
            raise ScheduleError("the description of an intrinsic is one nest with one block")
    if any(value not in loops for value in stmt.iter_values):
        raise ScheduleError("the variables of the description's block must be its loops")
    return stmt.block, [loops[value] for value in stmt.iter_values]


def _buffers(
    writes: Sequence[tir.BufferRegion], reads: Sequence[tir.BufferRegion]
) -> list[tuple[tir.Buffer, tir.BufferRegion]]:
    """What a block writes, and what else it reads."""
    written = [region.buffer for region in writes]
    return [
        (region.buffer, region)
        for region in (*writes, *(region for region in reads if region.buffer not in written))
    ]


def _signature(item: tir.IterVar, buffers: Sequence[tuple[tir.Buffer, tir.BufferRegion]]) -> _Signature:
    used = tuple(any(mentions(part.min, {item.var}) for part in region.region) for _, region in buffers)
    return item.iter_type == tir.IterVar.CommReduce, used


def _fused(group: Sequence[tir.IterVar], names: Mapping[Any, Any]) -> Any:
    total = names[group[0].var]
    for item in group[1:]:
        total = total * item.dom.extent + names[item.var]
    return total
