"""Whole searches: replayed without measuring, really measured, interrupted, killed, and with candidates that misbehave."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cost_models import CostModelError
from database import Database, JSONDatabase, MemoryDatabase, kernel_module, open_database
from database.record import EXPECTED_SECS
from ir import IRModule, te
from ir.codegen.error import CodegenError
from ir.error import IRError
from ir.script import from_source
from ir.target import Target
from runners import MeasureResult, ReplayBuilder, ReplayRunner, ResultKind, RunnerError, RunnerResult
from runners.native import build_native
from runners.verify import VERSION
from schedules import Schedule, ScheduleError
from schedules.space import ScheduleFn
from tests.programs.expressions import matmul
from tuner import (
    ExtractedTask,
    MeasureCallback,
    ReplayTrace,
    RoundRobin,
    TuneContext,
    TunerError,
    tune_tasks,
    tune_tir,
)
from tuner.progress import PlainProgress
from tuner.state import TuningRun
from tuner.tune import contexts_of


class _Count(MeasureCallback):
    def __init__(self) -> None:
        self.kinds: list[ResultKind] = []

    def trial(self, task_scheduler: object, task: object, result: MeasureResult) -> None:
        self.kinds.append(result.kind)


def _trials(path: Path) -> int:
    return sum(not item.remeasured for item in open_database(path).get_all_tuning_records())


def test_a_search_measures_checks_and_keeps_records(tmp_path: Path) -> None:
    count = _Count()
    store = tune_tir(matmul(48), "cpu", tmp_path, 6, num_trials_per_iter=3, measure_callbacks=[count])
    records = store.get_all_tuning_records()
    assert sum(not item.remeasured for item in records) == 6 == len(count.kinds)
    assert all(item.verified for item in records if item.is_valid())
    assert all(item.versions == {"check": VERSION} for item in records if item.is_valid())
    assert any(item.is_valid() for item in records)
    for item in records:  # those measured again included
        if item.is_valid():
            assert (
                item.metrics.keys() - {EXPECTED_SECS} == {"code_size", "memory"}
                and item.metrics["code_size"] > 0
            )
    best = store.query_ir_module(matmul(48), records[0].target)
    assert best is not None


def test_records_tell_what_the_search_expected_and_runs_where_their_time_went() -> None:
    given: dict[str, Any] = {"builder": ReplayBuilder(), "runner": ReplayRunner({}, default=1e-3)}
    store = tune_tir(
        matmul(32), "cpu", None, 8, num_trials_per_iter=4, calibrate="never", measure_callbacks=[], **given
    )
    expected = [item.metrics.get(EXPECTED_SECS) for item in store.get_all_tuning_records()]
    assert expected[:4] == [None] * 4, "nothing was measured before the first batch"
    assert all(secs is not None and 1e-5 < secs < 0.1 for secs in expected[4:])
    (session,) = store.get_sessions()
    (workload,) = store.get_workloads()
    assert session.weights == {workload.shash: 1.0}
    assert list(session.phases) == ["search", "build and measure", "check", "other"]
    assert session.phases["search"] > 0 and min(session.phases.values()) >= 0


def test_the_same_command_resumes_instead_of_starting_over(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    tune_tir(matmul(32), "cpu", None, 4, database=path)
    count = _Count()
    tune_tir(matmul(32), "cpu", None, 7, database=path, measure_callbacks=[count])
    assert len(count.kinds) == 3
    assert _trials(path) == 7


def test_budgets_must_be_positive() -> None:
    with pytest.raises(TunerError, match="at least 1, got 0"):
        tune_tir(matmul(16), "cpu", None, 0)
    with pytest.raises(TunerError, match="time budget must be positive"):
        tune_tir(matmul(16), "cpu", None, 4, max_seconds=-1.0)


def test_the_time_budget_ends_a_search() -> None:
    begin = time.monotonic()
    store = tune_tir(matmul(64), "cpu", None, 100_000, num_trials_per_iter=4, max_seconds=3.0)
    assert 0 < len(store) < 100_000
    assert time.monotonic() - begin < 60


class _Slow(ReplayRunner):
    """Takes a part of the budget for each trial, and as much for each measurement of the final choice."""

    def run(self, inputs: Any) -> Any:
        time.sleep(0.1 * len(inputs))
        return super().run(inputs)


@pytest.mark.parametrize("choice", ["auto", "never"])
def test_preparing_and_the_last_batch_are_within_the_time_budget(
    choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seconds count from the call on: what is left when it is prepared are few trials and no whole batch."""
    monkeypatch.setattr("tuner.tune.pretrain", lambda *_: time.sleep(0.6))
    begin = time.monotonic()
    store = tune_tir(
        matmul(64),
        "cpu",
        None,
        1000,
        num_trials_per_iter=64,
        max_seconds=3.0,
        builder=ReplayBuilder(),
        runner=_Slow(lambda _: 1e-3),
        measure_callbacks=[],
        final_choice=choice,
    )
    assert 0 < len(store) < 30  # a batch alone has 64
    assert time.monotonic() - begin < 6.0


