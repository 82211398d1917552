"""TransposeInRegisters: a copy that transposes reads whole vectors along its source, and turns squares of them in registers.

Where the result is contiguous along one axis and the source along another, the vectors of the result would be gathered element by
element. A square of as many vectors as each has elements takes as many loads instead, and a logarithm of that in shuffles for each of
them: first within 128 bits, which every machine interleaves at once, then whole pieces of 128 bits. (Eklundh: "A fast computer method
for matrix transposing", IEEE Transactions on Computers C-21, 1972, in the order of today's instructions.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier
from ...module import IRModule
from ...transform import PassContext
from ..analysis.contiguous import is_picked, stride_of
from ..analysis.no_alias import promises_no_alias
from ..analysis.register_squares import square_side
from ..effects import has_effect
from ..expr import BinaryOpExpr, BufferLoad, Cast, IntImm, PrimExpr, Ramp, Shuffle, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import BufferStore, For, ForKind, LetStmt, Stmt, seq
from ..stmt_functor import StmtExprMutator, loads_in, substitute, variables_in
from .fresh_copy import fresh_copy
from .prim_func_pass import PrimFuncPass

_PIECE_BITS = 128
"""Within so many bits every machine with vectors interleaves two of them in one instruction."""


@dataclass(frozen=True)
class _Copy:
    """A loop along which a source is contiguous, around vectors of the result that the source has apart from each other."""

    loop: For
    inner: list[For]
    store: BufferStore
    loads: list[BufferLoad]
    """What is transposed: of equal lanes and types."""
    step: int
    """How far apart in memory the results of two iterations are."""

    @property
    def lanes(self) -> int:
        return dt.lanes(self.store.value.dtype)


class _Transpose(StmtExprMutator):
    def __init__(self, options: TransposeInRegisters) -> None:
        super().__init__()
        self.options = options
        self.simplifier = IndexSimplifier()
        self.pointers: set[Var] = set()
        """Variables of which nobody says what memory they point to."""

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        self.pointers.add(node.var)
        body = self.visit(node.body)
        return node if body is node.body else node.replace(body=body)

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        copy = self._copy(loop)
        if copy is not None:
            return _squares(copy, self.options.side(copy.loads[0].dtype))
        body = self.visit(loop.body)
        return loop if body is loop.body else loop.replace(body=body)

    def _copy(self, loop: For) -> _Copy | None:
        """A loop as one that transposes; None where it does not, or where its iterations may depend on each other."""
        inner, store = _nest(loop)
        if store is None or len(store.indices) != 1 or stride_of(store.indices[0]) is None:
            return None
        loaded = loads_in(store)
        if has_effect(store.value) or any(load.buffer.data is store.buffer.data for load in loaded):
            return None
        if not self.pointers.isdisjoint(
            item.data for item in (store.buffer, *(load.buffer for load in loaded))
        ):
            return None
        coefficients = self._coefficients(store.indices[0], [loop, *inner])
        loads = [load for load in _always_loaded(store.value) if self._is_across(load, loop)]
        if coefficients is None or len({load.dtype for load in loads}) != 1:
            return None
        side, lanes = self.options.side(loads[0].dtype), dt.lanes(loads[0].dtype)
        fits = lanes == side or (lanes % side == 0 and store.value is loads[0])
        if side < 2 or not fits or _extent(loop) < side or len(loads) * side > self.options.vector_registers:
            return None
        # Inner loops change places with squares, and the pieces of a longer vector are stored one after the other.
        if (inner or lanes != side) and not _is_injective(coefficients, [loop, *inner], store):
            return None
        return _Copy(loop, inner, store, loads, coefficients[loop.loop_var])

    def _coefficients(self, index: PrimExpr, loops: Sequence[For]) -> dict[Var, int] | None:
        """By loop variable, how far apart one step's elements are; None where an index is no such sum."""
        linear = self.simplifier.linear(index.base if isinstance(index, Ramp) else index)
        variables = {loop.loop_var for loop in loops}
        if any(atom not in variables and variables & set(variables_in(atom)) for atom in linear.terms):
            return None
        return {var: linear.terms.get(var, 0) for var in variables}

    def _is_across(self, load: BufferLoad, loop: For) -> bool:
        """Whether the lanes of a load lie apart, and side by side in the iterations of a loop."""
        (index,) = load.indices
        stride = stride_of(index)
        if stride is None or abs(stride) < 2 or is_picked(index) or load.predicate is not None:
            return False
        coefficients = self._coefficients(index, [loop])
        return coefficients is not None and coefficients[loop.loop_var] == 1


