"""RewriteCooperativeFetch: let the threads of a GPU block fill a cache of shared memory together."""

from __future__ import annotations

from typing import Any

from ir import tir

from ..annotation import COOPERATIVE_FETCH
from ..random_variable import LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, all_blocks, loops_around
from .base import Postproc


class RewriteCooperativeFetch(Postproc):
    """Split the copies annotated ``meta_schedule.cooperative_fetch`` over the threads, each with vectors of that length."""

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        for block in all_blocks(sch._root(func)):
            if COOPERATIVE_FETCH in block.annotations:
                self._share(sch, block)
        return True

    def _share(self, sch: Schedule, block: BlockNode) -> None:
        annotation = block.annotations[COOPERATIVE_FETCH]
        lanes = int(getattr(annotation, "value", annotation))
        rv = sch.get_block(block.name)
        sch.unannotate(rv, COOPERATIVE_FETCH)
        threads = {
            loop.thread_binding.thread_tag: loop.extent
            for loop in loops_around(block)
            if loop.thread_binding is not None and loop.thread_binding.thread_tag.startswith("threadIdx")
        }
        axes = [(tag, threads[tag]) for tag in ("threadIdx.y", "threadIdx.x") if tag in threads]
        copied = loops_around(block)[-1]
        if not axes or not isinstance(copied.extent, tir.IntImm):
            return
        factors: list[Any] = [None, *[extent for _, extent in axes]]
        if lanes > 1 and copied.extent.value % lanes == 0:
            factors.append(lanes)
        parts: list[LoopRV] = sch.split(sch.get_loops(rv)[-1], factors)
        if len(factors) > len(axes) + 1:
            sch.vectorize(parts[-1])
        for (tag, _), loop in zip(axes, parts[1:], strict=False):
            sch.bind(loop, tag)
