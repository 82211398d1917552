"""Constant bounds of integer expressions: interval arithmetic from the bounds of variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, ClassVar

from .. import dtype as dt
from ..integer import truncated_quotient
from ..tir import expr as E
from ..tir.intrinsic.declaration import is_transparent
from .deep_equal import expr_deep_equal
from .domain import is_number
from .parts import AnalyzerParts

POS_INF = (1 << 63) - 1
NEG_INF = -POS_INF

Bound = tuple[int, int]
"""(smallest, largest) value; NEG_INF and POS_INF mean unbounded."""


@dataclass(frozen=True, slots=True)
class ConstIntBound:
    """The smallest and the largest value that an expression can have; infinite where unknown."""

    min_value: int
    max_value: int

    POS_INF: ClassVar[int] = POS_INF
    NEG_INF: ClassVar[int] = NEG_INF


EVERYTHING: Bound = (NEG_INF, POS_INF)


@lru_cache(maxsize=None)
def dtype_bound(dtype: str) -> Bound:
    """The range of a dtype; 64-bit and non-integral ones count as unbounded."""
    code, bits, _ = dt.parse(dtype)
    if code == "bool":
        return (0, 1)
    if code == "uint":
        return (0, POS_INF if bits >= 63 else (1 << bits) - 1)
    if code == "int" and bits < 64:
        return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return EVERYTHING


def clamp(low: int, high: int) -> Bound:
    """The bound with what lies beyond 64 bits made infinite."""
    return (low if low > NEG_INF else NEG_INF, high if high < POS_INF else POS_INF)


def union(a: Bound, b: Bound) -> Bound:
    """The smallest bound that holds both."""
    return (min(a[0], b[0]), max(a[1], b[1]))


def intersect(a: Bound, b: Bound) -> Bound:
    """What lies in both."""
    return (max(a[0], b[0]), min(a[1], b[1]))


def add_bounds(a: Bound, b: Bound) -> Bound:
    """Bound of a sum."""
    low = NEG_INF if a[0] <= NEG_INF or b[0] <= NEG_INF else a[0] + b[0]
    high = POS_INF if a[1] >= POS_INF or b[1] >= POS_INF else a[1] + b[1]
    return clamp(low, high)


def negate(a: Bound) -> Bound:
    """Bound of the negative."""
    return (-a[1], -a[0])


def multiply_bounds(a: Bound, b: Bound) -> Bound:
    """Bound of a product (an infinite bound times zero is zero: every value in it is finite)."""
    products = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return clamp(min(products), max(products))


def _quotient(x: int, y: int, floor: bool) -> int:
    if x in (POS_INF, NEG_INF):
        return x if y > 0 else -x
    if y in (POS_INF, NEG_INF):
        return -1 if floor and x != 0 and (x > 0) != (y > 0) else 0
    return x // y if floor else truncated_quotient(x, y)


def divide_bounds(a: Bound, b: Bound, floor: bool) -> Bound:
    """Bound of a quotient, rounding towards minus infinity (``floor``) or zero; the divisor is not zero."""
    parts = []
    if b[1] >= 1:
        parts.append((max(b[0], 1), b[1]))
    if b[0] <= -1:
        parts.append((b[0], min(b[1], -1)))
    if not parts:
        return EVERYTHING  # division by zero has no value
    corners = [_quotient(x, y, floor) for part in parts for x in a for y in part]
    return clamp(min(corners), max(corners))


def floormod_bounds(a: Bound, b: Bound) -> Bound:
    """Bound of ``a % b``: within [0, b) for positive b, and no larger than a where a is small."""
    if b[0] > 0:
        cap = b[1] if b[1] >= POS_INF else b[1] - 1
        if a[0] >= 0:
            return a if a[1] < b[0] else (0, min(a[1], cap))
        return (0, cap)
    low = 0 if b[0] >= 0 else (NEG_INF if b[0] <= NEG_INF else b[0] + 1)
    high = 0 if b[1] <= 0 else (POS_INF if b[1] >= POS_INF else b[1] - 1)
    return (low, high)


def truncmod_bounds(a: Bound, b: Bound) -> Bound:
    """Bound of C's remainder: it has a's sign and is smaller than b."""
    largest = max(abs(b[0]), abs(b[1]))
    cap = POS_INF if largest >= POS_INF else max(largest - 1, 0)
    if b[0] > 0 and a[0] >= 0 and a[1] < b[0]:
        return a
    return (0 if a[0] >= 0 else max(a[0], -cap), 0 if a[1] <= 0 else min(a[1], cap))


class ConstIntBounds:
    """Bounds of index arithmetic for one analyzer; results are remembered until a binding or constraint changes.

    What is data has the bounds that :class:`WrappingBounds` gives it.
    """

    table: ClassVar[dict[type, Callable[[Any, Any], Bound]]]
    """The method for each class of node."""

    def __init__(self, parent: AnalyzerParts) -> None:
        self._parent = parent
        self.variables: dict[Any, Bound] = {}
        self.constraints: list[tuple[Any, Bound]] = []
        self.memo: dict[int, tuple[Any, Bound]] = {}
        self.of_data: Callable[[Any], Bound] = WrappingBounds(parent, self)
        """Bounds of what wraps, under the same bindings and constraints."""

    def __call__(self, expr: Any) -> Bound:
        found = self.memo.get(id(expr))
        if found is not None:
            return found[1]
        cls = expr.__class__
        if cls is E.IntImm:
            return (expr.value, expr.value)
        result = self._computed(expr)
        if self.constraints and cls not in (E.Var, E.SizeVar):
            result = self._constrained(expr, result)
        self.memo[id(expr)] = (expr, result)
        return result

    def _computed(self, expr: Any) -> Bound:
        if not is_number(expr.dtype):
            return self.of_data(expr)
        method = self.table.get(expr.__class__)
        return dtype_bound(expr.dtype) if method is None else method(self, expr)

    def _constrained(self, expr: Any, result: Bound) -> Bound:
        for known, bound in self.constraints:
            if expr_deep_equal(known, expr):
                result = intersect(result, bound)
        return result

    def _var(self, var: Any) -> Bound:
        found = self.variables.get(var)
        if found is not None:
            return found
        low, high = dtype_bound(var.dtype)
        return (0, high) if var.__class__ is E.SizeVar else (low, high)

    def _add(self, e: Any) -> Bound:
        return add_bounds(self(e.a), self(e.b))

    def _sub(self, e: Any) -> Bound:
        return add_bounds(self(e.a), negate(self(e.b)))

    def _mul(self, e: Any) -> Bound:
        return multiply_bounds(self(e.a), self(e.b))

    def _floordiv(self, e: Any) -> Bound:
        return divide_bounds(self(e.a), self(e.b), True)

    def _truncdiv(self, e: Any) -> Bound:
        return divide_bounds(self(e.a), self(e.b), False) if dt.is_integral(e.dtype) else EVERYTHING

    def _floormod(self, e: Any) -> Bound:
        a, b = self(e.a), self(e.b)
        low, high = floormod_bounds(a, b)
        divisor = b[0]
        if divisor != b[1] or not 0 < divisor < POS_INF:
            return low, high
        if NEG_INF < a[0] and a[1] < POS_INF and a[0] // divisor == a[1] // divisor:
            return a[0] % divisor, a[1] % divisor
        # Values c k + r modulo d keep their remainder modulo gcd(c, d).
        coeff, base = self._parent._modular(e.a)
        step = gcd(coeff, divisor)
        return max(low, base % step), min(high, divisor - step + base % step)

    def _truncmod(self, e: Any) -> Bound:
        a, b = self(e.a), self(e.b)
        low, high = truncmod_bounds(a, b)
        divisor = abs(b[0])
        if b[0] != b[1] or not 0 < divisor < POS_INF:
            return low, high
        if a[0] == a[1] and NEG_INF < a[0] < POS_INF:
            value = a[0] - _quotient(a[0], divisor, False) * divisor
            return value, value
        coeff, base = self._parent._modular(e.a)
        step = gcd(coeff, divisor)
        top = divisor - step
        if base % step:
            return (max(low, base % step), min(high, top + base % step)) if low >= 0 else (low, high)
        return max(low, -top), min(high, top)

    def _min(self, e: Any) -> Bound:
        a, b = self(e.a), self(e.b)
        return (min(a[0], b[0]), min(a[1], b[1]))

    def _max(self, e: Any) -> Bound:
        a, b = self(e.a), self(e.b)
        return (max(a[0], b[0]), max(a[1], b[1]))

    def _select(self, e: Any) -> Bound:
        return union(self(e.true_value), self(e.false_value))

    def _cast(self, e: Any) -> Bound:
        if not self._parent._is_index(e.value):
            return self.of_data(e)
        inner, outer = self(e.value), dtype_bound(e.dtype)
        both = intersect(inner, outer)  # a cast of index arithmetic loses no value
        return both if both[0] <= both[1] else outer

    def _let(self, e: Any) -> Bound:
        known = self.variables.get(e.var)
        self.variables[e.var] = self(e.value) if self._parent._is_index(e.value) else self.of_data(e.value)
        try:
            return self(e.body) if dt.is_integral(e.dtype) else EVERYTHING
        finally:
            if known is None:
                del self.variables[e.var]
            else:
                self.variables[e.var] = known

    def _ramp(self, e: Any) -> Bound:
        if not dt.is_integral(e.dtype):
            return EVERYTHING
        return add_bounds(self(e.base), multiply_bounds(self(e.stride), (0, e.lanes - 1)))

    def _broadcast(self, e: Any) -> Bound:
        return self(e.value)

    def _call(self, e: Any) -> Bound:
        if is_transparent(e):
            return self(e.args[0])
        return self._if_then_else(e) if _is_choice(e) else self.of_data(e)

    def _if_then_else(self, e: Any) -> Bound:
        return union(self(e.args[1]), self(e.args[2]))

    def _shift_right(self, e: Any) -> Bound:
        amount = self(e.args[1])
        if amount[0] < 0 or amount[1] > 62:
            return dtype_bound(e.dtype)
        return divide_bounds(self(e.args[0]), (1 << amount[0], 1 << amount[1]), True)

    def _shift_left(self, e: Any) -> Bound:
        amount = self(e.args[1])
        if amount[0] < 0 or amount[1] > 62:
            return dtype_bound(e.dtype)
        low, high = multiply_bounds(self(e.args[0]), (1 << amount[0], 1 << amount[1]))
        smallest, largest = dtype_bound(e.dtype)
        return (low, high) if smallest <= low and high < min(largest + 1, POS_INF) else (smallest, largest)

    def _bitwise_and(self, e: Any) -> Bound:
        a, b = self(e.args[0]), self(e.args[1])
        if a[0] >= 0 and b[0] >= 0:
            return (0, min(a[1], b[1]))
        if b[0] >= 0:
            return (0, b[1])
        if a[0] >= 0:
            return (0, a[1])
        return dtype_bound(e.dtype)


class WrappingBounds(ConstIntBounds):
    """Bounds of data: an operation whose result may not fit may give anything that its type holds.

    Conditions say the same of data as of numbers of ℤ where nothing wraps; the bounds of variables are those of index arithmetic.
    """

    def __init__(self, parent: AnalyzerParts, index: ConstIntBounds) -> None:
        self._parent = parent
        self._index = index
        self.memo: dict[int, tuple[Any, Bound]] = {}
        self._exact: dict[int, tuple[Any, bool]] = {}
        self.of_data = self

    @property
    def variables(self) -> dict[Any, Bound]:  # type: ignore[override]
        """What is known of variables."""
        return self._index.variables

    @property
    def constraints(self) -> list[tuple[Any, Bound]]:  # type: ignore[override]
        """What conditions say."""
        return self._index.constraints

    def _computed(self, expr: Any) -> Bound:
        method = self.table.get(expr.__class__)
        if method is None or not dt.is_integral(expr.dtype):
            return dtype_bound(expr.dtype)
        found = method(self, expr)
        return dtype_bound(expr.dtype) if self._may_wrap(expr, found) else found

    def _constrained(self, expr: Any, result: Bound) -> Bound:
        # Conditions were learnt as facts of ℤ: what may wrap is another number.
        return super()._constrained(expr, result) if self.exact(expr) else result

    def _may_wrap(self, e: Any, found: Bound) -> bool:
        """Whether an operation may wrap, by the bounds of its result in ℤ."""
        cls = e.__class__
        if cls in _SUMS:
            return not _fits(found, e.dtype)
        if cls in _QUOTIENTS:  # the smallest number divided by -1
            divisor = self(e.b)
            if dt.is_uint(e.dtype) or divisor[0] >= 0 or divisor[1] < -1:
                return False
            return self(e.a)[0] <= max(dt.integer_range(dt.element_of(e.dtype))[0], NEG_INF)
        return False

    def exact(self, e: Any) -> bool:
        """Whether no operation of an expression can wrap, down to its atoms: then it is a number of ℤ as it stands."""
        cls = e.__class__
        if cls not in _INSIDE or not dt.is_integral(e.dtype):
            return True
        found = self._exact.get(id(e))
        if found is None:
            found = self._exact[id(e)] = (e, self._is_exact(cls, e))
        return found[1]

    def _is_exact(self, cls: type, e: Any) -> bool:
        if cls is E.Cast:
            if not is_number(e.dtype) or not is_number(e.value.dtype):
                return True
            return self.exact(e.value) and self.keeps(e)
        if cls is E.Select:
            return self.exact(e.true_value) and self.exact(e.false_value)
        if cls is E.Call:
            return not (_is_choice(e) or is_transparent(e)) or all(map(self.exact, e.args))
        if cls is E.Not:
            return self.exact(e.a)
        if cls is E.Broadcast:
            return self.exact(e.value)
        if cls is E.Let or cls is E.Ramp:
            return False
        if not (self.exact(e.a) and self.exact(e.b)):
            return False
        return cls in _UNWRAPPED or not self._may_wrap(e, self.table[cls](self, e))

    def keeps(self, cast: Any) -> bool:
        """Whether a cast of an integer to an integer keeps its value."""
        low, high = self(cast.value)
        smallest, largest = dtype_bound(cast.dtype)
        if dt.is_uint(cast.value.dtype) and dt.is_int(cast.dtype) and high >= POS_INF:
            return False  # the upper half of uint64
        return smallest <= low and high <= largest

    def _var(self, var: Any) -> Bound:
        both = intersect(super()._var(var), dtype_bound(var.dtype))
        return both if both[0] <= both[1] else dtype_bound(var.dtype)

    def _cast(self, e: Any) -> Bound:
        if not dt.is_integral(e.value.dtype):
            return dtype_bound(e.dtype)
        return self(e.value) if self.keeps(e) else dtype_bound(e.dtype)

    def _let(self, e: Any) -> Bound:
        return dtype_bound(e.dtype)

    def _ramp(self, e: Any) -> Bound:
        found = super()._ramp(e)
        return found if _fits(found, e.dtype) else dtype_bound(e.dtype)

    def _call(self, e: Any) -> Bound:
        if is_transparent(e):
            return self(e.args[0])
        method = _CALLS.get(getattr(e.op, "name", ""))
        return dtype_bound(e.dtype) if method is None else method(self, e)


def _fits(bound: Bound, dtype: str) -> bool:
    """Whether all values of a bound are numbers of an integer type; what is infinite may not be."""
    low, high = dt.integer_range(dt.element_of(dtype))
    return max(low, NEG_INF + 1) <= bound[0] and bound[1] <= min(high, POS_INF - 1)


def _is_choice(e: Any) -> bool:
    return getattr(e.op, "name", "") == "tir.if_then_else"


_SUMS = frozenset((E.Add, E.Sub, E.Mul))
_QUOTIENTS = frozenset((E.Div, E.FloorDiv))
_CONDITIONS = frozenset((E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE, E.And, E.Or))
_UNWRAPPED = _CONDITIONS | {E.Mod, E.FloorMod, E.Min, E.Max}
"""Operations of two operands that never wrap."""
_INSIDE = _SUMS | _QUOTIENTS | _UNWRAPPED | {E.Cast, E.Select, E.Not, E.Call, E.Let, E.Ramp, E.Broadcast}
"""What arithmetic is made of; everything else is an atom."""

ConstIntBounds.table = {
    E.Var: ConstIntBounds._var,
    E.SizeVar: ConstIntBounds._var,
    E.Add: ConstIntBounds._add,
    E.Sub: ConstIntBounds._sub,
    E.Mul: ConstIntBounds._mul,
    E.FloorDiv: ConstIntBounds._floordiv,
    E.Div: ConstIntBounds._truncdiv,
    E.FloorMod: ConstIntBounds._floormod,
    E.Mod: ConstIntBounds._truncmod,
    E.Min: ConstIntBounds._min,
    E.Max: ConstIntBounds._max,
    E.Select: ConstIntBounds._select,
    E.Cast: ConstIntBounds._cast,
    E.Let: ConstIntBounds._let,
    E.Ramp: ConstIntBounds._ramp,
    E.Broadcast: ConstIntBounds._broadcast,
    E.Call: ConstIntBounds._call,
}
WrappingBounds.table = {
    cls: getattr(WrappingBounds, method.__name__) for cls, method in ConstIntBounds.table.items()
}
_CALLS: dict[str, Callable[[ConstIntBounds, Any], Bound]] = {
    "tir.if_then_else": ConstIntBounds._if_then_else,
    "tir.shift_right": ConstIntBounds._shift_right,
    "tir.shift_left": ConstIntBounds._shift_left,
    "tir.bitwise_and": ConstIntBounds._bitwise_and,
}
