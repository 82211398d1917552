"""Reductions that threads of a block share: how many elements they have, and their loops bound to threads."""

from __future__ import annotations

from math import prod

from ..block_facts import node_of, number_of, reduction_loops
from ..random_variable import BlockRV, ExprRV
from ..schedule import Schedule
from ..tree import BlockNode, loops_around


def reduced_elements(node: BlockNode) -> int | None:
    """How many elements each result of a reduction is of; None where that is symbolic."""
    loops = loops_around(node)
    numbers = [number_of(loops[position].extent) for position in reduction_loops(node)]
    return None if None in numbers else prod(number for number in numbers if number is not None)


def move_reduction_inside(sch: Schedule, block: BlockRV) -> None:
    """Put the reduction loops of a block inside of all others."""
    positions = reduction_loops(node_of(sch, block))
    loops = sch.get_loops(block)
    if positions != list(range(len(loops) - len(positions), len(loops))):
        moved = [i for i in range(positions[0], len(loops)) if i not in positions]
        sch.reorder(*[loops[i] for i in moved], *[loops[i] for i in positions])


def share_reduction(
    sch: Schedule,
    block: BlockRV,
    threads: int | ExprRV,
    axis: str = "threadIdx.x",
    lanes: int | ExprRV = 1,
) -> None:
    """Bind the fused reduction loops of a block to threads, each of which has ``lanes`` neighbours; its other loops stay outside."""
    move_reduction_inside(sch, block)
    loops = [sch.get_loops(block)[position] for position in reduction_loops(node_of(sch, block))]
    _outer, own, *_ = sch.split(sch.fuse(*loops), [None, threads, *([] if lanes == 1 else [lanes])])
    sch.bind(own, axis)
