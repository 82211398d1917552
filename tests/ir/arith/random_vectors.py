"""Random expressions over vectors, and what each lane of one is as an expression over scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ir import dtype as dt
from ir import tir
from ir.tir import expr as E

from .meaning import wrapped
from .random_expressions import BUFFERS, INTEGERS, SIZE, TYPES, Generator

LANES = 4


class VectorGenerator(Generator):
    """Vectors made of scalars, ramps, loads under predicates, and operations of all kinds on them."""

    def vector(self, depth: int, dtype: str, with_data: bool) -> Any:
        """A vector of numbers of a type."""
        random = self.random
        if depth == 0 or random.random() < 0.15:
            return self.vector_leaf(dtype, with_data)

        def part(of: str = dtype) -> Any:
            return self.vector(depth - 1, of, with_data)

        kind = random.random()
        if kind < 0.08 and with_data:
            var = tir.Var("x", f"{dtype}x{LANES}")
            value = part()
            self.scope.append(var)
            body = part()
            self.scope.pop()
            return tir.Let(var, value, tir.Add(body, var))
        if kind < 0.14:
            return self.shuffle(part(), part())
        if kind < 0.3:
            choose = random.random()
            if choose < 0.4:
                return tir.Select(self.mask(depth - 1, with_data), part(), part())
            if choose < 0.6:
                return tir.Select(self.condition(depth - 1, with_data), part(), part())
            condition = self.mask if choose < 0.85 else self.condition
            made = (condition(depth - 1, with_data), part(), part())
            return tir.Call(f"{dtype}x{LANES}", "tir.if_then_else", made)
        if dtype == "float32":
            if kind < 0.45:
                return tir.Cast(f"float32x{LANES}", part(random.choice(INTEGERS)))
            return random.choice((tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Min, tir.Max))(part(), part())
        if kind < 0.4:
            operation = random.choice(
                (tir.Add, tir.Sub, tir.Mul, tir.FloorDiv, tir.FloorMod, tir.Min, tir.Max)
            )
            return operation(self.ramp(dtype, with_data), tir.Broadcast(self.small(dtype), LANES))
        if kind < 0.5:
            return random.choice((tir.Add, tir.Sub, tir.Mul))(part(), part())
        if kind < 0.72:
            divide = random.choice((tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod))
            small = tir.Broadcast(self.small(dtype), LANES)
            return divide(part(), small if random.random() < 0.8 else part())
        if kind < 0.85:
            return random.choice((tir.Min, tir.Max))(part(), part())
        if not with_data:
            return tir.Cast(f"{dtype}x{LANES}", part("int64" if dtype == "int32" else "int32"))
        if random.random() < 0.15:
            return tir.Cast(f"{dtype}x{LANES}", self.mask(depth - 1, with_data))
        return tir.Cast(f"{dtype}x{LANES}", part(random.choice([item for item in TYPES if item != dtype])))

    def vector_leaf(self, dtype: str, with_data: bool) -> Any:
        """A ramp, a broadcast, a variable or a load."""
        random = self.random
        kind = random.random()
        inside = [var for var in self.scope if var.dtype == f"{dtype}x{LANES}"]
        if inside and kind < 0.3:
            return random.choice(inside)
        if with_data and kind < 0.3:
            return self.vector_load(dtype)
        if kind < 0.65 and dtype != "float32":
            return self.ramp(dtype, with_data)
        return tir.Broadcast(self.number(random.choice((0, 0, 1)), dtype, with_data), LANES)

    def ramp(self, dtype: str, with_data: bool) -> Any:
        """Integers at equal distances."""
        random = self.random
        stride = tir.const(wrapped(random.choice((0, 1, 1, 2, 3, 4, 8, 16, -1, -2)), dtype), dtype)
        if random.random() < 0.1:
            stride = self.leaf(dtype, with_data)
        base = self.number(random.choice((0, 0, 1)), dtype, with_data)
        if random.random() < 0.5:
            base = tir.Mul(base, self.small(dtype))
        return tir.Ramp(base, stride, LANES)

    def vector_load(self, dtype: str) -> Any:
        """A load of lanes side by side or anywhere, of which a predicate may leave some out."""
        random = self.random
        index = (
            tir.Ramp(tir.const(random.randint(0, 3)), random.choice((1, 1, 2, 4)), LANES)
            if random.random() < 0.7
            else self.vector(0, "int32", False)
        )
        predicate = self.mask(1, True) if random.random() < 0.4 else None
        return E.BufferLoad(BUFFERS[dtype], [index], predicate)

    def shuffle(self, a: Any, b: Any) -> Any:
        """Lanes of two vectors in some order."""
        return tir.Shuffle([a, b], [tir.const(self.random.randint(0, 2 * LANES - 1)) for _ in range(LANES)])

    def mask(self, depth: int, with_data: bool) -> Any:
        """A vector of truth values."""
        random = self.random
        kind = random.random()
        if kind < 0.1:
            return tir.Broadcast(self.condition(max(depth - 1, 0), with_data), LANES)
        if kind < 0.15:
            return tir.Broadcast(tir.const(random.random() < 0.5), LANES)
        if depth > 0 and kind < 0.4:
            join = random.choice((tir.And, tir.Or))
            return join(self.mask(depth - 1, with_data), self.mask(depth - 1, with_data))
        if depth > 0 and kind < 0.5:
            return tir.Not(self.mask(depth - 1, with_data))
        dtype = random.choice(("int32", "int32", "int64", *(TYPES if with_data else ())))
        compare = random.choice((tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE))
        sides = [self.vector(max(depth - 1, 0), dtype, with_data) for _ in range(2)]
        return compare(*sides)


def lane_of(e: Any, lane: int) -> Any:
    """An expression for one lane of a vector; a scalar is itself."""
    if dt.lanes(e.dtype) == 1:
        return e
    for kind, form in _LANES:
        if isinstance(e, kind):
            return form(e, lane)
    raise TypeError(type(e).__name__)


def _load(e: Any, lane: int) -> Any:
    load = E.BufferLoad(e.buffer, [lane_of(e.indices[0], lane)])
    if e.predicate is None:
        return load
    zero = tir.const(0, load.dtype)
    return tir.Call(load.dtype, "tir.if_then_else", (lane_of(e.predicate, lane), load, zero))


def _element(e: Any) -> str:
    return dt.element_of(e.dtype)


def _let(e: Any, lane: int) -> Any:
    """A vector that is bound has a variable for each of its lanes: shuffles may use others."""
    body = lane_of(e.body, lane)
    if dt.lanes(e.value.dtype) == 1:
        return tir.Let(e.var, e.value, body)
    for each in reversed(range(dt.lanes(e.value.dtype))):
        body = tir.Let(_variable(e.var, each), lane_of(e.value, each), body)
    return body


_VARIABLES: dict[tuple[Any, int], Any] = {}


def _variable(var: Any, lane: int) -> Any:
    if (var, lane) not in _VARIABLES:
        _VARIABLES[var, lane] = tir.Var(f"{var.name}_{lane}", _element(var))
    return _VARIABLES[var, lane]


def _shuffle(e: Any, lane: int) -> Any:
    place = e.indices[lane].value
    for vector in e.vectors:
        width = dt.lanes(vector.dtype)
        if place < width:
            return lane_of(vector, place)
        place -= width
    raise IndexError(lane)


_LANES: list[tuple[Any, Callable[[Any, int], Any]]] = [
    (E.Var, _variable),
    (E.Ramp, lambda e, lane: _ramp(e, lane)),
    (E.Broadcast, lambda e, lane: e.value),
    (
        E.BinaryOpExpr | E.CmpExpr | E.LogicalExpr,
        lambda e, lane: type(e)(lane_of(e.a, lane), lane_of(e.b, lane)),
    ),
    (E.Not, lambda e, lane: E.Not(lane_of(e.a, lane))),
    (E.Cast, lambda e, lane: E.Cast(_element(e), lane_of(e.value, lane))),
    (
        E.Select,
        lambda e, lane: E.Select(*(lane_of(x, lane) for x in (e.condition, e.true_value, e.false_value))),
    ),
    (E.Call, lambda e, lane: E.Call(_element(e), e.op, tuple(lane_of(x, lane) for x in e.args))),
    (E.BufferLoad, _load),
    (E.Let, _let),
    (E.Shuffle, _shuffle),
]


def _ramp(e: Any, lane: int) -> Any:
    return E.Add(e.base, E.Mul(e.stride, tir.const(lane, e.base.dtype)))


assert SIZE >= 4 * LANES
