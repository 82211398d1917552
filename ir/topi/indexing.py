"""Operators that read at computed positions: take, gather, embedding, where, unravelled indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtype as dt
from ..error import IRValueError
from ..te.operation import compute
from ..te.tensor import Tensor
from ..tir import op as T
from ..tir.expr import IntImm, PrimExpr, Select
from ..tir.operators import cast, const, convert, floordiv, floormod, operands
from ..tir.operators import max as _max
from ..tir.operators import min as _min
from . import tag
from .broadcast import broadcast_indices, broadcast_shape
from .shape import as_int, ax_compute, normalize_axis, product, unravel_index

_MODES = ("clip", "wrap", "fast", "nan")


def with_extent(index: PrimExpr, extent: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """An index, and an extent or a position below one, in a dtype that holds both: narrow indices know only small extents."""
    bits, needed = dt.bits(index.dtype), dt.bits(extent.dtype)
    if not dt.is_int(index.dtype) and needed <= bits < 64:
        wide = "int64"
    else:
        wide = index.dtype if bits >= needed else extent.dtype
    return cast(wide, index), cast(wide, extent)


def in_range(index: PrimExpr, extent: PrimExpr, mode: str) -> PrimExpr:
    """An index made to fit ``extent``; "fast" trusts it, apart from counting negatives from the end, and "nan" has it checked."""
    if mode == "clip":
        wide, size = with_extent(index, extent)
        return _min(_max(const(0, wide.dtype), wide), size - 1)
    if mode == "wrap":
        return floormod(*with_extent(index, extent))
    return from_end(index, extent) if mode == "fast" else index


def from_end(index: PrimExpr, extent: PrimExpr) -> PrimExpr:
    """An index, where a negative one counts from the end."""
    if not dt.is_int(index.dtype) or (isinstance(index, IntImm) and index.value >= 0):
        return index
    wide, size = with_extent(index, extent)
    return Select(index < 0, wide + size, wide)


def take(a: Tensor, indices: Any, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Tensor:
    """Slices of ``a`` at ``indices`` along ``axis`` (the flattened tensor for None).

    ``mode``: "clip" moves indices into range, "wrap" counts modulo the extent, "fast" trusts them (negative ones count from
    the end), "nan" gives NaN for those out of range. The first ``batch_dims`` axes of both tensors are shared.
    """
    if mode not in _MODES:
        raise IRValueError(f"take: mode must be one of {_MODES}, got {mode!r}")
    if not isinstance(indices, Tensor):
        return _take_scalar(a, indices, axis, mode)
    if axis is None:
        total = product(a.shape)

        def flat(i: tuple[Any, ...]) -> PrimExpr:
            index = indices(*i)
            return _nan_outside(a(*unravel_index(in_range(index, total, mode), a.shape)), index, total, mode)

        return ax_compute(indices.shape, flat, "T_take", tag.INJECTIVE)
    along = normalize_axis(axis, a.ndim)
    batch = batch_dims if batch_dims >= 0 else indices.ndim + batch_dims
    shape = [*a.shape[:along], *indices.shape[batch:], *a.shape[along + 1 :]]
    count = indices.ndim - batch

    def element(i: tuple[Any, ...]) -> PrimExpr:
        index = indices(*i[:batch], *i[along : along + count])
        value = a(*i[:along], in_range(index, a.shape[along], mode), *i[along + count :])
        return _nan_outside(value, index, a.shape[along], mode)

    return ax_compute(shape, element, "T_take", tag.INJECTIVE)


def _take_scalar(a: Tensor, index: Any, axis: int | None, mode: str) -> Tensor:
    along = normalize_axis(0 if axis is None else axis, a.ndim)
    position = convert(index)
    shape = [*a.shape[:along], *a.shape[along + 1 :]]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        value = a(*i[:along], in_range(position, a.shape[along], mode), *i[along:])
        return _nan_outside(value, position, a.shape[along], mode)

    return ax_compute(shape, element, "T_take", tag.INJECTIVE)


def _nan_outside(value: PrimExpr, index: PrimExpr, extent: PrimExpr, mode: str) -> PrimExpr:
    if mode != "nan":
        return value
    inside = T.all(index >= 0, index < extent)
    return T.if_then_else(inside, value, const(float("nan"), value.dtype))


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """``out[.., i, ..] = data[.., indices[.., i, ..], ..]`` along ``axis``; the shape of ``indices``.

    Negative indices count from the end.
    """
    along = normalize_axis(axis, data.ndim)
    if indices.ndim != data.ndim:
        raise IRValueError(
            f"gather: data has {data.ndim} dimensions, indices {indices.ndim}; they must agree"
        )
    return ax_compute(
        indices.shape,
        lambda i: data(*i[:along], from_end(indices(*i), data.shape[along]), *i[along + 1 :]),
        "T_gather",
        tag.INJECTIVE,
    )


def gather_elements(data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """:func:`gather` with the arguments in ONNX's order."""
    along = normalize_axis(axis, data.ndim)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return data(*i[:along], from_end(indices(*i), data.shape[along]), *i[along + 1 :])

    return ax_compute(indices.shape, element, "T_gather_elements", tag.INJECTIVE)


