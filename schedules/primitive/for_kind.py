"""Primitives that say how a loop runs: parallel, vectorize, unroll, bind."""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.tir import ForKind

from ..analysis import require, require_loop_can_run_in_any_order
from ..argument import Argument, Loop
from ..declaration import PrimitiveFamily, primitive
from ..dependence import why_iterations_conflict
from ..effects import require_no_effects
from ..random_variable import LoopRV
from ..returns import require_no_return
from ..tree import BlockNode, LoopNode, blocks_below

THREAD_TAGS = frozenset(
    f"{name}.{axis}" for name in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"
) | {"vthread"}


class ForKindPrimitives(PrimitiveFamily):
    """How the iterations of a loop run."""

    @primitive("Parallel", loop=Loop())
    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations on several cores; every block below must allow any order of this loop."""
        node = self._loop(loop)
        require_loop_can_run_in_any_order(node, "parallel")
        _require_no_conflict(node, blocks_below(node), "parallel")
        _set_kind(node, ForKind.PARALLEL)

    @primitive("Vectorize", loop=Loop())
    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations as vector lanes; every block below must allow any order of this loop."""
        node = self._loop(loop)
        require_loop_can_run_in_any_order(node, "vectorize")
        _require_no_conflict(node, blocks_below(node), "vectorize")
        _set_kind(node, ForKind.VECTORIZED)

    @primitive("Unroll", loop=Loop())
    def unroll(self, loop: LoopRV) -> None:
        """Write out the iterations one after the other; always legal."""
        _set_kind(self._loop(loop), ForKind.UNROLLED)

    @primitive("Bind", loop=Loop(), thread_axis=Argument())
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind to a GPU axis: blockIdx.x/y/z, threadIdx.x/y/z, vthread.x/y/z.

        No iteration may write what another one reads or writes. Threads of a block may share a reduction, and hand over between blocks
        what lies in shared memory. Whether a thread reads of its own memory only what it wrote is known when the schedule is done: a
        producer may still move below the loop. Lowering refuses it, as does ``VerifyGPUCode``.
        """
        node = self._loop(loop)
        require(
            thread_axis in THREAD_TAGS,
            "bind",
            f"unknown thread axis {thread_axis!r}; use one of {sorted(THREAD_TAGS)}",
        )
        require_loop_can_run_in_any_order(node, "bind", allow_reduction=thread_axis.startswith("threadIdx"))
        as_threads = not thread_axis.startswith("blockIdx")
        _require_no_conflict(node, blocks_below(node), "bind", as_threads=as_threads)
        axis = tir.IterVar(None, tir.Var(thread_axis, node.var.dtype), tir.IterVar.ThreadIndex, thread_axis)
        _set_kind(node, ForKind.THREAD_BINDING, axis)


def _require_no_conflict(
    loop: LoopNode, blocks: Sequence[BlockNode], primitive: str, *, as_threads: bool = False
) -> None:
    """Refuse where an iteration may write what another one reads or writes."""
    require_no_effects(blocks, primitive)
    require_no_return([loop], primitive, f"loop {loop.var.name!r}, whose iterations would have no order")
    reason = why_iterations_conflict(loop, blocks, as_threads=as_threads)
    require(reason is None, primitive, f"{reason}")


def _set_kind(loop: LoopNode, kind: ForKind, thread_binding: tir.IterVar | None = None) -> None:
    loop.kind = kind
    loop.thread_binding = thread_binding
    loop.touch()
