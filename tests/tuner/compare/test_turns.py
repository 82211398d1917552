"""Who takes turns, and that a contestant that runs for seconds is called once."""

from __future__ import annotations

import time

import pytest

from tuner.compare import turns
from tuner.compare.turns import Contestant, take_turns


class Counted:
    """A contestant of a given duration that counts its calls."""

    def __init__(self, name: str, secs: float) -> None:
        self.calls = 0
        self.entry = Contestant(name, self)
        self._secs = secs

    def __call__(self) -> None:
        self.calls += 1
        time.sleep(self._secs)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_ROUND_SECONDS", 0.004)
    monkeypatch.setattr(turns, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(turns, "_SLOW_SECONDS", 0.05)


def test_a_slow_contestant_is_called_once() -> None:
    fast, slow = Counted("fast", 1e-3), Counted("slow", 0.06)
    times = take_turns([fast.entry, slow.entry], rounds=3)
    assert slow.calls == 1 and times["slow"].median >= 0.06
    assert fast.calls > 3 and times["fast"].median < 0.05


def test_a_slow_call_that_was_made_already_is_not_repeated() -> None:
    slow = Counted("slow", 0.06)
    times = take_turns([slow.entry], rounds=3, first_calls={"slow": 17.8})
    assert slow.calls == 0 and times["slow"].median == 17.8