def gather_nd(data: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Slices of ``data`` at index tuples that stand along the first axis of ``indices``.

    ``indices`` has shape ``(M, Y...)``; the result ``(Y..., data.shape[batch_dims + M:])``, the first ``batch_dims`` axes
    of Y being shared with data. Negative indices count from the end.
    """
    count = as_int(indices.shape[0], "the number of indices in a tuple")
    outer = indices.shape[1:]
    if count + batch_dims > data.ndim:
        raise IRValueError(f"gather_nd: tuples of {count} indices do not fit {data.ndim} dimensions")
    shape = [*outer, *data.shape[batch_dims + count :]]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        places = i[: len(outer)]
        tuple_index = [
            from_end(
                indices(const(number, i[0].dtype if i else "int32"), *places), data.shape[batch_dims + number]
            )
            for number in range(count)
        ]
        return data(*places[:batch_dims], *tuple_index, *i[len(outer) :])

    return ax_compute(shape, element, "T_gather_nd", tag.INJECTIVE)


def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """``x`` where the condition holds, else ``y``; all three broadcast."""
    parts = [item for item in (condition, x, y) if isinstance(item, Tensor)]
    shape = broadcast_shape(*[item.shape for item in parts])

    def element(i: tuple[Any, ...]) -> PrimExpr:
        test, first, second = (
            item(*broadcast_indices(i, item.shape, shape)) if isinstance(item, Tensor) else item
            for item in (condition, x, y)
        )

        first, second = operands(first, second)
        flag = (cast("int32", test) if test.dtype == "bool" else test) != 0
        return Select(flag, first, second)

    return ax_compute(shape, element, "T_where", tag.BROADCAST)


def unravel_index_of(x: Tensor, shape: Tensor | Sequence[Any]) -> Tensor:
    """Indices of flat positions ``x`` in an array of ``shape``, along a new first axis."""
    if isinstance(shape, Tensor):
        count = as_int(shape.shape[0], "the rank of the shape")
        extents: Any = [lambda number=number: shape(const(number)) for number in range(count)]
    else:
        count = len(shape)
        extents = [lambda item=item: item for item in shape]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        rest = x(*i[1:])
        found = []
        for extent in reversed(extents):
            size = extent()
            found.append(floormod(rest, size))
            rest = floordiv(rest, size)
        value = found[0]
        for axis, item in enumerate(found[1:], 1):
            value = T.if_then_else(i[0].equal(count - 1 - axis), item, value)
        return value

    return ax_compute([const(count), *x.shape], element, "T_unravel", tag.INJECTIVE)


def embed(table: Tensor, indices: Tensor) -> Tensor:
    """Rows of ``table`` at ``indices``; negative ones count from the end."""
    return compute(
        (*indices.shape, *table.shape[1:]),
        lambda *i: table(from_end(indices(*i[: indices.ndim]), table.shape[0]), *i[indices.ndim :]),
        name="T_embed",
        tag=tag.INJECTIVE,
    )
