"""A client's session with a device: contents, and what becomes of it when the connection ends."""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc
import pytest

from runners.kernel_code import ProgramText, digest
from runners.rpc.device_client import ConnectionLost, DeviceClient, LostBefore, RequestRefused
from runners.rpc.server import Server
from tests.programs.nodes import matmul


@pytest.fixture
def client(lone_server: Server) -> Iterator[DeviceClient]:
    end = time.monotonic() + 20
    while lone_server.desk.state().is_busy and time.monotonic() < end:
        time.sleep(0.005)
    with DeviceClient(lone_server.address) as made:
        yield made


def test_a_content_that_has_made_room_for_others_is_sent_again(
    client: DeviceClient, lone_server: Server
) -> None:
    text = ProgramText.of(matmul()).data
    assert client.build(text, "cpu", 30.0).kind == "ok"
    lone_server._contents._sizes.clear()
    assert client.build(text, "cpu", 30.0).kind == "ok"


def test_what_came_as_another_content_is_not_taken(client: DeviceClient, lone_server: Server) -> None:
    key = lone_server._contents.add(b"code")
    assert client.fetch(key) == b"code"
    lone_server._contents.path(key).write_bytes(b"edoc")
    with pytest.raises(ConnectionLost, match="is something else"):
        client.fetch(key)


def test_a_session_whose_connection_was_lost_is_over(client: DeviceClient, lone_server: Server) -> None:
    lone_server.desk.end(lone_server.desk.of(dict(client._metadata)["loopsmith-session"]))
    with pytest.raises(ConnectionLost, match="session is over"):
        client.build(b"{}", "cpu", 1.0)
    assert not client.is_open


class Gone(grpc.RpcError):
    """An answer of gRPC."""

    def __init__(self, status: grpc.StatusCode) -> None:
        self._status = status

    def code(self) -> grpc.StatusCode:
        return self._status

    def details(self) -> str:
        return "says gRPC"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, ConnectionLost),
        (grpc.StatusCode.DEADLINE_EXCEEDED, ConnectionLost),
        (grpc.StatusCode.INTERNAL, ConnectionLost),
        (grpc.StatusCode.ABORTED, LostBefore),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, RequestRefused),
        (grpc.StatusCode.INVALID_ARGUMENT, RequestRefused),
    ],
)
def test_after_a_lost_connection_the_session_is_given_up_and_after_a_refusal_it_goes_on(
    client: DeviceClient, status: grpc.StatusCode, kind: type[Exception]
) -> None:
    def gone(*_: object, **__: object) -> object:
        raise Gone(status)

    with pytest.raises(kind, match="says gRPC"):
        client.call(gone, None, 1.0)
    assert client.is_open is (kind is RequestRefused)


def test_a_device_that_cannot_keep_a_content_is_lost_before_it_was_asked(
    client: DeviceClient, lone_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lone_server._contents, "write", full)
    with pytest.raises(LostBefore, match="the server failed: OSError"):
        client.build(b'{"new": 1}', "cpu", 5.0)
    assert not client.is_open
    with pytest.raises(LostBefore, match="session is over"):
        client.describe()


def test_a_full_disk_is_no_fault_of_what_was_built(
    client: DeviceClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another device is asked, and the program keeps its three attempts."""

    def full(dir: object) -> tuple[int, str]:
        raise OSError(28, "No space left on device")

    program = ProgramText.of(matmul(3, 4, 5)).data
    client.send({digest(program): program})
    monkeypatch.setattr("runners.rpc.content.tempfile.mkstemp", full)
    with pytest.raises(LostBefore, match="cannot keep a content of .*No space left"):
        client.build(program, "cpu", 30.0)
