"""Reductions over axes: sum, product, extremes, their positions, and logical ones.

``axis`` is an axis, a list, or None for all; with ``keepdims`` reduced axes stay with extent 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..te import reduction as R
from ..te.tensor import Tensor
from ..tir.expr import IntImm, IterVar, PrimExpr, Range, Select, Var
from ..tir.op import max_identity, max_value, min_identity
from ..tir.operators import const
from ..tir.operators import logical_and as _and
from ..tir.operators import logical_or as _or
from . import tag
from .accumulate import accumulator, rounded
from .broadcast import _is_one
from .shape import ax_compute, index_dtype, normalize_axes, ravel_index, shape_of
from .transform import reshape


def _reduce_axes(data: Tensor, axes: list[int]) -> list[IterVar]:
    return [
        IterVar(
            Range.from_min_extent(const(0, data.shape[axis].dtype), data.shape[axis]),
            Var(f"k{axis}", data.shape[axis].dtype),
            IterVar.CommReduce,
        )
        for axis in axes
    ]


def _reduced_shape(data: Tensor, axes: list[int], keepdims: bool) -> list[PrimExpr]:
    if keepdims:
        return [const(1, extent.dtype) if axis in axes else extent for axis, extent in enumerate(data.shape)]
    return [extent for axis, extent in enumerate(data.shape) if axis not in axes]


def _source_indices(
    data: Tensor, indices: tuple[Any, ...], axes: list[int], inner: list[IterVar], keepdims: bool
) -> list[Any]:
    """Where an output element reads: its own indices, with the reduction axes put in."""
    by_axis = dict(zip(axes, inner, strict=True))
    outer = iter(indices)
    found: list[Any] = []
    for axis in range(data.ndim):
        if axis in by_axis:
            found.append(by_axis[axis].var)
            if keepdims:
                next(outer)
        else:
            found.append(next(outer))
    return found


def comm_reduce(
    data: Tensor,
    axis: Any,
    keepdims: bool,
    reducer: Callable[..., Any],
    convert: Callable[[Any], Any] | None = None,
) -> Tensor:
    """Reduce ``data`` by a te reducer; with no axis to reduce the elements are what they are (after ``convert``)."""
    axes = sorted(normalize_axes(axis, data.ndim))
    inner = _reduce_axes(data, axes)

    def element(indices: tuple[Any, ...]) -> Any:
        value = data(*_source_indices(data, indices, axes, inner, keepdims))
        value = value if convert is None else convert(value)
        return reducer(value, inner) if inner else value

    return ax_compute(_reduced_shape(data, axes, keepdims), element, f"{data.op.name}_red", tag.COMM_REDUCE)


def sum(data: Tensor, axis: Any = None, keepdims: bool = False, dtype: str | None = None) -> Tensor:
    """Sum; bool is summed as it is (any), integers and floats keep their dtype.

    Floats narrower than float32 are summed in that and rounded once. With ``dtype`` elements are cast to it first, and the sum
    stays in what it was taken in.
    """
    if data.dtype == "bool" and dtype is None:
        return comm_reduce(data, axis, keepdims, R.reduce_any)
    total = accumulator(dtype or data.dtype)
    found = comm_reduce(data, axis, keepdims, R.sum, lambda value: value.astype(total))
    return found if dtype is not None else rounded(found, data.dtype)


def prod(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Product; of floats narrower than float32 in that, rounded once."""
    total = accumulator(data.dtype)
    return rounded(comm_reduce(data, axis, keepdims, R.prod, lambda value: value.astype(total)), data.dtype)


