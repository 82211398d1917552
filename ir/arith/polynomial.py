"""Polynomials over atoms (variables and whatever is not a sum or product), for symbolic extents.

A polynomial maps monomials, sorted tuples of atom numbers, to integer coefficients. Sums of products of symbolic
extents cancel in this form, divide by a product of extents, and are proved non-negative.
"""

from __future__ import annotations

from typing import Any

from ..tir import expr as E
from ..tir.expr import IntImm
from . import build
from .deep_equal import expr_deep_equal
from .linear_form import combined, multiplied

Monomial = tuple[int, ...]
Polynomial = dict[Monomial, int]

_MAX_TERMS = 64
"""Expansion stops here: products of long sums are left alone."""


class TooLarge(Exception):
    """The expansion has more terms than are worth the time."""


class Atoms:
    """Numbers the atoms of one computation, equal ones alike."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, expr: Any) -> int:
        """The number of an atom."""
        found = self._numbers.get(id(expr))
        if found is None:
            if not expr.is_variable:
                for number, item in enumerate(self.items):
                    if expr_deep_equal(item, expr):
                        return number
            found = self._numbers[id(expr)] = len(self.items)
            self.items.append(expr)
        return found

    def expand(self, expr: Any) -> Polynomial:
        """The polynomial of an expression; raises TooLarge."""
        cls = expr.__class__
        if cls is IntImm:
            return {(): expr.value} if expr.value else {}
        if cls is E.Add:
            return plus(self.expand(expr.a), self.expand(expr.b))
        if cls is E.Sub:
            return plus(self.expand(expr.a), self.expand(expr.b), -1)
        if cls is E.Mul:
            return times(self.expand(expr.a), self.expand(expr.b))
        return {(self.number(expr),): 1}

    def product(self, monomial: Monomial, coeff: int, dtype: str) -> Any:
        """The expression of one term."""
        result: Any = None
        for number in monomial:
            item = self.items[number]
            result = item if result is None else build.mul(result, item)
        if result is None:
            return build.number(coeff, dtype)
        return build.mul(result, build.number(coeff, dtype))

    def expression(self, poly: Polynomial, dtype: str) -> Any:
        """The expression of a polynomial: positive terms first."""
        result: Any = None
        for monomial, coeff in poly.items():
            if coeff > 0 and monomial:
                term = self.product(monomial, coeff, dtype)
                result = term if result is None else build.add(result, term)
        base = poly.get((), 0)
        if result is None:
            result = build.number(max(base, 0), dtype)
        elif base > 0:
            result = build.add(result, build.number(base, dtype))
        for monomial, coeff in poly.items():
            if coeff < 0 and monomial:
                result = build.sub(result, self.product(monomial, -coeff, dtype))
        return build.sub(result, build.number(-base, dtype)) if base < 0 else result


def plus(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    """``a + factor * b``."""
    result = combined(a, b, factor)
    if len(result) > _MAX_TERMS:
        raise TooLarge
    return result


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """``a * b``."""
    if len(a) * len(b) > _MAX_TERMS * 4:
        raise TooLarge
    result = multiplied(a, b, lambda x, y: tuple(sorted(x + y)) if x and y else x or y)
    if len(result) > _MAX_TERMS:
        raise TooLarge
    return result


def quotient_of(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """``monomial / divisor``; None where it does not divide."""
    rest = list(monomial)
    for number in divisor:
        try:
            rest.remove(number)
        except ValueError:
            return None
    return tuple(rest)


def split_by(poly: Polynomial, divisor: Monomial, coeff: int) -> tuple[Polynomial, Polynomial]:
    """(quotient, rest) with ``poly = quotient * coeff * divisor + rest``, term by term."""
    quotient: Polynomial = {}
    rest: Polynomial = {}
    for monomial, factor in poly.items():
        divided = quotient_of(monomial, divisor) if factor % coeff == 0 else None
        if divided is None:
            rest[monomial] = factor
        else:
            quotient[divided] = factor // coeff
    return quotient, rest


def replace_atom(poly: Polynomial, number: int, by: Polynomial) -> Polynomial:
    """The polynomial with an atom replaced by a polynomial."""
    result: Polynomial = {}
    for monomial, coeff in poly.items():
        power = monomial.count(number)
        term: Polynomial = {tuple(item for item in monomial if item != number): coeff}
        for _ in range(power):
            term = times(term, by)
        result = plus(result, term)
    return result


def coefficient_of(poly: Polynomial, number: int) -> Polynomial | None:
    """The factor of an atom that occurs linearly; None when it occurs in a higher power."""
    result: Polynomial = {}
    for monomial, coeff in poly.items():
        power = monomial.count(number)
        if power > 1:
            return None
        if power:
            result[tuple(item for item in monomial if item != number)] = coeff
    return result
