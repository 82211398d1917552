"""Operators that write at computed positions: copies of the data, then updates, those of one element one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..error import IRValueError
from ..te.operation import extern
from ..te.tensor import Tensor
from ..tir.operators import const, convert, floordiv
from ..tir.operators import max as _max
from ..tir.operators import min as _min
from ..tir.stmt import ForKind
from . import loops
from .broadcast import broadcast_indices, broadcast_shape, divide, floor_divide
from .indexing import from_end
from .math import full_like
from .shape import as_int, is_const, normalize_axis

_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": lambda old, new: _min(old, new),
    "max": lambda old, new: _max(old, new),
}


def _combiner(name: str, reduction: str) -> Callable[[Any, Any], Any]:
    try:
        return _REDUCTIONS[reduction]
    except KeyError:
        known = sorted(_REDUCTIONS)
        raise IRValueError(f"{name}: reduction must be one of {known}, got {reduction!r}") from None


_SMALL = 1 << 16
"""Elements up to which waking other cores costs more than it saves."""

_CHUNK = 64
"""Neighbouring elements that one job updates: whole cache lines, which no two jobs share."""


def _kind(extents: Sequence[Any]) -> ForKind:
    """How a loop over elements of their own runs."""
    sizes = [as_int(extent, "an extent") for extent in extents if is_const(extent)]
    return ForKind.SERIAL if len(sizes) == len(extents) and prod(sizes) <= _SMALL else ForKind.PARALLEL


def _is_one(extent: Any) -> bool:
    return is_const(extent) and as_int(extent) == 1


def _copy(source: Any, result: Any) -> Any:
    extents = list(source.shape)
    return loops.nest(extents, lambda i: loops.store(result, i, source[tuple(i)]), _kind(extents))


def _updates(extents: Sequence[Any], kept: Sequence[int], update: Callable[[list[Any]], Any]) -> Any:
    """Loops over updates, in order for each element.

    Args:
        extents: of the updates.
        kept: axes along which an update is where its element is: what differs in one may run at the same time.
        update: the statement of one update, from its indices.
    """
    if _kind(extents) == ForKind.SERIAL:
        return loops.nest(extents, update)
    last = len(extents) - 1
    wide = (axis for axis in kept if axis != last and not _is_one(extents[axis]))
    outer = next(wide, None)
    if outer is not None:
        others = [*extents[:outer], *extents[outer + 1 :]]

        def slice_of(at: Any) -> Any:
            return loops.nest(others, lambda i: update([*i[:outer], at, *i[outer:]]))

        return loops.parallel(extents[outer], slice_of, "slice")
    if last not in kept:
        return loops.nest(extents, update)
    extent = convert(extents[last])

    def chunk(number: Any) -> Any:
        begin = number * const(_CHUNK, extent.dtype)
        width = _min(const(_CHUNK, extent.dtype), extent - begin)
        return loops.nest([*extents[:last], width], lambda i: update([*i[:last], begin + i[last]]))

    return loops.parallel(floordiv(extent + (_CHUNK - 1), _CHUNK), chunk, "chunk")


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """``data`` with ``out[.., indices[.., i, ..], ..]`` combined with ``updates[.., i, ..]`` along ``axis``.

    ``reduction`` is "update", "add", "mul", "mean", "min" or "max"; "mean" includes the old element.
    """
    along = normalize_axis(axis, data.ndim)
    if reduction == "mean":
        return _scatter_mean(data, indices, updates, along)
    combine = _combiner("scatter_elements", reduction)

    def build(ins: Any, outs: Any) -> Any:
        source, where, new = ins
        result = outs[0]

        def update(i: Any) -> Any:
            target = list(i)
            target[along] = from_end(where[tuple(i)], data.shape[along])
            return loops.store(result, target, combine(result[tuple(target)], new[tuple(i)]))

        kept = [axis for axis in range(data.ndim) if axis != along]
        return loops.seq(_copy(source, result), _updates(list(indices.shape), kept, update))

    return extern(data.shape, [data, indices, updates], build, name="scatter_elements", dtype=data.dtype)


def _scatter_mean(data: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    total = scatter_elements(data, indices, updates, axis, "add")
    count = scatter_elements(full_like(data, 1), indices, full_like(updates, 1), axis, "add")
    return divide(total, count) if data.dtype.startswith(("float", "bfloat")) else floor_divide(total, count)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """``data`` with slices at index tuples combined with ``updates``.

    ``indices`` has shape ``(M, Y...)``: the tuples stand along its first axis. ``updates`` has shape
    ``(Y..., data.shape[M:])``. ``mode`` is "update", "add", "mul", "min" or "max".
    """
    combine = _combiner("scatter_nd", mode)
    count = as_int(indices.shape[0], "the number of indices in a tuple")
    outer = indices.ndim - 1

    def build(ins: Any, outs: Any) -> Any:
        source, where, new = ins
        result = outs[0]

        def update(i: Any) -> Any:
            first = i[0].dtype if i else "int32"
            found = [where[(const(number, first), *i[:outer])] for number in range(count)]
            target = [from_end(item, data.shape[number]) for number, item in enumerate(found)]
            target += i[outer:]
            return loops.store(result, target, combine(result[tuple(target)], new[tuple(i)]))

        extents = [*indices.shape[1:], *data.shape[count:]]
        return loops.seq(_copy(source, result), _updates(extents, range(outer, len(extents)), update))

    return extern(data.shape, [data, indices, updates], build, name="scatter_nd", dtype=data.dtype)


def index_put(data: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """``data[indices] = values`` (``+=`` with ``accumulate``) for index tensors of the first axes, which broadcast."""
    parts = list(indices)
    if len(parts) > data.ndim:
        raise IRValueError(f"index_put: {len(parts)} index tensors for {data.ndim} dimensions")
    shape = broadcast_shape(*[item.shape for item in parts])
    full_shape = [*shape, *data.shape[len(parts) :]]

    def build(ins: Any, outs: Any) -> Any:
        source, new, *where = ins
        result = outs[0]

        def update(i: Any) -> Any:
            outer = i[: len(shape)]
            target = [
                from_end(item[tuple(broadcast_indices(outer, item.shape, shape))], data.shape[axis])
                for axis, item in enumerate(where)
            ]
            target += i[len(shape) :]
            value = new[tuple(broadcast_indices(i, new.shape, full_shape))]
            return loops.store(result, target, result[tuple(target)] + value if accumulate else value)

        kept = range(len(shape), len(full_shape))
        return loops.seq(_copy(source, result), _updates(full_shape, kept, update))

    return extern(data.shape, [data, values, *parts], build, name="index_put", dtype=data.dtype)
