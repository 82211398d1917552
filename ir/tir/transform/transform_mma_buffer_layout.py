"""TransformMmaBufferLayout: matrices that a warp holds become the registers of its threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...error import IRValueError
from ...module import IRModule
from ...target.gpu_facts import WARP
from ...transform import PassContext
from ..buffer import Buffer, decl_buffer
from ..evaluate import evaluate
from ..expr import BufferLoad, Call, IntImm, PrimExpr, Range, Var
from ..function import PrimFunc
from ..intrinsic.address_arguments import ADDRESSES
from ..operators import const, convert, floordiv, floormod
from ..stmt import AttrStmt, Block, BufferRegion, BufferStore, For, Stmt
from ..stmt_functor import StmtExprMutator, variables_in
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class _Layout:
    """How the threads of a warp hold tiles of a matrix.

    Attributes:
        tile: rows and columns of a tile.
        registers: the extents of what a thread holds of it.
        lane: which thread has an element.
        place: where among its registers it has it.
    """

    tile: tuple[int, int]
    registers: tuple[int, int]
    lane: Callable[[Any, Any], Any]
    place: Callable[[Any, Any], tuple[Any, Any]]


def _by_rows(row: Any, column: Any) -> Any:
    """Of each 8 by 8 elements: four threads share a row, of which each has two neighbours."""
    return row % 8 * 4 + column % 8 // 2


def _by_columns(row: Any, column: Any) -> Any:
    """The same with rows for columns."""
    return _by_rows(column, row)


_LAYOUTS = {
    "m16n8k8.matrixA": _Layout((32, 8), (4, 2), _by_rows, lambda row, column: (row % 32 // 8, column % 2)),
    "m16n8k8.matrixB": _Layout((8, 32), (4, 2), _by_columns, lambda row, column: (column % 32 // 8, row % 2)),
    "m16n8k8.matrixC": _Layout((16, 8), (2, 2), _by_rows, lambda row, column: (row % 16 // 8, column % 2)),
}
"""By scope. A tile of A is two of the instruction's 16 by 8, one of B four of its 8 by 8."""


def _extents(buffer: Buffer) -> tuple[int, int]:
    """Rows and columns."""
    rows, columns = _LAYOUTS[buffer.scope()].tile
    last = [extent.value if isinstance(extent, IntImm) else 0 for extent in buffer.shape[-2:]]
    if len(last) < 2 or not all(last) or last[0] % rows or last[1] % columns or buffer.strides:
        raise IRValueError(
            f"buffer {buffer.name} of scope {buffer.scope()!r} has shape {list(buffer.shape)}; its last dimensions must be dense,"
            f" and multiples of {rows} and {columns}"
        )
    return last[0], last[1]


