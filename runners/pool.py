"""A pool of persistent worker processes that survive bad candidates one at a time.

Each worker runs calls until one of them crashes it, exceeds its time, or exhausts memory; the next call gets a new
process, forked in milliseconds from a template. Every call ends in an :class:`Outcome`, never in an exception.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .error import WorkerError
from .worker import PHASE, RETURNED, receive, send

_LOG = logging.getLogger(__package__)
_START_SECONDS = 120.0
_PATIENCE = 5.0
"""Seconds after which the user is told what is waited for."""
DEFAULT_MEMORY_LIMIT = 8 << 30
"""Bytes that a worker may map beyond what it starts with; thread stacks count too."""


CONTEXT_LOST = "CudaContextLost"
"""Name of the error (:mod:`runners.cuda.driver`) after which a process can do nothing more with its device."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call in a worker ended."""

    kind: str
    """``returned``, ``raised``, ``died`` or ``timeout``."""
    value: Any = None
    """What the function returned."""
    error: str = ""
    """Name of the exception, or of the signal."""
    message: str = ""
    phase: str = ""
    """What the worker was doing when it ended."""
    traceback: str = ""


class Template:
    """The parent's side of the template process; started with the first worker."""

    def __init__(self, preload: Sequence[str], memory_limit: int) -> None:
        self._preload = tuple(preload)
        self._memory_limit = memory_limit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._folder: Path | None = None
        self._closed = False

    def fork(self) -> tuple[int, socket.socket, IO[bytes]]:
        """A new worker: its process id, the connection to it, and the file that gets its output.

        Raises:
            WorkerError: the template does not start.
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
        return reply["pid"], ours, log

    def reap(self, pid: int) -> int:
        """Wait for a worker that ended, or was killed; its wait status."""
        with self._lock:
            status: int = self._ask({"op": "reap", "pid": pid}, [])["status"]
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
        if self._closed:
            raise WorkerError("the worker pool is closed")
        if self._control is None:
            self._start()
        assert self._control is not None
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], fds)
            data = self._control.recv(65536)
        except OSError as error:
            raise WorkerError(f"the process that starts workers is gone: {error}") from error
        if not data:
            raise WorkerError("the process that starts workers is gone")
        return json.loads(data)

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parent.parent)
        paths = [root, *[path or os.getcwd() for path in sys.path]]
        self._folder = self._folder or _own_folder()
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
                    **os.environ,
                    **threads,
                    "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
                    "LOOPSMITH_REFERENCE_FOLDER": str(self._folder),
                },
                start_new_session=True,  # Ctrl-C in the terminal is for the parent, which ends us in its own time
            )
            theirs.close()
            ours.settimeout(_START_SECONDS)
            try:
                ready = ours.recv(5)
            except TimeoutError:
                ready = b""
            if ready != b"ready":
                self._process.kill()
                self._process.wait()
                self._process = None
                ours.close()
                errors.seek(0)
                raise WorkerError(
                    f"worker processes do not start: {errors.read().decode(errors='replace')[-2000:].strip()}"
                )
        ours.settimeout(None)
        self._control = ours


def _own_folder() -> Path:
    """A folder for what workers share, named after this process; those of dead processes are removed."""
    parent, prefix = Path(tempfile.gettempdir()), f"loopsmith-pool-{os.getuid()}-"
    for left in parent.glob(f"{prefix}*"):
        pid = left.name.removeprefix(prefix).split("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent))


@dataclass(slots=True)
class _Job:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    limit: float
    phase: str
    future: Future[Outcome]
    owner: Any = None
    apart: bool = False


class Worker:
    """One seat of the pool: a thread that hands calls to a process and replaces the process when it must."""

    def __init__(self, pool: WorkerPool, index: int) -> None:
        self._pool = pool
        self.index = index
        self.generation = 0
        """Counts processes: what was kept in the process of an earlier generation is gone."""
        self.references: set[tuple[int, str]] = set()
        """(generation, key) of unscheduled programs whose outputs the process has seen."""
        self.jobs: deque[_Job] = deque()
        """Calls that only this worker may serve."""
        self._pid: int | None = None
        self._connection: socket.socket | None = None
        self._log: IO[bytes] | None = None
        self._thread = threading.Thread(target=self._loop, name=f"loopsmith-worker-{index}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Process id, None before the first call and after a crash."""
        return self._pid

    def join(self, timeout: float) -> None:
        """Wait until the thread has let go of its process, after the pool was closed."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _loop(self) -> None:
        while True:
            job = self._pool._next_job(self)
            if job is None:
                self._end(kill=False)
                return
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(self._call_apart(job) if job.apart else self._call(job))
            except BaseException as error:  # the waiting caller gets it, this thread goes on
                job.future.set_exception(error)

    def _call(self, job: _Job) -> Outcome:
        if self._connection is None:
            self._pid, self._connection, self._log = self._pool.template.fork()
            self.generation += 1
        if job.owner is not None:
            job.owner.worker, job.owner.generation = self, self.generation
        phase, limit, notice = job.phase, job.limit, None
        deadline: float | None = time.monotonic() + job.limit
        connection = self._connection
        try:
            connection.settimeout(job.limit)
            send(connection, (job.function, job.args))
            while True:
                left = None if deadline is None else max(deadline - time.monotonic(), 1e-3)
                if notice is not None and not _answers(connection, min(left or math.inf, _PATIENCE)):
                    self._pool.tell(notice)
                    notice = None
                    continue
                connection.settimeout(left)
                message = receive(connection)
                if message[0] != PHASE:
                    break
                _, phase, limit, notice = message
                deadline = None if limit is None else time.monotonic() + limit
        except TimeoutError:
            self._end(kill=True)
            seconds = "" if limit is None else f" of {limit:g} seconds"
            return Outcome(
                "timeout",
                phase=phase,
                message=f"no answer within the limit{seconds} from the phase {phase!r}",
            )
        except (EOFError, ConnectionError):
            return self._died(phase)
        if message[0] == RETURNED:
            return Outcome("returned", value=message[1], phase=phase)
        _, error, text, trace = message
        if error == "MemoryError":  # what is left of the process's memory may be too little for the next call
            self._end(kill=True)
            text = (
                f"{text}; a worker may map {_shown_bytes(self._pool.memory_limit)}, and more with"
                " LocalRunner(pool=WorkerPool(memory_limit=...)), in bytes"
            )
        if error == CONTEXT_LOST:  # the process has lost what it had on its device, for good
            self._end(kill=True)
        return Outcome("raised", error=error, message=text, phase=phase, traceback=trace)

    def _call_apart(self, job: _Job) -> Outcome:
        """The call in a process of its own, which ends with it; that of this worker waits and keeps what it has."""
        kept = self._pid, self._connection, self._log, self.generation
        self._pid = self._connection = self._log = None
        try:
            return self._call(job)
        finally:
            self._end(kill=True)
            self._pid, self._connection, self._log, self.generation = kept

    def _died(self, phase: str) -> Outcome:
        log = self._log_tail()
        status = self._end(kill=False)
        if status is None:
            return Outcome("died", error="closed", phase=phase, message="the pool was closed")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.Signals(number).name
            text = f"the process was ended by {name} in the phase {phase!r}"
            if number == signal.SIGKILL:
                text += ", as the system does where its memory runs out: leave the machine more, or take fewer workers, as in WorkerPool(1)"
        else:
            name = "exit"
            text = f"the process ended with status {os.waitstatus_to_exitcode(status)} in the phase {phase!r}"
        return Outcome(
            "died", error=name, phase=phase, message=text + (f"; its output: {log}" if log else "")
        )

    def _log_tail(self) -> str:
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 2000))
        return self._log.read().decode(errors="replace").strip()

    def _end(self, *, kill: bool) -> int | None:
        pid, self._pid = self._pid, None
        if self._connection is not None:
            self._connection.close()
        if self._log is not None:
            self._log.close()
        self._connection = self._log = None
        if pid is None or self._pool.closed:
            return None
        try:
            if kill:
                os.kill(pid, signal.SIGKILL)
            return self._pool.template.reap(pid)
        except (WorkerError, ProcessLookupError):  # the pool was closed meanwhile
            return None


def _answers(connection: socket.socket, seconds: float) -> bool:
    """Whether a worker sends something within some seconds."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


