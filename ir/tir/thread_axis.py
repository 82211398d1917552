"""Thread axes of GPUs: their tags, the order in which they are launched, and whose memory a scope is."""

from __future__ import annotations

from .expr import Call
from .stmt import Evaluate, For, ForKind, Stmt

LAUNCH_ORDER = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
"""Tags of the axes that a launch names, from the outermost to the innermost."""

VIRTUAL_TAGS = ("vthread", "cthread")
"""What tags of virtual threads begin with: threads that one thread of the hardware runs in turns."""

WARP_EXECUTION = "warp_execution"
"""Annotation of a loop or a block that the threads of a warp run together."""

COMMON_TO_VIRTUAL_THREADS = "tir.common_to_virtual_threads"
"""Annotation of a block: the positions of the buffers that it allocates once for all virtual threads; of an allocation: that it is one."""

WARP_CALLS = (
    "tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync", "tir.tvm_fill_fragment", "tir.tvm_mma_sync", "tir.tvm_bmma_sync",
    "tir.ptx_mma", "tir.ptx_mma_sp", "tir.ptx_ldmatrix", "tir.ptx_stmatrix", "tir.mma_store", "tir.mma_fill",
)  # fmt: skip
"""What the threads of a warp do together: these are bound to ``threadIdx.x``, also where no loop says it."""

_SHARED_SCOPES = ("shared", "global")
_UNNAMED = ""


def is_virtual(tag: str) -> bool:
    """Whether a tag names virtual threads.

    >>> is_virtual("vthread.x"), is_virtual("threadIdx.x")
    (True, False)
    """
    return tag.startswith(VIRTUAL_TAGS)


def is_launched(loop: For) -> bool:
    """Whether the hardware's threads or blocks are a loop's iterations."""
    axis = loop.thread_binding
    return loop.kind == ForKind.THREAD_BINDING and axis is not None and not is_virtual(axis.thread_tag)


def is_private_scope(scope: str) -> bool:
    """Whether memory of a scope belongs to one thread, or to a warp that works as one: registers and fragments.

    >>> [is_private_scope(scope) for scope in ("local", "wmma.accumulator", "shared.dyn", "global")]
    [True, True, False, False]
    """
    return scope != _UNNAMED and not scope.startswith(_SHARED_SCOPES)


def is_block_scope(scope: str) -> bool:
    """Whether each block has memory of its own of a scope, which its threads share.

    >>> [is_block_scope(scope) for scope in ("shared", "shared.dyn", "local", "global")]
    [True, True, False, False]
    """
    return scope.startswith("shared")


def is_barrier(stmt: Stmt) -> bool:
    """Whether a statement waits for other threads."""
    call = stmt.value if isinstance(stmt, Evaluate) else None
    return isinstance(call, Call) and getattr(call.op, "name", "") == "tir.tvm_storage_sync"
