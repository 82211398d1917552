"""Mutual TLS, tokens and limits between a tracker, a server and clients."""

from __future__ import annotations

import datetime
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest

pytest.importorskip("cryptography")

import ir
import runners
from runners import (
    BuilderInput,
    EvaluatorConfig,
    LocalBuilder,
    ResultKind,
    RPCConfig,
    RPCRunner,
    RunnerError,
    RunnerInput,
    WorkerPool,
)
from runners.kernel_code import digest
from runners.rpc.certificates import make_certificates
from runners.rpc.connection import Address, open_channel
from runners.rpc.credentials import TOKEN_HEADER, Credentials
from runners.rpc.device_client import ConnectionLost, DeviceClient, RequestRefused
from runners.rpc.limits import Limits
from runners.rpc.proto import device_pb2 as pb
from runners.rpc.proto import device_pb2_grpc, tracker_pb2_grpc
from runners.rpc.server import Server
from runners.rpc.session import connect
from runners.rpc.tracker import Tracker
from runners.rpc.tracker_client import TrackerClient
from runners.rpc.tracker_session import connect_tracker
from tests.programs.nodes import matmul
from tests.runners.rpc.conftest import LOOPBACK
from tests.runners.rpc.hostile_code import SOURCE, kernel_of

LIMITS = Limits(
    burst_sessions=40,
    sessions_per_minute=1.0,
    build_seconds=50.0,
    run_seconds=400.0,
    content_bytes=1 << 24,
    program_bytes=1 << 20,
    rivals=2,
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    make_certificates(folder, hosts=["localhost"], clients=["alice"], keys=["cpu"])
    make_certificates(folder, clients=["bob"], keys=["arm"])
    return folder


@pytest.fixture(scope="module")
def tracker(fleet: Path) -> Iterator[Tracker]:
    with Tracker(LOOPBACK, credentials=str(fleet / "trackers/localhost")) as made:
        yield made


@pytest.fixture(scope="module")
def server(fleet: Path, tracker: Tracker) -> Iterator[Server]:
    folder = str(fleet / "servers/localhost")
    with Server("cpu", LOOPBACK, tracker.address, workers=1, credentials=folder, limits=LIMITS) as made:
        assert made.wait_registered(30)
        yield made


@pytest.fixture(scope="module")
def alone(fleet: Path) -> Iterator[Server]:
    """A server without a tracker."""
    folder = str(fleet / "servers/localhost")
    with Server("cpu", LOOPBACK, workers=1, credentials=folder, limits=LIMITS) as made:
        yield made


@pytest.fixture(scope="module")
def alice(fleet: Path) -> Credentials:
    return Credentials.of_folder(fleet / "clients/alice")


@pytest.fixture(scope="module")
def bob(fleet: Path) -> Credentials:
    return Credentials.of_folder(fleet / "clients/bob")


def refused(call: object, status: grpc.StatusCode, words: str) -> None:
    with pytest.raises(RequestRefused, match=words) as found:
        call()  # type: ignore[operator]
    assert found.value.status is status


def test_a_candidate_is_measured_with_everything_on(fleet: Path, tracker: Tracker, server: Server) -> None:
    config = RPCConfig("127.0.0.1", tracker.address.port, "cpu", credentials=str(fleet / "clients/alice"))
    runner = RPCRunner(config, EvaluatorConfig(1, 2, 0), timeout_sec=10.0)
    with WorkerPool(1) as pool:
        (built,) = LocalBuilder(pool=pool, portable=True).build([BuilderInput(matmul(), "cpu")])
    result = runner.run([RunnerInput(built.artifact, reference=matmul())])[0].result()
    assert result.kind is ResultKind.OK and result.confirmed, result
    (described,) = config.devices()
    assert any(line.startswith("system calls: ") for line in described.confinement)
    runner.close()


def test_who_has_no_certificate_does_not_get_in(tracker: Tracker, alone: Server) -> None:
    for call in (TrackerClient(tracker.address).fleet, lambda: DeviceClient(alone.address)):
        with pytest.raises(ConnectionLost, match="LOOPSMITH_RPC_CREDENTIALS"):
            call()


def test_certificates_of_another_authority_do_not_get_in(
    tmp_path: Path, tracker: Tracker, alice: Credentials
) -> None:
    make_certificates(tmp_path, keys=["cpu"])
    foreign = Credentials.of_folder(tmp_path / "clients/client")
    for held in (foreign, replace(alice, certificate=foreign.certificate, private_key=foreign.private_key)):
        with pytest.raises(ConnectionLost, match="certificates of one authority"):
            TrackerClient(tracker.address, held).fleet()


def test_a_certificate_that_has_ended_does_not_get_in(
    fleet: Path, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_certificates(fleet, clients=["intime"], keys=["cpu"], days=1)
    assert TrackerClient(tracker.address, str(fleet / "clients/intime")).fleet().version

    class Earlier(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime.now(tz) - datetime.timedelta(days=2)

    clock = SimpleNamespace(datetime=Earlier, timedelta=datetime.timedelta, UTC=datetime.UTC)
    monkeypatch.setattr("runners.rpc.certificates.datetime", clock)
    make_certificates(fleet, clients=["late"], keys=["cpu"], days=1)
    with pytest.raises(ConnectionLost, match="still valid"):
        TrackerClient(tracker.address, str(fleet / "clients/late")).fleet()


def test_a_server_is_who_it_is_called(fleet: Path, alice: Credentials) -> None:
    make_certificates(fleet, hosts=["elsewhere.example"], keys=["cpu"])
    impostor = str(fleet / "servers/elsewhere.example")
    with Tracker(LOOPBACK, credentials=impostor) as tracker:
        with pytest.raises(ConnectionLost, match="must name it as it was called"):
            TrackerClient(tracker.address, alice).fleet()
    with Tracker(LOOPBACK, credentials=str(fleet / "clients/alice")) as tracker:  # a client is no server
        with pytest.raises(ConnectionLost):
            TrackerClient(tracker.address, alice).fleet()


def test_roles_are_told_apart(fleet: Path, tracker: Tracker, alice: Credentials) -> None:
    machine = Credentials.of_folder(fleet / "servers/localhost")
    refused(
        TrackerClient(tracker.address, machine).fleet,
        grpc.StatusCode.PERMISSION_DENIED,
        "for a client of the fleet",
    )
    with open_channel(tracker.address, alice) as channel:
        reports = tracker_pb2_grpc.TrackerStub(channel).Serve(iter(()), metadata=alice.metadata("cpu"))
        with pytest.raises(grpc.RpcError) as found:
            next(reports)
    assert found.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_key_needs_its_token(
    tracker: Tracker, server: Server, alone: Server, alice: Credentials, bob: Credentials
) -> None:
    nobody = replace(alice, tokens={})
    forged = replace(alice, tokens={"cpu": alice.tokens["cpu"][:-1] + "?"})
    for held, status in (
        (nobody, grpc.StatusCode.UNAUTHENTICATED),
        (forged, grpc.StatusCode.UNAUTHENTICATED),
        (replace(bob, tokens={"cpu": bob.tokens["arm"]}), grpc.StatusCode.PERMISSION_DENIED),
    ):
        client = TrackerClient(tracker.address, held)
        refused(lambda: client.acquire("cpu"), status, "loopsmith rpc certs DIR --key 'cpu'")
        client.close()
    refused(
        TrackerClient(tracker.address, nobody).fleet,
        grpc.StatusCode.UNAUTHENTICATED,
        "a token of some key is needed",
    )
    for held in (nobody, forged, bob):
        refused(
            lambda: DeviceClient(alone.address, credentials=held),
            grpc.StatusCode.UNAUTHENTICATED,
            "token of the key 'cpu'",
        )
    with DeviceClient(alone.address, credentials=alice) as session:
        assert session.describe().key == "cpu"


def test_who_looks_sees_the_keys_of_his_tokens(
    tracker: Tracker, server: Server, alice: Credentials, bob: Credentials
) -> None:
    assert [item.report.device.key for item in TrackerClient(tracker.address, alice).fleet().servers] == [
        "cpu"
    ]
    assert not TrackerClient(tracker.address, bob).fleet().servers


def test_a_token_that_is_missing_is_told_at_once(fleet: Path, tracker: Tracker, server: Server) -> None:
    """The runner does not wait for what waiting does not change."""
    config = RPCConfig("127.0.0.1", tracker.address.port, "cpu", credentials=str(fleet / "clients/bob"))
    runner = RPCRunner(config, patience_sec=600.0)
    begin = time.monotonic()
    with pytest.raises(RunnerError, match="token that was shown|token of the key"):
        runner._lending._acquired()
    trackers = connect_tracker("127.0.0.1", tracker.address.port, credentials=str(fleet / "clients/bob"))
    refused(
        lambda: trackers.request("cpu", max_retry=1000),
        grpc.StatusCode.UNAUTHENTICATED,
        "token of the key 'cpu'",
    )
    assert time.monotonic() - begin < 30
    trackers.close()
    runner.close()


def test_the_token_of_a_session_is_of_no_use_to_others(
    alone: Server, alice: Credentials, bob: Credentials
) -> None:
    with DeviceClient(alone.address, credentials=alice) as session:
        with open_channel(alone.address, bob) as channel:
            stub = device_pb2_grpc.DeviceStub(channel)
            with pytest.raises(grpc.RpcError) as found:
                stub.Missing(pb.ContentKeys(), metadata=session._metadata)
            assert found.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert session.call(session._device.Missing, pb.ContentKeys(), 10.0).keys == []


def test_a_server_without_the_token_of_its_key_does_not_start(fleet: Path) -> None:
    with pytest.raises(RunnerError, match="no token of the key 'mips'"):
        Server("mips", LOOPBACK, credentials=str(fleet / "servers/localhost"))


def test_a_server_that_the_tracker_refuses_says_why(
    fleet: Path, alice: Credentials, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    make_certificates(tmp_path, keys=["other"])
    trusted = Credentials.of_folder(fleet / "trackers/localhost")
    with Tracker(LOOPBACK, credentials=replace(trusted, tokens={"other": "x"})) as tracker:
        with Server(
            "cpu", LOOPBACK, tracker.address, workers=1, credentials=str(fleet / "servers/localhost")
        ) as made:
            assert not made.wait_registered(1.0)
    assert "a token of the key 'cpu' is needed" in caplog.text


@pytest.mark.parametrize("address", [Address("0.0.0.0", 0), Address("::", 0), Address("127.evil.example", 0)])
def test_without_tls_only_this_machine_is_listened_to(address: Address) -> None:
    with pytest.raises(RunnerError, match="whoever reaches .* could run code there.*--insecure"):
        Tracker(address)
    with pytest.raises(RunnerError, match="loopsmith rpc certs"):
        Server("cpu", address)


def test_insecure_warns(caplog: pytest.LogCaptureFixture) -> None:
    with Tracker(Address("0.0.0.0", 0), insecure=True):
        assert "there is no TLS" in caplog.text


def test_credentials_come_from_the_environment(
    fleet: Path, tracker: Tracker, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPSMITH_RPC_CREDENTIALS", str(fleet / "clients/alice"))
    assert RPCConfig("localhost", tracker.address.port, "cpu").count_num_servers() == 1


# -- limits ------------------------------------------------------------------------------
@pytest.fixture
def session(alone: Server, alice: Credentials) -> Iterator[DeviceClient]:
    end = time.monotonic() + 20
    while alone.desk.state().is_busy and time.monotonic() < end:
        time.sleep(0.02)
    with DeviceClient(alone.address, credentials=alice) as made:
        yield made


def test_requests_beyond_a_limit_are_refused_by_its_name(session: DeviceClient) -> None:
    def measure(**settings: float) -> object:
        told = {"timeout_sec": 1.0, "cut_ratio": 2.0, "reference_timeout_sec": 1.0, **settings}
        message = pb.Settings(evaluator=pb.Evaluator(number=1, repeat=1), **told)
        request = pb.MeasureRequest(id=str(time.time()), code=key, target="cpu", settings=message)
        return session.measure(request, {}, 10.0)

    large, small = bytes((1 << 20) + 1), b"no kernel"
    key = digest(small)
    session.send({key: small, digest(large): large})
    status = grpc.StatusCode.RESOURCE_EXHAUSTED
    refused(lambda: session.build(small, "cpu", 51.0), status, "the limit build_seconds of 50")
    refused(lambda: session.build(large, "cpu", 5.0), status, "the limit program_bytes")
    for name in ("timeout_sec", "cooldown_sec", "reference_timeout_sec"):
        refused(lambda: measure(**{name: 401.0}), status, "the limit run_seconds of 400")
    compared = pb.CompareRequest(
        rivals=[pb.Rival(code=key)] * 3,
        target="cpu",
        settings=pb.Settings(
            evaluator=pb.Evaluator(number=1, repeat=1),
            timeout_sec=1.0,
            cut_ratio=2.0,
            reference_timeout_sec=1.0,
        ),
    )
    refused(lambda: session.compare(compared, {}, 10.0), status, "the limit rivals of 2")
    refused(
        lambda: session.call(session._device.Missing, pb.ContentKeys(keys=["0" * 64] * 300_000), 10.0),
        status,
        "larger than max",
    )
    with pytest.raises(RequestRefused, match="too large here"):
        session.call(session._device.Upload, iter([pb.ContentPart(key="0" * 64, size=1 << 25)]), 10.0)


def test_sessions_and_calls_are_counted_by_peer(fleet: Path, alice: Credentials) -> None:
    own = str(fleet / "servers/localhost")
    limits = replace(
        LIMITS, burst_sessions=2, burst_requests=6, requests_per_second=0.01, calls=2, calls_of_peer=1
    )
    with Server("cpu", LOOPBACK, workers=1, credentials=own, limits=limits) as made:
        with DeviceClient(made.address, credentials=alice) as first:
            refused(first.describe, grpc.StatusCode.RESOURCE_EXHAUSTED, "the limit calls_of_peer of 1")
        statuses = []
        for _ in range(6):
            try:
                DeviceClient(made.address, credentials=alice).close()
            except RequestRefused as error:
                statuses.append(str(error))
            time.sleep(0.05)
    assert any("sessions_per_minute" in text or "calls_of_peer" in text for text in statuses), statuses
    assert "requests_per_second" in statuses[-1]


def test_a_session_that_ends_leaves_nothing(alone: Server, alice: Credentials, tmp_path: Path) -> None:
    """Its calls, its processes, and for another client its files."""
    end = time.monotonic() + 20
    while alone.desk.state().is_busy and time.monotonic() < end:
        time.sleep(0.02)
    pool = alone._pool
    with DeviceClient(alone.address, credentials=alice) as session:
        worker = pool.workers[0].pid
        assert pool.template.folder is not None
        (pool.template.folder / "left.bounds").write_bytes(b"x")
        stuck = session._device.Upload.future(iter(_slowly()), metadata=session._metadata)
    end = time.monotonic() + 20
    while alone.desk.state().is_busy and time.monotonic() < end:
        time.sleep(0.02)
    assert not alone.desk.state().is_busy and stuck.exception(10) is not None
    while time.monotonic() < end and worker is not None and _runs(worker):
        time.sleep(0.02)
    assert worker is not None and not _runs(worker)
    alone._contents.write(digest(b"y" * (1 << 23)), 1 << 23, [b"y" * (1 << 23)])  # there is room again
    with DeviceClient(alone.address, credentials=alice):
        assert (pool.template.folder / "left.bounds").exists()  # the same client's
    other = replace(alice, certificate=b"", private_key=b"")
    assert other != alice


def _runs(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _slowly() -> Iterator[pb.ContentPart]:
    yield pb.ContentPart(key="1" * 64, size=1 << 23)
    time.sleep(60)


def test_files_of_another_client_are_gone(fleet: Path, alone: Server, alice: Credentials) -> None:
    make_certificates(fleet, clients=["carol"], keys=["cpu"])
    carol = Credentials.of_folder(fleet / "clients/carol")
    for held, expected in ((alice, True), (carol, False)):
        end = time.monotonic() + 20
        while alone.desk.state().is_busy and time.monotonic() < end:
            time.sleep(0.02)
        with DeviceClient(alone.address, credentials=held):
            folder = alone._pool.template.folder
            assert folder is not None
            if expected:
                (folder / "of-alice").write_bytes(b"x")
            assert (folder / "of-alice").exists() is expected


def test_programs_run_with_everything_on(
    fleet: Path, tracker: Tracker, server: Server, alone: Server
) -> None:
    """A session by way of the tracker, and one without it; who has no token, or asks for more than is granted, is refused."""
    folder = str(fleet / "clients/alice")
    values = np.arange(5, dtype="float32")
    with (
        connect_tracker("127.0.0.1", tracker.address.port, credentials=folder) as trackers,
        trackers.request("cpu") as remote,
    ):
        np.testing.assert_array_equal(runners.array(values, remote.cpu()).numpy(), values)
    _wait_free(alone)
    with connect("127.0.0.1", alone.address.port, "cpu", session_timeout=401.0, credentials=folder) as remote:
        remote.upload(ir.build(matmul(4, 4, 4), "llvm"), "kernels")
        module, square = (
            remote.load_module("kernels"),
            runners.array(np.eye(4, dtype="float32"), remote.cpu()),
        )
        with pytest.raises(
            RequestRefused, match="the limit run_seconds of 400 is reached; 401 was asked for"
        ):
            module["main"](square, square, square)
        if any(item.name == "files" and item.is_taken for item in alone.measures):
            # What the session's process may not, a worker may not.
            asked = alone._pool.submit(os.listdir, str(alone._contents.folder), limit=30).result()
            assert (asked.kind, asked.error) == ("raised", "PermissionError")
    for held in ("bob", None):
        _wait_free(alone)
        with pytest.raises(RunnerError):
            connect("127.0.0.1", alone.address.port, credentials=held and str(fleet / "clients" / held))


def _wait_free(server: Server) -> None:
    end = time.monotonic() + 20
    while server.desk.state().is_busy and time.monotonic() < end:
        time.sleep(0.02)


def test_a_hostile_kernel_by_way_of_the_server(session: DeviceClient, tmp_path: Path) -> None:
    code = kernel_of(SOURCE, tmp_path)
    settings = pb.Settings(
        evaluator=pb.Evaluator(number=1, repeat=1), timeout_sec=5.0, cut_ratio=2.0, reference_timeout_sec=1.0
    )
    request = pb.MeasureRequest(id="h", code=code.key, target="cpu", settings=settings)
    reply = session.measure(request, {code.key: code.data}, 60.0)
    assert reply.kind == "crash" and "socket=-1" in reply.error and "fork=0" in reply.error, reply
    assert session.describe().key == "cpu"


def test_who_connects_and_says_nothing_stops_nobody(alone: Server, alice: Credentials) -> None:
    idle = [socket.create_connection((alone.address.host, alone.address.port)) for _ in range(50)]
    try:
        for connection in idle[:25]:
            connection.sendall(b"\x16\x03\x01 not quite a handshake")
        end = time.monotonic() + 20
        while alone.desk.state().is_busy and time.monotonic() < end:
            time.sleep(0.02)
        with DeviceClient(alone.address, credentials=alice) as session:
            assert session.describe().key == "cpu"
    finally:
        for connection in idle:
            connection.close()


def test_tokens_are_not_logged(alone: Server, alice: Credentials, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    try:
        DeviceClient(alone.address, credentials=alice).close()
    except RequestRefused:
        pass
    assert alice.tokens["cpu"] not in caplog.text and TOKEN_HEADER not in caplog.text
