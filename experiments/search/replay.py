"""Searches replayed on stored spaces: how many trials each strategy needs, without building or running anything.

The measured candidates of a stored space are taken for the whole of it: every strategy samples, mutates and proposes those only, so that
each proposal has a measured time and nothing is guessed about others. A surrogate that answers for all candidates would favour
strategies whose model resembles it. Of a large space a part was measured, which holds more fast candidates than chance would find (see
``spaces.py``); that is in random search's favour.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from cost_models import CostModel
from database import Database, TuningRecord
from ir import IRModule, structural_hash
from ir.target import Target
from ir.tir import PrimFunc
from runners import Builder, BuilderInput, BuilderResult, ReplayRunner, ResultKind, RunnerResult
from schedules import Trace
from schedules.population import Sketch
from schedules.space import SpaceGenerator
from tuner import MeasureCandidate, SearchStrategy, TuneContext

from .stored_space import StoredSpace

SHARES = (0.9, 0.95, 0.99)
"""Of the best speed; how many trials it takes to reach each is counted."""


class MeasuredSketch(Sketch):
    """A structure whose candidates are those that were measured.

    Args:
        sketch: the structure.
        rows: its measured candidates, int64 [N, columns].
        seconds: their times, float64 [N], infinite for failures.
        kinds: "ok" or the kind of failure [N].
    """

    def __init__(self, sketch: Sketch, rows: np.ndarray, seconds: np.ndarray, kinds: Sequence[str]) -> None:
        self.__dict__.update(sketch.__dict__)
        self.rows = rows
        self.outcomes = {
            row.tobytes(): (float(secs), kind) for row, secs, kind in zip(rows, seconds, kinds, strict=True)
        }
        self._places = self.coordinates(rows)

    def size(self) -> int:
        return len(self.rows)

    def all_rows(self, limit: int) -> np.ndarray | None:
        return self.rows if len(self.rows) <= limit else None

    def valid(self, matrix: np.ndarray) -> np.ndarray:
        return np.array([row.tobytes() in self.outcomes for row in matrix], dtype=bool)

    def sample(self, count: int, generator: np.random.Generator, attempts: int = 64) -> np.ndarray:
        """Up to ``count`` measured rows in random order, none twice."""
        return self.rows[generator.permutation(len(self.rows))[:count]]

    def mutate(self, matrix: np.ndarray, generator: np.random.Generator, rate: float = 0.3) -> np.ndarray:
        """Mutants, each replaced by the measured row that is nearest to it."""
        return self.nearest(super().mutate(matrix, generator, rate))

    def crossover(self, first: np.ndarray, second: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return self.nearest(super().crossover(first, second, generator))

    def neighbours(self, row: np.ndarray) -> np.ndarray:
        """The measured ones among the neighbours; where they are few, the nearest measured rows as well."""
        distance = np.linalg.norm(self._places - self.coordinates(row[None]), axis=1)
        near = self.rows[np.argsort(distance, kind="stable")[1:17]]
        own = super().neighbours(row)
        return np.unique(np.concatenate([own[self.valid(own)], near]), axis=0)

    def nearest(self, matrix: np.ndarray) -> np.ndarray:
        """The measured row nearest to each row in decision space."""
        places = self.coordinates(matrix)
        squares = (self._places**2).sum(axis=1) - 2 * places @ self._places.T
        return self.rows[squares.argmin(axis=1)]


class StoredGenerator(SpaceGenerator):
    """The design spaces that files hold: of each stored workload its structures, rebuilt, with the measured candidates.

    Args:
        spaces: the files.
        sources: which candidates, by how they were chosen; all by default.
    """

    def __init__(self, spaces: Sequence[StoredSpace], sources: Collection[str] | None = None) -> None:
        super().__init__()
        self._sources = sources
        self._spaces = {structural_hash(space.mod): space for space in spaces}
        self._made: dict[int, list[MeasuredSketch]] = {}

    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        return list(self.measured(structural_hash(mod)))

    def measured(self, key: int) -> list[MeasuredSketch]:
        """The structures of the workload with this structural hash."""
        if key not in self._made:
            space, made = self._spaces[key], []
            for number, sketch in enumerate(space.sketches()):
                rows, seconds = space.rows_of(number)
                mine = space.structure == number
                kept = np.array(
                    [self._is_kept(space.sources[item]) for item in space.source[mine]], dtype=bool
                )
                kinds = np.array(space.kinds)[space.kind[mine]]
                made.append(MeasuredSketch(sketch, rows[kept], seconds[kept], kinds[kept].tolist()))
            self._made[key] = made
        return self._made[key]

    def _is_kept(self, source: str) -> bool:
        return self._sources is None or source in self._sources

    def context(self, space: StoredSpace, seed: int) -> TuneContext:
        """The tuning task of a stored space."""
        return TuneContext(space.mod, space.target, self, task_name=space.row, seed=seed)


# ---- through builder and runner -----------------------------------------------------------------------------------


class TraceBuilder(Builder):
    """Builds nothing: the artifact is the trace of the candidate that was asked for."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult(Trace.from_json(item.mod.trace_json), None) for item in build_inputs]


