"""RowReductions: softmax, normalizations and other chains of reductions over the same rows, as one kernel of a GPU.

What is made, and from what, is said in :mod:`.row_kernel`, which default schedules use, too. (Rows that stay in registers: NVIDIA,
"FasterTransformer", 2019; reductions that threads share by shuffles: Luitjens, "Faster parallel reductions on Kepler", 2014.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..analysis import consumers_of, producers_of, scope_children
from ..annotation import UNROLL_IN_TIR, UNROLL_MAX_STEP
from ..block_facts import elementwise_consumer, is_injective, is_scheduled, node_of, reduce_vars
from ..choice import one_of
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode
from .base import ScheduleRule, unless_refused
from .row_kernel import MOST_KEPT, RowNumbers, Rows, compute_rows, lanes_of_rows, results_of, rows_of

_ACCUMULATED = 1 << 10
"""Elements of a row that a thread combines at most, where more threads may share them."""

_UNROLLED = (0, 16)
"""Steps of loops over elements that are written out."""


class RowReductions(ScheduleRule):
    """Offer the chain of reductions that a block reads as one kernel with it, whose threads share each row, beside the blocks as they are.

    Rows are read once, into registers, or by each reduction: two structures. One reduction alone, and with what is computed of its result
    element by element, is :class:`~schedules.rule.CrossThreadReduction`'s.

    Args:
        thread_extents: candidates of how many threads share a row.
        most_rows: of a block of threads.
    """

    def __init__(
        self, thread_extents: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024), most_rows: int = 32
    ) -> None:
        if not thread_extents or min(thread_extents) < 1 or most_rows < 1:
            raise ScheduleError(
                f"RowReductions: thread_extents and most_rows must be positive, got {list(thread_extents)} and {most_rows}"
            )
        self.thread_extents, self.most_rows = sorted(thread_extents), most_rows

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        nodes = chain_before(node_of(sch, block))
        rows = rows_of(nodes) if len(nodes) > 1 else None
        if rows is None or not rows.count or not rows.written or not _are_of(nodes, rows):
            return [sch]
        names = [node.name for node in nodes]
        found: list[Schedule] = []
        for keeps in (True, False) if rows.source is not None else (False,):
            found += unless_refused(sch, partial(self._compute, names=names, rows=rows, keeps=keeps))
        return [*found, sch]

    def _compute(self, sch: Schedule, names: Sequence[str], rows: Rows, keeps: bool) -> list[Schedule]:
        longest = rows.length or rows.written or 1
        counts = self._threads(longest)
        threads = one_of(sch, counts)
        lanes = one_of(sch, lanes_of_rows(rows)[::-1])
        assert rows.neighbours is not None
        numbers = [number for number in range(1, self.most_rows + 1) if rows.neighbours % number == 0]
        together = one_of(sch, numbers)
        written = rows.length if keeps else rows.written
        most = int(self.target.max_threads_per_block)
        fewest = min(int(self.target.thread_warp_size), counts[-1] * numbers[-1])

        def is_allowed(count: np.ndarray, vector: np.ndarray, number: np.ndarray) -> np.ndarray:
            at_once = count * vector
            even = (vector == 1) | (written % at_once == 0)
            parts = -(-longest // count)
            held = (
                (longest % at_once == 0) & (parts <= MOST_KEPT)
                if keeps
                else parts <= self._most_parts(longest)
            )
            allowed: np.ndarray = even & held & (count * number <= most) & (count * number >= fewest)
            return allowed

        sch.constrain_numbers([sch._value(threads), sch._value(lanes), sch._value(together)], is_allowed)
        if not sch.has_candidates():
            raise ScheduleError(f"RowReductions: no numbers of threads share rows of {longest} elements so")
        blocks = [sch.get_block(name) for name in names]
        compute_rows(sch, blocks, rows, RowNumbers(threads, lanes, together, keeps))
        # Where all loops over elements are unrolled, loads of more elements than there are registers for would be ahead.
        outermost = sch.get_loops(blocks[-1])[0]
        sch.annotate(outermost, UNROLL_MAX_STEP, one_of(sch, _UNROLLED))
        sch.annotate(outermost, UNROLL_IN_TIR, 1)
        return [sch]

    def _threads(self, length: int) -> list[int]:
        """How many may share a row: no more than it has elements, but for the fewest."""
        most = int(self.target.max_threads_per_block)
        return [count for count in self.thread_extents if count <= min(length, most)] or self.thread_extents[
            :1
        ]

    def _most_parts(self, length: int) -> int:
        """Elements of a row for a thread."""
        return max(_ACCUMULATED, -(-length // self._threads(length)[-1]))


def chain_before(node: BlockNode) -> list[BlockNode]:
    """A block and the reductions before it that it alone, and others of them, read, in order; the block alone where there is no chain.

    What a rule has scheduled already is left to it.
    """
    if is_scheduled(node) or not (is_injective(node) or reduce_vars(node)):
        return [node]
    found = [node]
    waiting = [node]
    while waiting:
        for producer in producers_of(waiting.pop()):
            if any(producer is item for item in found):
                continue
            if not reduce_vars(producer) or is_scheduled(producer):
                return [node]
            found.append(producer)
            waiting.append(producer)
    inside = {id(item) for item in found}
    if any(id(reader) not in inside for item in found[1:] for reader in consumers_of(item)):
        return [node]
    if len(found) == 2 and not reduce_vars(node) and elementwise_consumer(found[1]) is node:
        return [node]
    return [item for item in scope_children(node) if id(item) in inside]


def _are_of(nodes: Sequence[BlockNode], rows: Rows) -> bool:
    """Whether each reduction has a result for each row: parts of rows are what other blocks of threads compute."""
    return all(results_of(node) == rows.count for node in nodes if reduce_vars(node))
