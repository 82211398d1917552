"""RewriteTensorize: put tensor intrinsics in the place of the blocks that a rule has tiled for them."""

from __future__ import annotations

from ..annotation import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode, walk
from .base import Postproc


class RewriteTensorize(Postproc):
    """Tensorize every block annotated ``meta_schedule.auto_tensorize``; refuses the candidate when one does not match.

    Args:
        vectorize_init_loop: vectorize the innermost loop of blocks that initialise a tile for an intrinsic.
    """

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.vectorize_init_loop = vectorize_init_loop

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
            if name.endswith("_init"):
                intrin = sch.get(block).annotations.get(AUTO_TENSORIZE_INIT)
                if intrin is None:
                    self._vectorize_init(sch, block)
                    continue
                sch.unannotate(block, AUTO_TENSORIZE_INIT)
            elif AUTO_TENSORIZE_INIT in sch.get(block).annotations:
                sch.unannotate(block, AUTO_TENSORIZE_INIT)
            try:
                sch.tensorize(block, str(getattr(intrin, "value", intrin)))
            except ScheduleError:
                return False  # the tile is not what the intrinsic computes
        return True

    def _vectorize_init(self, sch: Schedule, block: BlockRV) -> None:
        """The initialisation of a tile is no work for the intrinsic; its innermost loop may run as lanes."""
        if not self.vectorize_init_loop:
            return
        inner = sch.get_child_blocks(block)
        loops = sch.get_loops(inner[0]) if inner else []
        if loops:
            try:
                sch.vectorize(loops[-1])
            except ScheduleError:
                return  # the loop stays serial
