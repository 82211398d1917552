"""EvolutionarySearch: evolves whole populations of decision matrices, scored by array features and a learned model.

Every generation scores thousands of candidates in a few array operations per structure; only the few that are to be
measured become programs. Before anything is measured the analytical prior ranks; afterwards the learned model does, which has
the prior's estimate among its features. (Populations and mutation in tile space follow Zheng et al., "Ansor", OSDI 2020, and
Shao et al., "Tensor Program Optimization with Probabilistic Programs", NeurIPS 2022.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cost_models import CostModel, FeatureMatrix, PyCostModel
from database import Database
from schedules.population import Sketch

from ..error import TunerError
from .acquisition import acquisition
from .base import MeasureCandidate, SearchStrategy
from .diversity import spread_out
from .evolution import children, mutants
from .feasibility import chance_of_success
from .records import MeasuredRow, learn
from .schedule_model import SPARE, choose, teach
from .seeding import similar_rows
from .shared import SharedDatabase

_FAR_BEHIND = 1.5
"""A structure whose best time is this many times the best of all is searched in one round out of ``_ROUNDS_BETWEEN``."""
_ROUNDS_BETWEEN = 4
_PARENTS = 32
"""Measured candidates of a structure, the best ones, that a first generation descends from."""
_REFERENCES = 16
"""Measured candidates, the best ones, by which the scale of the model's scores is known."""
_SPREAD = 3.0
"""By how much the spread of a model's members is multiplied. They see the same features and begin from the same estimate, so that they err
together: misses are about ten times the spread. Taken at that, it explores too much; experiments/README.md has the comparison."""
_SUMMITS = 3
"""Measured candidates, the best of all, whose neighbours the descent measures."""
_POOL = 8
"""Candidates of each structure among which a batch is chosen, in batches."""
_KEPT_BYTES = 64 << 20
"""Features of structures that are scored completely are kept as long as all of them take no more than this."""


@dataclass
class _Pool:
    """Candidates of one structure that were not measured yet, best first.

    Attributes:
        rows: int64 [N, n_columns].
        mean: scores that the model expects, float64 [N].
        value: what it is worth to measure each, not negative, float64 [N].
    """

    rows: np.ndarray
    mean: np.ndarray
    value: np.ndarray

    def take(self, places: np.ndarray) -> _Pool:
        """Some of the candidates."""
        return _Pool(self.rows[places], self.mean[places], self.value[places])

    def __len__(self) -> int:
        return len(self.rows)


_Choice = tuple[int, np.ndarray, float]
"""Number of the structure, decisions, expected score."""


