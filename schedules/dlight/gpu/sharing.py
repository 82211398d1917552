"""Reductions that threads of a block share: their loops bound, in rows or in columns."""

from __future__ import annotations

from math import prod
from typing import Any

from ir import tir

from ...random_variable import BlockRV, ExprRV, LoopRV
from ...rule.block_facts import node_of, reduction_loops
from ...schedule import Schedule
from ...tree import BlockNode, loops_around

SHORT = 32
"""Elements of reductions that a thread rather computes alone."""
COLUMNS, SHARING = 32, 8
"""Threads side by side on neighbouring columns, and threads that share each column."""


def number_of(extent: tir.PrimExpr) -> int | None:
    """An extent that is known."""
    return extent.value if isinstance(extent, tir.IntImm) else None


def reduced_elements(node: BlockNode) -> int | None:
    """How many elements each result of a reduction is of; None where that is symbolic."""
    loops = loops_around(node)
    numbers = [number_of(loops[position].extent) for position in reduction_loops(node)]
    return None if None in numbers else prod(number for number in numbers if number is not None)


def is_short(node: BlockNode) -> bool:
    """Whether a reduction is known to be over a few elements."""
    count = reduced_elements(node)
    return count is not None and count < SHORT


def move_reduction_inside(sch: Schedule, block: BlockRV) -> None:
    """Put the reduction loops of a block inside of all others."""
    positions = reduction_loops(node_of(sch, block))
    loops = sch.get_loops(block)
    if positions != list(range(len(loops) - len(positions), len(loops))):
        moved = [i for i in range(positions[0], len(loops)) if i not in positions]
        sch.reorder(*[loops[i] for i in moved], *[loops[i] for i in positions])


def share_reduction(sch: Schedule, block: BlockRV, threads: int | ExprRV, axis: str = "threadIdx.x") -> None:
    """Bind the fused reduction loops of a block to threads; its other loops stay outside of them."""
    move_reduction_inside(sch, block)
    loops = [sch.get_loops(block)[position] for position in reduction_loops(node_of(sch, block))]
    _outer, own = sch.split(sch.fuse(*loops), [None, threads])
    sch.bind(own, axis)


def share_rows(sch: Schedule, block: BlockRV, threads: int | ExprRV) -> None:
    """A kernel of its own for a reduction: a block of threads for each result."""
    move_reduction_inside(sch, block)
    count = len(reduction_loops(node_of(sch, block)))
    rows = sch.get_loops(block)[:-count]
    row: LoopRV = sch.fuse(*rows) if rows else sch.add_unit_loop(sch.get_loops(block)[0])
    sch.bind(row, "blockIdx.x")
    share_reduction(sch, block, threads)


def share_columns(
    sch: Schedule, block: BlockRV, consumer: BlockRV | None, columns: Any = COLUMNS, sharing: Any = SHARING
) -> None:
    """A kernel for a reduction whose neighbouring results are of neighbours in memory, and for an elementwise consumer of it.

    Args:
        block: the reduction.
        consumer: what alone reads its result.
        columns: threads on neighbouring results.
        sharing: threads that share each of them.
    """
    if consumer is None:
        move_reduction_inside(sch, block)
        count = len(reduction_loops(node_of(sch, block)))
        _bind_columns(sch, sch.get_loops(block)[:-count], columns)
    else:
        own = _bind_columns(sch, sch.get_loops(consumer), columns)
        _outer, writing = sch.split(sch.add_unit_loop(consumer), [None, sharing])
        sch.bind(writing, "threadIdx.y")
        sch.compute_at(block, own, preserve_unit_loops=True)
        sch.set_scope(block, 0, "shared")
    share_reduction(sch, block, sharing, "threadIdx.y")


def _bind_columns(sch: Schedule, loops: list[LoopRV], columns: Any) -> LoopRV:
    blocks, own = sch.split(sch.fuse(*loops), [None, columns])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(own, "threadIdx.x")
    return own
