"""OptunaSearch: Optuna's samplers (TPE, CMA-ES, GP, NSGA-II, random) propose the decisions, for one objective or for several.

Optuna is asked for trials and told their results (its ask-and-tell interface), so that here, too, a strategy never runs
anything. A proposal that breaks the sketch's constraints, or that somebody has measured or is measuring, is replaced by a near row of
which neither is true.

* Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD 2019
* TPE: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011
* CMA-ES: Hansen and Ostermeier, "Completely Derandomized Self-Adaptation in Evolution Strategies", 2001
* NSGA-II: Deb et al., "A Fast and Elitist Multiobjective Genetic Algorithm", 2002
* UCB1: Auer et al., "Finite-time Analysis of the Multiarmed Bandit Problem", 2002
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from cost_models import CostModel
from database import Database, standing
from database.pareto import checked_objectives, domination_counts, objective_values
from ir.error import did_you_mean
from schedules.population import Sketch

from ..error import TunerError
from .base import NEW_STRUCTURES, MeasureCandidate, SearchStrategy
from .nearest_row import nearest_new_row
from .optuna_space import Encoding, StructureSpace, import_optuna, quiet
from .records import explained
from .shared import SharedDatabase

MEASURED = "measured"
"""The user attribute of a trial that keeps its parameters although another row was measured: the parameters of that row."""
_VIOLATION = "violated constraints of the sketch"
_BEST_SHARE = 0.25
"""A measurement among the best quarter of all is a success of its study."""


@dataclass(frozen=True)
class _Sampler:
    """What the strategy must know of one of Optuna's samplers."""

    make: Callable[[int, int, Mapping[str, Any]], Any]
    """From seed, trials in all, and options."""
    encoding: Encoding
    conditional: bool
    """Whether one study may hold structures with different parameters."""
    constrained: bool = False
    """Whether it learns from infeasible trials that have no value of the objectives."""
    proposals: int = 1
    """So many in a row may break constraints before the last one is replaced by a near row that keeps them."""
    keeps_proposals: bool = False
    """Whether a trial keeps the parameters that were proposed where a near row is measured in their place."""
    several_objectives: bool = True
    needs: tuple[str, ...] = ()
    """Packages beside Optuna, which imports them when it first uses them."""
    logarithms: bool = False
    """Whether it models the values, and not only their order: then it is told their logarithms."""


def _tpe(seed: int, max_trials: int, options: Mapping[str, Any]) -> Any:
    chosen = {"multivariate": True, "group": True, "constant_liar": True, **options}
    return import_optuna().samplers.TPESampler(seed=seed, **chosen)


def _cmaes(seed: int, max_trials: int, options: Mapping[str, Any]) -> Any:
    chosen = {"warn_independent_sampling": False, **options}
    return import_optuna().samplers.CmaEsSampler(seed=seed, **chosen)


def _gp(seed: int, max_trials: int, options: Mapping[str, Any]) -> Any:
    chosen = {"warn_independent_sampling": False, **options}
    return import_optuna().samplers.GPSampler(seed=seed, **chosen)


