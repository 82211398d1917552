"""SkipMasked: leave out the iterations of marked loops in which a mask hides everything."""

from __future__ import annotations

from ..annotation import SKIP_MASKED
from ..error import ScheduleError
from ..schedule import Schedule
from ..tree import BlockNode, all_blocks, loops_around
from .base import Postproc


class SkipMasked(Postproc):
    """Take the step :meth:`~schedules.primitive.skip_masked.SkipMaskedPrimitives.skip_masked` for loops that rules marked.

    It comes when reductions are initialised apart from their updates, which alone may be left out. Where other rules made blocks of which
    that cannot be shown, everything is computed.
    """

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        seen: set[int] = set()
        for block in all_blocks(sch._root(func)):
            for position, loop in enumerate(loops_around(block)):
                if SKIP_MASKED in loop.annotations and id(loop) not in seen:
                    seen.add(id(loop))
                    self._skip(sch, block, position)
        return True

    def _skip(self, sch: Schedule, block: BlockNode, position: int) -> None:
        loop = sch.get_loops(sch.get_block(block.name))[position]
        sch.unannotate(loop, SKIP_MASKED)
        try:
            sch.skip_masked(loop)
        except ScheduleError:
            return
