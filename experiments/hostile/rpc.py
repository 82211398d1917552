"""Mutated messages to a server and a tracker in a process of their own: calls of all services, contents, programs, kernels, and raw bytes.

With TLS as of an attacker who holds a certificate and a token; without, as of one who sits on the machine. Each message is a call that is
to end, by an answer or a refusal; after each batch both are asked whether they are there, and by whom else code has been run.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

import ir
from ir.json_format import save_json
from runners.kernel import Kernel
from runners.kernel_code import digest, packed_kernel
from runners.native import build_native
from runners.rpc.certificates import make_certificates
from runners.rpc.connection import Address, open_channel
from runners.rpc.credentials import Credentials
from runners.rpc.device_client import DeviceClient, RequestRefused
from runners.rpc.messages import PROTOCOL
from runners.rpc.programs import program_bytes
from runners.rpc.proto import device_pb2 as pb
from runners.rpc.proto import remote_pb2 as remote_pb
from runners.rpc.proto import remote_pb2_grpc
from runners.rpc.proto import tracker_pb2 as tracker_pb
from tests.programs.nodes import matmul

from .mutation import mutated_bytes, mutated_kernel, mutated_message, mutated_program

BATCH = 500
CALL_SECONDS = 20.0
"""After which a call counts as one that hangs."""
_SERVE = """
import signal, sys, threading
from runners.rpc import Address, Limits, Server, Tracker
free = Address("127.0.0.1", 0)
limits = Limits(requests_per_second=1e9, burst_requests=10**9, sessions_per_minute=1e9, burst_sessions=10**9,
                run_seconds=2, build_seconds=5)
of = lambda role: f"{sys.argv[1]}/{role}/localhost" if len(sys.argv) > 1 else None
with (Tracker(free, limits=limits, credentials=of("trackers")) as tracker,
      Server("cpu", free, workers=1, limits=limits, credentials=of("servers")) as server):
    print(tracker.address, server.address, flush=True)
    sys.stdin.read()
