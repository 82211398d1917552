"""Sorting of records, each a key and the position that it comes from: by merging without branches, or by digits.

Both keep the order of equal keys. Where a key has at most 32 bits, a record is one number of 64: the key, and behind it the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import dtype as dt
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import PrimExpr, Select
from ..tir.intrinsic.control import optimization_barrier
from ..tir.operators import cast, const, convert
from ..tir.stmt import Stmt
from . import loops

DIGIT_BITS = 11
"""Bits of a digit at most: the counters of its values stay in the nearest cache."""
_PACKED = "uint64"
_INDEX = "int32"
"""Of places in memory that is to be merged."""
_NETWORK = 4
"""Records of the first runs that are merged."""

Record = tuple[PrimExpr, ...]
"""What is kept of a record: the key and the position in one number, or each in its own."""


@dataclass(frozen=True)
class Records:
    """Memory for records."""

    fields: tuple[Buffer, ...]

    @staticmethod
    def declare(size: Any, key_bits: int, index: str, name: str) -> Records:
        """For ``size`` records with keys of so many bits; ``index`` is the dtype of positions."""
        if key_bits <= 32:
            return Records((decl_buffer((size,), _PACKED, name),))
        keys = decl_buffer((size,), f"uint{key_bits}", f"{name}_keys")
        return Records((keys, decl_buffer((size,), index, f"{name}_positions")))

    def make(self, key: PrimExpr, position: PrimExpr) -> Record:
        """A record."""
        if len(self.fields) == 1:
            return (cast(_PACKED, key) << const(32, _PACKED) | cast(_PACKED, position),)
        return key, cast(self.fields[1].dtype, position)

    def last(self) -> Record:
        """One that stands behind all others."""
        return tuple(const(dt.integer_range(field.dtype)[1], field.dtype) for field in self.fields)

    def last_of(self, key: PrimExpr) -> Record:
        """One that stands behind all others of a key."""
        if len(self.fields) == 1:
            return (cast(_PACKED, key) << const(32, _PACKED) | const((1 << 32) - 1, _PACKED),)
        return key, self.last()[1]

    def load(self, place: PrimExpr) -> Record:
        """The record at a place."""
        return tuple(field[place] for field in self.fields)

    def store(self, place: PrimExpr, record: Record) -> Stmt:
        """Put a record to a place."""
        return loops.seq(
            *[loops.store(field, [place], value) for field, value in zip(self.fields, record, strict=True)]
        )

    def key(self, place: PrimExpr, dtype: str) -> PrimExpr:
        """The key of the record at a place."""
        if len(self.fields) == 1:
            return cast(dtype, self.fields[0][place] >> const(32, _PACKED))
        return self.fields[0][place]

    def position(self, place: PrimExpr, dtype: str) -> PrimExpr:
        """Where the record at a place comes from."""
        if len(self.fields) == 1:
            # LLVM 22 forgets the mask where it knows that the bits behind it are zero (x86, a scaled index in a loop that is unrolled)
            record = optimization_barrier(self.fields[0][place])
            return cast(dtype, record & const((1 << 32) - 1, _PACKED))
        return cast(dtype, self.fields[1][place])


# ---- by merging ----------------------------------------------------------------------------------------------------


def merge_sort(records: Records, scratch: Records, size: int) -> tuple[Stmt, Records]:
    """Statements that sort ``size`` records, a power of two, and where they are then.

    Two runs of one length are merged from both ends at once: neither cursor can leave its run, so that nothing is asked but which
    record is smaller.
    """
    passes: list[Stmt] = []
    source, target = records, scratch
    width = 1
    if len(records.fields) == 1 and size >= _NETWORK:  # no two records are equal: there is no order to keep
        passes.append(_sort_fours(records, size))
        width = _NETWORK
    while width < size:
        passes.append(_merge_runs(source, target, size, width))
        source, target = target, source
        width *= 2
    return loops.seq(*passes), source


def _sort_fours(records: Records, size: int) -> Stmt:
    """Sort each four records by a network of exchanges (Knuth, The Art of Computer Programming, volume 3, section 5.3.4)."""

    def sort(group: PrimExpr) -> Stmt:
        places = [group * const(_NETWORK, group.dtype) + const(i, group.dtype) for i in range(_NETWORK)]

        def exchange(known: Sequence[PrimExpr], pairs: Sequence[tuple[int, int]]) -> Stmt:
            if not pairs:
                return loops.seq(
                    *[records.store(at, (value,)) for at, value in zip(places, known, strict=True)]
                )
            (one, other), *rest = pairs
            a, b = known[one], known[other]

            def go_on(smaller: PrimExpr, larger: PrimExpr) -> Stmt:
                after = list(known)
                after[one], after[other] = smaller, larger
                return exchange(after, rest)

            return loops.let([Select(a < b, a, b), Select(a < b, b, a)], go_on)

        loaded = [records.load(place)[0] for place in places]
        return loops.let(loaded, lambda *known: exchange(known, [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]))

    body = loops.loop(const(size // _NETWORK, _INDEX), sort, "four")
    return loops.scope("sort_fours", records.fields, records.fields, [], body)


def _merge_runs(source: Records, target: Records, size: int, width: int) -> Stmt:
    """Merge pairs of runs of ``width`` records."""
    index = _INDEX
    front, back = (decl_buffer((1,), index, name, scope="local") for name in ("front", "back"))

    def merge(run: PrimExpr) -> Stmt:
        low = run * const(2 * width, index)

        def step(number: PrimExpr) -> Stmt:
            # of both runs together so many are gone from either end, and of the first one what the cursors say
            first = source.load(low + front[0])
            second = source.load(low + const(width, index) + number - front[0])
            last = source.load(low + const(width - 1, index) - back[0])
            second_last = source.load(low + const(2 * width - 1, index) - number + back[0])
            return loops.let([*first, *second, *last, *second_last], lambda *known: take(number, known))

        def take(number: PrimExpr, known: Sequence[PrimExpr]) -> Stmt:
            n = len(source.fields)
            first, second, last, second_last = (tuple(known[i * n : (i + 1) * n]) for i in range(4))
            takes_first, takes_last = first[0] <= second[0], last[0] > second_last[0]
            return loops.seq(
                target.store(low + number, _either(takes_first, first, second)),
                target.store(
                    low + const(2 * width - 1, index) - number, _either(takes_last, last, second_last)
                ),
                loops.store(front, [0], front[0] + cast(index, takes_first)),
                loops.store(back, [0], back[0] + cast(index, takes_last)),
            )

        return loops.seq(
            loops.store(front, [0], const(0, index)),
            loops.store(back, [0], const(0, index)),
            loops.loop(const(width, index), step, "k"),
        )

    body = loops.loop(const(size // (2 * width), index), merge, "run")
    return loops.scope("merge_runs", source.fields, target.fields, [front, back], body)


def _either(condition: PrimExpr, one: Record, other: Record) -> Record:
    return tuple(Select(condition, a, b) for a, b in zip(one, other, strict=True))


# ---- by digits -----------------------------------------------------------------------------------------------------


def radix_sort(
    records: Records, scratch: Records, size: Any, key_bits: int, digit_bits: int = DIGIT_BITS
) -> tuple[Stmt, Records]:
    """Statements that sort ``size`` records by the digits of their keys, the lowest first, and where they are then.

    All digits are counted in one pass; of each the counts of smaller ones say where its records begin. (Knuth, The Art of Computer
    Programming, volume 3, section 5.2.5.)
    """
    extent = convert(size)
    index = extent.dtype
    n_digits = -(-key_bits // digit_bits)
    width = -(-key_bits // n_digits)
    n_values = 1 << width
    counts = decl_buffer((n_digits, n_values), index, "counts")
    running = decl_buffer((1,), index, "running", scope="local")
    first_bit = 32 if len(records.fields) == 1 else 0

    def digit(record: Record, number: int) -> PrimExpr:
        key = record[0]
        shift = first_bit + number * width
        return cast(index, (key >> const(shift, key.dtype)) & const(n_values - 1, key.dtype))

    def count(place: PrimExpr) -> Stmt:
        def add(*record: PrimExpr) -> Stmt:
            counters = [[const(number, index), digit(record, number)] for number in range(n_digits)]
            return loops.seq(
                *[loops.store(counts, at, counts[tuple(at)] + const(1, index)) for at in counters]
            )

        return loops.let(records.load(place), add)

    def begins(number: PrimExpr) -> Stmt:
        def step(value: PrimExpr) -> Stmt:
            return loops.seq(
                loops.store(running, [0], running[0] + counts[number, value]),
                loops.store(counts, [number, value], running[0] - counts[number, value]),
            )

        return loops.seq(
            loops.store(running, [0], const(0, index)), loops.loop(const(n_values, index), step, "value")
        )

    def distribute(source: Records, target: Records, number: int) -> Stmt:
        def step(place: PrimExpr) -> Stmt:
            return loops.let(source.load(place), move)

        def move(*record: PrimExpr) -> Stmt:
            counter = [const(number, index), digit(record, number)]
            return loops.let(
                [counts[tuple(counter)]],
                lambda at: loops.seq(
                    target.store(at, record), loops.store(counts, counter, at + const(1, index))
                ),
            )

        return loops.loop(extent, step, "place")

    statements = [
        loops.nest(
            [const(n_digits, index), const(n_values, index)],
            lambda at: loops.store(counts, at, const(0, index)),
        ),
        loops.loop(extent, count, "place"),
        loops.loop(const(n_digits, index), begins, "digit"),
    ]
    source, target = records, scratch
    for number in range(n_digits):
        statements.append(distribute(source, target, number))
        source, target = target, source
    fields = [*records.fields, *scratch.fields]
    return loops.scope("radix_sort", fields, fields, [counts, running], loops.seq(*statements)), source