def _registers(buffer: Buffer) -> Buffer:
    """The memory of a thread for its part of a matrix."""
    layout, extents = _LAYOUTS[buffer.scope()], _extents(buffer)
    tiles = [extent // size for extent, size in zip(extents, layout.tile, strict=True)]
    shape = [*buffer.shape[:-2], *tiles, *layout.registers]
    return decl_buffer(shape, buffer.dtype, buffer.name, scope="local")


class _Transform(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self._held: dict[Var, tuple[Buffer, Buffer]] = {}
        """By address of a matrix: the matrix, and what a thread holds of it."""
        self._thread: Var | None = None
        self._analyzer = Analyzer()

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return self._held[buffer.data][1] if buffer.data in self._held else buffer

    def visit_For(self, loop: For) -> Stmt:
        self._begin(loop.loop_var, loop.min, loop.extent, loop.thread_binding)
        return self.generic_visit(loop)  # type: ignore[no-any-return]

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        if stmt.thread is not None:
            self._begin(stmt.thread.var, const(0, stmt.thread.var.dtype), stmt.value, stmt.thread)
        return super().visit_AttrStmt(stmt)

    def _begin(self, var: Var, start: PrimExpr, extent: PrimExpr, axis: Any) -> None:
        self._analyzer.bind(var, Range.from_min_extent(start, extent))
        if axis is not None and axis.thread_tag == "threadIdx.x":
            self._thread = var

    def visit_Block(self, block: Block) -> Block:
        for buffer in block.alloc_buffers:
            if buffer.scope() in _LAYOUTS:
                self._held[buffer.data] = buffer, _registers(buffer)
        if any(match.source.buffer.data in self._held for match in block.match_buffers):
            raise IRValueError(
                f"block {block.name_hint!r} has views of matrices; run LowerMatchBuffer before TransformMmaBufferLayout"
            )
        return self.generic_visit(block)  # type: ignore[no-any-return]

    # ---- accesses --------------------------------------------------------------------------------------------------
    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        mapped = self.generic_visit(load)
        if load.buffer.data not in self._held:
            return mapped  # type: ignore[no-any-return]
        return BufferLoad(mapped.buffer, self._own(load.buffer, mapped.indices), mapped.predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        mapped = self.generic_visit(store)
        if store.buffer.data not in self._held:
            return mapped  # type: ignore[no-any-return]
        return mapped.replace(indices=self._own(store.buffer, mapped.indices))  # type: ignore[no-any-return]

    def _own(self, matrix: Buffer, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Where a thread holds an element that is its own."""
        if any(dt.lanes(index.dtype) > 1 for index in indices):
            raise IRValueError(
                f"matrix {matrix.name} is accessed by vectors; run TransformMmaBufferLayout before VectorizeLoop"
            )
        self._check_owner(matrix, *indices[-2:])
        return tuple([self._analyzer.simplify_index(index) for index in self._place(matrix, indices)])

    def _place(self, matrix: Buffer, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        layout = _LAYOUTS[matrix.scope()]
        *others, row, column = indices
        tiles = [floordiv(index, size) for index, size in zip((row, column), layout.tile, strict=True)]
        return [*others, *tiles, *layout.place(row, column)]

    def _check_owner(self, matrix: Buffer, row: PrimExpr, column: PrimExpr) -> None:
        """Refuse accesses of elements that another thread holds, as far as the first iteration of the loops around tells."""
        if self._thread is None:
            return
        lane = _LAYOUTS[matrix.scope()].lane(row, column)
        values: dict[Any, Any] = dict.fromkeys(variables_in(lane), 0)
        values[self._thread] = np.arange(WARP)
        try:
            found = np.broadcast_to(evaluate(lane, values), (WARP,))
        except IRValueError:  # data says which
            return
        if (found != np.arange(WARP)).any():
            thread = int(np.flatnonzero(found != np.arange(WARP))[0])
            raise IRValueError(
                f"thread {thread} accesses {matrix.name}[{row}, {column}], which thread {found[thread]} holds in the layout of scope"
                f" {matrix.scope()!r}; access elements of the own thread, or all of them by instructions of a warp"
            )

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        mapped = self.generic_visit(region)
        matrix = region.buffer
        if matrix.data not in self._held:
            return mapped  # type: ignore[no-any-return]
        layout = _LAYOUTS[matrix.scope()]
        *others, rows, columns = mapped.region
        tiles = [self._tiles(item, size) for item, size in zip((rows, columns), layout.tile, strict=True)]
        whole = [Range(extent) for extent in layout.registers]
        return BufferRegion(mapped.buffer, (*others, *tiles, *whole))

    def _tiles(self, item: Range, size: int) -> Range:
        """The tiles that a range of rows or columns lies in."""
        first, last = floordiv(item.min, size), floordiv(item.min + item.extent - 1, size)
        simplified = self._analyzer.simplify_index
        return Range.from_min_extent(simplified(first), simplified(last - first + 1))

    # ---- addresses -------------------------------------------------------------------------------------------------
    def visit_Call(self, call: Call) -> PrimExpr:
        """An offset behind the address of a matrix is that of an element; it becomes that of the registers that begin there."""
        args: list[Any] = list(call.args)
        name = getattr(call.op, "name", "")
        moved = [(at, offset) for at, offset in ADDRESSES.get(name, ()) if args[at] in self._held]
        if not moved:
            return self.generic_visit(call)  # type: ignore[no-any-return]
        addresses = {at for at, _ in moved}
        args = [item if at in addresses else self.visit(item) for at, item in enumerate(args)]
        for at, offset in moved:
            matrix, held = self._held[args[at]]
            args[at], args[offset] = held.data, self._offset(matrix, held, convert(args[offset]))
        if name == "tir.tvm_access_ptr":  # of which a thread holds its part
            args[3] = self._analyzer.simplify_index(floordiv(convert(args[3]), WARP))
        return call.replace(args=tuple(args))  # type: ignore[no-any-return]

    def _offset(self, matrix: Buffer, held: Buffer, offset: PrimExpr) -> PrimExpr:
        indices: list[PrimExpr] = []
        for extent in reversed(matrix.shape[1:]):
            indices.insert(0, floormod(offset, extent))
            offset = floordiv(offset, extent)
        place = self._place(matrix, [offset, *indices])
        found: PrimExpr = self._analyzer.simplify_index(held.offset_of(place)[0])
        return found

    def visit_Var(self, var: Var) -> PrimExpr:
        if var in self._held:
            matrix, _ = self._held[var]
            raise IRValueError(
                f"the address of matrix {matrix.name} of scope {matrix.scope()!r} is used other than with an offset; its elements"
                " lie in registers of different threads"
            )
        return var


@dataclass(frozen=True)
class TransformMmaBufferLayout(PrimFuncPass):
    """Give each thread of a warp the registers in which it holds its part of matrices of ``mma`` instructions.

    Buffers of the scopes ``m16n8k8.matrixA``, ``m16n8k8.matrixB`` and ``m16n8k8.matrixC`` are matrices that a warp holds together. They
    become buffers of scope "local": a tile of registers for each 32 by 8 elements of A (four by two registers), 8 by 32 of B (four
    by two) and 16 by 8 of C (two by two). A load or store of an element is one of the thread that holds it; an offset behind the address
    of a matrix, as instructions of a warp take it, is that of an element in rows, and becomes that of the registers of its tile.

    Runs on opaque blocks behind LowerMatchBuffer.

    Before::

        C = T.alloc_buffer((32, 16), "float32", scope="m16n8k8.matrixC")
        for i, j, r, v in T.grid(2, 2, 2, 2):
            C[i * 16 + r * 8 + tx // 4, j * 8 + tx % 4 * 2 + v] = 0.0

    After::

        C = T.alloc_buffer((2, 2, 2, 2), "float32", scope="local")
        for i, j, r, v in T.grid(2, 2, 2, 2):
            C[i, j, r, v] = 0.0

    Raises:
        IRValueError: the shape of a matrix is no multiple of its tiles, or a thread accesses what another one holds.
    """

    pass_name = "tir.TransformMmaBufferLayout"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function whose matrices are registers of threads."""
        for buffer in func.buffer_map.values():
            if buffer.scope() in _LAYOUTS:
                raise IRValueError(
                    f"parameter {buffer.name} has scope {buffer.scope()!r}; matrices of a warp are allocated in a kernel"
                )
        return func.replace(body=_Transform().visit(func.body))
