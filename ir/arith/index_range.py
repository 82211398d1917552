"""The range of an index while some variables run: a part that stays fixed, and constant bounds of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tir import expr as E
from ..tir.expr import IntImm, PrimExpr, Var
from ..tir.stmt_functor import variables_in
from .index_simplifier import INF, IndexSimplifier, Linear

IndexRange = tuple[Linear, int, int]
"""The fixed part, and the smallest and largest value of what comes on top of it."""


class IndexRanges:
    """Splits linear forms by whether their atoms change where somebody looks.

    Args:
        simplifier: what makes the forms; it knows the bounds of the variables that run.
        is_exact: whether no range may be wider than what is reached, as far as intervals of the atoms tell; otherwise quotients
            may be rounded outwards.
    """

    def __init__(self, simplifier: IndexSimplifier, is_exact: bool = False) -> None:
        self.simplifier = simplifier
        self.is_exact = is_exact
        self._vars_of: dict[PrimExpr, list[Var]] = {}

    def split(self, value: Linear, runs: Callable[[Var], bool]) -> IndexRange | None:
        """The range of a linear form while the variables run for which ``runs`` holds; None where bounds are not known."""
        outer: dict[PrimExpr, int] = {}
        low = high = 0
        fixed = Linear(outer, value.const)
        for atom, coefficient in value.terms.items():
            if not self._changes(atom, runs):
                fixed = fixed.plus(Linear({atom: coefficient}, 0))
                continue
            part = self._of_atom(atom, runs)
            if part is None or part[1] <= -INF or part[2] >= INF:
                return None
            base, a, b = part
            if base.terms or base.const:
                fixed = fixed.plus(base, coefficient)
            low += min(coefficient * a, coefficient * b)
            high += max(coefficient * a, coefficient * b)
        return fixed, low, high

    def _changes(self, atom: PrimExpr, runs: Callable[[Var], bool]) -> bool:
        if isinstance(atom, Var):
            return runs(atom)
        found = self._vars_of.get(atom)
        if found is None:
            found = self._vars_of[atom] = variables_in(atom)
        return any(runs(var) for var in found)

    def _of_atom(self, atom: Any, runs: Callable[[Var], bool]) -> IndexRange | None:
        inside = self.simplifier.dividend(atom)
        if inside is not None and isinstance(atom.b, IntImm):
            if atom.__class__ is E.FloorMod:
                return self._remainder(atom, inside, runs)
            if atom.__class__ is E.FloorDiv:
                return self._quotient(atom, inside, runs)
        if self.is_exact and not isinstance(atom, Var):
            return None
        return Linear({}, 0), *self.simplifier.bounds_of(Linear({atom: 1}, 0))

    def _remainder(self, atom: Any, inside: Linear, runs: Callable[[Var], bool]) -> IndexRange:
        divisor = atom.b.value
        found = self.split(inside, runs)
        if found is not None and all(c % divisor == 0 for c in found[0].terms.values()):
            low, high = found[0].const + found[1], found[0].const + found[2]
            if low // divisor == high // divisor:
                return Linear({}, 0), low % divisor, high % divisor
        return Linear({}, 0), *self.simplifier.bounds_of(Linear({atom: 1}, 0))

    def _quotient(self, atom: Any, inside: Linear, runs: Callable[[Var], bool]) -> IndexRange | None:
        divisor = atom.b.value
        found = self.split(inside, runs)
        if found is None:
            return None
        base, low, high = found
        if all(c % divisor == 0 for c in base.terms.values()):
            exact = Linear({a: c // divisor for a, c in base.terms.items()}, 0)
            return exact, (base.const + low) // divisor, (base.const + high) // divisor
        if self.is_exact:
            return None
        first = self.simplifier.floordiv(base.plus(Linear({}, low)), divisor, atom.dtype)
        return first, 0, (high - low + divisor - 1) // divisor