def test_a_time_budget_that_is_over_when_the_search_is_prepared_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tuner.tune.pretrain", lambda *_: time.sleep(0.3))
    shown = io.StringIO()
    store = tune_tir(
        matmul(16),
        "cpu",
        None,
        8,
        max_seconds=0.2,
        builder=ReplayBuilder(),
        runner=ReplayRunner(lambda _: 1e-3),
        measure_callbacks=[PlainProgress(8, 0.2, Console(file=shown, width=200))],
    )
    assert (
        len(store) == 0
        and "nothing was measured: the time of --time (max_seconds) was over" in shown.getvalue()
    )


def test_a_session_says_when_it_ended() -> None:
    store = tune_tir(matmul(16), "cpu", None, 1, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3))
    (session,) = store.get_sessions()
    assert session.finished_at is not None and session.finished_at >= session.started_at


def test_the_summary_says_why_all_trials_of_a_kernel_failed() -> None:
    shown = io.StringIO()
    tune_tir(
        matmul(16),
        "cpu",
        None,
        3,
        builder=ReplayBuilder(),
        runner=ReplayRunner(lambda _: ResultKind.CRASH),
        measure_callbacks=[PlainProgress(3, None, Console(file=shown, width=200))],
    )
    assert "all 3 trials failed: crash: recorded as crash" in shown.getvalue()


@pytest.mark.parametrize(
    ("message", "shown_as"),
    [
        (
            "undefined: A[64] [bounds]\n  at B[vi] = A[vi + 1]\n  for i = 63",
            "A[64] [bounds] at B[vi] = A[vi + 1] for i = 63",
        ),
        ("long " * 1000, "long long ..."),
    ],
)
def test_the_summary_names_the_place_of_a_failure(message: str, shown_as: str) -> None:
    shown = io.StringIO()
    tune_tir(
        matmul(16),
        "cpu",
        None,
        1,
        builder=ReplayBuilder(),
        runner=ReplayRunner(lambda _: RunnerResult(None, message, ResultKind.PROGRAM_ERROR)),
        measure_callbacks=[PlainProgress(1, None, Console(file=shown, width=1000, markup=False))],
    )
    assert shown_as in shown.getvalue() and len(shown.getvalue()) < 2000


@pytest.mark.parametrize(("trials", "said"), [(1, False), (200, True)])
def test_the_summary_says_where_more_trials_change_nothing(trials: int, said: bool) -> None:
    shown = io.StringIO()
    x = te.placeholder((4,), "float32", name="x")
    store = tune_tir(
        te.create_prim_func([x, te.compute((4,), lambda i: x[i] + 1.0)]),
        "cpu",
        None,
        trials,
        builder=ReplayBuilder(),
        runner=ReplayRunner(lambda _: 1e-3),
        measure_callbacks=[PlainProgress(trials, None, Console(file=shown, width=200))],
    )
    assert len(store) < 200
    assert ("more trials change nothing, no other candidates were found: compute" in shown.getvalue()) == said


def test_a_search_whose_trials_are_used_up_has_no_time_left() -> None:
    store = MemoryDatabase()
    for _ in range(2):
        shown = io.StringIO()
        tune_tir(
            matmul(32), "cpu", None, 2, database=store, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3), calibrate="never",
            measure_callbacks=[PlainProgress(2, None, Console(file=shown, width=200))],
        )  # fmt: skip
    assert "2/2 trials" in shown.getvalue() and ", 0s left" in shown.getvalue()