def _nest(loop: For) -> tuple[list[For], BufferStore | None]:
    """The loops inside of one and the store that is all they run; None where there is more, or a loop of another kind."""
    inner: list[For] = []
    stmt: Stmt = loop
    while isinstance(stmt, For):
        plain = stmt.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        if not plain or not isinstance(stmt.extent, IntImm) or not isinstance(stmt.min, IntImm):
            return inner, None
        inner.append(stmt)
        stmt = stmt.body
    vectors = isinstance(stmt, BufferStore) and stmt.predicate is None and dt.lanes(stmt.value.dtype) > 1
    return inner[1:], stmt if vectors and isinstance(stmt, BufferStore) else None


def _is_injective(coefficients: Mapping[Var, int], loops: Sequence[For], store: BufferStore) -> bool:
    """Whether no two iterations of the loops store to one place: each step goes beyond all that smaller steps reach."""
    (index,) = store.indices
    stride = stride_of(index)
    if stride is None:
        return False
    steps = [(abs(stride), dt.lanes(store.value.dtype))]
    steps += [(abs(coefficients[loop.loop_var]), _extent(loop)) for loop in loops if _extent(loop) > 1]
    reach = 0
    for step, extent in sorted(steps):
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return True


def _always_loaded(value: PrimExpr) -> Iterator[BufferLoad]:
    """The loads of a value that run whatever its other parts are: none is behind a condition."""
    if isinstance(value, BufferLoad):
        if len(value.indices) == 1 and dt.lanes(value.buffer.dtype) == 1:
            yield value
    elif isinstance(value, Cast):
        yield from _always_loaded(value.value)
    elif isinstance(value, BinaryOpExpr):
        yield from _always_loaded(value.a)
        yield from _always_loaded(value.b)


