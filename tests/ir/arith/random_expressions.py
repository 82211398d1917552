"""Random expressions and statements over index variables, variables and loads of many types, at the edges of their ranges."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from ir import tir
from ir.tir import expr as E

from .meaning import integer_range, wrapped

INTEGERS = ("int32", "int64", "int8", "uint8", "uint32", "uint64")
TYPES = (*INTEGERS, "float32")
SIZE = 16
BUFFERS = {dtype: tir.decl_buffer((SIZE,), dtype, f"A_{dtype}") for dtype in TYPES}
OUTPUTS = {dtype: tir.decl_buffer((SIZE,), dtype, f"O_{dtype}") for dtype in (*TYPES, "bool")}
NUMBERS = {"int32": [tir.Var(name) for name in "ijn"], "int64": [tir.Var(name, "int64") for name in "pq"]}
"""Index variables; n has no bounds."""
NARROW = {dtype: tir.Var(f"v_{dtype}", dtype) for dtype in ("int8", "uint8", "uint32")}
_FLOATS = (0.0, -0.0, 1.0, 2.0, 0.5, float("nan"), float("inf"), 41.0, -1.0)


class Generator:
    """Expressions from one source of random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.scope: list[tir.Var] = []
        """Variables of lets and loops around."""

    def constant(self, dtype: str) -> Any:
        if dtype == "float32":
            return tir.FloatImm("float32", self.random.choice(_FLOATS))
        low, high = integer_range(dtype)
        edges = (low, high, high // 2, 1 << 16, 10**9, 255, 200, 127, 100)
        value = self.random.choice((0, 1, 2, 3, 4, 5, 7, 8, 9, 16, -1, -2, -3, *edges))
        return tir.const(wrapped(value, dtype), dtype)

    def small(self, dtype: str) -> Any:
        return tir.const(wrapped(self.random.choice((1, 2, 3, 4, 5, 6, 8, 16, -1)), dtype), dtype)

    def leaf(self, dtype: str, with_data: bool) -> Any:
        random = self.random
        kind = random.random()
        inside = [var for var in self.scope if var.dtype == dtype]
        if inside and kind < 0.3:
            return random.choice(inside)
        if kind < 0.4 and dtype in NUMBERS:
            return random.choice(NUMBERS[dtype])
        if kind < 0.5 and dtype in NARROW:
            return NARROW[dtype]
        if kind < 0.75 and with_data:
            index = (
                self.number(0, "int32", False) if random.random() < 0.5 else tir.const(random.randint(0, 3))
            )
            return E.BufferLoad(BUFFERS[dtype], [index])
        return self.constant(dtype)

    def number(self, depth: int, dtype: str, with_data: bool) -> Any:
        random = self.random
        if depth == 0 or random.random() < 0.12:
            return self.leaf(dtype, with_data)

        def part(of: str = dtype) -> Any:
            return self.number(depth - 1, of, with_data)

        kind = random.random()
        if dtype == "float32":
            if kind < 0.25:
                return tir.Cast("float32", part(random.choice(INTEGERS)))
            if kind < 0.4:
                return tir.Select(self.condition(depth - 1, with_data), part(), part())
            return random.choice((tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Min, tir.Max))(part(), part())
        if kind < 0.3:
            return random.choice((tir.Add, tir.Sub))(part(), part())
        if kind < 0.42:
            return tir.Mul(part(), self.small(dtype) if random.random() < 0.7 else part())
        if kind < 0.62:
            divide = random.choice((tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod))
            return divide(part(), self.small(dtype) if random.random() < 0.85 else part())
        if kind < 0.75:
            return random.choice((tir.Min, tir.Max))(part(), part())
        if kind < 0.85:
            choose = tir.Select if random.random() < 0.5 else tir.if_then_else
            return choose(self.condition(depth - 1, with_data), part(), part())
        if not with_data:
            return tir.Cast(dtype, part("int64" if dtype == "int32" else "int32"))
        if random.random() < 0.1:
            return tir.Cast(dtype, self.condition(depth - 1, with_data))
        source = random.choice([other for other in TYPES if other != dtype])
        if random.random() < 0.15:
            var = tir.Var("x", source)
            return tir.Let(var, part(source), tir.Add(tir.Cast(dtype, var), part()))
        return tir.Cast(dtype, part(source))

    def condition(self, depth: int, with_data: bool) -> Any:
        random = self.random
        kind = random.random()
        if depth > 0 and kind < 0.3:
            join = random.choice((tir.And, tir.Or))
            return join(self.condition(depth - 1, with_data), self.condition(depth - 1, with_data))
        if depth > 0 and kind < 0.4:
            return tir.Not(self.condition(depth - 1, with_data))
        dtype = random.choice(("int32", "int32", "int64", *(TYPES if with_data else ())))
        compare = random.choice((tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE))
        sides = [self.number(max(depth - 1, 0), dtype, with_data) for _ in range(2)]
        return compare(*sides)

    def statement(self, depth: int) -> Any:
        """Loops, choices and lets around stores."""
        random = self.random
        kind = random.random() if depth else 1.0
        if kind < 0.25:
            var = tir.Var("k")
            extent = random.choice((0, 1, 2, 5))
            return tir.For(
                var, random.choice((0, 0, 3)), extent, tir.ForKind.SERIAL, self._within(var, depth)
            )
        if kind < 0.5:
            other = self.statement(depth - 1) if random.random() < 0.5 else None
            return tir.IfThenElse(self.condition(2, True), self.statement(depth - 1), other)
        if kind < 0.6:
            var = tir.Var("x", random.choice(TYPES))
            value = self.number(2, var.dtype, random.random() < 0.5)
            return tir.LetStmt(var, value, self._within(var, depth))
        if kind < 0.8:
            return tir.SeqStmt([self.statement(depth - 1), self.statement(depth - 1)])
        dtype = random.choice((*TYPES, "bool", "int32", "int32"))
        value = self.condition(2, True) if dtype == "bool" else self.number(3, dtype, random.random() < 0.7)
        target = BUFFERS[dtype] if dtype in BUFFERS and random.random() < 0.3 else OUTPUTS[dtype]
        return tir.BufferStore(target, value, [random.randint(0, SIZE - 1)])

    def _within(self, var: tir.Var, depth: int) -> Any:
        self.scope.append(var)
        body = self.statement(depth - 1)
        self.scope.pop()
        return body

    # ---- values -------------------------------------------------------------------------------------------------

    def value(self, dtype: str, low: int | None = None, high: int | None = None) -> Any:
        """A number of a type, mostly at its ends or near zero."""
        if dtype == "float32":
            return np.float32(self.random.choice((*_FLOATS, -float("inf"), 1e30, 300.7, -3.0)))
        least, most = integer_range(dtype)
        least, most = least if low is None else low, most if high is None else high
        near = max(least, min(most, self.random.randint(-9, 20)))
        return self.random.choice((least, most, self.random.randint(least, most), near))

    def values(self, bounds: dict[Any, tuple[int, int]]) -> dict[Any, Any]:
        """Values of all variables and buffers."""
        found: dict[Any, Any] = {
            var: self.value(var.dtype, *bounds.get(var, (None, None)))
            for var in (*NUMBERS["int32"], *NUMBERS["int64"], *NARROW.values())
        }
        for dtype, buffer in BUFFERS.items():
            found[buffer] = [self.value(dtype) for _ in range(SIZE)]
        for dtype, buffer in OUTPUTS.items():
            found[buffer] = [np.float32(0) if dtype == "float32" else 0] * SIZE
        return found
