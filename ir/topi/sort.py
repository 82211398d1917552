"""Sorting along an axis: a stable bottom-up merge sort of positions, parallel over the other axes.

NaN counts as greater than every number, as in numpy and PyTorch.
"""

from __future__ import annotations

from typing import Any

from .. import dtype as dt
from ..error import IRValueError
from ..te.operation import extern
from ..te.tensor import Tensor
from ..tir import op as T
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import IntImm
from ..tir.operators import cast, const, convert
from ..tir.operators import logical_and as _and
from ..tir.operators import logical_or as _or
from ..tir.operators import min as _min
from ..tir.stmt import While
from . import loops
from .shape import normalize_axis, product, simplify, unravel_index


def _merge_sort(source: Buffer, positions: Buffer, scratch: Buffer, before: Any, extent: Any) -> Any:
    """Statements that sort the first ``extent`` entries of ``positions``; ``before(a, b)``: a may stand before b."""
    kind = positions.dtype
    one, two = const(1, extent.dtype), const(2, extent.dtype)
    cursor = decl_buffer((2,), extent.dtype, "cursor", scope="local")
    if isinstance(extent, IntImm):
        passes: Any = const(max(extent.value - 1, 0).bit_length(), extent.dtype)
    else:
        bits = T.ceil(T.log2(cast("float64", extent)))
        passes = cast(extent.dtype, bits)

    def one_pass(number: Any) -> Any:
        width = one << number

        def merge_runs(run: Any) -> Any:
            low = run * width * two
            middle, high = _min(low + width, extent), _min(low + width * two, extent)
            left, right = cursor[0], cursor[1]

            def step(place: Any) -> Any:
                # Lazy conditions: a cursor at its end must not be dereferenced.
                take_left = T.if_then_else(
                    left < middle,
                    T.if_then_else(right < high, before(positions[left], positions[right]), const(True)),
                    const(False),
                )
                return loops.when(
                    take_left,
                    loops.seq(
                        loops.store(scratch, [place], positions[left]), loops.store(cursor, [0], left + one)
                    ),
                    loops.seq(
                        loops.store(scratch, [place], positions[right]), loops.store(cursor, [1], right + one)
                    ),
                )

            return loops.seq(
                loops.store(cursor, [0], low),
                loops.store(cursor, [1], middle),
                loops.loop(high - low, step, "k", begin=low),
            )

        runs = T.ceildiv(extent, width * two)
        copy_back = loops.loop(extent, lambda i: loops.store(positions, [i], scratch[i]), "c")
        return loops.seq(loops.loop(runs, merge_runs, "run"), copy_back)

    fill = loops.loop(extent, lambda i: loops.store(positions, [i], cast(kind, i)), "f")
    body = loops.seq(fill, loops.loop(passes, one_pass, "level"))
    return loops.scope("merge_sort", [source, positions, scratch], [positions, scratch], [cursor], body)


def _sorted_rows(
    data: Tensor, axis: int, is_ascend: bool, name: str, outputs: list[tuple[str, str]], count: Any
) -> Any:
    """Sort along ``axis``; ``outputs`` lists ("values" or "indices", dtype), each of the first ``count`` places."""
    along = normalize_axis(axis, data.ndim)
    extent = data.shape[along]
    outer = [item for position, item in enumerate(data.shape) if position != along]
    shape = [*data.shape[:along], count, *data.shape[along + 1 :]]

    def build(ins: Any, outs: Any) -> Any:
        source = ins[0]

        def row(number: Any) -> Any:
            rest = unravel_index(number, outer) if outer else []
            positions = decl_buffer((extent,), extent.dtype, "positions")
            scratch = decl_buffer((extent,), extent.dtype, "scratch")

            def value(position: Any) -> Any:
                return source[tuple([*rest[:along], position, *rest[along:]])]

            def before(a: Any, b: Any) -> Any:
                first, second = value(a), value(b)
                in_order = first <= second if is_ascend else first >= second
                if not dt.is_float(data.dtype):
                    return in_order
                # NaN is greater than every number.
                nan = second if is_ascend else first
                return _or(in_order, nan != nan)

            def emit(place: Any) -> Any:
                target = [*rest[:along], place, *rest[along:]]
                stores = []
                for result, (what, kind) in zip(outs, outputs, strict=True):
                    found = value(positions[place]) if what == "values" else positions[place]
                    stores.append(loops.store(result, target, cast(kind, found)))
                return loops.seq(*stores)

            body = loops.seq(
                _merge_sort(source, positions, scratch, before, extent), loops.loop(count, emit, "o")
            )
            return loops.scope(f"{name}_row", [source], list(outs), [positions, scratch], body)

        return loops.parallel(product(outer), row)

    return extern([shape] * len(outputs), [data], build, name=name, dtype=[kind for _, kind in outputs])


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Elements in order along ``axis``."""
    along = normalize_axis(axis, data.ndim)
    return _sorted_rows(data, along, is_ascend, "sort_cpu", [("values", data.dtype)], data.shape[along])


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
    return _sorted_rows(data, along, is_ascend, "argsort_cpu", [("indices", dtype)], data.shape[along])


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
    return _sorted_rows(data, along, is_ascend, "topk_cpu", wanted[ret_type], count)


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
