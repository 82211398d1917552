"""The parent's side of the process from which workers are forked, which is :mod:`runners.template`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .error import WorkerError
from .own_folder import own_folder

if TYPE_CHECKING:
    from .rpc.sandbox import Sandbox

_START_SECONDS = 120.0


class TemplateEnded(WorkerError):
    """The process that starts workers was ended by somebody, and all workers with it; the next one is started by another."""

    def __init__(self) -> None:
        super().__init__("the process that starts workers was ended from outside")


class Template:
    """The parent's side of the template process; started with the first worker, and again where somebody has ended it."""

    def __init__(self, preload: Sequence[str], memory_limit: int, sandbox: Sandbox | None = None) -> None:
        self._preload = tuple(preload)
        self._memory_limit = memory_limit
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._workers: set[int] = set()
        """Of this template, which have not been waited for."""
        self._folder: Path | None = None
        self._closed = False

    def fork(self) -> tuple[int, socket.socket, IO[bytes]]:
        """A new worker: its process id, the connection to it, and the file that gets its output.

        Raises:
            WorkerError: the template does not start.
            TemplateEnded: it ended while it was asked.
        """
        ours, theirs = socket.socketpair()
        log = tempfile.TemporaryFile()
        with self._lock:
            try:
                reply = self._ask(
                    {"op": "fork", "memory_limit": self._memory_limit}, [theirs.fileno(), log.fileno()]
                )
            except WorkerError:
                ours.close()
                log.close()
                raise
            finally:
                theirs.close()
            self._workers.add(reply["pid"])
        return reply["pid"], ours, log

    def end(self, pid: int) -> int:
        """Kill a worker; its wait status, which is its own where it was ending by itself.

        Raises:
            WorkerError: the pool is closed.
            TemplateEnded: the worker has ended with its template, which alone could tell how.
        """
        with self._lock:
            self._look()
            if pid not in self._workers:
                raise TemplateEnded
            os.kill(
                pid, signal.SIGKILL
            )  # it is there until it is waited for: its number is nobody else's yet
            status: int = self._ask({"op": "reap", "pid": pid}, [])["status"]
            self._workers.discard(pid)
        return status

    def close(self) -> None:
        """End the template, and with it all workers."""
        with self._lock:
            self._closed = True
            if self._control is not None:
                self._control.close()
            if self._process is not None:
                self._process.wait()
            self._process = self._control = None
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, request: dict[str, Any], fds: list[int]) -> Any:
        self._look()
        if self._control is None:
            self._start()
        assert self._control is not None
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], fds)
            data = self._control.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._discard()
            raise TemplateEnded
        return json.loads(data)

    def _look(self) -> None:
        """Forget a template that has ended.

        Raises:
            WorkerError: the pool is closed.
        """
        if self._closed:
            raise WorkerError("the worker pool is closed")
        if self._process is not None and self._process.poll() is not None:
            self._discard()

    def _discard(self) -> None:
        assert self._process is not None and self._control is not None
        self._control.close()
        self._process.kill()
        self._process.wait()
        self._process = self._control = None
        self._workers.clear()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parent.parent)
        paths = [root, *[path or os.getcwd() for path in sys.path]]
        self._folder = self._folder or own_folder("pool")
        # One thread per library in the template: a fork copies only the thread that calls it.
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        # -P: a folder called runners where the user works is not ours.
        command = [sys.executable, "-P", "-m", "runners.template", str(theirs.fileno()), *self._preload]
        with tempfile.TemporaryFile() as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[theirs.fileno()],
                env={
                    **self._environment(),
                    **threads,
                    "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
                    "LOOPSMITH_REFERENCE_FOLDER": str(self.folder),
                },
                start_new_session=True,  # Ctrl-C in the terminal is for the parent, which ends us in its own time
            )
            theirs.close()
            ours.settimeout(_START_SECONDS)
            try:
                ready, is_late = ours.recv(5), False
            except TimeoutError:
                ready, is_late = b"", True
            if ready != b"ready":
                self._process.kill()
                was_killed = self._process.wait() == -signal.SIGKILL
                self._process = None
                ours.close()
                errors.seek(0)
                said = errors.read().decode(errors="replace")[-2000:].strip()
                if was_killed and not said and not is_late:
                    raise TemplateEnded
                raise WorkerError(f"worker processes do not start: {said}")
        ours.settimeout(None)
        self._control = ours

    def _environment(self) -> dict[str, str]:
        """What the workers get of this process's environment, with their folder prepared for them."""
        if self._sandbox is None:
            return dict(os.environ)
        assert self._folder is not None and self.folder is not None
        self._sandbox.prepare_folder(self._folder, self.folder)
        return {**self._sandbox.environment(dict(os.environ)), "TMPDIR": str(self.folder)}

    @property
    def folder(self) -> Path | None:
        """What the workers share; None before the first one was started. That of confined ones lies in one that they cannot change."""
        if self._folder is None or self._sandbox is None:
            return self._folder
        return self._folder / "shared"
