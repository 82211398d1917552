"""Limits: each refuses by its name what goes beyond, and nothing else."""

from __future__ import annotations

import pytest

from runners import RunnerError
from runners.rpc.fleet import Fleet, ServerRecord
from runners.rpc.limits import LimitReached, Limits, Rate, Turnstile


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_often_at_once_and_so_often_in_the_long_run() -> None:
    clock = Clock()
    rate = Rate("requests", 2.0, 3, 10, clock)
    for _ in range(3):
        rate.take("a")
    with pytest.raises(LimitReached, match="the limit requests of 2 is reached"):
        rate.take("a")
    rate.take("b")
    clock.now += 0.5
    rate.take("a")
    with pytest.raises(LimitReached):
        rate.take("a")
    clock.now += 1000.0
    for _ in range(3):
        rate.take("a")
    with pytest.raises(LimitReached):
        rate.take("a")


def test_who_was_quiet_longest_is_forgotten() -> None:
    rate = Rate("requests", 1.0, 1, 2, Clock())
    for who in "abc":
        rate.take(who)
    assert set(rate._left) == {"b", "c"}


def test_calls_at_a_time() -> None:
    gate = Turnstile(Limits(calls=3, calls_of_peer=2))
    with gate.inside("a"), gate.inside("a"):
        with pytest.raises(LimitReached, match="calls_of_peer of 2"), gate.inside("a"):
            pass
        with gate.inside("b"):
            with pytest.raises(LimitReached, match="the limit calls of 3"), gate.inside("c"):
                pass
    with gate.inside("a"), gate.inside("c"):
        pass
    assert not gate._inside


@pytest.mark.parametrize("wrong", [{"calls": 0}, {"build_seconds": float("nan")}, {"servers": "many"}])
def test_limits_are_numbers(wrong: dict[str, object]) -> None:
    with pytest.raises(RunnerError, match=next(iter(wrong))):
        Limits(**wrong)  # type: ignore[arg-type]


def test_a_fleet_has_so_many_servers_and_so_long_queues() -> None:
    fleet = Fleet()
    fleet.report(ServerRecord("a", "cpu", "a:1"), most=1)
    fleet.report(ServerRecord("a", "cpu", "a:1"), most=1)
    with pytest.raises(LimitReached, match="servers of 1"):
        fleet.report(ServerRecord("b", "cpu", "a:1"), most=1)
    fleet.wait("arm", 1, "me", most=1)
    with pytest.raises(LimitReached, match="waiting of 1"):
        fleet.wait("arm", 1, "you", most=1)


@pytest.mark.parametrize(
    "other", [ServerRecord("a", "arm", "a:1"), ServerRecord("a", "cpu", "a:1", owner="thief")]
)
def test_nobody_takes_the_name_of_anothers_server(other: ServerRecord) -> None:
    fleet = Fleet()
    known = ServerRecord("a", "cpu", "a:1", owner="me")
    fleet.report(known)
    with pytest.raises(RunnerError, match="that of another server"):
        fleet.report(other)
    assert [item for item, _ in fleet.servers()] == [known]
