"""VerifyGPUCode: refuse candidates that a GPU cannot run: beyond its limits, or with statements that no thread runs."""

from __future__ import annotations

from typing import Any

from ir.error import IRError
from ir.module import IRModule
from ir.target.gpu_facts import ACCESS_BYTES
from ir.tir import Block, For, ForKind, PrimFunc, pre_order_visit
from ir.tir import transform as passes
from ir.tir.analysis.reads_memory import reads_memory
from ir.tir.analysis.verify_device import verify_gpu_code
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from ir.tir.thread_axis import WARP_EXECUTION
from ir.transform import Sequential

from ..annotation import FEWEST_THREADS, MOST_THREADS
from ..schedule import Schedule
from ..surroundings import evaluated_by
from ..tree import BlockNode, LeafNode, LoopNode, TreeNode, all_blocks, loops_around, walk
from .base import Postproc


class VerifyGPUCode(Postproc):
    """Valid if threads run every statement and read all memory, what lies in shared and local memory is used in one kernel, and every
    kernel keeps within the target's threads, shared and local memory, and vector width.

    Blocks may bound the threads of their kernel by the annotations ``meta_schedule.thread_extent_low_inclusive`` and
    ``..._high_inclusive``.
    """

    def apply(self, sch: Schedule) -> bool:
        target = self.target
        limits = {
            "max_shared_memory_per_block": target.max_shared_memory_per_block,
            "max_threads_per_block": target.max_threads_per_block,
            "max_thread_x": target.max_block_size_x,
            "max_thread_y": target.max_block_size_y,
            "max_thread_z": target.max_block_size_z,
            "max_vthread": target.max_vthread_extent,
            "max_vector_bytes": ACCESS_BYTES,
        }
        if target.max_local_memory_per_block is not None:
            limits["max_local_memory_per_block"] = target.max_local_memory_per_block
        fits = _threads_run_everything(sch) and _thread_counts_fit(sch, int(target.thread_warp_size))
        functions = (func for func in sch.mod.functions.values() if isinstance(func, PrimFunc))
        return fits and all(self._fits(func, limits) for func in functions)

    def _fits(self, func: PrimFunc, limits: dict[str, int]) -> bool:
        # Buffers have the size of what a thread block uses only behind compaction.
        try:
            planned = Sequential([passes.LowerInitBlock(), passes.PlanAndUpdateBufferAllocationLocation()])(
                IRModule({"main": func})
            )
            if _has_memory_across_kernels(planned):
                return False
            lowered = Sequential(
                [passes.PlaceThreadMemory(), passes.ConvertBlocksToOpaque(), passes.CompactBufferAllocation()]
            )(planned)
        except IRError:
            return False  # what cannot be lowered cannot run
        return verify_gpu_code(lowered, limits)


def _has_memory_across_kernels(module: IRModule) -> bool:
    """Whether shared or local memory is allocated around kernels, each of which would have its own."""
    found: list[bool] = []

    def visit(node: Any) -> bool:
        if isinstance(node, Block):
            scopes = [buffer.scope() for buffer in node.alloc_buffers]
            found.append(any(scope.startswith(("shared", "local")) for scope in scopes))
        return not (isinstance(node, For) and node.kind == ForKind.THREAD_BINDING)

    for func in module.functions.values():
        pre_order_visit(func, visit)
    return any(found)


def _threads_run_everything(sch: Schedule) -> bool:
    """Whether every statement is below a loop that is bound, and what the host evaluates around such loops reads no memory; what
    rewrites layouts is done beforehand.
    """
    func = sch.func_working_on
    assert func is not None
    return not any(map(_needs_threads, walk(sch._root(func), enters=_is_left_to_the_host)))


def _needs_threads(node: TreeNode) -> bool:
    """Whether a node does something itself that only threads can, since the memory is theirs."""
    if isinstance(node, LeafNode) or (isinstance(node, BlockNode) and node.init is not None):
        return True
    return any(map(reads_memory, evaluated_by(node)))


def _is_left_to_the_host(node: TreeNode) -> bool:
    is_bound = isinstance(node, LoopNode) and node.thread_binding is not None
    is_done_before = isinstance(node, BlockNode) and LAYOUT_REWRITE_PREPROC in node.annotations
    return not is_bound and not is_done_before


def _thread_counts_fit(sch: Schedule, warp: int) -> bool:
    func = sch.func_working_on
    assert func is not None
    for block in all_blocks(sch._root(func)):
        if FEWEST_THREADS not in block.annotations and MOST_THREADS not in block.annotations:
            continue
        threads = warp if WARP_EXECUTION in block.annotations else 1
        for loop in loops_around(block):
            if loop.thread_binding is not None and loop.thread_binding.thread_tag.startswith("threadIdx"):
                threads *= getattr(loop.extent, "value", 1)
        low, high = block.annotations.get(FEWEST_THREADS, 1), block.annotations.get(MOST_THREADS, threads)
        if not int(getattr(low, "value", low)) <= threads <= int(getattr(high, "value", high)):
            return False
    return True
