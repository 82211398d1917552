"""Parts of an axis: how a loop shares out a block's variable, and blocks that count parts and places in them instead of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.stmt_functor import substitute

from ..affine import constant_difference, mentions, simplify_polynomial
from ..analysis import require
from ..bounds import analyzer_of
from ..tree import BlockNode, LeafNode, LoopNode, loops_around


@dataclass
class Parts:
    """How a loop shares out an axis of a block: into parts of one size, one an iteration."""

    block: BlockNode
    loop: LoopNode
    axis: IterVar
    size: tir.PrimExpr
    place: tir.PrimExpr
    """Where in its part an iteration is, in variables of loops."""


def parts_of(block: BlockNode, loop: LoopNode, primitive: str) -> Parts:
    """The parts into which a loop shares out an axis of a block.

    Raises:
        ScheduleError: it is not the outer loop of a split of one variable.
    """
    around = loops_around(block)
    bound = [
        (item, value)
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if mentions(value, {loop.var})
    ]
    require(
        len(bound) == 1 and loop.begins_at_zero,
        primitive,
        f"loop {loop.var.name!r} feeds {len(bound)} variables of block {block.name!r} from {loop.min} on; it must feed one, from 0 on",
    )
    axis, value = bound[0]
    place = simplify_polynomial(substitute(value, {loop.var: tir.const(0, loop.var.dtype)}))
    size = simplify_polynomial(substitute(value, {loop.var: tir.const(1, loop.var.dtype)}) - place)
    analyzer = analyzer_of(around)
    is_split = constant_difference(value, loop.var * size + place) == 0 and (
        analyzer.can_prove(place >= 0) and analyzer.can_prove(place < size)
    )
    require(
        is_split,
        primitive,
        f"loop {loop.var.name!r} does not share out {axis.var.name!r} = {value} of block {block.name!r} into parts;"
        " it must be the outer loop of a split",
    )
    return Parts(block, loop, axis, size, place)


def share_out(
    parts: Parts,
    part: tir.Var,
    within: tir.Var,
    store: tir.BufferStore,
    reads: Sequence[tir.BufferRegion],
    writes: Sequence[tir.BufferRegion],
) -> None:
    """Let an elementwise block count parts and places in them instead of their axis.

    Args:
        parts: of the block.
        part, within: names of both in the block's new statement and regions, which may name the axis, too.
        store: the new statement.
        reads, writes: the new regions.
    """
    block, axis = parts.block, parts.axis
    number = IterVar(
        parts.loop.range(), tir.Var(f"v{parts.loop.var.name}", parts.loop.var.dtype), IterVar.DataPar
    )
    place = IterVar(
        tir.Range.from_min_extent(tir.const(0, axis.var.dtype), parts.size),
        tir.Var(f"{axis.var.name}_within", axis.var.dtype),
        IterVar.DataPar,
    )
    names: dict[Any, Any] = {
        axis.var: number.var * parts.size + place.var,
        part: number.var,
        within: place.var,
    }
    position = next(i for i, item in enumerate(block.iter_vars) if item is axis)
    before, behind = slice(position), slice(position + 1, None)
    block.change(
        iter_vars=(*block.iter_vars[before], number, place, *block.iter_vars[behind]),
        iter_values=(*block.iter_values[before], parts.loop.var, parts.place, *block.iter_values[behind]),
        reads=tuple(substitute(region, names) for region in reads),
        writes=tuple(substitute(region, names) for region in writes),
    )
    block.set_body(LeafNode(substitute(store, names)))
