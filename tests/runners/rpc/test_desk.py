"""Whose a device is."""

from __future__ import annotations

import threading
import time

import pytest

from runners.rpc.desk import TICKET_SECONDS, DeviceTaken, SessionDesk, SessionOver


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_client_at_a_time() -> None:
    changes: list[int] = []
    desk = SessionDesk(by_ticket=False, changed=lambda: changes.append(1))
    session = desk.open("", "me", 0.0)
    with pytest.raises(DeviceTaken, match="in a session of me"):
        desk.open("", "another", 0.0)
    assert desk.of(session.token) is session and desk.state().is_busy and desk.state().client == "me"
    desk.end(session)
    with pytest.raises(SessionOver):
        desk.of(session.token)
    assert desk.open("", "another", 0.0).token != session.token
    assert desk.state().sessions == 2 and len(changes) == 3


def test_ending_twice_ends_nobody_elses_session() -> None:
    desk = SessionDesk(by_ticket=False)
    first = desk.open("", "me", 0.0)
    desk.end(first)
    second = desk.open("", "another", 0.0)
    desk.end(first)
    assert desk.of(second.token) is second


def test_with_a_tracker_only_the_announced_client_gets_in() -> None:
    clock = Clock()
    desk = SessionDesk(by_ticket=True, clock=clock)
    with pytest.raises(DeviceTaken, match="ask that for it"):
        desk.open("", "me", 0.0)
    desk.expect("ticket", "me")
    assert (desk.state().ticket, desk.state().is_busy) == ("ticket", False)
    with pytest.raises(DeviceTaken, match="kept for me"):
        desk.open("forged", "thief", 0.0)
    desk.end(desk.open("ticket", "me", 0.0))
    with pytest.raises(DeviceTaken):
        desk.open("ticket", "me", 0.0)  # once
    desk.expect("late", "me")
    clock.now += TICKET_SECONDS + 1
    assert desk.state().ticket == ""
    with pytest.raises(DeviceTaken):
        desk.open("late", "me", 0.0)


def test_a_client_that_is_faster_than_its_ticket_waits() -> None:
    desk = SessionDesk(by_ticket=True)
    desk.expect("older", "another")
    timer = threading.Timer(0.1, desk.expect, ("ticket", "me"))
    timer.start()
    assert desk.open("ticket", "me", 0.0, patience_sec=10.0).client == "me"
    begin = time.monotonic()
    with pytest.raises(DeviceTaken):
        desk.open("forged", "thief", 0.0, patience_sec=0.05)
    assert time.monotonic() - begin < 5.0
    timer = threading.Timer(0.1, desk.close)
    timer.start()
    with pytest.raises(DeviceTaken, match="shut down"):
        desk.open("late", "me", 0.0, patience_sec=10.0)


def test_silence_ends_with_a_call() -> None:
    desk = SessionDesk(by_ticket=False)
    session = desk.open("", "me", 5.0)
    session.last_call -= 6.0
    assert session.is_silent
    with session.answering():
        assert not session.is_silent
    assert not session.is_silent
    desk.end(session)
    session = desk.open("", "me", 0.0)
    session.last_call -= 1e6
    assert not session.is_silent


def test_closing_ends_the_session() -> None:
    desk = SessionDesk(by_ticket=False)
    session = desk.open("", "me", 0.0)
    desk.close()
    assert session.over.is_set()
    with pytest.raises(DeviceTaken, match="shut down"):
        desk.open("", "me", 0.0)


def test_tokens_are_compared_whole() -> None:
    desk = SessionDesk(by_ticket=False)
    session = desk.open("", "me", 0.0)
    for token in ("", session.token[:-1], session.token + "0", "0" * 32, "\u00fc"):
        with pytest.raises(SessionOver):
            desk.of(token)


def test_a_call_that_comes_behind_the_end_of_its_session_is_not_answered() -> None:
    """It was found to be the session's, and then the device was given to somebody else."""
    desk = SessionDesk(by_ticket=False)
    session = desk.open("", "me", 0.0)
    found = desk.of(session.token)
    desk.end(session)
    with pytest.raises(SessionOver), found.answering():
        raise AssertionError("it is answered")
    assert found.calls == 0