@SearchStrategy.kinds.register("evolutionary")
class EvolutionarySearch(SearchStrategy):
    """Evolutionary search over populations.

    Args:
        population_size: candidates per generation, all structures together.
        init_measured_ratio: share of a first generation that descends from the best measured candidates.
        genetic_num_iters: generations between two batches.
        genetic_mutate_prob: share of children made by mutation; the others by crossover.
        eps_greedy: share of a batch taken at random among what the model finds plausible; a part of a candidate counts as a chance of one.
        exhaustive_limit: structures with at most this many candidates are scored completely.
        acquisition: what candidates are chosen by: "expected-improvement", "upper-confidence" (both ask the model how certain it is), or
            "mean", the expected score alone.
        diversity: radius in decision space within which a batch avoids the neighbours of its own candidates; 0 lets it be as dense as
            the model likes.
        learn_failures: avoid the neighbourhood of candidates that failed.
        seed_share: share of the first batch taken from the best of similar workloads in the database; 0 for none.
        descent_share: share of the budget that goes, at its end, to neighbours of the best measured candidates.

    Raises:
        TunerError: there is no such acquisition function, or a share is not between 0 and 1.
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
        acquisition: str = "expected-improvement",
        diversity: float = 0.5,
        learn_failures: bool = True,
        seed_share: float = 0.25,
        descent_share: float = 0.15,
    ) -> None:
        shares = {"eps_greedy": eps_greedy, "seed_share": seed_share, "descent_share": descent_share}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise TunerError(f"{name} is a share between 0 and 1, got {share}")
        self.population_size = population_size
        self.init_measured_ratio = init_measured_ratio
        self.genetic_num_iters = genetic_num_iters
        self.genetic_mutate_prob = genetic_mutate_prob
        self.eps_greedy = eps_greedy
        self.exhaustive_limit = exhaustive_limit
        self.acquisition = acquisition
        self._acquisition = _acquisition_of(acquisition)
        self.diversity = diversity
        self.learn_failures = learn_failures
        self.seed_share = seed_share
        self.descent_share = descent_share
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
        """Seconds of each measured row, infinite for failures."""
        self._complete = [sketch.all_rows(self.exhaustive_limit) for sketch in self._sketches]
        self._places = [
            {} if rows is None else {row.tobytes(): place for place, row in enumerate(rows)}
            for rows in self._complete
        ]
        """Where each row of a structure that is scored completely is."""
        self._kept: dict[int, FeatureMatrix] = {}
        """Features of all rows of a structure that is scored completely."""
        self._is_full = False
        self._survivors: list[np.ndarray | None] = [None] * len(self._sketches)
        """The last generation of each structure: the model has learned since, and ranks it anew."""
        self._seeds: list[tuple[int, np.ndarray]] = []
        self._claimed: list[set[bytes]] = [set() for _ in self._sketches]
        """Rows that another tuner was measuring when this one wanted to."""
        self._shared = None if database is None else SharedDatabase(database, self.context, self._sketches)
        self._take_over_news()
        if database is not None and self._shared is not None and self.seed_share > 0:
            if not any(self._measured):
                self._seeds = similar_rows(
                    database, self._shared.workload, self.context.target, self._sketches
                )

    def post_tuning(self) -> None:
        if self._shared is not None:
            self._shared.release()

    def _take_over_news(self) -> None:
        """Take over what earlier sessions and other tuners have measured for this workload and target."""
        if self._shared is None:
            return
        rows = [
            (number, row, secs)
            for number, row, secs in self._shared.news()
            if row.tobytes() not in self._measured[number]
        ]
        for number, row, secs in rows:
            self._remember(number, row, secs)
        self._train(rows)

    def _remember(self, number: int, row: np.ndarray, secs: float) -> None:
        key = row.tobytes()
        self._measured[number][key] = min(secs, self._measured[number].get(key, float("inf")))

    def _train(self, rows: Sequence[MeasuredRow]) -> None:
        learn(self._cost_model, self._sketches, rows, self.context, str(self.context.workload_hash()))

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[float | None]
    ) -> None:
        rows: list[MeasuredRow] = []
        for candidate, secs in zip(measure_candidates, results, strict=True):
            number = self._number_of(candidate.sketch)
            rows.append((number, candidate.row, float("inf") if secs is None else secs))
            self._remember(*rows[-1])
        self._train(rows)
        if isinstance(self._cost_model, PyCostModel):
            teach(self._cost_model, self.context, measure_candidates, results)

    # ---- scoring -----------------------------------------------------------------------------------------------

    def _features(self, number: int, matrix: np.ndarray) -> FeatureMatrix:
        self.candidates_scored += len(matrix)
        return self.context.features(self._sketches[number], matrix)

    def _keep_features(self, number: int, everything: np.ndarray) -> None:
        """Compute the features of a structure that is scored completely once and for all, if there is room for them."""
        features = self._features(number, everything)
        taken = sum(item.values.nbytes for item in self._kept.values())
        if taken + features.values.nbytes <= _KEPT_BYTES:
            self._kept[number] = features
        else:
            self._is_full = True

    def _features_of(self, number: int, rows: np.ndarray) -> FeatureMatrix:
        """Features of rows of a structure."""
        if number in self._kept:
            places = [self._places[number].get(row.tobytes(), -1) for row in rows]
            if -1 not in places:  # records may hold candidates that today's constraints forbid
                return self._kept[number].take(places)
        return self._features(number, rows)

    def _judged(self, number: int, rows: np.ndarray, features: FeatureMatrix) -> _Pool:
        """Rows of one structure with what the model expects of them and what it is worth to measure each, best first."""
        mean, deviation = self._cost_model.predict_with_uncertainty(features)
        value = self._acquisition(mean, _SPREAD * deviation, self._best_score)
        value = value * self._chances(number, rows)
        order = np.lexsort((-mean, -value))
        return _Pool(rows[order], mean[order], value[order])

    def _chances(self, number: int, rows: np.ndarray) -> np.ndarray:
        """How likely each row is to run."""
        known = self._measured[number]
        failed = np.array([not np.isfinite(secs) for secs in known.values()], dtype=bool)
        if not self.learn_failures or not failed.any() or not self._sketches[number].n_columns:
            return np.ones(len(rows))
        sketch = self._sketches[number]
        tried = np.stack([np.frombuffer(key, dtype=np.int64) for key in known])
        return chance_of_success(sketch.coordinates(rows), sketch.coordinates(tried), failed)

    def _reference_score(self) -> float:
        """The score that the model would give to the best time, by those that it gives to the best measured candidates."""
        ran = [
            (secs, number, key)
            for number, measured in enumerate(self._measured)
            for key, secs in measured.items()
            if np.isfinite(secs)
        ]
        if not ran or self.acquisition != "expected-improvement":
            return 0.0
        references = sorted(ran)[:_REFERENCES]
        offsets, weights = [], []
        for number in {item[1] for item in references}:
            own = [item for item in references if item[1] == number]
            rows = np.stack([np.frombuffer(key, dtype=np.int64) for _, _, key in own])
            scores = self._cost_model.predict_arrays(self._features_of(number, rows))
            gains = np.log(references[0][0] / np.array([secs for secs, _, _ in own]))
            offsets.append(scores - gains)
            weights.append(np.exp(gains))
        return float(np.average(np.concatenate(offsets), weights=np.concatenate(weights)))

    # ---- proposing ---------------------------------------------------------------------------------------------

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        wanted = min(self._batch, self._max_trials - self._trials)
        if wanted <= 0:
            return None
        spare = SPARE if isinstance(self._cost_model, PyCostModel) else 1
        self._take_over_news()
        self._best_score = self._reference_score()
        candidates: list[MeasureCandidate] = []
        while len(candidates) < wanted:
            left = wanted - len(candidates)
            chosen = self._propose(left * spare)
            if not chosen:
                break
            proposed = [
                MeasureCandidate(self._sketches[number], row, float(score)) for number, row, score in chosen
            ]
            if isinstance(self._cost_model, PyCostModel):
                proposed = choose(self._cost_model, self.context, proposed, left)
            granted = self._claim(proposed)
            candidates += granted
            if len(granted) == len(proposed):
                break
        self._rounds += 1
        self._trials += len(candidates)
        return candidates or None

    def _claim(self, candidates: list[MeasureCandidate]) -> list[MeasureCandidate]:
        """Those of the candidates that no other tuner on this database is measuring; the others are not proposed again."""
        if self._shared is None:
            return candidates
        places = [(self._number_of(candidate.sketch), candidate.row) for candidate in candidates]
        granted = self._shared.claim(places)
        # Also what is granted: a batch that is made up in parts must not propose it twice.
        for number, row in places:
            self._claimed[number].add(row.tobytes())
        return [candidate for candidate, own in zip(candidates, granted, strict=True) if own]

    def _number_of(self, sketch: Sketch) -> int:
        return next(number for number, own in enumerate(self._sketches) if own is sketch)

    def _propose(self, wanted: int) -> list[_Choice]:
        everywhere = range(len(self._sketches))
        n_near = self._descent_count(wanted)
        near = self._choose(self._neighbourhoods(), n_near, 0) if n_near else []
        wanted -= len(near)
        if not wanted:
            return near
        searched = [number for number in everywhere if self._is_promising(number)]
        n_random = self._random_count(wanted)
        chosen = self._choose({number: self._pool(number) for number in searched}, wanted, n_random, near)
        if len(chosen) < wanted and len(searched) < len(self._sketches):
            pools = {number: self._pool(number) for number in everywhere}
            chosen = self._choose(pools, wanted, n_random, near)
        return chosen + near

    def _is_promising(self, number: int) -> bool:
        """Whether to search a structure in this round: now and then only, if all that was measured of it is far behind."""
        own = min(self._measured[number].values(), default=0.0)
        best = min((secs for measured in self._measured for secs in measured.values()), default=0.0)
        return own <= _FAR_BEHIND * best or self._rounds % _ROUNDS_BETWEEN == 0

    def _pool(self, number: int) -> _Pool:
        """One structure's candidates that were not measured yet, best first."""
        everything = self._complete[number]
        if everything is not None:
            if number not in self._kept and not self._is_full:
                self._keep_features(number, everything)
            return self._scored(number, everything[self._unmeasured(number, everything)])
        # A small batch asks for little: its search costs in proportion, and goes on from where the last one ended.
        effort = min(1.0, self._batch / 16)
        share = max(64, int(self.population_size * effort) // max(1, len(self._sketches)))
        pool = self._scored(number, self._first_generation(number, share))
        for _ in range(max(1, round(self.genetic_num_iters * effort))):
            young = children(
                self._sketches[number], pool.rows, pool.value, share, self.genetic_mutate_prob, self._rng
            )
            pool = _best_of(pool, self._scored(number, young), share)
        self._survivors[number] = pool.rows
        kept = self._unmeasured(number, pool.rows)
        return pool.take(kept)

    def _scored(self, number: int, rows: np.ndarray) -> _Pool:
        if not len(rows):
            return _Pool(rows, np.empty(0), np.empty(0))
        return self._judged(number, rows, self._features_of(number, rows))

    def _first_generation(self, number: int, share: int) -> np.ndarray:
        sketch = self._sketches[number]
        left = self._survivors[number]
        fresh = [sketch.sample(share if left is None else share // 4, self._rng)]
        if left is not None:
            fresh.append(left)
        parents = self._best_rows(number, _PARENTS)
        if len(parents):
            fresh.append(mutants(sketch, parents, int(share * self.init_measured_ratio), self._rng))
        fresh += [row[None] for own, row in self._seeds if own == number]
        return np.unique(np.concatenate(fresh), axis=0)

    def _best_rows(self, number: int, count: int) -> np.ndarray:
        """The fastest measured rows of a structure: int64 [up to count, n_columns]."""
        ran = [(secs, key) for key, secs in self._measured[number].items() if np.isfinite(secs)]
        rows = [np.frombuffer(key, dtype=np.int64) for _, key in sorted(ran)[:count]]
        return np.stack(rows) if rows else np.empty((0, self._sketches[number].n_columns), dtype=np.int64)

    # ---- descent -----------------------------------------------------------------------------------------------

    def _descent_count(self, wanted: int) -> int:
        """How many of the next trials belong to the descent at the end of the budget; none before anything was measured."""
        left = self._max_trials - self._trials - wanted
        count = round(self.descent_share * self._max_trials - left) if self._trials else 0
        return min(max(count, 0), wanted)

    def _neighbourhoods(self) -> dict[int, _Pool]:
        """Unmeasured neighbours of the best measured candidates."""
        ran = sorted(
            (secs, number, key)
            for number, measured in enumerate(self._measured)
            for key, secs in measured.items()
            if np.isfinite(secs)
        )
        found: dict[int, list[np.ndarray]] = {}
        for _, number, key in ran[:_SUMMITS]:
            near = self._sketches[number].neighbours(np.frombuffer(key, dtype=np.int64))
            found.setdefault(number, []).append(near[self._unmeasured(number, near)])
        rows = {number: np.unique(np.concatenate(items), axis=0) for number, items in found.items()}
        return {number: self._scored(number, own) for number, own in rows.items() if len(own)}

    # ---- the batch ---------------------------------------------------------------------------------------------

    def _random_count(self, wanted: int) -> int:
        """How many of a batch are taken at random; none of the first, which has nothing to doubt yet."""
        share = wanted * self.eps_greedy if self._trials else 0.0
        return int(share) + int(self._rng.random() < share - int(share))

    def _choose(
        self, pools: dict[int, _Pool], wanted: int, n_random: int, others: Sequence[_Choice] = ()
    ) -> list[_Choice]:
        """The best of all structures, kept apart from each other in decision space, and some at random; none of ``others``."""
        chosen = self._first_of_all(pools, wanted)
        taken = {(number, row.tobytes()) for number, row, _ in [*chosen, *others]}
        for choice in self._spread(pools, wanted):
            if len(chosen) >= wanted - n_random:
                break
            if (choice[0], choice[1].tobytes()) not in taken:
                taken.add((choice[0], choice[1].tobytes()))
                chosen.append(choice)
        for choice in self._random_plausible(pools, wanted - len(chosen)):
            if (choice[0], choice[1].tobytes()) not in taken and len(chosen) < wanted:
                taken.add((choice[0], choice[1].tobytes()))
                chosen.append(choice)
        return chosen

    def _first_of_all(self, pools: dict[int, _Pool], wanted: int) -> list[_Choice]:
        """What nobody has to ask the model for: adapted candidates of similar workloads in the first batch, and the best of each
        structure of which nothing was measured, since the prior knows least about how structures compare."""
        if self._trials:
            return []
        seeds = [
            (number, row, 0.0)
            for number, row in self._seeds
            if number in pools and self._unmeasured(number, row[None])[0]
        ]
        chosen: list[_Choice] = seeds[: round(self.seed_share * wanted)]
        for number, pool in pools.items():
            if len(pool) and len(chosen) < wanted and not any(own == number for own, _, _ in chosen):
                chosen.append((number, pool.rows[0], float(pool.mean[0])))
        return chosen

    def _spread(self, pools: dict[int, _Pool], wanted: int) -> list[_Choice]:
        """The most valuable candidates, each far from those before it."""
        tops = [(number, pool) for number, pool in pools.items() if len(pool)]
        if not tops:
            return []
        first = _POOL * wanted
        values = np.concatenate([pool.value[:first] for _, pool in tops])
        groups = np.concatenate([np.full(len(pool.value[:first]), number) for number, pool in tops])
        parts = [self._sketches[number].coordinates(pool.rows[:first]) for number, pool in tops]
        width = max(part.shape[1] for part in parts)
        places = np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])
        entries = [
            (number, row, float(mean))
            for number, pool in tops
            for row, mean in zip(pool.rows[:first], pool.mean[:first], strict=True)
        ]
        return [
            entries[position] for position in spread_out(values, places, groups, 2 * wanted, self.diversity)
        ]

    def _random_plausible(self, pools: dict[int, _Pool], count: int) -> list[_Choice]:
        picks: list[_Choice] = []
        usable = [number for number, pool in pools.items() if len(pool)]
        for _ in range(4 * count):
            if not usable:
                break
            number = usable[int(self._rng.integers(len(usable)))]
            pool = pools[number]
            position = int(self._rng.integers(max(1, len(pool) // 2)))
            picks.append((number, pool.rows[position], float(pool.mean[position])))
        return picks

    # ---- bookkeeping -------------------------------------------------------------------------------------------

    def _unmeasured(self, number: int, rows: np.ndarray) -> np.ndarray:
        known, claimed = self._measured[number], self._claimed[number]
        keys = [row.tobytes() for row in rows]
        return np.array([key not in known and key not in claimed for key in keys], dtype=bool)


def _best_of(first: _Pool, second: _Pool, count: int) -> _Pool:
    """The best distinct candidates of two generations."""
    both = _Pool(
        np.concatenate([first.rows, second.rows]),
        np.concatenate([first.mean, second.mean]),
        np.concatenate([first.value, second.value]),
    )
    distinct = both.take(np.unique(both.rows, axis=0, return_index=True)[1])
    return distinct.take(np.lexsort((-distinct.mean, -distinct.value))[:count])


_acquisition_of = acquisition
"""The constructor has a parameter of this name."""
