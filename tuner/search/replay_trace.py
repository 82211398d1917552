"""ReplayTrace: random candidates of the design space, the baseline that every search must beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cost_models import CostModel
from database import Database
from schedules.population import Sketch

from .base import MeasureCandidate, SearchStrategy
from .shared import SharedDatabase


@SearchStrategy.kinds.register("replay-trace", "random")
class ReplayTrace(SearchStrategy):
    """Draws structures and decisions at random; proposes no candidate twice, and none that the database knows or another tuner has."""

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Sketch],
        database: Database | None,
        cost_model: CostModel,
    ) -> None:
        self._left, self._batch = max_trials, num_trials_per_iter
        self._structures = self.context.structures_of(design_spaces)
        self._rng = np.random.default_rng(self.context.generator.integers(1 << 31))
        self._seen: set[tuple[int, bytes]] = set()
        self._shared = None if database is None else SharedDatabase(database, self.context, self._structures)

    def post_tuning(self) -> None:
        if self._shared is not None:
            self._shared.release()

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        wanted = min(self._batch, self._left)
        if self._shared is not None:
            self._seen.update((item.number, item.row.tobytes()) for item in self._shared.news())
        self._structures.grow(wanted, self._rng)
        sketches = self._structures.known
        chosen: list[MeasureCandidate] = []
        for _ in range(20 * wanted):
            if len(chosen) >= wanted:
                break
            number = int(self._rng.integers(len(sketches)))
            rows = sketches[number].sample(1, self._rng)
            for row in rows:
                key = (number, row.tobytes())
                if key not in self._seen:
                    self._seen.add(key)
                    if self._shared is not None and self._shared.claim([(number, row)]) != [True]:
                        continue
                    chosen.append(MeasureCandidate(sketches[number], row))
        self._left -= len(chosen)
        return chosen or None

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[float | None]
    ) -> None:
        """Random search learns nothing."""
