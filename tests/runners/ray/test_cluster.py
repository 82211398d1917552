"""Which device of a cluster is asked next, without a cluster."""

from __future__ import annotations

import pytest

pytest.importorskip("ray")

from runners.error import RunnerError
from runners.ray import cluster
from runners.ray.cluster import Devices, Place

FIRST, SECOND = Place("a", 0), Place("b", 0)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until it is told otherwise."""
    told = [100.0]
    monkeypatch.setattr(cluster.time, "monotonic", lambda: told[0])
    monkeypatch.setattr(Devices, "places", lambda self: [FIRST, SECOND])
    return told


def test_each_device_is_asked_for_one_thing_at_a_time(now: list[float]) -> None:
    devices = Devices("cpu", 1.0)
    assert [devices._take(200.0), devices._take(200.0)] == [FIRST, SECOND]
    devices._give(SECOND)
    assert devices._take(200.0) == SECOND


def test_a_device_that_was_lost_is_left_alone_for_a_while(now: list[float]) -> None:
    devices = Devices("cpu", 1.0)
    devices._lose(FIRST)
    assert devices._take(200.0) == SECOND
    devices._give(SECOND)
    now[0] += cluster._AVOIDED_SECONDS + 1.0
    assert devices._take(200.0) == FIRST


def test_nobody_waits_for_ever_where_all_were_lost(now: list[float]) -> None:
    devices = Devices("cpu-zen4", 1.0)
    devices._lose(FIRST)
    devices._lose(SECOND)
    with pytest.raises(RunnerError, match="no node of the Ray cluster has had the resource 'cpu-zen4'"):
        devices._take(now[0] - 1.0)
