"""Sorting along an axis, and the first elements in order, parallel over the other axes.

Equal elements keep their order; NaN counts as greater than every number, as in numpy and PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtype as dt
from ..error import IRValueError
from ..te.access_region import point_region
from ..te.operation import extern
from ..te.tensor import Tensor
from ..tir.buffer import decl_buffer
from ..tir.expr import IntImm
from ..tir.operators import cast, const, convert
from ..tir.operators import logical_and as _and
from ..tir.operators import logical_or as _or
from ..tir.stmt import While
from . import loops
from .row_algorithms import ordered_row
from .row_order import RowOrder
from .shape import normalize_axis, product, simplify, unravel_index


def _ordered_rows(
    data: Tensor, axis: int, descending: bool, outputs: Sequence[tuple[str, str]], count: Any, name: str
) -> Any:
    """The first ``count`` places in order of each row along an axis.

    Args:
        outputs: ("values" or "indices", dtype) of each result.
    """
    order = RowOrder(axis, descending, tuple(what for what, _ in outputs))
    outer = [extent for position, extent in enumerate(data.shape) if position != axis]

    def build(ins: Any, outs: Any) -> Any:
        return loops.parallel(
            product(outer), lambda number: ordered_row(order, ins[0], outs, number, f"{name}_row")
        )

    shape = [*data.shape[:axis], count, *data.shape[axis + 1 :]]
    kinds = [kind for _, kind in outputs]
    return extern([shape] * len(kinds), [data], build, name=name, dtype=kinds)


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Elements in order along ``axis``."""
    along = normalize_axis(axis, data.ndim)
    return _ordered_rows(data, along, not is_ascend, [("values", data.dtype)], data.shape[along], "sort_cpu")


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
    return _ordered_rows(data, along, not is_ascend, [("indices", dtype)], data.shape[along], "argsort_cpu")


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
    return _ordered_rows(data, along, not is_ascend, wanted[ret_type], count, "topk_cpu")


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
            reads, writes = [sequence, point_region(wanted, place)], [point_region(result, place)]
            return loops.scope("search", reads, writes, [bounds], body)

        return loops.parallel(product(values.shape), one)

    return extern(values.shape, [sorted_sequence, values], build, name="searchsorted", dtype=dtype)
