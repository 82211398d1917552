"""The process of a session: crashes, limits of time, its end with the session, and a parent whose memory does not grow."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ir
import runners
from ir.script import tir as T
from runners import RunnerError
from runners.rpc.config import RPCConfig
from runners.rpc.connection import Address
from runners.rpc.device_client import ConnectionLost
from runners.rpc.local import LocalRPC
from runners.rpc.proto import remote_pb2 as pb
from runners.rpc.remote_array import RemoteArray
from runners.rpc.server import Server
from runners.rpc.session import RPCSession, connect
from runners.rpc.tracker import Tracker
from runners.rpc.tracker_session import connect_tracker
from tests.runners.rpc.conftest import LOOPBACK, connected


@T.prim_func
def aborts(x: T.Buffer((1,), "float32")):
    T.evaluate(T.call_extern("int32", "abort"))
    x[0] = T.float32(1)


@T.prim_func
def sleeps(x: T.Buffer((1,), "float32")):
    T.evaluate(T.call_extern("int32", "sleep", 60))
    x[0] = T.float32(1)


@T.prim_func
def doubles(x: T.Buffer((1,), "float32")):
    x[0] = x[0] * T.float32(2)


def loaded(session: RPCSession, func: object, name: str) -> object:
    session.upload(ir.build(func, "llvm"), name)
    return session.load_module(name)


def test_after_a_crash_the_session_goes_on(remote: RPCSession) -> None:
    x = runners.array(np.ones(1, "float32"), remote.cpu())
    module = loaded(remote, aborts, "aborts")
    with pytest.raises(
        RunnerError, match="ended by SIGABRT while it called 'aborts'; its arrays and programs are gone"
    ):
        module["aborts"](x)
    with pytest.raises(RunnerError, match="not there any more"):
        x.numpy()
    with pytest.raises(RunnerError, match="not there any more; load it again"):
        module["aborts"](x)
    assert remote.listdir() == ["aborts"] and remote.is_open
    y = runners.array(np.ones(1, "float32"), remote.cpu())
    assert y.data.number != x.data.number
    loaded(remote, doubles, "doubles")["doubles"](y)
    assert y.numpy().tolist() == [2]


def test_a_call_that_takes_too_long_is_ended(lone_server: Server) -> None:
    with connected(lone_server, session_timeout=1.0) as session:
        x = runners.array(np.ones(1, "float32"), session.cpu())
        module = loaded(session, sleeps, "sleeps")
        begin = time.monotonic()
        with pytest.raises(RunnerError, match="no answer within 1 seconds while it called 'sleeps'"):
            module["sleeps"](x)
        assert time.monotonic() - begin < 10
        y = runners.array(np.full(1, 3, "float32"), session.cpu())
        loaded(session, doubles, "doubles")["doubles"](y)
        assert y.numpy().tolist() == [6]
        limit = pb.CallRequest(program=1, function="main", timeout_sec=-1)
        with pytest.raises(RunnerError, match="timeout_sec"):
            session.calls.call("Call", limit, limit)


def test_the_process_ends_with_the_session(lone_server: Server) -> None:
    with connected(lone_server) as session:
        runners.array(np.zeros(3), session.cpu())
        pid = process_of(lone_server).pid
        assert alive(pid)
    gone(pid)
    with connected(lone_server) as session:
        module = loaded(session, sleeps, "sleeps")
        x = runners.empty((1,), "float32", session.cpu())
        failed: list[Exception] = []

        def call() -> None:
            try:
                module["sleeps"](x)
            except RunnerError as error:
                failed.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(0.2)
        pid = process_of(lone_server).pid
        session.close()
        thread.join(10)
        assert not thread.is_alive() and isinstance(failed[0], ConnectionLost)
    gone(pid)


def test_a_client_that_goes_while_it_sends_is_no_defect(
    lone_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(lone_server) as session:
        array = runners.empty((1 << 20,), "uint8", session.cpu())
        pid = process_of(lone_server).pid
        is_sending = threading.Event()

        def parts() -> Iterator[pb.ArrayPart]:
            yield pb.ArrayPart(array=array.data.number, data=b"abc")
            is_sending.set()
            time.sleep(1.0)

        def send() -> None:
            with pytest.raises(ConnectionLost):
                session.calls.ask("Write", parts())

        thread = threading.Thread(target=send)
        thread.start()
        assert is_sending.wait(10)
        time.sleep(0.3)  # the server waits for the next part
        session.close()
        thread.join(10)
    gone(pid)
    with connected(lone_server) as session:
        assert float(runners.array(1.5, session.cpu())) == 1.5
    assert not [item.getMessage() for item in caplog.records if item.levelname == "ERROR"]


def test_sessions_do_not_see_each_others_arrays(lone_server: Server) -> None:
    with connected(lone_server) as first:
        number = runners.array(np.zeros(3), first.cpu()).data.number
    with connected(lone_server) as second:
        mine = runners.array(np.zeros(3), second.cpu())
        assert mine.data.number != number
        with pytest.raises(RunnerError, match="never was this session's"):
            second.calls.read(number, np.zeros(3))
        with pytest.raises(RunnerError, match="in a session of"):
            connect(lone_server.address.host, lone_server.address.port)


def test_the_process_is_killed_as_any_other(remote: RPCSession, lone_server: Server) -> None:
    """What the system ends, as where memory runs out."""
    runners.array(np.zeros(3), remote.cpu())
    os.kill(process_of(lone_server).pid, signal.SIGKILL)
    with pytest.raises(RunnerError, match="ended by SIGKILL while it (made an array|freed arrays)"):
        runners.array(np.zeros(3), remote.cpu())
    runners.array(np.zeros(3), remote.cpu())


def test_a_message_that_says_nonsense_is_an_answer(remote: RPCSession) -> None:
    array = runners.array(np.zeros(3, "float32"), remote.cpu()).data
    assert isinstance(array, RemoteArray)
    for method, request in (
        ("Write", iter([pb.ArrayPart(array=array.number, begin=1 << 60, data=b"abc")])),
        ("Copy", pb.CopyRequest(source=array.number, target=17)),
        ("Call", pb.CallRequest(program=17, function="main")),
        ("Time", pb.TimeRequest(call=pb.CallRequest(program=0, function="main"))),
        ("Allocate", pb.AllocateRequest(dtype="V8", shape=[1], device="cpu:0")),
        ("Allocate", pb.AllocateRequest(dtype="float32", shape=[1], device="nowhere:0")),
        (
            "Call",
            pb.CallRequest(
                function="relax.run.print",
                arguments=[pb.Value(elements=pb.Elements(dtype="int8", shape=[9], data=b"a"))],
            ),
        ),
    ):
        with pytest.raises((RunnerError, TypeError)):
            remote.calls.ask(method, request)
    with pytest.raises(RunnerError, match="the content .* is not here; send it"):
        remote.calls.ask("Load", pb.LoadRequest(content="0" * 64))
    with pytest.raises(RunnerError, match="bytes 8 to 20 of an array of 12 bytes"):
        remote.calls.ask("Write", iter([pb.ArrayPart(array=array.number, begin=8, data=b"x" * 12)]))


@pytest.fixture(scope="module")
def fleet() -> Iterator[LocalRPC]:
    with LocalRPC("cpu-here", workers=1, silent=True) as made:
        yield made


def test_arrays_are_in_the_memory_of_the_sessions_process_alone(fleet: LocalRPC) -> None:
    """300 MB; the server's other processes, which hand the parts on, stay as they are."""
    with (
        connect_tracker(fleet.tracker_host, fleet.tracker_port) as tracker,
        tracker.request("cpu-here") as remote,
    ):
        runners.array(np.zeros(1 << 20, "uint8"), remote.cpu()).numpy()
        before = peak_bytes(fleet.server.pid)
        given = np.arange(300_000_000 // 8)
        array = runners.array(given, remote.cpu())
        (held,) = [pid for pid in descendants(fleet.server.pid) if resident_bytes(pid) > given.nbytes]
        assert (array.numpy() == given).all()
        assert peak_bytes(fleet.server.pid) - before < 100e6  # 10 MB, and more where one end is slow
    gone(held)


def test_a_local_fleet_is_one_as_any_other(fleet: LocalRPC) -> None:
    config = RPCConfig(fleet.tracker_host, fleet.tracker_port, fleet.tracker_key)
    assert config.count_num_servers() == 1
    with connect_tracker(fleet.tracker_host, fleet.tracker_port) as tracker:
        told = tracker.summary()
        assert told["queue_info"] == {"cpu-here": {"total": 1, "free": 1, "pending": 0}}
        (server,) = told["server_info"]
        assert server["addr"] == f"127.0.0.1:{fleet.server_port}" and server["client"] == ""
        assert "cpu-here  1      1     0" in tracker.text_summary()
        found = tracker.request_and_run("cpu-here", lambda remote: float(runners.array(2.5, remote.cpu())))
        assert found == 2.5


def test_a_function_gets_another_device_where_one_is_lost(tracker: Tracker) -> None:
    with Server("lost", LOOPBACK, tracker.address, workers=1) as server:
        assert server.wait_registered(30)
        with connect_tracker(tracker.address.host, tracker.address.port) as trackers:
            tries = []

            def run(remote: RPCSession) -> int:
                tries.append(remote)
                if len(tries) == 1:
                    remote.close()
                return int(runners.array(7, remote.cpu()))

            assert trackers.request_and_run("lost", run) == 7 and len(tries) == 2
            with pytest.raises(RunnerError, match="2 devices of the key 'lost' were lost"):
                trackers.request_and_run("lost", lambda remote: remote.close() or remote.cpu().exist or 1 / 0)
            with pytest.raises(ZeroDivisionError):
                trackers.request_and_run("lost", lambda remote: 1 / 0)


def test_what_is_not_there_is_said(lone_server: Server, tracker: Tracker) -> None:
    host, port = lone_server.address.host, lone_server.address.port
    end = time.monotonic() + 10
    while lone_server.desk.state().is_busy and time.monotonic() < end:
        time.sleep(0.005)
    with pytest.raises(RunnerError, match="has the key 'lone', not 'gpu'"):
        connect(host, port, "gpu")
    with Tracker(Address(host, 0)) as gone_tracker:
        address = gone_tracker.address
    with (
        connect_tracker(address.host, address.port) as trackers,
        pytest.raises(RunnerError, match="no device of the key 'cpu' after 1 attempts"),
    ):
        trackers.request("cpu", max_retry=1)
    with pytest.raises(RunnerError, match="session_timeout is a number of seconds"):
        connect(host, port, session_timeout=-1)
    with pytest.raises(RunnerError):
        connect(address.host, address.port)


def test_a_local_fleet_that_does_not_start_says_so() -> None:
    with pytest.raises(RunnerError, match="the server does not start; its process ended with 1"):
        LocalRPC("", silent=True)


def process_of(server: Server) -> object:
    """The process of a server's session."""
    (found,) = [item for item in server._remote._processes.values() if not item.has_ended]
    return found


def alive(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()


def gone(pid: int) -> None:
    end = time.monotonic() + 10
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(pid)


def descendants(pid: int) -> list[int]:
    children = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.name))
    found, left = [], [pid]
    while left:
        added = children.get(left.pop(), [])
        found += added
        left += added
    return found


def _status(pid: int, name: str) -> int:
    for line in Path("/proc", str(pid), "status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def peak_bytes(pid: int) -> int:
    return _status(pid, "VmHWM")


def resident_bytes(pid: int) -> int:
    return _status(pid, "VmRSS")
