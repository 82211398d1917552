"""Numbers as a rule may meet them, each with its own operations: integers, bit-vectors and floats for z3, arrays of samples.

Nothing here is shared with :mod:`ir`: a mistake of the compiler's arithmetic must not be the definition that its rules are proved by.
Every kind of numbers has the same methods, so that one interpretation of formulas serves all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import z3

WORD = {"Add": "add", "Sub": "sub", "Mul": "mul", "FloorDiv": "floordiv", "FloorMod": "floormod", "Div": "truncdiv",
        "Mod": "truncmod", "Min": "minimum", "Max": "maximum", "LT": "lt", "LE": "le", "EQ": "eq"}  # fmt: skip
"""The method of each operator of a pattern; the other comparisons are made of these."""
DIVISIONS = frozenset(("FloorDiv", "FloorMod", "Div", "Mod"))


class Numbers(ABC):
    """One kind of numbers: its variables, its arithmetic, its truth values."""

    def __init__(self) -> None:
        self.axioms: list[Any] = []
        """What is true of the values that operations introduced."""

    @abstractmethod
    def variable(self, name: str) -> Any:
        """Any number."""

    @abstractmethod
    def truth(self, name: str) -> Any:
        """Any truth value."""

    @abstractmethod
    def whole(self, value: Any) -> Any:
        """The number of ℤ that a value is, as a number of :attr:`exact`."""

    @abstractmethod
    def of_whole(self, number: Any) -> tuple[Any, Any]:
        """The value of a number of ℤ, and whether it fits."""

    @property
    @abstractmethod
    def exact(self) -> Numbers:
        """Numbers that hold whatever conditions compute with constants."""

    @abstractmethod
    def literal(self, value: int) -> Any:
        """A constant of the rule."""

    @abstractmethod
    def eq(self, a: Any, b: Any) -> Any:
        """Whether two values are equal, as a program sees it."""

    # truth values
    @abstractmethod
    def both(self, *truths: Any) -> Any: ...
    @abstractmethod
    def either(self, *truths: Any) -> Any: ...
    @abstractmethod
    def opposite(self, truth: Any) -> Any: ...
    @abstractmethod
    def always(self, truth: bool) -> Any: ...


class _Z3(Numbers):
    def truth(self, name: str) -> Any:
        return z3.Bool(name)

    def both(self, *truths: Any) -> Any:
        return z3.And(*truths)

    def either(self, *truths: Any) -> Any:
        return z3.Or(*truths)

    def opposite(self, truth: Any) -> Any:
        return z3.Not(truth)

    def always(self, truth: bool) -> Any:
        return z3.BoolVal(truth)

    def eq(self, a: Any, b: Any) -> Any:
        return a == b

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def sub(self, a: Any, b: Any) -> Any:
        return a - b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def minimum(self, a: Any, b: Any) -> Any:
        return z3.If(self.lt(a, b), a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        return z3.If(self.lt(a, b), b, a)

    @abstractmethod
    def lt(self, a: Any, b: Any) -> Any: ...
    @abstractmethod
    def le(self, a: Any, b: Any) -> Any: ...


class Integers(_Z3):
    """ℤ. A quotient is the q that leaves ``a - b q`` in the range of remainders, whichever way it is rounded."""

    def __init__(self) -> None:
        super().__init__()
        self._quotients: dict[tuple[bool, int, int], tuple[Any, Any, Any]] = {}

    @property
    def exact(self) -> Integers:
        return self

    def variable(self, name: str) -> Any:
        return z3.Int(name)

    def literal(self, value: int) -> Any:
        return z3.IntVal(value)

    def whole(self, value: Any) -> Any:
        return value

    def of_whole(self, number: Any) -> tuple[Any, Any]:
        return number, z3.BoolVal(True)

    def lt(self, a: Any, b: Any) -> Any:
        return a < b

    def le(self, a: Any, b: Any) -> Any:
        return a <= b

    def _divided(self, a: Any, b: Any, floor: bool) -> tuple[Any, Any]:
        key = (floor, a.get_id(), b.get_id())
        if key not in self._quotients:
            quotient = z3.FreshInt("q")
            rest = a - b * quotient  # no variable of its own: so z3 finds the proofs
            self._quotients[key] = (quotient, rest, (a, b))
            if floor:
                in_range = z3.If(b > 0, z3.And(0 <= rest, rest < b), z3.And(b < rest, rest <= 0))
            else:
                size = z3.If(b > 0, b, -b)
                in_range = z3.If(a >= 0, z3.And(0 <= rest, rest < size), z3.And(-size < rest, rest <= 0))
            self.axioms.append(z3.Implies(b != 0, in_range))
        return self._quotients[key][:2]

    def floordiv(self, a: Any, b: Any) -> Any:
        return self._divided(a, b, True)[0]

    def floormod(self, a: Any, b: Any) -> Any:
        return self._divided(a, b, True)[1]

    def truncdiv(self, a: Any, b: Any) -> Any:
        return self._divided(a, b, False)[0]

    def truncmod(self, a: Any, b: Any) -> Any:
        return self._divided(a, b, False)[1]


class BitVectors(_Z3):
    """Integers of a width that wrap."""

    def __init__(self, bits: int, signed: bool) -> None:
        super().__init__()
        self.bits, self.signed = bits, signed

    @property
    def exact(self) -> BitVectors:
        # Conditions multiply two constants at most, and add to that.
        return BitVectors(2 * self.bits + 3, True)

    def variable(self, name: str) -> Any:
        return z3.BitVec(name, self.bits)

    def literal(self, value: int) -> Any:
        return z3.BitVecVal(value, self.bits)

    def whole(self, value: Any) -> Any:
        return (z3.SignExt if self.signed else z3.ZeroExt)(self.bits + 3, value)

    def of_whole(self, number: Any) -> tuple[Any, Any]:
        value = z3.Extract(self.bits - 1, 0, number)
        return value, self.whole(value) == number

    def lt(self, a: Any, b: Any) -> Any:
        return a < b if self.signed else z3.ULT(a, b)

    def le(self, a: Any, b: Any) -> Any:
        return a <= b if self.signed else z3.ULE(a, b)

    def truncdiv(self, a: Any, b: Any) -> Any:
        return a / b if self.signed else z3.UDiv(a, b)

    def truncmod(self, a: Any, b: Any) -> Any:
        return z3.SRem(a, b) if self.signed else z3.URem(a, b)

    def _rounds_down(self, a: Any, b: Any) -> Any:
        rest = self.truncmod(a, b)
        return z3.And(rest != 0, (rest < 0) != (b < 0)) if self.signed else z3.BoolVal(False)

    def floordiv(self, a: Any, b: Any) -> Any:
        return z3.If(self._rounds_down(a, b), self.truncdiv(a, b) - 1, self.truncdiv(a, b))

    def floormod(self, a: Any, b: Any) -> Any:
        return z3.If(self._rounds_down(a, b), self.truncmod(a, b) + b, self.truncmod(a, b))


class Floats(_Z3):
    """IEEE floats, rounded to nearest even. Equal is what no program can tell apart: every NaN is one, 0.0 and -0.0 are two."""

    def __init__(self, sort: Any) -> None:
        super().__init__()
        self.sort = sort
        self._mode = z3.RNE()

    @property
    def exact(self) -> Numbers:
        raise NotImplementedError("rules of floats have no constants")

    def variable(self, name: str) -> Any:
        return z3.FP(name, self.sort)

    def literal(self, value: int) -> Any:
        return z3.FPVal(value, self.sort)

    def whole(self, value: Any) -> Any:
        raise NotImplementedError("rules of floats have no conditions")

    of_whole = whole

    def lt(self, a: Any, b: Any) -> Any:
        return z3.fpLT(a, b)

    def le(self, a: Any, b: Any) -> Any:
        return z3.fpLEQ(a, b)

    def eq(self, a: Any, b: Any) -> Any:
        return z3.fpEQ(a, b)

    def add(self, a: Any, b: Any) -> Any:
        return z3.fpAdd(self._mode, a, b)

    def sub(self, a: Any, b: Any) -> Any:
        return z3.fpSub(self._mode, a, b)

    def mul(self, a: Any, b: Any) -> Any:
        return z3.fpMul(self._mode, a, b)

    def truncdiv(self, a: Any, b: Any) -> Any:
        return z3.fpDiv(self._mode, a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, z3.If(z3.fpLEQ(a, b), a, b)))

    def maximum(self, a: Any, b: Any) -> Any:
        return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, z3.If(z3.fpGEQ(a, b), a, b)))


class Samples(Numbers):
    """Arrays of numbers, one axis for each name: all of a width, or those of ℤ from ``-reach`` to ``reach``."""

    def __init__(self, names: list[str], bits: int = 0, signed: bool = True, reach: int = 0) -> None:
        super().__init__()
        self.names, self.bits, self.signed = names, bits, signed
        self.low, self.high = -reach, reach
        if bits:
            self.low = -(1 << (bits - 1)) if signed else 0
            self.high = self.low + (1 << bits) - 1
        self._exact = self if not bits else Samples(names)

    @property
    def exact(self) -> Samples:
        return self._exact

    def _axis(self, name: str, values: np.ndarray) -> np.ndarray:
        shape = [1] * len(self.names)
        shape[self.names.index(name)] = len(values)
        return values.reshape(shape)

    def variable(self, name: str) -> Any:
        return self._axis(name, np.arange(self.low, self.high + 1, dtype=np.int64))

    def truth(self, name: str) -> Any:
        return self._axis(name, np.array([False, True]))

    def literal(self, value: int) -> Any:
        return self._wrapped(np.int64(value))

    def whole(self, value: Any) -> Any:
        return value

    def of_whole(self, number: Any) -> tuple[Any, Any]:
        if not self.bits:
            return number, np.bool_(True)
        return self._wrapped(number), (self.low <= number) & (number <= self.high)

    def _wrapped(self, value: Any) -> Any:
        return (value - self.low) % (1 << self.bits) + self.low if self.bits else value

    def both(self, *truths: Any) -> Any:
        result = truths[0]
        for item in truths[1:]:
            result = result & item
        return result

    def either(self, *truths: Any) -> Any:
        result = truths[0]
        for item in truths[1:]:
            result = result | item
        return result

    def opposite(self, truth: Any) -> Any:
        return ~truth

    def always(self, truth: bool) -> Any:
        return np.bool_(truth)

    def eq(self, a: Any, b: Any) -> Any:
        return a == b

    def lt(self, a: Any, b: Any) -> Any:
        return a < b

    def le(self, a: Any, b: Any) -> Any:
        return a <= b

    def add(self, a: Any, b: Any) -> Any:
        return self._wrapped(a + b)

    def sub(self, a: Any, b: Any) -> Any:
        return self._wrapped(a - b)

    def mul(self, a: Any, b: Any) -> Any:
        return self._wrapped(a * b)

    def minimum(self, a: Any, b: Any) -> Any:
        return np.minimum(a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        return np.maximum(a, b)

    def floordiv(self, a: Any, b: Any) -> Any:
        return self._wrapped(np.floor_divide(a, np.where(b == 0, 1, b)))

    def floormod(self, a: Any, b: Any) -> Any:
        b = np.where(b == 0, 1, b)
        return a - np.floor_divide(a, b) * b

    def truncdiv(self, a: Any, b: Any) -> Any:
        size = np.abs(a) // np.abs(np.where(b == 0, 1, b))
        return self._wrapped(np.where((a < 0) != (b < 0), -size, size))

    def truncmod(self, a: Any, b: Any) -> Any:
        b = np.abs(np.where(b == 0, 1, b))
        return np.where(a < 0, -(np.abs(a) % b), np.abs(a) % b)
