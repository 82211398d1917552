"""Decisions of a sketch: one column of the population's matrix each, holding row or candidate numbers.

A column turns numbers into values: the factors of a perfect tile, or a candidate of a categorical choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..prime_factors import prime_factors
from ..primitive.sampling import perfect_tiles, require_choice
from ..random_variable import DecisionVar


@dataclass(eq=False)
class TileDecision:
    """A perfect tile: candidates hold row numbers of ``table`` (int64 [rows, n_factors])."""

    name: str
    extent: int
    variables: list[DecisionVar]
    table: np.ndarray
    _neighbours: np.ndarray | None = field(default=None, repr=False)

    @staticmethod
    def create(name: str, extent: int, n: int, max_innermost_factor: int) -> TileDecision:
        """All ordered factorizations of the extent."""
        table = (
            perfect_tiles(extent, n, max_innermost_factor) if n > 1 else np.array([[extent]], dtype=np.int64)
        )
        return TileDecision.of_table(name, extent, table)

    @staticmethod
    def of_table(name: str, extent: int, table: np.ndarray) -> TileDecision:
        """Some of the factorizations of the extent, int64 [rows, n_factors]."""
        variables = [
            DecisionVar(f"{name}_{i}", int(table[:, i].max(initial=1)), extent) for i in range(table.shape[1])
        ]
        return TileDecision(name, extent, variables, table)

    @property
    def size(self) -> int:
        """Number of choices."""
        return len(self.table)

    def restricted(self, keep: Callable[[np.ndarray], np.ndarray]) -> TileDecision:
        """The decision without rows for which ``keep(table)`` is False; itself where that would drop all."""
        mask = keep(self.table)
        return TileDecision(self.name, self.extent, self.variables, self.table[mask]) if mask.any() else self

    def values(self, column: np.ndarray) -> dict[Any, np.ndarray]:
        """Factor arrays by decision variable."""
        rows = self.table[column]
        return {var: rows[:, i] for i, var in enumerate(self.variables)}

    def trace_decision(self, number: int) -> list[int]:
        """What the trace stores."""
        return [int(item) for item in self.table[number]]

    def number_of(self, decision: Sequence[int]) -> int | None:
        """The row of a stored decision, or None when it is not in the table."""
        found = np.nonzero((self.table == np.asarray(decision)).all(axis=1))[0]
        return int(found[0]) if len(found) else None

    def coordinates(self) -> np.ndarray:
        """Where each row lies in decision space: the binary logarithms of its factors, float64 [rows, n_factors].

        A doubling of one factor and a halving of another, the smallest change of a power of two, is a distance of sqrt(2).
        """
        return np.log2(self.table.astype(np.float64))

    def nearest(self, factors: Sequence[int], attrs: Sequence[Any], count: int) -> np.ndarray:
        """Up to ``count`` rows that come closest to a tile of another extent, the closest first; none where that has another
        number of factors.

        What lies inside is kept as far as possible; the outermost factor, which an extent that grows or shrinks changes first,
        only decides between rows that are equally close otherwise.
        """
        if len(factors) != self.table.shape[1] or self.size == 0:
            return np.empty(0, dtype=np.int64)
        distance = np.abs(self.coordinates() - np.log2(np.maximum(1, np.asarray(factors, dtype=np.float64))))
        return np.lexsort((distance[:, 0], distance[:, 1:].sum(axis=1).round(6)))[:count]

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Random candidates, each as likely as any other."""
        return generator.integers(max(1, self.size), size=count)

    def neighbours(self, column: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """For each row a near one: a prime factor moved between two positions (any row where there is none)."""
        table = self._neighbour_table()
        counts = (table >= 0).sum(axis=1)[column]
        picks = table[column, generator.integers(np.maximum(counts, 1))]
        far = generator.integers(self.size, size=len(column))
        return np.where(counts > 0, picks, far)

    def near(self, number: int) -> np.ndarray:
        """The rows that differ from one by a prime factor moved from one position to another, int64 [N]."""
        row = self._neighbour_table()[number]
        return row[row >= 0]

    def _neighbour_table(self) -> np.ndarray:
        """Of each row the rows that differ by a prime factor moved, with -1 behind them: int64 [rows, 1 or more]."""
        if self._neighbours is None:
            numbers = {row.tobytes(): number for number, row in enumerate(self.table)}
            near: list[list[int]] = [[] for _ in self.table]
            for moved in self._moves():
                for number, row in enumerate(moved):
                    found = numbers.get(row.tobytes())
                    if found is not None:
                        near[number].append(found)
            width = max([1, *map(len, near)])
            padded = [found + [-1] * (width - len(found)) for found in near]
            self._neighbours = np.array(padded, dtype=np.int64).reshape(len(near), width)
        return self._neighbours

    def _moves(self) -> Iterator[np.ndarray]:
        """The table with one prime factor moved from one position to another, zeros where the one has no such factor."""
        primes = {prime for factor in np.unique(self.table) for prime in prime_factors(int(factor))}
        for source, target in itertools.permutations(range(self.table.shape[1]), 2):
            for prime in sorted(primes):
                moved = self.table.copy()
                moved[:, source] = np.where(moved[:, source] % prime, 0, moved[:, source] // prime)
                moved[:, target] *= prime
                yield moved


@dataclass(eq=False)
class CategoricalDecision:
    """A choice among integers: candidates hold positions."""

    name: str
    candidates: list[int]
    probs: list[float]
    variable: DecisionVar

    @staticmethod
    def create(name: str, candidates: Sequence[int], probs: Sequence[float]) -> CategoricalDecision:
        """A choice with its prior probabilities."""
        require_choice(candidates, probs)
        values = [int(item) for item in candidates]
        return CategoricalDecision(name, values, list(probs), DecisionVar(name, max(values)))

    @property
    def size(self) -> int:
        """Number of choices."""
        return len(self.candidates)

    def values(self, column: np.ndarray) -> dict[Any, np.ndarray]:
        """The chosen integers."""
        return {self.variable: np.asarray(self.candidates, dtype=np.int64)[column]}

    def trace_decision(self, number: int) -> int:
        """What the trace stores."""
        return int(number)

    def number_of(self, decision: int) -> int | None:
        """The position of a stored decision."""
        return int(decision) if 0 <= decision < self.size else None

    def coordinates(self) -> np.ndarray:
        """Where each choice lies in decision space, float64 [choices, choices]: a distance of 1 from every other."""
        return np.eye(self.size) / math.sqrt(2)

    def nearest(self, decision: int, attrs: Sequence[Any], count: int) -> np.ndarray:
        """Up to ``count`` positions of integers that come closest to what another choice chose; ``attrs`` are that choice's."""
        theirs = list(attrs[0])
        if not 0 <= decision < len(theirs):
            return np.empty(0, dtype=np.int64)
        wanted = int(getattr(theirs[decision], "value", theirs[decision]))
        distance = np.abs(np.asarray(self.candidates, dtype=np.float64) - wanted)
        return np.argsort(distance, kind="stable")[:count]

    def near(self, number: int) -> np.ndarray:
        """All other positions, int64 [choices - 1]."""
        return np.delete(np.arange(self.size), number)

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Random positions, by their probabilities."""
        weights = np.asarray(self.probs, dtype=np.float64)
        if np.all(weights == weights[0]):
            return generator.integers(self.size, size=count)
        return generator.choice(self.size, size=count, p=weights / weights.sum())

    def neighbours(self, column: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Another position."""
        if self.size == 1:
            return column
        return (column + generator.integers(1, self.size, size=len(column))) % self.size


Decision = TileDecision | CategoricalDecision


def variables_of(decision: Decision) -> Sequence[DecisionVar]:
    """The variables that a decision gives values."""
    return decision.variables if hasattr(decision, "variables") else [decision.variable]
