"""EvolutionarySearch: evolves whole populations of decision matrices, scored by array features and a learned model.

Every generation scores thousands of candidates in a few array operations per structure; only the few that are to be
measured become programs. Before anything is measured the estimate ranks; afterwards the learned model does, which has
the estimate among its features. (Populations and mutation in tile space follow Zheng et al., "Ansor", OSDI 2020, and
Shao et al., "Tensor Program Optimization with Probabilistic Programs", NeurIPS 2022.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from cost_models import CostModel, CostModelError, FeatureMatrix, PyCostModel
from database import Database
from schedules.population import Sketch

from ..error import TunerError
from .acquisition import acquisition
from .arm import Arm
from .base import NEW_STRUCTURES, MeasureCandidate, SearchStrategy
from .diversity import spread_out
from .evolution import children, mutants
from .feasibility import chance_of_success
from .records import MeasuredRow, learn
from .schedule_model import SPARE, checked_scores, choose, teach
from .seeding import similar_rows
from .shared import SharedDatabase

SCORED_AT_ONCE = 8192
"""Candidates whose features are in memory together: the more, the less each takes, until they leave the caches; 100,000 would take GiBs."""
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
_MOST_LOGARITHM = 10.0
"""Of an expected time over the best one; what is beyond says that the model's scores are no times."""
_SUMMITS = 3
"""Measured candidates, the best of all, whose neighbours the descent measures."""
_POOL = 8
"""Candidates of each structure among which a batch is chosen, in batches."""
_KEPT_BYTES = 64 << 20
"""Features of structures that are scored completely are kept as long as all of them take no more than this."""
_FEWEST_ROWS = 64
"""Candidates of a structure in a generation."""
_SEARCHED = 12
"""Structures that are searched in a round, at most, beside one that is drawn from the others."""
_LEADS = 1.1
"""Structures whose best times are within this factor of the best take up to half of those places before what promises more."""
_FEWEST_STRUCTURES = 3
"""So many structures, or as many as a quarter of the first batch, are tried in it, each by its best candidate."""


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
        population_size: candidates per generation, all structures together; of each that is searched at least 64.
        init_measured_ratio: share of a first generation that descends from the best measured candidates.
        genetic_num_iters: generations between two batches behind the first, whose candidates are drawn; 0 for none.
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
        from_default: measure the schedule of builds without records first, where the design space has it: no search ends with less.

    Raises:
        TunerError: there is no such acquisition function, a share is not between 0 and 1, a number is negative, or a switch is none.
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
        diversity: float = 0.25,
        learn_failures: bool = True,
        seed_share: float = 0.25,
        descent_share: float = 0.15,
        from_default: bool = True,
    ) -> None:
        shares: dict[str, Any] = {
            "init_measured_ratio": init_measured_ratio,
            "genetic_mutate_prob": genetic_mutate_prob,
            "eps_greedy": eps_greedy,
            "seed_share": seed_share,
            "descent_share": descent_share,
        }
        for name, share in shares.items():
            if not isinstance(share, Real) or not 0 <= float(share) <= 1:
                raise TunerError(f"{name} is a share between 0 and 1, got {share!r}")
        counts = {
            "population_size": (population_size, 1),
            "genetic_num_iters": (genetic_num_iters, 0),
            "exhaustive_limit": (exhaustive_limit, 0),
        }
        for name, (count, least) in counts.items():
            if not isinstance(count, Integral) or count < least:
                raise TunerError(f"{name} is a whole number of at least {least}, got {count!r}")
        radius: Any = diversity
        if not isinstance(radius, Real) or not 0 <= float(radius) < math.inf:
            raise TunerError(f"diversity is a radius of at least 0, in doublings, got {diversity!r}")
        for name, switch in {"learn_failures": learn_failures, "from_default": from_default}.items():
            if not isinstance(switch, bool | np.bool_):
                raise TunerError(f"{name} is True or False, got {switch!r}")
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
        self.from_default = from_default
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
        self._max_trials, self._batch = max_trials, num_trials_per_iter
        self._structures = self.context.structures_of(design_spaces)
        self._cost_model = cost_model
        self._rng = np.random.default_rng(self.context.generator.integers(1 << 31))
        self._trials = self._rounds = 0
        self._arms: list[Arm] = []
        self._room = _KEPT_BYTES
        """Bytes left for features of structures that are scored completely."""
        self._seeds: list[tuple[int, np.ndarray]] = []
        self._default_place: tuple[int, bytes] | None = None
        """The structure and the decisions of the default, once it was proposed."""
        self._meet_structures()
        self._shared = None if database is None else SharedDatabase(database, self.context, self._structures)
        self._take_over_news()
        if database is not None and self._shared is not None and self.seed_share > 0:
            if not any(arm.measured for arm in self._arms):
                self._seeds = similar_rows(
                    database, self._shared.workload, self.context.target, self._structures.known
                )

    def _meet_structures(self) -> None:
        """Structures become known in the course of a search."""
        for number in range(len(self._arms), len(self._structures.known)):
            sketch = self._structures.known[number]
            mutators = self.context.generator_of(sketch).mutator_probs
            self._arms.append(Arm(number, sketch, self.exhaustive_limit, self._features, mutators))

    def post_tuning(self) -> None:
        if self._shared is not None:
            self._shared.release()

    def _take_over_news(self) -> None:
        """Take over what was measured for this workload and target: by earlier sessions, by other tuners, and of own candidates again."""
        if self._shared is None:
            return
        news = self._shared.news()
        self._meet_structures()
        rows = [item for item in news if item.again or not self._arms[item.number].knows(item.row)]
        for item in rows:
            self._arms[item.number].remember(item.row, item.secs, again=item.again)
        self._train(rows)

    def _train(self, rows: Sequence[MeasuredRow]) -> None:
        learn(self._cost_model, self._structures.known, rows, self.context, str(self.context.workload_hash()))

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[float | None]
    ) -> None:
        rows: list[MeasuredRow] = []
        for candidate, secs in zip(measure_candidates, results, strict=True):
            number = self._number_of(candidate.sketch)
            found = float("inf") if secs is None else secs
            rows.append(MeasuredRow(number, candidate.row, found, candidate.noise))
            self._arms[number].remember(candidate.row, found)
        self._train(rows)
        if isinstance(self._cost_model, PyCostModel):
            teach(self._cost_model, self.context, measure_candidates, results)

    # ---- scoring -----------------------------------------------------------------------------------------------

    def _features(self, sketch: Sketch, matrix: np.ndarray) -> FeatureMatrix:
        self.candidates_scored += len(matrix)
        return self.context.features(sketch, matrix)

    def _judged(self, arm: Arm, rows: np.ndarray) -> _Pool:
        """Rows of one structure with what the model expects of them and what it is worth to measure each, best first."""
        if not len(rows):
            return _Pool(rows, np.empty(0), np.empty(0))
        starts = range(0, len(rows), SCORED_AT_ONCE)
        parts = [self._values(arm.features(rows[start : start + SCORED_AT_ONCE])) for start in starts]
        mean, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        value = value * self._chances(arm, rows)
        order = np.lexsort((-mean, -value))
        return _Pool(rows[order], mean[order], value[order])

    def _values(self, features: FeatureMatrix) -> tuple[np.ndarray, np.ndarray]:
        """What the model expects of candidates, and what it is worth to measure each, float64 [N]."""
        answer = self._cost_model.predict_with_uncertainty(features)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise CostModelError(
                f"{type(self._cost_model).__name__}.predict_with_uncertainty gives scores and their deviations, a tuple of two arrays;"
                f" it gave {type(answer).__name__}"
            )
        mean, deviation = (
            checked_scores(self._cost_model, item, len(features), "predict_with_uncertainty")
            for item in answer
        )
        deviation = np.maximum(deviation, 0.0)
        return mean, self._acquisition(mean, _SPREAD * deviation, self._best_score)

    def _chances(self, arm: Arm, rows: np.ndarray) -> np.ndarray:
        """How likely each row is to run."""
        failed = np.array([not np.isfinite(secs) for secs in arm.measured.values()], dtype=bool)
        if not self.learn_failures or not failed.any() or not arm.sketch.n_columns:
            return np.ones(len(rows))
        tried = np.stack([np.frombuffer(key, dtype=np.int64) for key in arm.measured])
        return chance_of_success(arm.sketch.coordinates(rows), arm.sketch.coordinates(tried), failed)

    def _fastest(self, count: int) -> list[tuple[float, int, bytes]]:
        """The fastest candidates so far: seconds, number of the structure, decisions."""
        ran = [
            (secs, arm.number, key)
            for arm in self._arms
            for key, secs in arm.measured.items()
            if np.isfinite(secs)
        ]
        return sorted(ran)[:count]

    def _reference_score(self) -> float:
        """The score that the model would give to the best time, by those that it gives to the best measured candidates."""
        references = self._fastest(_REFERENCES)
        if not references or self.acquisition != "expected-improvement":
            return 0.0
        offsets, weights = [], []
        for number in {item[1] for item in references}:
            own = [item for item in references if item[1] == number]
            rows = np.stack([np.frombuffer(key, dtype=np.int64) for _, _, key in own])
            answer = self._cost_model.predict_arrays(self._arms[number].features(rows))
            scores = checked_scores(self._cost_model, answer, len(rows), "predict_arrays")
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
        self._look_for_structures(wanted)
        candidates: list[MeasureCandidate] = []
        while len(candidates) < wanted:
            left = wanted - len(candidates)
            chosen = self._propose(left * spare)
            if not chosen:
                break
            proposed = [
                MeasureCandidate(self._arms[number].sketch, row, float(score))
                for number, row, score in chosen
            ]
            if isinstance(self._cost_model, PyCostModel):
                sure = int(self._is_default(proposed[0]))
                proposed = choose(self._cost_model, self.context, proposed, left, sure)
            granted = self._claim(proposed)
            candidates += granted
            if len(granted) == len(proposed):
                break
        self._rounds += 1
        self._trials += len(candidates)
        for candidate in candidates:
            candidate.expected_secs = self._expected_secs(candidate.score)
        return candidates or None

    def _expected_secs(self, score: float) -> float | None:
        """The seconds that a score stands for: scores are logarithms of speeds, whose scale the measured candidates give."""
        best = self._best_secs()
        has_scale = self.acquisition == "expected-improvement" and not isinstance(
            self._cost_model, PyCostModel
        )
        if not has_scale or not np.isfinite(best):
            return None
        return float(best * np.exp(np.clip(self._best_score - score, -_MOST_LOGARITHM, _MOST_LOGARITHM)))

    def _claim(self, candidates: list[MeasureCandidate]) -> list[MeasureCandidate]:
        """Those of the candidates that no other tuner on this database is measuring; the others are not proposed again."""
        if self._shared is None:
            return candidates
        places = [(self._number_of(candidate.sketch), candidate.row) for candidate in candidates]
        granted = self._shared.claim(places)
        # Also what is granted: a batch that is made up in parts must not propose it twice.
        for number, row in places:
            self._arms[number].claimed.add(row.tobytes())
        return [candidate for candidate, own in zip(candidates, granted, strict=True) if own]

    def _number_of(self, sketch: Sketch) -> int:
        return next(arm.number for arm in self._arms if arm.sketch is sketch)

    def _propose(self, wanted: int) -> list[_Choice]:
        n_near = self._descent_count(wanted)
        near = self._choose(self._neighbourhoods(), n_near, 0) if n_near else []
        wanted -= len(near)
        if not wanted:
            return near
        searched = self._searched()
        n_random = self._random_count(wanted)
        chosen = self._choose({arm.number: self._pool(arm) for arm in searched}, wanted, n_random, near)
        if len(chosen) < wanted and len(searched) < len(self._arms):
            chosen = self._choose({arm.number: self._pool(arm) for arm in self._arms}, wanted, n_random, near)
        return chosen + near

    # ---- structures --------------------------------------------------------------------------------------------

    def _look_for_structures(self, wanted: int) -> None:
        """Make some more structures known: one half near the best so far, the other anywhere."""
        if self._structures.is_complete:
            return
        scarce = sum(arm.left() for arm in self._arms) < _POOL * wanted
        count = wanted if scarce else max(1, round(NEW_STRUCTURES * wanted))
        goal = len(self._structures.known) + count
        for _, number, _ in self._fastest(1):
            self._structures.grow(count - count // 2, self._rng, self._arms[number].sketch)
        self._structures.grow(goal - len(self._structures.known), self._rng)
        self._meet_structures()

    def _searched(self) -> list[Arm]:
        """The structures to search in this round: those that promise most, and one of the others."""
        promising = [arm for arm in self._arms if self._is_promising(arm)]
        # What has one candidate costs nothing to search.
        large = [arm for arm in promising if arm.left() > 1]
        if len(large) <= _SEARCHED:
            return promising
        probes = [arm.probe(self._rng) for arm in large]
        judged = [
            self._values(probe) if len(probe) else (np.array([-np.inf]), np.array([-1.0])) for probe in probes
        ]
        means, values = ([-item[part].max() for item in judged] for part in (0, 1))
        order = [large[place] for place in np.lexsort((means, values))]
        leaders = [arm for arm in order if arm.measured and arm.best_secs <= _LEADS * self._best_secs()]
        chosen = list(dict.fromkeys([*leaders[: _SEARCHED // 2], *order]))[:_SEARCHED]
        others = order[_SEARCHED:]
        chosen.append(others[int(self._rng.integers(len(others)))])
        return [*chosen, *(arm for arm in promising if arm.left() <= 1)]

    def _best_secs(self) -> float:
        return min((arm.best_secs for arm in self._arms), default=float("inf"))

    def _is_promising(self, arm: Arm) -> bool:
        """Whether to search a structure in this round: now and then only, if all that was measured of it is far behind."""
        if not arm.measured:
            return True
        return arm.best_secs <= _FAR_BEHIND * self._best_secs() or self._rounds % _ROUNDS_BETWEEN == 0

    def _pool(self, arm: Arm) -> _Pool:
        """One structure's candidates that were not measured yet, best first."""
        everything = arm.everything
        if everything is not None:
            if arm.kept is None and self._room > 0:
                taken = arm.keep_features(self._room)
                self._room = self._room - taken if taken else 0
            return self._judged(arm, everything[arm.unmeasured(everything)])
        # A small batch asks for little: its search costs in proportion, and goes on from where the last one ended.
        effort = min(1.0, self._batch / 16)
        share = int(self.population_size * effort) // max(1, min(len(self._arms), _SEARCHED))
        share = max(_FEWEST_ROWS, share)
        pool = self._judged(arm, self._first_generation(arm, share))
        for _ in range(min(self.genetic_num_iters, max(1, round(self.genetic_num_iters * effort)))):
            young = children(
                arm.sketch, pool.rows, pool.value, share, self.genetic_mutate_prob, self._rng, arm.mutators
            )
            pool = _best_of(pool, self._judged(arm, young), share)
        arm.survivors = pool.rows
        return pool.take(arm.unmeasured(pool.rows))

    def _first_generation(self, arm: Arm, share: int) -> np.ndarray:
        left = arm.survivors
        fresh = [arm.sketch.sample(share if left is None else share // 4, self._rng)]
        if left is not None:
            fresh.append(left)
        parents = arm.fastest(_PARENTS)
        if len(parents):
            count = int(share * self.init_measured_ratio)
            fresh.append(mutants(arm.sketch, parents, count, self._rng, arm.mutators))
        fresh += [row[None] for own, row in self._seeds if own == arm.number]
        return np.unique(np.concatenate(fresh), axis=0)

    # ---- descent -----------------------------------------------------------------------------------------------

    def _descent_count(self, wanted: int) -> int:
        """How many of the next trials belong to the descent at the end of the budget; none before anything was measured."""
        left = self._max_trials - self._trials - wanted
        count = round(self.descent_share * self._max_trials - left) if self._trials else 0
        return min(max(count, 0), wanted)

    def _neighbourhoods(self) -> dict[int, _Pool]:
        """Unmeasured neighbours of the best measured candidates."""
        found: dict[int, list[np.ndarray]] = {}
        for _, number, key in self._fastest(_SUMMITS):
            arm = self._arms[number]
            near = arm.sketch.neighbours(np.frombuffer(key, dtype=np.int64))
            found.setdefault(number, []).append(near[arm.unmeasured(near)])
        rows = {number: np.unique(np.concatenate(items), axis=0) for number, items in found.items()}
        return {number: self._judged(self._arms[number], own) for number, own in rows.items() if len(own)}

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
        """What nobody has to ask the model for: in the first batch the default, adapted candidates of similar workloads, and the best of
        each of some structures of which nothing was measured, since the estimate knows least about how structures compare."""
        if self._trials:
            return []
        chosen = self._default()
        seeds = [
            (number, row, 0.0)
            for number, row in self._seeds
            if number in pools
            and self._arms[number].unmeasured(row[None])[0]
            and not any(own == number and (other == row).all() for own, other, _ in chosen)
        ]
        chosen = [*chosen, *seeds[: round(self.seed_share * wanted)]][:wanted]
        room = min(wanted, len(chosen) + max(_FEWEST_STRUCTURES, wanted // 4))
        for number, pool in sorted(pools.items(), key=lambda item: -max(item[1].value, default=0.0)):
            if len(pool) and len(chosen) < room and not any(own == number for own, _, _ in chosen):
                chosen.append((number, pool.rows[0], float(pool.mean[0])))
        return chosen

    def _default(self) -> list[_Choice]:
        """The schedule of builds without records, unless it was measured before."""
        found = self.context.default_in(self._structures) if self.from_default else None
        self._meet_structures()
        if found is None:
            return []
        number, row = found
        arm = self._arms[number]
        if not (arm.sketch.valid(row[None])[0] and arm.unmeasured(row[None])[0]):
            return []
        mean, _ = self._values(arm.features(row[None]))
        self._default_place = number, row.tobytes()
        return [(number, row, float(mean[0]))]

    def _is_default(self, candidate: MeasureCandidate) -> bool:
        """Whether a candidate is the default: proposed before all others, it is measured whatever the model says of it."""
        return (self._number_of(candidate.sketch), candidate.row.tobytes()) == self._default_place

    def _spread(self, pools: dict[int, _Pool], wanted: int) -> list[_Choice]:
        """The most valuable candidates, each far from those before it."""
        tops = [(number, pool) for number, pool in pools.items() if len(pool)]
        if not tops:
            return []
        first = _POOL * wanted
        values = np.concatenate([pool.value[:first] for _, pool in tops])
        groups = np.concatenate([np.full(len(pool.value[:first]), number) for number, pool in tops])
        parts = [self._arms[number].sketch.coordinates(pool.rows[:first]) for number, pool in tops]
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
