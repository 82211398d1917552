"""RewriteReductionBlock: separate the initialisation of every reduction from its updates."""

from __future__ import annotations

from ir import tir

from ..affine import mentions
from ..block_facts import reduce_vars
from ..error import ScheduleError
from ..random_variable import LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, all_blocks, loops_around
from .base import Postproc


class RewriteReductionBlock(Postproc):
    """Initialise before the outermost reduction loop.

    A reduction that threads share keeps its initialisation inside, and so do one without elements, which does not initialise, and
    one that cannot be initialised once for all of its elements.
    """

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        for block in all_blocks(sch._root(func)):
            if block.init is None:
                continue
            position = _first_reduction_loop(block)
            if position is not None:
                rv = sch.get_block(block.name)
                loop: LoopRV = sch.get_loops(rv)[position]
                try:
                    sch.decompose_reduction(rv, loop)
                except ScheduleError:
                    continue  # it initialises at the first of its instances, wherever that is
        return True


def _first_reduction_loop(block: BlockNode) -> int | None:
    reductions = set(reduce_vars(block))
    values = [
        value
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if item.var in reductions
    ]
    found = [
        (position, loop)
        for position, loop in enumerate(loops_around(block))
        if any(mentions(value, {loop.var}) for value in values)
    ]
    if any(loop.thread_binding is not None or _is_empty(loop) for _, loop in found):
        return None
    return found[0][0] if found else None


def _is_empty(loop: LoopNode) -> bool:
    return isinstance(loop.extent, tir.IntImm) and loop.extent.value == 0
