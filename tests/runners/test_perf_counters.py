"""Counters of the processor: what can be counted is, and what cannot has a reason."""

from __future__ import annotations

import errno
import re

import pytest

from runners import perf_counters
from runners.perf_counters import EVENTS, count_events


def test_every_event_is_counted_or_refused_with_a_reason() -> None:
    made: list[int] = []
    counts = count_events(lambda: made.append(sum(range(100_000))))
    assert len(made) == 1
    assert counts.values.keys() | counts.refused.keys() == set(EVENTS)
    assert not counts.values.keys() & counts.refused.keys()
    assert all(value >= 0 for value in counts.values.values())
    assert all(counts.refused.values())


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errno.EACCES, "does not allow it .*perf_event_paranoid"),
        (errno.EPERM, "CAP_PERFMON"),
        (errno.ENOSYS, "has no perf_event_open"),
        (errno.ENOENT, "does not offer it"),
    ],
)
def test_a_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch, error: int, says: str) -> None:
    monkeypatch.setattr(perf_counters, "_open", lambda *_: -error)
    monkeypatch.setattr(perf_counters.platform, "machine", lambda: "x86_64")
    counts = count_events(lambda: None)
    assert counts.values == {}
    (reason,) = counts.reasons()
    assert reason.startswith("cycles, instructions") and re.search(says, reason)


def test_elsewhere_than_on_linux_the_call_is_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_counters.platform, "system", lambda: "Darwin")
    made: list[int] = []
    counts = count_events(lambda: made.append(1))
    assert made == [1] and counts.refused.keys() == set(EVENTS) and "Linux" in counts.reasons()[0]
