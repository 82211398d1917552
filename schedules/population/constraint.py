"""Constraints on the open decisions of a sketch, and random candidates that keep them.

Decisions that no constraint joins are drawn apart from each other: of a program of two products a candidate needs two valid halves, and
valid halves are far more frequent than rows of which both happen to be valid. Where random rows are hardly ever valid, they are
repaired: one decision after the other is drawn anew, and kept where that breaks no more constraints than before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..random_variable import DecisionVar
from .decision import Decision, variables_of

_REPAIRS = 128
"""Decisions that are drawn anew, one after the other, before a row is given up."""
_ROUNDS = 8
"""So many times as many rows as are wanted are repaired at most."""


@dataclass(frozen=True)
class Constraint:
    """What values of decisions are allowed together."""

    variables: frozenset[DecisionVar]
    """What it depends on."""
    allowed: Callable[[Mapping[Any, np.ndarray]], np.ndarray]
    """From decision values [N] to a mask [N]."""

    def broken(self, values: Mapping[Any, np.ndarray], size: int) -> np.ndarray:
        """Which of ``size`` candidates break it: bool [N]."""
        return ~np.broadcast_to(np.asarray(self.allowed(values), dtype=bool), size)


@dataclass(frozen=True)
class Group:
    """Columns of a matrix that constraints join, directly or through others, and these constraints."""

    columns: list[int]
    constraints: list[Constraint]


def groups_of(decisions: Sequence[Decision], constraints: Sequence[Constraint]) -> list[Group]:
    """The columns by what joins them, at least one group; columns without constraints are in the first.

    A constraint that depends on no column is in none of them.
    """
    column_of = {var: number for number, item in enumerate(decisions) for var in variables_of(item)}
    joined: list[tuple[set[int], list[Constraint]]] = []
    for constraint in constraints:
        columns = {column_of[var] for var in constraint.variables if var in column_of}
        if not columns:
            continue
        touched = [item for item in joined if item[0] & columns]
        joined = [item for item in joined if not item[0] & columns]
        members = columns.union(*[item[0] for item in touched])
        joined.append((members, [*[one for item in touched for one in item[1]], constraint]))
    if not joined:
        return [Group(list(range(len(decisions))), [])]
    free = set(range(len(decisions))).difference(*[members for members, _ in joined])
    joined[0][0].update(free)
    return [Group(sorted(members), own) for members, own in joined]


class Sampler:
    """Draws random rows that keep all constraints.

    Args:
        decisions: the columns.
        constraints: on their values.
    """

    def __init__(self, decisions: Sequence[Decision], constraints: Sequence[Constraint]) -> None:
        self._decisions = decisions
        self._groups = groups_of(decisions, constraints)
        self._is_empty = any(item.broken({}, 1).any() for item in constraints if not item.variables)

    def sample(self, count: int, generator: np.random.Generator, attempts: int) -> np.ndarray:
        """Up to ``count`` rows int64 [N, n_columns], drawn ``attempts`` times before invalid ones are repaired."""
        if self._is_empty:
            return np.empty((0, len(self._decisions)), dtype=np.int64)
        if not self._decisions:
            return np.zeros((1, 0), dtype=np.int64)[:count]
        found: list[np.ndarray] = [
            np.empty((0, len(group.columns)), dtype=np.int64) for group in self._groups
        ]
        for _ in range(attempts):
            matrix = self._drawn(max(count, 64), generator)
            for number, group in enumerate(self._groups):
                valid = matrix[self._broken(group, matrix) == 0][:, group.columns]
                found[number] = np.concatenate([found[number], valid])
            if all(len(rows) >= count for rows in found):
                break
        for number, group in enumerate(self._groups):
            for _ in range(_ROUNDS):
                if len(found[number]) >= count:
                    break
                repaired = self._repaired(group, self._drawn(max(count, 64), generator), generator)
                found[number] = np.concatenate([found[number], repaired[:, group.columns]])
        return self._combined(found, count, generator)

    def _drawn(self, count: int, generator: np.random.Generator) -> np.ndarray:
        return np.stack([decision.draw(count, generator) for decision in self._decisions], axis=1)

    def _broken(self, group: Group, matrix: np.ndarray) -> np.ndarray:
        """How many of a group's constraints each row breaks: int64 [N]."""
        broken = np.zeros(len(matrix), dtype=np.int64)
        if not group.constraints:
            return broken
        values: dict[Any, np.ndarray] = {}
        for column in group.columns:
            values.update(self._decisions[column].values(matrix[:, column]))
        for constraint in group.constraints:
            broken += constraint.broken(values, len(matrix))
        return broken

    def _repaired(self, group: Group, matrix: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Those of the rows that repairs make valid for a group."""
        broken = self._broken(group, matrix)
        for _ in range(_REPAIRS):
            if not broken.any():
                break
            places = generator.choice(group.columns, size=len(matrix))
            tried = matrix.copy()
            for column in group.columns:
                chosen = (places == column) & (broken > 0)
                tried[chosen, column] = self._decisions[column].draw(int(chosen.sum()), generator)
            after = self._broken(group, tried)
            better = after <= broken
            matrix, broken = np.where(better[:, None], tried, matrix), np.where(better, after, broken)
        return matrix[broken == 0]

    def _combined(
        self, found: Sequence[np.ndarray], count: int, generator: np.random.Generator
    ) -> np.ndarray:
        """Rows of a valid part for each group; a part that is rare occurs in several."""
        if any(not len(rows) for rows in found):
            return np.empty((0, len(self._decisions)), dtype=np.int64)
        size = min(count, max(len(rows) for rows in found))
        matrix = np.empty((size, len(self._decisions)), dtype=np.int64)
        for group, rows in zip(self._groups, found, strict=True):
            taken = rows[:size] if len(rows) >= size else rows[generator.integers(len(rows), size=size)]
            matrix[:, group.columns] = taken
        return matrix