def _replayed(
    store: Database, trials: int, shown: io.StringIO, *more: MeasureCallback, **options: Any
) -> None:
    display = PlainProgress(trials, None, Console(file=shown, width=400))
    tune_tir(
        matmul(64), "cpu", None, trials, database=store, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3), cost_model="random",
        calibrate="never", num_trials_per_iter=4, measure_callbacks=[display, *more], **options,
    )  # fmt: skip


class _NothingToDo(ReplayTrace):
    """A strategy that must not begin."""

    def pre_tuning(self, *_: object) -> None:
        raise AssertionError("there is no trial left")


def test_a_budget_that_is_used_up_says_so_and_how_to_go_on() -> None:
    """Without making ready for a search that does not come."""
    store, shown = MemoryDatabase(), io.StringIO()
    _replayed(store, 8, io.StringIO())
    _replayed(store, 8, shown, strategy=_NothingToDo)
    assert (
        "nothing to measure: the database has 8 trials of earlier runs, and these are all of the 8 of --trials"
        in shown.getvalue()
    )
    assert "a larger number goes on, such as 16\n" in shown.getvalue()
    shown = io.StringIO()
    _replayed(store, 16, shown, strategy=_NothingToDo, max_trials_per_task=8)
    assert "each kernel has the 8 trials of --trials-per-task (max_trials_per_task)" in shown.getvalue()


def test_a_search_says_that_it_is_being_prepared() -> None:
    shown = io.StringIO()
    _replayed(MemoryDatabase(), 4, shown)
    assert shown.getvalue().startswith("preparing the search of one kernel\n")


@pytest.mark.parametrize("name", [None, "tuning.db"], ids=["memory", "sqlite"])
def test_two_tuners_on_one_database_share_the_budget(tmp_path: Path, name: str | None) -> None:
    """The second begins when the first has measured one candidate, and ends when there are 40 by both."""
    store = MemoryDatabase() if name is None else open_database(tmp_path / name)
    shown, own = io.StringIO(), _Count()

    class Second(MeasureCallback):
        def trial(self, *_: object) -> None:
            if len(store) == 1:
                _replayed(store, 40, io.StringIO(), strategy="replay-trace", seed=1)

    _replayed(store, 40, shown, own, Second(), strategy="replay-trace")
    assert len(own.kinds) == 4 and len(store) == 40 + 3, "the first ends with its batch"
    assert "43/40 trials" in shown.getvalue()
    assert "39 more trials came from other tuners on this database, and count\n" in shown.getvalue()


def test_a_scheduler_can_be_used_again_and_ends_its_strategies() -> None:
    ended: list[object] = []

    class Strategy(ReplayTrace):
        def post_tuning(self) -> None:
            ended.append(self.context)

    scheduler, count = RoundRobin(), _Count()
    for size in (8, 16):
        tune_tir(
            matmul(size),
            "cpu",
            None,
            2,
            builder=ReplayBuilder(),
            runner=ReplayRunner(lambda _: 1e-3),
            strategy=Strategy,
            task_scheduler=scheduler,
            measure_callbacks=[count] if size == 8 else [],
        )
    assert len(scheduler.tasks) == 1 and len(ended) == 2
    assert len(count.kinds) == 2  # told of the first run alone


def test_unknown_parts_are_refused_by_name() -> None:
    with pytest.raises(RunnerError, match="unknown builder 'cloud'; there are local"):
        tune_tir(matmul(8), "cpu", None, 1, builder="cloud")
    parts: list[tuple[dict[str, str], type[IRError], str]] = [
        (
            {"cost_model": "tree"},
            CostModelError,
            "unknown cost model 'tree'; there are mlp, prior, random, xgb",
        ),
        (
            {"strategy": "luck"},
            TunerError,
            "strategy 'luck'; there are evolutionary, optuna, .*, random, replay-trace",
        ),
        ({"task_scheduler": "lifo"}, TunerError, "scheduler 'lifo'; there are gradient, round-robin"),
        (
            {"space": "post-order"},
            ScheduleError,
            "space generator 'post-order'; there are .*post-order-apply",
        ),
    ]
    parts += [
        ({"cost_model": "xgboost"}, CostModelError, "did you mean 'xgb'"),
        ({"strategy": "evolutionry"}, TunerError, "did you mean 'evolutionary'"),
    ]
    for options, error, message in parts:
        with pytest.raises(error, match=message):
            tune_tir(matmul(8), "cpu", None, 1, builder=ReplayBuilder(), runner=ReplayRunner({}), **options)


