"""Sorting along an axis, and the first elements in order, parallel over the other axes.

Equal elements keep their order; NaN counts as greater than every number, as in numpy and PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtype as dt
from ..error import IRValueError
from ..te.operation import extern
from ..te.tensor import Tensor
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import IntImm, PrimExpr
from ..tir.operators import cast, const, convert
from ..tir.operators import logical_and as _and
from ..tir.operators import logical_not as _not
from ..tir.operators import logical_or as _or
from ..tir.stmt import Stmt, While
from . import loops
from .shape import normalize_axis, product, simplify, unravel_index
from .sort_keys import key_bits, key_of
from .sort_records import Record, Records, merge_sort, radix_sort

_MOST_MERGED = 512
"""Rows of up to so many elements are sorted by merging; counting digits costs as much as some thousand elements."""
_SELECTED_OF = 2
"""Candidates that are kept for each element that is wanted, before they are sorted; of rows that are no longer nothing is selected."""


class _Rows:
    """The rows of a tensor along one axis, of each of which the first ``count`` places in order are asked for.

    Args:
        data: the tensor.
        axis: along which rows lie.
        descending: the largest first.
        outputs: ("values" or "indices", dtype) of each result.
        count: elements of each result.
    """

    def __init__(
        self, data: Tensor, axis: int, descending: bool, outputs: Sequence[tuple[str, str]], count: Any
    ) -> None:
        self._axis = normalize_axis(axis, data.ndim)
        self._data, self._outputs, self._count = data, list(outputs), count
        self._descending = descending
        self._extent = data.shape[self._axis]
        self._index = self._extent.dtype
        self._bits = key_bits(data.dtype)
        self._outer = [item for position, item in enumerate(data.shape) if position != self._axis]

    def results(self, name: str) -> Any:
        """The tensor, or tensors, of results."""
        shape = [*self._data.shape[: self._axis], self._count, *self._data.shape[self._axis + 1 :]]

        def build(ins: Any, outs: Any) -> Any:
            def row(number: Any) -> Any:
                rest = unravel_index(number, self._outer) if self._outer else []
                return self._row(name, ins[0], outs, rest)

            return loops.parallel(product(self._outer), row)

        kinds = [kind for _, kind in self._outputs]
        return extern([shape] * len(kinds), [self._data], build, name=name, dtype=kinds)

    def _row(self, name: str, source: Buffer, outs: Sequence[Buffer], rest: Sequence[Any]) -> Stmt:
        def place(position: Any) -> list[Any]:
            return [*rest[: self._axis], position, *rest[self._axis :]]

        def value(position: Any) -> PrimExpr:
            return source[tuple(place(position))]

        sort = self._selected if self._selects() else self._sorted
        statements, records, memory = sort(value)

        def emit(number: Any) -> Stmt:
            def write(position: Any) -> Stmt:
                return loops.seq(
                    *[
                        loops.store(
                            result,
                            place(number),
                            cast(kind, value(position) if what == "values" else position),
                        )
                        for result, (what, kind) in zip(outs, self._outputs, strict=True)
                    ]
                )

            return loops.let([records.position(number, self._index)], write)

        body = loops.seq(statements, loops.loop(self._count, emit, "o"))
        return loops.scope(f"{name}_row", [source], list(outs), memory, body)

    def _memory(self, size: Any) -> tuple[Records, Records, list[Buffer]]:
        records, scratch = (
            Records.declare(size, self._bits, self._index, name) for name in ("records", "scratch")
        )
        return records, scratch, [*records.fields, *scratch.fields]

    def _record(self, records: Records, value: PrimExpr, position: PrimExpr) -> Record:
        return records.make(key_of(value, descending=self._descending), position)

    # ---- whole rows ----------------------------------------------------------------------------------------------

    def _sorted(self, value: Callable[[Any], PrimExpr]) -> tuple[Stmt, Records, list[Buffer]]:
        """Statements that sort a row, where it is then, and the memory that they need."""
        extent = self._extent
        most = _power_of_two(extent.value) if isinstance(extent, IntImm) else _MOST_MERGED + 1
        merges = most <= _MOST_MERGED
        size = const(most, self._index) if merges else extent
        records, scratch, memory = self._memory(size)
        fill = loops.loop(extent, lambda i: records.store(i, self._record(records, value(i), i)), "f")
        if not merges:
            body, found = radix_sort(records, scratch, size, self._bits)
            return loops.seq(fill, body), found, memory
        body, found = merge_sort(records, scratch, most)
        return loops.seq(fill, _fill_up(records, extent, size), body), found, memory

    # ---- the first of long rows ----------------------------------------------------------------------------------

    def _selects(self) -> bool:
        """Whether so little of a row is wanted that most elements are passed over."""
        count, extent = self._count, self._extent
        return (
            isinstance(count, IntImm)
            and isinstance(extent, IntImm)
            and 0 < count.value
            and extent.value > self._capacity() >= _SELECTED_OF * count.value
        )

    def _capacity(self) -> int:
        """How many candidates there are before they are sorted."""
        return max(16, _power_of_two(_SELECTED_OF * self._count.value))

    def _selected(self, value: Callable[[Any], PrimExpr]) -> tuple[Stmt, Records, list[Buffer]]:
        """Statements that sort the first ``count`` of a row: candidates are kept in a buffer, of which, whenever it is full, the first
        ``count`` stay; what stands behind all of these is no candidate from then on.
        """
        capacity, count, index = self._capacity(), self._count, self._index
        records, scratch, memory = self._memory(const(capacity, index))
        filled = decl_buffer((1,), index, "filled", scope="local")
        bound = decl_buffer((1,), records.fields[0].dtype, "bound", scope="local")
        limit = decl_buffer((1,), self._data.dtype, "limit", scope="local")
        one = const(1, index)
        has_limit = dt.is_float(self._data.dtype)

        def consider(position: Any) -> Stmt:
            record = self._record(records, value(position), position)
            candidate = loops.when(
                _or(record[0] < bound[0], filled[0] < count),  # the largest key is before no bound
                loops.seq(
                    records.store(filled[0], record),
                    loops.store(filled, [0], filled[0] + one),
                    loops.when(filled[0].equal(const(capacity, index)), shrink()),
                ),
            )
            if not has_limit:
                return candidate
            # one comparison passes over most elements, but over none that is NaN, nor where the limit is
            behind = value(position) <= limit[0] if self._descending else value(position) >= limit[0]
            return loops.when(_not(behind), candidate)

        def shrink() -> Stmt:
            body, found = merge_sort(records, scratch, capacity)
            stay = (
                []
                if found is records
                else [loops.loop(count, lambda i: records.store(i, found.load(i)), "s")]
            )
            last = count - one
            return loops.seq(
                body,
                *stay,
                loops.store(filled, [0], count),
                loops.store(bound, [0], records.load(last)[0]),
                *([loops.store(limit, [0], value(records.position(last, index)))] if has_limit else []),
            )

        body, found = merge_sort(records, scratch, capacity)
        return (
            loops.seq(
                loops.store(filled, [0], const(0, index)),
                loops.store(bound, [0], records.last()[0]),
                *([loops.store(limit, [0], const(float("nan"), limit.dtype))] if has_limit else []),
                loops.loop(self._extent, consider, "c"),
                _fill_up(records, filled[0], const(capacity, index)),
                body,
            ),
            found,
            [*memory, filled, bound, *([limit] if has_limit else [])],
        )


def _power_of_two(size: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(size - 1, 0).bit_length()


def _fill_up(records: Records, filled: Any, size: Any) -> Stmt:
    """Records that stand behind all others, from a place on."""
    return loops.loop(size - filled, lambda i: records.store(i, records.last()), "e", begin=filled)


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Elements in order along ``axis``."""
    along = normalize_axis(axis, data.ndim)
    return _Rows(data, along, not is_ascend, [("values", data.dtype)], data.shape[along]).results("sort_cpu")


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str = "float32",
) -> Tensor:
    """Positions that sort ``data`` along ``axis`` (equal elements keep their order), as ``dtype``."""
    if valid_count is not None:
        raise IRValueError("argsort with valid_count is not offered; mask the data before sorting")
    along = normalize_axis(axis, data.ndim)
    return _Rows(data, along, not is_ascend, [("indices", dtype)], data.shape[along]).results("argsort_cpu")


