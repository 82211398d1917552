"""The best candidate is measured again between batches; where its time has moved, the new one counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from database import MemoryDatabase, TuningRecord, Workload, standing
from ir import structural_hash
from runners import (
    BuilderInput,
    BuilderResult,
    ReplayBuilder,
    ReplayRunner,
    ResultKind,
    RunnerError,
    RunnerInput,
    RunnerResult,
)
from tests.database.contract import FakeTrace
from tests.programs.expressions import matmul
from tuner import MeasureCallback, tune_tir
from tuner.incumbent import Incumbent
from tuner.scheduler import GradientBased


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that goes on by a minute with every look."""
    now = [0.0]

    def look() -> float:
        now[0] += 60.0
        return now[0]

    monkeypatch.setattr(time, "monotonic", look)
    return now


class _Runner(ReplayRunner):
    """A candidate takes ``secs`` times ``speed``, which changes with the times at which the best one is measured again."""

    measures_again = True

    def __init__(self, secs: Iterator[float], speeds: Sequence[float], **metrics: float) -> None:
        self.speeds, self.metrics, self.speed = iter(speeds), metrics, 1.0
        self.own: dict[int, float] = {}
        """Seconds of each artifact on the machine as it was at first."""
        self.again: list[float] = []
        self.bests: list[float | None] = []
        self.kept: list[Any] = []
        super().__init__(lambda artifact: self._first(artifact, secs))

    def _first(self, artifact: Any, secs: Iterator[float]) -> float:
        self.kept.append(artifact)
        self.own[id(artifact)] = next(secs)
        return self.own[id(artifact)] * self.speed

    def run(self, runner_inputs: Sequence[RunnerInput]) -> Any:
        self.bests += [item.best_secs for item in runner_inputs]
        return super().run(runner_inputs)

    def measure_again(self, item: RunnerInput) -> RunnerResult:
        self.speed = next(self.speeds)
        self.again.append(self.own[id(item.artifact)])
        return RunnerResult(
            [self.again[-1] * self.speed] * 5, None, verified=True, metrics=dict(self.metrics)
        )


class _Told(MeasureCallback):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


def tune(
    store: MemoryDatabase,
    runner: ReplayRunner,
    trials: int,
    told: MeasureCallback,
    builder: ReplayBuilder | None = None,
    strategy: str = "random",
) -> None:
    tune_tir(
        matmul(32), "cpu", None, trials, database=store, builder=builder or ReplayBuilder(), runner=runner, cost_model="random",
        strategy=strategy, num_trials_per_iter=3, measure_callbacks=[told],
    )  # fmt: skip


def test_a_time_that_was_luck_gives_way_to_another(clock: list[float]) -> None:
    """3 at first, 6 when it is measured again: from then on 6 is what others are judged by."""
    store, told = MemoryDatabase(), _Told()
    runner = _Runner(iter([3.0, 7.0, 8.0, 2.5, 9.0, 9.0]), [2.0, 1.0])
    tune(store, runner, 6, told)
    assert runner.again == [3.0, 2.5], "the best of each batch"
    assert runner.bests[:4] == [None, 3.0, 3.0, 6.0]
    records = store.get_all_tuning_records()
    assert [item.run_secs for item in records if item.remeasured] == [(6.0,) * 5, (2.5,) * 5]
    best = store.query_tuning_record(matmul(32), "cpu")
    assert best is not None and best.secs == 2.5
    assert [text.partition(": ")[2] for text in told.notices if "measured again" in text] == [
        "the best candidate, measured again, takes 2.00 times its time",
        "the best candidate, measured again, takes 0.50 times its time",
    ]


