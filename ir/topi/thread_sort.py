"""Sorting of records by the threads of a block of a GPU, which keep them in registers.

Thread t holds the records of the places ``t * items`` and behind. A bitonic network, of which every comparator puts the smaller record
to the lower place, sorts them: runs of twice the length are made of two by comparing them from both ends (a flip), and then places half as
far apart, and so on (Batcher: Sorting networks and their applications, AFIPS 1968). Which comparators stay within a thread, within a warp,
or in the block is known: they exchange by nothing, by shuffles, and by shared memory. Records are all different, so that what is sorted
is so in one way only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtype as dt
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import IterVar, PrimExpr, Range, Select, Var
from ..tir.intrinsic.gpu import tvm_warp_shuffle, tvm_warp_shuffle_xor
from ..tir.operators import const
from ..tir.operators import logical_and as _and
from ..tir.operators import logical_or as _or
from ..tir.stmt import For, ForKind, Stmt
from . import loops
from .sort_records import Record, Records

WARP = 32
"""Threads that exchange by shuffles."""
_ALL = (1 << WARP) - 1
_INDEX = "int32"


def on_threads(count: int, body: Callable[[Var], Stmt]) -> Stmt:
    """A loop over the threads of a block, along ``threadIdx.x``; ``body`` is given the thread."""
    var = Var("thread", _INDEX)
    extent = const(count, _INDEX)
    axis = IterVar(
        Range.from_min_extent(const(0, _INDEX), extent),
        Var("threadIdx.x", _INDEX),
        IterVar.ThreadIndex,
        "threadIdx.x",
    )
    return For(var, const(0, _INDEX), extent, ForKind.THREAD_BINDING, body(var), axis)


def unrolled(count: int, body: Callable[[Any], Stmt], name: str = "e") -> Stmt:
    """A loop over registers, which are named by then."""
    if count == 1:
        return body(const(0, _INDEX))
    return loops.loop(const(count, _INDEX), body, name, ForKind.UNROLLED)


def number(value: int) -> PrimExpr:
    """A place or a thread."""
    return const(value, _INDEX)


def is_less(one: Record, other: Record) -> PrimExpr:
    """Whether a record stands before another one."""
    found: PrimExpr = one[0] < other[0]
    if len(one) > 1:
        found = _or(found, _and(one[0].equal(other[0]), one[1] < other[1]))
    return found


def shuffled(value: PrimExpr, lane: PrimExpr) -> PrimExpr:
    """What a lane of the warp has."""
    return tvm_warp_shuffle(const(_ALL, "uint32"), value, lane, WARP, WARP)


def crossed(value: PrimExpr, mask: int) -> PrimExpr:
    """What the thread has whose lane differs from this one's in the bits of a mask."""
    return tvm_warp_shuffle_xor(const(_ALL, "uint32"), value, number(mask), WARP, WARP)


def record_bytes(fields: Sequence[Buffer]) -> int:
    """Bytes of a record in memory."""
    return sum(dt.bytes_of(field.dtype) for field in fields)


