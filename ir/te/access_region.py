"""The regions that a block of a tensor expression reads and writes, exactly, from the indices of its loads.

One load gives a point; several loads of a buffer give the smallest box around them, whose size is a constant
where the indices differ by constants (a stencil).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import dtype as dt
from ..arith.analyzer import Analyzer
from ..node import Visitor, post_order_visit
from ..structural import structural_equal
from ..tir.buffer import Buffer
from ..tir.expr import BufferLoad, Cast, Div, IntImm, Mod, PrimExpr, Range, Var
from ..tir.operators import const, convert, subtract
from ..tir.operators import max as _max
from ..tir.operators import min as _min
from ..tir.stmt import BufferRegion
from ..tir.stmt_functor import loads_in


class _LoadCollector(Visitor):
    """Every index tuple by buffer, in the order in which the loads are met: a load before the loads in its indices."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Buffer, list[tuple[PrimExpr, ...]]] = {}
        self._seen: set[int] = set()

    def visit(self, node: Any) -> Any:
        if id(node) not in self._seen:
            self._seen.add(id(node))
            super().visit(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.found.setdefault(node.buffer, []).append(node.indices)
        for index in node.indices:
            self.visit(index)

    def visit_Buffer(self, node: Buffer) -> None:
        """A buffer's own shape is no access."""


def load_regions(
    values: Iterable[PrimExpr], analyzer: Analyzer, exclude: Sequence[Buffer] = ()
) -> list[BufferRegion]:
    """The boxes of the buffers that ``values`` load from, in order of first use, without those in ``exclude``."""
    collector = _LoadCollector()
    for value in values:
        collector.visit(value)
    return [
        BufferRegion(buffer, _bounding_box(buffer, accesses, analyzer))
        for buffer, accesses in collector.found.items()
        if all(buffer is not item for item in exclude)
    ]


def point_region(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
    """The region of one element."""
    return BufferRegion(buffer, [Range.from_min_extent(index, const(1, index.dtype)) for index in indices])


def full_region(buffer: Buffer) -> BufferRegion:
    """The whole buffer."""
    return BufferRegion(
        buffer, [Range.from_min_extent(const(0, extent.dtype), extent) for extent in buffer.shape]
    )


def line_region(buffer: Buffer, indices: Sequence[Any], axis: int) -> BufferRegion:
    """The region of all elements along an axis, at ``indices`` of the other axes."""
    extent = buffer.shape[axis]
    whole = Range.from_min_extent(const(0, extent.dtype), extent)
    points = [Range.from_min_extent(index, const(1, index.dtype)) for index in map(convert, indices)]
    return BufferRegion(buffer, [*points[:axis], whole, *points[axis:]])


def _bounding_box(buffer: Buffer, accesses: list[tuple[PrimExpr, ...]], analyzer: Analyzer) -> list[Range]:
    return [
        _cover([indices[axis] for indices in accesses], extent, analyzer)
        for axis, extent in enumerate(buffer.shape)
    ]


def _cover(indices: list[PrimExpr], extent: PrimExpr, analyzer: Analyzer) -> Range:
    distinct: list[PrimExpr] = []
    for index in indices:
        if not any(index is item or structural_equal(index, item) for item in distinct):
            distinct.append(index)
    whole = Range.from_min_extent(const(0, extent.dtype), extent)
    if any(_is_opaque(index) for index in distinct):
        return whole
    first = distinct[0]
    if len(distinct) == 1:
        return Range.from_min_extent(first, const(1, first.dtype))
    offsets = [
        distance.value
        for index in distinct
        if isinstance(distance := analyzer.simplify(subtract(index, first)), IntImm)
    ]
    if len(offsets) == len(distinct):
        low, high = min(offsets), max(offsets)
        lowest = distinct[offsets.index(low)]
        return Range.from_min_extent(lowest, const(high - low + 1, first.dtype))
    if any(loads_in(index) for index in distinct):
        return whole
    lowest, highest = first, first
    for index in distinct[1:]:
        lowest, highest = _min(lowest, index), _max(highest, index)
    lowest = analyzer.simplify(lowest)
    return Range.from_min_extent(lowest, analyzer.simplify(highest + 1 - lowest))


def _is_opaque(index: PrimExpr) -> bool:
    """Whether interval arithmetic cannot follow the index: truncating division, or a number that was a float."""
    found: list[bool] = []

    def check(node: Any) -> None:
        if isinstance(node, Div | Mod) or (isinstance(node, Cast) and dt.is_float(node.value.dtype)):
            found.append(True)

    if isinstance(index, Var):
        return False
    post_order_visit(index, check)
    return bool(found)
