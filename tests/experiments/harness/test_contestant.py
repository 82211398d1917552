"""Contestants live in processes of their own, take turns, and a failure is a result."""

from __future__ import annotations

import time

import pytest

from experiments.harness.child import Ready, calls_per_round, measure_round
from experiments.harness.contestant import (
    Contestant,
    Job,
    Round,
    median_ms,
    ratio,
    run_job,
    start,
    summary,
    take_turns,
)

HERE = "tests.experiments.harness.test_contestant"


def sleeper(milliseconds: float) -> Ready:
    """A contestant whose call takes a known time."""
    return Ready(lambda: time.sleep(milliseconds / 1e3), {"asked_ms": milliseconds})


def job_with_a_result(value: int) -> dict[str, int]:
    print("libraries print what they like")
    return {"twice": 2 * value}


def broken() -> Ready:
    raise LookupError("there is no such kernel")


def dies() -> Ready:
    raise SystemExit(3)


def test_turns_and_ratios() -> None:
    jobs = [Job(f"{ms} ms", f"{HERE}:sleeper", {"milliseconds": ms}) for ms in (2, 20)]
    with start(jobs) as (short, long):
        assert short.failed is None, short.log()
        for contestant in (short, long):
            turn = contestant.turn()
            assert turn is not None
            contestant.rounds = [turn]
        assert 1 < ratio(long, short) <= 10.5
        found = summary([short, long], short)
    assert found["20 ms"]["asked_ms"] == 20 and found["20 ms"]["ratio"] > 1
    assert found["2 ms"]["min_ms"] >= 2


def test_a_plain_result() -> None:
    assert run_job(Job("job", f"{HERE}:job_with_a_result", {"value": 21})) == {"twice": 42}


@pytest.mark.parametrize(
    ("function", "says"), [("broken", "no such kernel"), ("dies", "SystemExit"), ("missing", "missing")]
)
def test_a_failure_is_a_result(function: str, says: str) -> None:
    with start([Job("it", f"{HERE}:{function}")]) as (contestant,):
        assert contestant.failed is not None and says in contestant.failed
    with pytest.raises(RuntimeError, match=says):
        run_job(Job("it", f"{HERE}:{function}"))


def test_medians_are_over_rounds() -> None:
    ours, peer = (Contestant.__new__(Contestant) for _ in range(2))
    ours.rounds = [Round(secs, secs, 0.0) for secs in (1.0, 2.0, 4.0)]
    peer.rounds = [Round(secs, secs, 0.0) for secs in (2.0, 6.0, 4.0)]
    assert median_ms(ours) == 2000.0
    assert ratio(peer, ours) == 2.0  # of 2, 3 and 1


class _Planned(Contestant):
    """Answers with planned rounds."""

    def __init__(self, name: str, rounds: list[Round]) -> None:
        self.name, self.failed, self.rounds, self._planned = name, None, [], iter(rounds)

    def turn(self) -> Round | None:
        return next(self._planned)


def test_a_round_in_which_anybody_was_disturbed_is_run_again_for_all() -> None:
    first = _Planned("a", [Round(secs, secs, 0.0) for secs in (1.0, 2.0, 3.0)])
    second = _Planned(
        "b", [Round(secs, secs, others) for secs, others in ((4.0, 0.05), (5.0, 0.4), (6.0, 0.0))]
    )
    assert take_turns([first, second], 2) == 0.05
    assert [turn.secs for turn in first.rounds] == [1.0, 3.0]
    assert [turn.secs for turn in second.rounds] == [4.0, 6.0]


def test_where_it_is_never_quiet_it_is_told() -> None:
    shares = (0.9, 0.3, 0.5, 0.2)
    contestant = _Planned("a", [Round(share, share, share) for share in shares])
    assert take_turns([contestant], 2) == 0.3
    assert [turn.others for turn in contestant.rounds] == [0.3, 0.2]


def test_rounds_are_filled() -> None:
    assert 1 < calls_per_round(lambda: time.sleep(0.005)) <= 40
    assert calls_per_round(lambda: time.sleep(0.25)) == 1
    found = measure_round(lambda: time.sleep(0.01), 3)
    assert found["min_secs"] >= 0.01
    assert (
        found["others"] >= 0.0
    )  # counted in ticks of the system's clock, of which a short round may catch too many
