"""EvolutionarySearch: evolves whole populations of decision matrices, scored by array features and a learned model.

Every generation scores thousands of candidates in a few array operations per structure; only the few that are to be
measured become programs. Before anything is measured the analytical prior ranks; afterwards the learned model does, which has
the prior's estimate among its features. (Populations and mutation in tile space follow Zheng et al., "Ansor", OSDI 2020, and
Shao et al., "Tensor Program Optimization with Probabilistic Programs", NeurIPS 2022.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cost_models import CostModel, PyCostModel
from database import Database
from schedules.population import Sketch

from ..error import TunerError
from .base import MeasureCandidate, SearchStrategy
from .records import MeasuredRow, learn, measured_rows
from .schedule_model import SPARE, choose, teach

_FAR_BEHIND = 1.5
"""A structure whose best time is this many times the best of all is searched in one round out of ``_ROUNDS_BETWEEN``."""
_ROUNDS_BETWEEN = 4


@SearchStrategy.kinds.register("evolutionary")
class EvolutionarySearch(SearchStrategy):
    """Evolutionary search over populations.

    Args:
        population_size: candidates per generation, all structures together.
        init_measured_ratio: share of a first generation that descends from the best measured candidates.
        genetic_num_iters: generations between two batches.
        genetic_mutate_prob: share of children made by mutation; the others by crossover.
        eps_greedy: share of a batch taken at random among what the prior finds plausible.
        exhaustive_limit: structures with at most this many candidates are scored completely.
    """

    def __init__(
        self,
        *,
        population_size: int = 2048,
        init_measured_ratio: float = 0.3,
        genetic_num_iters: int = 4,
        genetic_mutate_prob: float = 0.85,
        eps_greedy: float = 0.08,
        exhaustive_limit: int = 4096,
    ) -> None:
        self.population_size = population_size
        self.init_measured_ratio = init_measured_ratio
        self.genetic_num_iters = genetic_num_iters
        self.genetic_mutate_prob = genetic_mutate_prob
        self.eps_greedy = eps_greedy
        self.exhaustive_limit = exhaustive_limit
        self.candidates_scored = 0

    # ---- lifecycle ---------------------------------------------------------------------------------------------

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Sketch],
        database: Database | None,
        cost_model: CostModel,
    ) -> None:
        if self.context.space_generator.has_own_mutators:
            raise TunerError(
                "EvolutionarySearch mutates rows of decisions, not traces: leave mutator_probs of the space generator out"
            )
        self._max_trials, self._batch = max_trials, num_trials_per_iter
        self._sketches = list(design_spaces)
        self._cost_model = cost_model
        self._rng = np.random.default_rng(self.context.generator.integers(1 << 31))
        self._trials = self._rounds = 0
        self._measured: list[dict[bytes, float]] = [{} for _ in self._sketches]
        self._rows: list[list[np.ndarray]] = [[] for _ in self._sketches]
        self._complete = [sketch.all_rows(self.exhaustive_limit) for sketch in self._sketches]
        self._survivors: list[np.ndarray | None] = [None] * len(self._sketches)
        """The last generation of each structure: the model has learned since, and ranks it anew."""
        if database is not None:
            self._learn_from(database)

    def _learn_from(self, database: Database) -> None:
        """Take over what earlier sessions measured for this workload and target."""
        workload = database.commit_workload(self.context.mod)
        rows = measured_rows(database.get_records(workload, self.context.target), self._sketches)
        for number, row, secs in rows:
            self._remember(number, row, secs)
        self._train(rows)

    def _remember(self, number: int, row: np.ndarray, secs: float) -> None:
        key = row.tobytes()
        if key not in self._measured[number]:
            self._rows[number].append(row)
        self._measured[number][key] = min(secs, self._measured[number].get(key, float("inf")))

    def _train(self, rows: Sequence[MeasuredRow]) -> None:
        learn(self._cost_model, self._sketches, rows, self.context, str(self.context.workload_hash()))

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[float | None]
    ) -> None:
        rows: list[MeasuredRow] = []
        for candidate, secs in zip(measure_candidates, results, strict=True):
            number = next(i for i, sketch in enumerate(self._sketches) if sketch is candidate.sketch)
            rows.append((number, candidate.row, float("inf") if secs is None else secs))
            self._remember(*rows[-1])
        self._train(rows)
        if isinstance(self._cost_model, PyCostModel):
            teach(self._cost_model, self.context, measure_candidates, results)

    # ---- scoring -----------------------------------------------------------------------------------------------

    def _features(self, sketch: Sketch, matrix: np.ndarray) -> Any:
        self.candidates_scored += len(matrix)
        return self.context.features(sketch, matrix)

    def _scores(self, sketch: Sketch, matrix: np.ndarray) -> np.ndarray:
        """Higher is better [N]."""
        if not len(matrix):
            return np.empty(0)
        return np.asarray(self._cost_model.predict_arrays(self._features(sketch, matrix)))

    # ---- proposing ---------------------------------------------------------------------------------------------

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        wanted = min(self._batch, self._max_trials - self._trials)
        if wanted <= 0:
            return None
        spare = SPARE if isinstance(self._cost_model, PyCostModel) else 1
        searched = [number for number in range(len(self._sketches)) if self._is_promising(number)]
        chosen = self._choose(self._pools(searched), wanted * spare)
        if len(chosen) < wanted * spare and len(searched) < len(self._sketches):
            chosen = self._choose(self._pools(range(len(self._sketches))), wanted * spare)
        self._rounds += 1
        if not chosen:
            return None
        candidates = [
            MeasureCandidate(self._sketches[number], row, float(score)) for number, row, score in chosen
        ]
        if isinstance(self._cost_model, PyCostModel):
            candidates = choose(self._cost_model, self.context, candidates, wanted)
        self._trials += len(candidates)
        return candidates

    def _is_promising(self, number: int) -> bool:
        """Whether to search a structure in this round: now and then only, if all that was measured of it is far behind."""
        own = min(self._measured[number].values(), default=0.0)
        best = min((secs for measured in self._measured for secs in measured.values()), default=0.0)
        return own <= _FAR_BEHIND * best or self._rounds % _ROUNDS_BETWEEN == 0

    def _pools(self, searched: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Candidates and scores of every structure, none for those that are not searched."""
        nothing = (np.empty((0, 0), dtype=np.int64), np.empty(0))
        return [self._pool(n) if n in searched else nothing for n in range(len(self._sketches))]

    def _pool(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, scores) of one structure's candidates that were not measured yet, best first."""
        sketch = self._sketches[number]
        if self._complete[number] is not None:
            rows = self._unmeasured(number, self._complete[number])
            return _sorted(rows, self._scores(sketch, rows))
        # A small batch asks for little: its search costs in proportion, and goes on from where the last one ended.
        effort = min(1.0, self._batch / 16)
        share = max(64, int(self.population_size * effort) // max(1, len(self._sketches)))
        rows = self._first_generation(number, share)
        scores = self._scores(sketch, rows)
        for _ in range(max(1, round(self.genetic_num_iters * effort))):
            children = self._children(sketch, rows, scores, share)
            child_scores = self._scores(sketch, children)
            rows, scores = _top(
                np.concatenate([rows, children]), np.concatenate([scores, child_scores]), share
            )
        self._survivors[number] = rows
        kept = self._unmeasured_mask(number, rows)
        return _sorted(rows[kept], scores[kept])

    def _first_generation(self, number: int, share: int) -> np.ndarray:
        sketch = self._sketches[number]
        left = self._survivors[number]
        fresh = sketch.sample(share if left is None else share // 4, self._rng)
        if left is not None:
            fresh = np.concatenate([fresh, left])
        best = sorted(self._measured[number].items(), key=lambda item: item[1])[:32]
        if best:
            parents = np.stack(
                [np.frombuffer(key, dtype=np.int64) for key, secs in best if np.isfinite(secs)]
                or [self._rows[number][0]]
            )
            count = int(share * self.init_measured_ratio)
            picks = parents[self._rng.integers(len(parents), size=count)]
            mutated = sketch.mutate(picks, self._rng)
            fresh = np.concatenate([fresh, mutated[sketch.valid(mutated)]])
        return np.unique(fresh, axis=0)

    def _children(self, sketch: Sketch, rows: np.ndarray, scores: np.ndarray, count: int) -> np.ndarray:
        """Valid children of parents drawn by rank."""
        if not len(rows):
            return sketch.sample(count, self._rng)
        order = np.argsort(-scores, kind="stable")
        weights = 1.0 / (np.arange(len(rows)) + 8.0)
        weights /= weights.sum()
        parents = rows[order[self._rng.choice(len(rows), size=count, p=weights)]]
        others = rows[order[self._rng.choice(len(rows), size=count, p=weights)]]
        mutated = sketch.mutate(parents, self._rng)
        crossed = sketch.crossover(parents, others, self._rng)
        use_mutation = self._rng.random(count) < self.genetic_mutate_prob
        children = np.where(use_mutation[:, None], mutated, crossed)
        children = children[sketch.valid(children)]
        return np.unique(children, axis=0) if len(children) else rows[:0]

    def _choose(
        self, pools: Sequence[tuple[np.ndarray, np.ndarray]], wanted: int
    ) -> list[tuple[int, np.ndarray, float]]:
        """The best of all structures, kept apart from each other in decision space, and a few at random."""
        n_random = round(wanted * self.eps_greedy) if self._trials else 0
        entries = [
            (float(score), number, row)
            for number, (rows, scores) in enumerate(pools)
            for row, score in zip(rows[: 8 * wanted], scores[: 8 * wanted], strict=True)
        ]
        entries.sort(key=lambda item: -item[0])
        chosen: list[tuple[int, np.ndarray, float]] = []
        taken: set[tuple[int, bytes]] = set()
        if not self._trials:
            # The prior knows least about how structures compare: measure the best of each first.
            for number, (rows, scores) in enumerate(pools):
                if len(rows) and len(chosen) < wanted:
                    chosen.append((number, rows[0], float(scores[0])))
                    taken.add((number, rows[0].tobytes()))
        for limit in (2, 0):
            for score, number, row in entries:
                if len(chosen) >= wanted - n_random:
                    break
                key = (number, row.tobytes())
                if key in taken or (limit and self._crowded(chosen, number, row)):
                    continue
                chosen.append((number, row, score))
                taken.add(key)
        n_random = wanted - len(chosen)
        for number, row, score in self._random_plausible(pools, n_random):
            if (number, row.tobytes()) not in taken and len(chosen) < wanted:
                chosen.append((number, row, score))
                taken.add((number, row.tobytes()))
        return chosen

    def _crowded(self, chosen: Sequence[tuple[int, np.ndarray, float]], number: int, row: np.ndarray) -> bool:
        """Whether two candidates of the batch differ from this one in a single decision already."""
        near = sum(1 for n, other, _ in chosen if n == number and int((other != row).sum()) <= 1)
        return near >= 2

    def _random_plausible(
        self, pools: Sequence[tuple[np.ndarray, np.ndarray]], count: int
    ) -> list[tuple[int, np.ndarray, float]]:
        picks: list[tuple[int, np.ndarray, float]] = []
        usable = [number for number, (rows, _) in enumerate(pools) if len(rows)]
        for _ in range(4 * count):
            if not usable or len(picks) >= count:
                break
            number = usable[int(self._rng.integers(len(usable)))]
            rows, scores = pools[number]
            position = int(self._rng.integers(max(1, len(rows) // 2)))
            picks.append((number, rows[position], float(scores[position])))
        return picks

    # ---- bookkeeping -------------------------------------------------------------------------------------------

    def _unmeasured_mask(self, number: int, rows: np.ndarray) -> np.ndarray:
        known = self._measured[number]
        return np.array([row.tobytes() not in known for row in rows], dtype=bool)

    def _unmeasured(self, number: int, rows: np.ndarray | None) -> np.ndarray:
        assert rows is not None
        return rows[self._unmeasured_mask(number, rows)] if len(rows) else rows


def _top(rows: np.ndarray, scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    rows, first = np.unique(rows, axis=0, return_index=True)
    return tuple(item[:count] for item in _sorted(rows, scores[first]))  # type: ignore[return-value]


def _sorted(rows: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-scores, kind="stable")
    return rows[order], scores[order]
