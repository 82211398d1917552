"""What a server and a tracker take that run for long: ``python -m experiments.fleet.soak --secs 240``.

Sessions come one after the other, as fast as they can: candidates are built and measured, arrays and programs used, contents sent that
make room for others, and some clients vanish, or stop waiting for a device. Told are memory, open files and threads of both processes, and
of the server's template of workers, in between and at the end; they are to stay what they were once all kinds of sessions had been.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ir
import runners
from ir.target.host import host_info
from runners.kernel import Kernel
from runners.kernel_code import ProgramText, digest, packed_kernel
from runners.native import build_native
from runners.rpc import Address, RPCSession, TrackerClient
from runners.rpc.certificates import make_certificates
from runners.rpc.credentials import Credentials
from runners.rpc.device_client import ConnectionLost, DeviceClient, RequestRefused
from runners.rpc.proto import device_pb2 as pb
from tests.programs.nodes import matmul

from ..harness.tables import markdown

_SERVE = """
import sys
from runners.rpc import Address, Limits, Server, Tracker
role, folder, tracker = sys.argv[1:4]
free = Address("127.0.0.1", 0)
limits = Limits(requests_per_second=1e9, burst_requests=10**9, sessions_per_minute=1e9, burst_sessions=10**9, content_bytes=16 << 20)
if role == "tracker":
    made = Tracker(free, limits=limits, credentials=folder)
else:
    made = Server("soak", free, Address.of(tracker), workers=1, limits=limits, credentials=folder)
with made:
    print(made.address, flush=True)
    sys.stdin.read()
