"""InjectMatrixTiles: products of narrow numbers that a matrix unit computes, sixteen rows and columns at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier, Linear
from ...module import IRModule
from ...transform import PassContext
from ...type import PointerType, PrimType
from ..analysis.own_memory import own_memory
from ..analysis.undefined_vars import undefined_vars
from ..buffer import Buffer
from ..effects import has_effect
from ..expr import BufferLoad, Cast, IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..intrinsic.matrix import matrix_accumulate, matrix_load, matrix_store
from ..intrinsic.matrix_registers import (
    MATRIX_COLUMNS,
    MATRIX_PRODUCTS,
    MATRIX_REGISTERS,
    MATRIX_ROW_BYTES,
    MATRIX_ROWS,
    MATRIX_SCOPE,
    registers_of_rows,
    registers_suffice,
)
from ..intrinsic.memory import address_of
from ..kernel_attributes import DOT_PRODUCT, MATRIX_TILE
from ..operators import const
from ..stmt import Allocate, BufferStore, Evaluate, For, ForKind, Stmt, seq
from ..stmt_functor import StmtExprMutator, loads_in
from .inject_dot_product import sum_and_product
from .prim_func_pass import PrimFuncPass


@dataclass(frozen=True)
class _Axis:
    """Loops of a tile along which one operand changes; the innermost one runs through registers, each other one from tile to tile."""

    loops: tuple[For, ...]
    size: int
    """Iterations of the innermost loop that a register holds."""

    @property
    def starts(self) -> list[dict[Var, int]]:
        """The values of the loops where registers begin."""
        if not self.loops:
            return [{}]
        *outer, inner = self.loops
        ranges = [range(_extent(loop)) for loop in outer] + [range(0, _extent(inner), self.size)]
        return [dict(zip([loop.loop_var for loop in self.loops], values)) for values in product(*ranges)]


@dataclass(frozen=True, eq=False)
class _Place:
    """What an access of a tile is to: an element by a sum of multiples of loop variables, and of what the loops do not change."""

    buffer: Buffer
    element: Linear
    dtype: str
    """Of the index."""

    def step(self, loop: For) -> int:
        """Elements from one iteration of a loop to the next."""
        return self.element.terms.get(loop.loop_var, 0)


@dataclass(frozen=True)
class _Tile:
    """The loops of one tile, and what they multiply.

    Attributes:
        rows, columns: of the results.
        sums, first, second: the accesses; the second operand's lie side by side for the columns.
        strides: elements from row to row of ``sums``, of ``first``, and from group to group of ``second``.
        loops: the variables of all loops of the tile.
    """

    rows: _Axis
    columns: _Axis
    sums: _Place
    first: _Place
    second: _Place
    strides: tuple[int, int, int]
    loops: frozenset[Var]

    def moved(self, of: _Place, values: dict[Var, int]) -> Linear:
        """An access where some loops of the tile have values, and all others zero."""
        terms = {atom: factor for atom, factor in of.element.terms.items() if atom not in self.loops}
        moved = sum(of.element.terms.get(var, 0) * value for var, value in values.items())
        return Linear(terms, of.element.const + moved)


class _Inject(StmtExprMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.func = func
        self.simplifier = IndexSimplifier()

    @cached_property
    def own(self) -> frozenset[Var]:
        """Memory that is read by one name only; found where there is a tile."""
        return own_memory(self.func)

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        made = self._in_tiles(loop)
        if made is not None:
            return made
        body = self.visit(loop.body)
        return loop if body is loop.body else loop.replace(body=body)

    def _in_tiles(self, loop: For) -> Stmt | None:
        """What a loop over tiles, or of one, becomes where all of it adds to the same sums; None where it does not."""
        around = []
        while MATRIX_TILE not in loop.annotations:
            runs_in_order = loop.kind in _IN_ORDER and _extent(loop) > 0 and isinstance(loop.min, IntImm)
            if not runs_in_order or not isinstance(loop.body, For):
                return None
            around.append(loop)
            self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
            loop = loop.body
        tile = self._tile_of(loop)
        if tile is None or any(item.loop_var in _variables(tile.sums.element) for item in around):
            return None
        return self._program(tile, around)

    # -- what a loop computes ------------------------------------------------------
    def _tile_of(self, loop: For) -> _Tile | None:
        """The tile of annotated loops, if they are one that a matrix unit computes."""
        loops = [loop]
        while len(loops) == 1 or DOT_PRODUCT not in loops[-1].annotations:
            body = loops[-1].body
            if not isinstance(body, For):
                return None
            loops.append(body)
        store = loops[-1].body
        if not isinstance(store, BufferStore) or store.predicate is not None or len(store.indices) != 1:
            return None
        if not all(_is_plain(item) for item in loops) or _extent(loop) != MATRIX_ROWS:
            return None
        for item in loops:
            self.simplifier.bind_range(item.loop_var, item.min, item.extent)
        found = sum_and_product(store)
        operands = [_operand(factor, store) for factor in found[1]] if found is not None else []
        if None in operands or not operands or not self._is_memory_of_its_own(store, operands):
            return None
        places = [self._place(item, loops) for item in (store, *operands)]
        for sums, first, second in (places, [places[0], places[2], places[1]]):
            if sums is not None and first is not None and second is not None:
                tile = _arranged(loops, sums, first, second)
                if tile is not None:
                    return tile
        return None

    def _is_memory_of_its_own(self, store: BufferStore, operands: Sequence[BufferLoad]) -> bool:
        """Whether no operand may be what the loops change."""
        sums = store.buffer.data
        return all(
            item.buffer.data is not sums and (item.buffer.data in self.own or sums in self.own)
            for item in operands
        )

    def _place(self, access: BufferLoad | BufferStore, loops: Sequence[For]) -> _Place | None:
        (index,) = access.indices
        if not dt.is_index(index.dtype) or dt.lanes(index.dtype) != 1 or dt.lanes(access.buffer.dtype) != 1:
            return None
        if has_effect(index) or loads_in(index):
            return None  # it may be another one each time
        inside = {item.loop_var for item in loops}
        element = self.simplifier.linear(index)
        if any(atom not in inside and inside.intersection(undefined_vars(atom)) for atom in element.terms):
            return None
        return _Place(access.buffer, element, index.dtype)

    # -- what takes its place --------------------------------------------------------
    def _program(self, tile: _Tile, around: Sequence[For]) -> Stmt | None:
        """Registers that hold the sums while all loops run, and the instructions on them; None where an index does not fit its type."""
        rows, columns = tile.rows.starts, tile.columns.starts
        sums = [[_register("sums", tile.sums.buffer.dtype, tile.rows.size) for _ in columns] for _ in rows]
        first = [_register("rows", tile.first.buffer.dtype, tile.rows.size) for _ in rows]
        left = MATRIX_REGISTERS - len(rows) * len(columns) - len(rows)
        second = [_register("columns", tile.second.buffer.dtype, MATRIX_ROWS) for _ in columns[:left]]
        between, row_step, group_step = tile.strides
        try:
            moves = [
                (self._address(tile, tile.sums, row | column), sums[i][j])
                for i, row in enumerate(rows)
                for j, column in enumerate(columns)
            ]
            loads = [matrix_load(_start(register), place, between) for place, register in moves]
            stores = [matrix_store(place, _start(register), between) for place, register in moves]
            body = [
                matrix_load(_start(register), self._address(tile, tile.first, row), row_step)
                for row, register in zip(rows, first)
            ]
            for j, column in enumerate(columns):
                register = second[j % len(second)]
                body.append(
                    matrix_load(_start(register), self._address(tile, tile.second, column), group_step)
                )
                body += [
                    matrix_accumulate(_start(sums[i][j]), _start(first[i]), _start(register))
                    for i in range(len(rows))
                ]
        except _DoesNotFit:
            return None
        steps = seq(*map(Evaluate, body))
        for loop in reversed(around):
            steps = loop.replace(body=steps)
        program = seq(*map(Evaluate, loads), steps, *map(Evaluate, stores))
        for register in [
            *second[::-1],
            *first[::-1],
            *[item for line in reversed(sums) for item in reversed(line)],
        ]:
            program = Allocate(register.data, register.dtype, register.shape, const(True), program)
        return program

    def _address(self, tile: _Tile, of: _Place, values: dict[Var, int]) -> PrimExpr:
        index = self.simplifier.try_build(tile.moved(of, values), of.dtype)
        if index is None:
            raise _DoesNotFit
        return address_of(BufferLoad(of.buffer, [index]))


class _DoesNotFit(Exception):
    """An index has a part that its type does not hold."""


_IN_ORDER = (ForKind.SERIAL, ForKind.UNROLLED)


def _extent(loop: For) -> int:
    """The iterations of a loop; 0 where that is no constant."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else 0


