"""OptunaSearch: the contract with every sampler, what is proposed and told, several objectives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from optuna.trial import TrialState

from cost_models import RandomModel
from database import Database, DatabaseError, MemoryDatabase, TuningRecord
from database.pareto import domination_counts
from ir.target import Target
from ir.tir import PrimFunc
from runners import ReplayBuilder, ReplayRunner
from schedules import Schedule
from schedules.population import Sketch
from schedules.population.decision import TileDecision
from schedules.space import ScheduleFn
from tests.programs.expressions import matmul, row_sum, softmax
from tests.tuner.strategy_contract import StrategyContract, made_up_seconds
from tuner import (
    MeasureCandidate,
    OptunaSearch,
    ReplayTrace,
    SearchStrategy,
    TuneContext,
    tune_tasks,
    tune_tir,
)
from tuner.error import TunerError
from tuner.search.optuna_search import MEASURED, SAMPLERS

TARGET = Target("llvm -mcpu=haswell -num-cores=2")
"""Spaces depend on the machine, and with them how many trials a sampler needs."""


def _gp() -> OptunaSearch:
    """Models from the 13th trial on: in a short search some are proposed by it, and not too many, since each takes a while."""
    return OptunaSearch("gp", sampler_options={"n_startup_trials": 12})


class TestTPE(StrategyContract):
    def make(self) -> SearchStrategy:
        return SearchStrategy.create("optuna")


class TestCMAES(StrategyContract):
    def make(self) -> SearchStrategy:
        return SearchStrategy.create("optuna:cmaes")


class TestGP(StrategyContract):
    def make(self) -> SearchStrategy:
        return _gp()


class TestNSGA2(StrategyContract):
    def make(self) -> SearchStrategy:
        return SearchStrategy.create("optuna:nsga2")


class TestRandom(StrategyContract):
    def make(self) -> SearchStrategy:
        return SearchStrategy.create("optuna:random")


def _start(
    strategy: SearchStrategy,
    func: PrimFunc,
    trials: int,
    batch: int = 8,
    store: Database | None = None,
    seed: int = 3,
) -> TuneContext:
    context = TuneContext(func, TARGET, seed=seed)
    if store is not None:
        context.mod = store.commit_workload(context.mod).mod
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(trials, batch, context.sketches(), store, RandomModel(seed=0))
    return context


def _search(
    strategy: SearchStrategy, seconds: Callable[[MeasureCandidate], float | None] = made_up_seconds
) -> list[MeasureCandidate]:
    found: list[MeasureCandidate] = []
    while (batch := strategy.generate_measure_candidates()) is not None:
        found += batch
        strategy.notify_runner_results(batch, [seconds(item) for item in batch])
    return found


def _states(strategy: OptunaSearch) -> list[TrialState]:
    return [trial.state for study in strategy.studies for trial in study.trials]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_what_is_measured_keeps_its_constraints_and_is_what_the_study_holds(sampler: str) -> None:
    strategy = OptunaSearch(sampler) if sampler != "gp" else _gp()
    _start(strategy, matmul(), 32)
    found = _search(strategy)
    assert len(found) == 32
    assert all(item.sketch.valid(item.row[None])[0] for item in found)
    told = {item.row.tobytes(): made_up_seconds(item) for item in found}
    measured = {}
    for arm in strategy._arms:
        for trial in arm.study.trials:
            feasible = all(value <= 0 for value in trial.constraints.values())
            if trial.state is TrialState.COMPLETE and feasible:
                place = int(trial.params.get("sketch", "sketch0")[-1])
                params = trial.user_attrs.get(MEASURED, trial.params)
                assert sampler == "cmaes" or params is trial.params
                measured[arm.space.spaces[place].row(params).tobytes()] = trial.value
    expected = {key: secs for key, secs in told.items() if secs is not None}
    if sampler == "gp":
        expected = {key: np.log(secs) for key, secs in expected.items()}
    assert measured == pytest.approx(expected)
    assert TrialState.RUNNING not in _states(strategy)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_violations_are_told(sampler: str) -> None:
    strategy = OptunaSearch(sampler)
    context = _start(strategy, matmul(), 32)
    _search(strategy)
    broken = 0
    for arm in strategy._arms:
        for trial in arm.study.trials:
            if any(value > 0 for value in trial.constraints.values()):
                place = int(trial.params.get("sketch", "sketch0")[-1])
                row = arm.space.spaces[place].row(trial.params)
                number = arm.numbers[place]
                (violation,) = trial.constraints.values()
                assert context.sketches()[number].violations(row[None])[0] == violation
                broken += 1
        best = arm.study.best_trial
        assert best.value < float("inf") and all(value <= 0 for value in best.constraints.values())
    assert broken > 5


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_search_ends_when_the_space_is_used_up(sampler: str) -> None:
    for func in (row_sum(), softmax()):
        strategy = OptunaSearch(sampler)
        context = _start(strategy, func, 10_000, batch=16)
        found = _search(strategy)
        everything = [sketch.all_rows(10_000) for sketch in context.sketches()]
        assert len(found) == sum(len(rows) for rows in everything if rows is not None)
        assert len({(id(item.sketch), item.row.tobytes()) for item in found}) == len(found)


def test_failures_are_told_as_failed() -> None:
    strategy = OptunaSearch("random")
    _start(strategy, row_sum(), 100)
    found = _search(strategy, lambda item: None if item.row.sum() % 2 else 1e-3)
    failed = sum(int(item.row.sum() % 2) for item in found)
    assert 0 < failed < len(found)
    complete = _states(strategy).count(TrialState.COMPLETE)
    assert complete == len(found) - failed
    assert strategy._arms[0].values.count(None) == failed


def test_what_was_proposed_and_not_measured_is_closed() -> None:
    strategy = OptunaSearch("tpe")
    _start(strategy, matmul(), 32)
    batch = strategy.generate_measure_candidates()
    assert batch is not None and _states(strategy).count(TrialState.RUNNING) == 8
    strategy.notify_runner_results(batch[:3], [1e-3] * 3)
    strategy.post_tuning()
    assert _states(strategy).count(TrialState.RUNNING) == 0


def _records(
    store: Database, context: TuneContext, found: Sequence[MeasureCandidate], **options: object
) -> None:
    workload = store.commit_workload(context.mod)
    for item in found:
        secs = made_up_seconds(item)
        runs, kind = (None, "crash") if secs is None else ([secs], None)
        record = TuningRecord(
            item.trace(context), workload, runs, context.target, failure_kind=kind, **options
        )
        store.commit_tuning_record(record)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_records_of_earlier_sessions_are_trials(sampler: str) -> None:
    store = MemoryDatabase()
    first = ReplayTrace()
    context = _start(first, matmul(), 24, store=store)
    found = _search(first)
    _records(store, context, found)
    seconds = [made_up_seconds(item) for item in found]
    assert None in seconds

    second = OptunaSearch(sampler)
    _start(second, matmul(), 16, store=store)
    states = _states(second)
    assert states.count(TrialState.FAIL) == seconds.count(None)
    assert states.count(TrialState.COMPLETE) == len(found) - seconds.count(None)
    known = {item.row.tobytes() for item in found}
    assert not known & {item.row.tobytes() for item in _search(second)}


def test_a_record_without_an_objective_is_no_trial_and_is_not_measured_again() -> None:
    store = MemoryDatabase()
    first = ReplayTrace()
    context = _start(first, matmul(), 24, store=store)
    found = _search(first)
    _records(store, context, found[:12])
    _records(store, context, found[12:], metrics={"code_size": 100})
    second = OptunaSearch("tpe", objectives=("time", "code_size"))
    _start(second, matmul(), 16, store=store)
    expected = sum(made_up_seconds(item) is not None for item in found[12:])
    assert _states(second).count(TrialState.COMPLETE) == expected
    batch = second.generate_measure_candidates()
    assert batch is not None
    assert not {item.row.tobytes() for item in found} & {item.row.tobytes() for item in batch}


def _doublings(sketch: Sketch, one: np.ndarray, other: np.ndarray) -> float:
    """How many doublings lie between the factors of two rows; one for each other choice in which they differ."""
    total = 0.0
    for decision, a, b in zip(sketch.decisions, one, other, strict=True):
        if isinstance(decision, TileDecision):
            total += float(np.abs(np.log2(decision.table[a] / decision.table[b])).sum())
        else:
            total += a != b
    return total


@pytest.mark.parametrize(("sampler", "trials"), [("tpe", 64), ("cmaes", 320), ("gp", 40), ("nsga2", 192)])
def test_samplers_come_nearer_than_chance(sampler: str, trials: int) -> None:
    def best(strategy: SearchStrategy, seed: int) -> float:
        context = _start(strategy, matmul(512), trials, seed=seed)
        (sketch, *_) = context.sketches()
        wanted = sketch.sample(1, np.random.default_rng(seed))[0]

        def seconds(item: MeasureCandidate) -> float:
            return 1e-3 * (1 + _doublings(item.sketch, wanted, item.row))

        return min(map(seconds, _search(strategy, seconds)))

    seeds = range(1 if sampler == "gp" else 3)
    chosen = np.mean([best(OptunaSearch(sampler), seed) for seed in seeds])
    assert chosen < 0.8 * np.mean([best(ReplayTrace(), seed) for seed in seeds])


def test_the_better_structure_gets_more_trials_and_none_is_forgotten() -> None:
    strategy = OptunaSearch("cmaes")
    context = _start(strategy, matmul(512), 64)
    fast = context.sketches()[1]
    _search(strategy, lambda item: 1e-3 if item.sketch is fast else 2e-3)
    pulls = [arm.pulls for arm in strategy._arms]
    assert sum(pulls) == 64 and pulls[1] > 2 * pulls[0] and pulls[0] >= 4


def _sized(item: MeasureCandidate) -> float:
    """A time that falls where the code grows."""
    tile = item.sketch.decisions[0]
    inner = float(tile.table[item.row[0]][-1])  # type: ignore[union-attr]
    item.metrics = {"code_size": 100 * inner, "memory": float(item.row.sum())}
    return 1e-3 / inner + 1e-6 * float(item.row.sum())


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "gp", "random"])
def test_several_objectives_have_a_front(sampler: str) -> None:
    strategy = OptunaSearch(sampler, objectives=("time", "code_size"))
    _start(strategy, matmul(), 24)
    found = _search(strategy, _sized)
    values = np.array([[_sized(item), item.metrics["code_size"]] for item in found])
    front = {tuple(value) for value in values[domination_counts(values) == 0]}
    assert len(front) > 1
    best = [trial.values for study in strategy.studies for trial in study.best_trials]
    if sampler == "gp":
        best = [[np.exp(secs), np.expm1(size)] for secs, size in best]
    told = np.array(best)
    kept = told[domination_counts(told) == 0]
    np.testing.assert_allclose(sorted({tuple(np.round(v, 12)) for v in kept}), sorted(front), rtol=1e-6)


def test_an_objective_that_nobody_measures_is_named() -> None:
    strategy = OptunaSearch(objectives=("time", "code_size"))
    _start(strategy, matmul(), 24)
    with pytest.raises(DatabaseError, match="code_size was not measured; there is time"):
        _search(strategy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": 3}, "unknown sampler 3; there are tpe"),
        ({"sampler": "tpee"}, "unknown sampler 'tpee'; there are tpe, cmaes, gp, nsga2, random.*tpe"),
        ({"sampler": "cmaes", "objectives": ("time", "memory")}, "'cmaes' minimizes one objective"),
        ({"objectives": ("speed",)}, "unknown objective 'speed'"),
        ({"objectives": ()}, "objectives are different names"),
        ({"objectives": "time"}, "objectives are different names in a sequence.*got 'time'"),
        ({"sampler_options": {"startup": 3}}, "options of Optuna's sampler 'tpe'.*startup"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((TunerError, DatabaseError), match=message):
        OptunaSearch(**arguments)  # type: ignore[arg-type]


def test_an_unknown_sampler_by_name_is_told_the_others() -> None:
    with pytest.raises(TunerError, match="unknown search strategy 'optuna:cma'.*optuna:cmaes"):
        SearchStrategy.create("optuna:cma")


@pytest.mark.parametrize(("missing", "sampler"), [("optuna", "tpe"), ("cmaes", "cmaes"), ("torch", "gp")])
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, missing: str, sampler: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(TunerError, match=r"pip install 'loopsmith\[search"):
        OptunaSearch(sampler)


def looks_at_tiles(sch: Schedule) -> None:
    """Structures of one candidate each: four of one loop, two of another."""
    for loop, limit in zip(sch.get_loops("C"), (8, 2), strict=False):
        first, last = (sch.get(item) for item in sch.sample_perfect_tile(loop, 2, limit))
        sch.split(loop, [first, last])


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "nsga2", "random"])
def test_structures_with_which_a_search_does_not_begin_are_searched(sampler: str) -> None:
    store = MemoryDatabase()
    seen: list[str] = []
    for seed, trials in ((0, 5), (1, 100)):
        context = TuneContext(
            matmul(16), TARGET, seed=seed, space_generator=ScheduleFn(looks_at_tiles, samples=2)
        )
        workload = store.commit_workload(context.mod)
        context.mod = workload.mod
        strategy = OptunaSearch(sampler)
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(trials, 2, context.sketches(), store, RandomModel(seed=0))
        for item in _search(strategy):
            trace = item.trace(context)
            assert trace is not None
            seen.append(str(trace.as_json()))
            store.commit_tuning_record(TuningRecord(trace, workload, [1e-3], context.target))
        strategy.post_tuning()
    assert len(context.sketches()) == len(seen) == len(set(seen)) == 8


def test_an_instance_tells_the_studies_of_all_tasks_that_it_was_given_to() -> None:
    """Each task is searched by a clone of it."""
    search = OptunaSearch("random")
    assert search.studies == []
    contexts = [TuneContext(matmul(size), "cpu", task_name=str(size), seed=size) for size in (16, 32)]
    options: dict[str, Any] = {"builder": ReplayBuilder(), "runner": ReplayRunner(lambda _: 1e-3)}
    options |= {"strategy": search, "calibrate": "never", "cost_model": "random", "measure_callbacks": []}
    tune_tasks(tasks=contexts, max_trials_global=12, max_trials_per_task=6, num_trials_per_iter=3, **options)
    assert [_complete(study) for study in search.studies] == [6, 6]
    tune_tir(matmul(24), "cpu", None, 5, **options)
    assert [_complete(study) for study in search.studies] == [6, 6, 5]


def _complete(study: Any) -> int:
    return sum(trial.state == TrialState.COMPLETE for trial in study.trials)
