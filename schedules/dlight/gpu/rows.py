"""Rows in one kernel, a block of threads for each: how many threads a default schedule gives them (:mod:`schedules.rule.row_kernel`)."""

from __future__ import annotations

from collections.abc import Sequence

from ...block_facts import node_of, reduce_vars
from ...random_variable import BlockRV, ExprRV
from ...rule.row_kernel import MOST_KEPT, RowNumbers, Rows, compute_rows, lanes_of_rows, rows_of
from ...rule.shared_reduction import reduced_elements
from ...tree import BlockNode
from .rule import Nests

_FEWEST, _MOST = 32, 256
"""Threads of a row: a warp exchanges without shared memory, and more than eight of them wait for each other long."""
_LONG = 1 << 13
"""Elements of rows that many threads share, where there are fewer rows than multiprocessors."""
_PER_THREAD = 4
"""Elements of a row that a thread has at least, where a row has as many."""


def schedule_rows(nests: Nests, blocks: Sequence[BlockRV]) -> bool:
    """Put the nests of some blocks, of which each but the last is read by later ones only, into one kernel.

    Returns:
        False where their loops do not run over common rows.
    """
    nodes = [node_of(nests.sch, block) for block in blocks]
    rows = rows_of(nodes)
    if rows is None:
        return False
    threads = nests.number(_threads_of_a_row(nests, nodes, rows.count), [32, 64, 128, 256, 512])
    compute_rows(nests.sch, blocks, rows, _numbers(rows, threads))
    return True


def _numbers(rows: Rows, threads: int | ExprRV) -> RowNumbers:
    """A row in registers where a thread has enough of them for its part, loaded by as many neighbours as share the row evenly."""
    if isinstance(threads, ExprRV) or rows.source is None or rows.length % threads:
        return RowNumbers(threads)
    if rows.length // threads > MOST_KEPT:
        return RowNumbers(threads)
    lanes = next(lanes for lanes in lanes_of_rows(rows) if rows.length % (threads * lanes) == 0)
    return RowNumbers(threads, lanes, keeps=True)


def _threads_of_a_row(nests: Nests, nodes: Sequence[BlockNode], rows: int | None) -> int:
    """Threads for the longest row, of known lengths: so many that each has a few elements."""
    most = int(nests.target.max_threads_per_block)
    lengths = [reduced_elements(node) for node in nodes if reduce_vars(node)]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        return min(_MOST, most)
    longest = max(known, default=1)
    limit = _MOST
    if longest >= _LONG and rows is not None and rows < nests.target.multi_processor_count:
        limit = 1024
    threads = _FEWEST
    while threads * 2 * _PER_THREAD <= longest and threads < min(limit, most):
        threads *= 2
    return threads
