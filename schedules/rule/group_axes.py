"""GroupAxes: channels of a grouped convolution as two axes, the groups and what is in one.

    O[n, y, x, k] += D[n, y + r, x + s, k // 16 * 8 + c] * W[r, s, c, k]

reads boxes of the image along the axes g = k // 16 and f = k % 16 only: a tile of k may need the channels of two groups. With

    O[n, y, x, g * 16 + f] += D[n, y + r, x + s, g * 8 + c] * W[r, s, c, g * 16 + f]

each group is a convolution of its own, whose products are tiled as those of any other.
"""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.tir import IndexMap

from ..block_facts import is_leaf_block, node_of, operand_loads, reduce_vars, spatial_vars, stands_alone
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode
from .base import ScheduleRule, unless_refused


class GroupAxes(ScheduleRule):
    """Split each data-parallel variable of a reduction that operands are read at in whole groups."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        return unless_refused(sch, lambda copy: [split_groups(copy, block)]) or [sch]


def split_groups(sch: Schedule, block: BlockRV) -> Schedule:
    """The schedule with the groups of a block as axes of their own; it stays as it is where there are none."""
    node = node_of(sch, block)
    sizes = group_sizes(node)
    if sizes:
        sch.transform_block_layout(block, _map(node, sizes))
    return sch


def group_sizes(node: BlockNode) -> dict[Any, int]:
    """The variables of a reduction that are divided where operands are read, and by what; only those of several whole groups."""
    if not stands_alone(node) or not is_leaf_block(node) or not reduce_vars(node):
        return {}
    divisors: dict[Any, set[int]] = {}

    def look(expr: Any) -> None:
        if isinstance(expr, tir.FloorDiv) and isinstance(expr.a, tir.Var) and isinstance(expr.b, tir.IntImm):
            divisors.setdefault(expr.a, set()).add(expr.b.value)

    for load in operand_loads(node):
        for index in load.indices:
            tir.post_order_visit(index, look)
    spatial = set(spatial_vars(node))
    extents = {
        item.var: item.dom.extent for item in node.iter_vars if isinstance(item.dom.extent, tir.IntImm)
    }
    return {
        var: size
        for var, (size, *others) in ((var, sorted(found)) for var, found in divisors.items())
        if var in spatial and not others and var in extents
        if 1 < size < extents[var].value and extents[var].value % size == 0
    }


def _map(node: BlockNode, sizes: dict[Any, int]) -> IndexMap:
    initial = [tir.Var(item.var.name, item.var.dtype) for item in node.iter_vars]
    final: list[tir.PrimExpr] = []
    back: list[tir.PrimExpr] = []
    names: list[tir.Var] = []
    for item, var in zip(node.iter_vars, initial, strict=True):
        size = sizes.get(item.var)
        if size is None:
            final.append(var)
            names.append(tir.Var(var.name, var.dtype))
            back.append(names[-1])
            continue
        final += [var // size, var % size]
        names += [tir.Var(f"{var.name}_group", var.dtype), tir.Var(f"{var.name}_own", var.dtype)]
        back.append(names[-2] * size + names[-1])
    return IndexMap(initial, final, IndexMap(names, back))
