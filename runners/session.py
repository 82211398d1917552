"""What a tuning session lends the builder and the runner of this machine, for as long as it lasts.

Both must use the same worker processes, and how a kernel is measured depends on the model that it is of. What a builder or runner was
given by its user stays as it is; the session fills in what was left open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from .evaluator import EvaluatorConfig
from .pool import WorkerPool, shared_pool

CUT_RATIO = 3.5
"""How many times the best time a candidate takes that is not timed further, unless a runner's user says otherwise."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What holds for all measurements of a session."""

    pool: WorkerPool
    weight_distance: int = 0
    """Bytes of weights that the model reads between two calls of a kernel."""
    in_full: bool = False
    """Candidates are timed to the end however slow they are, since they may be the best in something else."""
    measure_energy: bool = False
    portable: bool = False
    """Candidates are built as bytes, since the runner's devices are elsewhere."""


class SessionPart:
    """A builder or runner that works with a pool: its own, that of the session that it serves, or the one that all share."""

    _pool: WorkerPool | None = None
    _session: SessionSettings | None = None

    @property
    def own_pool(self) -> WorkerPool | None:
        """The worker processes that its user gave it."""
        return self._pool

    @property
    def pool(self) -> WorkerPool:
        """The worker processes that it uses."""
        if self._pool is not None:
            return self._pool
        return shared_pool() if self._session is None else self._session.pool

    @contextmanager
    def serving(self, session: SessionSettings) -> Iterator[None]:
        """Within, what was left open is as the session says."""
        before, self._session = self._session, session
        try:
            yield
        finally:
            self._session = before


class MeasuringPart(SessionPart):
    """A runner whose settings, where its user left them open, are those of the session."""

    _config: EvaluatorConfig
    _cut_ratio: float | None
    _measure_energy: bool

    @property
    def evaluator_config(self) -> EvaluatorConfig:
        """How often to call; with the weights of the session's model between two calls where nothing else was asked for."""
        if self._session is None or self._config.weight_distance is not None:
            return self._config
        return replace(self._config, weight_distance=self._session.weight_distance)

    @property
    def cut_ratio(self) -> float:
        """How far behind a candidate is given up."""
        if self._cut_ratio is not None:
            return self._cut_ratio
        return math.inf if self._session is not None and self._session.in_full else CUT_RATIO

    @property
    def measure_energy(self) -> bool:
        """Whether the joules of a call are measured."""
        return self._measure_energy or (self._session is not None and self._session.measure_energy)