def _tiled(sch: Schedule) -> None:
    """One structure of seven candidates, for a block with three loops."""
    _, j, _ = sch.get_loops("C")
    sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))


@pytest.mark.parametrize("space", [ScheduleFn(_tiled), _tiled])
def test_a_space_of_ones_own_is_searched(space: Any) -> None:
    """Also where the database knows kernels for which its function was not written."""
    store = MemoryDatabase()
    options: dict[str, Any] = {"database": store, "measure_callbacks": [], "calibrate": "never"}
    options |= {"builder": ReplayBuilder(), "runner": ReplayRunner(lambda _: 1e-3)}
    one_loop = te.placeholder((64,), name="A")
    other = te.create_prim_func([one_loop, te.compute((64,), lambda i: one_loop[i] + 1.0, name="C")])
    tune_tir(other, "cpu", None, 1, **options)
    tune_tir(matmul(64), "cpu", None, 32, space=space, **options)
    records = store.get_records(store.commit_workload(matmul(64)), "cpu")
    decisions = [[*item.trace.decisions.values()] for item in records if not item.remeasured]
    assert sorted(decisions) == [[[64 >> doublings, 1 << doublings]] for doublings in range(6, -1, -1)]


def test_what_is_no_list_of_contexts_names_what_makes_one() -> None:
    task = ExtractedTask("main", IRModule({"main": matmul(8)}), Target("cpu"), 1, 1.0, ["main"])
    for tasks in ([task], task, [TuneContext(matmul(8)), matmul(8)]):
        with pytest.raises(
            TunerError, match=r"tasks is a list of TuneContexts, got \w+; tuner.contexts_of\(tasks"
        ):
            tune_tasks(tasks=tasks, max_trials_global=1)  # type: ignore[arg-type]


def test_there_is_one_database(tmp_path: Path) -> None:
    with pytest.raises(TunerError, match=r"is the folder of the database, .*; leave one of them out"):
        tune_tir(matmul(8), "cpu", tmp_path, 1, database=":memory:")


@pytest.mark.parametrize("kernel", ["matmul", te.placeholder((4,), name="A")])
def test_what_is_no_kernel_is_refused(kernel: object) -> None:
    with pytest.raises(TunerError, match="a PrimFunc or an IRModule, got (str|Tensor).*create_prim_func"):
        tune_tir(kernel, "cpu", None, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameters", "line", "message"),
    [
        (
            "b: T.handle, n: T.int32",
            'B = T.match_buffer(b, (8,), "int32")',
            r"its parameter n is no tensor.*\{func.params\[1\]: 128\}",
        ),
        (
            "b: T.handle",
            'B = T.match_buffer(b, (n,), "int32")',
            r"its tensor B has the symbolic shape \(n\).*\{func.*params\[0\]\].shape\[0\]: 128\}",
        ),
    ],
)
def test_a_kernel_that_cannot_be_measured_is_refused_before_the_first_trial(
    parameters: str, line: str, message: str
) -> None:
    lines = ["from ir.script import tir as T", "@T.prim_func", f"def main({parameters}):"]
    lines += ["    n = T.int32()"] if "n" not in parameters.split(": T.handle")[1] else []
    lines += [f"    {line}", "    for i in range(n):", '        with T.block("b"):']
    lines += ['            v = T.axis.remap("S", [i])', "            B[v] = n", ""]
    with pytest.raises(TunerError, match=f"cannot be measured: {message}"):
        tune_tir(from_source("\n".join(lines)), "cpu", None, 1)


def test_kernels_that_cannot_be_measured_are_left_out() -> None:
    kernel = from_source(
        "from ir.script import tir as T\n"
        "@T.prim_func\n"
        "def scale(a: T.handle, factor: T.float32, b: T.handle):\n"
        '    A = T.match_buffer(a, (8,), "float32")\n'
        '    B = T.match_buffer(b, (8,), "float32")\n'
        "    for i in range(8):\n"
        '        with T.block("b"):\n'
        '            v = T.axis.remap("S", [i])\n'
        "            B[v] = A[v] * factor\n"
    )
    task = ExtractedTask("scale", kernel_module(kernel), Target("cpu"), 1, 0.0, ["scale"])
    assert contexts_of([task], 0) == []