def _is_plain(loop: For) -> bool:
    """Whether a loop of a tile begins with zero, and runs in one thread a constant number of times."""
    starts = isinstance(loop.min, IntImm) and loop.min.value == 0
    return starts and _extent(loop) > 0 and loop.kind in (*_IN_ORDER, ForKind.VECTORIZED)


def _operand(factor: PrimExpr, store: BufferStore) -> BufferLoad | None:
    """What is loaded and cast to what is stored."""
    load = factor.value if isinstance(factor, Cast) else None
    if not isinstance(load, BufferLoad) or load.predicate is not None or len(load.indices) != 1:
        return None
    return load if factor.dtype == store.buffer.dtype else None


def _variables(element: Linear) -> set[Var]:
    return {var for atom in element.terms for var in undefined_vars(atom)}


def _arranged(loops: Sequence[For], sums: _Place, first: _Place, second: _Place) -> _Tile | None:
    """The tile of loops of which rows belong to the first operand and columns to the second; None where registers do not hold it."""
    steps, *between, group = loops
    between = [loop for loop in between if _extent(loop) > 1]
    rows = [loop for loop in between if first.step(loop)]
    columns = [loop for loop in between if second.step(loop)]
    kinds = (first.buffer.dtype, second.buffer.dtype, sums.buffer.dtype)
    size = _extent(group)
    if (
        MATRIX_PRODUCTS.get(kinds) != size
        or not columns
        or any(bool(first.step(loop)) is bool(second.step(loop)) for loop in between)
    ):
        return None
    wanted = {
        sums: [(columns[-1], 1), (steps, 0), (group, 0)],
        first: [(steps, size), (group, 1)],
        second: [(columns[-1], size), (group, 1)],
    }
    if any(place.step(loop) != step for place, expected in wanted.items() for loop, step in expected):
        return None
    heights, widths = [_extent(loop) for loop in rows], [_extent(loop) for loop in columns]
    n_rows = prod(heights[:-1]) * registers_of_rows(heights[-1]) if rows else 1
    share = heights[-1] // registers_of_rows(heights[-1]) if rows else 1
    if share * n_rows != prod(heights) or widths[-1] % MATRIX_COLUMNS:
        return None
    if not registers_suffice(n_rows, prod(widths) // MATRIX_COLUMNS) or not _are_different(sums, between):
        return None
    strides = (sums.step(rows[-1]), first.step(rows[-1])) if rows else (MATRIX_COLUMNS, MATRIX_COLUMNS)
    return _Tile(
        _Axis(tuple(rows), share),
        _Axis(tuple(columns), MATRIX_COLUMNS),
        sums,
        first,
        second,
        (*strides, second.step(steps)),
        frozenset(loop.loop_var for loop in loops),
    )


def _are_different(place: _Place, loops: Sequence[For]) -> bool:
    """Whether each iteration of some loops accesses an element of its own."""
    steps = [place.step(loop) for loop in loops]
    found = {
        sum(step * value for step, value in zip(steps, values))
        for values in product(*[range(_extent(loop)) for loop in loops])
    }
    return len(found) == prod(map(_extent, loops))


def _register(name: str, dtype: str, rows: int) -> Buffer:
    size = rows * MATRIX_ROW_BYTES // dt.bytes_of(dtype)
    data = Var(name, PointerType(PrimType(dtype), MATRIX_SCOPE))
    return Buffer(data, dtype, [const(size)], name=name)


def _start(register: Buffer) -> Any:
    return address_of(BufferLoad(register, [const(0)]))


@dataclass(frozen=True)
class InjectMatrixTiles(PrimFuncPass):
    """Let a matrix unit compute annotated loops (:data:`ir.tir.kernel_attributes.MATRIX_TILE`).

    Such a loop runs over sixteen groups of narrow numbers; in it stand loops over the rows and columns of results, and one over a group
    (:data:`ir.tir.kernel_attributes.DOT_PRODUCT`). Sixteen columns and up to sixteen rows of results are a register. Loops around it
    that add to the same results run while these stay in registers. What is not of this form, or needs more registers than there are,
    stays a nest of loops.

    Before (sixteen rows and columns of int8)::

        for k0 in range(8):
            for k1 in T.serial(16, annotations={"matrix_tile": 1}):
                for i in T.unroll(16):
                    for j in T.vectorized(16):
                        for g in T.serial(4, annotations={"dot_product": 1}):
                            C[i * 16 + j] = C[i * 16 + j] + T.Cast("int32", A[i * 512 + k0 * 64 + k1 * 4 + g]) * T.Cast(
                                "int32", B[k0 * 1024 + k1 * 64 + j * 4 + g])

    After::

        sums = T.allocate([256], "int32", "matrix")
        rows = T.allocate([1024], "int8", "matrix")
        columns = T.allocate([1024], "int8", "matrix")
        T.matrix_load(T.address_of(sums[0]), T.address_of(C[0]), 16)
        for k0 in range(8):
            T.matrix_load(T.address_of(rows[0]), T.address_of(A[k0 * 64]), 512)
            T.matrix_load(T.address_of(columns[0]), T.address_of(B[k0 * 1024]), 64)
            T.matrix_accumulate(T.address_of(sums[0]), T.address_of(rows[0]), T.address_of(columns[0]))
        T.matrix_store(T.address_of(C[0]), T.address_of(sums[0]), 16)
    """

    pass_name = "tir.InjectMatrixTiles"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with instructions of a matrix unit."""
        body = _Inject(func).visit(func.body)
        return func if body is func.body else func.replace(body=body)
