"""scan_threads: a running sum of each row by the threads of a block of a GPU.

    for k: s[0] += A[k]; B[k] = s[0]                        one after the other

    for each chunk of threads * items elements:
        each thread runs through its own items                       in registers
        lanes of a warp scan what these add up to                    by shuffles
        each thread adds what the warps before its own have          from shared memory
        B = what stands before the chunk, the warp, the lane + own

(Kogge and Stone: A parallel algorithm for the efficient solution of a general class of recurrence equations, 1973; Sengupta, Harris, Zhang,
Owens: Scan primitives for GPU computing, 2007.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.tir.intrinsic.gpu import tvm_warp_shuffle_up
from ir.tir.stmt_functor import substitute
from ir.topi import loops
from ir.topi.thread_sort import WARP, number, on_threads, unrolled

from ..analysis import require
from ..argument import Argument, Loop
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import LoopRV
from ..tree import tree_of
from .scan_blocks import IDENTITIES, Scan, scan_of

_NAME = "scan_threads"
_MOST_THREADS = 1024


class ScanThreadPrimitives(PrimitiveFamily):
    """Running reductions by threads."""

    @primitive("ScanThreads", loop=Loop(), threads=Argument(), items=Argument())
    def scan_threads(self, loop: LoopRV, threads: int, items: int = 1) -> None:
        """Compute running sums (products, maxima, minima) of each row by the threads of a block, ``items`` elements of each at a time.

        ``loop`` is the one over rows, as for :meth:`scan_blocks`; what it holds is bound to ``threadIdx.x`` then, and it is to be bound to
        blocks. Sums and products of floats are taken in another order, which the block of a row must allow (``running_reduction``).

        Args:
            loop: the loop over rows.
            threads: a multiple of 32 up to 1024.
            items: elements that a thread has at a time.

        Raises:
            ScheduleError: the loop holds no running reduction that may be taken in another order; of numbers that threads cannot shuffle;
                or the numbers of threads or items are no such numbers.
        """
        require(
            type(threads) is int and threads % WARP == 0 and 0 < threads <= _MOST_THREADS,
            _NAME,
            f"needs a multiple of {WARP} threads up to {_MOST_THREADS}, got {threads}",
        )
        require(
            type(items) is int and 0 < items <= 64, _NAME, f"needs 1 to 64 items of a thread, got {items}"
        )
        scan = scan_of(self._loop(loop))
        require(
            dt.bits(scan.running.dtype) in (32, 64),
            _NAME,
            f"threads shuffle numbers of 32 or 64 bits, and {scan.running.name} has {scan.running.dtype}",
        )
        made = _Threads(scan, threads, items)
        scan.block.set_body(tree_of(made.body()))
        scan.block.change(alloc_buffers=made.memory, annotations={})


class _Threads:
    """The statements of one row."""

    def __init__(self, scan: Scan, threads: int, items: int) -> None:
        self._scan, self._threads, self._items = scan, threads, items
        kind = scan.running.dtype
        self._identity = IDENTITIES[scan.operator](kind)
        self._mine = tir.decl_buffer((items,), kind, "mine", scope="local")
        self._carried = tir.decl_buffer((1,), kind, "carried", scope="local")
        self._before = tir.decl_buffer((1,), kind, "before", scope="local")
        self._sums = tir.decl_buffer((threads // WARP,), kind, "sums", scope="shared")

    @property
    def memory(self) -> tuple[tir.Buffer, ...]:
        """What the block allocates."""
        return (self._scan.running, self._mine, self._carried, self._before, self._sums)

    def body(self) -> tir.Stmt:
        """All chunks of the row."""
        at_once = self._threads * self._items
        chunks = -(-self._scan.extent // at_once)

        def work(thread: tir.PrimExpr) -> tir.Stmt:
            return tir.seq(
                loops.store(self._carried, [0], self._scan.start),
                loops.loop(
                    number(chunks),
                    lambda chunk: self._chunk(chunk * number(at_once) + thread * number(self._items), thread),
                    "chunk",
                ),
            )

        return on_threads(self._threads, work)

    def _combined(self, one: Any, other: Any) -> Any:
        return self._scan.operator(one, other)

    def _inside(self, position: tir.PrimExpr, then: tir.Stmt, otherwise: tir.Stmt | None = None) -> tir.Stmt:
        """Statements for an element, if the row has it."""
        if self._scan.extent % (self._threads * self._items) == 0:
            return then
        return loops.when(position < number(self._scan.extent), then, otherwise)

    def _chunk(self, begin: tir.PrimExpr, thread: tir.PrimExpr) -> tir.Stmt:
        """What a thread does of a chunk, from the first of its items on."""
        lane, warp = thread % number(WARP), thread // number(WARP)
        mine, items = self._mine, self._items

        def load(e: Any) -> tir.Stmt:
            term = self._at(self._scan.term, begin + e)
            return self._inside(
                begin + e, loops.store(mine, [e], term), loops.store(mine, [e], self._identity)
            )

        def add(e: Any) -> tir.Stmt:
            return loops.store(mine, [e + 1], self._combined(mine[e], mine[e + 1]))

        running = [unrolled(items - 1, add)] if items > 1 else []
        return tir.seq(
            unrolled(items, load),
            *running,
            self._scan_warp(mine[items - 1], lane, lambda whole: self._spread(whole, begin, lane, warp)),
        )

    def _scan_warp(
        self, value: tir.PrimExpr, lane: tir.PrimExpr, then: Callable[[tir.PrimExpr], tir.Stmt], step: int = 1
    ) -> tir.Stmt:
        """What the lanes up to each one have together."""

        def combine(own: tir.PrimExpr) -> tir.Stmt:
            if step == WARP:
                return then(own)
            return loops.let(
                [_from_before(own, step)],
                lambda other: self._scan_warp(
                    tir.Select(lane >= number(step), self._combined(other, own), own), lane, then, 2 * step
                ),
            )

        return loops.let([value], combine)

    def _spread(
        self, whole: tir.PrimExpr, begin: tir.PrimExpr, lane: tir.PrimExpr, warp: tir.PrimExpr
    ) -> tir.Stmt:
        """The results of a thread's items, from what its lane and those before it have together."""
        warps = self._threads // WARP
        before, carried = self._before, self._carried

        def of_warp(place: Any) -> tir.Stmt:
            add = loops.store(before, [0], self._combined(before[0], self._sums[place]))
            return loops.when(place < warp, add)

        def of_all(place: Any) -> tir.Stmt:
            return loops.store(carried, [0], self._combined(carried[0], self._sums[place]))

        def results(other: tir.PrimExpr) -> tir.Stmt:
            lower = tir.Select(lane > number(0), other, self._identity)
            return tir.seq(
                loops.store(before, [0], carried[0]),
                unrolled(warps, of_warp, "w"),
                loops.store(before, [0], self._combined(before[0], lower)),
                unrolled(self._items, lambda e: self._emit(begin, e)),
                unrolled(warps, of_all, "w"),
            )

        return tir.seq(
            loops.when(lane.equal(number(WARP - 1)), loops.store(self._sums, [warp], whole)),
            loops.let([_from_before(whole, 1)], results),
        )

    def _emit(self, begin: tir.PrimExpr, e: Any) -> tir.Stmt:
        """Store the result of an item."""
        scan, running, before = self._scan, self._scan.running, self._before[0]
        if not scan.is_exclusive:
            value = self._combined(before, self._mine[e])
        else:
            # of the first item nothing of the thread's own stands before it
            first = tir.const(0, "int32")
            previous = self._mine[tir.max(e - 1, first)]
            value = tir.Select(e > first, self._combined(before, previous), before)
        store = scan.result
        at = [self._at(index, begin + e) for index in store.indices]
        zeros = [0] * len(running.shape)
        emit = tir.seq(
            tir.BufferStore(running, value, zeros),
            tir.BufferStore(store.buffer, self._at(store.value, begin + e), at),
        )
        return self._inside(begin + e, emit)

    def _at(self, expr: tir.PrimExpr, position: tir.PrimExpr) -> Any:
        """What the caller's expression is at a position."""
        return substitute(expr, {self._scan.var: tir.cast(self._scan.var.dtype, position)})


def _from_before(value: tir.PrimExpr, offset: int) -> tir.PrimExpr:
    """What a lane before this one has."""
    mask = tir.const((1 << WARP) - 1, "uint32")
    return tvm_warp_shuffle_up(mask, value, number(offset), WARP, WARP)
