"""Copies of matrices between memory and the fragments of tensor cores: one instruction for each tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith.analyzer import Analyzer
from ..buffer import Buffer, decl_buffer
from ..expr import BufferLoad, PrimExpr, Var
from ..op import tvm_load_matrix_sync, tvm_store_matrix_sync
from ..operators import const, floordiv
from ..stmt import BufferStore, Evaluate, For, ForKind, Stmt, seq
from .auto_copy_nest import CopyNest, number
from .auto_copy_threads import ThreadAxis, shared_among

TILE = 16
"""Rows and columns of a fragment."""
LOADED = ("wmma.matrix_a", "wmma.matrix_b")
ACCUMULATOR = "wmma.accumulator"


class TiledCopy:
    """A copy between fragments and memory, tile by tile."""

    def __init__(self, nest: CopyNest) -> None:
        self.nest = nest
        self.is_load = nest.target.scope() in LOADED
        self._fragment: Any = nest.store if self.is_load else nest.load
        self._memory: Any = nest.load if self.is_load else nest.store
        if nest.conditions or not isinstance(nest.store.value, BufferLoad):
            raise nest.refusal("a copy of fragments has no conditions and changes nothing")
        strides = [number(stride) for stride in nest.strides(self._fragment)]
        width = number(self._fragment.buffer.shape[-1])
        self._column, self._row = self._loop_of(strides, 1), self._loop_of(strides, width)
        self._tiles = {loop.loop_var: Var(loop.loop_var.name, loop.loop_var.dtype) for loop in nest.loops}

    def _loop_of(self, strides: Sequence[int | None], stride: int | None) -> For:
        for loop, found in zip(self.nest.loops, strides, strict=True):
            if found == stride and (number(loop.extent) or 1) % TILE == 0:
                return loop
        raise self.nest.refusal(
            f"no loop over a multiple of {TILE} goes along the {'rows' if stride == 1 else 'columns'} of fragments"
            f" {self._fragment.buffer.name}"
        )

    def _is_tiled(self, loop: For) -> bool:
        return loop is self._row or loop is self._column

    def begin(self) -> dict[Var, PrimExpr]:
        """Where a tile begins: values of the loops' variables."""
        return {
            loop.loop_var: loop.min + self._tiles[loop.loop_var] * (TILE if self._is_tiled(loop) else 1)
            for loop in self.nest.loops
        }

    def over_tiles(self, body: Stmt) -> Stmt:
        """A statement for all tiles."""
        for loop in reversed(self.nest.loops):
            extent = floordiv(loop.extent, TILE) if self._is_tiled(loop) else loop.extent
            body = For(self._tiles[loop.loop_var], const(0, extent.dtype), extent, ForKind.SERIAL, body)
        return body

    def index(self) -> PrimExpr:
        """Which fragment of its buffer a tile is."""
        *others, height, width = self._fragment.buffer.shape
        store, _ = self.nest.at(self.begin())
        access: Any = store if self.is_load else store.value
        *outer, row, column = access.indices
        analyzer = Analyzer()
        for extent, index in ((height, row), (width, column)):
            found = analyzer.modular_set(analyzer.simplify_index(index))
            if found.coeff % TILE or found.base % TILE or (number(extent) or 1) % TILE:
                raise self.nest.refusal(
                    f"tiles begin at {index} of buffer {self._fragment.buffer.name}, no multiple of {TILE}"
                )
        first: PrimExpr = const(0)
        for index, extent in zip(outer, others, strict=True):
            first = first * extent + index
        rows = first * floordiv(height, TILE) + floordiv(row, TILE)
        return rows * floordiv(width, TILE) + floordiv(column, TILE)

    def instruction(self) -> Stmt:
        """The load or store of a tile."""
        store, _ = self.nest.at(self.begin())
        access: Any = store.value if self.is_load else store
        strides = dict(zip(self.nest.loops, self.nest.strides(self._memory), strict=True))
        if number(strides[self._column]) == 1:
            layout, step = "row_major", strides[self._row]
        elif number(strides[self._row]) == 1:
            layout, step = "col_major", strides[self._column]
        else:
            raise self.nest.refusal(f"neither rows nor columns are contiguous in buffer {access.buffer.name}")
        return self._call(access.buffer, access.buffer.offset_of(access.indices)[0], step, layout)

    def _call(self, memory: Buffer, offset: PrimExpr, step: PrimExpr, layout: str) -> Stmt:
        extent = step * (TILE - 1) + TILE
        pointer = memory.access_ptr("r" if self.is_load else "w", offset=offset, extent=extent)
        function = tvm_load_matrix_sync if self.is_load else tvm_store_matrix_sync
        return Evaluate(
            function(self._fragment.buffer.data, TILE, TILE, TILE, self.index(), pointer, step, layout)
        )

    def by_shared_memory(
        self, axes: tuple[ThreadAxis, Sequence[ThreadAxis]], vector_bytes: int
    ) -> tuple[Stmt, list[Buffer]]:
        """A store to global memory by a tile of shared memory, which the threads of a warp share out.

        Args:
            axes: of the threads of a warp, which store one tile together, and of others, which have other tiles at the same time.
            vector_bytes: how many bytes a thread stores at once, at most.
        """
        warp, apart = axes
        target = self.nest.target
        shape = [const(axis.extent) for axis in apart] + [const(TILE), const(TILE)]
        cache = decl_buffer(shape, target.dtype, f"{target.name}_shared", scope="shared")
        own: list[PrimExpr] = [axis.number for axis in apart]
        first = cache.offset_of([*own, const(0), const(0)])[0]
        row, column = Var("row", "int32"), Var("column", "int32")
        moved = {self._row.loop_var: row, self._column.loop_var: column}
        begin = self.begin()
        values = {var: begin[var] + moved[var] if var in moved else begin[var] for var in begin}
        element, _ = self.nest.at(values)
        copy = BufferStore(target, BufferLoad(cache, [*own, row, column]), element.indices)
        loops: Stmt = For(
            row, const(0), const(TILE), ForKind.SERIAL,
            For(column, const(0), const(TILE), ForKind.SERIAL, copy),
        )  # fmt: skip
        inner = CopyNest(self.nest.block.replace(body=loops))
        shared, _ = shared_among(inner, [warp], vector_bytes, by_registers=False)
        return self.over_tiles(seq(self._call(cache, first, const(TILE), "row_major"), shared)), [cache]


def lowered_fragments(nest: CopyNest) -> Stmt:
    """A copy between fragments and memory that tensor cores read and write."""
    tiled = TiledCopy(nest)
    return tiled.over_tiles(tiled.instruction())
