"""Random expressions: numbers of every dtype, conditions, indices and loads, all defined for every input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from .operations import FLOAT_OPERATIONS, INTEGER_OPERATIONS, OPERATIONS
from .scope import Scope
from .values import FLOATS, INTEGERS, BufferSpec, Reals, Value, Variable, fits, literal, real

_DEEPEST_LOADS = 6
"""A load's index may load, and so on."""

_INDEX_MAGNITUDE = 10**6
"""Indices are made of variables below it, so that their arithmetic does not overflow."""

_SMALL_BUFFER = 1000
"""Indices are made of elements of buffers below it."""


class Expressions:
    """Writes expressions over what a scope holds.

    Where a method takes ``plain``, true keeps the expression to variables, small elements and small constants, as indices and
    guards want; otherwise the ends of the dtypes' ranges take part.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.random = scope.random
        self.most = Reals.EXACT
        """What floats may be in what is written now."""
        self._nested_loads = 0

    @contextmanager
    def up_to(self, most: Reals) -> Iterator[None]:
        """Floats may be so much, or, where the program computes indices and guards, less."""
        saved = self.most
        self.most = most
        try:
            yield
        finally:
            self.most = saved

    # -- indices ---------------------------------------------------------------
    def index(self, extent: int, depth: int = 2) -> Value:
        """An expression from 0 to below the extent."""
        small = [
            variable
            for variable in self.scope.variables
            if variable.dtype == "bool" or variable.magnitude < _INDEX_MAGNITUDE
        ]
        with self.scope.only(small), self.up_to(Reals.EXACT):
            for _ in range(8):
                dtype = self.random.choice(["int32", "int32", "int32", "int64"])
                found = self._into(extent, self.number(dtype, depth, plain=True))
                if found is not None:
                    return found
            return literal(self.random.randrange(extent), "int32")

    def _into(self, extent: int, value: Value) -> Value | None:
        """A number made an index: as it is, moved, or by remainder, clamping or division; None if the dice say no."""
        dtype = value.dtype
        if value.low >= 0 and value.high < extent:
            return value
        dice = self.random.random()
        if dice < 0.3 and value.low >= 0 and value.high - value.low < extent:
            return Value(f"({value} - {value.low})", dtype, 0, value.high - value.low)
        if dice < 0.5:
            return Value(f"({value} % {literal(extent, dtype)})", dtype, 0, extent - 1)
        if dice < 0.6:
            last, first = literal(extent - 1, dtype), literal(0, dtype)
            return Value(f"T.max(T.min({value}, {last}), {first})", dtype, 0, extent - 1)
        if dice < 0.65 and value.low >= 0:
            divisor = value.high // extent + 1
            return Value(f"({value} // {literal(divisor, dtype)})", dtype, 0, value.high // divisor)
        return None

    def access(self, buffer: BufferSpec, depth: int = 2) -> str:
        """An element of a buffer, with the pinned indices where there are some."""
        pins = self.scope.pinned(buffer)
        indices = [
            pins.get(dimension) or str(self.index(extent, depth))
            for dimension, extent in enumerate(buffer.shape)
        ]
        return f"{buffer.name}[{', '.join(indices)}]"

    def guarded_access(self, buffer: BufferSpec, depth: int) -> tuple[str, str]:
        """A condition, and an element that is in the buffer where it holds: one index may be any number."""
        dimension = self.random.randrange(len(buffer.shape))
        free = self.number("int32", depth, plain=True)
        indices = [str(self.index(extent, 1)) for extent in buffer.shape]
        indices[dimension] = str(free)
        condition = f"{free} >= 0 and {free} < {buffer.shape[dimension]}"
        return condition, f"{buffer.name}[{', '.join(indices)}]"

    # -- leaves ----------------------------------------------------------------
    def leaf(self, dtype: str, depth: int, plain: bool) -> Value:
        """A variable, a variable of another dtype that is cast, an element of a buffer, or a constant."""
        same = [variable for variable in self.scope.variables if self._usable(variable, dtype)]
        others = self._castable(dtype)
        buffers = self._loadable(dtype, plain)
        options = ["variable"] * 3 if same else []
        if others:
            options.append("cast")
        if buffers and (not plain or self.random.random() < 0.25):
            options += ["load"] * 3
        if not options or self.random.random() < 0.3:
            options.append("constant")
        chosen = self.random.choice(options)
        if chosen == "variable":
            return self.random.choice(same).as_value()
        if chosen == "cast":
            variable = self.random.choice(others)
            return Value(f'T.Cast("{dtype}", {variable.name})', dtype, variable.low, variable.high)
        if chosen == "load":
            return self._load_of(buffers, dtype, depth)
        return self._constant(dtype, plain)

    def _usable(self, source: Variable | BufferSpec, dtype: str) -> bool:
        return source.dtype == dtype and source.reals <= self.most

    def _castable(self, dtype: str) -> list[Variable]:
        """The variables whose values the dtype holds exactly."""
        if dtype in INTEGERS:
            return [
                variable
                for variable in self.scope.variables
                if variable.dtype in INTEGERS and fits(dtype, variable.low, variable.high)
            ]
        if dtype in FLOATS:
            return [
                variable
                for variable in self.scope.variables
                if variable.dtype in INTEGERS and variable.magnitude <= FLOATS[dtype]
            ]
        return []

    def _loadable(self, dtype: str, plain: bool) -> list[BufferSpec]:
        """The buffers of a dtype that may be computed with."""
        return [
            buffer
            for buffer in self.scope.buffers
            if self._usable(buffer, dtype) and (not plain or buffer.magnitude < _SMALL_BUFFER)
        ]

    def _load_of(self, buffers: list[BufferSpec], dtype: str, depth: int) -> Value:
        """An element of one of the buffers, unless loads are nested too deeply already."""
        if self._nested_loads >= _DEEPEST_LOADS:
            return literal(0, dtype)
        self._nested_loads += 1
        try:
            return self._load(self.random.choice(buffers), depth)
        finally:
            self._nested_loads -= 1

    def _load(self, buffer: BufferSpec, depth: int) -> Value:
        """An element of a buffer, sometimes one that is only there under a condition."""
        if self.random.random() < 0.1 and not self.scope.pinned(buffer):
            condition, element = self.guarded_access(buffer, 1)
            other = self.number(buffer.dtype, 0, plain=True)
            text = f"T.if_then_else(({condition}), {element}, {other})"
            low, high = min(buffer.low, other.low), max(buffer.high, other.high)
            return Value(text, buffer.dtype, low, high, max(buffer.reals, other.reals))
        element = self.access(buffer, max(0, depth - 1))
        return Value(element, buffer.dtype, buffer.low, buffer.high, buffer.reals)

    def _constant(self, dtype: str, plain: bool) -> Value:
        if dtype == "bool":
            return literal(self.random.random() < 0.5, "bool")
        if dtype in FLOATS:
            return self._float_constant(dtype)
        least, greatest = INTEGERS[dtype]
        numbers = [0, 1, 2, 3, 5, 7, 8, -1, -3, 100, self.random.randint(-20, 20)]
        edges = [] if plain else [least, greatest, least + 1, greatest - 1]
        return literal(max(least, min(greatest, self.random.choice(numbers + edges))), dtype)

    def _float_constant(self, dtype: str) -> Value:
        if self.most is Reals.ANY and self.random.random() < 0.3:
            return real(self.random.choice([0.1, -2.5, 1e-40, 3e38, 1 / 3]), dtype)
        if self.most and self.random.random() < 0.3:
            return real(self.random.choice([math.inf, -math.inf, math.nan, -0.0]), dtype, Reals.SPECIAL)
        return literal(self.random.randint(-6, 6), dtype)

    # -- inner nodes -----------------------------------------------------------
    def number(self, dtype: str, depth: int, plain: bool = False) -> Value:
        """An expression of a dtype, at most so deep."""
        if dtype == "bool":
            return self.condition(depth, plain)
        if depth <= 0 or self.random.random() < 0.2:
            return self.leaf(dtype, depth, plain)
        names = INTEGER_OPERATIONS if dtype in INTEGERS else FLOAT_OPERATIONS
        for _ in range(6):
            found = OPERATIONS[self.random.choice(names)](self, dtype, depth, plain)
            if found is not None:
                return found
        return self.leaf(dtype, depth, plain)

    def condition(self, depth: int, plain: bool = False) -> Value:
        """A comparison, or conditions joined."""
        dice = self.random.random()
        if depth <= 0 and dice < 0.2:
            return self.leaf("bool", 0, plain)
        if dice < 0.6 or depth <= 0:
            return self._comparison(depth, plain)
        if dice < 0.75:
            return self._joined("and", depth, plain)
        if dice < 0.9:
            return self._joined("or", depth, plain)
        return Value(f"T.Not({self.condition(depth - 1, plain)})", "bool", 0, 1)

    def _joined(self, word: str, depth: int, plain: bool) -> Value:
        left = self.condition(depth - 1, plain)
        right = self.condition(depth - 1, plain)
        return Value(f"({left} {word} {right})", "bool", 0, 1)

    def _comparison(self, depth: int, plain: bool) -> Value:
        dtypes = [dtype for dtype in self.scope.dtypes if dtype != "bool"]
        dtype = self.random.choice([*dtypes, "int32", "int32"])
        with self.up_to(self.most if plain else Reals.ANY):
            left = self.number(dtype, min(depth, 2), plain)
            right = self.number(dtype, min(depth, 1), plain)
        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        return Value(f"({left} {sign} {right})", "bool", 0, 1)