def test_the_best_is_the_one_that_a_build_takes(clock: list[float]) -> None:
    """3 at first and 6 when it is measured again: who took 4 leads then, in the search, in the table and in the database."""
    store, told, scheduler = MemoryDatabase(), _Told(), GradientBased()
    of_program: dict[int, float] = {}

    class BuiltAgain(_Runner):
        def _first(self, artifact: Any, secs: Iterator[float]) -> float:
            of_program[structural_hash(artifact)] = super()._first(artifact, secs)
            return self.own[id(artifact)]

        def measure_again(self, item: RunnerInput) -> RunnerResult:
            self.own[id(item.artifact)] = of_program[structural_hash(item.artifact)]
            return super().measure_again(item)

    runner = BuiltAgain(iter([3.0, 4.0, 8.0, 9.0, 9.0, 9.0]), [2.0, 1.0])
    tune_tir(
        matmul(32), "cpu", None, 6, database=store, builder=ReplayBuilder(), runner=runner, cost_model="random", strategy="random",
        num_trials_per_iter=3, measure_callbacks=[told], task_scheduler=scheduler,
    )  # fmt: skip
    assert runner.bests == [None, 3.0, 3.0, 4.0, 4.0, 4.0]
    (task,), best = scheduler.tasks, store.query_tuning_record(matmul(32), "cpu")
    assert best is not None and best.secs == 4.0
    assert task.best_secs == 4.0 and task.best is not None and task.best.trace_key == best.trace_key
    assert runner.again == [3.0, 4.0], "before the final choice it is the one that leads that is looked at"
    assert any(
        text.endswith("takes 2.00 times its time, and another is the best now") for text in told.notices
    )


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_another_tuner_has_found_is_the_best(interrupted: bool) -> None:
    """The summary tells the record that a build takes, whoever has measured it."""
    store, scheduler = MemoryDatabase(), GradientBased()

    class Other(MeasureCallback):
        def apply(self, *_: object) -> None:
            (record,) = store.get_all_tuning_records()[:1]
            store.commit_tuning_record(
                TuningRecord(
                    record.trace, record.workload, [0.5], record.target, verified=True, remeasured=True
                )
            )
            if interrupted:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        tune_tir(
            matmul(32), "cpu", None, 3, database=store, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1.0),
            cost_model="random", strategy="random", measure_callbacks=[Other()], task_scheduler=scheduler,
        )  # fmt: skip
    assert scheduler.tasks[0].best_secs == 0.5


def test_a_record_that_does_not_apply_is_nobodys_best() -> None:
    """A build passes over it, too."""
    store, scheduler = MemoryDatabase(), GradientBased()
    workload = store.commit_workload(matmul(32))
    gone = [[["GetBlock", [], ["gone", "main"], ["b0"]]], []]
    store.commit_tuning_record(TuningRecord(None, workload, [1e-9], "cpu", verified=True, trace_json=gone))
    tune_tir(
        matmul(32), "cpu", None, 3, database=store, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1.0),
        cost_model="random", strategy="random", measure_callbacks=[], task_scheduler=scheduler,
    )  # fmt: skip
    assert scheduler.tasks[0].best_secs == 1.0


