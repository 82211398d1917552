"""Straight-line code for products of constant matrices: sums with names, zeros left out, what two rows share computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from math import lcm
from typing import Any

from ir import tir

from .cook_toom import Matrix


class StraightLine:
    """Names for values of a dtype, in the order in which they are computed, for stores of what is made of them.

    Coefficients are applied as whole numbers, and one division at the end of a sum, so that none of them is rounded.
    """

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._names: list[tuple[tir.Var, tir.PrimExpr]] = []

    def named(self, value: tir.PrimExpr) -> tir.Var:
        """A name for a value; a name stays what it is."""
        if isinstance(value, tir.Var):
            return value
        name = tir.Var(f"t{len(self._names)}", self._dtype)
        self._names.append((name, value))
        return name

    def on_both_sides(
        self, matrix: Matrix, window: Sequence[Sequence[tir.PrimExpr]]
    ) -> list[list[tir.PrimExpr]]:
        """``matrix * window * matrix^T``: the columns of the window first, then the rows of what comes out."""
        named = [[self.named(item) for item in row] for row in window]
        columns = [
            [self.named(item) for item in self.applied(matrix, list(column))]
            for column in zip(*named, strict=True)
        ]
        return [self.applied(matrix, list(row)) for row in zip(*columns, strict=True)]

    def applied(self, matrix: Matrix, values: Sequence[tir.PrimExpr]) -> list[tir.PrimExpr]:
        """``matrix * values``.

        Points of interpolation of either sign make pairs of rows ``a + b, a - b``, and pairs of columns that are equal or opposite in
        each row: of either, sums and differences are computed once.
        """
        terms: list[tir.PrimExpr] = list(values)
        rows = [list(row) for row in matrix]
        for i, j in _mirrored_columns(rows):
            terms[i], terms[j] = (self.named(item) for item in (terms[i] + terms[j], terms[i] - terms[j]))
            for row in rows:
                row[i], row[j] = (row[i] + row[j]) / 2, (row[i] - row[j]) / 2
        found: dict[int, tir.PrimExpr] = {}
        for i, j in combinations(range(len(rows)), 2):
            if i in found or j in found:
                continue
            even = [(a + b) / 2 for a, b in zip(rows[i], rows[j], strict=True)]
            odd = [(a - b) / 2 for a, b in zip(rows[i], rows[j], strict=True)]
            if _is_worth_sharing(even, odd):
                first, second = self.named(self._sum(even, terms)), self.named(self._sum(odd, terms))
                found[i], found[j] = first + second, first - second
        return [found[i] if i in found else self._sum(row, terms) for i, row in enumerate(rows)]

    def stored(
        self,
        buffer: tir.Buffer,
        values: Sequence[Sequence[tir.PrimExpr]],
        place: Callable[[int, int], Sequence[Any]],
    ) -> tir.Stmt:
        """The names, and the stores of a matrix of values at ``place(row, column)``."""
        stores = [
            tir.BufferStore(buffer, value, place(i, j))
            for i, row in enumerate(values)
            for j, value in enumerate(row)
        ]
        body: tir.Stmt = tir.SeqStmt(stores)
        for name, value in reversed(self._names):
            body = tir.LetStmt(name, value, body)
        return body

    def _sum(self, row: Sequence[Fraction], terms: Sequence[tir.PrimExpr]) -> tir.PrimExpr:
        """The sum of terms with coefficients, those above zero first."""
        divisor = lcm(*[item.denominator for item in row])
        weighted = [(int(item * divisor), term) for item, term in zip(row, terms, strict=True) if item]
        total: tir.PrimExpr | None = None
        for coefficient, term in sorted(weighted, key=lambda item: item[0] < 0):
            size = abs(coefficient)
            part = term if size == 1 else term * tir.const(float(size), self._dtype)
            if total is None:
                total = part if coefficient > 0 else tir.const(0.0, self._dtype) - part
            else:
                total = total + part if coefficient > 0 else total - part
        assert total is not None, "a row of zeros"
        return total if divisor == 1 else total / tir.const(float(divisor), self._dtype)


def _mirrored_columns(rows: Sequence[Sequence[Fraction]]) -> list[tuple[int, int]]:
    """Pairs of columns that are equal in some rows and opposite in others, in more than one of each or of both."""
    found: list[tuple[int, int]] = []
    for i, j in combinations(range(len(rows[0])), 2):
        if any(i in pair or j in pair for pair in found):
            continue
        signs = [row[i] == row[j] for row in rows if row[i] or row[j]]
        mirrored = all(abs(row[i]) == abs(row[j]) for row in rows)
        if mirrored and len(signs) > 2 and 0 < sum(signs) < len(signs):
            found.append((i, j))
    return found


def _is_worth_sharing(even: Sequence[Fraction], odd: Sequence[Fraction]) -> bool:
    """Whether two halves have terms of their own, and one of them is more than a name."""
    apart = any(even) and any(odd) and not any(a and b for a, b in zip(even, odd, strict=True))
    return apart and sum(map(bool, even)) + sum(map(bool, odd)) > 2
