"""RowAlgorithms: rows that are sorted, or of which the first elements are wanted, by other algorithms.

Which one is the fastest depends on how long a row is and how much of it is wanted, on what a branch that is guessed wrong costs beside
a vector, and on the caches. Each is a structure of its own beside the operator's choice.
"""

from __future__ import annotations

from functools import partial

from ir import tir
from ir.topi.row_algorithms import usual_algorithm
from ir.topi.row_order import ROW_ORDER
from ir.topi.row_threads import power_of_two

from ..block_facts import node_of
from ..error import ScheduleError
from ..primitive.row_order import row_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, all_blocks
from .base import Alternatives, ScheduleRule, unless_refused

Choice = tuple[str, tuple[int, ...]]
"""An algorithm and its numbers."""


class RowAlgorithms(ScheduleRule):
    """Offer the algorithms of :mod:`ir.topi.row_algorithms` for rows of known lengths.

    Args:
        digits: bits of a digit, for counting.
        shares: candidates that are kept for each element that is wanted, for selecting.
        chunks: elements that are passed over at a time.
        most_merged: rows of up to so many elements are sorted by merging, too.
    """

    needs_measurement = True

    def __init__(
        self,
        digits: tuple[int, ...] = (8, 11),
        shares: tuple[int, ...] = (2, 4),
        chunks: tuple[int, ...] = (16, 32, 64),
        most_merged: int = 8192,
    ) -> None:
        self.digits, self.shares, self.chunks, self.most_merged = digits, shares, chunks, most_merged

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        rows = [item for item in all_blocks(node_of(sch, block)) if ROW_ORDER in item.annotations]
        if len(rows) != 1:
            return [sch]
        return Alternatives(
            [
                lambda: [sch],
                *[
                    partial(unless_refused, sch, partial(_by, name=rows[0].name, choice=choice))
                    for choice in self._choices(rows[0])
                ],
            ]
        )

    def _choices(self, row: BlockNode) -> list[Choice]:
        try:
            axis = row_of(row).axis
        except ScheduleError:
            return []
        extent, count = (regions[0].buffer.shape[axis] for regions in (row.reads, row.writes))
        if not isinstance(extent, tir.IntImm) or not isinstance(count, tir.IntImm):
            return []
        found: list[Choice] = []
        for capacity in self._capacities(extent.value, count.value):
            found += [("threshold", (capacity, chunk)) for chunk in self.chunks]
            found.append(("buffer", (capacity,)))
        if extent.value <= self.most_merged:
            found.append(("merge", ()))
        found += [("radix", (bits,)) for bits in self.digits]
        usual = usual_algorithm(extent.value, count.value)
        return [choice for choice in found if choice != usual]

    def _capacities(self, extent: int, count: int) -> list[int]:
        """How many candidates may be kept: of a row several times as long, or nothing is passed over."""
        wanted = {max(16, power_of_two(share * count)) for share in self.shares}
        return sorted(size for size in wanted if 0 < count < size and 2 * size <= extent)


def _by(sch: Schedule, name: str, choice: Choice) -> list[Schedule]:
    sch.order_rows(sch.get_block(name), *choice)
    return [sch]
