"""AutoBind: run the loops of a block that no other rule has bound on the blocks and threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from ..block_threads import bind_block
from ..random_variable import BlockRV
from ..schedule import Schedule
from .base import ScheduleRule
from .device_limits import THREADS_PER_BLOCK


class AutoBind(ScheduleRule):
    """Fuse the outer data-parallel loops and bind them to ``blockIdx.x`` and ``threadIdx.x``.

    Args:
        max_threadblocks: blocks at most where the extent is known to be large; the rest becomes a loop of each thread.
        thread_extents: candidates of the threads of a block.
        max_threads_per_block: threads of a block at most; -1 takes the target's limit.
    """

    def __init__(
        self,
        max_threadblocks: int = 256,
        thread_extents: Sequence[int] | None = None,
        max_threads_per_block: int = -1,
    ) -> None:
        self.max_threadblocks = max_threadblocks
        self.thread_extents = list(thread_extents or THREADS_PER_BLOCK)
        self.max_threads_per_block = max_threads_per_block

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        most = self.max_threads_per_block
        bind_block(
            sch,
            block,
            self.max_threadblocks,
            most if most > 0 else self.target.max_threads_per_block,
            self.thread_extents,
        )
        return [sch]
