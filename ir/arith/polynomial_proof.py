"""Proofs about sums of products of symbolic extents: bounds put in for atoms, until the signs of all terms agree."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from ..tir import expr as E
from ..tir.expr import IntImm
from . import build
from .comparison import Extension
from .const_int_bound import Bound, add_bounds, multiply_bounds
from .polynomial import Atoms, Polynomial, TooLarge, coefficient_of, plus, quotient_of, replace_atom, times


class PolynomialProofs:
    """The part of an analyzer that proves ``expr >= 0`` for expressions with products in them."""

    _bounds: Callable[[Any], Bound]
    _canonical: Any
    _symbolic: dict[Any, tuple[Any, Any]]
    """(smallest, largest) value of variables whose range is symbolic."""
    _facts: list[Any]
    """Expressions known to be at least zero."""
    _extensions: Extension
    _strength: Any

    def __init__(self) -> None:
        self._symbolic, self._facts = {}, []
        self._proving = 0

    def _prove_polynomial(self, expr: Any) -> bool:
        """``expr >= 0``: expressions bounded by others are replaced by the worse bound, then all signs must agree."""
        if self._proving > 2:
            return False
        self._proving += 1
        try:
            atoms = Atoms()
            poly = atoms.expand(self._canonical.visit(expr))
            if self._nonnegative(atoms, poly, 8):
                return True
            facts = [atoms.expand(fact) for fact in self._facts[-8:]]
            if any(self._nonnegative(atoms, plus(poly, fact, -1), 8) for fact in facts):
                return True
            if not self._extensions & Extension.TransitivelyProveInequalities:
                return False
            # e - f1 - f2 >= 0 with known f1, f2 >= 0 proves e >= 0.
            return any(
                self._nonnegative(atoms, plus(plus(poly, first, -1), second, -1), 8)
                for first, second in combinations(facts, 2)
            )
        except TooLarge:
            return False
        finally:
            self._proving -= 1

    def _nonnegative(self, atoms: Atoms, poly: Polynomial, depth: int) -> bool:
        bounded = self._bounded_below(atoms, poly)
        if bounded:
            return True
        if depth == 0:
            return False
        for number in range(len(atoms.items) - 1, -1, -1):
            coefficient = coefficient_of(poly, number)
            if not coefficient:
                continue
            limits = self._limits(atoms.items[number])
            if limits is None:
                scaled = self._times_divisor(atoms, poly, number, coefficient) if self._strength else None
                if scaled is not None:
                    return self._nonnegative(atoms, scaled, depth - 1)
                continue
            low, high = limits
            if self._bounded_below(atoms, coefficient):
                worst = low
            elif self._bounded_below(atoms, {key: -value for key, value in coefficient.items()}):
                worst = high
            else:
                continue
            replaced = replace_atom(poly, number, atoms.expand(worst))
            return self._nonnegative(atoms, replaced, depth - 1)
        return False

    def _times_divisor(
        self, atoms: Atoms, poly: Polynomial, number: int, coefficient: Polynomial
    ) -> Polynomial | None:
        """What is at least zero only if ``poly`` is, without its atom ``a // d``: multiplied by d, that is between a - d + 1 and a."""
        atom = atoms.items[number]
        if atom.__class__ is not E.FloorDiv or atom.b.__class__ is not IntImm or atom.b.value <= 0:
            return None
        divisor = atom.b.value
        product = atoms.expand(atom.a)
        if self._bounded_below(atoms, coefficient):
            product = plus(product, {(): 1 - divisor})
        elif not self._bounded_below(atoms, {key: -value for key, value in coefficient.items()}):
            return None
        rest = plus({}, replace_atom(poly, number, {}), divisor)
        # A whole number whose d-fold is above -d is at least zero.
        return plus(plus(rest, times(coefficient, product)), {(): divisor - 1})

    def _limits(self, atom: Any) -> tuple[Any, Any] | None:
        """Symbolic bounds of an atom: of a variable with a symbolic range, or a remainder of a symbolic divisor."""
        found = self._symbolic.get(atom)
        if found is not None:
            return found
        cls = atom.__class__
        if cls is E.FloorMod and atom.b.__class__ is not IntImm and self._bounds(atom.b)[0] >= 0:
            return build.const(0, atom.dtype), build.sub(atom.b, build.const(1, atom.dtype))
        return None

    def _bounded_below(self, atoms: Atoms, poly: Polynomial) -> bool:
        """Whether a polynomial is at least zero, by the constant bounds of its atoms.

        With atoms written as ``lower bound + something not negative``, all coefficients must be non-negative.
        """
        negative = any(coeff < 0 for coeff in poly.values())
        numbers = {number for monomial in poly for number in monomial}
        lows = {number: self._bounds(atoms.items[number]) for number in numbers}
        if not negative:
            return all(lows[number][0] >= 0 for monomial in poly for number in monomial)
        # Interval arithmetic, term by term.
        total: Bound = (0, 0)
        for monomial, coeff in poly.items():
            term: Bound = (coeff, coeff)
            for number in monomial:
                term = multiply_bounds(term, lows[number])
            total = add_bounds(total, term)
        if total[0] >= 0:
            return True
        if any(bound[0] < 0 for bound in lows.values()):
            return False
        # Where all atoms are smallest the value is the constant term of what follows: mostly that decides.
        smallest = 0
        for monomial, coeff in poly.items():
            for number in monomial:
                coeff *= lows[number][0]
            smallest += coeff
        if smallest < 0:
            return False
        lowest = {number: bound[0] for number, bound in lows.items()}
        if _dominated(poly, lowest):
            return True
        if len(poly) > 6 or max(len(monomial) for monomial in poly) > 3:
            return False  # multiplying out costs more than it finds
        shifted = poly
        try:
            for number, low in lowest.items():
                if low:
                    shifted = replace_atom(shifted, number, {(number,): 1, (): low})
        except TooLarge:
            return False
        return all(coeff >= 0 for coeff in shifted.values())


def _dominated(poly: Polynomial, lowest: dict[int, int]) -> bool:
    """Whether each negative term is made up for by a positive one of which it is a factor, as ``x y - x`` for y >= 1."""
    credit = {monomial: coeff for monomial, coeff in poly.items() if coeff > 0}
    for monomial, coeff in sorted(poly.items(), key=lambda item: -len(item[0])):
        debt = -coeff
        if debt <= 0:
            continue
        for larger in sorted(credit, key=len):
            rest = quotient_of(larger, monomial)
            if rest is None or not credit[larger]:
                continue
            worth = 1
            for number in rest:
                worth *= lowest[number]
            if worth > 0:
                used = min(credit[larger], -(-debt // worth))
                credit[larger] -= used
                debt -= used * worth
            if debt <= 0:
                break
        if debt > 0:
            return False
    return True
