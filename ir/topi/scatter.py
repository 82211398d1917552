"""Operators that write at computed positions: copies of the data, then updates, those of one element one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..error import IRValueError
from ..te.access_region import full_region, point_region
from ..te.operation import extern
from ..te.tensor import Tensor
from ..tir.buffer import Buffer
from ..tir.expr import IterVar, Range, Var
from ..tir.operators import const, convert, floordiv
from ..tir.operators import max as _max
from ..tir.operators import min as _min
from ..tir.stmt import Block, BlockRealize, BufferRegion, ForKind, Stmt
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


def _copy(source: Buffer, result: Buffer, name: str) -> Stmt:
    """Each element by a block with variables of its own, so that whoever schedules it sees what it needs."""
    extents = list(source.shape)

    def element(indices: list[Any]) -> Stmt:
        axes = [
            IterVar(
                Range.from_min_extent(const(0, index.dtype), extent),
                Var(f"v_{index.name}", index.dtype),
                IterVar.DataPar,
            )
            for index, extent in zip(indices, extents, strict=True)
        ]
        at = [axis.var for axis in axes]
        block = Block(
            axes,
            [point_region(source, at)],
            [point_region(result, at)],
            f"{name}_copy",
            loops.store(result, at, source[tuple(at)]),
        )
        return BlockRealize(indices, const(True), block)

    return loops.nest(extents, element, _kind(extents))


@dataclass(frozen=True)
class _Updated:
    """A copy of the data, then loops over updates, in order for each element.

    Attributes:
        name: of the operator.
        extents: of the updates.
        kept: for each axis along which an update is where its element is, the axis of the result: what differs in one may run at the
            same time.
        source, result: the data, and what they become.
        reads: what updates read beside the result.
        update: the statement of one update, from its indices.
    """

    name: str
    extents: Sequence[Any]
    kept: Mapping[int, int]
    source: Buffer
    result: Buffer
    reads: Sequence[Buffer]
    update: Callable[[list[Any]], Stmt]

    def statement(self) -> Stmt:
        """All of it."""
        return loops.seq(_copy(self.source, self.result, self.name), self._updates())

    def _updates(self) -> Stmt:
        """The loops over updates: parallel over slices or chunks along an axis that is kept, where there is one."""
        extents, last = list(self.extents), len(self.extents) - 1
        wide = (axis for axis in self.kept if axis != last and not _is_one(extents[axis]))
        outer = next(wide, None)
        if outer is not None:
            others = [*extents[:outer], *extents[outer + 1 :]]

            def slice_of(at: Any) -> Stmt:
                body = loops.nest(others, lambda i: self.update([*i[:outer], at, *i[outer:]]))
                return self._block(body, outer, at, const(1, at.dtype))

            return loops.loop(extents[outer], slice_of, "slice", _kind(extents))
        if last not in self.kept:
            return self._block(loops.nest(extents, self.update))
        extent = convert(extents[last])
        full = const(_CHUNK, extent.dtype)
        are_full = is_const(extent) and as_int(extent) % _CHUNK == 0

        def chunk(number: Any) -> Stmt:
            begin = number * full
            width = full if are_full else _min(full, extent - begin)
            body = loops.nest([*extents[:last], width], lambda i: self.update([*i[:last], begin + i[last]]))
            return self._block(body, last, begin, width)

        return loops.loop(floordiv(extent + (_CHUNK - 1), _CHUNK), chunk, "chunk", _kind(extents))

    def _block(self, body: Stmt, axis: int | None = None, begin: Any = None, extent: Any = None) -> Stmt:
        """The block of some updates, which are so many along an axis from some place on, or all of them."""
        region = full_region(self.result)
        if axis is not None:
            ranges = list(region.region)
            ranges[self.kept[axis]] = Range.from_min_extent(begin, extent)
            region = BufferRegion(self.result, ranges)
        return loops.scope(f"{self.name}_updates", [*self.reads, region], [region], [], body)


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

        kept = {axis: axis for axis in range(data.ndim) if axis != along}
        reads = [where, new]
        return _Updated("scatter_elements", indices.shape, kept, source, result, reads, update).statement()

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
        kept = {axis: axis - outer + count for axis in range(outer, len(extents))}
        return _Updated("scatter_nd", extents, kept, source, result, [where, new], update).statement()

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

        kept = {axis: axis - len(shape) + len(parts) for axis in range(len(shape), len(full_shape))}
        return _Updated("index_put", full_shape, kept, source, result, [new, *where], update).statement()

    return extern(data.shape, [data, values, *parts], build, name="index_put", dtype=data.dtype)
