"""How the loops of a nest walk through memory: along which of them accesses are contiguous, and which order an operand asks for."""

from __future__ import annotations

from ir import tir

from ..affine import mentions
from ..block_facts import is_one, loop_position
from ..tree import BlockNode, loops_around


def contiguous_loop(node: BlockNode, region: tir.BufferRegion) -> int | None:
    """The position of the loop along which what a block accesses is contiguous, None where it is none of its own."""
    for item, dim in zip(reversed(region.region), reversed(region.buffer.shape), strict=True):
        if not is_one(dim):
            return loop_position(node, item.min) if isinstance(item.min, tir.Var) else None
    return None


def transposed_operands(node: BlockNode, written: int) -> list[tir.BufferRegion]:
    """The operands of a complete block that the result's contiguous axis moves through, and that are contiguous along an axis."""
    var = next(
        item.var
        for item, value in zip(node.iter_vars, node.iter_values, strict=True)
        if value is loops_around(node)[written].var
    )
    return [
        region
        for region in node.reads
        if any(mentions(item.min, {var}) for item in region.region)
        and contiguous_loop(node, region) is not None
    ]


def walk_through(node: BlockNode, region: tir.BufferRegion, natural: list[int]) -> tuple[int, ...]:
    """The loops in the order in which an operand lies in memory; those that do not move through it stay outside."""
    place = {
        loop_position(node, item.min): dim
        for dim, item in enumerate(region.region)
        if isinstance(item.min, tir.Var)
    }
    return tuple(sorted(natural, key=lambda position: place.get(position, -1)))
