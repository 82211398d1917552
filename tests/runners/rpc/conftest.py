"""A tracker with two servers in this process, which the tests of this folder share."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

pytest.importorskip("grpc")

from runners.rpc.config import RPCConfig
from runners.rpc.connection import Address
from runners.rpc.server import Server
from runners.rpc.session import RPCSession, connect
from runners.rpc.tracker import Tracker

LOOPBACK = Address("127.0.0.1", 0)


@pytest.fixture(scope="session")
def tracker() -> Iterator[Tracker]:
    with Tracker(LOOPBACK) as made:
        yield made


@pytest.fixture(scope="session")
def servers(tracker: Tracker) -> Iterator[list[Server]]:
    """Two, with a worker each."""
    with (
        Server("cpu", LOOPBACK, tracker.address, workers=1) as first,
        Server("cpu", LOOPBACK, tracker.address, workers=1) as second,
    ):
        assert first.wait_registered(30) and second.wait_registered(30)
        yield [first, second]


@pytest.fixture
def config(tracker: Tracker, servers: list[Server]) -> RPCConfig:
    return RPCConfig(tracker.address.host, tracker.address.port, "cpu")


@pytest.fixture(scope="session")
def lone_server() -> Iterator[Server]:
    """One without a tracker."""
    with Server("lone", LOOPBACK, workers=1) as made:
        yield made


@pytest.fixture
def remote(lone_server: Server) -> Iterator[RPCSession]:
    """A session with it."""
    with connected(lone_server) as made:
        yield made


def connected(server: Server, session_timeout: float = 0.0) -> RPCSession:
    """A session with a server, which may still be ending another one."""
    end = time.monotonic() + 10
    while server.desk.state().is_busy and time.monotonic() < end:
        time.sleep(0.005)
    return connect(server.address.host, server.address.port, session_timeout=session_timeout)
