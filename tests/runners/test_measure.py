"""Batches of candidates: in which order they are measured, what waits for a check, and how several devices work at a time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from ir.time_interval import noise_of
from runners import (
    Builder,
    MeasureRequest,
    ResultKind,
    Runner,
    RunnerError,
    RunnerFuture,
    finished_results,
    measure_candidates,
)
from runners.builder import BuilderResult
from runners.runner import RunnerResult
from tests.programs.nodes import matmul


def done(value: Any) -> Any:
    """A future that has its result."""
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class Names(Builder):
    """Builds by doing nothing: an artifact is what was to be built."""

    def build(self, build_inputs: Any) -> list[BuilderResult]:
        return [BuilderResult(item.mod, None) for item in build_inputs]


def test_the_mean_of_the_best_candidate_is_the_mark_for_the_next() -> None:
    marks: list[float | None] = []
    noises: list[float] = []
    times = [(2.0, 4.0), (5.0, 9.0), (1.0, 1.5, 2.0), (8.0,)]

    class Run(Runner):
        def run(self, items: Any) -> list[Any]:
            marks.append(items[0].best_secs)
            noises.append(items[0].best_noise)
            return [done(RunnerResult(times[len(marks) - 1], None))]

    reference = matmul()
    requests = [MeasureRequest(matmul(), "cpu", reference) for _ in times]
    results = dict(measure_candidates(requests, Names(), Run()))
    assert marks == [None, 3.0, 3.0, 1.5]
    assert noises[1:] == pytest.approx([noise_of(times[0])] * 2 + [noise_of(times[2])])
    assert [results[number].run_secs for number in range(4)] == times


@pytest.mark.parametrize(
    ("known", "passes", "asked", "order"),
    [
        # What was wrong does not wait; what was cut does, for the one that has cut it.
        (None, "abc", "b", "ebacd"),
        (None, "ac", "ba", "ebacd"),
        (None, "", "bac", "ebacd"),
        (2.5, "abc", "b", "cebad"),
        (0.5, "abc", "", "abcde"),
    ],
)
def test_of_a_batch_the_fastest_is_checked_in_full(
    known: float | None, passes: str, asked: str, order: str
) -> None:
    times = {"a": 2.0, "b": 1.0, "c": 3.0}
    confirmed: list[str] = []

    def confirm(name: str) -> RunnerResult:
        confirmed.append(name)
        if name in passes:
            return RunnerResult([times[name]], None, verified=True)
        return RunnerResult(None, "wrong", ResultKind.WRONG_RESULT)

    class Run(Runner):
        def run(self, items: Any) -> list[Any]:
            name = items[0].artifact
            assert items[0].confirm_later
            if name == "e":
                return [done(RunnerResult(None, "wrong", ResultKind.WRONG_RESULT))]
            if name == "d":
                return [done(RunnerResult([9.0], None, cut=True))]
            return [done(RunnerResult([times[name]], None, verified=True, confirm=partial(confirm, name)))]

    reference = matmul()
    requests = [MeasureRequest(name, "cpu", reference, known) for name in "abcde"]
    results = list(measure_candidates(requests, Names(), Run()))
    assert "".join(confirmed) == asked
    wrong = {"abcde"[position] for position, result in results if not result.ok}
    assert wrong == {*asked, "e"} - set(passes)
    assert "".join("abcde"[position] for position, _ in results) == order


class _Batch(Runner):
    """Builder and runner of named candidates, which are cut where they take ten times the best time.

    ``kinds`` says what the rest of the check finds; Ctrl-C comes when the candidate ``stop_at`` is measured.
    """

    def __init__(self, times: dict[str, float], kinds: dict[str, ResultKind], stop_at: str = "") -> None:
        self.times, self.kinds, self.stop_at = times, kinds, stop_at
        self.marks: list[tuple[str, float | None]] = []

    def run(self, items: Any) -> list[Any]:
        name, best = items[0].artifact, items[0].best_secs
        if name == self.stop_at:
            raise KeyboardInterrupt
        self.marks.append((name, best))
        secs = self.times[name]
        cut = best is not None and secs > 10 * best
        confirm = None if cut else partial(self.confirm, name)
        return [done(RunnerResult([secs], None, verified=True, cut=cut, confirm=confirm))]

    def confirm(self, name: str) -> RunnerResult:
        kind = self.kinds.get(name, ResultKind.OK)
        if kind is ResultKind.OK:
            return RunnerResult([self.times[name]], None, verified=True)
        return RunnerResult(None, "a race", kind)

    def requests(self, known: float | None = None) -> list[MeasureRequest]:
        reference = matmul()
        return [MeasureRequest(name, "cpu", reference, known) for name in self.times]


@pytest.mark.parametrize("wrong", ["a", ""])
def test_a_time_that_fails_its_check_cuts_nobody(wrong: str) -> None:
    """What the wrong one had cut is measured again, against the best of those that passed."""
    batch = _Batch({"a": 1.0, "b": 30.0, "c": 25.0}, dict.fromkeys(wrong, ResultKind.WRONG_RESULT))
    results = dict(measure_candidates(batch.requests(), Names(), batch))
    assert [results[position].cut for position in range(3)] == [False, not wrong, not wrong]
    assert results[0].ok == (not wrong)
    first = [("a", None), ("b", 1.0), ("c", 1.0)]
    assert batch.marks == first + ([("b", None), ("c", 30.0)] if wrong else [])


@pytest.mark.parametrize("while_measuring", [True, False])
def test_ctrl_c_does_not_lose_what_waits_for_its_check(while_measuring: bool) -> None:
    """Whether it comes while a candidate is measured, or where the results are used: the fastest is checked before it counts."""
    times = {"a": 2.0, "b": 1.0, "c": 6.0, "d": 1.0}
    batch = _Batch(times, {"b": ResultKind.WRONG_RESULT}, stop_at="d" if while_measuring else "")
    results = measure_candidates(batch.requests(known=5.0), Names(), batch)
    found = []
    try:
        for position, result in results:
            found.append((position, result.kind))
            if not while_measuring:
                raise KeyboardInterrupt
        pytest.fail("it was lost")
    except KeyboardInterrupt as stop:
        found += [(position, result.kind) for position, result in finished_results(results, stop)]
    assert found == [(2, ResultKind.OK), (1, ResultKind.WRONG_RESULT), (0, ResultKind.OK)]


class _Devices(Runner):
    """Devices that take some time for each candidate, which is its name's number, and say how many were at work."""

    measures_elsewhere = True

    def __init__(self, count: int, secs: float = 0.02) -> None:
        self.measures_at_once = count
        self.secs = secs
        self.most = self._at_work = 0
        self.order: list[str] = []
        self._lock = threading.Lock()

    def run(self, runner_inputs: Any) -> list[RunnerFuture]:
        (item,) = runner_inputs
        with self._lock:
            self._at_work += 1
            self.most = max(self.most, self._at_work)
            self.order.append(item.artifact)
        time.sleep(self.secs)
        with self._lock:
            self._at_work -= 1
        if item.artifact == "stop":
            raise KeyboardInterrupt
        return [done(RunnerResult([float(item.artifact)], None))]


