"""The search interface: ask for candidates, tell their results. A strategy never builds or runs anything itself."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cost_models import CostModel
from database import Database
from ir.kinds import Kinds
from schedules import Schedule, Trace
from schedules.population import Sketch

from ..context import TuneContext
from ..error import TunerError

NEW_STRUCTURES = 0.25
"""Structures that become known in a round, as a share of the batch, where there are more than are known."""


@dataclass(eq=False)
class MeasureCandidate:
    """A candidate chosen for measuring.

    Attributes:
        sketch, row: its structure and its decisions.
        score: what the strategy expected of it (higher is better).
        expected_secs: the same as seconds; None where the strategy's scores tell no time, or nothing was measured yet to compare with.
        metrics: what was measured of it beside its time, by name; filled in before the strategy is told the results.
        noise: how certain its time is (:func:`ir.time_interval.noise_of`); filled in likewise.
    """

    sketch: Sketch
    row: np.ndarray
    score: float = 0.0
    expected_secs: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0
    _schedule: Schedule | None = None

    def schedule(self, context: TuneContext) -> Schedule | None:
        """The postprocessed schedule, or None when a postprocessor refuses it. Made once.

        Raises:
            ScheduleError: the decisions do not replay; the arrays called an illegal candidate valid.
        """
        if self._schedule is None:
            sch = self.sketch.materialize(context.mod, self.row)
            if not context.generator_of(self.sketch).postprocess(sch, context.target):
                return None
            self._schedule = sch
        return self._schedule

    def trace(self, context: TuneContext) -> Trace | None:
        """The trace of the postprocessed schedule: what a record stores."""
        sch = self.schedule(context)
        return None if sch is None else sch.trace


class SearchStrategy(ABC):
    """Proposes candidates for one task.

    Lifecycle: ``initialize_with_tune_context`` once; ``pre_tuning``; then ``generate_measure_candidates`` and
    ``notify_runner_results`` in turn until the former returns None; ``post_tuning``. The same context seed, database and
    results give the same candidates.
    """

    kinds: ClassVar[Kinds[Callable[..., SearchStrategy]]] = Kinds("search strategy", TunerError, __package__)
    """The strategies that :meth:`create` knows; each registers itself where it is defined."""

    context: TuneContext
    objectives: tuple[str, ...] = ("time",)
    """What the strategy minimizes; see :data:`database.pareto.UNITS`."""

    @staticmethod
    def create(kind: str = "evolutionary", *args: Any, **kwargs: Any) -> SearchStrategy:
        """A strategy by name: "evolutionary", "replay-trace" (or "random"), "optuna" (or "optuna:tpe", "optuna:cmaes", ...), or
        whatever was registered since.

        Raises:
            TunerError: the name is unknown.
        """
        return SearchStrategy.kinds[kind](*args, **kwargs)

    def clone(self) -> SearchStrategy:
        """A strategy with the same options, for one task: whoever tunes several makes one for each."""
        return copy.copy(self)

    def initialize_with_tune_context(self, context: TuneContext) -> None:
        """Learn the task."""
        self.context = context

    @abstractmethod
    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Sketch],
        database: Database | None,
        cost_model: CostModel,
    ) -> None:
        """Begin: the budget, the batch size, the structures to search, what is known, and the model to ask."""

    @abstractmethod
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next batch, or None when the budget or the space is used up."""

    @abstractmethod
    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[float | None]
    ) -> None:
        """Seconds of each candidate of the last batch, None for those that failed."""

    def post_tuning(self) -> None:
        """End; the strategy may be started again."""
