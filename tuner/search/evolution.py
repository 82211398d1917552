"""The operators of evolution on one structure: children of a population, and who of parents and children lives on.

Rows are decisions; all operators work on whole matrices.
"""

from __future__ import annotations

import numpy as np

from schedules.population import Sketch


def children(
    sketch: Sketch,
    rows: np.ndarray,
    values: np.ndarray,
    count: int,
    mutate_prob: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Up to ``count`` distinct valid children of parents drawn by rank: int64 [M, n_columns].

    Args:
        sketch: the structure.
        rows: the parents, int64 [N, n_columns]; without any, children are random.
        values: higher is better, float64 [N].
        count: children to draw.
        mutate_prob: share made by mutation; the others take each decision from one of two parents.
        generator: of the draws.
    """
    if not len(rows):
        return sketch.sample(count, generator)
    order = np.argsort(-values, kind="stable")
    weights = 1.0 / (np.arange(len(rows)) + 8.0)
    weights /= weights.sum()
    parents = rows[order[generator.choice(len(rows), size=count, p=weights)]]
    others = rows[order[generator.choice(len(rows), size=count, p=weights)]]
    mutated = sketch.mutate(parents, generator)
    crossed = sketch.crossover(parents, others, generator)
    use_mutation = generator.random(count) < mutate_prob
    found = np.where(use_mutation[:, None], mutated, crossed)
    found = found[sketch.valid(found)]
    return np.unique(found, axis=0) if len(found) else rows[:0]


def mutants(sketch: Sketch, parents: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Up to ``count`` valid mutants of parents drawn uniformly: int64 [M, n_columns]."""
    mutated = sketch.mutate(parents[generator.integers(len(parents), size=count)], generator)
    return mutated[sketch.valid(mutated)]
