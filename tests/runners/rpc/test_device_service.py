"""What a server answers, without connections: sessions that fail to begin, and errors that are nobody's request's."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import grpc
import pytest

pytest.importorskip("grpc")

from runners import RunnerResult, WorkerError
from runners.rpc.credentials import SESSION_HEADER
from runners.rpc.desk import SessionDesk
from runners.rpc.device_service import DeviceFacts, DeviceService, abort
from runners.rpc.messages import PROTOCOL
from runners.rpc.proto import device_pb2 as pb

FACTS = DeviceFacts("cpu", "s", "cpu", "none", "{}", "0", 1)


class Aborted(Exception):
    """What gRPC's own ``abort`` raises."""


class Context:
    """Of a call with a certificate."""

    status: grpc.StatusCode | None = None

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [b"me"]}

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def code(self) -> grpc.StatusCode | None:
        return self.status

    def abort(self, status: grpc.StatusCode, text: str) -> None:
        self.status = status
        raise Aborted(text)


class Pool:
    """One whose folder cannot be cleared at first."""

    failing = True

    def clear_folder(self) -> None:
        if self.failing:
            raise OSError("Input/output error")

    def renew(self) -> None:
        pass


def opened(service: DeviceService) -> Any:
    return service.Open(pb.OpenRequest(client="me", protocol=PROTOCOL), Context())


def test_a_session_that_cannot_begin_keeps_no_device() -> None:
    desk, pool = SessionDesk(by_ticket=False), Pool()
    service = DeviceService(FACTS, desk, None, pool)  # type: ignore[arg-type]
    with pytest.raises(Aborted, match="OSError"):
        next(opened(service))
    assert not desk.state().is_busy
    pool.failing = False
    session = service.Open(pb.OpenRequest(client="me", protocol=PROTOCOL), Asking())  # type: ignore[arg-type]
    assert next(session).token and desk.state().is_busy
    session.close()
    assert not desk.state().is_busy


def test_workers_that_do_not_start_are_no_fault_of_what_was_asked() -> None:
    """Who asks goes to another device."""
    context = Context()
    with pytest.raises(Aborted):
        abort(context, WorkerError("worker processes do not start"))  # type: ignore[arg-type]
    assert context.status is grpc.StatusCode.ABORTED


def test_a_client_of_another_protocol_is_told_so() -> None:
    desk, context = SessionDesk(by_ticket=False), Context()
    service = DeviceService(FACTS, desk, None, Pool())  # type: ignore[arg-type]
    request = pb.OpenRequest(client="me", protocol=PROTOCOL + 1)
    with pytest.raises(
        Aborted, match=f"version {PROTOCOL} of the protocol .*, the client {PROTOCOL + 1}: update"
    ):
        next(service.Open(request, context))  # type: ignore[arg-type]
    assert context.status is grpc.StatusCode.UNIMPLEMENTED and not desk.state().is_busy


# -- measurements --------------------------------------------------------------------------
class Contents:
    """All that anybody names."""

    def read(self, key: str, most: int) -> bytes:
        return b"code"


class Runner:
    """Measures nothing, and counts."""

    def __init__(self) -> None:
        self.asked = 0

    def submit(self, item: object, *, again: bool) -> Future[RunnerResult]:
        self.asked += 1
        done: Future[RunnerResult] = Future()
        done.set_result(RunnerResult((float(self.asked),), None, verified=True))
        return done


class CallContext(Context):
    """Of a call within a session."""

    def __init__(self, token: str) -> None:
        self._token = token

    def invocation_metadata(self) -> list[tuple[str, str]]:  # type: ignore[override]
        return [(SESSION_HEADER, self._token)]

    def cancel(self) -> None:
        pass


class Asking(Context):
    """Of a client that opens sessions."""

    def add_callback(self, call: object) -> bool:
        return True


def test_a_measurement_that_is_asked_for_twice_is_done_once_in_a_session() -> None:
    """As after a connection was lost; another session's of the same name is another one."""
    desk, pool, runner = SessionDesk(by_ticket=False), Pool(), Runner()
    pool.failing = False
    service = DeviceService(FACTS, desk, Contents(), pool, lambda *_, **__: runner)  # type: ignore[arg-type]
    settings = pb.Settings(
        evaluator=pb.Evaluator(number=1, repeat=1), timeout_sec=1.0, cut_ratio=2.0, reference_timeout_sec=1.0
    )
    seen = []
    for _ in range(2):
        session = service.Open(pb.OpenRequest(client="me", protocol=PROTOCOL), Asking())  # type: ignore[arg-type]
        context = CallContext(next(session).token)
        for name in ("a", "a", "b"):
            request = pb.MeasureRequest(id=name, code="0" * 64, target="cpu", settings=settings)
            seen += service.Measure(request, context).run_secs
        session.close()
    assert seen == [1.0, 1.0, 2.0, 3.0, 3.0, 4.0]
