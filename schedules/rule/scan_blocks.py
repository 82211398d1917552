"""ScanBlocks: running sums of few long rows in blocks, which share out over the cores and run side by side on each.

The data are read twice in place of once, and most of the time is not spent on them: a sum that waits for the one before takes a
core as long as four. How many blocks a row has is a structure; how many of them run side by side is the decision of
:class:`~schedules.rule.RowInterleaving`, to which they are rows.
"""

from __future__ import annotations

from functools import partial
from math import gcd

from ir import dtype as dt
from ir import tir

from ..block_facts import node_of
from ..error import ScheduleError
from ..primitive.scan_blocks import Scan, scan_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, all_blocks
from .base import Alternatives, ScheduleRule, unless_refused


class ScanBlocks(ScheduleRule):
    """Offer running sums (products, maxima, minima) in several numbers of blocks.

    Args:
        parts: blocks of a row, about: the divisors of its extent that are closest are offered.
        min_length: elements of a block at least.
        max_blocks: blocks of all rows together at most; more rows than that keep all cores busy as they are.
        vectors: partial results of a block's sum, in vectors: as many as an addition takes cycles; 0 for a single one, of a thread that
            has no vectors.
    """

    def __init__(
        self,
        parts: tuple[int, ...] = (4, 16, 64, 256),
        min_length: int = 64,
        max_blocks: int = 4096,
        vectors: int = 4,
    ) -> None:
        self.parts, self.min_length, self.max_blocks, self.vectors = parts, min_length, max_blocks, vectors

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        node = node_of(sch, block)
        found = [] if node.iter_vars else [scan for item in all_blocks(node) if (scan := scan_in(item))]
        if len(found) != 1:
            return [sch]
        (scan,) = found
        makers = [
            partial(unless_refused, sch, partial(_in_blocks, name=scan.block.name, parts=parts, lanes=lanes))
            for parts, lanes in self._numbers(scan)
        ]
        return Alternatives([lambda: [sch], *makers])

    def _numbers(self, scan: Scan) -> list[tuple[int, int]]:
        """Blocks of a row, and partial results of each."""
        rows = scan.rows.extent
        if not isinstance(rows, tir.IntImm):
            return []
        most = min(scan.extent // self.min_length, self.max_blocks // max(1, rows.value))
        width = max(1, int(self.target.vector_bits) // max(8, dt.bits(scan.running.dtype)))
        lanes = max(1, self.vectors * width)
        found = {
            parts: gcd(lanes, scan.extent // parts) if scan.is_contiguous else 1
            for parts in range(2, most + 1)
            if scan.extent % parts == 0
        }
        # blocks that are no whole vectors only where there are no others
        widest = max(found.values(), default=1)
        fitting = [parts for parts, width in found.items() if width == widest]
        if not fitting:
            return []
        chosen = {min(fitting, key=lambda parts: abs(parts - wanted)) for wanted in self.parts}
        return [(parts, widest) for parts in sorted(chosen)]


def scan_in(block: BlockNode) -> Scan | None:
    """The running reduction that a block is for each iteration of the loop around it."""
    if not isinstance(block.parent, LoopNode):
        return None
    try:
        return scan_of(block.parent)
    except ScheduleError:
        return None


def _in_blocks(sch: Schedule, name: str, parts: int, lanes: int) -> list[Schedule]:
    sch.scan_blocks(sch.get_loops(sch.get_block(name))[-1], parts, lanes)
    return [sch]
