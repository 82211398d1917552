"""What sorting and top-k compute of one row: a declaration that a block carries, and the parts of which every algorithm for it is made.

    with T.block("topk_cpu_row"):
        T.block_attr({"row_order": {"axis": 1, "descending": True, "results": ["values", "indices"]}})

The declaration says which elements of a row are wanted, not how they are found. That is one of :mod:`.row_algorithms`, which all give the
same to the bit: equal elements keep their order, and NaN counts as greater than every number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..error import IRValueError
from ..te.access_region import line_region
from ..tir.buffer import Buffer
from ..tir.expr import IntImm, PrimExpr
from ..tir.operators import cast
from ..tir.stmt import BufferRegion, Stmt
from . import loops
from .shape import unravel_index
from .sort_keys import key_bits, key_of
from .sort_records import Record, Records

ROW_ORDER = "row_order"
"""The annotation of a block that computes one row."""
RESULTS = ("values", "indices")


@dataclass(frozen=True)
class RowOrder:
    """Which elements of a row are wanted.

    Attributes:
        axis: along which rows lie.
        descending: the largest first.
        results: for each buffer that is written, whether it gets elements ("values") or their positions ("indices"). How many are
            wanted is its extent along ``axis``.
    """

    axis: int
    descending: bool
    results: tuple[str, ...]

    def annotation(self) -> dict[str, Any]:
        """The declaration as a block carries it."""
        return {"axis": self.axis, "descending": self.descending, "results": list(self.results)}

    @staticmethod
    def declared(annotation: Any) -> RowOrder:
        """What a block declares.

        Raises:
            IRValueError: it is no such declaration.
        """
        if isinstance(annotation, Mapping) and set(annotation) == {"axis", "descending", "results"}:
            axis, results = annotation["axis"], annotation["results"]
            if isinstance(axis, int) and isinstance(results, list | tuple) and set(results) <= set(RESULTS):
                return RowOrder(axis, bool(annotation["descending"]), tuple(results))
        raise IRValueError(
            f"annotation {ROW_ORDER!r} must tell axis, descending and results ({' or '.join(RESULTS)}), got {annotation!r}"
        )


class Row:
    """One row of a tensor, as algorithms see it.

    Args:
        order: what is wanted of it.
        source: the tensor.
        outs: where the results go.
        number: of the row, among all places of the other axes.

    Raises:
        IRValueError: there is no such axis, or another number of results.
    """

    def __init__(self, order: RowOrder, source: Buffer, outs: Sequence[Buffer], number: Any) -> None:
        if not 0 <= order.axis < len(source.shape) or len(order.results) != len(outs):
            raise IRValueError(
                f"{order} does not fit {source.name} of {len(source.shape)} dimensions and {len(outs)} results"
            )
        self._order, self._source, self._outs = order, source, list(outs)
        outer = [extent for axis, extent in enumerate(source.shape) if axis != order.axis]
        self._rest = unravel_index(number, outer) if outer else []
        self.dtype = source.dtype
        self.descending = order.descending
        self.extent: PrimExpr = source.shape[order.axis]
        self.count: PrimExpr = cast(self.extent.dtype, outs[0].shape[order.axis])
        self.index: str = self.extent.dtype
        self.key_bits = key_bits(source.dtype)

    @property
    def known_extent(self) -> int | None:
        """How many elements there are; None where that is not known yet."""
        return self.extent.value if isinstance(self.extent, IntImm) else None

    @property
    def known_count(self) -> int | None:
        """How many are wanted; None where that is not known yet."""
        return self.count.value if isinstance(self.count, IntImm) else None

    def value(self, position: Any) -> PrimExpr:
        """An element."""
        return self._source[tuple(self._place(position))]

    def key(self, position: Any) -> PrimExpr:
        """What stands for an element: the smaller, the earlier it is wanted."""
        return key_of(self.value(position), descending=self.descending)

    def record(self, records: Records, position: PrimExpr) -> Record:
        """An element's key and position."""
        return records.make(self.key(position), position)

    def memory(self, size: Any) -> tuple[Records, Records, list[Buffer]]:
        """Two memories for so many records, and all buffers of them."""
        records, scratch = (
            Records.declare(size, self.key_bits, self.index, name) for name in ("records", "scratch")
        )
        return records, scratch, [*records.fields, *scratch.fields]

    def block(self, name: str, sort: Stmt, found: Records, memory: Sequence[Buffer]) -> Stmt:
        """The block that computes the row: ``sort`` leaves what is wanted in order at the begin of ``found``."""

        def emit(number: Any) -> Stmt:
            return self.emit(number, found.position(number, self.index))

        return self.whole_block(name, loops.seq(sort, loops.loop(self.count, emit, "o")), memory)

    def emit(self, number: Any, position: Any) -> Stmt:
        """Store the results of one place in order: the element that stands there comes from a position."""

        def write(position: Any) -> Stmt:
            return loops.seq(
                *[
                    loops.store(
                        result,
                        self._place(number),
                        cast(result.dtype, self.value(position) if what == "values" else position),
                    )
                    for result, what in zip(self._outs, self._order.results, strict=True)
                ]
            )

        return loops.let([position], write)

    def whole_block(self, name: str, body: Stmt, memory: Sequence[Buffer]) -> Stmt:
        """The block of statements that compute the row and store its results."""
        return loops.scope(
            name,
            [self._row_of(self._source)],
            [self._row_of(result) for result in self._outs],
            memory,
            body,
            {ROW_ORDER: self._order.annotation()},
        )

    def _row_of(self, buffer: Buffer) -> BufferRegion:
        return line_region(buffer, self._rest, self._order.axis)

    def _place(self, position: Any) -> list[Any]:
        axis = self._order.axis
        return [*self._rest[:axis], position, *self._rest[axis:]]
