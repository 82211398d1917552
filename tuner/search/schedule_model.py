"""Cost models on schedules in a search on arrays: the best by the estimate become schedules, and the model ranks those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_models import CostModel, CostModelError, PyCostModel
from schedules import Schedule, ScheduleError

from ..context import TuneContext
from .base import MeasureCandidate

SPARE = 4
"""Candidates that are made for each that is measured."""


@dataclass(frozen=True)
class ScheduledCandidate:
    """What such a model is shown of a candidate."""

    sch: Schedule
    """Postprocessed."""


@dataclass(frozen=True)
class Measurement:
    """What such a model is told of a result."""

    run_secs: list[float] | None


_LOWEST, _HIGHEST = -1e9, 1e9
"""What scores without bound are taken for; scores are logarithms of speeds."""


def checked_scores(model: CostModel, scores: Any, count: int, method: str) -> np.ndarray:
    """What somebody's model answered, float64 [count]; what has no number is the worst.

    Raises:
        CostModelError: it is something else than so many numbers.
    """
    try:
        found = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(())
    if found.shape != (count,):
        shown = f"shape {list(np.shape(scores))}" if isinstance(scores, np.ndarray) else repr(scores)[:60]
        raise CostModelError(
            f"{type(model).__name__}.{method} gives one number for each candidate, float64 [{count}] here; it gave {shown}"
        )
    return np.nan_to_num(np.clip(found, _LOWEST, _HIGHEST), nan=_LOWEST)


def choose(
    model: PyCostModel,
    context: TuneContext,
    candidates: Sequence[MeasureCandidate],
    wanted: int,
    sure: int = 0,
) -> list[MeasureCandidate]:
    """The ``wanted`` candidates to which the model gives the highest scores, best first; illegal ones come last.

    Args:
        sure: so many candidates, the first ones, come before all others whatever their scores are.
    """
    scores = np.full(len(candidates), -np.inf)
    made = _scheduled(context, candidates)
    if made:
        scores[list(made)] = checked_scores(
            model, model.predict(context, list(made.values())), len(made), "predict"
        )
    order = [*range(sure), *(np.argsort(-scores[sure:], kind="stable") + sure)][:wanted]
    for position in order:
        candidates[position].score = float(scores[position])
    return [candidates[position] for position in order]


def teach(
    model: PyCostModel,
    context: TuneContext,
    candidates: Sequence[MeasureCandidate],
    results: Sequence[float | None],
) -> None:
    """Tell the model what was measured of the candidates that have a schedule."""
    made = _scheduled(context, candidates)
    told = [
        Measurement(None if secs is None else [secs]) for secs in (results[position] for position in made)
    ]
    model.update(context, list(made.values()), told)


def _scheduled(context: TuneContext, candidates: Sequence[MeasureCandidate]) -> dict[int, ScheduledCandidate]:
    """Position to scheduled candidate; those that do not replay or that a postprocessor refuses are left out."""
    made = {}
    for position, candidate in enumerate(candidates):
        try:
            sch = candidate.schedule(context)
        except ScheduleError:
            continue  # the scheduler counts and reports it if it is measured
        if sch is not None:
            made[position] = ScheduledCandidate(sch)
    return made
