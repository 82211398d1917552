"""RewriteTensorize: put tensor intrinsics in the place of the blocks that a rule has tiled for them."""

from __future__ import annotations

from ..error import ScheduleError
from ..rule.tensorize import AUTO_TENSORIZE
from ..schedule import Schedule
from ..tree import BlockNode, walk
from .base import Postproc


class RewriteTensorize(Postproc):
    """Tensorize every block annotated ``meta_schedule.auto_tensorize``; refuses the candidate when one does not match."""

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        names = [
            node.name
            for node in walk(sch._root(func))
            if isinstance(node, BlockNode) and AUTO_TENSORIZE in node.annotations
        ]
        for name in names:
            block = sch.get_block(name)
            intrin = sch.get(block).annotations[AUTO_TENSORIZE]
            sch.unannotate(block, AUTO_TENSORIZE)
            try:
                sch.tensorize(block, str(getattr(intrin, "value", intrin)))
            except ScheduleError:
                return False  # the tile is not what the intrinsic computes
        return True
