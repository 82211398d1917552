"""Strategies: the contract, and what the population search adds to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cost_models import FeatureMatrix, RandomModel
from cost_models.prior import estimate_seconds
from database import MemoryDatabase, TuningRecord
from ir.target import Target
from schedules import ScheduleError, Trace
from schedules.mutator import MutateTileSize, Mutator, PyMutator
from schedules.population import Sketch
from schedules.space import PostOrderApply
from tests.programs.expressions import matmul
from tests.tuner.strategy_contract import StrategyContract, made_up_seconds
from tuner import EvolutionarySearch, ReplayTrace, SearchStrategy, TuneContext, TunerError
from tuner.search import evolutionary_search
from tuner.search.evolution import children, mutants


class TestEvolutionarySearch(StrategyContract):
    def make(self) -> SearchStrategy:
        return EvolutionarySearch(population_size=256, genetic_num_iters=2)


class TestExhaustiveSearch(StrategyContract):
    def make(self) -> SearchStrategy:
        return EvolutionarySearch(exhaustive_limit=10**9)


class TestReplayTrace(StrategyContract):
    def make(self) -> SearchStrategy:
        return ReplayTrace()


class _Oracle(RandomModel):
    """Takes the analytical estimate for the truth: the score is how often a candidate runs in a second."""

    def predict_arrays(self, features: object) -> np.ndarray:
        return 1 / np.asarray(features.prior_seconds())  # type: ignore[attr-defined]


def test_what_a_database_knows_is_not_measured_again() -> None:
    context = TuneContext(matmul(), "cpu", seed=1)
    store = MemoryDatabase()
    workload = store.commit_workload(context.mod)
    context.mod = workload.mod
    first = EvolutionarySearch(population_size=128, genetic_num_iters=1)
    first.initialize_with_tune_context(context)
    first.pre_tuning(16, 16, context.sketches(), store, RandomModel(seed=0))
    candidates = first.generate_measure_candidates()
    assert candidates is not None
    for item in candidates:
        secs = made_up_seconds(item)
        runs = None if secs is None else [secs]
        kind = None if secs is not None else "crash"
        store.commit_tuning_record(
            TuningRecord(item.trace(context), workload, runs, context.target, failure_kind=kind)
        )
    known = {item.row.tobytes() for item in candidates}

    second = EvolutionarySearch(population_size=128, genetic_num_iters=1)
    again = TuneContext(workload.mod, "cpu", seed=1)
    second.initialize_with_tune_context(again)
    second.pre_tuning(16, 16, again.sketches(), store, RandomModel(seed=0))
    proposed = second.generate_measure_candidates()
    assert proposed is not None
    assert not known & {item.row.tobytes() for item in proposed}


def test_the_search_finds_what_its_model_prefers() -> None:
    context = TuneContext(matmul(128), "cpu", seed=0)
    strategy = EvolutionarySearch(population_size=512, genetic_num_iters=3, eps_greedy=0.0)
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(8, 8, context.sketches(), None, _Oracle(seed=0))
    chosen = strategy.generate_measure_candidates()
    assert chosen is not None
    found = [estimate_seconds(item.sketch.skeleton(item.row[None]), context.target)[0] for item in chosen]
    np.testing.assert_allclose([1 / item.score for item in chosen], found, rtol=1e-5)
    random_rows = [sketch.sample(200, np.random.default_rng(1)) for sketch in context.sketches()]
    random = np.concatenate(
        [
            estimate_seconds(sketch.skeleton(rows), context.target)
            for sketch, rows in zip(context.sketches(), random_rows, strict=True)
        ]
    )
    assert min(found) < np.quantile(random, 0.01) and max(found) < np.median(random) / 2


@pytest.mark.parametrize("generations", [0, 1, 3])
def test_there_are_as_many_generations_as_are_asked_for(
    generations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bred: list[int] = []

    def counted(sketch: Sketch, *rest: Any) -> np.ndarray:
        bred.append(id(sketch))
        return children(sketch, *rest)

    monkeypatch.setattr(evolutionary_search, "children", counted)
    context = TuneContext(matmul(128), "cpu", seed=0)
    strategy = EvolutionarySearch(population_size=64, genetic_num_iters=generations, exhaustive_limit=0)
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(16, 16, context.sketches()[:1], None, _Oracle(seed=0))
    assert strategy.generate_measure_candidates()
    assert len(bred) == generations


def test_a_large_population_is_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the features of a part take does not depend on the population, nor does what is chosen depend on the parts."""

    def chosen() -> list[tuple[bytes, float]]:
        context = TuneContext(matmul(128), "cpu", seed=0)
        strategy = EvolutionarySearch(population_size=1024, genetic_num_iters=1)
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(16, 16, context.sketches(), None, _Oracle(seed=0))
        found = strategy.generate_measure_candidates()
        assert found is not None
        return [(item.row.tobytes(), item.score) for item in found]

    whole = chosen()
    asked: list[int] = []
    features = TuneContext.features

    def counted(self: TuneContext, sketch: Sketch, matrix: np.ndarray) -> FeatureMatrix:
        asked.append(len(matrix))
        return features(self, sketch, matrix)

    monkeypatch.setattr(TuneContext, "features", counted)
    monkeypatch.setattr(evolutionary_search, "SCORED_AT_ONCE", 100)
    assert chosen() == whole
    assert max(asked) == 100


