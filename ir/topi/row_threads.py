"""Algorithms by which the threads of a block of a GPU put the first elements of a row in order, all of them in registers.

| name | numbers | does |
|---|---|---|
| bitonic | threads | sorts the whole row by a network |
| selection | threads | each warp keeps the first of what it has seen, sorted, and the warps merge what they have at the end |

``selection`` sorts a few elements for each lane at a time and merges them into what it keeps, unless none of them would stay. (Johnson,
Douze, Jégou: Billion-scale similarity search with GPUs, 2017, select by warps that way; Shanbhag, Pirk, Madden: Efficient top-k query
processing on massively parallel hardware, SIGMOD 2018, merge sorted runs of which the last half is dropped.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..error import IRValueError
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import PrimExpr
from ..tir.operators import cast
from ..tir.operators import logical_and as _and
from ..tir.stmt import Stmt
from . import loops
from .row_order import Row
from .sort_records import Record, Records
from .thread_sort import (
    WARP,
    Network,
    crossed,
    either,
    is_less,
    number,
    on_threads,
    record_bytes,
    registers,
    shared,
    shuffled,
    unrolled,
)

SHARED_BYTES = 48 << 10
"""Shared memory that a block has on every device, without asking for more."""
_MOST_REGISTERS = 64
"""Of 32 bits, for the records of a thread: what a block of 1024 threads leaves to each is twice as many at most."""
_MOST_THREADS = 1024
_WARPS_REGISTERS = 1 << 16
"""Registers of a multiprocessor, of which a block's threads have equal shares."""

Threaded = tuple[Stmt, list[Buffer]]
"""What computes the row and stores its results, and the memory that it needs."""


def row_by_threads(row: Row, algorithm: str, numbers: Sequence[int]) -> Threaded:
    """The statements of an algorithm of the table above.

    Raises:
        IRValueError: it does not sort rows of this length by so many threads.
    """
    if len(numbers) != 1:
        raise IRValueError(f"algorithm {algorithm!r} takes 1 number, got {list(numbers)}")
    (threads,) = numbers
    extent, count = row.known_extent, row.known_count
    if extent is None or count is None:
        raise IRValueError(f"algorithm {algorithm!r} needs a known extent, got {row.extent} and {row.count}")
    if threads not in thread_counts(algorithm, extent, count, row.key_bits):
        raise IRValueError(
            f"algorithm {algorithm!r} does not find {count} of {extent} elements by {threads} threads;"
            f" it does by {thread_counts(algorithm, extent, count, row.key_bits)}"
        )
    return ALGORITHMS[algorithm](row, threads, extent, count)


