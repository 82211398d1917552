"""Groups of calls on machines on which it is known what happens, and races whose end is known."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import pytest

from ir.time_interval import TimeInterval
from runners import EvaluatorConfig
from runners.evaluator import PREEMPTED_SECS
from runners.sampling import CallTimer, Race, Sample, sample
from tests.runners.watches import watch_of

NOBODY = Race(None, 3.5)
BEST = Race(TimeInterval.around(1.0, 0.02), 3.5)


class Timer(CallTimer):
    """Groups take given times; what is picked between disturbances takes others, and is told from noise or not."""

    def __init__(self, groups: Sequence[float], picked: Sequence[tuple[float, bool]] = ()) -> None:
        self._groups, self._picks = iter(groups), iter(picked)

    def group(self) -> float:
        return next(self._groups)

    def picked(self) -> tuple[float, bool]:
        return next(self._picks)


def test_a_quiet_machine_is_asked_as_often_as_wanted() -> None:
    found = sample(Timer([1.0, 1.1, 1.2, 1.3, 9.0]), 4, NOBODY, watch_of([]))
    assert found == Sample((1.0, 1.1, 1.2, 1.3))


def test_after_a_disturbance_what_nothing_interrupted_is_picked() -> None:
    timer = Timer([1.0, 5.0], [(1.1, True), (1.2, True), (9.9, True)])
    assert sample(timer, 5, NOBODY, watch_of([0.0, 0.4, 0.4, 0.4])) == Sample((1.0, 1.1, 1.2))


def test_where_nothing_is_quiet_the_quietest_count_and_it_is_told() -> None:
    timer = Timer([5.0], [(secs, False) for secs in (6.0, 3.0, 4.0, 7.0, 8.0)])
    found = sample(timer, 3, NOBODY, watch_of([0.5, 0.6, 0.3, 0.4, 0.7, 0.8]))
    assert found == Sample((5.0, 3.0, 4.0), pytest.approx(0.5))


def test_one_value_is_enough_where_one_is_wanted() -> None:
    assert sample(Timer([5.0], [(1.0, True)]), 1, NOBODY, watch_of([0.5])) == Sample((1.0,))


# ---- racing ----------------------------------------------------------------------------------------------------------


def test_one_that_is_clearly_slower_is_given_up_after_a_group() -> None:
    assert sample(Timer([1.2, 1.2]), 5, BEST, watch_of([])) == Sample((1.2,))


def test_one_that_is_a_little_slower_is_given_up_when_its_repeats_agree() -> None:
    assert sample(Timer([1.06] * 5), 5, BEST, watch_of([])) == Sample((1.06,) * 2)
    spread = [1.01, 1.11, 1.01, 1.11, 1.06]
    assert sample(Timer(spread), 5, BEST, watch_of([])) == Sample(tuple(spread))


@pytest.mark.parametrize("secs", [0.5, 1.0, 1.02])
def test_one_that_may_be_the_best_is_measured_in_full(secs: float) -> None:
    assert len(sample(Timer([secs] * 5), 5, BEST, watch_of([])).times) == 5


def test_a_disturbed_group_loses_no_race() -> None:
    timer = Timer([8.0], [(8.0, False), (1.0, True), (1.0, True), (1.0, True)])
    assert sample(timer, 5, BEST, watch_of([0.5] * 5)).times == (1.0, 1.0, 1.0)


def test_nobody_is_given_up_where_all_are_to_be_measured_in_full() -> None:
    everyone = Race(BEST.best, math.inf)
    assert len(sample(Timer([100.0] * 3), 3, everyone, watch_of([])).times) == 3
    assert not everyone.far_behind(1e9)


def test_one_call_loses_by_a_multiple_beyond_a_time_slice() -> None:
    assert not BEST.far_behind(3.5) and not BEST.far_behind(3.5 + PREEMPTED_SECS)
    assert BEST.far_behind(3.6) and not BEST.far_behind(3.6, factor=3.0)
    assert BEST.far_behind(3.5 + 2e-5, slack=1e-5)
    assert not NOBODY.far_behind(1e9) and not NOBODY.is_lost([1e9])
    assert not BEST.is_lost([]), "nothing was quiet so far"


# ---- between two disturbances ----------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock that stands still unless somebody sets it."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    yield now


def timer_of(clock: list[float], calls: Sequence[tuple[float, float]]) -> CallTimer:
    """Calls of a kernel of a millisecond in groups of ten; each takes some milliseconds, and waits for so many."""
    planned, waited = iter(calls), [0.0]

    def call() -> None:
        took, waits = next(planned)
        clock[0] += took * 1e-3
        waited[0] += waits * 1e-3

    config = EvaluatorConfig(number=1, repeat=5, min_repeat_ms=10)
    return CallTimer(call, config, 1e-3, lambda: waited[0])


def test_a_whole_group_is_the_mean_of_its_calls(clock: list[float]) -> None:
    assert timer_of(clock, [(1.0, 0.0)] * 9 + [(11.0, 10.0)]).group() == pytest.approx(2e-3)


def test_calls_in_which_a_thread_waited_are_left_out(clock: list[float]) -> None:
    calls = [(4.0, 3.0), (1.0, 0.0), (1.2, 0.0), (4.0, 3.0)] + [(9.0, 0.0)] * 9
    assert timer_of(clock, calls).picked() == (pytest.approx(1.2e-3), True), "until ten milliseconds are over"


def test_most_of_what_is_left_may_have_been_done_by_fewer_threads(clock: list[float]) -> None:
    """Their waiting is told only when it ends: such calls take longer and look quiet."""
    few = [(2.0, 1.0), (2.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 0.0), (2.0, 0.0)]
    assert timer_of(clock, few).picked() == (pytest.approx(2e-3), True)
    most = [(2.0, 1.0), (1.0, 0.0), (2.0, 1.0), (2.0, 0.0), (2.0, 1.0), (2.0, 1.0)]
    assert timer_of(clock, most).picked() == (pytest.approx(1e-3), True)


def test_where_all_were_interrupted_nothing_is_clean(clock: list[float]) -> None:
    secs, clean = timer_of(clock, [(4.0, 3.0), (3.0, 2.0), (5.0, 4.0)]).picked()
    assert secs == pytest.approx(3e-3) and not clean


def test_where_waiting_is_not_known_nothing_is_clean(clock: list[float]) -> None:
    def call() -> None:
        clock[0] += 1e-3

    timer = CallTimer(call, EvaluatorConfig(min_repeat_ms=5), 1e-3, lambda: None)
    assert timer.picked() == (pytest.approx(1e-3), False)
