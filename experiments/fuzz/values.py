"""What the generator knows of the things it writes: texts of expressions with the interval of their values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

INTEGERS = {
    f"{kind}{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind == "int" else (0, 2**bits - 1)
    for kind in ("int", "uint")
    for bits in (2, 4, 8, 16, 32, 64)
}
"""The integer dtypes, with the least and the greatest value of each."""

FLOATS = {"float32": 2**24, "float64": 2**50, "float16": 2**11, "bfloat16": 2**8}
"""The float dtypes, with the magnitude up to which all integers are exact: results do not depend on the order of operations."""

ROUNDED = ("float32", "float64")
"""The float dtypes that native code rounds to after each operation; narrower ones it may carry in float32."""


class Reals(IntEnum):
    """What a float may be: each kind has the numbers of those before."""

    EXACT = 0
    """An integer of an interval."""
    SPECIAL = 1
    """Or NaN, an infinity, a zero of either sign."""
    ANY = 2
    """Any number; the interval says nothing."""


@dataclass(frozen=True)
class Value:
    """An expression: its text, its dtype, and the interval of integers in which its value is."""

    text: str
    dtype: str
    low: int
    high: int
    reals: Reals = Reals.EXACT

    def __str__(self) -> str:
        return self.text

    @property
    def magnitude(self) -> int:
        """The greatest absolute value."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Variable:
    """A name in scope; the role says what may be made of it."""

    name: str
    dtype: str
    low: int
    high: int
    role: str = "local"
    """"size" (a parameter that may be a loop's extent), "scalar" (another parameter), "loop" or "local"."""
    reals: Reals = Reals.EXACT

    @property
    def is_parameter(self) -> bool:
        """Whether the name is one everywhere in the function."""
        return self.role in ("size", "scalar")

    @property
    def magnitude(self) -> int:
        """The greatest absolute value."""
        return max(abs(self.low), abs(self.high))

    def as_value(self) -> Value:
        """The expression that reads the variable."""
        return Value(self.name, self.dtype, self.low, self.high, self.reals)


@dataclass(eq=False)
class BufferSpec:
    """A buffer, and the interval in which stores keep its elements."""

    name: str
    shape: list[int]
    dtype: str
    low: int
    high: int
    reals: Reals = Reals.EXACT
    """What floats it holds; the interval is that of its finite elements."""
    memory: str = ""
    """What it lies in, where it is a view: the name of the buffer that has it; the empty name stands for its own."""
    is_shared: bool = False
    """Whether two parameters have its memory: an index says nothing of what iterations touch."""
    padding: int = 0
    """Elements between two rows that no element has; the stride of the last dimension is 2 if it is odd."""

    @property
    def magnitude(self) -> int:
        """The greatest absolute value of an element."""
        return max(abs(self.low), abs(self.high))

    @property
    def place(self) -> str:
        """Equal for buffers in one memory."""
        return self.memory or self.name

    @property
    def strides(self) -> list[int]:
        """The distances of elements that are neighbours in a dimension."""
        strides = [1 + self.padding % 2]
        for extent in reversed(self.shape[1:]):
            strides.append(strides[-1] * extent + self.padding)
        return strides[::-1]

    @property
    def span(self) -> int:
        """How many elements of memory it takes."""
        return 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides))

    @property
    def covers_dtype(self) -> bool:
        """Whether elements may have every value of an integer dtype, so that sums may wrap."""
        return (self.low, self.high) == INTEGERS.get(self.dtype)

    def holds(self, value: Value) -> bool:
        """Whether every value of an expression may be an element."""
        if self.reals is Reals.ANY:
            return True
        return value.reals <= self.reals and value.low >= self.low and value.high <= self.high


def literal(value: int, dtype: str) -> Value:
    """A constant of a dtype."""
    if dtype == "bool":
        return Value(f"T.bool({bool(value)})", "bool", 0, 1)
    if dtype in FLOATS:
        return Value(f"T.{dtype}({float(value)})", dtype, value, value)
    if (
        dtype == "int32" and abs(value) < 2**15
    ):  # Python computes with plain numbers, and of great ones makes an int64
        return Value(f"({value})" if value < 0 else str(value), dtype, value, value)
    return Value(f'T.const({value}, "{dtype}")', dtype, value, value)


def real(value: float, dtype: str, reals: Reals = Reals.ANY) -> Value:
    """A constant of a float dtype that is no small integer."""
    text = f"T.{dtype}({value})" if math.isfinite(value) else f'T.{dtype}("{value}")'
    return Value(text, dtype, 0, 0, reals)


def fits(dtype: str, low: int, high: int) -> bool:
    """Whether a dtype holds every integer of an interval exactly."""
    if dtype in FLOATS:
        return max(abs(low), abs(high)) <= FLOATS[dtype]
    least, greatest = INTEGERS[dtype]
    return least <= low and high <= greatest
