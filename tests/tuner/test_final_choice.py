"""The final choice: the fastest candidates are measured again in turns, and the new times decide what the database answers."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from rich.console import Console

from database import Database, MemoryDatabase, TuningRecord
from database.sql import SQLDatabase
from ir.target import Target
from runners import Builder, BuilderInput, ReplayBuilder, ReplayRunner, ResultKind, Runner, RunnerResult
from schedules import Trace
from tests.programs.expressions import matmul
from tuner import MeasureCallback, TuneContext, TunerError, tune_tasks, tune_tir
from tuner.progress import PlainProgress
from tuner.scheduler import GradientBased
from tuner.scheduler.final import settle
from tuner.state import TimeShares

TARGET = Target("llvm -mcpu=znver4 -num-cores 2")
WRONG, CRASH = ResultKind.WRONG_RESULT, ResultKind.CRASH
Medians = Callable[[list[Any]], "list[float | ResultKind]"]


class _Builder(ReplayBuilder):
    def unbuilt(self, build_input: BuilderInput) -> Any:
        return build_input.mod


class _Runner(ReplayRunner):
    """Trials take 1.00, 1.01, 1.02... milliseconds in the order in which they come; ``medians`` answers the final choice."""

    def __init__(self, medians: Medians) -> None:
        super().__init__(lambda _: 1e-3 + 1e-5 * self.count)
        self.medians = medians
        self.contests: list[list[Any]] = []
        self.confirmed: list[list[str]] = []

    def final_choice(
        self, artifacts: Sequence[Any], reference: Any = None, confirmed: Collection[int] = ()
    ) -> list[RunnerResult] | None:
        self.contests.append([artifact.trace_json for artifact in artifacts])
        self.confirmed.append([_name(self.contests[-1][place]) for place in confirmed])
        return [
            RunnerResult([item], None) if isinstance(item, float) else RunnerResult(None, f"a {item}", item)
            for item in self.medians(self.contests[-1])
        ]


def _trace(name: str) -> Trace:
    """A trace that can be told from others by its name."""
    return Trace.from_json([[["GetBlock", [], [name, "main"], ["b0"]]], []])


def _same(traces: list[Any]) -> list[float | ResultKind]:
    return [1e-3 + 1e-5 * i for i in range(len(traces))]


def _reversed(traces: list[Any]) -> list[float | ResultKind]:
    return [1e-3 - 1e-5 * i for i in range(len(traces))]


def _filled(store: Database, times: Sequence[float], **options: Any) -> Any:
    workload = store.commit_workload(matmul(8))
    for index, secs in enumerate(times):
        options.setdefault("verified", True)
        store.commit_tuning_record(TuningRecord(_trace(f"t{index}"), workload, [secs], TARGET, **options))
    return workload


def _settle(
    store: Database, workload: Any, runner: Runner, builder: Builder | None = None, default: str | None = None
) -> Any:
    return settle(store, workload, TARGET, builder or _Builder(), runner, default=default)


def _key(store: Database, name: str) -> str:
    """The key of the trace with a name."""
    return next(
        item.trace_key for item in store.get_all_tuning_records() if _name(item.trace.as_json()) == name
    )


def _name(trace: Any) -> str:
    return str(json.loads(json.dumps(trace))[0][0][2][0])


def _by_name(**secs: float | ResultKind) -> Medians:
    return lambda traces: [secs[_name(trace)] for trace in traces]


def test_rivals_are_all_that_may_be_the_fastest() -> None:
    """Single values may be off by a twentieth, so that all below 1.105 may be below 1.05."""
    store, runner = MemoryDatabase(), _Runner(_same)
    workload = _filled(store, [1.0, 1.2, 1.1, 1.05, 1.01, 1.02, 1.11])
    assert _settle(store, workload, runner) == ("confirmed", 1e-3)
    assert [[_name(trace) for trace in contest] for contest in runner.contests] == [
        ["t0", "t4", "t5", "t3", "t2"]
    ]


def test_repeats_tell_who_may_be_the_fastest() -> None:
    """Far behind, and not to be told apart: times that vary. Out: times that do not, unless they are so near that another process
    could change the order."""
    store, runner = MemoryDatabase(), _Runner(_same)
    workload = _filled(store, [])
    repeats = ([1.0] * 5, [1.11] * 5, [1.2, 0.9, 1.3, 0.8, 1.1], [1.09] * 5)
    for index, run_secs in enumerate(repeats):
        store.commit_tuning_record(
            TuningRecord(_trace(f"t{index}"), workload, run_secs, TARGET, verified=True)
        )
    _settle(store, workload, runner)
    assert [[_name(trace) for trace in contest] for contest in runner.contests] == [["t0", "t3", "t2"]]


def test_of_those_that_are_nearly_as_fast_the_fastest_take_part() -> None:
    store, runner = MemoryDatabase(), _Runner(_same)
    workload = _filled(store, [])
    for index in range(9):
        secs = 1.0 if index == 0 else 1.05 + 0.005 * index
        store.commit_tuning_record(
            TuningRecord(_trace(f"t{index}"), workload, [secs] * 5, TARGET, verified=True)
        )
    _settle(store, workload, runner)
    assert [[_name(trace) for trace in contest] for contest in runner.contests] == [
        ["t0", "t1", "t2", "t3", "t4", "t5"]
    ]


def test_where_many_may_be_the_fastest_all_have_their_turn() -> None:
    """Each contest takes the winner so far along."""
    times = {f"t{index}": 1.0 + 0.001 * index for index in range(40)}
    store = MemoryDatabase()
    workload = _filled(store, list(times.values()))
    medians = {name: secs if name != "t39" else 0.5 for name, secs in times.items()}
    runner = _Runner(_by_name(**medians))
    assert _settle(store, workload, runner) == ("changed", 0.5)
    contests = [[_name(trace) for trace in contest] for contest in runner.contests]
    assert {name for contest in contests for name in contest} == set(times)
    assert [len(contest) for contest in contests] == [6] * 7 + [5]
    assert all(contest[0] == "t0" for contest in contests)


@pytest.mark.parametrize("options", [{"verified": False}, {"cut": True}])
def test_what_was_not_checked_or_was_cut_takes_no_part(options: dict[str, Any]) -> None:
    store, runner = MemoryDatabase(), _Runner(_same)
    workload = _filled(store, [1.0, 1.01], **options)
    assert _settle(store, workload, runner) is None
    assert runner.contests == []


def test_one_candidate_alone_has_no_rival() -> None:
    store, runner = MemoryDatabase(), _Runner(_same)
    workload = _filled(store, [1.0, 1.2])
    assert _settle(store, workload, runner) is None
    assert runner.contests == [] and len(store) == 2


@pytest.mark.parametrize(("secs", "best"), [(1.5, 0.9), (1.99, 0.9), (2.01, None)])
def test_the_default_competes_unless_it_was_far_behind(secs: float, best: float | None) -> None:
    store, runner = MemoryDatabase(), _Runner(_by_name(t0=1.0, t1=0.8, t2=0.9))
    workload = _filled(store, [])
    for name, seconds in (("t0", 1.0), ("t1", 1.4), ("t2", secs)):
        store.commit_tuning_record(TuningRecord(_trace(name), workload, [seconds] * 5, TARGET, verified=True))
    found = _settle(store, workload, runner, default=_key(store, "t2"))
    contests = [[_name(trace) for trace in contest] for contest in runner.contests]
    if best is None:
        assert found is None and contests == []
    else:
        assert found == ("changed", best) and contests == [["t0", "t2"]]


def test_the_new_times_decide(tmp_path: Any) -> None:
    for store in (MemoryDatabase(), SQLDatabase(tmp_path / "a.db")):
        workload = _filled(store, [1.0, 1.05])
        runner = _Runner(_by_name(t0=1.3, t1=1.04))
        assert _settle(store, workload, runner) == ("changed", 1.04)
        best = store.query_tuning_record(matmul(8), TARGET)
        assert best is not None and _name(best.trace_json) == "t1"
        assert [item.mean_secs for item in store.get_top_k(workload, 5)] == [1.04, 1.3]
        assert len(store) == 4


def test_a_candidate_that_took_no_part_challenges_the_winner() -> None:
    store = MemoryDatabase()
    workload = _filled(store, [1.0, 1.01, 1.15, 1.3])
    runner = _Runner(_by_name(t0=1.2, t1=1.25, t2=1.18, t3=9.0))
    assert _settle(store, workload, runner) == ("changed", 1.18)
    assert [[_name(trace) for trace in contest] for contest in runner.contests] == [
        ["t0", "t1"],
        ["t0", "t2"],
    ]


def test_a_rival_that_fails_is_out_but_not_when_all_fail() -> None:
    store = MemoryDatabase()
    workload = _filled(store, [1.0, 1.05])
    assert _settle(store, workload, _Runner(_by_name(t0=CRASH, t1=CRASH))) is None
    assert len(store) == 2
    assert _settle(store, workload, _Runner(_by_name(t0=CRASH, t1=1.05))) == ("changed", 1.05)
    assert [_name(item.trace_json) for item in store.get_top_k(workload, 5)] == ["t1"]


def test_the_record_of_a_rival_says_how_it_failed() -> None:
    store = MemoryDatabase()
    workload = _filled(store, [1.0, 1.01, 1.02])
    _settle(store, workload, _Runner(_by_name(t0=WRONG, t1=CRASH, t2=1.0)))
    failures = {item.failure_kind: item for item in store.get_all_tuning_records() if item.failure_kind}
    assert {kind: _name(item.trace_json) for kind, item in failures.items()} == {
        "wrong_result": "t0",
        "crash": "t1",
    }
    message = failures["wrong_result"].failure_message
    assert message == "a wrong_result, when it was measured again among the fastest"


def test_behind_a_rival_that_is_wrong_all_are_checked_until_the_fastest_is_right() -> None:
    """Those behind it had passed the first part of the check only."""
    store = MemoryDatabase()
    workload = _filled(store, [1.0, 1.01, 2.0, 4.0, 8.0])
    runner = _Runner(_by_name(t0=WRONG, t1=WRONG, t2=WRONG, t3=4.0))
    assert _settle(store, workload, runner) == ("changed", 4.0)
    assert [[_name(trace) for trace in contest] for contest in runner.contests] == [
        ["t0", "t1"],
        ["t2"],
        ["t3"],
    ]
    store = MemoryDatabase()
    workload = _filled(store, [1.0, 1.01])
    assert _settle(store, workload, _Runner(_by_name(t0=WRONG, t1=WRONG))) == ("changed", float("inf"))


def _far_apart(count: int) -> dict[str, float]:
    """Times of which the first two only may be the same."""
    return {f"t{index}": 1.2**index for index in range(count)} | {"t1": 1.01}


def test_who_is_the_best_in_the_end_has_passed_the_whole_check() -> None:
    """Each contest makes its rivals slower, so that somebody who took no part is ahead after the last one."""
    store, times = MemoryDatabase(), _far_apart(16)
    workload = _filled(store, list(times.values()))
    runner = _Runner(lambda traces: [times[_name(trace)] + 100.0 for trace in traces])
    assert _settle(store, workload, runner) == ("confirmed", 101.0)
    took_part = [_name(trace) for contest in runner.contests for trace in contest]
    assert set(took_part) == set(times)
    assert [len(contest) for contest in runner.contests[:4]] == [2, 2, 2, 2]
    assert {len(contest) for contest in runner.contests[4:]} == {1}


def test_one_failure_does_not_lift_the_bound_on_contests() -> None:
    """Failures are passed over, however many there are; those that pass count."""
    store, times = MemoryDatabase(), _far_apart(60)
    workload = _filled(store, list(times.values()))
    runner = _Runner(
        lambda traces: [WRONG if _name(trace) == "t0" else times[_name(trace)] + 1e6 for trace in traces]
    )
    _settle(store, workload, runner)
    assert len(runner.contests) == 1 + 3 + 12
    store = MemoryDatabase()
    workload = _filled(store, list(times.values()))
    runner = _Runner(
        lambda traces: [times["t59"] if _name(trace) == "t59" else WRONG for trace in traces],
    )
    assert _settle(store, workload, runner) == ("changed", times["t59"])


def test_who_has_passed_the_whole_check_is_not_put_through_it_again() -> None:
    """The best of the search has; after a contest all who took part have."""
    store = MemoryDatabase()
    workload = _filled(store, [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07])
    runner = _Runner(lambda traces: [1.5 + 0.01 * place for place in range(len(traces))])
    settle(store, workload, TARGET, _Builder(), runner, confirmed={"unknown", _key(store, "t1")})
    assert runner.confirmed[0] == ["t1"]
    assert len(runner.contests) > 1
    first = {_name(trace) for trace in runner.contests[0]}
    for contest, confirmed in zip(runner.contests[1:], runner.confirmed[1:]):
        again = {_name(trace) for trace in contest} & first
        assert again and again == set(confirmed)
        first |= {_name(trace) for trace in contest}


def test_what_checking_rivals_takes_is_counted() -> None:
    class Checking(_Runner):
        def final_choice(
            self, artifacts: Sequence[Any], reference: Any = None, confirmed: Collection[int] = ()
        ) -> list[RunnerResult] | None:
            return [RunnerResult([1.0], None, check_secs=0.25) for _ in artifacts]

    store, times = MemoryDatabase(), TimeShares(check=1.0)
    workload = _filled(store, [1.0, 1.01])
    settle(store, workload, TARGET, _Builder(), Checking(_same), times=times)
    assert times.check == 1.5


def test_builders_and_runners_that_cannot_are_left_alone() -> None:
    store = MemoryDatabase()
    workload = _filled(store, [1.0, 1.05])
    assert _settle(store, workload, _Runner(_same), ReplayBuilder()) is None
    assert _settle(store, workload, ReplayRunner(lambda _: 1.0)) is None
    assert len(store) == 2


def test_killed_in_between_nothing_is_lost() -> None:
    class Killed(MemoryDatabase):
        def commit_tuning_record(self, record: TuningRecord) -> None:
            if record.remeasured and any(item.remeasured for item in self.get_all_tuning_records()):
                raise KeyboardInterrupt
            super().commit_tuning_record(record)

    store = Killed()
    workload = _filled(store, [1.0, 1.05, 1.06])
    with pytest.raises(KeyboardInterrupt):
        _settle(store, workload, _Runner(_reversed))
    assert len(store) == 4
    assert len(store.get_top_k(workload, 9)) == 3


# ------------------------------------------------------------------------------------- at the end of a session


class _Stop(MeasureCallback):
    def trial(self, task_scheduler: object, task: object, result: object) -> None:
        raise KeyboardInterrupt


def _tune(store: Database, runner: Runner, trials: int, *callbacks: MeasureCallback) -> None:
    tune_tir(
        matmul(32), "cpu", None, trials, database=store, builder=_Builder(), runner=runner, cost_model="random",
        strategy="random", num_trials_per_iter=4, measure_callbacks=callbacks,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("medians", "text"),
    [(_same, "1 confirmed, 0 changed"), (_reversed, "0 confirmed, 1 changed")],
)
def test_the_summary_counts_choices(medians: Medians, text: str) -> None:
    shown = io.StringIO()
    store, runner = MemoryDatabase(), _Runner(medians)
    _tune(store, runner, 6, PlainProgress(6, None, Console(file=shown, width=200)))
    assert len(runner.contests) == 1 and len(store) == 12
    assert text in shown.getvalue()


def test_the_first_trial_is_known_as_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def seen(*args: Any) -> Any:
        told.append(args[-1])
        return settle(*args)

    monkeypatch.setattr("tuner.scheduler.base.settle", seen)
    store = MemoryDatabase()
    tune_tir(
        matmul(32), "cpu", None, 4, database=store, builder=_Builder(), runner=_Runner(_same), cost_model="random",
        strategy="evolutionary", num_trials_per_iter=4,
    )  # fmt: skip
    assert told == [store.get_all_tuning_records()[0].trace_key]


def test_second_measurements_are_no_trials_of_a_resumed_session() -> None:
    store, runner = MemoryDatabase(), _Runner(_same)
    _tune(store, runner, 6)
    _tune(store, runner, 6)
    assert runner.count == 6 and len(runner.contests) == 1, "nothing was tried, so that nothing is chosen"
    _tune(store, runner, 9)
    assert runner.count == 9 and len(runner.contests) == 3, "nine that cannot be told apart, six at a time"
    assert sum(not item.remeasured for item in store.get_all_tuning_records()) == 9


def test_ctrl_c_ends_without_a_final_choice() -> None:
    store, runner = MemoryDatabase(), _Runner(_same)
    with pytest.raises(KeyboardInterrupt):
        _tune(store, runner, 6, _Stop())
    assert runner.contests == [] and len(store) == 1


def test_tasks_that_hardly_matter_are_left_out() -> None:
    runner, scheduler = _Runner(_same), GradientBased()
    contexts = [
        TuneContext(matmul(n), "cpu", task_name=str(n), weight=weight)
        for n, weight in ((32, 1000.0), (48, 1.0))
    ]
    tune_tasks(
        tasks=contexts, database=MemoryDatabase(), max_trials_global=12, max_trials_per_task=6, num_trials_per_iter=3,
        builder=_Builder(), runner=runner, cost_model="random", strategy="random", task_scheduler=scheduler,
    )  # fmt: skip
    assert [task.trials for task in scheduler.tasks] == [6, 6]
    assert [task.choice for task in scheduler.tasks] == ["confirmed", None]


class _Steady(_Runner):
    """All candidates take a millisecond, and each contest a second."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(self._answer)
        self._times, self._clock = (lambda _: 1e-3), clock

    def _answer(self, traces: list[Any]) -> list[float | ResultKind]:
        self._clock[0] += 1.0
        return [1e-3 for _ in traces]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still, and half a second for the final choice."""
    now = [0.0]
    monkeypatch.setattr("tuner.scheduler.base.time.monotonic", lambda: now[0])
    monkeypatch.setattr("tuner.scheduler.base._SETTLING_SECS", 0.5)
    return now


def _tune_two(
    store: Database, runner: Runner, shown: io.StringIO | None = None, **options: Any
) -> tuple[list[str | None], str]:
    """Tune a light kernel and a heavy one; the choices, and what was shown."""
    scheduler, shown = GradientBased(), shown or io.StringIO()
    contexts = [
        TuneContext(matmul(n), "cpu", task_name=f"product{n}", weight=weight)
        for n, weight in ((48, 1.0), (32, 3.0))
    ]
    tune_tasks(
        tasks=contexts, database=store, max_trials_global=12, max_trials_per_task=6, num_trials_per_iter=3, builder=_Builder(),
        runner=runner, cost_model="random", strategy="random", task_scheduler=scheduler, calibrate="never",
        measure_callbacks=[PlainProgress(12, None, Console(file=shown, width=400))], **options,
    )  # fmt: skip
    return [task.choice for task in scheduler.tasks], shown.getvalue()


def test_the_heaviest_kernels_are_settled_while_time_lasts_and_the_summary_says_so(
    clock: list[float],
) -> None:
    store = MemoryDatabase()
    choices, shown = _tune_two(store, _Steady(clock))
    assert choices == [None, "confirmed"]
    assert (
        "1 confirmed, 0 changed; settled 1 of 2 kernels, 75% of the model's time; --final-choice all (final_choice='all')"
        " comes to the others\n"
    ) in shown
    choices, shown = _tune_two(store, _Steady(clock), final_choice="all")
    assert choices == ["confirmed", "confirmed"], "although all trials are of an earlier run"
    assert "final choice 1/2: product32 confirmed\nfinal choice 2/2: product48 confirmed\n" in shown
    assert "settled 2 of 2 kernels, 100% of the model's time\n" in shown


def test_who_interrupts_a_final_choice_of_all_kernels_is_not_told_to_ask_for_it(clock: list[float]) -> None:
    class Stops(_Steady):
        def final_choice(self, *given: Any, **options: Any) -> Any:
            if self.contests:  # the heavy kernel has had its turn
                signal.raise_signal(signal.SIGINT)
            return super().final_choice(*given, **options)

    shown = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        _tune_two(MemoryDatabase(), Stops(clock), shown, final_choice="all")
    assert "1 confirmed, 0 changed; settled 1 of 2 kernels, 75% of the model's time\n" in shown.getvalue()


def test_no_final_choice_is_made_where_none_is_wanted(clock: list[float]) -> None:
    choices, shown = _tune_two(MemoryDatabase(), _Steady(clock), final_choice="never")
    assert choices == [None, None] and "in turns" not in shown
    with pytest.raises(TunerError, match="final_choice is one of auto, all, never, got 'some'"):
        _tune_two(MemoryDatabase(), _Steady(clock), final_choice="some")
