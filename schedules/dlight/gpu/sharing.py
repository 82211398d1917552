"""Reductions that threads of a block share: their loops bound, in rows or in columns."""

from __future__ import annotations

from typing import Any

from ...block_facts import node_of, reduction_loops
from ...random_variable import BlockRV, ExprRV, LoopRV
from ...rule.shared_reduction import move_reduction_inside, reduced_elements, share_reduction
from ...schedule import Schedule
from ...tree import BlockNode

SHORT = 32
"""Elements of reductions that a thread rather computes alone."""
COLUMNS, SHARING = 32, 8
"""Threads side by side on neighbouring columns, and threads that share each column."""

PART_THREADS = 256
"""Threads that share a part of a reduction."""


def is_short(node: BlockNode) -> bool:
    """Whether a reduction is known to be over a few elements."""
    count = reduced_elements(node)
    return count is not None and count < SHORT


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
