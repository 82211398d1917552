"""RewriteUnboundBlock: bind the blocks of a GPU program that no rule has bound to threads."""

from __future__ import annotations

from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC

from ..block_threads import bind_block, is_in_blocks
from ..schedule import Schedule
from ..tree import child_blocks, loops_around
from .base import Postproc


class RewriteUnboundBlock(Postproc):
    """Bind what is left unbound to ``blockIdx.x`` and ``threadIdx.x``.

    Args:
        max_threadblocks: blocks at most; the rest becomes a loop of each thread.
    """

    def __init__(self, max_threadblocks: int = 256) -> None:
        self.max_threadblocks = max_threadblocks

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        for block in child_blocks(sch._root(func)):
            if LAYOUT_REWRITE_PREPROC in block.annotations or is_in_blocks(loops_around(block)):
                continue
            bind_block(
                sch, sch.get_block(block.name), self.max_threadblocks, self.target.max_threads_per_block
            )
        return True