def test_what_repeats_do_not_tell_apart_is_the_same_time(clock: list[float]) -> None:
    store, told = MemoryDatabase(), _Told()
    runner = _Runner(iter([3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), [1.04, 0.96])
    tune(store, runner, 6, told)
    assert len(runner.again) == 2
    assert not any(item.remeasured for item in store.get_all_tuning_records())
    assert not any("measured again" in text for text in told.notices)


def test_the_best_of_an_earlier_session_is_built_and_measured_again(clock: list[float]) -> None:
    """Who measured days ago, or with warm weights, has today's time."""
    store, told, secs = MemoryDatabase(), _Told(), iter([5.0, 1.0, 5.0])
    tune(store, ReplayRunner(lambda _: next(secs)), 3, told)

    class Later(_Runner):
        def measure_again(self, item: RunnerInput) -> RunnerResult:
            self.own.setdefault(id(item.artifact), 1.0)
            return super().measure_again(item)

    runner = Later(iter([2.0, 4.0, 5.0]), [3.0, 1.0 / 3.0])
    tune(store, runner, 6, told)
    assert runner.bests[0] == 3.0


def test_of_an_earlier_session_nothing_is_built_that_is_not_measured(clock: list[float]) -> None:
    """The same command again, when its trials are used up."""
    store = MemoryDatabase()
    tune(store, ReplayRunner(lambda _: 1.0), 3, _Told())

    class Builder(ReplayBuilder):
        def build(self, build_inputs: Sequence[BuilderInput]) -> Any:
            raise AssertionError("nothing is to be measured")

    tune(store, _Runner(iter([]), []), 3, _Told(), Builder())
    assert len(store) == 3


def test_what_of_an_earlier_session_cannot_be_built_is_left_alone(clock: list[float]) -> None:
    store = MemoryDatabase()
    tune(store, ReplayRunner(lambda _: 1.0), 3, _Told())

    class Builder(ReplayBuilder):
        def __init__(self) -> None:
            self.asked = 0

        def build(self, build_inputs: Sequence[BuilderInput]) -> Any:
            self.asked += len(build_inputs)
            if self.asked == 1:
                return [BuilderResult(None, "it does not build")]
            return super().build(build_inputs)

    builder, runner = Builder(), _Runner(iter([2.0] * 6), [])
    tune(store, runner, 9, _Told(), builder)
    assert builder.asked == 1 + 6 and not runner.again and runner.bests == [1.0] * 6


class _Wrong(_Runner):
    """The candidate that took a second, and any that this runner has not measured, computes something else when it is measured again."""

    def __init__(self, secs: Iterator[float]) -> None:
        super().__init__(secs, [])
        self.of_program: dict[int, float] = {}

    def _first(self, artifact: Any, secs: Iterator[float]) -> float:
        found = self.of_program[structural_hash(artifact)] = super()._first(artifact, secs)
        return found

    def measure_again(self, item: RunnerInput) -> RunnerResult:
        secs = self.of_program.get(structural_hash(item.artifact), 1.0)
        self.again.append(secs)
        if secs == 1.0:
            return RunnerResult(None, "output 0 is wrong", ResultKind.WRONG_RESULT)
        return RunnerResult([secs] * 5, None, verified=True)


@pytest.mark.parametrize("strategy", ["random", "evolutionary"])
def test_one_that_is_wrong_when_it_is_measured_again_is_wrong_for_good(
    clock: list[float], strategy: str
) -> None:
    store, told = MemoryDatabase(), _Told()
    runner = _Wrong(iter([1.0, 3.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]))
    tune(store, runner, 9, told, strategy=strategy)
    best = store.query_tuning_record(matmul(32), "cpu")
    assert best is not None and best.secs == 2.0
    assert runner.bests[3:] == [2.0] * 6, "others are judged by the next best"
    (wrong,) = [item for item in store.get_all_tuning_records() if item.is_wrong]
    assert wrong.failure_message == "output 0 is wrong, when it was measured again as the best so far"
    assert wrong.session_id and not any(
        item.is_valid() and item.trace_key == wrong.trace_key
        for item in standing(store.get_all_tuning_records())
    )
    assert [text.partition(": ")[2] for text in told.notices if "given up" in text] == [
        "the best candidate, measured again, is given up: output 0 is wrong, when it was measured again as the best so far"
    ]


def test_the_only_one_may_be_wrong_when_it_is_measured_again(clock: list[float]) -> None:
    """Nothing is the best then."""
    store = MemoryDatabase()
    first = iter([1.0])
    tune(store, _Runner(first, []), 1, _Told())
    runner = _Wrong(iter([7.0, 8.0, 9.0]))
    tune(store, runner, 4, _Told())
    assert runner.bests == [None, 7.0, 7.0]


def _best_of(store: MemoryDatabase) -> str:
    best = store.query_tuning_record(matmul(32), "cpu")
    assert best is not None
    return best.trace_key


# ---- one look ----------------------------------------------------------------------------------------------------------


def looked_at(
    result: RunnerResult, seen_at: float = -1000.0, **metrics: float
) -> tuple[TuningRecord | None, Incumbent]:
    """Look at a candidate that took 1 second at first."""

    class Once(ReplayRunner):
        measures_again = True

        def measure_again(self, item: RunnerInput) -> RunnerResult:
            return result

    record = TuningRecord(FakeTrace(), Workload(matmul(32)), [1.0] * 5, "cpu", verified=True, metrics=metrics)
    incumbent = Incumbent("it", record, seen_at)
    return incumbent.look_again(Once({}), ReplayBuilder(), None), incumbent


@pytest.mark.parametrize(
    ("result", "secs"),
    [
        (RunnerResult([1.5] * 5, None), 1.5),
        (RunnerResult([0.5] * 5, None), 0.5),
        (RunnerResult([1.02] * 5, None), 1.0),
        (RunnerResult([1.5, 0.9, 1.5, 2.5, 0.7], None), 1.0),
        (RunnerResult([1.5] * 5, None, metrics={"disturbance": 0.4}), 1.0),
        (RunnerResult(None, "it died", ResultKind.CRASH), 1.0),
    ],
    ids=["slower", "faster", "the same", "it varies", "disturbed", "it failed"],
)
def test_what_a_look_tells(result: RunnerResult, secs: float, clock: list[float]) -> None:
    again, incumbent = looked_at(result)
    assert incumbent.interval.middle == secs
    assert (again is None) == (secs == 1.0)


def test_a_time_that_was_disturbed_gives_way_to_one_that_was_not(clock: list[float]) -> None:
    """Also where the repeats do not tell them apart."""
    again, incumbent = looked_at(RunnerResult([1.01] * 5, None), disturbance=0.6, code_size=9.0)
    assert again is incumbent.record and again.remeasured and again.verified
    assert again.run_secs == (1.01,) * 5 and again.metrics == {"code_size": 9.0}
    again, incumbent = looked_at(RunnerResult([0.4] * 5, None, metrics={"disturbance": 0.2}), disturbance=0.6)
    assert again is None and incumbent.interval.middle == 1.0


def test_a_moment_later_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    again, incumbent = looked_at(RunnerResult([9.0] * 5, None), seen_at=95.0)
    assert again is None and incumbent.seen_at == 95.0


def test_the_last_look_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    for result in (
        RunnerResult([1.5] * 5, None),
        RunnerResult([1.0] * 5, None),
        RunnerResult(None, "it died"),
    ):
        _, incumbent = looked_at(result)
        assert incumbent.seen_at == 100.0


def test_what_takes_the_place_of_a_disturbed_time_is_kept(clock: list[float]) -> None:
    """The first batch was disturbed; when its best is measured again it takes a third of that."""
    store, told = MemoryDatabase(), _Told()

    class Disturbed(_Runner):
        def run(self, runner_inputs: Sequence[RunnerInput]) -> Any:
            (future,) = super().run(runner_inputs)
            if len(self.kept) <= 3:
                future.result().metrics["disturbance"] = 0.5
            return [future]

    runner = Disturbed(iter([3.0, 4.0, 5.0, 6.0, 6.0, 7.0]), [1 / 3, 1 / 3])
    tune(store, runner, 6, told)
    first, *_, again = [item for item in store.get_all_tuning_records() if item.trace_key == _best_of(store)]
    assert (first.secs, again.secs) == (3.0, 1.0) and again.remeasured and again.session_id
    assert runner.bests[3] == 1.0


def test_without_such_a_runner_nothing_is_asked() -> None:
    class Plain(ReplayRunner):
        def measure_again(self, item: RunnerInput) -> RunnerResult:
            raise RunnerError("it was asked")

    store = MemoryDatabase()
    tune(store, Plain(lambda _: 1.0), 6, _Told())
    assert len(store) == 6
