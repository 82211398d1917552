"""A tracker over connections: servers that report, clients that leave, and too much of either."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import grpc
import pytest

from runners.rpc import fleet
from runners.rpc import registration as module
from runners.rpc.connection import Address, open_channel
from runners.rpc.desk import SessionDesk
from runners.rpc.device_service import DeviceFacts
from runners.rpc.proto import tracker_pb2 as pb
from runners.rpc.proto import tracker_pb2_grpc
from runners.rpc.registration import Registration
from runners.rpc.tracker import Tracker
from runners.rpc.tracker_client import TrackerClient
from tests.runners.rpc.conftest import LOOPBACK


@pytest.fixture
def own() -> Iterator[Tracker]:
    with Tracker(LOOPBACK) as made:
        yield made


def becomes(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return what()


def report(name: str, key: str = "cpu") -> pb.ServerReport:
    return pb.ServerReport(device={"key": key, "name": name}, address="127.0.0.1:1", state=pb.FREE)


def refused(tracker: Tracker, reports: list[pb.ServerReport]) -> tuple[grpc.StatusCode, str]:
    with open_channel(tracker.address) as channel:
        try:
            for _ in tracker_pb2_grpc.TrackerStub(channel).Serve(iter(reports)):
                pass
        except grpc.RpcError as error:
            return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def test_a_server_to_which_nothing_happens_reports_all_the_same(
    own: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is silent is forgotten."""
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.02)
    facts = DeviceFacts("cpu", "s", "cpu", "none", "{}", "0", 1)
    made = Registration(own.address, facts, Address("127.0.0.1", 1), SessionDesk(True))
    assert made.registered.wait(20)
    (first, _), *_ = own.fleet.servers()
    assert becomes(lambda: own.fleet.servers()[0][0].heard > first.heard)
    made.close()
    assert becomes(lambda: not own.fleet.servers())


def test_a_client_that_waits_no_longer_is_out_of_the_queue(own: Tracker) -> None:
    client = TrackerClient(own.address)
    assert client.acquire("cpu", timeout_sec=0.3) is None
    assert becomes(lambda: not own.fleet.queues())
    client.close()


def test_a_server_whose_connection_ends_is_forgotten_at_once(
    own: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "PATIENCE_SECONDS", 1e6)
    assert refused(own, [report("s")]) == (grpc.StatusCode.OK, "")
    assert becomes(lambda: not own.fleet.servers())


def test_a_server_with_very_short_sessions_stays_known(own: Tracker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes in a moment is one report, and no reason to be refused for too many of them."""
    ends: list[object] = []
    monkeypatch.setattr(Registration, "_tell", lambda self, error: ends.append(error))
    facts = DeviceFacts("cpu", "s", "cpu", "none", "{}", "0", 1)
    desk = SessionDesk(False, lambda: made.changed())
    made = Registration(own.address, facts, Address("127.0.0.1", 1), desk)
    assert made.registered.wait(20)
    for _ in range(1500):
        desk.end(desk.open("", "me", 0.0))
        time.sleep(0.001)  # reports are read one by one
    assert becomes(lambda: own.fleet.servers()[0][0].sessions == 1500)
    assert not ends and made.registered.is_set()
    made.close()


def test_a_server_has_one_name(own: Tracker) -> None:
    status, text = refused(own, [report("s"), report("other")])
    assert status is grpc.StatusCode.INVALID_ARGUMENT and "'s' became 'other'" in text
    status, text = refused(own, [report("s"), report("s", "arm")])
    assert status is grpc.StatusCode.INVALID_ARGUMENT


def test_a_server_that_reports_without_end_is_let_go(own: Tracker) -> None:
    status, text = refused(own, [report("s")] * 2000)
    assert status is grpc.StatusCode.RESOURCE_EXHAUSTED and "reports_per_second" in text
