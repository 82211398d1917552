"""Ctrl-C that Python drops, in the callback of a weak reference or in __del__, ends a search all the same."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from database import MemoryDatabase
from runners import MeasureResult, ReplayBuilder, ReplayRunner, RunnerResult
from runners.builder import answer
from runners.outcome import Outcome
from tests.programs.expressions import matmul
from tuner import MeasureCallback, tune_tir
from tuner.interrupt import Interrupts


class _Thing:
    """Something that a weak reference can point to."""


def _lose_ctrl_c() -> None:
    """SIGINT while the callback of a weak reference runs."""
    thing = _Thing()
    kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    gc.collect()
    assert kept() is None


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)  # it is the tests that lose exceptions here


def test_python_loses_an_exception_in_a_callback_of_a_weak_reference() -> None:
    _lose_ctrl_c()  # otherwise nothing here is needed


def test_what_was_lost_is_raised_at_the_next_step_and_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        interrupts.check()
        _lose_ctrl_c()
        interrupts.check()
        pytest.fail("it was lost")
    with pytest.raises(KeyboardInterrupt), Interrupts():
        _lose_ctrl_c()
    with pytest.raises(KeyboardInterrupt), Interrupts():
        _lose_ctrl_c()
        raise ValueError("and so it went wrong")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_contexts_nest_and_what_was_heard_before_does_not_matter() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts() as outer:
        with Interrupts() as inner:
            _lose_ctrl_c()
            with pytest.raises(KeyboardInterrupt):
                inner.check()
            inner._heard = None
        outer.check()
    with Interrupts() as again:
        again.check()


def test_a_handler_of_the_user_stays_in_charge() -> None:
    heard: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            interrupts.check()
        assert heard == [signal.SIGINT] and signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            interrupts.check()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_the_exit_status_of_convention(number: signal.Signals) -> None:
    """Once: whoever asks again does not disturb the end."""
    ended: list[str] = []
    with pytest.raises(SystemExit) as leaving, Interrupts(), Interrupts():
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)
            ended.append("in order")
    assert leaving.value.code == 128 + number and ended == ["in order"]
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_request_to_end_is_not_lost_either() -> None:
    thing = _Thing()
    with pytest.raises(SystemExit) as leaving, Interrupts() as interrupts:
        kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
        del thing
        gc.collect()
        assert kept() is None
        interrupts.check()
        pytest.fail("it was lost")
    assert leaving.value.code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    """As under nohup."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(number)
            interrupts.check()
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_another_thread_hears_nothing_and_fails_at_nothing() -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with Interrupts() as interrupts:
                interrupts.check()
        except BaseException as error:  # shown below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failed


class _LosesCtrlC(MeasureCallback):
    """Ctrl-C is lost in the third trial, or when the search has ended its last one."""

    def __init__(self, at: int) -> None:
        self.at, self.trials = at, 0

    def trial(self, task_scheduler: object, task: object, result: MeasureResult) -> None:
        self.trials += 1
        if self.trials == self.at:
            _lose_ctrl_c()


def _tune(store: Any, *callbacks: MeasureCallback, runner: ReplayRunner | None = None) -> None:
    tune_tir(
        matmul(16), "cpu", None, 12, database=store, builder=ReplayBuilder(),
        runner=runner or ReplayRunner(lambda _: 1e-3),
        cost_model="random", measure_callbacks=callbacks, num_trials_per_iter=4,
    )  # fmt: skip


@pytest.mark.parametrize("at", [3, 12])
def test_a_search_ends_at_the_trial_in_which_ctrl_c_was_lost(at: int) -> None:
    store = MemoryDatabase()
    with pytest.raises(KeyboardInterrupt):
        _tune(store, _LosesCtrlC(at))
    assert len(store) == at


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_waits_for_its_check_is_recorded_when_a_search_ends(stop: type[BaseException]) -> None:
    """Two trials are measured, and wait for each other; Ctrl-C, or SIGTERM, comes in the third."""
    trials = 0

    def secs(artifact: object) -> RunnerResult:
        nonlocal trials
        trials += 1
        if trials == 3:
            raise stop
        result = RunnerResult([1e-3], None, verified=True)
        return replace(result, confirm=lambda: result)

    store = MemoryDatabase()
    with pytest.raises(stop):
        _tune(store, runner=ReplayRunner(secs))
    assert len(store) == 2


def test_an_interrupted_callback_of_a_future_is_not_logged_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the call has ended before anybody asks, its callback runs in the thread that asks, which Ctrl-C interrupts."""
    done: Future[Outcome] = Future()
    done.set_result(Outcome("returned", value=1))
    future: Future[Any] = Future()
    interrupt: Callable[[Future[Any]], None] = lambda _: signal.raise_signal(signal.SIGINT)
    future.add_done_callback(interrupt)
    with pytest.raises(KeyboardInterrupt):
        done.add_done_callback(lambda call: answer(call, future, lambda outcome: outcome.value))
    assert future.result() == 1


@pytest.fixture
def alarm() -> Iterator[list[float]]:
    """The moments at which an alarm sent SIGINT."""
    fired: list[float] = []

    def ring(number: int, frame: FrameType | None) -> None:
        fired.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGALRM, ring)
    yield fired
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_ctrl_c_at_any_moment_ends_a_search(alarm: list[float]) -> None:
    """At random moments, some of them within the libraries that a search uses."""
    delays = random.Random(0)
    begin = time.monotonic()
    _tune(MemoryDatabase())
    whole = time.monotonic() - begin
    for _ in range(25):
        alarm.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, delays.uniform(0.01, 0.95) * whole)
            _tune(MemoryDatabase())
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert not alarm, "Ctrl-C was lost"
        except KeyboardInterrupt:
            assert alarm