"""


Example = tuple[grpc.Channel, str, bool, bool, Any]
"""Channel, method, whether requests and answers are streams, and a message that makes sense."""


@dataclass
class Report:
    """What came of all messages."""

    sent: Counter[str] = field(default_factory=Counter)
    """By kind."""
    answers: Counter[str] = field(default_factory=Counter)
    """By status."""
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    secs: Counter[str] = field(default_factory=Counter)
    """By kind."""

    def __str__(self) -> str:
        lines = [f"{sum(self.sent.values())} messages, the slowest answered in {self.slowest:.1f} s"]
        lines += [
            f"  {name}: {count} in {self.secs[name]:.1f} s" for name, count in sorted(self.sent.items())
        ]
        lines += [f"  answered {name}: {count}" for name, count in sorted(self.answers.items())]
        return "\n".join([*lines, *self.failures, f"{len(self.failures)} failures"])


class Target:
    """The server and the tracker that are tried, in a process.

    Args:
        folder: of its log, and of the certificates of all.
        tls: with these.
    """

    def __init__(self, folder: Path, tls: bool = False) -> None:
        self._log = folder / "server.log"
        self.credentials: Credentials | None = None
        if tls:
            make_certificates(folder / "fleet", keys=["cpu"])
            self.credentials = Credentials.of_folder(folder / "fleet/clients/client")
        given = [str(folder / "fleet")] if tls else []
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, *given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        told = self.process.stdout.readline().decode().split()
        if len(told) != 2:
            raise RuntimeError(self.log())
        self.tracker, self.server = map(Address.of, told)
        self.memory = self._memory()

    def log(self) -> str:
        """What it has said."""
        return self._log.read_text(errors="replace")

    def _memory(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def grown_bytes(self) -> int:
        """By how much its memory has grown since it started."""
        return self._memory() - self.memory

    def children(self) -> list[int]:
        """Processes that it has started itself: the template of its workers, and nothing else."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
        return found

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Campaign:
    """Sends messages by seeds.

    Args:
        target: who gets them.
    """

    def __init__(self, target: Target) -> None:
        self.target, self.report = target, Report()
        mod = matmul()
        self._program = save_json(mod).encode()
        self._kernel = packed_kernel(Kernel(mod, build_native(mod, "cpu")))
        self._native = program_bytes(ir.build(matmul(4, 4, 4), "llvm"))
        self._device = open_channel(target.server, target.credentials)
        self._tracker = open_channel(target.tracker, target.credentials)
        self._shown = () if target.credentials is None else target.credentials.metadata()
        self._session: DeviceClient | None = None
        self._calls = self._examples()
        self._remote_calls: list[Example] = []
        """Those of Remote; they name what the session has."""

    def _examples(self) -> list[Example]:
        """Of the services Device and Tracker."""
        program, kernel = digest(self._program), digest(self._kernel)
        settings = pb.Settings(
            evaluator=pb.Evaluator(number=1, repeat=1),
            timeout_sec=1.0,
            cut_ratio=2.0,
            reference_timeout_sec=1.0,
        )
        measure = pb.MeasureRequest(id="a", code=kernel, reference=program, target="cpu", settings=settings)
        compare = pb.CompareRequest(
            rivals=[pb.Rival(code=kernel)], reference=program, target="cpu", settings=settings
        )
        report = tracker_pb.ServerReport(
            device=pb.DeviceDescription(key="cpu", name="s"), address="127.0.0.1:1", state=tracker_pb.BUSY
        )
        device, tracker = "/loopsmith.rpc.v1.Device/", "/loopsmith.rpc.v1.Tracker/"
        return [
            (self._device, device + "Describe", False, False, pb.DescribeRequest()),
            (self._device, device + "Open", False, True, pb.OpenRequest(client="x", timeout_sec=1.0, protocol=PROTOCOL)),
            (self._device, device + "Missing", False, False, pb.ContentKeys(keys=[program, kernel])),
            (self._device, device + "Upload", True, False, pb.ContentPart(key=program, size=9, data=b"123456789")),
            (self._device, device + "Fetch", False, True, pb.ContentKeys(keys=[program])),
            (self._device, device + "Build", False, False, pb.BuildRequest(program=program, target="cpu", timeout_sec=1.0)),
            (self._device, device + "Measure", False, False, measure),
            (self._device, device + "Confirm", False, False, pb.ConfirmRequest(id="a")),
            (self._device, device + "Compare", False, False, compare),
            (self._tracker, tracker + "Serve", True, True, report),
            (self._tracker, tracker + "Acquire", False, True, tracker_pb.AcquireRequest(key="cpu", client="x")),
            (self._tracker, tracker + "List", False, False, tracker_pb.ListRequest()),
        ]  # fmt: skip

    def _examples_of_remote(self, session: DeviceClient) -> list[Example]:
        """Calls of the service Remote with an array, a program and a function that a session has."""
        stub = session.stub(remote_pb2_grpc.RemoteStub)
        key = digest(self._native)
        session.send({key: self._native})
        load, allocate = (
            remote_pb.LoadRequest(content=key, name="kernels"),
            remote_pb.AllocateRequest(dtype="float32", shape=[4, 4], device="cpu:0"),
        )
        program = session.call(stub.Load, load, CALL_SECONDS).program.program
        arrays = [session.call(stub.Allocate, allocate, CALL_SECONDS).array.array for _ in range(3)]
        values = [remote_pb.Value(given=number) for number in arrays]
        call = remote_pb.CallRequest(program=program, function="main", arguments=values, timeout_sec=1.0)
        time = remote_pb.TimeRequest(call=call, number=1, repeat=2, repeats_to_cooldown=1)
        part = remote_pb.ArrayPart(array=arrays[0], begin=0, data=bytes(64))
        elements = remote_pb.Elements(dtype="float32", shape=[4, 4], data=bytes(64))
        inline = remote_pb.CallRequest(program=program, function="main", timeout_sec=1.0)
        inline.arguments.extend([remote_pb.Value(elements=elements), values[1], values[2]])
        remote = "/loopsmith.rpc.v1.Remote/"
        return [
            (self._device, remote + "Load", False, False, load),
            (self._device, remote + "Allocate", False, False, allocate),
            (self._device, remote + "Write", True, False, part),
            (self._device, remote + "Read", False, True, remote_pb.ReadRequest(array=arrays[0], begin=0, size=64)),
            (self._device, remote + "Copy", False, False, remote_pb.CopyRequest(source=arrays[0], target=arrays[1])),
            (self._device, remote + "Free", False, False, remote_pb.FreeRequest(arrays=[arrays[2] + 1], programs=[program + 9])),
            (self._device, remote + "Call", False, False, call),
            (self._device, remote + "Call", False, False, inline),
            (self._device, remote + "Time", False, False, time),
            (self._device, remote + "Profile", False, False, call),
        ]  # fmt: skip

    # -- one message each ------------------------------------------------------------------
    def message(self, rng: random.Random, in_session: bool) -> None:
        """A mutated message of any call."""
        metadata = list(self._client()._metadata if in_session else self._shown)
        channel, method, is_stream, answers_stream, example = rng.choice([*self._calls, *self._remote_calls])
        data = mutated_message(rng, example)
        name = "/".join(method.split("/")[1:]).rpartition(".")[2] + (" in a session" if in_session else "")
        if rng.random() < 0.1:
            metadata.append(("loopsmith-session", rng.choice(("", "0" * 32, "\x20", "a" * 9000))))
        kind = f"{'stream' if is_stream else 'unary'}_{'stream' if answers_stream else 'unary'}"
        call = getattr(channel, kind)(method, request_serializer=None, response_deserializer=None)
        request: Any = iter([data, mutated_bytes(rng, data)]) if is_stream else data

        def ask() -> None:
            answer = call(request, timeout=CALL_SECONDS, metadata=metadata)
            if answers_stream:
                next(answer, None)  # such calls go on until one of both ends them
                answer.cancel()

        self._judge(name, ask)

    def content(self, rng: random.Random) -> None:
        """A mutated program, which is built, a mutated kernel, which is measured, or mutated kernels, which a session loads."""
        if rng.random() < 0.3:
            self._load(rng)
            return
        is_program = rng.random() < 0.5
        make, data = (mutated_program, self._program) if is_program else (mutated_kernel, self._kernel)
        changed = make(rng, data)
        client = self._client()

        def ask() -> None:
            if is_program:
                client.build(changed, "cpu", 1.0)
                return
            request = pb.MeasureRequest(id=f"m{rng.random()}", target="cpu", code=digest(changed))
            request.settings.CopyFrom(self._calls[6][4].settings)
            client.measure(request, {digest(changed): changed}, CALL_SECONDS)

        self._judge("program" if is_program else "kernel", ask)

    def _load(self, rng: random.Random) -> None:
        changed, client = mutated_bytes(rng, self._native), self._client()
        request = remote_pb.LoadRequest(content=digest(changed), name="changed")

        def ask() -> None:
            client.send({request.content: changed})
            client.call(client.stub(remote_pb2_grpc.RemoteStub).Load, request, CALL_SECONDS)

        self._judge("loaded kernels", ask)

    def raw(self, rng: random.Random) -> None:
        """Bytes that are almost HTTP/2, or nothing like it."""
        self.report.sent["raw bytes"] += 1
        address = rng.choice((self.target.server, self.target.tracker))
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        frames = b"".join(_frame(rng) for _ in range(rng.randint(0, 6)))
        data = preface + frames if rng.random() < 0.7 else mutated_bytes(rng, preface + frames)
        try:
            with socket.create_connection((address.host, address.port), timeout=CALL_SECONDS) as connection:
                connection.sendall(data)
                connection.settimeout(0.002)
                connection.recv(4096)
        except TimeoutError:
            pass  # it waits for more
        except OSError:
            pass  # it has had enough

    def _client(self) -> DeviceClient:
        if self._session is None or not self._session.is_open:
            for _ in range(2000):
                try:
                    self._session = DeviceClient(self.target.server, credentials=self.target.credentials)
                    self._remote_calls = self._examples_of_remote(self._session)
                    return self._session
                except RequestRefused:  # one of the messages has opened a session
                    time.sleep(0.005)
            raise RuntimeError("the device stays taken")
        return self._session

    def _judge(self, name: str, ask: Callable[[], None]) -> None:
        self.report.sent[name] += 1
        begin = time.monotonic()
        try:
            ask()
            status = "OK"
        except grpc.RpcError as error:
            status = error.code().name
        except RequestRefused as error:
            status = error.status.name
        except Exception as error:  # of a client whose session has ended, as in ConnectionLost
            status = type(error).__name__
        took = time.monotonic() - begin
        self.report.answers[status] += 1
        self.report.secs[name] += took
        self.report.slowest = max(self.report.slowest, took)
        if status == "DEADLINE_EXCEEDED" or took > CALL_SECONDS:
            self.report.failures.append(f"a call did not end within {CALL_SECONDS:g} s")

    # -- all of them -----------------------------------------------------------------------
    def run(self, seeds: range) -> Report:
        """Messages by seeds; it ends with the first batch after which something is wrong."""
        for begin in range(seeds.start, seeds.stop, BATCH):
            for seed in range(begin, min(begin + BATCH, seeds.stop)):
                rng = random.Random(seed)
                kind = rng.random()
                if kind < 0.1:
                    self.raw(rng)
                elif kind < 0.15:
                    self.content(rng)
                else:
                    self.message(rng, in_session=kind < 0.6)
            problem = self.wrong()
            if problem:
                self.report.failures.append(f"after seed {min(begin + BATCH, seeds.stop) - 1}: {problem}")
                break
        return self.report

    def wrong(self) -> str:
        """What is wrong with the server or the tracker; nothing is, usually."""
        if self.target.process.poll() is not None:
            return f"the process has ended with status {self.target.process.returncode}: {self.target.log()[-2000:]}"
        for channel, method in ((self._device, "Device/Describe"), (self._tracker, "Tracker/List")):
            try:
                channel.unary_unary(f"/loopsmith.rpc.v1.{method}")(b"", timeout=10.0, metadata=self._shown)
            except grpc.RpcError as error:
                return f"{method} answers {error.code().name}: {error.details()}"
        if len(self.target.children()) > 1:
            return f"it has started processes of its own: {self.target.children()}"
        text = self.target.log()
        if "Traceback" in text:
            return f"an error that no client is told the meaning of: {text[:3000]}"
        return ""

    def close(self) -> None:
        """Let the server go."""
        if self._session is not None:
            self._session.close()
        self._device.close()
        self._tracker.close()


def _frame(rng: random.Random) -> bytes:
    """A frame of HTTP/2 whose parts need not fit each other."""
    body = rng.randbytes(rng.choice((0, 1, 5, 8, 40, 300)))
    size = rng.choice((len(body), len(body), 0, 0xFFFFFF))
    kind, flags = rng.choice((*range(10), 0xFF)), rng.randrange(256)
    stream = rng.choice((0, 1, 1, 3, 0x7FFFFFFF, 0xFFFFFFFF))
    return size.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


@contextmanager
def campaign(folder: Path, tls: bool = False) -> Iterator[Campaign]:
    """A campaign against a server and a tracker of its own, with TLS or without."""
    target = Target(folder, tls)
    made = Campaign(target)
    try:
        yield made
    finally:
        made.close()
        target.close()
