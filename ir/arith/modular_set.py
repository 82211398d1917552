"""Modular sets: an integer expression as ``coeff * n + base`` for an unknown integer n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

from .. import dtype as dt
from ..tir import expr as E
from ..tir.intrinsic.declaration import is_transparent
from .domain import is_number
from .parts import AnalyzerParts

Modular = tuple[int, int]
"""(coeff, base): the values ``coeff * n + base``; coeff 0 is the constant ``base``, (1, 0) is anything."""

ANYTHING: Modular = (1, 0)


@dataclass(frozen=True, slots=True)
class ModularSet:
    """The values ``coeff * n + base``."""

    coeff: int
    base: int


def normalized(coeff: int, base: int) -> Modular:
    """With the base reduced into [0, coeff)."""
    coeff = abs(coeff)
    return (coeff, base if coeff == 0 else base % coeff)


def union(a: Modular, b: Modular) -> Modular:
    """The smallest modular set that holds both: their bases must agree modulo the new coefficient."""
    coeff = gcd(gcd(a[0], b[0]), abs(a[1] - b[1]))
    return normalized(coeff, a[1])


def intersect(a: Modular, b: Modular) -> Modular:
    """The values in both sets, by the Chinese remainder theorem; ``a`` where they have none."""
    if a[0] == 0 or b == ANYTHING:
        return a
    if b[0] == 0 or a == ANYTHING:
        return b
    step = gcd(a[0], b[0])
    if (b[1] - a[1]) % step:
        return a
    modulus = b[0] // step
    n = (b[1] - a[1]) // step * pow(a[0] // step, -1, modulus) % modulus if modulus > 1 else 0
    return normalized(a[0] // step * b[0], a[1] + a[0] * n)


class ModularSets:
    """Modular sets of index arithmetic for one analyzer; those of data are :class:`WrappingModularSets`'s."""

    table: ClassVar[dict[type, Callable[[Any, Any], Modular]]]
    """The method for each class of node."""

    def __init__(self, parent: AnalyzerParts) -> None:
        self._parent = parent
        self.variables: dict[Any, Modular] = {}
        self.memo: dict[int, tuple[Any, Modular]] = {}
        self.of_data: Callable[[Any], Modular] = WrappingModularSets(parent, self)
        """Modular sets of what wraps."""

    def __call__(self, expr: Any) -> Modular:
        cls = expr.__class__
        if cls is E.IntImm:
            return (0, expr.value)
        found = self.memo.get(id(expr))
        if found is not None:
            return found[1]
        result = self._computed(expr)
        self.memo[id(expr)] = (expr, result)
        return result

    def _computed(self, expr: Any) -> Modular:
        if not is_number(expr.dtype):
            return self.of_data(expr)
        method = self.table.get(expr.__class__)
        return ANYTHING if method is None else method(self, expr)

    def _var(self, var: Any) -> Modular:
        return self.variables.get(var, ANYTHING)

    def _add(self, e: Any) -> Modular:
        (c1, b1), (c2, b2) = self(e.a), self(e.b)
        return normalized(gcd(c1, c2), b1 + b2)

    def _sub(self, e: Any) -> Modular:
        (c1, b1), (c2, b2) = self(e.a), self(e.b)
        return normalized(gcd(c1, c2), b1 - b2)

    def _mul(self, e: Any) -> Modular:
        # (c1 n + b1)(c2 m + b2) = c1 c2 n m + c1 b2 n + c2 b1 m + b1 b2
        (c1, b1), (c2, b2) = self(e.a), self(e.b)
        return normalized(gcd(gcd(c1 * c2, c1 * b2), c2 * b1), b1 * b2)

    def _floordiv(self, e: Any) -> Modular:
        divisor = self(e.b)
        if divisor[0] != 0 or divisor[1] == 0:
            return ANYTHING
        coeff, base = self(e.a)
        if coeff % divisor[1] == 0:
            # (c n + b) // d = (c / d) n + b // d
            return normalized(coeff // divisor[1], base // divisor[1])
        return ANYTHING

    def _truncdiv(self, e: Any) -> Modular:
        divisor = self(e.b)
        if divisor[0] != 0 or divisor[1] == 0:
            return ANYTHING
        coeff, base = self(e.a)
        if coeff % divisor[1] == 0:
            if base == 0:
                return normalized(coeff // divisor[1], 0)
            if self._parent._bounds(e.a)[0] >= 0 and divisor[1] > 0:
                return normalized(coeff // divisor[1], base // divisor[1])
        return ANYTHING

    def _floormod(self, e: Any) -> Modular:
        divisor = self(e.b)
        if divisor[0] != 0 or divisor[1] == 0:
            return ANYTHING
        coeff, base = self(e.a)
        if coeff % divisor[1] == 0:
            return (0, base % divisor[1])
        # c n + b modulo d keeps its remainder modulo gcd(c, d)
        return normalized(gcd(coeff, divisor[1]), base)

    def _truncmod(self, e: Any) -> Modular:
        divisor = self(e.b)
        if divisor[0] != 0 or divisor[1] == 0:
            return ANYTHING
        coeff, base = self(e.a)
        return normalized(gcd(coeff, divisor[1]), base)

    def _either(self, e: Any) -> Modular:
        return union(self(e.a), self(e.b))

    def _select(self, e: Any) -> Modular:
        return union(self(e.true_value), self(e.false_value))

    def _cast(self, e: Any) -> Modular:
        return self(e.value) if self._parent._is_index(e.value) else self.of_data(e)

    def _call(self, e: Any) -> Modular:
        name = getattr(e.op, "name", "")
        if is_transparent(e):
            return self(e.args[0])
        if name != "tir.if_then_else" and self.of_data is not self:
            return self.of_data(e)
        if name == "tir.shift_left" and e.args[1].__class__ is E.IntImm and 0 <= e.args[1].value < 63:
            coeff, base = self(e.args[0])
            return normalized(coeff << e.args[1].value, base << e.args[1].value)
        if name == "tir.shift_right" and e.args[1].__class__ is E.IntImm and 0 <= e.args[1].value < 63:
            coeff, base = self(e.args[0])
            divisor = 1 << e.args[1].value
            return normalized(coeff // divisor, base // divisor) if coeff % divisor == 0 else ANYTHING
        if name == "tir.if_then_else":
            return union(self(e.args[1]), self(e.args[2]))
        return ANYTHING


class WrappingModularSets(ModularSets):
    """Modular sets of data: where an operation may wrap, its result is known modulo a divisor of 2 to the power of the width."""

    def __init__(self, parent: AnalyzerParts, index: ModularSets) -> None:
        self._parent = parent
        self._index = index
        self.memo: dict[int, tuple[Any, Modular]] = {}
        self.of_data = self

    @property
    def variables(self) -> dict[Any, Modular]:  # type: ignore[override]
        """What is known of variables."""
        return self._index.variables

    def _computed(self, expr: Any) -> Modular:
        method = self.table.get(expr.__class__)
        if method is None or not dt.is_integral(expr.dtype):
            return ANYTHING
        found = method(self, expr)
        if expr.__class__ in _UNWRAPPED or self._parent._data._bounds.exact(expr):
            return found
        return normalized(gcd(found[0], 1 << dt.bits(expr.dtype)), found[1])

    def _cast(self, e: Any) -> Modular:
        if not dt.is_integral(e.value.dtype) or dt.is_bool(e.dtype):
            return ANYTHING
        found = self(e.value)
        if self._parent._data._bounds.keeps(e):
            return found
        return normalized(gcd(found[0], 1 << dt.bits(e.dtype)), found[1])


_UNWRAPPED = frozenset((E.Var, E.SizeVar, E.Min, E.Max, E.Select, E.Cast, E.Mod, E.FloorMod))
"""What passes on values that were there before, or smaller ones."""

ModularSets.table = {
    E.Var: ModularSets._var,
    E.SizeVar: ModularSets._var,
    E.Add: ModularSets._add,
    E.Sub: ModularSets._sub,
    E.Mul: ModularSets._mul,
    E.FloorDiv: ModularSets._floordiv,
    E.Div: ModularSets._truncdiv,
    E.FloorMod: ModularSets._floormod,
    E.Mod: ModularSets._truncmod,
    E.Min: ModularSets._either,
    E.Max: ModularSets._either,
    E.Select: ModularSets._select,
    E.Cast: ModularSets._cast,
    E.Call: ModularSets._call,
}
WrappingModularSets.table = {
    cls: getattr(WrappingModularSets, method.__name__) for cls, method in ModularSets.table.items()
}