def topk(
    data: Tensor,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int64",
) -> Any:
    """The first ``k`` elements in descending (or ascending) order along ``axis``; all of them for ``k < 1``.

    ``ret_type``: "both" gives [values, indices], "values" or "indices" one of them.
    """
    wanted = {
        "both": [("values", data.dtype), ("indices", dtype)],
        "values": [("values", data.dtype)],
        "indices": [("indices", dtype)],
    }
    if ret_type not in wanted:
        raise IRValueError(f"topk: ret_type must be one of {sorted(wanted)}, got {ret_type!r}")
    along = normalize_axis(axis, data.ndim)
    extent = data.shape[along]
    number = getattr(simplify(convert(k)), "value", None)
    count = extent if number is not None and number < 1 else convert(k).astype(extent.dtype)
    if isinstance(count, IntImm) and isinstance(extent, IntImm) and count.value > extent.value:
        raise IRValueError(
            f"topk: k is {count.value}, but axis {along} of {data.name} has {extent.value} elements"
        )
    return _Rows(data, along, not is_ascend, wanted[ret_type], count).results("topk_cpu")


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool = False, dtype: str = "int64"
) -> Tensor:
    """Where each value would be put into the sorted last axis of ``sorted_sequence`` (a vector serves all rows)."""
    extent = sorted_sequence.shape[-1]
    shared = sorted_sequence.ndim == 1

    def build(ins: Any, outs: Any) -> Any:
        sequence, wanted = ins
        result = outs[0]

        def one(number: Any) -> Any:
            place = unravel_index(number, values.shape) if values.shape else []
            bounds = decl_buffer((2,), extent.dtype, "bounds", scope="local")
            low, high = bounds[0], bounds[1]
            middle = (low + high) // const(2, extent.dtype)
            element = sequence[tuple([middle] if shared else [*place[:-1], middle])]
            value = wanted[tuple(place)]
            below = element <= value if right else element < value
            if dt.is_float(values.dtype):  # NaN is greater than every number
                is_nan = value != value
                below = _or(below, is_nan if right else _and(is_nan, element.equal(element)))
            search = While(
                low < high,
                loops.when(below, loops.store(bounds, [0], middle + 1), loops.store(bounds, [1], middle)),
            )
            body = loops.seq(
                loops.store(bounds, [0], const(0, extent.dtype)),
                loops.store(bounds, [1], extent),
                search,
                loops.store(result, place, cast(dtype, low)),
            )
            return loops.scope("search", [sequence, wanted], [result], [bounds], body)

        return loops.parallel(product(values.shape), one)

    return extern(values.shape, [sorted_sequence, values], build, name="searchsorted", dtype=dtype)