def test_a_small_batch_searches_briefly_and_the_next_goes_on_from_there() -> None:
    context = TuneContext(matmul(128), "cpu", seed=0)
    scored = {}
    for batch in (4, 16):
        strategy = EvolutionarySearch(exhaustive_limit=0)
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(64, batch, context.sketches(), None, _Oracle(seed=0))
        for _ in range(2):
            chosen = strategy.generate_measure_candidates()
            assert chosen is not None
            strategy.notify_runner_results(chosen, [1e-3] * len(chosen))
        scored[batch] = strategy.candidates_scored
    assert scored[4] < scored[16] / 4
    survivors = strategy._arms[0].survivors
    assert survivors is not None
    first = {row.tobytes() for row in strategy._first_generation(strategy._arms[0], 64)}
    assert {row.tobytes() for row in survivors} <= first


def test_a_structure_far_behind_is_searched_now_and_then() -> None:
    context = TuneContext(matmul(128), "cpu", seed=0)
    strategy = EvolutionarySearch(exhaustive_limit=0, eps_greedy=0.0)
    strategy.initialize_with_tune_context(context)
    sketches = context.sketches()
    assert len(sketches) > 1
    strategy.pre_tuning(64, 4, sketches, None, _Oracle(seed=0))
    costs = []
    for _ in range(9):
        before = strategy.candidates_scored
        chosen = strategy.generate_measure_candidates()
        assert chosen is not None and len(chosen) == 4
        costs.append(strategy.candidates_scored - before)
        fast = [1e-3 if item.sketch is sketches[0] else 1e-2 for item in chosen]
        strategy.notify_runner_results(chosen, fast)
    assert max(costs[1:4]) < costs[4] and max(costs[5:8]) < costs[8]


class _Doubles(PyMutator):
    """Knows traces only: makes the last factor of a tile twice as large, at the cost of the first."""

    def apply(self, trace: Trace) -> Trace | None:
        for inst in trace.insts:
            decision = trace.get_decision(inst)
            if inst.kind.name == "SamplePerfectTile" and decision[0] % 2 == 0:
                first, *middle, last = decision
                return trace.with_decision(inst, [first // 2, *middle, 2 * last], remove_postproc=True)
        return None


def _strategy_with(mutators: Any) -> EvolutionarySearch:
    """A search of a space with these mutators, before its first batch."""
    context = TuneContext(matmul(), "cpu", seed=1, space_generator=PostOrderApply(mutator_probs=mutators))
    strategy = EvolutionarySearch(exhaustive_limit=0, genetic_mutate_prob=1.0)
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(16, 16, context.sketches(), None, RandomModel(seed=0))
    return strategy


@pytest.mark.parametrize("mutator", [MutateTileSize(), _Doubles()])
def test_mutators_of_the_user_make_the_mutants(mutator: Mutator, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a probability of one nobody else does."""
    monkeypatch.setattr(Sketch, "mutate", lambda self, rows, generator, rate=0.3: rows.copy())
    strategy = _strategy_with({mutator: 1.0})
    sketch, mutators = strategy._arms[0].sketch, strategy._arms[0].mutators
    parents = sketch.sample(8, np.random.default_rng(0))
    young = children(sketch, parents, np.zeros(8), 64, 1.0, np.random.default_rng(1), mutators)
    known = {row.tobytes() for row in parents}
    new = [row for row in young if row.tobytes() not in known]
    assert new
    allowed = mutator.columns(sketch)
    for row in new:
        changed = (row != parents).sum(axis=1)
        assert changed.min() == 1
        if allowed is not None:
            assert set(np.flatnonzero(row != parents[changed.argmin()])) <= set(allowed)
    assert strategy.generate_measure_candidates()
    grown = mutants(sketch, parents, 64, np.random.default_rng(1), mutators)
    assert {row.tobytes() for row in grown} - known


def test_a_search_takes_the_mutators_that_a_name_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a kind of target; without one, any decision may change."""
    monkeypatch.setitem(Mutator.defaults._found, "doubles-only", lambda: {_Doubles(): 1.0})
    assert [type(item) for item in _strategy_with("doubles-only")._arms[0].mutators] == [_Doubles]
    assert not _strategy_with("from-target")._arms[0].mutators


class _Mistaken(PyMutator):
    """Makes something else than rows."""

    def __init__(self, made: object) -> None:
        super().__init__()
        self.made = made

    def apply(self, trace: Trace) -> Trace | None:
        return self.made  # type: ignore[return-value]

    def mutate_rows(self, sketch: Sketch, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        if not callable(self.made):
            return super().mutate_rows(sketch, rows, generator)
        return self.made(rows)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "made, words",
    [
        ([1, 2], "apply returns a trace or None, got list"),
        (lambda rows: rows[:1], "must return an int64 array"),
        (lambda rows: rows * 1.0, "it returned float64"),
        (lambda rows: rows - 1000, "numbers from"),
        (lambda rows: rows + 1000, "of numbers from 0 to below"),
    ],
)
def test_a_mutator_that_makes_no_rows_is_named(made: object, words: str) -> None:
    (sketch, *_) = PostOrderApply().generate_sketches(matmul(), Target("cpu"))
    parents = sketch.sample(8, np.random.default_rng(0))
    with pytest.raises((TunerError, ScheduleError), match=f"mutator _Mistaken: .*{words}"):
        children(sketch, parents, np.zeros(8), 64, 1.0, np.random.default_rng(1), {_Mistaken(made): 1.0})
