"""Copies between global and shared memory, shared out among threads: neighbours copy neighbours, in vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import dtype as dt
from ..buffer import Buffer, decl_buffer
from ..expr import BufferLoad, IntImm, PrimExpr, Var
from ..operators import const, floordiv, floormod
from ..stmt import BufferStore, For, ForKind, IfThenElse, Stmt, seq
from .auto_copy_nest import CopyNest, number


@dataclass(frozen=True)
class ThreadAxis:
    """Threads that work together."""

    var: Var
    start: PrimExpr
    extent: int
    tag: str

    @property
    def number(self) -> PrimExpr:
        """Which of them a thread is."""
        return self.var - self.start


def thread_number(axes: Sequence[ThreadAxis]) -> tuple[PrimExpr, int]:
    """Which thread of all those along some axes one is, the innermost axis last, and how many there are."""
    position: PrimExpr = const(0)
    for axis in axes:
        position = position * axis.extent + axis.number
    return position, math.prod(axis.extent for axis in axes)


def _ordered(nest: CopyNest) -> list[For]:
    """The loops of a copy such that the last one goes along what is contiguous in global memory."""
    access = nest.load if nest.source.scope() == "global" else nest.store
    strides = [number(stride) for stride in nest.strides(access)]
    if any(stride is None for stride in strides):
        return nest.loops
    places = sorted(range(len(strides)), key=lambda at: -abs(strides[at] or 0))
    several = [at for at in places if number(nest.loops[at].extent) != 1]
    return [nest.loops[at] for at in places if at not in several] + [nest.loops[at] for at in several]


def _lanes(nest: CopyNest, loops: Sequence[For], vector_bytes: int) -> int:
    """How many elements a thread copies at once: rows have whole vectors of them."""
    extent = number(loops[-1].extent) if loops else None
    wanted = vector_bytes // dt.bytes_of(nest.target.dtype)
    return math.gcd(extent, 1 << max(wanted, 1).bit_length() - 1) if extent else 1


def shared_among(
    nest: CopyNest, axes: Sequence[ThreadAxis], vector_bytes: int, by_registers: bool
) -> tuple[Stmt, list[Buffer]]:
    """A copy of which each thread does a part.

    Args:
        nest: the copy.
        axes: the threads that do it together, the innermost axis last.
        vector_bytes: how many bytes a thread copies at once, at most.
        by_registers: whether all of a thread's loads come before its stores.

    Returns:
        The statement, and the buffers that it needs.
    """
    loops = _ordered(nest)
    lanes = _lanes(nest, loops, vector_bytes)
    total: PrimExpr = const(1)
    for loop in loops:
        total = total * loop.extent
    chunks = floordiv(total, lanes)
    position, threads = thread_number(axes)
    rounds = floordiv(chunks + (threads - 1), threads)
    is_even = isinstance(chunks, IntImm) and chunks.value % threads == 0
    stage: list[Buffer] = []
    if by_registers:
        extents = [extent for extent in (rounds, const(lanes)) if number(extent) != 1] or [const(1)]
        if any(number(extent) is None for extent in extents):
            raise nest.refusal("it has no constant size, which registers of a local stage need")
        name = f"{nest.target.name}_local"
        stage = [decl_buffer(extents, nest.target.dtype, name, scope="local")]

    def part(change: Callable[[BufferStore, list[PrimExpr]], BufferStore]) -> Stmt:
        turn, lane = Var("turn", "int32"), Var("lane", "int32")
        chunk = (turn * threads if number(rounds) != 1 else const(0)) + position
        fused = chunk * lanes + lane if lanes > 1 else chunk
        values: dict[Var, PrimExpr] = {}
        rest = fused
        for loop in reversed(loops):
            is_first = loop is loops[0]
            values[loop.loop_var] = loop.min + (rest if is_first else floormod(rest, loop.extent))
            rest = floordiv(rest, loop.extent)
        store, conditions = nest.at(values)
        several = [var for var, extent in ((turn, rounds), (lane, const(lanes))) if number(extent) != 1]
        body: Stmt = change(store, [*several] or [const(0)])
        for condition in reversed(conditions):
            body = IfThenElse(condition, body)
        if lanes > 1:
            body = For(lane, const(0), const(lanes), ForKind.VECTORIZED, body)
        if not is_even:
            body = IfThenElse(chunk < chunks, body)
        return body if number(rounds) == 1 else For(turn, const(0), rounds, ForKind.SERIAL, body)

    if not stage:
        return part(lambda store, _: store), stage
    (local,) = stage
    load = part(lambda store, places: BufferStore(local, store.value, places))
    return seq(load, part(lambda store, places: store.replace(value=BufferLoad(local, places)))), stage
