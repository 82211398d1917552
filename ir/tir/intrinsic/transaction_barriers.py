"""Barriers in shared memory that count arrivals and bytes (PTX's ``mbarrier``): for threads and for copies that nobody waits for.

A kernel has some, numbered from 0. A phase of one ends when so many threads have arrived as it was made for, and so many bytes were
copied as arrivals have told it to expect; the next phase begins at once, with the same number of threads. Phases alternate between the
parities 0 and 1, and a wait for a parity passes once the phase of that parity has ended.
"""

from __future__ import annotations

from typing import Any

from ..expr import Call
from .declaration import CallEffectKind, call, intrinsic, primitive

_ON_DEVICE = {"cuda": primitive}


@intrinsic(arity=1, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def create_barriers(barrier_count: Any) -> Call:
    """The barriers of a kernel: so many, a constant. They begin to work by :func:`ptx_init_barrier_thread_count`."""
    return call("create_barriers", barrier_count)


@intrinsic(arity=2, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: Any) -> Call:
    """Make a barrier for so many arrivals in each phase; one thread does it, and others use it behind a barrier of the block."""
    return call("ptx_init_barrier_thread_count", barrier_id, thread_count)


@intrinsic(arity=1, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_arrive_barrier(barrier_id: Any) -> Call:
    """Arrive at a barrier, and go on."""
    return call("ptx_arrive_barrier", barrier_id)


@intrinsic(arity=2, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: Any) -> Call:
    """Arrive at a barrier whose phase lasts until so many more bytes were copied, and go on."""
    return call("ptx_arrive_barrier_expect_tx", barrier_id, byte_count)


@intrinsic(arity=(1, 2), result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_wait_barrier(barrier_id: Any, parity: Any = 0) -> Call:
    """Wait until the phase of a parity has ended, whose copies and the arrivals of whose threads are then visible."""
    return call("ptx_wait_barrier", barrier_id, parity)


@intrinsic(arity=0, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_fence_proxy_async() -> Call:
    """What this thread wrote to shared memory, barriers included, is there for copies and matrix products that are begun later."""
    return call("ptx_fence_proxy_async")
