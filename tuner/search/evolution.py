"""The operators of evolution on one structure: children of a population, and who of parents and children lives on.

Rows are decisions; all operators work on whole matrices.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedules.mutator import Mutator
from schedules.population import Sketch


def children(
    sketch: Sketch,
    rows: np.ndarray,
    values: np.ndarray,
    count: int,
    mutate_prob: float,
    generator: np.random.Generator,
    mutators: Mapping[Mutator, float] | None = None,
) -> np.ndarray:
    """Up to ``count`` distinct valid children of parents drawn by rank: int64 [M, n_columns].

    Args:
        sketch: the structure.
        rows: the parents, int64 [N, n_columns]; without any, children are random.
        values: higher is better, float64 [N].
        count: children to draw.
        mutate_prob: share made by mutation; the others take each decision from one of two parents.
        generator: of the draws.
        mutators: a user's, each with the share of the mutants that it makes; changes of any column make the rest.
    """
    if not len(rows):
        return sketch.sample(count, generator)
    order = np.argsort(-values, kind="stable")
    weights = 1.0 / (np.arange(len(rows)) + 8.0)
    weights /= weights.sum()
    parents = rows[order[generator.choice(len(rows), size=count, p=weights)]]
    others = rows[order[generator.choice(len(rows), size=count, p=weights)]]
    mutated = _mutated(sketch, parents, mutators or {}, generator)
    crossed = sketch.crossover(parents, others, generator)
    use_mutation = generator.random(count) < mutate_prob
    found = np.where(use_mutation[:, None], mutated, crossed)
    found = found[sketch.valid(found)]
    return np.unique(found, axis=0) if len(found) else rows[:0]


def mutants(sketch: Sketch, parents: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Up to ``count`` valid mutants of parents drawn uniformly: int64 [M, n_columns]."""
    mutated = sketch.mutate(parents[generator.integers(len(parents), size=count)], generator)
    return mutated[sketch.valid(mutated)]


def _mutated(
    sketch: Sketch, parents: np.ndarray, mutators: Mapping[Mutator, float], generator: np.random.Generator
) -> np.ndarray:
    rows = sketch.mutate(parents, generator)
    shares = np.array([*mutators.values(), max(0.0, 1.0 - sum(mutators.values()))])
    makers = generator.choice(len(shares), size=len(parents), p=shares / shares.sum())
    for number, mutator in enumerate(mutators):
        own = np.flatnonzero(makers == number)
        rows[own] = mutator.mutate_rows(sketch, parents[own], generator)
    return rows
