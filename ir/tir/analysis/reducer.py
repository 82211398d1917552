"""Reductions of blocks: which commutative and associative combiner an update is, and what each iteration contributes to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...node import post_order_visit
from ...structural import structural_equal
from ..buffer import Buffer
from ..expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    BufferLoad,
    Call,
    CmpExpr,
    CommReducer,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Var,
)
from ..op import max_value, min_value
from ..stmt import BufferStore, LetStmt, SeqStmt, Stmt
from ..stmt_functor import StmtExprMutator, loads_in, substitute


class UnknownReducerError(IRValueError):
    """An update is not one that is known to combine in any order and grouping."""


@dataclass
class Reduction:
    """An update ``outputs = combine(outputs, operands)`` of one value or of several together (an argmax)."""

    outputs: list[Buffer]
    indices: tuple[PrimExpr, ...]
    inits: list[BufferStore]
    operands: list[PrimExpr]
    """What one iteration contributes to each output."""
    combine: Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], list[PrimExpr]]
    """(what is there, what comes in) -> the new values."""

    @property
    def combiner(self) -> CommReducer:
        """The combiner with its identity."""
        dtypes = [buffer.dtype for buffer in self.outputs]
        several = len(dtypes) > 1
        there = [Var(f"x{n}" if several else "x", dtype) for n, dtype in enumerate(dtypes)]
        coming = [Var(f"y{n}" if several else "y", dtype) for n, dtype in enumerate(dtypes)]
        return CommReducer(there, coming, self.combine(there, coming), [item.value for item in self.inits])


def stored(buffers: Sequence[Buffer], values: Sequence[PrimExpr], indices: Sequence[PrimExpr]) -> Stmt:
    """The stores of new values; several are bound by let first, since each may read what another overwrites."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], indices)
    names = [Var(f"v_{buffer.name}", value.dtype) for buffer, value in zip(buffers, values, strict=True)]
    body: Stmt = SeqStmt(
        [BufferStore(buffer, var, indices) for buffer, var in zip(buffers, names, strict=True)]
    )
    for var, value in zip(reversed(names), reversed(values), strict=True):
        body = LetStmt(var, value, body)
    return body


def _require(condition: object, message: str) -> None:
    if not condition:
        raise UnknownReducerError(message)


def reduction_of(init: Stmt | None, update: Stmt, name: str) -> Reduction:
    """The reduction that a block's statements are.

    Args:
        init: the block's ``init``.
        update: its body: stores of combined values, behind lets where they are several.
        name: the block's, for messages.

    Raises:
        UnknownReducerError: the combiner is not known to be associative and commutative, or the init is not its identity.
    """
    found = updates_of(init, update, name)
    init_values = [item.value for item in found.inits]
    if len(found.outputs) == 1:
        operands, combine = _single_combiner(found.values[0], found.own[0], init_values[0], name)
    else:
        operands, combine = _tuple_combiner(found.values, found.own, init_values, name)
    for operand in operands:
        _require(
            not any(structural_equal(load, own) for load in loads_in(operand) for own in found.own),
            f"what block {name!r} combines its result with depends on that result: {operand}",
        )
    return Reduction(found.outputs, found.indices, found.inits, operands, combine)


@dataclass
class Updates:
    """What a block stores, whatever it combines."""

    outputs: list[Buffer]
    indices: tuple[PrimExpr, ...]
    inits: list[BufferStore]
    values: list[PrimExpr]
    """What is stored, lets looked through."""
    own: list[BufferLoad]
    """What is there before."""


def updates_of(init: Stmt | None, update: Stmt, name: str) -> Updates:
    """What a block stores; raises UnknownReducerError where it does not store and initialize the same elements of its outputs."""
    stores, values = _updates(update, name)
    inits, init_values = _updates(init, name)
    outputs = [store.buffer for store in stores]
    _require(
        [store.buffer for store in inits] == outputs,
        f"the init of block {name!r} does not store the same buffers in the same order as its update",
    )
    indices = stores[0].indices
    for store in (*stores, *inits):
        same = len(store.indices) == len(indices) and all(
            structural_equal(a, b) for a, b in zip(store.indices, indices, strict=True)
        )
        _require(same, f"the outputs of block {name!r} are not stored at the same indices")
    begun = [item.replace(value=value) for item, value in zip(inits, init_values, strict=True)]
    return Updates(outputs, indices, begun, values, [BufferLoad(buffer, indices) for buffer in outputs])


