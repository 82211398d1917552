"""VerifyGPUCode: refuse candidates that a GPU cannot run: beyond its limits, or with statements that no thread runs."""

from __future__ import annotations

from math import prod
from typing import Any

from ir import dtype as dt
from ir.error import IRError
from ir.module import IRModule
from ir.tir import Allocate, Block, Call, For, ForKind, IntImm, PrimFunc, post_order_visit, pre_order_visit
from ir.tir import transform as passes
from ir.tir.analysis.reads_memory import reads_memory
from ir.tir.analysis.verify_device import limits_of, verify_gpu_code
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from ir.tir.kernel_launch import is_kernel
from ir.tir.lower import lower
from ir.tir.thread_axis import WARP_EXECUTION
from ir.transform import Sequential

from ..annotation import FEWEST_THREADS, MOST_THREADS
from ..schedule import Schedule
from ..surroundings import evaluated_by
from ..tree import BlockNode, LeafNode, LoopNode, TreeNode, all_blocks, loops_around, walk
from .base import Postproc
from .rewrite_tensorize import RewriteTensorize

_DYNAMIC = "max_dynamic_shared_memory_per_block"
_BARRIER_BYTES = 8
"""Of a barrier with transactions."""


class VerifyGPUCode(Postproc):
    """Valid if threads run every statement and read all memory, what lies in shared and local memory is used in one kernel and by who
    wrote it, and every kernel keeps within the target's threads, shared and local memory, and vector width.

    Blocks may bound the threads of their kernel by the annotations ``meta_schedule.thread_extent_low_inclusive`` and
    ``..._high_inclusive``.
    """

    def apply(self, sch: Schedule) -> bool:
        limits = limits_of(self.target)
        del limits[_DYNAMIC]  # of which only lowering tells how much is used at one time
        fits = _threads_run_everything(sch) and _thread_counts_fit(sch, int(self.target.thread_warp_size))
        return (
            fits
            and all(self._fits(func, limits) for func in _functions(sch))
            and self._dynamic_memory_fits(sch)
        )

    def _fits(self, func: PrimFunc, limits: dict[str, int]) -> bool:
        # Buffers have the size of what a thread block uses only behind compaction.
        try:
            planned = Sequential(
                [
                    passes.VerifyThreadMemory(),
                    passes.LowerInitBlock(),
                    passes.PlanAndUpdateBufferAllocationLocation(),
                ]
            )(IRModule({"main": func}))
            if _has_memory_across_kernels(planned):
                return False
            lowered = Sequential(
                [
                    passes.PlaceThreadMemory(),
                    passes.ConvertBlocksToOpaque(),
                    passes.CompactBufferAllocation(),
                    passes.InjectSoftwarePipeline(),  # stages have copies of what they fill
                ]
            )(planned)
        except IRError:
            return False  # what cannot be lowered cannot run
        return verify_gpu_code(lowered, limits)

    def _dynamic_memory_fits(self, sch: Schedule) -> bool:
        """Whether launches ask for no more shared memory than the target has: lowering tells what is in one place at different times.

        Other kernels of the function may have fragments, which only intrinsics give a shape.
        """
        if not any(map(_has_dynamic_memory, _functions(sch))):
            return True
        tensorized, rewrite = sch.copy(), RewriteTensorize()
        rewrite.initialize(self.target)
        return rewrite.accepts(tensorized) and all(map(self._launches_fit, _functions(tensorized)))

    def _launches_fit(self, func: PrimFunc) -> bool:
        most = limits_of(self.target)[_DYNAMIC]
        if not _has_dynamic_memory(func):
            return True
        try:
            kernels = [item for item in lower(func, self.target).functions.values() if is_kernel(item)]
        except IRError:
            return False
        return verify_gpu_code(
            IRModule({f"kernel{number}": kernel for number, kernel in enumerate(kernels)}),
            {_DYNAMIC: most - max(map(_declared_bytes, kernels), default=0)},
        )


def _functions(sch: Schedule) -> list[PrimFunc]:
    return [func for func in sch.mod.functions.values() if isinstance(func, PrimFunc)]


def _has_dynamic_memory(func: PrimFunc) -> bool:
    scopes: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, Block):
            scopes.update(buffer.scope() for buffer in node.alloc_buffers)

    post_order_visit(func.body, visit)
    return "shared.dyn" in scopes


def _declared_bytes(kernel: PrimFunc) -> int:
    """Shared memory that a kernel has beside the dynamic one, which begins at a multiple of its alignment behind it."""
    sizes: list[int] = []
    alignments = [1]

    def visit(node: Any) -> None:
        if isinstance(node, Allocate):
            scope = getattr(node.buffer_var.type_annotation, "storage_scope", "")
            count = prod(extent.value for extent in node.extents if isinstance(extent, IntImm))
            if scope == "shared":
                sizes.append(count * dt.bytes_of(node.dtype))
            elif scope == "shared.dyn":
                asked = node.annotations.get("data_alignment", 0)
                alignments.append(int(getattr(asked, "value", asked)))
        elif isinstance(node, Call) and getattr(node.op, "name", "") == "tir.create_barriers":
            sizes.append(_BARRIER_BYTES * node.args[0].value)  # type: ignore[attr-defined]

    post_order_visit(kernel.body, visit)
    alignment = max(alignments)
    return -(-sum(sizes) // alignment) * alignment


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
