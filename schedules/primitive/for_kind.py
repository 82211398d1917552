"""Primitives that say how a loop runs: parallel, vectorize, unroll, bind."""

from __future__ import annotations

from ir import tir
from ir.tir import ForKind

from ..analysis import require, require_loop_can_run_in_any_order
from ..tree import LoopNode
from .loops import set_kind

THREAD_TAGS = frozenset(
    f"{name}.{axis}" for name in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"
) | {"vthread"}


def parallel(loop: LoopNode) -> None:
    """Run the iterations on several cores."""
    require_loop_can_run_in_any_order(loop, "parallel")
    set_kind(loop, ForKind.PARALLEL)


def vectorize(loop: LoopNode) -> None:
    """Run the iterations as lanes of vector instructions."""
    require_loop_can_run_in_any_order(loop, "vectorize")
    set_kind(loop, ForKind.VECTORIZED)


def unroll(loop: LoopNode) -> None:
    """Write the iterations out one after the other; always legal."""
    set_kind(loop, ForKind.UNROLLED)


def bind(loop: LoopNode, thread_axis: str) -> None:
    """Bind a loop to a GPU thread axis such as ``threadIdx.x``."""
    require(
        thread_axis in THREAD_TAGS,
        "bind",
        f"unknown thread axis {thread_axis!r}; use one of {sorted(THREAD_TAGS)}",
    )
    require_loop_can_run_in_any_order(loop, "bind", allow_reduction=thread_axis.startswith("threadIdx"))
    axis = tir.IterVar(None, tir.Var(thread_axis, loop.var.dtype), tir.IterVar.ThreadIndex, thread_axis)
    set_kind(loop, ForKind.THREAD_BINDING, axis)
