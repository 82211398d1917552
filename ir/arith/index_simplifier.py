"""Fast simplification of index arithmetic: integers as sums of ``coefficient * atom`` with interval bounds.

Lowering a kernel simplifies thousands of indices, nearly all of them sums of products of loop variables, with floor
divisions and remainders by constants that fused and split loops leave behind.  This module knows only those, and
answers in microseconds; what it does not know becomes an opaque atom.  :mod:`ir.arith` is the general tool.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from .. import dtype as dt
from ..tir import expr as E
from ..tir import operators
from ..tir.effects import has_effect
from ..tir.expr import PrimExpr, Var
from ..tir.intrinsic.declaration import is_transparent
from ..tir.operators import wrap_integer
from ..tir.stmt import AttrStmt
from .build import DoesNotFit, number
from .effects import copied, part_by_part
from .index_arithmetic import IndexArithmetic
from .intervals import INF as INF
from .intervals import INTERVALS
from .linear_form import combined, scaled


class Linear:
    """``const + sum(coefficient * atom)``; atoms are variables or interned expressions."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[PrimExpr, int], const: int) -> None:
        self.terms = terms
        self.const = const

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """``self + factor * other``."""
        if not other.terms:
            return Linear(self.terms, self.const + factor * other.const)
        return Linear(combined(self.terms, other.terms, factor), self.const + factor * other.const)

    def times(self, factor: int) -> Linear:
        """``factor * self``."""
        if factor == 1:
            return self
        return Linear(scaled(self.terms, factor), self.const * factor)

    def fits(self, dtype: str, beyond: int = 0) -> bool:
        """Whether a type holds its numbers and their negatives, also with another number added."""
        most = dt.integer_range(dtype)[1]
        ends = (self.const, self.const + beyond, *self.terms.values())
        return max(ends) <= most and min(ends) >= -most

    def key(self) -> tuple[Any, ...]:
        """Identity of the value: equal keys mean equal expressions."""
        return (self.const, frozenset((id(atom), c) for atom, c in self.terms.items()))