def _shown_bytes(count: int) -> str:
    return f"{count / (1 << 30):.3g} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.3g} MiB"


class WorkerPool:
    """Worker processes behind one queue.

    Safe to use from several threads. ``close`` ends everything at once; calls that wait get a ``died`` outcome.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        preload: Sequence[str] = ("runners.native", "runners.candidate"),
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
    ) -> None:
        """
        Args:
            n_workers: processes; the number of usable cores by default.
            preload: modules that every worker has loaded when it starts; a function ``warm`` in one is called once.
            memory_limit: bytes that one worker may map beyond what it starts with.
        """
        self.memory_limit = memory_limit
        self.n_workers = n_workers or len(os.sched_getaffinity(0))
        self.template = Template(preload, memory_limit)
        self.closed = False
        self._told: set[str] = set()
        self._condition = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self.workers = [Worker(self, index) for index in range(self.n_workers)]
        atexit.register(self.close)

    def submit(
        self,
        function: Callable[..., Any],
        *args: Any,
        limit: float,
        phase: str = "call",
        worker: Worker | None = None,
        owner: Any = None,
        apart: bool = False,
    ) -> Future[Outcome]:
        """Queue a call of an importable function.

        Args:
            function: pickled by name; it may report phases with limits of their own through ``runners.worker.phase``.
            args: pickled.
            limit: seconds until the process is killed.
            phase: what to call the time until the function reports a phase.
            worker: the only worker that may serve it; any by default.
            owner: gets the worker that served it, and its generation, in its attributes ``worker`` and ``generation``.
            apart: run it in a new process, which ends with the call.

        Raises:
            WorkerError: the pool is closed.
        """
        job = _Job(function, args, limit, phase, Future(), owner, apart)
        with self._condition:
            if self.closed:
                raise WorkerError("the worker pool is closed")
            (self._jobs if worker is None else worker.jobs).append(job)
            self._condition.notify_all()
        return job.future

    def tell(self, notice: str) -> None:
        """Tell the user what is waited for: once, though several workers may wait for the same."""
        if notice not in self._told:
            self._told.add(notice)
            _LOG.warning("%s", notice)

    def close(self) -> None:
        """End all processes now."""
        with self._condition:
            if self.closed:
                return
            self.closed = True
            waiting = [*self._jobs, *(job for worker in self.workers for job in worker.jobs)]
            self._jobs.clear()
            for worker in self.workers:
                worker.jobs.clear()
            self._condition.notify_all()
        for job in waiting:
            if job.future.set_running_or_notify_cancel():
                job.future.set_result(Outcome("died", error="closed", message="the pool was closed"))
        for worker in self.workers:
            pid = worker.pid
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it has just ended by itself
                    pass
        self.template.close()
        for worker in self.workers:
            worker.join(5.0)
        atexit.unregister(self.close)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_job(self, worker: Worker) -> _Job | None:
        with self._condition:
            while True:
                if self.closed:
                    return None
                if worker.jobs:
                    return worker.jobs.popleft()
                if self._jobs:
                    return self._jobs.popleft()
                self._condition.wait()


_shared: WorkerPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool that builders and runners of this process use unless they are given one."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.closed:
            _shared = WorkerPool()
        return _shared
