"""Structures as arms: a search looks for more of them, and spends its time on those that promise most."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cost_models import PriorModel, XGBModel
from database import MemoryDatabase, TuningRecord
from ir import te, topi
from ir.target import Target
from schedules import Schedule
from schedules.population import Sketch
from schedules.space import ScheduleFn
from tests.programs.expressions import matmul, row_sum
from tuner import EvolutionarySearch, ReplayTrace, SearchStrategy, TuneContext
from tuner.search import evolutionary_search
from tuner.search.arm import Arm

SIZE = 64


def looks_at_tiles(sch: Schedule) -> None:
    """Seven tiles of each of three loops, each number looked at: 343 structures of one candidate."""
    loops = sch.get_loops("C")
    inner, outer = [], []
    for loop in loops:
        first, last = (sch.get(item) for item in sch.sample_perfect_tile(loop, 2, SIZE))
        pair = sch.split(loop, [first, last])
        outer.append(pair[0])
        inner.append(pair[1])
    sch.reorder(*outer, *inner)


def factors_of(sketch: Sketch) -> list[int]:
    trace = sketch.trace
    return [trace.decisions[inst][1] for inst in trace.insts if inst.kind.name == "SamplePerfectTile"]


def seconds_of(sketch: Sketch) -> float:
    """Fastest where the inner factors are 4, 32 and 2, and slower the further away from that."""
    far = sum(
        abs(math.log2(factor) - best) for factor, best in zip(factors_of(sketch), (2, 5, 1), strict=True)
    )
    return 1e-3 * (1 + far)


def best_after(strategy: SearchStrategy, trials: int, seed: int) -> tuple[float, TuneContext]:
    context = TuneContext(
        matmul(SIZE), "cpu", seed=seed, space_generator=ScheduleFn(looks_at_tiles, samples=8)
    )
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(trials, 8, context.sketches(), None, XGBModel(seed=seed))
    best = math.inf
    while (batch := strategy.generate_measure_candidates()) is not None:
        found = [seconds_of(item.sketch) for item in batch]
        best = min(best, *found)
        strategy.notify_runner_results(batch, found)
    return best, context


def test_a_space_that_is_looked_at_is_searched() -> None:
    """Structures near the good ones are found; random ones are not as good."""
    evolved, random = [], []
    for seed in range(4):
        best, context = best_after(EvolutionarySearch(), 64, seed)
        evolved.append(best)
        assert 64 < len(context.sketches()) < 343
        random.append(best_after(ReplayTrace(), 64, seed)[0])
    assert np.mean(evolved) < np.mean(random) and min(evolved) <= 2e-3


def test_everything_is_measured_where_the_budget_is_larger_than_the_space() -> None:
    best, context = best_after(EvolutionarySearch(), 343, 0)
    assert best == 1e-3 and len(context.sketches()) == 343


def test_what_was_measured_in_another_session_is_not_measured_again() -> None:
    """Also of structures that the new session does not begin with."""
    store = MemoryDatabase()
    seen: list[str] = []
    for seed in (0, 1):
        context = TuneContext(
            matmul(SIZE), "cpu", seed=seed, space_generator=ScheduleFn(looks_at_tiles, samples=4)
        )
        strategy = EvolutionarySearch()
        strategy.initialize_with_tune_context(context)
        strategy.pre_tuning(40, 8, context.sketches(), store, PriorModel())
        workload = store.commit_workload(context.mod)
        while (batch := strategy.generate_measure_candidates()) is not None:
            seen += [str(factors_of(item.sketch)) for item in batch]
            times = [seconds_of(item.sketch) for item in batch]
            for item, secs in zip(batch, times, strict=True):
                trace = item.trace(context)
                assert trace is not None
                store.commit_tuning_record(TuningRecord(trace, workload, [secs], context.target))
            strategy.notify_runner_results(batch, times)
        strategy.post_tuning()
    assert len(seen) == 80 and len(set(seen)) == 80


def rows_by_columns(sch: Schedule) -> None:
    """Sixteen structures with an open tile."""
    i, j, _ = sch.get_loops("C")
    first = sch.get(sch.sample_categorical([1, 2, 4, 8], [0.25] * 4))
    second = sch.get(sch.sample_categorical([1, 2, 4, 8], [0.25] * 4))
    sch.split(i, [None, first])
    inner = sch.split(j, [None, second])[1]
    sch.vectorize(inner)
    k = sch.get_loops("C")[-1]
    sch.split(k, sch.sample_perfect_tile(k, 4))


def test_structures_that_lead_are_searched_whatever_is_expected_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that has not understood why the best structure is the best must not lose it."""
    monkeypatch.setattr(evolutionary_search, "_SEARCHED", 3)
    context = TuneContext(matmul(SIZE), "cpu", seed=0, space_generator=ScheduleFn(rows_by_columns))
    strategy = EvolutionarySearch()
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(32, 8, context.sketches(), None, PriorModel())
    assert strategy.generate_measure_candidates()
    probes = [arm.probe(np.random.default_rng(0)).prior_seconds().min() for arm in strategy._arms]
    worst = strategy._arms[int(np.argmax(probes))]
    worst.remember(worst.sketch.sample(1, np.random.default_rng(0))[0], 1e-6)
    strategy._rounds = 0  # none is left out for being far behind
    for _ in range(8):
        searched = [arm.number for arm in strategy._searched()]
        assert worst.number in searched and len(searched) == 4