def max(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Largest element."""
    return comm_reduce(data, axis, keepdims, R.max)


def min(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Smallest element."""
    return comm_reduce(data, axis, keepdims, R.min)


def all(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all bool elements are true; raises IRTypeError for other dtypes."""
    _require_bool("all", data)
    return comm_reduce(data, axis, keepdims, R.reduce_all)


def any(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any bool element is true; raises IRTypeError for other dtypes."""
    _require_bool("any", data)
    return comm_reduce(data, axis, keepdims, R.reduce_any)


def _require_bool(name: str, data: Tensor) -> None:
    if data.dtype != "bool":
        raise IRTypeError(
            f"{name} needs a bool tensor, {data.name} is {data.dtype}; compare or cast it first"
        )


def _arg_reducer(largest: bool, select_last_index: bool) -> Callable[..., Any]:
    """A reducer of (position, value) pairs; among equal values the first (or last) position wins, and NaN beats all numbers.

    The order of pairs is total, so that the reduction may be taken apart and put together in any way.
    """

    def combine(lhs: Any, rhs: Any) -> tuple[Any, Any]:
        (here, value), (there, other) = lhs, rhs
        wins = value > other if largest else value < other
        earlier = here > there if select_last_index else here < there
        take = _or(wins, _and(value.equal(other), earlier))
        if dt.is_float(value.dtype):
            is_nan = value != value
            take = _or(take, _and(is_nan, _or(other.equal(other), earlier)))
            wins = _or(wins, is_nan)
        return Select(take, here, there), Select(wins, value, other)

    def identity(index: str, value: str) -> tuple[PrimExpr, PrimExpr]:
        # Data may equal the identity's value: the identity's position loses every tie.
        nowhere = const(-1, index) if select_last_index else max_value(index)
        return nowhere, max_identity(value) if largest else min_identity(value)

    return R.comm_reducer(combine, identity, "argmax" if largest else "argmin")


def _arg_reduce(data: Tensor, axis: Any, keepdims: bool, reducer: Callable[..., Any], dtype: str) -> Tensor:
    axes = sorted(normalize_axes(axis, data.ndim))
    if data.ndim == 0:
        return ax_compute((), lambda i: const(0, dtype), f"{data.op.name}_red", tag.COMM_REDUCE_IDX)
    if not axes:
        raise IRValueError(f"{data.name}: argmax and argmin need at least one axis to reduce")
    empty = [item for item in axes if isinstance(data.shape[item], IntImm) and data.shape[item].value == 0]  # type: ignore[attr-defined]
    if empty:
        raise IRValueError(
            f"{data.name}: argmax and argmin have no position along axis {empty[0]} of extent 0"
        )
    inner = _reduce_axes(data, axes)
    shape = _reduced_shape(data, axes, keepdims)
    extents = [data.shape[item] for item in axes]

    def pair(indices: tuple[Any, ...]) -> Any:
        position = ravel_index([item.var for item in inner], extents)
        value = data(*_source_indices(data, indices, axes, inner, keepdims))
        return reducer((position.astype(dtype), value), inner)

    pairs: Any = ax_compute(shape, pair, f"{data.op.name}_red_temp", tag.COMM_REDUCE_IDX)
    positions = pairs[0]
    return ax_compute(shape, lambda i: positions(*i), f"{data.op.name}_red", tag.COMM_REDUCE_IDX)


def argmax(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """Position of the largest element along ``axis`` (in the flattened axes for several), in the index dtype."""
    return _arg_reduce(data, axis, keepdims, _arg_reducer(True, select_last_index), index_dtype(data.shape))


def argmin(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """Position of the smallest element along ``axis``; see :func:`argmax`."""
    return _arg_reduce(data, axis, keepdims, _arg_reducer(False, select_last_index), index_dtype(data.shape))


def collapse_sum(data: Tensor, target_shape: Any) -> Tensor:
    """Sum over the axes that broadcasting ``target_shape`` to ``data`` repeats: the gradient of a broadcast."""
    wanted = shape_of(target_shape)
    extra = data.ndim - len(wanted)
    axes = list(range(extra))
    axes += [
        axis + extra
        for axis, extent in enumerate(wanted)
        if _is_one(extent) and not _is_one(data.shape[axis + extra])
    ]
    if not axes:
        return data
    return reshape(sum(data, axes, keepdims=False), wanted)