def _updates(stmt: Stmt | None, name: str) -> tuple[list[BufferStore], list[PrimExpr]]:
    """The stores of an update (through ``let`` values, when several) and the values stored."""
    lets: dict[Any, Any] = {}
    while isinstance(stmt, LetStmt):
        lets[stmt.var] = substitute(stmt.value, lets)
        stmt = stmt.body
    stores = list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]
    if not all(isinstance(item, BufferStore) for item in stores):
        raise UnknownReducerError(f"the body or init of block {name!r} is no plain store of reduced values")
    plain: list[BufferStore] = stores  # type: ignore[assignment]
    buffers = {item.buffer for item in plain}
    for position, store in enumerate(plain):
        if isinstance(store.value, Var) or position == 0:
            continue
        _require(
            not _collected(store.value, lambda node: isinstance(node, BufferLoad) and node.buffer in buffers),
            f"block {name!r} stores reduced values one after the other; bind them by let first",
        )
    return plain, [substitute(item.value, lets) for item in plain]


def _collected(expr: PrimExpr, wanted: Callable[[Any], bool]) -> list[Any]:
    """The nodes of an expression that are wanted, inner ones first."""
    found: list[Any] = []
    post_order_visit(expr, lambda node: found.append(node) if wanted(node) else None)
    return found


_BINARY = (Add, Mul, Max, Min)

_Combiner = tuple[list[PrimExpr], Callable[[Sequence[PrimExpr], Sequence[PrimExpr]], list[PrimExpr]]]
"""The operands of an update, and how they are combined with what is there."""


def _single_combiner(value: PrimExpr, own: BufferLoad, init: PrimExpr, name: str) -> _Combiner:
    """The combiner of ``out = out (+, *, max, min) x``."""
    kind = type(value)
    fits = isinstance(value, _BINARY) and sum(structural_equal(side, own) for side in (value.a, value.b)) == 1
    _require(fits, f"the update of block {name!r} is not out = out (+, *, max, min) value")
    _require_identity(kind, init, name)
    operand = value.b if structural_equal(value.a, own) else value.a  # type: ignore[attr-defined]
    return [operand], lambda there, coming: [kind(there[0], coming[0])]


def _require_identity(kind: type, init: Any, name: str) -> None:
    """Partial results start from the init as well, so that it must change nothing when it is combined."""
    value = getattr(init, "value", None)
    dtype = init.dtype
    if kind in (Add, Mul):
        fits = isinstance(init, IntImm | FloatImm) and value == (0 if kind is Add else 1)
    else:
        limit = min_value(dtype) if kind is Max else max_value(dtype)
        infinite = value is not None and value == float("-inf" if kind is Max else "inf")
        fits = infinite or structural_equal(init, limit)
    _require(
        fits,
        f"block {name!r} starts from {init}, which is not the identity of {kind.__name__}; partial results would count it again",
    )


