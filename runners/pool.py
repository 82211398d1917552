"""A pool of persistent worker processes that survive bad candidates one at a time.

Each worker runs calls until one of them crashes it, exceeds its time, or exhausts memory; the next call gets a new
process, forked in milliseconds from a template. Every call ends in an :class:`Outcome`, never in an exception.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import select
import shutil
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .error import WorkerError
from .outcome import CONTEXT_LOST, Outcome, ending, last_output
from .template_process import Template, TemplateEnded
from .worker import PHASE, RETURNED, receive, send

if TYPE_CHECKING:
    from .rpc.sandbox import Sandbox

_LOG = logging.getLogger(__package__)
_MOST_TOLD = 1000
_PATIENCE = 5.0
"""Seconds after which the user is told what is waited for."""
_STEP = 1.0
"""Seconds after which a process that waits looks whether it was stopped meanwhile."""
DEFAULT_MEMORY_LIMIT = 8 << 30
"""Bytes that a worker may map beyond what it starts with; thread stacks count too."""


class EndedFromOutside(WorkerError):
    """Somebody else has ended or stopped the process of a call, which says nothing of the call.

    Args:
        outcome: what the call would have been told.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


@dataclass(slots=True)
class _Job:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    limit: float
    phase: str
    future: Future[Outcome]
    owner: Any = None
    apart: bool = False


