"""What a search knows of one structure: what was measured of it, what others measure, its last generation, and features worth keeping.

The structures of a space are the arms of a bandit: each round searches those that promise most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from cost_models import FeatureMatrix
from schedules.mutator import Mutator
from schedules.population import Sketch

_PROBES = 48
"""Random candidates by which a structure is judged that is not searched."""

Features = Callable[[Sketch, np.ndarray], FeatureMatrix]


class Arm:
    """One structure.

    Args:
        number: of the structure in its space.
        sketch: the structure.
        exhaustive_limit: with at most this many candidates it is scored completely.
        features: of decisions int64 [N, n_columns].
        mutators: a user's that make mutants of its candidates, each with its share of them.

    Attributes:
        measured: seconds of each measured row, infinite for failures.
        claimed: rows that another tuner was measuring when this one wanted to.
        everything: all rows of a structure that is scored completely.
        survivors: the last generation: the model has learned since, and ranks it anew.
        kept: features of all rows, once :meth:`keep_features` was called.
    """

    def __init__(
        self,
        number: int,
        sketch: Sketch,
        exhaustive_limit: int,
        features: Features,
        mutators: Mapping[Mutator, float] | None = None,
    ) -> None:
        self.number, self.sketch, self._features, self.mutators = number, sketch, features, mutators or {}
        self.measured: dict[bytes, float] = {}
        self.claimed: set[bytes] = set()
        self.everything = sketch.all_rows(exhaustive_limit)
        rows = () if self.everything is None else self.everything
        self._places = {row.tobytes(): place for place, row in enumerate(rows)}
        self.survivors: np.ndarray | None = None
        self.kept: FeatureMatrix | None = None
        self._probe: FeatureMatrix | None = None

    @property
    def best_secs(self) -> float:
        """The best time so far; infinite where nothing ran."""
        return min(self.measured.values(), default=math.inf)

    def remember(self, row: np.ndarray, secs: float, *, again: bool = False) -> None:
        """A row was measured; its best time counts, or the last where it was measured ``again`` to see what it is in truth."""
        key = row.tobytes()
        self.measured[key] = secs if again else min(secs, self.measured.get(key, math.inf))

    def knows(self, row: np.ndarray) -> bool:
        """Whether a row was measured."""
        return row.tobytes() in self.measured

    def unmeasured(self, rows: np.ndarray) -> np.ndarray:
        """Which rows nobody has measured or is measuring: bool [N]."""
        keys = [row.tobytes() for row in rows]
        return np.array([key not in self.measured and key not in self.claimed for key in keys], dtype=bool)

    def left(self) -> float:
        """How many candidates are left to measure; infinite where there are too many to count."""
        return math.inf if self.everything is None else len(self.everything) - len(self.measured)

    def fastest(self, count: int) -> np.ndarray:
        """The fastest measured rows: int64 [up to count, n_columns]."""
        ran = [(secs, key) for key, secs in self.measured.items() if math.isfinite(secs)]
        rows = [np.frombuffer(key, dtype=np.int64) for _, key in sorted(ran)[:count]]
        return np.stack(rows) if rows else np.empty((0, self.sketch.n_columns), dtype=np.int64)

    def features(self, rows: np.ndarray) -> FeatureMatrix:
        """Features of rows of the structure."""
        if self.kept is not None:
            places = [self._places.get(row.tobytes(), -1) for row in rows]
            if -1 not in places:  # records may hold candidates that today's constraints forbid
                return self.kept.take(places)
        return self._features(self.sketch, rows)

    def keep_features(self, room: int) -> int:
        """Compute the features of all rows once and for all, where there is room; how many bytes they take."""
        assert self.everything is not None
        found = self._features(self.sketch, self.everything)
        if found.values.nbytes > room:
            return 0
        self.kept = found
        return found.values.nbytes

    def probe(self, generator: np.random.Generator) -> FeatureMatrix:
        """Features of some random candidates, always the same."""
        if self._probe is None:
            self._probe = self._features(self.sketch, self.sketch.sample(_PROBES, generator))
        return self._probe
