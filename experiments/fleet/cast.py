"""Who plays in the chaos: processes of a fleet that can be killed and started again, in a folder of their own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

MARK = "LOOPSMITH_CHAOS_RUN"
"""A variable by which processes of a run, and all that they start, are found again; confined workers keep it, too."""
_END_SECONDS = 20.0


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Player:
    """A process that is started with one command, however often it ends.

    Args:
        name: for logs and reports.
        command: arguments of Python.
        folder: of its log.
        environment: beside that of this process.
    """

    def __init__(self, name: str, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.name, self._command = name, [sys.executable, *command]
        self._log, self._environment = folder / f"{name}.log", {**os.environ, **environment}
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        """Start it."""
        self.starts += 1
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """How it has ended; None while it runs."""
        return None if self.process is None else self.process.poll()

    @property
    def is_running(self) -> bool:
        """Whether it does."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """End it by ``kill -9``: itself alone, what it has started is to notice."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Ask it to end, and wait."""
        if self.process is None:
            return
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self, most: int = 2000) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-most:] if self._log.exists() else ""


def processes_of(mark: str) -> dict[int, str]:
    """The processes of a run that are there, each with its command."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
                )
        except OSError:  # it has ended, or is somebody else's
            pass
    found.pop(os.getpid(), None)
    return found


def processes_left(mark: str, seconds: float) -> dict[int, str]:
    """Processes of a run that do not end within some seconds; they are ended then."""
    end = time.monotonic() + seconds
    while (left := processes_of(mark)) and time.monotonic() < end:
        time.sleep(0.2)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return left


def files_left(folder: Path) -> list[str]:
    """What a run has left in its folder for temporary files."""
    return sorted(path.name for path in folder.iterdir())


def remove(folder: Path) -> None:
    """A folder of a run, with all in it."""
    shutil.rmtree(folder, ignore_errors=True)