_SCRIPT = """
import sys
from tests.programs.expressions import matmul
from tuner import MeasureCallback, tune_tir

class Say(MeasureCallback):
    def trial(self, scheduler, task, result):
        print("trial", flush=True)

tune_tir(matmul(64), "cpu", None, 10_000, database=sys.argv[1], num_trials_per_iter=4, measure_callbacks=[Say()])
print("went on", flush=True)
"""


def _in_a_process(script: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def _tune_in_a_process(path: Path, trials: int) -> subprocess.Popen[str]:
    """A tuner in its own process that has finished a number of trials."""
    child = _in_a_process(_SCRIPT, path)
    assert child.stdout is not None
    for _ in range(trials):
        assert child.stdout.readline().strip() == "trial"
    return child


def test_kill_9_loses_nothing_and_the_next_run_resumes(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    child = _tune_in_a_process(path, 6)
    child.kill()
    child.wait()
    kept = len(open_database(path))
    assert kept >= 6
    count = _Count()
    tune_tir(matmul(64), "cpu", None, kept + 2, database=path, measure_callbacks=[count])
    assert len(count.kinds) == 2
    assert _trials(path) == kept + 2


def test_ctrl_c_ends_the_script_with_everything_kept(tmp_path: Path) -> None:
    path = tmp_path / "tuning.db"
    child = _tune_in_a_process(path, 3)
    os.kill(child.pid, signal.SIGINT)
    printed, _ = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT  # how Python ends by a KeyboardInterrupt that nobody caught
    assert "went on" not in printed
    assert len(open_database(path)) >= 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_script_that_is_asked_to_end_does_so_in_order(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "tuning.db"
    child = _tune_in_a_process(path, 3)
    os.kill(child.pid, number)
    printed, _ = child.communicate(timeout=60)
    assert child.returncode == 128 + number and "went on" not in printed
    store = open_database(path)
    assert len(store) >= 3
    assert all(session.finished_at for session in store.get_sessions())
    assert _claims(path) == 0


def _claims(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM claims").fetchone()
    return int(count)


_SMALL_SCRIPT = """
import sys, time
from pathlib import Path
from database import open_database
from runners import ReplayBuilder, ReplayRunner
from tests.tuner.test_tune import tune_seven

def hang(artifact):
    print("trial", flush=True)
    time.sleep(600)

tune_seven(open_database(sys.argv[1]), hang)
"""


def tune_seven(store: Database, secs: Callable[[Any], float], *callbacks: MeasureCallback) -> None:
    """Search a space of seven candidates, all of which are claimed at once."""
    tune_tir(
        matmul(64), "cpu", None, 32, database=store, space=ScheduleFn(_tiled), builder=ReplayBuilder(), runner=ReplayRunner(secs),
        calibrate="never", cost_model="random", num_trials_per_iter=16, measure_callbacks=callbacks,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["tuning.db", "folder"], ids=["sqlite", "json"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_a_tuner_had_claimed_is_free_when_it_has_ended(
    tmp_path: Path, number: signal.Signals, name: str
) -> None:
    path = tmp_path / name
    (JSONDatabase(work_dir=path) if name == "folder" else open_database(path)).close()
    with _in_a_process(_SMALL_SCRIPT, path) as child:
        assert child.stdout is not None and child.stdout.readline().strip() == "trial"
        os.kill(child.pid, number)
        child.wait(timeout=60)
    store = open_database(path)
    tune_seven(store, lambda _: 1e-3)
    assert sum(not item.remeasured for item in store.get_all_tuning_records()) == 7


class _CtrlC(_Count):
    """Ctrl-C in the third trial."""

    scheduler: TuningRun | None = None

    def trial(self, task_scheduler: object, task: object, result: MeasureResult) -> None:
        super().trial(task_scheduler, task, result)
        if len(self.kinds) == 3:
            raise KeyboardInterrupt

    def finish(self, task_scheduler: TuningRun) -> None:
        self.scheduler = task_scheduler


def test_ctrl_c_reaches_the_caller_after_the_callbacks_heard_the_end() -> None:
    store, stop = MemoryDatabase(), _CtrlC()
    with pytest.raises(KeyboardInterrupt):
        tune_tir(
            matmul(16), "cpu", None, 12, database=store, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3),
            cost_model="random", measure_callbacks=[stop],
        )  # fmt: skip
    assert stop.scheduler is not None and stop.scheduler.interrupted
    assert len(store) == 3
    tune_tir(
        matmul(16), "cpu", None, 12, database=store, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3),
        cost_model="random",
    )  # fmt: skip
    assert len(store) == 12


def _misbehaving(run: Callable[..., None]) -> Callable[[Any, Any], Any]:
    """A build that replaces candidates' kernels; the reference, which is told by its flag, is built well."""

    def build(mod: Any, target: Any) -> Any:
        if any(buffer.name == "exact" for buffer in mod["main"].buffer_map.values()):
            return build_native(mod, target)
        return run

    return build


def _segfault(*arrays: object) -> None:
    ctypes.string_at(0)


def _hang(*arrays: object) -> None:
    while True:
        time.sleep(0.01)


def _leave_output(*arrays: object) -> None:
    return None


def segfault(mod: Any, target: Any) -> Any:
    """Candidates read address zero."""
    return _misbehaving(_segfault)(mod, target)


def hang(mod: Any, target: Any) -> Any:
    """Candidates never return."""
    return _misbehaving(_hang)(mod, target)


def wrong(mod: Any, target: Any) -> Any:
    """Candidates leave their output as it is."""
    return _misbehaving(_leave_output)(mod, target)


@pytest.mark.parametrize(
    ("build", "kind"), [(segfault, "crash"), (hang, "run_timeout"), (wrong, "wrong_result")]
)
def test_bad_candidates_are_recorded_and_the_tuning_goes_on(build: object, kind: str) -> None:
    from runners import LocalBuilder, LocalRunner, WorkerPool

    with WorkerPool(preload=("runners.native", "runners.candidate", "schedules", "tuner.program")) as pool:
        store = tune_tir(
            matmul(16),
            "cpu",
            None,
            3,
            builder=LocalBuilder(f_build=build, pool=pool),  # type: ignore[arg-type]
            runner=LocalRunner(timeout_sec=2.0, pool=pool),
        )
    records = store.get_all_tuning_records()
    assert len(records) == 4, "three trials, and the kernel as it was given"
    assert {item.failure_kind for item in records} == {kind}
    assert not any(item.is_valid() for item in records)


@pytest.mark.parametrize("bad", [float("nan"), 0.0, -1.0, float("inf")])
def test_a_runner_without_a_clock_costs_its_candidates_only(bad: float) -> None:
    """What is no time is a failure of its candidate, and the search goes on."""
    secs = iter([1e-3, bad, 2e-3, 3e-3, bad, 4e-3, 5e-3, 6e-3])
    store = tune_tir(
        matmul(32), "cpu", None, 8, builder=ReplayBuilder(), runner=ReplayRunner(lambda _: next(secs)), num_trials_per_iter=4,
        calibrate="never", measure_callbacks=[],
    )  # fmt: skip
    records = store.get_all_tuning_records()
    assert [item.failure_kind for item in records].count("run_error") == 2 and len(records) == 8


def test_a_target_that_this_machine_cannot_run_is_refused_before_the_first_trial() -> None:
    database = MemoryDatabase()
    with pytest.raises(CodegenError, match="code for riscv64 processors does not run on this one"):
        tune_tir(matmul(16), "llvm -mtriple=riscv64-linux-gnu", None, 4, database=database)
    assert len(database) == 0


def test_a_search_from_python_can_be_watched_and_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """What ``docs/tuning.md`` says: the command line's display by itself, silent if that is asked for, and records that say why."""
    given: dict[str, Any] = {"builder": ReplayBuilder(), "runner": ReplayRunner({})}
    tune_tir(matmul(8), "cpu", None, 1, measure_callbacks=[], **given)
    told = capsys.readouterr()
    assert told.out == told.err == ""
    tune_tir(matmul(8), "cpu", None, 1, progress=False, **given)
    assert capsys.readouterr() == ("", "")
    tune_tir(matmul(8), "cpu", None, 1, progress=True, measure_callbacks=[_Count()], **given)
    assert "1/1 trials" in capsys.readouterr().err
    db = tune_tir(matmul(8), "cpu", None, 1, **given)
    assert "1/1 trials" in capsys.readouterr().err
    record, _ = db.get_all_tuning_records()  # the trial, and the kernel as it was given
    assert record.failure_kind is not None and record.failure_message
