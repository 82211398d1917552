"""Cost models on schedules in a search on arrays: the best by the estimate become schedules, and the model ranks those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cost_models import PyCostModel
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


def choose(
    model: PyCostModel, context: TuneContext, candidates: Sequence[MeasureCandidate], wanted: int
) -> list[MeasureCandidate]:
    """The ``wanted`` candidates to which the model gives the highest scores, best first; illegal ones come last."""
    scores = np.full(len(candidates), -np.inf)
    made = _scheduled(context, candidates)
    if made:
        scores[list(made)] = model.predict(context, list(made.values()))
    order = np.argsort(-scores, kind="stable")[:wanted]
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
