"""ScanThreads: running sums of each row by the threads of a block of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..block_facts import node_of
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import all_blocks
from .base import Alternatives, ScheduleRule, unless_refused
from .scan_blocks import scan_in


class ScanThreads(ScheduleRule):
    """Offer running sums (products, maxima, minima) by several numbers of threads, beside the block as it is.

    Args:
        threads: of a block; more than a warp only where a row has work for them.
        items: elements of each at a time.
    """

    def __init__(
        self, threads: Sequence[int] = (32, 64, 128, 256, 512, 1024), items: Sequence[int] = (1, 2, 4, 8, 16)
    ) -> None:
        if not threads or not items or min(*threads, *items) < 1:
            raise ScheduleError(
                f"ScanThreads: threads and items must be positive numbers, got {list(threads)} and {list(items)}"
            )
        self.threads, self.items = list(threads), list(items)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule] | Alternatives:
        node = node_of(sch, block)
        found = (
            []
            if node.iter_vars
            else [scan for item in all_blocks(node) if (scan := scan_in(item)) is not None]
        )
        if len(found) != 1:
            return [sch]
        (scan,) = found
        most = int(self.target.max_threads_per_block)
        numbers = [
            (threads, items)
            for threads in self.threads
            for items in self.items
            if threads <= most
            and (threads * items <= scan.extent or threads * items == min(self.threads) * min(self.items))
        ]
        makers = [
            partial(
                unless_refused, sch, partial(_by_threads, name=scan.block.name, threads=threads, items=items)
            )
            for threads, items in numbers
        ]
        return Alternatives([*makers, lambda: [sch]])


def _by_threads(sch: Schedule, name: str, threads: int, items: int) -> list[Schedule]:
    loop = sch.get_loops(sch.get_block(name))[-1]
    sch.scan_threads(loop, threads, items)
    sch.bind(loop, "blockIdx.x")
    return [sch]
