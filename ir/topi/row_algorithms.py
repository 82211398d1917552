"""Algorithms that put the first elements of a row in order; which is the fastest depends on the row, on the machine, and on the data.

| name | numbers | does |
|---|---|---|
| merge | | sorts the whole row by merging |
| radix | bits of a digit | sorts the whole row digit by digit |
| buffer | capacity | keeps candidates, of which only the first stay whenever there are too many |
| threshold | groups, chunk | the same, but knows from the first in each group of elements which ones are none |

``buffer`` waits for elements one by one until it has seen some of the first. ``threshold`` looks at a row twice, several elements at a
time: of ``groups`` groups the first elements are found, and the wanted one among these is a bound that at least so many elements reach.
(Floyd, Rivest: Expected time bounds for selection, CACM 18, 1975, bound by a sample; the first of groups are never too tight.) Then whole
chunks that hold no such element are passed over. What many threads do together is told in :mod:`.row_threads`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtype as dt
from ..error import IRValueError
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import IntImm, PrimExpr
from ..tir.operators import cast, const
from ..tir.operators import logical_not as _not
from ..tir.operators import logical_or as _or
from ..tir.operators import min as _min
from ..tir.stmt import Stmt
from . import loops, row_threads
from .row_order import Row, RowOrder
from .row_threads import power_of_two
from .sort_keys import number_of
from .sort_records import DIGIT_BITS, Records, merge_sort, radix_sort

MOST_MERGED = 512
"""Rows of up to so many elements are sorted by merging; counting digits costs as much as some thousand elements."""
_SELECTED_OF = 2
"""Candidates that are kept for each element that is wanted, before they are sorted; of rows that are no longer nothing is selected."""
_LEAST_CAPACITY = 16
_WORTH_TWO_LOOKS = 4
"""Rows of so many times as many elements as are kept are looked at twice: the first look is at several elements at a time."""
_CHUNK = 32
"""Elements that are passed over at a time: a few vectors of any machine."""

Found = tuple[Stmt, Records, list[Buffer]]
"""Statements, the records that have the wanted ones at their begin then, and the memory that they need."""


def ordered_row(
    order: RowOrder,
    source: Buffer,
    outs: Sequence[Buffer],
    number: Any,
    name: str,
    algorithm: str | None = None,
    numbers: Sequence[int] = (),
) -> Stmt:
    """The block that computes a row.

    Args:
        order: what is wanted of it.
        source: the tensor.
        outs: where the results go.
        number: of the row.
        name: of the block.
        algorithm: one of the table above; None for the one that is usual for rows of this length.
        numbers: what it takes.

    Raises:
        IRValueError: there is no such algorithm, it takes other numbers, or it does not sort rows of this length.
    """
    row = Row(order, source, outs, number)
    if algorithm is None:
        algorithm, numbers = usual_algorithm(row.known_extent, row.known_count)
    if algorithm in row_threads.ALGORITHMS:
        return row.whole_block(name, *row_threads.row_by_threads(row, algorithm, numbers))
    if algorithm not in _ALGORITHMS:
        known = sorted([*_ALGORITHMS, *row_threads.ALGORITHMS])
        raise IRValueError(f"there is no algorithm {algorithm!r} for rows; there are {known}")
    n_numbers, find = _ALGORITHMS[algorithm]
    if len(numbers) != n_numbers:
        raise IRValueError(f"algorithm {algorithm!r} takes {n_numbers} numbers, got {list(numbers)}")
    return row.block(name, *find(row, *numbers))


def usual_algorithm(extent: int | None, count: int | None) -> tuple[str, tuple[int, ...]]:
    """The algorithm for rows of which nothing else is known, and its numbers.

    Args:
        extent: elements of a row.
        count: how many are wanted; None for either is not known yet.

    >>> usual_algorithm(1000, 10)
    ('threshold', (32, 32))
    """
    if extent is not None and count is not None and count > 0:
        capacity = max(_LEAST_CAPACITY, power_of_two(_SELECTED_OF * count))
        if extent >= _WORTH_TWO_LOOKS * capacity:
            return "threshold", (capacity, _CHUNK)
        if extent > capacity:
            return "buffer", (capacity,)
    if extent is not None and power_of_two(extent) <= MOST_MERGED:
        return "merge", ()
    return "radix", (DIGIT_BITS,)


# ---- whole rows ----------------------------------------------------------------------------------------------------


def _by_merging(row: Row) -> Found:
    _require(isinstance(row.extent, IntImm), "merge", f"a known extent, got {row.extent}")
    assert isinstance(row.extent, IntImm)
    most = power_of_two(row.extent.value)
    records, scratch, memory = row.memory(const(most, row.index))
    body, found = merge_sort(records, scratch, most)
    fill = loops.seq(_all_records(row, records), _fill_up(records, row.extent, const(most, row.index)))
    return loops.seq(fill, body), found, memory


def _by_digits(row: Row, digit_bits: int) -> Found:
    _require(0 < digit_bits <= DIGIT_BITS, "radix", f"digits of 1 to {DIGIT_BITS} bits, got {digit_bits}")
    records, scratch, memory = row.memory(row.extent)
    body, found = radix_sort(records, scratch, row.extent, row.key_bits, digit_bits)
    return loops.seq(_all_records(row, records), body), found, memory


def _all_records(row: Row, records: Records) -> Stmt:
    return loops.loop(row.extent, lambda i: records.store(i, row.record(records, i)), "f")


# ---- the first of long rows ----------------------------------------------------------------------------------------


class _Candidates:
    """Memory for records, of which the first so many stay whenever it is full."""

    def __init__(self, row: Row, algorithm: str, capacity: int) -> None:
        extent, count = _known(row, algorithm)
        fits = _is_power_of_two(capacity) and count < capacity < max(extent, 1)
        _require(
            fits and count > 0,
            algorithm,
            f"a power of two larger than the {count} wanted elements (at least one) and smaller than the {extent} of a row, got {capacity}",
        )
        self._row, self.capacity, self._count = row, const(capacity, row.index), const(count, row.index)
        self._size = capacity
        self.records, self._scratch, memory = row.memory(self.capacity)
        self.filled = decl_buffer((1,), row.index, "filled", scope="local")
        self.bound = decl_buffer((1,), self.records.fields[0].dtype, "bound", scope="local")
        self.memory = [*memory, self.filled, self.bound]

    def sort(self) -> tuple[Stmt, Records]:
        """Sort what is there, and where that is then."""
        return merge_sort(self.records, self._scratch, self._size)

    def sort_filled(self) -> tuple[Stmt, Records]:
        """Sort what is there and something behind it."""
        body, found = self.sort()
        return loops.seq(_fill_up(self.records, self.filled[0], self.capacity), body), found

    def shrink_if_full(self, then: Callable[[PrimExpr], list[Stmt]]) -> Stmt:
        """Keep the wanted ones only; what stands behind all of these is no candidate from then on. ``then`` learns where the last one is
        among the records.
        """
        body, found = self.sort()
        stay = (
            []
            if found is self.records
            else [loops.loop(self._count, lambda i: self.records.store(i, found.load(i)), "s")]
        )
        last = self._count - const(1, self._row.index)
        return loops.when(
            self.filled[0].equal(self.capacity),
            loops.seq(
                body,
                *stay,
                loops.store(self.filled, [0], self._count),
                loops.store(self.bound, [0], self.records.load(last)[0]),
                *then(last),
            ),
        )


def _by_buffer(row: Row, capacity: int) -> Found:
    candidates = _Candidates(row, "buffer", capacity)
    records, filled, bound = candidates.records, candidates.filled, candidates.bound
    limit = decl_buffer((1,), row.dtype, "limit", scope="local")
    one = const(1, row.index)
    has_limit = dt.is_float(row.dtype)

    def know_limit(last: PrimExpr) -> list[Stmt]:
        return [loops.store(limit, [0], row.value(records.position(last, row.index)))] if has_limit else []

    def consider(position: Any) -> Stmt:
        record = row.record(records, position)
        candidate = loops.when(
            _or(record[0] < bound[0], filled[0] < row.count),  # the largest key is before no bound
            loops.seq(
                records.store(filled[0], record),
                loops.store(filled, [0], filled[0] + one),
                candidates.shrink_if_full(know_limit),
            ),
        )
        if not has_limit:
            return candidate
        # one comparison passes over most elements, but over none that is NaN, nor where the limit is
        behind = row.value(position) <= limit[0] if row.descending else row.value(position) >= limit[0]
        return loops.when(_not(behind), candidate)

    body, found = candidates.sort_filled()
    statements = loops.seq(
        loops.store(filled, [0], const(0, row.index)),
        loops.store(bound, [0], records.last()[0]),
        *([loops.store(limit, [0], const(float("nan"), limit.dtype))] if has_limit else []),
        loops.loop(row.extent, consider, "c"),
        body,
    )
    return statements, found, [*candidates.memory, *([limit] if has_limit else [])]


def _by_threshold(row: Row, groups: int, chunk: int) -> Found:
    candidates = _Candidates(row, "threshold", groups)
    _require(_is_power_of_two(chunk), "threshold", f"chunks of a power of two of elements, got {chunk}")
    records, filled, bound = candidates.records, candidates.filled, candidates.bound
    key = f"uint{row.key_bits}"
    first = decl_buffer((groups,), key, "first")
    limit = decl_buffer((1,), row.dtype, "limit", scope="local")
    hits = decl_buffer((1,), "int32", "hits", scope="local")
    extent, count = _known(row, "threshold")
    n_chunks = -(-extent // chunk)
    is_whole = extent % chunk == 0

    def know_limit(bounding: PrimExpr) -> Stmt:
        return loops.store(limit, [0], number_of(bounding, row.dtype, descending=row.descending))

    def know_limit_of(last: PrimExpr) -> list[Stmt]:
        return [know_limit(records.key(last, key))]

    def is_hit(position: Any) -> PrimExpr:
        """Elements that are NaN are hits, and where the limit is NaN all are."""
        value = row.value(position)
        return _not(value < limit[0] if row.descending else value > limit[0])

    def consider(position: Any) -> Stmt:
        def put(*record: PrimExpr) -> Stmt:
            return loops.seq(
                records.store(filled[0], record),  # stays only if the next one is put behind it
                loops.store(filled, [0], filled[0] + cast(row.index, record[0] <= bound[0])),
                candidates.shrink_if_full(know_limit_of),
            )

        return loops.let(row.record(records, position), put)

    def chunk_of(number: Any) -> Stmt:
        begin = number * const(chunk, row.index)
        width = const(chunk, row.index) if is_whole else _min(const(chunk, row.index), row.extent - begin)
        look = loops.seq(
            loops.store(hits, [0], const(0, "int32")),
            loops.loop(
                const(chunk, row.index),
                lambda i: loops.store(hits, [0], hits[0] | cast("int32", is_hit(begin + i))),
                "h",
            ),
        )
        if not is_whole:
            look = loops.when(
                number < const(extent // chunk, row.index), look, loops.store(hits, [0], const(1, "int32"))
            )
        return loops.seq(look, loops.when(hits[0] > 0, loops.loop(width, lambda i: consider(begin + i), "c")))

    sort_first, in_order = candidates.sort()
    wanted = const(count - 1, row.index)
    body, found = candidates.sort_filled()
    statements = loops.seq(
        _first_of_groups(row, first, groups, chunk),
        loops.loop(
            const(groups, row.index),
            lambda i: records.store(i, records.last_of(first[i])),
            "g",
        ),
        sort_first,
        loops.store(bound, [0], in_order.load(wanted)[0]),
        know_limit(in_order.key(wanted, key)),
        loops.store(filled, [0], const(0, row.index)),
        loops.loop(const(n_chunks, row.index), chunk_of, "n"),
        body,
    )
    return statements, found, [*candidates.memory, first, limit, hits]


def _first_of_groups(row: Row, first: Buffer, groups: int, chunk: int) -> Stmt:
    """The first key in each group of elements that lie ``groups`` apart; the last few elements of a row are in none."""

    def each(store: Callable[[Any], Stmt]) -> Stmt:
        return loops.loop(const(groups, row.index), store, "v")

    def update(turn: Any) -> Stmt:
        begin = turn * const(groups, row.index)
        return each(lambda i: loops.store(first, [i], _min(first[i], row.key(begin + i))))

    extent, _ = _known(row, "threshold")
    return loops.seq(
        each(lambda i: loops.store(first, [i], row.key(i))),
        loops.loop(const(extent // groups - 1, row.index), update, "t", begin=const(1, row.index)),
    )


def _known(row: Row, algorithm: str) -> tuple[int, int]:
    extent, count = row.known_extent, row.known_count
    if extent is None or count is None:
        raise IRValueError(f"algorithm {algorithm!r} needs a known extent, got {row.extent} and {row.count}")
    return extent, count


def _require(holds: bool, algorithm: str, what: str) -> None:
    if not holds:
        raise IRValueError(f"algorithm {algorithm!r} needs {what}")


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _fill_up(records: Records, filled: Any, size: Any) -> Stmt:
    """Records that stand behind all others, from a place on."""
    return loops.loop(size - filled, lambda i: records.store(i, records.last()), "e", begin=filled)


_ALGORITHMS: dict[str, tuple[int, Callable[..., Found]]] = {
    "merge": (0, _by_merging),
    "radix": (1, _by_digits),
    "buffer": (1, _by_buffer),
    "threshold": (2, _by_threshold),
}
"""How many numbers each takes, and what makes it."""
