"""The operators of evolution on one structure: children of a population, and who of parents and children lives on.

Rows are decisions; all operators work on whole matrices.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedules.mutator import Mutator
from schedules.population import Sketch

from ..error import TunerError


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

    Raises:
        TunerError: a mutator makes something else than rows of the structure.
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


def mutants(
    sketch: Sketch,
    parents: np.ndarray,
    count: int,
    generator: np.random.Generator,
    mutators: Mapping[Mutator, float] | None = None,
) -> np.ndarray:
    """Up to ``count`` valid mutants of parents drawn uniformly: int64 [M, n_columns]; ``mutators`` as of :func:`children`."""
    drawn = parents[generator.integers(len(parents), size=count)]
    mutated = _mutated(sketch, drawn, mutators, generator) if mutators else sketch.mutate(drawn, generator)
    return mutated[sketch.valid(mutated)]


def _mutated(
    sketch: Sketch, parents: np.ndarray, mutators: Mapping[Mutator, float], generator: np.random.Generator
) -> np.ndarray:
    rows = sketch.mutate(parents, generator)
    shares = np.array([*mutators.values(), max(0.0, 1.0 - sum(mutators.values()))])
    makers = generator.choice(len(shares), size=len(parents), p=shares / shares.sum())
    for number, mutator in enumerate(mutators):
        own = np.flatnonzero(makers == number)
        if len(own):
            rows[own] = _checked(
                mutator, sketch, mutator.mutate_rows(sketch, parents[own], generator), len(own)
            )
    return rows


def _checked(mutator: Mutator, sketch: Sketch, rows: np.ndarray, count: int) -> np.ndarray:
    """What a mutator has made, if it is rows of the sketch."""
    shape, sizes = (count, sketch.n_columns), [decision.size for decision in sketch.decisions]
    made = np.asarray(rows)
    if made.shape != shape or made.dtype.kind not in "iu":
        found = f"{made.dtype} {list(made.shape)}"
    elif ((made < 0) | (made >= sizes)).any():
        found = f"numbers from {made.min(axis=0).tolist()} to {made.max(axis=0).tolist()}"
    else:
        return made
    raise TunerError(
        f"mutator {type(mutator).__name__}: mutate_rows must return an int64 array {list(shape)} like the rows that it is given,"
        f" of numbers from 0 to below {sizes}; it returned {found}"
    )
