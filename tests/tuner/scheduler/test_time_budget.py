"""What a run has time for."""

from __future__ import annotations

import sys
import time

import pytest

from tuner.scheduler import time_budget
from tuner.scheduler.time_budget import TimeBudget


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is; a test moves it."""
    now = [100.0]
    monkeypatch.setattr(time_budget.time, "monotonic", lambda: now[0])
    return now


def test_a_share_of_the_time_is_no_time_for_trials(clock: list[float]) -> None:
    budget = TimeBudget(10.0, 0.1, begin=time.monotonic())
    assert not budget.trials_are_over and not budget.is_over
    clock[0] = 109.5
    assert budget.trials_are_over and not budget.is_over
    clock[0] = 110.0
    assert budget.is_over


def test_a_batch_is_as_small_as_what_is_left_at_the_pace_so_far(clock: list[float]) -> None:
    budget = TimeBudget(10.0, 0.1, begin=time.monotonic())
    assert budget.fitting(0, 0.0) == 9  # a second each, before anything is known
    clock[0] = 104.0
    assert budget.fitting(8, 4.0) == 10 and budget.fitting(4, 4.0) == 5
    clock[0] = 108.9
    assert budget.fitting(8, 8.9) == 1


def test_without_a_budget_there_is_time_for_everything() -> None:
    budget = TimeBudget(None, 0.1)
    assert not budget.is_over and not budget.trials_are_over and budget.fitting(3, 1e9) == sys.maxsize
