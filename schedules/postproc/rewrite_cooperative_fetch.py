"""RewriteCooperativeFetch: let the threads of a GPU block fill a cache of shared memory together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.target.gpu_facts import WARP
from ir.tir.thread_axis import WARP_EXECUTION

from ..annotation import COOPERATIVE_FETCH
from ..random_variable import LoopRV
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, all_blocks, loops_around, walk
from .base import Postproc


def _threads_of(loops: Sequence[LoopNode]) -> dict[str, tir.PrimExpr]:
    """How many threads a kernel has, by axis, some of whose loops stand around a copy: it begins at the outermost that is bound.

    Where warps execute something as one (``warp_execution``), they are along ``threadIdx.x``, also if no loop says it.
    """
    kernel = next((loop for loop in loops if loop.thread_binding is not None), None)
    found: dict[str, tir.PrimExpr] = {}
    has_warps = False
    for node in () if kernel is None else walk(kernel):
        if isinstance(node, LoopNode) and node.thread_binding is not None:
            tag = node.thread_binding.thread_tag
            if tag.startswith("threadIdx"):
                found.setdefault(tag, node.extent)
        has_warps |= isinstance(node, BlockNode | LoopNode) and WARP_EXECUTION in node.annotations
    if has_warps:
        found.setdefault("threadIdx.x", tir.const(WARP))
    return found


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
        threads = _threads_of(loops_around(block))
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
