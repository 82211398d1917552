"""RowThreads: rows that are sorted, or of which the first elements are wanted, by a block of threads each."""

from __future__ import annotations

from functools import partial

from ir import tir
from ir.topi.row_order import ROW_ORDER
from ir.topi.row_threads import ALGORITHMS, thread_counts
from ir.topi.sort_keys import key_bits

from ..block_facts import node_of
from ..error import ScheduleError
from ..primitive.row_order import row_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, all_blocks, loops_around
from .base import Alternatives, ScheduleRule, unless_refused


class RowThreads(ScheduleRule):
    """Offer the algorithms of :mod:`ir.topi.row_threads` for rows of known lengths, by each number of threads that can run them.

    Rows that none of them takes, as they are too long for the registers of a block, stay as they are.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        rows = [item for item in all_blocks(node_of(sch, block)) if ROW_ORDER in item.annotations]
        choices = choices_for(rows[0], int(self.target.max_threads_per_block)) if len(rows) == 1 else []
        if not choices:
            return [sch]
        return Alternatives(
            [
                partial(
                    unless_refused,
                    sch,
                    partial(_by, name=rows[0].name, algorithm=algorithm, threads=threads),
                )
                for algorithm, threads in choices
            ]
        )


def choices_for(row: BlockNode, most_threads: int) -> list[tuple[str, int]]:
    """Algorithms and numbers of threads that find what a block declares of a row."""
    known = row_length(row)
    if known is None:
        return []
    return [
        (algorithm, threads)
        for algorithm in ALGORITHMS
        for threads in thread_counts(algorithm, *known)
        if threads <= most_threads
    ]


def row_length(row: BlockNode) -> tuple[int, int, int] | None:
    """Elements of a row, how many are wanted, and bits of their keys; None where that is not known, or a block declares none."""
    try:
        axis = row_of(row).axis
    except ScheduleError:
        return None
    source, result = row.reads[0].buffer, row.writes[0].buffer
    extent, count = source.shape[axis], result.shape[axis]
    if not isinstance(extent, tir.IntImm) or not isinstance(count, tir.IntImm) or count.value < 1:
        return None
    return extent.value, count.value, key_bits(source.dtype)


def order_rows_by_threads(sch: Schedule, row: BlockRV, algorithm: str, threads: int) -> None:
    """Give each row a block of threads, which finds its first elements by an algorithm."""
    if loops_around(node_of(sch, row)):
        (loop,) = sch.get_loops(row)
    else:
        loop = sch.add_unit_loop(row)
    sch.bind(loop, "blockIdx.x")
    sch.order_rows(row, algorithm, [threads])


def _by(sch: Schedule, name: str, algorithm: str, threads: int) -> list[Schedule]:
    order_rows_by_threads(sch, sch.get_block(name), algorithm, threads)
    return [sch]