def thread_counts(algorithm: str, extent: int, count: int, key_bits: int) -> list[int]:
    """By how many threads an algorithm finds the first of a row; none where their registers or shared memory would not do.

    >>> thread_counts("bitonic", 4096, 4096, 32)
    [256, 512, 1024]
    >>> thread_counts("selection", 32000, 128, 32)
    [32, 64, 128, 256, 512, 1024]
    """
    options = [WARP << bit for bit in range((_MOST_THREADS // WARP).bit_length())]
    words = 2 if key_bits <= 32 else 4
    if algorithm == "bitonic":
        size = power_of_two(max(extent, WARP))
        return [
            threads
            for threads in options
            if threads <= size and _fit(threads, size // threads, words, copies=1) and extent > 0
        ]
    items = max(1, power_of_two(count) // WARP)
    return [
        threads
        for threads in options
        if 0 < count < extent
        and _fit(threads, items, words, copies=2)
        and items * threads // 2 * 4 * words <= SHARED_BYTES
        and (threads == WARP or threads * items <= power_of_two(extent))
    ]


def _fit(threads: int, items: int, words: int, copies: int) -> bool:
    """Whether so many copies of a thread's records leave registers for what else there is."""
    return (
        items * words <= _MOST_REGISTERS // 2 and threads * (items * words * copies + 32) <= _WARPS_REGISTERS
    )


def power_of_two(size: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(size - 1, 0).bit_length()


# ---- whole rows ----------------------------------------------------------------------------------------------------


def _by_network(row: Row, threads: int, extent: int, count: int) -> Threaded:
    size = power_of_two(max(extent, WARP))
    items = size // threads
    records = registers(items, row.key_bits, row.index, "records")
    memory = list(records.fields)
    exchange = None
    if threads > WARP:
        slots = items
        while slots > 1 and slots * threads * record_bytes(records.fields) > SHARED_BYTES:
            slots //= 2
        exchange = shared((slots, threads), row.key_bits, row.index, "exchange")
        memory += exchange.fields

    def work(thread: PrimExpr) -> Stmt:
        network = Network(records, thread, items, exchange)
        return loops.seq(
            # neighbouring threads load neighbours: where a record begins does not matter
            unrolled(items, lambda e: _load(row, records, e, e * number(threads) + thread, extent, size)),
            network.sort(size),
            _store_first(row, records, thread, items, count, size),
        )

    return on_threads(threads, work), memory


def _load(row: Row, records: Records, place: PrimExpr, position: PrimExpr, extent: int, size: int) -> Stmt:
    """An element of the row as a record; behind its end one that stands behind all others."""
    at = cast(row.index, position)
    found = records.store(place, row.record(records, at))
    if size == extent:
        return found
    # which every thread writes: nothing that reads it has to ask which of two stores has
    return loops.seq(records.store(place, records.last()), loops.when(position < number(extent), found))


def _store_first(row: Row, records: Records, thread: PrimExpr, items: int, count: int, size: int) -> Stmt:
    """Store the results of the wanted ones, which the first threads have in order."""

    def emit(e: PrimExpr) -> Stmt:
        rank = thread * number(items) + e
        stored = row.emit(cast(row.index, rank), records.position(e, row.index))
        return stored if count == size else loops.when(rank < number(count), stored)

    return unrolled(items, emit)


# ---- the first of long rows ----------------------------------------------------------------------------------------


def _by_selection(row: Row, threads: int, extent: int, count: int) -> Threaded:
    items = max(1, power_of_two(count) // WARP)
    at_once = items * threads
    best, fresh = (registers(items, row.key_bits, row.index, name) for name in ("best", "fresh"))
    stays = decl_buffer((1,), "int32", "stays", scope="local")
    memory = [*best.fields, *fresh.fields, stays]
    handed = None
    if threads > WARP:
        handed = shared((items, threads // 2), row.key_bits, row.index, "handed")
        memory += handed.fields

    def work(thread: PrimExpr) -> Stmt:
        keep = Network(best, thread, items)
        come = Network(fresh, thread, items)

        def look(turn: Any) -> Stmt:
            begin = turn * number(at_once)
            return loops.seq(
                unrolled(
                    items,
                    lambda e: _load(
                        row,
                        fresh,
                        e,
                        begin + e * number(threads) + thread,
                        extent,
                        -(-extent // at_once) * at_once,
                    ),
                ),
                _ask_whether_any_stays(best, fresh, items, stays),
                loops.when(
                    stays[0] > number(0),
                    loops.seq(
                        come.sort(items * WARP),
                        _take_smaller(best, _reversed(fresh, items), items),
                        keep.settle(items * WARP),
                    ),
                ),
            )

        return loops.seq(
            unrolled(items, lambda e: best.store(e, best.last())),
            loops.loop(number(-(-extent // at_once)), look, "turn"),
            *([_merge_warps(keep, handed, threads)] if handed is not None else []),
            loops.when(thread < number(WARP), _store_first(row, best, thread, items, count, 0)),
        )

    return on_threads(threads, work), memory


def _ask_whether_any_stays(best: Records, fresh: Records, items: int, stays: Buffer) -> Stmt:
    """Whether any of a warp's new records stands before the last one that it keeps."""
    last = [shuffled(value, number(WARP - 1)) for value in best.load(number(items - 1))]

    def ask(*bound: PrimExpr) -> Stmt:
        def see(e: PrimExpr) -> Stmt:
            return loops.store(stays, [0], stays[0] | cast("int32", is_less(fresh.load(e), bound)))

        def join(mask: int) -> Stmt:
            return loops.let(
                [crossed(stays[0], mask)], lambda other: loops.store(stays, [0], stays[0] | other)
            )

        masks = [1 << bit for bit in reversed(range(WARP.bit_length() - 1))]
        return loops.seq(unrolled(items, see), *map(join, masks))

    return loops.seq(loops.store(stays, [0], number(0)), loops.let(last, ask))


def _reversed(records: Records, items: int) -> Callable[[PrimExpr], list[PrimExpr]]:
    """A warp's records from the last place on."""
    return lambda e: [crossed(value, WARP - 1) for value in records.load(number(items - 1) - e)]


def _take_smaller(records: Records, others: Callable[[PrimExpr], list[PrimExpr]], items: int) -> Stmt:
    """The smaller ones of records and of others in the opposite order: the first of both, where each are sorted."""

    def keep(e: PrimExpr) -> Stmt:
        def take(*other: PrimExpr) -> Stmt:
            own: Record = records.load(e)
            return loops.let([is_less(other, own)], lambda takes: records.store(e, either(takes, other, own)))

        return loops.let(others(e), take)

    return unrolled(items, keep)


def _merge_warps(keep: Network, handed: Records, threads: int) -> Stmt:
    """The first warp gets the first of what all warps keep, by halves."""
    items, thread, records = keep.items, keep.thread, keep.records
    rounds: list[Stmt] = []
    half = threads // 2
    while half >= WARP:

        def give(e: PrimExpr, half: int = half) -> Stmt:
            return loops.seq(
                *[
                    loops.store(field, [e, thread - number(half)], value)
                    for field, value in zip(handed.fields, records.load(e), strict=True)
                ]
            )

        def take(e: PrimExpr) -> list[PrimExpr]:
            # the same warp's threads from the last on
            return [field[number(items - 1) - e, thread ^ number(WARP - 1)] for field in handed.fields]

        is_given = _and(thread >= number(half), thread < number(2 * half))
        rounds.append(loops.when(is_given, unrolled(items, give)))
        rounds.append(
            loops.when(
                thread < number(half),
                loops.seq(_take_smaller(records, take, items), keep.settle(items * WARP)),
            )
        )
        half //= 2
    return loops.seq(*rounds)


ALGORITHMS: dict[str, Callable[[Row, int, int, int], Threaded]] = {
    "bitonic": _by_network,
    "selection": _by_selection,
}
"""What makes each of the table."""


def usual_threads(extent: int, count: int, key_bits: int) -> tuple[str, tuple[int, ...]] | None:
    """The algorithm by threads for rows of which nothing else is known; None where none does.

    >>> usual_threads(4096, 4096, 32), usual_threads(32000, 128, 32)
    (('bitonic', (512,)), ('selection', (512,)))
    """
    size = power_of_two(max(extent, WARP))
    for algorithm, per_thread in (("selection", _SEEN), ("bitonic", _SORTED)):
        found = thread_counts(algorithm, extent, count, key_bits)
        if algorithm == "selection" and count * _SELECTED_OF > extent:
            continue
        if found:
            wanted = max(WARP, size // per_thread)
            return algorithm, (min(found, key=lambda threads: abs(threads - wanted)),)
    return None


_SEEN, _SORTED = 64, 8
"""Elements of a row for each thread, where it selects and where it sorts."""
_SELECTED_OF = 4
"""Rows of so many times as many elements as are wanted are not sorted."""