def _tuple_combiner(
    values: list[PrimExpr],
    own: list[BufferLoad],
    inits: list[PrimExpr],
    name: str,
) -> _Combiner:
    """The combiner of several values at once: sums, products, or the selection of an argmax or argmin."""
    coming: list[PrimExpr] = []
    for position, (value, load) in enumerate(zip(values, own, strict=True)):
        if isinstance(value, _BINARY):
            sides = [side for side in (value.a, value.b) if not structural_equal(side, load)]
            _require(len(sides) == 1, f"value {position} of block {name!r} is not combined with itself")
            _require_identity(type(value), inits[position], name)
            coming.append(sides[0])
        elif isinstance(value, Select):
            sides = [
                side for side in (value.true_value, value.false_value) if not structural_equal(side, load)
            ]
            _require(
                len(sides) == 1,
                f"value {position} of block {name!r} does not select between itself and another",
            )
            coming.append(sides[0])
        else:
            raise UnknownReducerError(
                f"value {position} of block {name!r} is combined by {type(value).__name__}"
            )
    there_vars = [Var(f"x{n}", load.dtype) for n, load in enumerate(own)]
    coming_vars = [Var(f"y{n}", item.dtype) for n, item in enumerate(coming)]
    abstract = Abstraction([*zip(own, there_vars, strict=True), *zip(coming, coming_vars, strict=True)])
    results = [
        _in_operands(value, load, there, given, abstract)
        for value, load, there, given in zip(values, own, there_vars, coming_vars, strict=True)
    ]
    known = {*there_vars, *coming_vars}
    for result in results:
        strange = _collected(
            result,
            lambda node: (isinstance(node, Var) and node not in known) or isinstance(node, BufferLoad | Call),
        )
        _require(
            not strange,
            f"the combiner of block {name!r} uses more than its operands: {strange[:1]}",
        )
    if any(isinstance(value, Select) for value in values):
        _require_selection(results, there_vars, coming_vars, inits, name)
    return coming, lambda there, given: [
        substitute(result, dict(zip([*there_vars, *coming_vars], [*there, *given], strict=True)))
        for result in results
    ]


def _in_operands(value: Any, own: BufferLoad, there: Var, coming: Var, abstract: Abstraction) -> PrimExpr:
    """A combined value in terms of the operands.

    Its own operands stand at their place: several values may take the same one, or a number. What a condition compares is found
    by what it is equal to.
    """
    if not isinstance(value, Select):
        combined: PrimExpr = type(value)(there, coming)
        return combined
    sides = (there, coming) if structural_equal(value.true_value, own) else (coming, there)
    return Select(abstract.visit(value.condition), *sides)


class Abstraction(StmtExprMutator):
    """Replaces expressions equal to given ones, by variables for instance."""

    def __init__(self, table: Sequence[tuple[PrimExpr, PrimExpr]]) -> None:
        super().__init__()
        self._entries = table

    def visit(self, node: Any) -> Any:
        if isinstance(node, PrimExpr) and not isinstance(node, IntImm | FloatImm):
            for expr, new in self._entries:
                if structural_equal(node, expr):
                    return new
        return super().visit(node)


_ORDERS = {GE: 1, GT: 1, LE: -1, LT: -1}


def _require_selection(
    results: list[PrimExpr],
    there: list[Var],
    coming: list[Var],
    inits: list[PrimExpr],
    name: str,
) -> None:
    """All values must follow one comparison of a key, so that the choice is associative; its init must lose against all."""
    refused = f"the selection of block {name!r} is not that of an argmax or argmin"
    signs = set()
    for result in results:
        if isinstance(result, Select):
            compared = _collected(
                result.condition, lambda node: isinstance(node, CmpExpr) and type(node) in _ORDERS
            )
            _require(compared, refused)
            main = compared[0]
        elif isinstance(result, Max | Min):
            key = there.index(result.a) if result.a in there else coming.index(result.a)  # type: ignore[arg-type]
            signs.add((key, 1 if isinstance(result, Max) else -1))
            continue
        else:
            raise UnknownReducerError(refused)
        flipped = main.a in coming
        sides = (main.b, main.a) if flipped else (main.a, main.b)
        _require(sides[0] in there and sides[1] in coming, refused)
        key = there.index(sides[0])
        _require(key == coming.index(sides[1]), refused)
        keeps = result.true_value in there
        sign = _ORDERS[type(main)] * (-1 if flipped else 1) * (1 if keeps else -1)
        signs.add((key, sign))
    _require(len(signs) == 1, refused)
    ((key, sign),) = signs
    _require_identity(Max if sign > 0 else Min, inits[key], name)