def test_few_structures_are_searched_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that promise most, and one of the others."""
    monkeypatch.setattr(evolutionary_search, "_SEARCHED", 3)
    context = TuneContext(matmul(SIZE), "cpu", seed=0, space_generator=ScheduleFn(rows_by_columns))
    strategy = EvolutionarySearch()
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(32, 8, context.sketches(), None, PriorModel())
    searched: list[set[int]] = []
    pool = strategy._pool

    def spy(arm: Arm) -> object:
        searched[-1].add(arm.number)
        return pool(arm)

    monkeypatch.setattr(strategy, "_pool", spy)
    best = min(
        range(16),
        key=lambda number: (
            context.features(
                context.sketches()[number], context.sketches()[number].sample(8, np.random.default_rng(0))
            )
            .prior_seconds()
            .min()
        ),
    )
    for _ in range(4):
        searched.append(set())
        batch = strategy.generate_measure_candidates()
        assert batch is not None and len(batch) == 8
        strategy.notify_runner_results(batch, [1e-3] * 8)
    assert all(len(numbers) == 4 for numbers in searched)
    assert best in searched[0] and len(set.union(*searched)) > 4


def test_an_arm_counts_what_is_left() -> None:
    context = TuneContext(row_sum(), "cpu")
    sketch = context.sketches()[0]
    arm = Arm(0, sketch, 10**6, context.features)
    assert arm.everything is not None and arm.left() == len(arm.everything)
    arm.remember(arm.everything[0], 2.0)
    arm.remember(arm.everything[0], 1.0)
    arm.remember(arm.everything[0], 3.0)
    assert arm.left() == len(arm.everything) - 1 and arm.best_secs == 1.0
    arm.remember(arm.everything[0], 2.0, again=True)
    assert arm.best_secs == 2.0
    assert list(arm.unmeasured(arm.everything[:2])) == [False, True][: len(arm.everything[:2])]
    assert Arm(0, sketch, 0, context.features).left() == math.inf


def test_kept_features_are_those_of_the_rows() -> None:
    context = TuneContext(matmul(16), "cpu")
    sketch = context.sketches()[0]
    arm = Arm(0, sketch, 10**6, context.features)
    assert arm.everything is not None
    rows = arm.everything[::3]
    before = arm.features(rows).values
    assert arm.keep_features(10) == 0 and arm.kept is None
    assert arm.keep_features(1 << 30) > 0 and arm.kept is not None
    np.testing.assert_array_equal(arm.features(rows).values, before)


def test_a_search_begins_with_the_structures_of_which_most_is_expected() -> None:
    """Of a convolution, those by Winograd's algorithm, which are not the first: before a model is trained, and not only the first dozen."""
    data, weights = te.placeholder((1, 28, 28, 32), name="D"), te.placeholder((3, 3, 32, 32), name="W")
    func = te.create_prim_func([data, weights, topi.nn.conv2d(data, weights, 1, 1, 1, "NHWC")])
    context = TuneContext(func, Target("llvm -mcpu=haswell -num-cores 1"), seed=0)
    strategy = EvolutionarySearch(population_size=128)
    strategy.initialize_with_tune_context(context)
    strategy.pre_tuning(8, 8, context.sketches(), None, XGBModel(seed=0))
    batch = strategy.generate_measure_candidates()
    assert batch is not None
    found = ["Winograd" in [inst.kind.name for inst in item.sketch.trace.insts] for item in batch]
    assert sum(found) > len(found) / 2