_TEMPLATES = 3
"""Of which each may end during a call, before the call has failed."""
_OF_OTHERS = frozenset({"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"})
"""Signals that kernels do not raise: people and systems send them."""


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
        self._waiting_pid: int | None = None
        """Of the process that waits while a call runs in one of its own."""
        self._is_stale = False
        self._connection: socket.socket | None = None
        self._log: IO[bytes] | None = None
        self._thread = threading.Thread(target=self._loop, name=f"loopsmith-worker-{index}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Process id, None before the first call and after a crash."""
        return self._pid

    def kill(self) -> None:
        """End its processes at once, whatever they do; the next call gets a new one."""
        self._is_stale = True
        for pid in (self._pid, self._waiting_pid):
            if pid is not None:
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(pid, signal.SIGKILL)

    def join(self, timeout: float) -> None:
        """Wait until the thread has let go of its process, after the pool was closed."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _loop(self) -> None:
        while True:
            job = self._pool._next_job(self)
            if job is None:
                self._end()
                return
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(self._answered(job))
            except BaseException as error:  # the waiting caller gets it, this thread goes on
                job.future.set_exception(error)

    def _answered(self, job: _Job) -> Outcome:
        """What comes of a call, which is made once more where its process or the template was ended: that is no fault of the call's.

        Whatever ends the second process, too, is believed to: the system's guard of memory kills who takes too much of it each time.
        """
        call = self._call_apart if job.apart else self._call
        left, was_ended = _TEMPLATES, False
        while True:
            left -= 1
            try:
                return call(job)
            except EndedFromOutside as error:
                if was_ended:
                    return error.outcome
                was_ended = True
                _LOG.warning("%s; another one is started", error)
            except TemplateEnded as error:
                if left <= 0:
                    raise
                _LOG.warning("%s; another one is started", error)

    def _call(self, job: _Job) -> Outcome:
        if self._is_stale:
            self._is_stale = False
            self._end()
        if self._connection is None:
            self._pid, self._connection, self._log = self._pool.template.fork()
            self.generation += 1
            if self._waiting_pid is None:
                self.references.clear()  # what processes have seen that are gone
        if job.owner is not None:
            job.owner.worker, job.owner.generation = self, self.generation
        phase, limit, notice = job.phase, job.limit, None
        end = self._pool.last_end()
        deadline: float = min(time.monotonic() + job.limit, end)
        connection = self._connection
        try:
            connection.settimeout(job.limit)
            send(connection, (job.function, job.args))
            while True:
                left = max(deadline - time.monotonic(), 1e-3)
                if notice is not None and not _answers(connection, min(left, _PATIENCE)):
                    self._pool.tell(notice)
                    notice = None
                    continue
                if not _answers_while_this_runs(connection, left):
                    raise TimeoutError
                connection.settimeout(None if left == math.inf else left)
                message = self._pool.receive(connection)
                if message[0] != PHASE:
                    break
                _, phase, limit, notice = message
                deadline = min(math.inf if limit is None else time.monotonic() + limit, end)
        except TimeoutError:
            was_stopped = self._pid is not None and _is_stopped(self._pid)
            self._end()
            seconds = "" if limit is None else f" of {limit:g} seconds"
            message = f"no answer within the limit{seconds} from the phase {phase!r}"
            if was_stopped:
                message += ", as somebody has stopped the process (SIGSTOP)"
                raise EndedFromOutside(Outcome("timeout", phase=phase, message=message)) from None
            return Outcome("timeout", phase=phase, message=message)
        except (EOFError, ConnectionError):
            return self._died(phase)
        except WorkerError as forged:  # the candidate has taken the process over
            self._end()
            return Outcome("died", error="answer", phase=phase, message=str(forged))
        if message[0] == RETURNED:
            return Outcome("returned", value=message[1], phase=phase)
        _, error, text, trace = message
        if error == "MemoryError":  # what is left of the process's memory may be too little for the next call
            self._end()
            text = (
                f"{text}; a worker may map {_shown_bytes(self._pool.memory_limit)}, and more with"
                " LocalRunner(pool=WorkerPool(memory_limit=...)), in bytes"
            )
        if error == CONTEXT_LOST:  # the process has lost what it had on its device, for good
            self._end()
        return Outcome("raised", error=error, message=text, phase=phase, traceback=trace)

    def _call_apart(self, job: _Job) -> Outcome:
        """The call in a process of its own, which ends with it; that of this worker waits and keeps what it has."""
        kept = self._pid, self._connection, self._log, self.generation
        self._waiting_pid = self._pid
        self._pid = self._connection = self._log = None
        try:
            return self._call(job)
        finally:
            self._end()
            self._pid, self._connection, self._log, self.generation = kept
            self._waiting_pid = None

    def _died(self, phase: str) -> Outcome:
        log = "" if self._log is None else last_output(self._log)
        status = self._end()
        if status is None and not self._pool.closed:
            raise TemplateEnded
        if status is None:
            return Outcome("died", error="closed", phase=phase, message="the pool was closed")
        name, text = ending(status, f"in the phase {phase!r}")
        if name == "SIGKILL":
            text += ", as the system does where its memory runs out: leave the machine more, or take fewer workers, as in WorkerPool(1)"
        outcome = Outcome(
            "died", error=name, phase=phase, message=text + (f"; its output: {log}" if log else "")
        )
        if name in _OF_OTHERS and not self._is_stale and not self._pool.closed:
            raise EndedFromOutside(outcome)
        return outcome

    def _end(self) -> int | None:
        """Let go of the process, which may not have ended by itself: a candidate can close its connection and stay. How it ended, if that
        can be told."""
        pid, self._pid = self._pid, None
        if self._connection is not None:
            self._connection.close()
        if self._log is not None:
            self._log.close()
        self._connection = self._log = None
        if pid is None or self._pool.closed:
            return None
        try:
            return self._pool.template.end(pid)
        except WorkerError:  # the pool was closed meanwhile, or its template ended
            return None


def _is_stopped(pid: int) -> bool:
    """Whether a process waits for somebody to continue it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:  # it has ended, or this is no Linux
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")


def _answers_while_this_runs(connection: socket.socket, seconds: float) -> bool:
    """Whether a worker sends something within some seconds, not counting those in which this process was stopped.

    Ctrl-Z stops the workers with it: when all go on, they have the time that they had left.
    """
    left = seconds
    while left > 0:
        step, begin = min(left, _STEP), time.monotonic()
        if _answers(connection, step):
            return True
        left -= min(time.monotonic() - begin, 2 * _STEP)
    return False


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
        sandbox: Sandbox | None = None,
    ) -> None:
        """
        Args:
            n_workers: processes; the number of usable cores by default.
            preload: modules that every worker has loaded when it starts; a function ``warm`` in one is called once.
            memory_limit: bytes that one worker may map beyond what it starts with.
            sandbox: confines the workers, for code that nobody here trusts: see :mod:`runners.rpc.sandbox`. Their answers are then plain
                data, as :mod:`runners.plain_reply` has it.
        """
        self.memory_limit = memory_limit
        self.n_workers = n_workers or len(os.sched_getaffinity(0))
        self.sandbox = sandbox
        self.template = Template(preload, memory_limit, sandbox)
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
        if notice not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(notice)
            _LOG.warning("%s", notice)

    def receive(self, connection: socket.socket) -> Any:
        """The next answer of a worker.

        Raises:
            EOFError: it is gone.
            WorkerError: it is confined, and what it sent is no answer.
        """
        if self.sandbox is None:
            return receive(connection)
        return self.sandbox.receive(connection)

    def last_end(self) -> float:
        """When a call that begins now is ended whatever it says, by the clock ``time.monotonic``."""
        return math.inf if self.sandbox is None else time.monotonic() + self.sandbox.call_seconds

    def renew(self) -> None:
        """End what runs and forget what waits, as for a client that has gone: their calls ``died``. What comes next gets new processes."""
        with self._condition:
            waiting = self._take_waiting()
        _give_up(waiting, "nobody waits for it any more")
        for worker in self.workers:
            worker.kill()

    def folder_bytes(self) -> int:
        """What the files take on the disk that the workers share."""
        found = 0
        for where, _, names in os.walk(self.template.folder or os.devnull):
            for name in names:
                with suppress(FileNotFoundError):  # removed in between
                    found += 512 * os.lstat(os.path.join(where, name)).st_blocks
        return found

    def clear_folder(self) -> None:
        """Remove the files that the workers share, as where others follow who are not to find them."""
        folder = self.template.folder
        for entry in os.scandir(folder) if folder is not None else ():
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(
                    entry.path, ignore_errors=True
                )  # it follows no links, whoever makes them meanwhile
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry.path)

    def _take_waiting(self) -> list[_Job]:
        waiting = [*self._jobs, *(job for worker in self.workers for job in worker.jobs)]
        self._jobs.clear()
        for worker in self.workers:
            worker.jobs.clear()
        return waiting

    def close(self) -> None:
        """End all processes now."""
        with self._condition:
            if self.closed:
                return
            self.closed = True
            waiting = self._take_waiting()
            self._condition.notify_all()
        _give_up(waiting, "the pool was closed")
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


def _give_up(jobs: Sequence[_Job], why: str) -> None:
    for job in jobs:
        if job.future.set_running_or_notify_cancel():
            job.future.set_result(Outcome("died", error="closed", message=why))


_shared: WorkerPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool that builders and runners of this process use unless they are given one."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.closed:
            _shared = WorkerPool()
        return _shared