def _range(dtype: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer type, ±INF beyond."""
    low, high = dt.integer_range(dt.element_of(dtype))
    return max(low, -INF), min(high, INF)


def _within(bounds: tuple[int, int], dtype: str) -> tuple[int, int]:
    """Bounds of a number that has become one of an integer type: what does not fit may be anything."""
    low, high = _range(dtype)
    return bounds if low <= bounds[0] and bounds[1] <= high else (low, high)


def _bounds_of_cast(cast: E.Cast, value: tuple[int, int]) -> tuple[int, int]:
    """Bounds of a cast, by those of what it casts."""
    smallest, largest = _range(cast.value.dtype)
    low, high = max(value[0], smallest), min(value[1], largest)
    if dt.is_uint(cast.value.dtype) and high >= INF:
        return _range(cast.dtype)  # the upper half of uint64 is negative as int64
    return _within((low, high), cast.dtype)


def _is_scaled_down(value: Linear, smaller: Linear) -> bool:
    """Whether a form is one term, and another one no more than that of it."""
    if len(value.terms) != 1 or value.const:
        return False
    return 0 <= max(smaller.terms.values()) <= max(value.terms.values())


class IndexSimplifier:
    """Simplifies integer scalars and conditions under bounds of variables.

    Variables are expected to have one range each; :meth:`bind` of a variable to another range forgets what was
    derived from the old one.
    """

    def __init__(self) -> None:
        self._bounds: dict[Var, tuple[int, int]] = {}
        self._values: dict[Var, PrimExpr] = {}
        self._memo: dict[int, Linear] = {}
        self._effects: dict[int, tuple[Any, bool]] = {}
        self._unlike = 0
        """How many atoms stand for values with effects."""
        self._alive: list[PrimExpr] = []  # keeps the expressions whose ids are keys
        self._atoms: dict[tuple[Any, ...], PrimExpr] = {}
        self._atom_linear: dict[PrimExpr, Linear] = {}  # of binary atoms: the first operand
        self._atom_bounds: dict[PrimExpr, tuple[int, int]] = {}
        self._of_data: dict[int, tuple[tuple[int, int], bool]] = {}
        self.is_index = IndexArithmetic()
        """Tells index arithmetic from data."""
        self.rewrite: Callable[[PrimExpr], PrimExpr] | None = None
        """Applied to what is opaque here (loads, calls), so that a pass can simplify the indices inside."""

    # -- variables -----------------------------------------------------------
    def bind(self, var: Var, low: int, high: int) -> None:
        """``low <= var <= high``; ±INF for an open end."""
        old = self._bounds.get(var)
        if old == (low, high):
            return
        if old is not None:
            self._forget()
        self._bounds[var] = (low, high)

    def define(self, var: Var, value: PrimExpr) -> None:
        """The variable is the value wherever it occurs from now on; another value forgets what was derived from the old one."""
        old = self._values.get(var)
        if old is value:
            return
        if old is not None or id(var) in self._memo:
            self._forget()
        self._values[var] = value

    def is_bound(self, var: Var) -> bool:
        """Whether bounds of a variable are known: by another definition, where it is defined again."""
        return var in self._bounds

    def bind_range(self, var: Var, start: PrimExpr, extent: PrimExpr) -> None:
        """``start <= var < start + extent``, as far as the ends are known."""
        low, _ = self.bounds(start)
        _, high = self.bounds_of(self.linear(start).plus(self.linear(extent)))
        self.bind(var, low, high - 1 if high < INF else INF)

    def bind_thread(self, stmt: AttrStmt) -> None:
        """The axis along which a statement starts threads has its bounds; nothing where it starts none."""
        if stmt.thread is not None:
            self.bind_range(stmt.thread.var, E.IntImm(stmt.thread.var.dtype, 0), stmt.value)

    def _forget(self) -> None:
        self._memo.clear()
        self._effects.clear()
        self._alive.clear()
        self._atoms.clear()
        self._atom_linear.clear()
        self._atom_bounds.clear()
        self._of_data.clear()

    # -- bounds ----------------------------------------------------------------
    def bounds(self, expr: PrimExpr) -> tuple[int, int]:
        """Smallest and largest value, both inclusive; ±INF where unknown."""
        if dt.is_index(expr.dtype) or not dt.is_integral(expr.dtype):
            return self.bounds_of(self.linear(expr))
        return self._data_bounds(expr)[0]

    def bounds_of_value(self, value: PrimExpr) -> tuple[int, int]:
        """Bounds of what is cast or bound by a let: of a number of ℤ if it is index arithmetic, else of data."""
        return self.bounds(value) if self.is_index(value) else self._data_bounds(value)[0]

    # -- data ------------------------------------------------------------------
    def bounds_of_data(self, expr: PrimExpr) -> tuple[int, int]:
        """Smallest and largest value of an integer that wraps; ±INF where unknown."""
        return self._data_bounds(expr)[0]

    def exact(self, expr: PrimExpr) -> bool:
        """Whether no operation of data can wrap, by the bounds of its operands: then it is a number of ℤ."""
        return self._data_bounds(expr)[1]

    def _data_bounds(self, expr: Any) -> tuple[tuple[int, int], bool]:
        """Bounds of an integer whose arithmetic wraps, and whether nothing in it can."""
        found = self._of_data.get(id(expr))
        if found is None:
            found = self._of_data[id(expr)] = self._derive_data_bounds(expr)
            self._alive.append(expr)
        return found

    def _derive_data_bounds(self, expr: Any) -> tuple[tuple[int, int], bool]:
        kind, exact = expr.__class__, True
        found = -INF, INF
        if kind is E.IntImm:
            found = expr.value, expr.value
        elif kind is E.Var or kind is E.SizeVar:
            (low, high), (smallest, largest) = self._bounds_of_atom(expr), _range(expr.dtype)
            found = max(low, smallest), min(high, largest)
        elif kind is E.Cast and dt.is_integral(expr.value.dtype):
            inner, of_inner = self._data_bounds(expr.value)
            found = _bounds_of_cast(expr, inner)
            if dt.is_index(expr.dtype) and dt.is_index(expr.value.dtype):
                low, high = _range(expr.dtype)
                exact = of_inner and low <= inner[0] and inner[1] <= high
        elif kind is E.Select:
            (x, of_x), (y, of_y) = self._data_bounds(expr.true_value), self._data_bounds(expr.false_value)
            found, exact = (min(x[0], y[0]), max(x[1], y[1])), of_x and of_y
        elif kind in INTERVALS:
            (x, of_x), (y, of_y) = self._data_bounds(expr.a), self._data_bounds(expr.b)
            found = INTERVALS[kind](*x, *y)
            smallest, largest = _range(expr.dtype)
            exact = of_x and of_y and max(smallest, 1 - INF) <= found[0] and found[1] <= min(largest, INF - 1)
        elif isinstance(expr, E.BinaryOpExpr) or kind in (E.Let, E.Ramp):
            exact = False
        elif kind is E.Call:
            if is_transparent(expr):
                return self._data_bounds(expr.args[0])
        return _within(found, expr.dtype), exact

    def bounds_of(self, value: Linear) -> tuple[int, int]:
        """Bounds of a linear form."""
        low = high = value.const
        for atom, coefficient in value.terms.items():
            a, b = self._bounds_of_atom(atom)
            if coefficient < 0:
                a, b = b, a
            low = -INF if abs(a) >= INF or low <= -INF else low + coefficient * a
            high = INF if abs(b) >= INF or high >= INF else high + coefficient * b
        return low, high

    def _bounds_of_atom(self, atom: PrimExpr) -> tuple[int, int]:
        if isinstance(atom, Var):
            found = self._bounds.get(atom)
            if found is not None:
                return found
            return (0 if isinstance(atom, E.SizeVar) else -INF, INF)
        found = self._atom_bounds.get(atom)
        if found is None:
            found = self._atom_bounds[atom] = self._derive_bounds(atom)
        return found

    def _derive_bounds(self, atom: Any) -> tuple[int, int]:
        kind = atom.__class__
        if kind is E.FloorDiv and isinstance(atom.b, E.IntImm):
            low, high = self.bounds_of(self._dividend_of(atom))
            divisor = atom.b.value
            if divisor <= 0:
                return (
                    (high // divisor, low // divisor)
                    if divisor and low > -INF and high < INF
                    else (-INF, INF)
                )
            return (low // divisor if low > -INF else -INF, high // divisor if high < INF else INF)
        if kind is E.FloorMod and isinstance(atom.b, E.IntImm):
            low, high = self.bounds_of(self._dividend_of(atom))
            divisor = atom.b.value
            if divisor <= 0:
                return divisor + 1, 0
            return (0, min(high, divisor - 1)) if low >= 0 else (0, divisor - 1)
        if kind is E.Mul:
            corners = [x * y for x in self.bounds(atom.a) for y in self.bounds(atom.b)]
            if max(abs(c) for c in corners) < INF:
                return min(corners), max(corners)
            low_a, low_b = self.bounds(atom.a)[0], self.bounds(atom.b)[0]
            return (max(low_a, 0) * max(low_b, 0) if min(low_a, low_b) >= 0 else -INF, INF)
        if kind is E.Min or kind is E.Max:
            (a, b), (c, d) = self.bounds(atom.a), self.bounds(atom.b)
            pick = min if kind is E.Min else max
            return pick(a, c), pick(b, d)
        if kind is E.Cast and dt.is_integral(atom.value.dtype) and dt.lanes(atom.dtype) == 1:
            # What becomes another type than an index's is data, whatever it is made of.
            inner = (
                self.bounds_of_value(atom.value)
                if dt.is_index(atom.dtype)
                else self._data_bounds(atom.value)[0]
            )
            return _bounds_of_cast(atom, inner)
        if kind is E.Select:
            (a, b), (c, d) = self.bounds(atom.true_value), self.bounds(atom.false_value)
            return min(a, c), max(b, d)
        if dt.is_bool(atom.dtype):
            return 0, 1
        if dt.is_uint(atom.dtype):
            return 0, INF
        return -INF, INF

    def _dividend_of(self, atom: Any) -> Linear:
        """``a`` of a quotient or remainder, also of one that stayed whole because a part of its short form does not fit its type."""
        found = self._atom_linear.get(atom)
        return self.linear(atom.a) if found is None else found

    def dividend(self, atom: PrimExpr) -> Linear | None:
        """``a`` of an atom ``a // b`` or ``a % b`` (or the first operand of another binary one); None for any other."""
        return self._atom_linear.get(atom)

    # -- linear forms -------------------------------------------------------------
    def linear(self, expr: PrimExpr) -> Linear:
        """The expression as a sum of atoms."""
        key = id(expr)
        found = self._memo.get(key)
        if found is None:
            handler, before = _HANDLERS.get(expr.__class__), self._unlike
            try:
                found = handler(self, expr) if handler is not None else self._opaque(expr)
            except DoesNotFit:
                found = Linear({expr: 1}, 0)
            if self._unlike == before:
                self._memo[key] = found
                self._alive.append(expr)
        return found

    def _opaque(self, expr: PrimExpr) -> Linear:
        if has_effect(expr, self._effects):
            self._unlike += 1
            return Linear({copied(expr): 1}, 0)  # an atom like no other, since it is another value each time
        if self.rewrite is None:
            return Linear({expr: 1}, 0)
        short = self.rewrite(expr)
        if short.__class__ is not expr.__class__ and short.__class__ in _HANDLERS:
            return self.linear(short)
        return Linear({short: 1}, 0)

    def _from_int(self, expr: E.IntImm) -> Linear:
        return Linear({}, expr.value)

    def _from_var(self, expr: Var) -> Linear:
        found = self._bounds.get(expr)
        if found is not None and found[0] == found[1]:
            return Linear({}, found[0])
        value = self._values.get(expr)
        return Linear({expr: 1}, 0) if value is None else self.linear(value)

    def _from_add(self, expr: E.Add) -> Linear:
        return self.linear(expr.a).plus(self.linear(expr.b))

    def _from_sub(self, expr: E.Sub) -> Linear:
        return self.linear(expr.a).plus(self.linear(expr.b), -1)

    def _from_mul(self, expr: E.Mul) -> Linear:
        a, b = self.linear(expr.a), self.linear(expr.b)
        if not b.terms:
            return a.times(b.const)
        if not a.terms:
            return b.times(a.const)
        if (E.Mul, b.key(), a.key()) in self._atoms:
            a, b = b, a  # products commute
        return self._binary_atom(E.Mul, a, b, expr.dtype)

    def _from_floordiv(self, expr: E.FloorDiv) -> Linear:
        a, b = self.linear(expr.a), self.linear(expr.b)
        if b.terms or b.const <= 0:
            return self._binary_atom(E.FloorDiv, a, b, expr.dtype)
        return self.floordiv(a, b.const, expr.dtype)

    def _from_floormod(self, expr: E.FloorMod) -> Linear:
        a, b = self.linear(expr.a), self.linear(expr.b)
        if b.terms or b.const <= 0:
            return self._binary_atom(E.FloorMod, a, b, expr.dtype)
        return self.floormod(a, b.const, expr.dtype)

    def _from_div(self, expr: E.Div) -> Linear:
        a, b = self.linear(expr.a), self.linear(expr.b)
        if not b.terms and b.const > 0 and self.bounds_of(a)[0] >= 0:
            return self.floordiv(a, b.const, expr.dtype)
        return self._binary_atom(E.Div, a, b, expr.dtype)

    def _from_mod(self, expr: E.Mod) -> Linear:
        a, b = self.linear(expr.a), self.linear(expr.b)
        if not b.terms and b.const > 0 and self.bounds_of(a)[0] >= 0:
            return self.floormod(a, b.const, expr.dtype)
        return self._binary_atom(E.Mod, a, b, expr.dtype)

    def _binary_atom(self, kind: type, a: Linear, b: Linear, dtype: str) -> Linear:
        key = (kind, a.key(), b.key())
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = kind(self.build(a, dtype), self.build(b, dtype))
            self._atom_linear[atom] = a
        return Linear({atom: 1}, 0)

    def floordiv(self, a: Linear, divisor: int, dtype: str) -> Linear:
        """``a // divisor`` for a positive divisor."""
        if divisor == 1:
            return a
        whole = {atom: c // divisor for atom, c in a.terms.items() if c % divisor == 0}
        rest = Linear({atom: c for atom, c in a.terms.items() if c % divisor}, a.const % divisor)
        quotient = Linear(whole, a.const // divisor)
        if not rest.terms:
            return quotient
        low, high = self.bounds_of(rest)
        if low > -INF and high < INF and low // divisor == high // divisor:
            return Linear(quotient.terms, quotient.const + low // divisor)
        # (g X + S) // (g d) = X // d when 0 <= S < g
        for coefficient in rest.terms.values():
            g = gcd(coefficient, divisor)
            if g == 1:
                continue
            small = Linear({atom: c for atom, c in rest.terms.items() if c % g}, rest.const % g)
            low, high = self.bounds_of(small)
            if low >= 0 and high < g:
                large = Linear(
                    {atom: c // g for atom, c in rest.terms.items() if c % g == 0}, rest.const // g
                )
                return quotient.plus(self.floordiv(large, divisor // g, dtype))
        if len(rest.terms) == 1 and rest.const == 0:
            item: tuple[Any, int] = next(iter(rest.terms.items()))
            atom, coefficient = item
            if (
                coefficient == 1
                and atom in self._atom_linear
                and isinstance(atom.b, E.IntImm)
                and atom.b.value > 0
            ):
                inner = self._atom_linear[atom]
                if atom.__class__ is E.FloorDiv:
                    return quotient.plus(self.floordiv(inner, atom.b.value * divisor, dtype))
                if atom.__class__ is E.FloorMod and atom.b.value % divisor == 0:
                    return quotient.plus(
                        self.floormod(self.floordiv(inner, divisor, dtype), atom.b.value // divisor, dtype)
                    )
        return quotient.plus(self._binary_atom(E.FloorDiv, rest, Linear({}, divisor), dtype))

    def floormod(self, a: Linear, divisor: int, dtype: str) -> Linear:
        """``a % divisor`` for a positive divisor."""
        if divisor == 1:
            return Linear({}, 0)
        rest = Linear({atom: c for atom, c in a.terms.items() if c % divisor}, a.const % divisor)
        if not rest.terms:
            return rest
        low, high = self.bounds_of(rest)
        if low > -INF and high < INF and low // divisor == high // divisor:
            return Linear(rest.terms, rest.const - low // divisor * divisor)
        # (g X + S) % (g d) = g (X % d) + S when 0 <= S < g
        for coefficient in rest.terms.values():
            g = gcd(coefficient, divisor)
            if g == 1:
                continue
            small = Linear({atom: c for atom, c in rest.terms.items() if c % g}, rest.const % g)
            low, high = self.bounds_of(small)
            if low >= 0 and high < g:
                large = Linear(
                    {atom: c // g for atom, c in rest.terms.items() if c % g == 0}, rest.const // g
                )
                return self.floormod(large, divisor // g, dtype).times(g).plus(small)
        if len(rest.terms) == 1 and rest.const == 0:
            ((atom, coefficient),) = rest.terms.items()
            inner = self._atom_linear.get(atom)
            if coefficient == 1 and inner is not None and atom.__class__ is E.FloorMod:
                if isinstance(atom.b, E.IntImm) and atom.b.value % divisor == 0:
                    return self.floormod(inner, divisor, dtype)
        # coefficients may be reduced too, where the sum is still a number of the type: (17 x) % 16 = x % 16, but x - y is not x + 15 y
        reduced = Linear({atom: c % divisor for atom, c in rest.terms.items()}, rest.const)
        if reduced.key() != rest.key():
            low, high = self.bounds_of(reduced)
            if low >= 0 and high < divisor:
                return reduced
            is_held = low > -INF and high < INF and _within((low, high), dtype) == (low, high)
            if is_held or _is_scaled_down(rest, reduced):
                rest = reduced
        return self._binary_atom(E.FloorMod, rest, Linear({}, divisor), dtype)

    def _from_extreme(self, expr: Any) -> Linear:
        a, b = self.linear(expr.a), self.linear(expr.b)
        low, high = self.bounds_of(a.plus(b, -1))
        smaller, larger = (a, b) if expr.__class__ is E.Min else (b, a)
        if high <= 0:
            return smaller
        if low >= 0:
            return larger
        return self._binary_atom(expr.__class__, a, b, expr.dtype)

    def _from_cast(self, expr: E.Cast) -> Linear:
        if not (dt.is_index(expr.dtype) and dt.is_index(expr.value.dtype)):
            return self._opaque(expr)
        if not (self.is_index(expr.value) or self.exact(expr)):
            return self._opaque(expr)
        inner = self.linear(expr.value)
        if not inner.terms:
            return Linear({}, wrap_integer(inner.const, expr.dtype))
        key = ("cast", expr.dtype, inner.key())
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = E.Cast(expr.dtype, self.build(inner, expr.value.dtype))
        return Linear({atom: 1}, 0)

    def _from_call(self, expr: E.Call) -> Linear:
        if is_transparent(expr) and dt.is_index(expr.dtype):
            return self.linear(expr.args[0])
        return self._opaque(expr)

    # -- back to expressions ----------------------------------------------------------
    def build(self, value: Linear, dtype: str) -> PrimExpr:
        """The linear form as an expression: positive terms first, the constant last.

        Raises:
            DoesNotFit: it has a coefficient or constant that the dtype does not hold.
        """
        value = self.recombine(value)
        result: PrimExpr | None = None
        negative = []
        for atom, coefficient in value.terms.items():
            if atom.dtype != dtype:
                atom = operators.cast(dtype, atom)
            if coefficient < 0:
                negative.append((atom, -coefficient))
                continue
            term = atom if coefficient == 1 else E.Mul(atom, number(coefficient, dtype))
            result = term if result is None else E.Add(result, term)
        if result is None:
            if not negative:
                return number(value.const, dtype)
            result = number(value.const, dtype)
            pending = 0
        else:
            pending = value.const
        for atom, coefficient in negative:
            term = atom if coefficient == 1 else E.Mul(atom, number(coefficient, dtype))
            result = E.Sub(result, term)
        if pending > 0:
            result = E.Add(result, number(pending, dtype))
        elif pending < 0:
            smallest = dt.integer_range(dtype)[0]  # which has no negative
            plain = pending == smallest
            result = (
                E.Add(result, number(pending, dtype)) if plain else E.Sub(result, number(-pending, dtype))
            )
        return result

    def try_build(self, value: Linear, dtype: str) -> PrimExpr | None:
        """:meth:`build`; None where the dtype does not hold a part: a bound may lie at the end of a type, or sums meet beyond it."""
        try:
            return self.build(value, dtype)
        except DoesNotFit:
            return None

    def recombine(self, value: Linear) -> Linear:
        """``k c (x // c) + k (y % c)`` is ``k x``, and ``k c (x // c % d) + k (y % c)`` is ``k (x % (c d))``, where ``x - y`` is a multiple
        of ``c``: remainders are taken of reduced coefficients.
        """
        if len(value.terms) < 2 or not self._atom_linear:
            return value
        for atom, coefficient in value.terms.items():
            if atom.__class__ is not E.FloorMod or atom not in self._atom_linear:
                continue
            divisor = atom.b.value if isinstance(atom.b, E.IntImm) else 0  # type: ignore[attr-defined]
            found = self._upper_part(value, self._atom_linear[atom], divisor, coefficient)
            if found is not None:
                upper, whole = found
                terms = {a: c for a, c in value.terms.items() if a is not atom and a is not upper}
                return self.recombine(Linear(terms, value.const).plus(whole, coefficient))
        return value

    def _upper_part(
        self, value: Linear, part: Linear, divisor: int, coefficient: int
    ) -> tuple[PrimExpr, Linear] | None:
        """A term ``coefficient * divisor * (x // divisor)``, or of that quotient's remainder, in a sum, whose ``x`` has the same remainder
        as ``part``; and what both parts are together, divided by the coefficient.
        """
        if not divisor:
            return None
        for atom, factor in value.terms.items():
            if factor != coefficient * divisor:
                continue
            quotient = self._quotient_within(atom)
            if quotient is None or not self._divides_by(quotient, divisor):
                continue
            dividend = self._atom_linear[quotient]
            apart = dividend.plus(part, -1)
            if apart.const % divisor or any(c % divisor for c in apart.terms.values()):
                continue
            if quotient is atom:
                return atom, dividend
            of_both = divisor * atom.b.value  # type: ignore[attr-defined]
            if of_both <= dt.integer_range(atom.dtype)[1]:
                return atom, self.floormod(dividend, of_both, atom.dtype)
        return None

    def _quotient_within(self, atom: PrimExpr) -> PrimExpr | None:
        """The quotient that an atom is, or of which it is the remainder by a number."""
        if not isinstance(atom, E.FloorMod) or not isinstance(atom.b, E.IntImm) or atom.b.value <= 0:
            return atom
        inner = self._atom_linear.get(atom)
        if inner is None or inner.const or list(inner.terms.values()) != [1]:
            return None
        return next(iter(inner.terms))

    def _divides_by(self, atom: PrimExpr, divisor: int) -> bool:
        return (
            isinstance(atom, E.FloorDiv)
            and atom in self._atom_linear
            and isinstance(atom.b, E.IntImm)
            and atom.b.value == divisor
        )

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        """An equal, usually shorter integer scalar; the expression itself when it is a leaf already."""
        kind = expr.__class__
        if kind is E.IntImm:
            return expr
        if kind is E.Var and expr not in self._bounds and expr not in self._values:
            return expr
        before = self._unlike
        value = self.linear(expr)
        if self._unlike != before:  # effects stay in their order, and none may go
            return part_by_part(expr, self.rewrite or self.simplify)  # type: ignore[no-any-return]
        built = self.try_build(value, expr.dtype)
        return expr if built is None else built

    # -- conditions ------------------------------------------------------------------
    def compares_numbers(self, condition: E.CmpExpr) -> bool:
        """Whether a comparison in a condition is one of numbers of ℤ: index arithmetic, or data that cannot wrap."""
        if not dt.is_index(condition.a.dtype):
            return False
        return self.is_index(condition) or (self.exact(condition.a) and self.exact(condition.b))

    def truth_of_data(self, condition: E.CmpExpr) -> bool | None:
        """Whether a comparison that is stored or passed always or never holds; None when it depends or may wrap."""
        if self.exact(condition.a) and self.exact(condition.b):
            return self.truth(condition)
        return None

    def truth(self, condition: PrimExpr) -> bool | None:
        """Whether a scalar condition always or never holds; None when it depends."""
        kind = condition.__class__
        if kind is E.IntImm:
            return bool(condition.value)  # type: ignore[attr-defined]
        if kind is E.And:
            a, b = self.truth(condition.a), self.truth(condition.b)  # type: ignore[attr-defined]
            return False if a is False or b is False else True if a and b else None
        if kind is E.Or:
            a, b = self.truth(condition.a), self.truth(condition.b)  # type: ignore[attr-defined]
            return True if a or b else False if a is False and b is False else None
        if kind is E.Not:
            inner = self.truth(condition.a)  # type: ignore[attr-defined]
            return None if inner is None else not inner
        if is_transparent(condition):
            return self.truth(condition.args[0])  # type: ignore[attr-defined]
        if isinstance(condition, E.CmpExpr) and self.compares_numbers(condition):
            low, high = self.bounds_of(self.linear(condition.a).plus(self.linear(condition.b), -1))
            return _decide(kind, low, high)
        return None


def _decide(kind: type, low: int, high: int) -> bool | None:
    """What a comparison of a with b says when ``low <= a - b <= high``."""
    if kind is E.LT:
        return True if high < 0 else False if low >= 0 else None
    if kind is E.LE:
        return True if high <= 0 else False if low > 0 else None
    if kind is E.GT:
        return True if low > 0 else False if high <= 0 else None
    if kind is E.GE:
        return True if low >= 0 else False if high < 0 else None
    same = True if low == high == 0 else False if low > 0 or high < 0 else None
    if kind is E.EQ:
        return same
    return None if same is None else not same


_HANDLERS: dict[type, Any] = {
    E.IntImm: IndexSimplifier._from_int,
    E.Var: IndexSimplifier._from_var,
    E.SizeVar: IndexSimplifier._from_var,
    E.Add: IndexSimplifier._from_add,
    E.Sub: IndexSimplifier._from_sub,
    E.Mul: IndexSimplifier._from_mul,
    E.FloorDiv: IndexSimplifier._from_floordiv,
    E.FloorMod: IndexSimplifier._from_floormod,
    E.Div: IndexSimplifier._from_div,
    E.Mod: IndexSimplifier._from_mod,
    E.Min: IndexSimplifier._from_extreme,
    E.Max: IndexSimplifier._from_extreme,
    E.Cast: IndexSimplifier._from_cast,
    E.Call: IndexSimplifier._from_call,
}
