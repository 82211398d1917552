"""Which devices a process has, and that none of them is kept without need."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc")

from runners import RPCConfig, RunnerError
from runners.rpc import lending as module
from runners.rpc.device_client import ConnectionLost, LostBefore
from runners.rpc.lending import TRIES, Lending
from runners.rpc.messages import MessageError
from runners.rpc.tracker import Tracker


class Device:
    """A session that may be over."""

    def __init__(self, is_open: bool = True) -> None:
        self.is_open, self.closed = is_open, 0

    def close(self) -> None:
        self.is_open = False
        self.closed += 1


@pytest.fixture
def lending() -> Lending:
    made = Lending(RPCConfig("127.0.0.1", 1, "cpu"), patience_sec=0.1)
    return made


def lends(lending: Lending, devices: list[Device]) -> None:
    waiting = iter(devices)
    lending._acquire = lambda: next(waiting)  # type: ignore[method-assign, assignment, return-value]


def test_a_device_that_was_lost_while_it_was_idle_is_closed(lending: Lending) -> None:
    """Its channel stayed open, with two threads and a connection that gRPC makes again and again."""
    first, second = Device(), Device()
    lends(lending, [first, second])
    with lending.device() as found:
        assert found is first
    first.is_open = False
    with lending.device() as found:
        assert found is second
    assert first.closed == 1 and second.is_open
    lending.close()
    assert second.closed == 1


def test_a_device_is_given_back_after_its_turn(lending: Lending, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have waited for longer; before that, it is kept for the next piece of work."""
    first, second = Device(), Device()
    lends(lending, [first, second])
    with lending.device():
        pass
    with lending.device() as found:
        assert found is first and first.is_open
        monkeypatch.setattr(module, "TURN_SECONDS", -1.0)
    assert first.closed == 1
    with lending.device() as found:
        assert found is second


def test_what_loses_its_devices_is_given_up_after_some(lending: Lending) -> None:
    devices = [Device() for _ in range(TRIES + 1)]
    lends(lending, devices)

    def lost(device: object) -> object:
        raise ConnectionLost("the cable was pulled")

    with pytest.raises(ConnectionLost, match="3 devices were lost.*the cable was pulled"):
        lending.asked(lost)  # type: ignore[arg-type]
    assert [device.closed > 0 for device in devices] == [True] * TRIES + [False]


def test_what_never_reached_a_device_is_not_why_it_was_lost(lending: Lending) -> None:
    """A server whose disk was full made failures, which are kept for good, of all candidates."""
    lending._patience = 60.0
    devices = [Device() for _ in range(TRIES + 2)]
    lends(lending, devices)

    def ask(device: object) -> str:
        if device is not devices[-1]:
            raise LostBefore("the server failed: OSError; its log says more")
        return "measured"

    assert lending.asked(ask) == "measured"  # type: ignore[arg-type]
    lending._patience = -1.0
    devices[-1].is_open = False
    lends(lending, [Device()])
    with pytest.raises(RunnerError, match="no device of the key 'cpu': the server failed: OSError"):
        lending.asked(ask)  # type: ignore[arg-type]


def test_a_device_that_answers_nonsense_is_left_for_another(lending: Lending) -> None:
    """As one of another version may; it ended the search."""
    devices = [Device(), Device()]
    lends(lending, devices)

    def ask(device: object) -> str:
        if device is devices[0]:
            raise MessageError("a device gave a result of an unknown kind: 'fine'")
        return "measured"

    assert lending.asked(ask) == "measured"  # type: ignore[arg-type]
    assert [device.is_open for device in devices] == [False, True]
    lending.close()


class Waiting:
    """A tracker's client whose first device is lost before its session begins."""

    closed = asked = 0

    def open_device(self, key: str, priority: int, session_timeout_sec: float) -> Device:
        self.asked += 1
        if self.asked == 1:
            raise ConnectionLost("the server has just ended")
        return Device()

    def close(self) -> None:
        self.closed += 1


def test_a_device_that_is_lost_ends_nobody_elses_wait_for_one(
    lending: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All waits of a process go over one connection, which was closed, so that all lost their places in the queue."""
    tracker = Waiting()
    monkeypatch.setattr(RPCConfig, "connect_tracker", lambda _: tracker)
    with lending.device():
        assert (tracker.asked, tracker.closed) == (2, 0)
    lending.close()
    assert tracker.closed == 1


def test_a_tracker_without_devices_of_the_key_is_asked_for_a_while(tracker: Tracker) -> None:
    where = tracker.address
    lending = Lending(RPCConfig(where.host, where.port, "none such"), patience_sec=0.3)
    with pytest.raises(RunnerError, match=f"'none such': the tracker at {where} knows none; tried for 0.3"):
        lending.described()