"""
_WARM_SHARE = 0.25
"""Of the time, after which everything has happened that happens once."""
_SAMPLES = 12


@dataclass(frozen=True)
class Sample:
    """What a process takes."""

    bytes: int
    """Of memory that it has alone, or with others."""
    files: int
    threads: int

    @staticmethod
    def of(pid: int) -> Sample:
        """A process now."""
        folder = Path("/proc", str(pid))
        pages = int((folder / "statm").read_text().split()[1])
        return Sample(
            pages * os.sysconf("SC_PAGE_SIZE"),
            len(os.listdir(folder / "fd")),
            len(os.listdir(folder / "task")),
        )

    def cells(self) -> tuple[str, str, str]:
        """For a table."""
        return f"{self.bytes / (1 << 20):.1f}", str(self.files), str(self.threads)


class Process:
    """A tracker or a server of its own."""

    def __init__(self, role: str, folder: Path, tracker: str = "") -> None:
        credentials = folder / f"{role}s" / "localhost"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, role, str(credentials), tracker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = Address.of(self._process.stdout.readline())

    def sample(self) -> Sample:
        """What it takes."""
        return Sample.of(self._process.pid)

    def children(self) -> list[int]:
        """What it has started itself."""
        found: list[int] = []
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
        return found

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


class Client:
    """Opens sessions of all kinds.

    Args:
        tracker: that lends the device.
        own: certificate and tokens.
    """

    def __init__(self, tracker: Address, own: Credentials) -> None:
        self._tracker, self._own = TrackerClient(tracker, own), own
        mod = matmul()
        self._program = ProgramText.of(mod).data
        self._code = packed_kernel(Kernel(mod, build_native(mod, "cpu")))
        self._kernels = ir.build(matmul(4, 4, 4), "llvm")
        self._rng = random.Random(0)
        self.done: Counter[str] = Counter()
        self._kinds: tuple[Callable[[DeviceClient], None], ...] = (
            self.measures, self.builds, self.calls, self.sends, self.vanishes,
        )  # fmt: skip

    def session(self) -> None:
        """One more."""
        if self._rng.random() < 0.1:
            self._tracker.acquire("nobody serves", timeout_sec=0.001)
            self.done["stopped waiting"] += 1
            return
        grant = self._tracker.acquire("soak", timeout_sec=60.0)
        assert grant is not None
        kind = self._rng.choice(self._kinds)
        with suppress(
            RequestRefused, ConnectionLost
        ):  # one before has vanished, and is still being cleared away
            with DeviceClient(Address.of(grant.address), grant.ticket, 10.0, self._own, "soak") as client:
                kind(client)
                self.done[kind.__name__] += 1

    def measures(self, client: DeviceClient) -> None:
        """A candidate, checked against its program."""
        settings = pb.Settings(
            evaluator=pb.Evaluator(number=1, repeat=1),
            timeout_sec=5.0,
            cut_ratio=2.0,
            reference_timeout_sec=5.0,
        )
        code, program = digest(self._code), digest(self._program)
        request = pb.MeasureRequest(
            id=str(self._rng.random()), code=code, reference=program, target="cpu", settings=settings
        )
        reply = client.measure(request, {code: self._code, program: self._program}, 30.0)
        assert reply.kind == "ok", reply

    def builds(self, client: DeviceClient) -> None:
        """A program, whose code is fetched."""
        reply = client.build(self._program, "cpu", 30.0)
        assert client.fetch(reply.code)

    def calls(self, client: DeviceClient) -> None:
        """Kernels, with arrays of the device."""
        session = RPCSession(client)
        session.upload(self._kernels, "kernels")
        arrays = [runners.array(np.ones((4, 4), "float32"), session.cpu()) for _ in range(3)]
        session.load_module("kernels")["main"](*arrays)
        assert (arrays[2].numpy() == 4).all()

    def sends(self, client: DeviceClient) -> None:
        """A content that is new."""
        data = self._rng.randbytes(300_000)
        client.send({digest(data): data})

    def vanishes(self, client: DeviceClient) -> None:
        """In the middle of a call."""
        client._channel.close()


def soak(secs: float) -> tuple[list[tuple[float, int, dict[str, Sample]]], Counter[str]]:
    """Samples, each with its time and the sessions until then; and how many of each kind there were."""
    samples: list[tuple[float, int, dict[str, Sample]]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        make_certificates(folder, keys=["soak", "nobody serves"])
        tracker = Process("tracker", folder)
        server = Process("server", folder, str(tracker.address))
        client = Client(tracker.address, Credentials.of_folder(folder / "clients/client"))
        begin = time.monotonic()
        while (now := time.monotonic() - begin) < secs or len(samples) <= _SAMPLES:
            if now >= secs * len(samples) / _SAMPLES:
                (template,) = server.children()
                taken = {
                    "tracker": tracker.sample(),
                    "server": server.sample(),
                    "template": Sample.of(template),
                }
                samples.append((now, client.done.total(), taken))
            client.session()
        server.close()
        tracker.close()
    return samples, client.done


def growth(samples: list[tuple[float, int, dict[str, Sample]]], name: str) -> tuple[float, int, int]:
    """KiB of memory for each 1,000 sessions (a line through the samples), files and threads more at the end, all since it was warm."""
    warm = [item for item in samples if item[0] >= _WARM_SHARE * samples[-1][0]]
    slope = np.polyfit([count for _, count, _ in warm], [taken[name].bytes for _, _, taken in warm], 1)[0]
    first, last = warm[0][2][name], warm[-1][2][name]
    return float(slope) * 1000 / 1024, last.files - first.files, last.threads - first.threads


def page(samples: list[tuple[float, int, dict[str, Sample]]], done: Counter[str]) -> str:
    """In Markdown."""
    names = list(samples[0][2])
    header = [
        "seconds",
        "sessions",
        *(f"{name}: {what}" for name in names for what in ("MiB", "files", "threads")),
    ]
    rows = [
        [f"{secs:.0f}", str(count), *(cell for name in names for cell in taken[name].cells())]
        for secs, count, taken in samples
    ]
    host = host_info()
    grown = [(name, growth(samples, name)) for name in names]
    told = "\n".join(
        f"* {name}: {kib:+.0f} KiB of memory for each 1,000 sessions, {files:+d} files, {threads:+d} threads"
        for name, (kib, files, threads) in grown
    )
    return _TEXT.format(
        machine=f"{host.model_name or host.cpu}, {host.cores} cores",
        total=done.total(),
        kinds=", ".join(f"{count} {kind}" for kind, count in sorted(done.items())),
        table=markdown(header, rows),
        growth=told,
    )


_TEXT = """# A server and a tracker over many sessions

Made by `python -m experiments.fleet.soak --page experiments/results/fleet_soak.md` on {machine}, with mutual TLS. {total} sessions,
one after the other: {kinds}. Contents may have 16 MiB together. Memory is what is resident.

{table}

Since a quarter of the time was over:

{growth}
"""


def main() -> None:
    """Prints the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--secs", type=float, default=240.0)
    parser.add_argument("--page", type=Path, help="write it there, too")
    args = parser.parse_args()
    text = page(*soak(args.secs))
    print(text)
    if args.page is not None:
        args.page.write_text(text)


if __name__ == "__main__":
    main()
