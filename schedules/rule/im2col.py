"""Im2col: strided convolutions as products of weights and patches, beside the direct form.

    for n, y, x, k, c, r, s: O[n, k, y, x] += D[n, c, y * 2 + r, x * 2 + s] * W[k, c, r, s]

becomes, with the reductions as one loop,

    for n, q, y, x: P[n, q, y, x] = D[n, q // 9, y * 2 + q // 3 % 3, x * 2 + q % 3]     # all at once, or below the tiles that read it
    for n, k, y, x, q: O[n, k, y, x] += P[n, q, y, x] * W[k, q // 9, q // 3 % 3, q % 3]

The product reads whole vectors where the convolution picked every second element. (Chellapilla, Puri, Simard: High performance
convolutional neural networks for document processing, 2006.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ir import tir
from ir.tir import IndexMap, IterVar

from ..affine import polynomial, split_by
from ..analysis import why_not_reduction
from ..block_facts import (
    contiguous_var,
    is_leaf_block,
    node_of,
    operand_loads,
    reduce_vars,
    spatial_vars,
    stands_alone,
)
from ..convolution import extent_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode
from .base import ScheduleRule, unless_refused


class Im2col(ScheduleRule):
    """Offer windows that lie more than one element apart directly, and as patches that are multiplied.

    Where windows overlap in all but one row or column, patches hold each element as often as the window is large, and a convolution reads
    the same vectors from the image itself: those stay as they are.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        position = _strided_operand(node_of(sch, block))
        if position is None:
            return [sch]
        return [sch, *unless_refused(sch, lambda copy: [_with_patches(copy, block, position)])]


def _strided_operand(node: BlockNode) -> int | None:
    """Which read of a sum of products has windows some elements apart, beside an operand at variables; None where there is not one."""
    if not stands_alone(node) or why_not_reduction(node) is not None or not is_leaf_block(node):
        return None
    loads = operand_loads(node)
    fixed = all(isinstance(item.dom.extent, tir.IntImm) for item in node.iter_vars)
    if len(loads) != 2 or loads[0].buffer is loads[1].buffer or not fixed or len(reduce_vars(node)) < 2:
        return None
    windows = [load for load in loads if _has_windows_apart(node, load)]
    plain = [load for load in loads if all(isinstance(index, tir.Var) for index in load.indices)]
    if len(windows) != 1 or len(plain) != 1:
        return None
    return next(i for i, region in enumerate(node.reads) if region.buffer is windows[0].buffer)


def _has_windows_apart(node: BlockNode, load: tir.BufferLoad) -> bool:
    """Whether one of the indices is a place, times more than 1, and a tap."""
    spatial, reduced = ({var: 1 for var in found} for found in (spatial_vars(node), reduce_vars(node)))
    for index in load.indices:
        parts = split_by(polynomial(index), {**spatial, **reduced})
        if parts is None:
            return False
        steps = [terms.get((), 0) for var, terms in parts[0].items() if var in spatial]
        if any(abs(step) > 1 for step in steps) and any(var in reduced for var in parts[0]):
            return True
    return False


def _with_patches(sch: Schedule, block: BlockRV, position: int) -> Schedule:
    patches = sch.reindex(block, ("read", position))
    node = node_of(sch, block)
    places = [place.min for place in node.reads[position].region]
    items = [next(item for item in node.iter_vars if item.var is place) for place in places]
    last = contiguous_var(node)
    sch.transform_layout(block, ("read", position), _map(items, last, is_fused=True))
    if any(item.var is last for item in items):
        sch.transform_block_layout(patches, _map(items, last, is_fused=False))
    sch.transform_block_layout(block, _map(node.iter_vars, None, is_fused=True))
    return sch


def _map(items: Sequence[IterVar], last: Any, *, is_fused: bool) -> IndexMap:
    """The map to the data-parallel variables in order, the reductions, as one number if they are fused, and a variable that goes last."""
    initial = [tir.Var(item.var.name, item.var.dtype) for item in items]
    kept = [
        var
        for item, var in zip(items, initial, strict=True)
        if item.iter_type == IterVar.DataPar and item.var is not last
    ]
    moved = [var for item, var in zip(items, initial, strict=True) if item.var is last]
    reduced = [var for item, var in zip(items, initial, strict=True) if item.iter_type == IterVar.CommReduce]
    extents = [extent_of(item) for item in items if item.iter_type == IterVar.CommReduce]
    if not is_fused:
        return IndexMap(initial, [*kept, *reduced, *moved])
    fused = tir.Var("q", initial[0].dtype)
    number: tir.PrimExpr = tir.const(0, fused.dtype)
    restored: dict[tir.Var, tir.PrimExpr] = {var: var for var in (*kept, *moved)}
    for position, var in enumerate(reduced):
        weight = prod(extents[position + 1 :])
        number = number + var * weight
        restored[var] = fused // weight if position == 0 else fused // weight % extents[position]
    back = IndexMap([*kept, fused, *moved], [restored[var] for var in initial])
    return IndexMap(initial, [*kept, number, *moved], back)