def _requests(names: Any, reference: Any = None) -> list[MeasureRequest]:
    return [MeasureRequest(str(name), "cpu", reference) for name in names]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_as_many_candidates_are_measured_at_a_time_as_there_are_devices(count: int) -> None:
    devices = _Devices(count)
    found = dict(measure_candidates(_requests(range(1, 13)), Names(), devices))
    assert devices.most == count
    assert {position: result.run_secs for position, result in found.items()} == {
        position: (position + 1.0,) for position in range(12)
    }


def test_what_is_built_first_is_measured_while_the_others_are_built() -> None:
    """And a build that fails comes when it does."""
    builds: dict[str, Future[BuilderResult]] = {}
    devices = _Devices(1, secs=0.0)

    class Slow(Builder):
        def build(self, build_inputs: Any) -> list[BuilderResult]:
            raise AssertionError("submit has taken its place")

        def submit(self, build_inputs: Any) -> list[Future[BuilderResult]]:
            builds.update({item.mod: Future() for item in build_inputs})
            builds["3"].set_result(BuilderResult("3", None))
            return list(builds.values())

    results = measure_candidates(_requests("123"), Slow(), devices)
    assert next(results)[0] == 2
    builds["1"].set_result(BuilderResult(None, "no such instruction"))
    position, failed = next(results)
    assert (position, failed.kind) == (0, ResultKind.BUILD_ERROR)
    builds["2"].set_result(BuilderResult("2", None))
    assert [position for position, _ in results] == [1]
    assert devices.order == ["3", "2"]


def test_a_runner_of_this_machine_waits_for_all_builds() -> None:
    builds = [done(BuilderResult("1", None)), Future()]

    class Slow(Names):
        def submit(self, build_inputs: Any) -> list[Future[BuilderResult]]:
            assert len(list(build_inputs)) == 2
            return builds

    devices = _Devices(1, secs=0.0)
    devices.measures_elsewhere = False
    results = measure_candidates(_requests("12"), Slow(), devices)
    timer = threading.Timer(0.1, lambda: builds[1].set_result(BuilderResult("2", None)))
    timer.start()
    begin = time.monotonic()
    assert next(results)[0] == 0 and time.monotonic() - begin > 0.09


def test_ctrl_c_waits_for_what_is_being_measured() -> None:
    devices = _Devices(4, secs=0.05)
    results = measure_candidates(_requests(range(1, 9)), Names(), devices)
    found = [next(results)]
    found += finished_results(results, KeyboardInterrupt())
    # Two rounds of four at most: what was not begun when it came is not measured.
    assert len(found) == len(devices.order) < 8
    assert all(result.run_secs == (position + 1.0,) for position, result in found)


def test_a_stop_on_one_device_loses_nothing_of_the_others() -> None:
    devices = _Devices(3)
    results = measure_candidates(_requests(["1", "stop", "3"]), Names(), devices)
    found = []
    with pytest.raises(KeyboardInterrupt):
        found += results
    assert sorted(position for position, _ in found) == [0, 2]


def test_an_error_of_a_runner_on_several_devices_is_raised() -> None:
    class Wrong(_Devices):
        def run(self, runner_inputs: Any) -> list[RunnerFuture]:
            return []

    with pytest.raises(RunnerError, match="gives a RunnerFuture for each candidate"):
        list(measure_candidates(_requests("12"), Names(), Wrong(2)))
