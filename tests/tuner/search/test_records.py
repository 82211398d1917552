"""Stored records as training data: which are taken, and what a model learns from other workloads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cost_models import PriorModel, RandomModel, XGBModel
from database import MemoryDatabase, TuningRecord
from ir.target import Target
from ir.time_interval import LEAST_NOISE, UNKNOWN_NOISE, noise_of
from runners import ReplayBuilder, ReplayRunner
from schedules.space import Structures
from tests.programs.expressions import matmul
from tuner import TaskScheduler, TuneContext, tune_tasks, tune_tir
from tuner.search.records import measured_rows, pretrain

TARGET = Target("cpu")


class _Spy(PriorModel):
    """Remembers what it was told."""

    learns = True

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, np.ndarray]] = []
        self.noise: list[np.ndarray] = []

    def update_arrays(
        self, features: Any, seconds: np.ndarray, group: str = "", noise: np.ndarray | None = None
    ) -> None:
        assert noise is not None and len(features) == len(seconds) == len(noise)
        self.told.append((group, seconds))
        self.noise.append(noise)


def _records(store: MemoryDatabase, context: TuneContext, count: int) -> None:
    """Random candidates of the first structure, the n-th of which takes n + 1 seconds; the last fails."""
    workload = store.commit_workload(context.mod)
    sketch = context.sketches()[0]
    rows = np.unique(sketch.sample(4 * count, np.random.default_rng(0)), axis=0)[: count + 1]
    for number, row in enumerate(rows):
        failed = number == count
        store.commit_tuning_record(
            TuningRecord(
                sketch.trace_of(row), workload, None if failed else [number + 1.0], context.target,
                failure_kind="crash" if failed else None,
            )
        )  # fmt: skip


@pytest.fixture
def store() -> MemoryDatabase:
    store = MemoryDatabase()
    _records(store, TuneContext(matmul(32), TARGET), 5)
    return store


def test_rows_of_records_and_failures(store: MemoryDatabase) -> None:
    context = TuneContext(store.get_workloads()[0].mod, TARGET)
    rows = measured_rows(store.get_all_tuning_records(), context.structures())
    assert {item.number for item in rows} == {0} and not any(item.again for item in rows)
    assert [item.noise for item in rows] == pytest.approx([UNKNOWN_NOISE] * 5 + [0.0])
    assert [item.secs for item in rows] == [1.0, 2.0, 3.0, 4.0, 5.0, float("inf")]
    assert measured_rows(store.get_all_tuning_records(), Structures()) == []


def test_a_model_starts_from_records_of_other_workloads(store: MemoryDatabase) -> None:
    spy = _Spy()
    assert pretrain(spy, store, [TuneContext(matmul(64), TARGET)]) == 6
    ((group, seconds),) = spy.told
    assert group and sorted(seconds) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_model_is_told_how_certain_the_times_of_its_own_search_are() -> None:
    spy, secs = _Spy(), [[2.0, 2.2, 2.1, 2.4, 9.0], [1.0], [3.0] * 5]
    times = iter(secs)
    runner = ReplayRunner(lambda _: next(times))
    tune_tir(
        matmul(32), "cpu", None, 3, builder=ReplayBuilder(), runner=runner, cost_model=spy, measure_callbacks=[], calibrate="never"
    )  # fmt: skip
    told = {
        float(item): float(noise)
        for (_, all_secs), noises in zip(spy.told, spy.noise)
        for item, noise in zip(all_secs, noises)
    }
    assert told == pytest.approx({2.2: noise_of(secs[0]), 1.0: UNKNOWN_NOISE, 3.0: LEAST_NOISE})


def test_a_model_is_told_comparable_times_and_their_noise() -> None:
    """The median of the repeats."""
    store, context, spy = MemoryDatabase(), TuneContext(matmul(32), TARGET), _Spy()
    sketch = context.sketches()[0]
    (row,) = sketch.sample(1, np.random.default_rng(0))
    run_secs = [2.0, 2.2, 2.1, 2.4, 9.0]
    store.commit_tuning_record(
        TuningRecord(sketch.trace_of(row), store.commit_workload(context.mod), run_secs, TARGET)
    )
    assert pretrain(spy, store, [TuneContext(matmul(64), TARGET)]) == 1
    assert spy.told[0][1].tolist() == [2.2]
    assert spy.noise[0] == pytest.approx([noise_of(run_secs)]) and spy.noise[0] > 0.1


def test_records_of_the_tuned_workloads_and_of_other_targets_are_left_out(store: MemoryDatabase) -> None:
    spy = _Spy()
    assert pretrain(spy, store, [TuneContext(matmul(64), TARGET), TuneContext(matmul(32), TARGET)]) == 0
    assert pretrain(spy, store, [TuneContext(matmul(64), Target("cpu -num-cores=7"))]) == 0
    assert pretrain(spy, store, []) == 0 and not spy.told


def test_models_that_learn_nothing_are_not_taught(store: MemoryDatabase) -> None:
    for model in (RandomModel(), PriorModel()):
        assert pretrain(model, store, [TuneContext(matmul(64), TARGET)]) == 0


def test_no_more_records_are_read_than_are_enough(store: MemoryDatabase) -> None:
    _records(store, TuneContext(matmul(16), TARGET), 3)
    spy = _Spy()
    assert pretrain(spy, store, [TuneContext(matmul(64), TARGET)], max_records=2) == 2
    assert not spy.told  # two workloads are alike, and each gives its newest record, which failed
    assert pretrain(spy, store, [TuneContext(matmul(64), TARGET)], max_records=8) == 8
    # Four of each would be half; the newest of all fill up: all four of the later workload, and four of the other.
    assert sorted(len(seconds) for _, seconds in spy.told) == [3, 3]


class _Idle(TaskScheduler):
    """Takes the models and does nothing."""

    def next_task_id(self) -> int:
        return -1

    def tune(self, contexts: Any, strategies: Any, **options: Any) -> None:  # type: ignore[override]
        self.models = options["cost_models"]


def test_all_tasks_share_one_model_and_an_instance_keeps_what_it_learns(store: MemoryDatabase) -> None:
    scheduler, model = _Idle(), XGBModel()
    tune_tasks(
        tasks=[TuneContext(matmul(64), TARGET), TuneContext(matmul(48), TARGET)],
        database=store, max_trials_global=1, builder="local", runner="local",
        cost_model=model, task_scheduler=scheduler,
    )  # fmt: skip
    assert scheduler.models == [model, model]
    assert len(model._samples) == 5