def _squares(copy: _Copy, side: int) -> Stmt:
    """The loop in squares, and as it was for what is left."""
    loop = copy.loop
    count, rest = divmod(_extent(loop), side)
    number = Var(f"{loop.loop_var.name}_square", loop.loop_var.dtype)
    first = number * side + loop.min
    body = seq([_square(copy, first, piece * side, side) for piece in range(copy.lanes // side)])
    for item in reversed(copy.inner):
        body = item.replace(body=body)
    zero, squares = const(0, number.dtype), const(count, number.dtype)
    whole = loop.replace(loop_var=number, min=zero, extent=squares, body=body)
    if not rest:
        return whole
    left = loop.replace(min=loop.min + count * side, extent=const(rest, loop.extent.dtype))
    return seq([whole, fresh_copy(left)])


def _square(copy: _Copy, first: PrimExpr, lane: int, side: int) -> Stmt:
    """The stores of ``side`` iterations from ``first`` on, of as many lanes from ``lane`` on."""
    var = copy.loop.loop_var
    bound: list[tuple[Var, PrimExpr]] = []
    columns: list[list[Var]] = []
    for load in copy.loads:
        index = load.indices[0]
        assert isinstance(index, Ramp)
        start, stride = substitute(index.base, {var: first}), _number(index.stride)
        starts = [start + stride * row for row in range(lane, lane + side)]
        rows = [BufferLoad(load.buffer, [Ramp(start, 1, side)]) for start in starts]
        columns.append(_turned([_bind(bound, "row", row) for row in rows], dt.bits(load.dtype), bound))
    index = copy.store.indices[0]
    assert isinstance(index, Ramp)
    apart = _number(index.stride)
    place = substitute(index.base, {var: first}) + apart * lane
    stores = []
    for number in range(side):
        loaded = {id(load): found[number] for load, found in zip(copy.loads, columns, strict=True)}
        value = substitute(_WithLoaded(loaded).visit(copy.store.value), {var: first + number})
        at = Ramp(place + copy.step * number, apart, side)
        stores.append(copy.store.replace(value=value, indices=[at]))
    stmt = seq(stores)
    for name, value in reversed(bound):
        stmt = LetStmt(name, value, stmt)
    return stmt


class _WithLoaded(StmtExprMutator):
    """Puts variables in the place of loads."""

    def __init__(self, loaded: Mapping[int, Var]) -> None:
        super().__init__()
        self.loaded = loaded

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        return self.loaded.get(id(load), load)


# ---- the square in registers ----------------------------------------------------------------------------------------


def _turned(rows: list[Var], bits: int, bound: list[tuple[Var, PrimExpr]]) -> list[Var]:
    """The columns of a square, row by row; what they are computed by is appended to ``bound``."""
    side = len(rows)
    piece = min(side, _PIECE_BITS // bits)
    # Squares of a piece's size: in each piece of vector c of a group stands a part of another column.
    groups = [_interleaved(rows[at : at + piece], 1, piece, bound) for at in range(0, side, piece)]
    columns: dict[int, Var] = {}
    for place in range(piece):
        for number, column in enumerate(_parted([group[place] for group in groups], piece, bound)):
            columns[number * piece + place] = column
    return [columns[number] for number in range(side)]


def _interleaved(rows: list[Var], unit: int, piece: int, bound: list[tuple[Var, PrimExpr]]) -> list[Var]:
    """Columns of the squares that the pieces of some rows are; ``unit`` elements of a row stand together already."""
    if len(rows) == 1:
        return rows
    side = dt.lanes(rows[0].dtype)
    halves: list[Var] = []
    for half in (0, piece // 2):
        units = [at + half + place for at in range(0, side, piece) for place in range(0, piece // 2, unit)]
        lanes = [start + row * side + i for start in units for row in (0, 1) for i in range(unit)]
        pairs = [_bind(bound, "part", Shuffle(rows[at : at + 2], lanes)) for at in range(0, len(rows), 2)]
        halves += _interleaved(pairs, 2 * unit, piece, bound)
    return halves


def _parted(rows: list[Var], piece: int, bound: list[tuple[Var, PrimExpr]]) -> list[Var]:
    """The square of whole pieces that some rows are, turned: even pieces of neighbours, and odd ones."""
    if len(rows) == 1:
        return rows
    whole = 2 * dt.lanes(rows[0].dtype)
    turned: list[list[Var]] = []
    for odd in (0, piece):
        lanes = [start + i for start in range(odd, whole, 2 * piece) for i in range(piece)]
        pairs = [_bind(bound, "part", Shuffle(rows[at : at + 2], lanes)) for at in range(0, len(rows), 2)]
        turned.append(_parted(pairs, piece, bound))
    return list(chain.from_iterable(zip(*turned, strict=True)))


def _bind(bound: list[tuple[Var, PrimExpr]], name: str, value: PrimExpr) -> Var:
    """A variable for a value."""
    var = Var(f"{name}_{len(bound)}", value.dtype)
    bound.append((var, value))
    return var


def _number(value: PrimExpr) -> int:
    assert isinstance(value, IntImm)
    return value.value


def _extent(loop: For) -> int:
    return _number(loop.extent)


@dataclass(frozen=True)
class TransposeInRegisters(PrimFuncPass):
    """Turn squares of vectors in registers where the vectors of a copy lie apart in its source, and side by side along a loop.

    The loop advances by squares and comes inside of the loops in it; where its extent is no multiple, the rest stays as it was.

    Before, for vectors of four elements::

        for k in range(64):
            for n in range(8):
                B[k * 32 + n * 4:k * 32 + n * 4 + 4] = A[n * 256 + k:n * 256 + k + 256:64]

    After::

        for k_square in range(16):
            for n in range(8):
                row_0 = A[n * 256 + k_square * 4:n * 256 + k_square * 4 + 4]      # of row n * 4, and three more
                part_4 = shuffle(row_0, row_1, [0, 4, 1, 5])                      # and seven more
                B[k_square * 128 + n * 4:k_square * 128 + n * 4 + 4] = part_6     # and three more
    """

    vector_bits: int = 128
    """Bits of the machine's vectors."""
    vector_registers: int = 32
    """How many it has: a square takes half of them at most."""
    pass_name = "tir.TransposeInRegisters"

    def side(self, dtype: str) -> int:
        """Vectors of a square, and their elements; 1 where elements are not whole bytes."""
        return square_side(dt.bits(dtype), self.vector_bits, self.vector_registers)

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with squares in registers."""
        if not promises_no_alias(func):
            return func
        body = _Transpose(self).visit(func.body)
        return func if body is func.body else func.replace(body=body)