class Network:
    """Comparators on records that some threads hold.

    Args:
        records: a thread's own, in registers.
        thread: the number of the thread.
        items: records of each thread, a power of two.
        exchange: shared memory for records of all threads of the block, where any of them is further away than a warp: of the shape
            (slots, threads). So many records of each thread are exchanged at once.
    """

    def __init__(
        self, records: Records, thread: PrimExpr, items: int, exchange: Records | None = None
    ) -> None:
        self.records, self.thread, self.items = records, thread, items
        self._exchange = exchange

    def sort(self, size: int) -> Stmt:
        """Sort each ``size`` records, a power of two."""
        widths = [1 << bit for bit in range(1, size.bit_length())]
        return loops.seq(*[self.merge(width) for width in widths])

    def merge(self, size: int) -> Stmt:
        """Sort each ``size`` records of which both halves are sorted."""
        return loops.seq(self._compare(size - 1, is_flip=True), self.settle(size // 2))

    def settle(self, size: int) -> Stmt:
        """Sort each ``size`` records, of which some are in order from either end: what a flip leaves in each half."""
        strides = [1 << bit for bit in reversed(range(size.bit_length() - 1))]
        return loops.seq(*[self._compare(stride, is_flip=False) for stride in strides])

    # ---- comparators ---------------------------------------------------------------------------------------------

    def _compare(self, mask: int, is_flip: bool) -> Stmt:
        """Compare the places that differ in the bits of a mask: all bits below one (a flip), or a single one."""
        if mask < self.items:
            return self._within_thread(mask, is_flip)
        across = mask // self.items
        # the highest bit in which the two differ says which of them is the lower one
        is_upper = (self.thread & number(1 << (across.bit_length() - 1))) != number(0)
        if across < WARP:
            return self._within_warp(across, is_flip, is_upper)
        return self._within_block(across, is_flip, is_upper)

    def _within_thread(self, mask: int, is_flip: bool) -> Stmt:
        half = (mask + 1) // 2 if is_flip else mask

        def pair(index: Any) -> Stmt:
            group, place = index // number(half), index % number(half)
            low = group * number(2 * half) + place
            high = group * number(2 * half) + (
                number(2 * half - 1) - place if is_flip else place + number(half)
            )
            one, other = self.records.load(low), self.records.load(high)

            def put(*values: PrimExpr) -> Stmt:
                a, b = values[: len(one)], values[len(one) :]
                return loops.let(
                    [is_less(b, a)],
                    lambda swap: loops.seq(
                        self.records.store(low, either(swap, b, a)),
                        self.records.store(high, either(swap, a, b)),
                    ),
                )

            return loops.let([*one, *other], put)

        return unrolled(self.items // 2, pair)

    def _keep(self, place: PrimExpr, other: Record, is_upper: PrimExpr) -> Stmt:
        """Keep the smaller or the larger of a record and another thread's."""
        own = self.records.load(place)
        takes = Select(is_upper, is_less(own, other), is_less(other, own))
        return loops.let([takes], lambda known: self.records.store(place, either(known, other, own)))

    def _within_warp(self, across: int, is_flip: bool, is_upper: PrimExpr) -> Stmt:
        def from_other(place: PrimExpr) -> list[PrimExpr]:
            return [crossed(value, across) for value in self.records.load(place)]

        if not is_flip or self.items == 1:
            return unrolled(
                self.items,
                lambda e: loops.let(from_other(e), lambda *other: self._keep(e, other, is_upper)),
            )

        def both(low: Any) -> Stmt:
            high = number(self.items - 1) - low
            given = [*from_other(high), *from_other(low)]
            width = len(given) // 2
            return loops.let(
                given,
                lambda *other: loops.seq(
                    self._keep(low, other[:width], is_upper), self._keep(high, other[width:], is_upper)
                ),
            )

        return unrolled(self.items // 2, both)

    def _within_block(self, across: int, is_flip: bool, is_upper: PrimExpr) -> Stmt:
        assert self._exchange is not None
        exchange = self._exchange
        slots = int(exchange.fields[0].shape[0])
        other_thread = self.thread ^ number(across)

        def at(slot: PrimExpr, thread: PrimExpr) -> list[PrimExpr]:
            return [slot, thread]

        def turn(begin: int) -> Stmt:
            # from both ends, so that a flip meets its records
            def place(slot: int) -> int:
                low = begin + slot
                return low if 2 * slot < slots or slots == 1 else self.items - begin - slots + slot

            def give(slot: int) -> Stmt:
                values = self.records.load(number(place(slot)))
                return loops.seq(
                    *[
                        loops.store(field, at(number(slot), self.thread), value)
                        for field, value in zip(exchange.fields, values, strict=True)
                    ]
                )

            def take(slot: int) -> Stmt:
                source = slots - 1 - slot if is_flip else slot
                given = [field[tuple(at(number(source), other_thread))] for field in exchange.fields]
                return loops.let(given, lambda *other: self._keep(number(place(slot)), other, is_upper))

            return loops.seq(*map(give, range(slots)), *map(take, range(slots)))

        step = max(1, slots // 2)
        return loops.seq(*[turn(begin) for begin in range(0, max(1, self.items // 2), step)])


def either(condition: PrimExpr, one: Record, other: Record) -> Record:
    """One of two records."""
    return tuple(Select(condition, a, b) for a, b in zip(one, other, strict=True))


def registers(items: int, key_bits: int, index: str, name: str) -> Records:
    """Memory for a thread's own records."""
    found = Records.declare(items, key_bits, index, name)
    return Records(
        tuple(decl_buffer(field.shape, field.dtype, field.name, scope="local") for field in found.fields)
    )


def shared(shape: Sequence[int], key_bits: int, index: str, name: str) -> Records:
    """Memory for records that all threads of a block see."""
    found = Records.declare(1, key_bits, index, name)
    return Records(
        tuple(
            decl_buffer([number(extent) for extent in shape], field.dtype, field.name, scope="shared")
            for field in found.fields
        )
    )