def replaying_runner(sketches: Sequence[MeasuredSketch]) -> ReplayRunner:
    """A runner that answers what was measured of the trace that :class:`TraceBuilder` hands on; other traces are failures."""

    def outcome(trace: Trace) -> float | RunnerResult:
        for sketch in sketches:
            row = sketch.row_of(trace)
            if row is not None and row.tobytes() in sketch.outcomes:
                secs, kind = sketch.outcomes[row.tobytes()]
                if np.isfinite(secs):
                    return secs
                return RunnerResult(None, "as it was measured", ResultKind(kind))
        return RunnerResult(None, "the trace is of no measured candidate", ResultKind.ILLEGAL_SCHEDULE)

    return ReplayRunner(outcome)


# ---- without them ------------------------------------------------------------------------------------------------


def replay(
    context: TuneContext,
    strategy: SearchStrategy,
    model: CostModel,
    trials: int,
    batch: int,
    database: Database | None = None,
) -> list[float]:
    """One search by ask and tell: seconds of its trials in order, infinite for failures; with a database, all are committed."""
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(trials, batch, context.sketches(), database, model)
    history: list[float] = []
    while (candidates := strategy.generate_measure_candidates()) is not None:
        outcomes = [item.sketch.outcomes[item.row.tobytes()] for item in candidates]  # type: ignore[attr-defined]
        if database is not None:
            for item, (secs, kind) in zip(candidates, outcomes, strict=True):
                database.commit_tuning_record(_record(database, context, item, secs, kind))
        told = [secs if np.isfinite(secs) else None for secs, _ in outcomes]
        strategy.notify_runner_results(candidates, told)
        history += [secs for secs, _ in outcomes]
    strategy.post_tuning()
    return history


def _record(
    database: Database, context: TuneContext, item: MeasureCandidate, secs: float, kind: str
) -> TuningRecord:
    ran = bool(np.isfinite(secs))
    return TuningRecord(
        item.sketch.trace_of(item.row),
        database.commit_workload(context.mod),
        [secs] if ran else None,
        context.target,
        verified=ran,
        failure_kind=None if ran else kind,
    )


@dataclass
class Outcome:
    """What one replayed search came to.

    Attributes:
        trials: to reach each of :data:`SHARES` of the best speed; None where it ended before.
        area: the best speed so far over the best of all, averaged over the trials of the budget.
        regret: the best time found over the best of all, minus one.
        failed: trials that failed.
    """

    trials: dict[float, int | None]
    area: float
    regret: float
    failed: int = 0


def judge(history: Sequence[float], best: float, budget: int) -> Outcome:
    """Measure a history against the best time of the space.

    >>> outcome = judge([4.0, 2.0, 1.0], best=1.0, budget=4)
    >>> outcome.trials[0.95], outcome.area, outcome.regret
    (3, 0.6875, 0.0)
    """
    so_far = np.minimum.accumulate(np.asarray(history, dtype=float))
    speed = best / so_far
    reached = {
        share: (int(np.argmax(speed >= share)) + 1 if (speed >= share).any() else None) for share in SHARES
    }
    padded = np.concatenate([speed, np.full(max(0, budget - len(speed)), speed[-1])])[:budget]
    return Outcome(
        reached, float(padded.mean()), float(so_far[-1] / best - 1.0), int(np.isinf(history).sum())
    )


def median_trials(outcomes: Sequence[Outcome], share: float, budget: int) -> float:
    """The median over runs; those that did not get there count as one more than the budget."""
    return float(np.median([item.trials[share] or budget + 1 for item in outcomes]))
