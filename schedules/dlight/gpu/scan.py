"""Scan: running sums, a block of threads for each row."""

from __future__ import annotations

from ...primitive.scan_blocks import Scan as Running
from ...rule.scan_blocks import scan_in
from ...tree import all_blocks
from .rule import GPUScheduleRule, Nests

_ITEMS = 4
"""Elements of a thread at a time: a vector of 16 bytes of most."""
_THREADS = (32, 64, 128, 256)


class Scan(GPUScheduleRule):
    """Let the threads of a block run through a row together, chunk by chunk: :meth:`~schedules.Schedule.scan_threads`.

    Rows of unknown lengths, and sums that may be taken in one order only, are left to the rules behind.
    """

    def schedule(self, nests: Nests) -> bool:
        sch = nests.sch
        found = [
            scan
            for node in nests.nodes()
            if not node.iter_vars
            for item in all_blocks(node)
            if (scan := scan_in(item)) is not None
        ]
        for scan in found:
            loop = sch.get_loops(sch.get_block(scan.block.name))[-1]
            threads = _threads(scan)
            sch.scan_threads(loop, threads, _ITEMS)
            sch.bind(loop, "blockIdx.x")
        return bool(found)


def _threads(scan: Running) -> int:
    """As many as have some elements each, or a warp."""
    return max([count for count in _THREADS if count * _ITEMS <= scan.extent], default=_THREADS[0])
