"""The rules of a tracker: who gets which device, and what is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.rpc.fleet import PATIENCE_SECONDS, RESERVED_SECONDS, Fleet, ServerRecord, ServerState


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fleet(clock: Clock) -> Fleet:
    return Fleet(clock)


def server(
    name: str, key: str = "cpu", state: ServerState = ServerState.FREE, **told: object
) -> ServerRecord:
    return ServerRecord(name, key, f"{name}:1", state, **told)  # type: ignore[arg-type]


def test_a_free_device_is_granted_at_once(fleet: Fleet) -> None:
    announced: list[tuple[str, str]] = []
    record = server("a")
    record.announce = lambda ticket, client: announced.append((ticket, client))
    fleet.report(record)
    waiting = fleet.wait("cpu", 1, "me")
    assert waiting.grant is not None and waiting.grant.address == "a:1" and waiting.changed.is_set()
    assert announced == [(waiting.grant.ticket, "me")]
    assert fleet.wait("cpu", 1, "another").grant is None


def test_keys_are_apart(fleet: Fleet) -> None:
    fleet.report(server("a", "arm"))
    assert fleet.wait("cpu", 9, "me").grant is None
    assert fleet.wait("arm", 1, "me").grant is not None


def test_the_higher_priority_goes_first_and_then_who_came_before(fleet: Fleet) -> None:
    clients = [
        fleet.wait("cpu", priority, name) for name, priority in (("a", 1), ("b", 5), ("c", 5), ("d", 1))
    ]
    assert [item.ahead for item in clients] == [2, 0, 1, 3]
    order = []
    for number in range(4):
        fleet.report(server(f"s{number}"))
        order += [item.client for item in clients if item.grant is not None and item.client not in order]
    assert order == ["b", "c", "a", "d"]


def test_places_in_the_queue_are_told(fleet: Fleet) -> None:
    first, second = (fleet.wait("cpu", 1, name) for name in "ab")
    second.changed.clear()
    fleet.leave(first)
    assert second.ahead == 0 and second.changed.is_set()
    fleet.report(server("s"))
    assert first.grant is None and second.grant is not None


def test_a_busy_device_is_granted_when_it_is_free(fleet: Fleet) -> None:
    fleet.report(server("s", state=ServerState.BUSY, client="old", ticket="t"))
    waiting = fleet.wait("cpu", 1, "me")
    assert waiting.grant is None
    fleet.report(server("s"))
    assert waiting.grant is not None


def test_a_report_that_was_under_way_does_not_take_a_grant_back(fleet: Fleet, clock: Clock) -> None:
    fleet.report(server("s"))
    first = fleet.wait("cpu", 1, "me")
    second = fleet.wait("cpu", 1, "another")
    fleet.report(server("s"))  # it was sent before the ticket came
    assert first.grant is not None and second.grant is None
    clock.now += RESERVED_SECONDS + 1
    fleet.report(server("s"))  # by now the server has heard of it, and its client did not come
    assert second.grant is not None


def test_a_server_that_knew_of_its_client_is_free_when_it_says_so(fleet: Fleet) -> None:
    fleet.report(server("s"))
    first = fleet.wait("cpu", 1, "me")
    second = fleet.wait("cpu", 1, "another")
    assert first.grant is not None
    fleet.report(server("s", state=ServerState.RESERVED, client="me", ticket=first.grant.ticket))
    fleet.report(server("s"))
    assert second.grant is not None


def test_a_client_that_came_and_went_between_two_reports_is_gone(fleet: Fleet) -> None:
    """The device was kept for it for another twelve seconds."""
    fleet.report(server("s"))
    first = fleet.wait("cpu", 1, "me")
    second = fleet.wait("cpu", 1, "another")
    assert first.grant is not None and second.grant is None
    fleet.report(server("s", sessions=1))
    assert second.grant is not None


def test_after_a_restart_of_the_tracker_servers_tell_whose_they_are(fleet: Fleet) -> None:
    fleet.report(server("s", state=ServerState.BUSY, client="old", ticket="t", sessions=3))
    (record, _), *_ = fleet.servers()
    assert (record.client, record.state, record.sessions) == ("old", ServerState.BUSY, 3)
    assert fleet.wait("cpu", 1, "me").grant is None


def test_silent_servers_are_forgotten(fleet: Fleet, clock: Clock) -> None:
    fleet.report(server("a"))
    clock.now += PATIENCE_SECONDS - 1
    fleet.report(server("b"))
    clock.now += 2
    assert fleet.forget_silent() == ["a"]
    assert [record.name for record, _ in fleet.servers()] == ["b"]


def test_a_connection_that_ended_does_not_take_its_successor_along(fleet: Fleet) -> None:
    old, new = server("s"), server("s")
    fleet.report(old)
    fleet.report(new)
    fleet.forget(old)
    assert [record for record, _ in fleet.servers()] == [new]
    fleet.forget(new)
    assert fleet.servers() == []


def test_devices_take_turns(fleet: Fleet) -> None:
    fleet.report(server("worn", busy_secs=100.0))
    fleet.report(server("rested", busy_secs=1.0))
    waiting = fleet.wait("cpu", 1, "me")
    assert waiting.grant is not None and waiting.grant.server == "rested"


def test_who_looks_sees_queues_in_order(fleet: Fleet, clock: Clock) -> None:
    fleet.wait("cpu", 1, "low")
    clock.now += 5
    fleet.wait("cpu", 2, "high")
    fleet.wait("arm", 1, "other")
    shown = {key: [(item.client, secs) for item, secs in queue] for key, queue in fleet.queues().items()}
    assert shown == {"arm": [("other", 0.0)], "cpu": [("high", 0.0), ("low", 5.0)]}


actions = st.lists(
    st.tuples(
        st.sampled_from(["wait", "free", "busy", "gone", "leave"]), st.integers(0, 4), st.integers(0, 2)
    ),
    max_size=40,
)


@given(actions)
def test_no_device_has_two_clients_and_none_idles_while_somebody_waits(steps) -> None:
    """Whatever comes in whatever order."""
    clock = Clock()
    fleet = Fleet(clock)
    clients, owners, records = [], {}, {}
    for what, number, priority in steps:
        clock.now += RESERVED_SECONDS + 1  # no report is under way
        name = f"s{number}"
        if what == "wait":
            clients.append(fleet.wait("cpu", priority, f"c{len(clients)}"))
        elif what == "leave" and clients:
            fleet.leave(clients[number % len(clients)])
        elif what == "gone" and name in records:
            fleet.forget(records.pop(name))
            owners.pop(name, None)
        elif what in ("free", "busy"):
            owners.pop(name, None)
            records[name] = server(name, state=ServerState(what))
            fleet.report(records[name])
        for item in clients:
            if item.grant is not None and item.grant.ticket not in owners.values():
                if item.grant.server in records and records[item.grant.server].ticket == item.grant.ticket:
                    assert item.grant.server not in owners
                    owners[item.grant.server] = item.grant.ticket
        free = [record for record, _ in fleet.servers() if record.state is ServerState.FREE]
        assert not (free and fleet.queues())


def test_the_device_that_was_used_least_is_next(fleet: Fleet) -> None:
    """Whatever they are called, and in whichever order they came."""
    for name, busy_secs in (("a", 30.0), ("b", 10.0), ("c", 20.0)):
        fleet.report(server(name, busy_secs=busy_secs))
    grants = [fleet.wait("cpu", 1, "me").grant for _ in range(3)]
    assert [grant.server for grant in grants if grant is not None] == ["b", "c", "a"]
