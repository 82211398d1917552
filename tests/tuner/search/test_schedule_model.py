"""A user's cost model on schedules: the search asks it which candidates to measure, and tells it what they took."""

from __future__ import annotations

from typing import Any

import numpy as np

from cost_models import PyCostModel
from database import MemoryDatabase
from schedules import Schedule
from tests.programs.expressions import matmul
from tuner import EvolutionarySearch, TuneContext


class _WantsLength(PyCostModel):
    """Prefers long programs, and keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[float] = []
        self.told: list[tuple[float, Any]] = []

    def load(self, path: Any) -> None:
        """Nothing is kept in files."""

    def save(self, path: Any) -> None:
        """Nothing is kept in files."""

    def predict(self, context: Any, candidates: Any) -> np.ndarray:
        scores = [self.score(item.sch) for item in candidates]
        self.shown += scores
        return np.array(scores)

    def update(self, context: Any, candidates: Any, results: Any) -> None:
        self.told += [
            (self.score(item.sch), result.run_secs) for item, result in zip(candidates, results, strict=True)
        ]

    @staticmethod
    def score(sch: Schedule) -> float:
        return float(len(sch.mod["main"].script()))


def test_the_model_chooses_what_is_measured_and_learns_from_it() -> None:
    context = TuneContext(matmul(64), "cpu", seed=1)
    model, strategy = _WantsLength(), EvolutionarySearch(population_size=128, genetic_num_iters=1)
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(8, 4, context.sketches(), MemoryDatabase(), model)
    candidates = strategy.generate_measure_candidates()
    assert candidates is not None and len(candidates) == 4
    assert len(model.shown) == 16 and max(model.shown) > min(model.shown)
    scores = [item.score for item in candidates]
    default, *others = model.shown  # which is measured in any case
    assert scores == [default, *sorted(others, reverse=True)[:3]] and default < scores[3]

    strategy.notify_runner_results(candidates, [1.0, None, 3.0, 4.0])
    assert model.told == list(zip(scores, [[1.0], None, [3.0], [4.0]], strict=True))

    more = strategy.generate_measure_candidates()
    assert more is not None and len(more) == 4
    assert strategy.generate_measure_candidates() is None
