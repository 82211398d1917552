"""A tracker and a server of this machine, in processes of their own, for trying and testing what is written for others::

    with LocalRPC() as fleet:
        runner = RPCRunner(RPCConfig(fleet.tracker_host, fleet.tracker_port, fleet.tracker_key))

``python -m runners.rpc.local tracker`` (or ``server``) is what the processes run: it writes its port, and ends when its input does, which
happens however its parent ends.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from ..error import RunnerError
from .connection import Address
from .server import Server
from .tracker import Tracker

_HOST = "127.0.0.1"
_REGISTERED_SECONDS = 30.0


class LocalRPC:
    """A tracker with one server.

    Args:
        tracker_key: what clients ask for.
        silent: drop what the processes say of themselves; what they say is written to the standard error otherwise.
        workers: processes of the server that build.

    Attributes:
        tracker_host, tracker_port, tracker_key: for :class:`~runners.rpc.config.RPCConfig`.
        tracker, server: the processes.

    Raises:
        RunnerError: they do not start.
    """

    def __init__(self, tracker_key: str = "key", silent: bool = False, workers: int | None = None) -> None:
        self.tracker_host, self.tracker_key = _HOST, tracker_key
        self.tracker, self.tracker_port = _started(["tracker"], silent)
        options = ["--tracker", f"{_HOST}:{self.tracker_port}", "--key", tracker_key]
        if workers is not None:
            options += ["--workers", str(workers)]
        try:
            self.server, self.server_port = _started(["server", *options], silent)
        except RunnerError:
            _ended(self.tracker)
            raise

    def close(self) -> None:
        """End both."""
        _ended(self.server)
        _ended(self.tracker)

    def __enter__(self) -> LocalRPC:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _started(arguments: list[str], silent: bool) -> tuple[subprocess.Popen[str], int]:
    """A process and its port."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *[path or os.getcwd() for path in sys.path]]
    process = subprocess.Popen(
        # -P: a folder called runners where the user works is not ours.
        [sys.executable, "-P", "-m", "runners.rpc.local", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if silent else None,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
        start_new_session=True,  # Ctrl-C in the terminal is for the parent, which ends us in its own time
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line.isdigit():
        _ended(process)
        raise RunnerError(f"the {arguments[0]} does not start; its process ended with {process.returncode}")
    return process, int(line)


def _ended(process: subprocess.Popen[str]) -> None:
    """Let a process end, by the end of its input."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def main(arguments: list[str] | None = None) -> None:
    """What the processes run."""
    parser = argparse.ArgumentParser(prog="python -m runners.rpc.local")
    parser.add_argument("role", choices=("tracker", "server"))
    parser.add_argument("--tracker")
    parser.add_argument("--key", default="key")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args(arguments)
    address = Address(_HOST, 0)
    if given.role == "tracker":
        with Tracker(address) as tracker:
            _serve(tracker.address)
        return
    with Server(
        given.key, address, given.tracker and Address.of(given.tracker), workers=given.workers
    ) as server:
        if given.tracker and not server.wait_registered(_REGISTERED_SECONDS):
            raise SystemExit(f"the tracker at {given.tracker} does not answer")
        _serve(server.address)


def _serve(address: Address) -> None:
    print(address.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
