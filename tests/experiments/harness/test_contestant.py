"""Contestants live in processes of their own, take turns, and a failure is a result."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from experiments.harness.child import Ready, measure_round, seconds_of
from experiments.harness.contestant import (
    PROCESSES,
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


def counter(folder: str, milliseconds: float) -> Ready:
    """A contestant whose processes each write a byte per call into a file of their own."""
    descriptor = os.open(Path(folder, str(os.getpid())), os.O_CREAT | os.O_WRONLY)

    def call() -> None:
        os.write(descriptor, b".")
        time.sleep(milliseconds / 1e3)

    return Ready(call)


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


@pytest.mark.parametrize(("short", "processes"), [(0.5, PROCESSES), (0.0, 1)])
def test_short_calls_are_timed_in_several_processes(
    tmp_path: Path, short: float, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "experiments.harness.contestant.SHORT_SECONDS", short
    )  # a busy machine has no short calls
    job = Job("it", f"{HERE}:counter", {"folder": str(tmp_path), "milliseconds": 0.0})
    with start([job]) as (contestant,):
        before = {path: path.stat().st_size for path in tmp_path.iterdir()}
        for _ in range(PROCESSES):
            assert contestant.turn() is not None
    assert len(before) == processes
    assert all(path.stat().st_size > size for path, size in before.items())


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


def test_calls_are_timed() -> None:
    assert 0.005 <= seconds_of(lambda: time.sleep(0.005)) < 0.25
    found = measure_round(Ready(lambda: time.sleep(0.01)), 3)
    assert found["min_secs"] >= 0.01
    assert (
        found["others"] >= 0.0
    )  # counted in ticks of the system's clock, of which a short round may catch too many