def _nsga2(seed: int, max_trials: int, options: Mapping[str, Any]) -> Any:
    # A search has tens to hundreds of trials: with the usual 50 per generation the first would take all of them.
    chosen = {"population_size": min(50, max(8, max_trials // 8)), **options}
    return import_optuna().samplers.NSGAIISampler(seed=seed, **chosen)


def _random(seed: int, max_trials: int, options: Mapping[str, Any]) -> Any:
    return import_optuna().samplers.RandomSampler(seed=seed, **options)


_NUMBERS = Encoding(whole_up_to=0)
SAMPLERS: dict[str, _Sampler] = {
    "tpe": _Sampler(_tpe, Encoding(whole_up_to=16), conditional=True, constrained=True),
    "cmaes": _Sampler(
        _cmaes,
        Encoding(whole_up_to=0, categories=False),
        conditional=False,
        keeps_proposals=True,
        several_objectives=False,
        needs=("cmaes",),
    ),
    "gp": _Sampler(_gp, _NUMBERS, conditional=False, needs=("scipy", "torch"), logarithms=True),
    "nsga2": _Sampler(_nsga2, Encoding(), conditional=False, constrained=True, proposals=16),
    "random": _Sampler(_random, Encoding(), conditional=True, proposals=16),
}
"""The samplers by name.

TPE builds a density per parameter or group of parameters that occur together, so that structures may differ in theirs: one
study has all that are known at a time. It needs many trials per category, so that it gets the larger tiles as numbers. CMA-ES, GP and
NSGA-II know only the parameters that all trials share: each structure has a study of its own. A bandit divides the trials among the
studies. CMA-ES takes numbers only; NSGA-II recombines whole decisions, since the factors of one tile are not independent.

NSGA-II and TPE are told how many constraints an infeasible trial violates. Asked again after each, TPE would see more such trials than
measured ones, so that a near row is measured at once. GP would take a value that an infeasible trial does not have into its model of
the time: what it proposes is repaired without being told, as for CMA-ES, which knows no constraints. Random sampling draws
again, since repaired rows are no uniform sample.

The trial of a row that replaces a proposal has the parameters of that row, so that the study holds what was measured; but CMA-ES
updates its distribution by the points that it drew from it, and gets their replacements' values for them.
"""


@dataclass
class _Arm:
    """A study with the structures that it holds."""

    study: Any
    numbers: list[int]
    """Of the structures."""
    space: StructureSpace
    pulls: int = 0
    values: list[tuple[float, ...] | None] = field(default_factory=list)
    """Of what was measured; None for failures."""
    successes: int = 0
    """How many of them were among the best of all when the batch began."""
    exhausted: bool = False


class OptunaSearch(SearchStrategy):
    """Search by one of Optuna's samplers.

    Args:
        sampler: "tpe", "cmaes", "gp", "nsga2" or "random".
        objectives: what to minimize, of "time", "code_size", "memory" and "energy".
        sampler_options: further arguments of Optuna's sampler.

    Raises:
        TunerError: the sampler is unknown or minimizes one objective only, or Optuna or what the sampler needs is not installed.
        DatabaseError: an objective is unknown.
    """

    def __init__(
        self,
        sampler: str = "tpe",
        *,
        objectives: Sequence[str] = ("time",),
        sampler_options: Mapping[str, Any] | None = None,
    ) -> None:
        if sampler not in SAMPLERS:
            raise TunerError(
                f"unknown sampler {sampler!r}; there are {', '.join(SAMPLERS)}{did_you_mean(str(sampler), list(SAMPLERS))}"
            )
        self.sampler = sampler
        self.objectives = checked_objectives(objectives)
        self._kind = SAMPLERS[sampler]
        if len(self.objectives) > 1 and not self._kind.several_objectives:
            several = [name for name, kind in SAMPLERS.items() if kind.several_objectives]
            raise TunerError(
                f"the sampler {sampler!r} minimizes one objective, got {', '.join(self.objectives)}; take {', '.join(several)}"
            )
        self._options = dict(sampler_options or {})
        self._arms: list[_Arm] = []
        self._clones: list[OptunaSearch] = []
        # What is missing or unknown is said before anything is measured.
        self._require_packages()
        self._sampler(0, 1)

    @property
    def studies(self) -> list[Any]:
        """Optuna's studies of the searches by this instance and by its clones, in the order in which they began.

        A search has one for each structure, or one for those with which it begins and others for those that it finds on its way.
        ``study.best_trials`` is the Pareto front of what each measured. There is none before a search has begun.

        >>> search = OptunaSearch("random")
        >>> _ = tune_tir(func, "cpu", max_trials_global=8, strategy=search)  # doctest: +SKIP
        >>> [len(study.trials) for study in search.studies]  # doctest: +SKIP
        [8]
        """
        own = [arm.study for arm in self._arms]
        return own + [study for clone in self._clones for study in clone.studies]

    def clone(self) -> OptunaSearch:
        """Another search with the same options, whose studies are among :attr:`studies`."""
        made = copy.copy(self)
        made._arms, made._clones = [], []
        self._clones.append(made)
        return made

    # ---- lifecycle ---------------------------------------------------------------------------------------------

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Sketch],
        database: Database | None,
        cost_model: CostModel,
    ) -> None:
        self._max_trials = self._left = max_trials
        self._batch = num_trials_per_iter
        self._structures = self.context.structures_of(design_spaces)
        self._rng = np.random.default_rng(self.context.generator.integers(1 << 31))
        self._seen: list[set[bytes]] = []
        """Of each structure the rows that are not proposed again."""
        self._pending: dict[tuple[int, bytes], tuple[_Arm, Any]] = {}
        self._arms = []
        self._meet_structures()
        self._shared = None if database is None else SharedDatabase(database, self.context, self._structures)
        self._take_over_news()

    def _meet_structures(self) -> None:
        """Structures become known in the course of a search: those of one time share a study where the sampler takes several."""
        new = list(range(len(self._seen), len(self._structures.known)))
        self._seen += [set() for _ in new]
        shared = [new] if self._kind.conditional and new else [[number] for number in new]
        self._arms += [self._arm(numbers) for numbers in shared]

    def _look_for_structures(self, count: int) -> None:
        """Make some more structures known."""
        if not self._structures.is_complete:
            self._structures.grow(count, self._rng)
            self._meet_structures()

    def _arm(self, numbers: list[int]) -> _Arm:
        optuna = import_optuna()
        sampler = self._sampler(int(self._rng.integers(1 << 31)), self._max_trials)
        with quiet():
            study = optuna.create_study(directions=["minimize"] * len(self.objectives), sampler=sampler)
        space = StructureSpace([self._structures.known[number] for number in numbers], self._kind.encoding)
        return _Arm(study, numbers, space)

    def _sampler(self, seed: int, max_trials: int) -> Any:
        try:
            with quiet():
                return self._kind.make(seed, max_trials, self._options)
        except (TypeError, ValueError) as error:
            raise TunerError(f"options of Optuna's sampler {self.sampler!r}: {error}") from error

    def _require_packages(self) -> None:
        for name in self._kind.needs:
            try:
                import_module(name)
            except ModuleNotFoundError as error:
                extras = "search,torch" if name == "torch" else "search"
                raise TunerError(
                    f"Optuna's sampler {self.sampler!r} needs {name}, which is not installed:"
                    f" pip install 'loopsmith[{extras}]' brings it"
                ) from error

    def _take_over_news(self) -> None:
        """Add what earlier sessions and other tuners have measured for this workload and target as finished trials.

        A record without one of the objectives, of a version that did not measure it, is no trial of the study, but is not
        proposed again either.
        """
        if self._shared is None:
            return
        for record, number, row in explained(standing(self._shared.records()), self._structures):
            self._meet_structures()
            if row.tobytes() in self._seen[number]:
                continue
            self._seen[number].add(row.tobytes())
            arm = next(item for item in self._arms if number in item.numbers)
            known = all(name == "time" or name in record.metrics for name in self.objectives)
            if record.is_valid() and not known:
                continue
            values = (
                objective_values(self.objectives, record.secs, record.metrics) if record.is_valid() else None
            )
            self._add(arm, number, row, values)

    def _add(self, arm: _Arm, number: int, row: np.ndarray, values: Sequence[float] | None) -> None:
        """A trial that another session, or another tuner, has measured."""
        trial_module = import_optuna().trial
        place = arm.numbers.index(number)
        trial = trial_module.create_trial(
            state=trial_module.TrialState.FAIL if values is None else trial_module.TrialState.COMPLETE,
            values=None if values is None else self._told(values),
            params=arm.space.params(place, row),
            distributions=arm.space.distributions(place),
        )
        if self._kind.constrained:
            trial.set_constraint(_VIOLATION, 0.0)
        arm.study.add_trial(trial)
        arm.pulls += 1
        arm.values.append(None if values is None else tuple(values))

    # ---- proposing ---------------------------------------------------------------------------------------------

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        self._close_pending()
        self._take_over_news()
        wanted = min(self._batch, self._left)
        chosen: list[MeasureCandidate] = []
        if wanted:
            self._look_for_structures(max(1, round(NEW_STRUCTURES * wanted)))
        self._count_successes()
        with quiet():
            while len(chosen) < wanted:
                arm = self._next_arm()
                if arm is None:
                    known = len(self._arms)
                    self._look_for_structures(wanted - len(chosen))
                    if len(self._arms) == known:
                        break
                    continue
                candidate = self._propose(arm)
                if candidate is None:
                    arm.exhausted = True
                else:
                    chosen.append(candidate)
        self._left -= len(chosen)
        return chosen or None

    def _next_arm(self) -> _Arm | None:
        """The study to ask (UCB1); None when all are used up.

        A success is a measurement among the best quarter of all: times of other scale or spread give the same search.
        """
        arms = [arm for arm in self._arms if not arm.exhausted]
        if len(arms) <= 1 or not all(arm.pulls for arm in arms):
            return min(arms, key=lambda arm: arm.pulls, default=None)
        total = sum(arm.pulls for arm in arms)

        def bound(arm: _Arm) -> float:
            # What is being measured counts as a pull without a success, so that a batch is spread.
            return arm.successes / arm.pulls + math.sqrt(2 * math.log(total) / arm.pulls)

        return max(arms, key=bound)

    def _count_successes(self) -> None:
        """Look at what was measured, once for a batch: the comparison is of all with all."""
        arms = [arm for arm in self._arms if not arm.exhausted]
        measured = [value for arm in arms for value in arm.values if value is not None]
        if len(arms) > 1 and measured:
            succeeded = iter(domination_counts(np.array(measured)) < _BEST_SHARE * len(measured))
            for arm in arms:
                arm.successes = sum(value is not None and bool(next(succeeded)) for value in arm.values)

    def _propose(self, arm: _Arm) -> MeasureCandidate | None:
        """A candidate that keeps its constraints, and that nobody has measured or is measuring; None when there is no other."""
        trial, place, row, broken = self._ask(arm)
        number = arm.numbers[place]
        while broken or row.tobytes() in self._seen[number] or not self._claim(number, row):
            found = self._near(arm, number, row)
            if found is None:
                self._fail(arm, trial)
                return None
            number, row = found
            trial = self._replaced(arm, trial, arm.space.params(arm.numbers.index(number), row), broken)
            broken = 0
        if self._kind.constrained:
            trial.set_constraint(_VIOLATION, 0.0)
        self._pending[number, row.tobytes()] = (arm, trial)
        arm.pulls += 1
        return MeasureCandidate(self._structures.known[number], row)

    def _claim(self, number: int, row: np.ndarray) -> bool:
        """Whether a candidate is this search's to measure; in any case it is not proposed again."""
        self._seen[number].add(row.tobytes())
        return self._shared is None or self._shared.claim([(number, row)]) == [True]

    def _ask(self, arm: _Arm) -> tuple[Any, int, np.ndarray, int]:
        """A proposal: its trial, the place of its structure in the study, its decisions, and how many constraints they break."""
        for left in reversed(range(self._kind.proposals)):
            trial = arm.study.ask()
            place, row = arm.space.suggest(trial)
            broken = int(self._structures.known[arm.numbers[place]].violations(row[None])[0])
            if not broken or not left:
                break
            self._refuse(arm, trial, broken)
        return trial, place, row, broken

    def _replaced(self, arm: _Arm, trial: Any, params: Mapping[str, Any], broken: int) -> Any:
        """The trial of a row that replaces a proposal; ``broken`` constraints are why, or 0 for one that was measured before."""
        if self._kind.keeps_proposals:
            trial.set_user_attr(MEASURED, dict(params))
            return trial
        self._refuse(arm, trial, broken)
        arm.study.enqueue_trial(dict(params))
        trial = arm.study.ask()
        arm.space.suggest(trial)
        return trial

    def _refuse(self, arm: _Arm, trial: Any, broken: int) -> None:
        """End a trial that is not measured, as infeasible where the sampler learns from such."""
        if not broken or not self._kind.constrained:
            self._fail(arm, trial)
            return
        # It has no time; what is infeasible is compared by its violation alone.
        trial.set_constraint(_VIOLATION, float(broken))
        arm.study.tell(trial, [math.inf] * len(self.objectives))

    def _near(self, arm: _Arm, number: int, row: np.ndarray) -> tuple[int, np.ndarray] | None:
        """The structure and the row to measure in place of one that cannot be: of the same structure if there is one left."""
        for other in [number, *(item for item in arm.numbers if item != number)]:
            sketch = self._structures.known[other]
            begin = row if other == number else np.zeros(sketch.n_columns, dtype=np.int64)
            near = nearest_new_row(sketch, begin, self._seen[other], self._rng)
            if near is not None:
                return other, near
        return None

    # ---- results -----------------------------------------------------------------------------------------------

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[float | None]
    ) -> None:
        for candidate, secs in zip(measure_candidates, results, strict=True):
            number = next(i for i, sketch in enumerate(self._structures.known) if sketch is candidate.sketch)
            arm, trial = self._pending.pop((number, candidate.row.tobytes()))
            if secs is None:
                self._fail(arm, trial)
                arm.values.append(None)
                continue
            values = objective_values(self.objectives, secs, candidate.metrics)
            arm.study.tell(trial, self._told(values))
            arm.values.append(tuple(values))

    def _told(self, values: Sequence[float]) -> list[float]:
        """Values as the sampler is told them."""
        if not self._kind.logarithms:
            return list(values)
        return [
            math.log(value) if name in ("time", "energy") else math.log1p(value)
            for name, value in zip(self.objectives, values, strict=True)
        ]

    def _close_pending(self) -> None:
        """What was proposed and never measured is no trial that anybody waits for."""
        for arm, trial in self._pending.values():
            self._fail(arm, trial)
        self._pending.clear()

    def _fail(self, arm: _Arm, trial: Any) -> None:
        arm.study.tell(trial, state=import_optuna().trial.TrialState.FAIL)

    def post_tuning(self) -> None:
        self._close_pending()
        if self._shared is not None:
            self._shared.release()


SearchStrategy.kinds.register("optuna")(OptunaSearch)
for _name in SAMPLERS:
    SearchStrategy.kinds.register(f"optuna:{_name}")(partial(OptunaSearch, _name))
