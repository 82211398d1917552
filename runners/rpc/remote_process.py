"""The server's side of a session's process: one task at a time, with a limit of its own, after which the process is killed."""

from __future__ import annotations

import threading
import time

from ..error import WorkerError
from ..outcome import CONTEXT_LOST, ending, last_output
from ..template_process import Template
from ..worker import send
from .failures import failure
from .frames import FrameError, receive_message, send_message
from .proto import remote_pb2 as pb
from .remote_worker import serve

_GONE = "its arrays and programs are gone: load what you need again"


class RemoteProcess:
    """A process that holds a client's arrays and programs.

    Args:
        template: that it is forked from.
        number: among the processes of this server.

    Raises:
        WorkerError: it does not start.
    """

    def __init__(self, template: Template, number: int) -> None:
        self._template = template
        self._asking = threading.Lock()
        self._ending = threading.Lock()
        self._status: int | None = None
        self.pid, self._connection, self._log = template.fork()
        self.has_ended = False
        self.loading = threading.Lock()
        """Held while a program comes in parts."""
        self.contents: set[str] = set()
        """Of the programs that it has."""
        send(self._connection, (serve, (number,)))

    def ask(self, task: pb.Task, seconds: float, what: str) -> pb.Answer:
        """What comes of a task; that the process has ended is an answer, too.

        Args:
            task: that it is told.
            seconds: that it may take.
            what: it does, in messages: "it <what>".
        """
        with self._asking:
            if self.has_ended:
                return failure("RunnerError", f"the session's process has ended; {_GONE}")
            try:
                deadline = time.monotonic() + seconds
                self._connection.settimeout(seconds)
                send_message(self._connection, task)
                answer = receive_message(self._connection, pb.Answer, deadline)
            except TimeoutError:
                self.end()
                text = f"no answer within {seconds:g} seconds while it {what}; the session's process was ended, and {_GONE}"
                return failure("RunnerError", text)
            except FrameError as error:
                self.end()
                text = f"{error} while it {what}; the session's process was ended, and {_GONE}"
                return failure("RunnerError", text)
            except (EOFError, OSError):
                return failure("RunnerError", f"{self._how_it_ended(what)}; {_GONE}")
            if answer.failure.kind == CONTEXT_LOST:
                self.end()
                answer.failure.message += f"; {_GONE}"
            return answer

    def _how_it_ended(self, what: str) -> str:
        output = last_output(self._log)
        self.end()
        if self._status is None:
            return f"the session's process was ended while it {what}"
        _, text = ending(self._status, f"while it {what}")
        return text + (f"; its output: {output}" if output else "")

    def end(self) -> None:
        """Kill the process, with all that it holds."""
        with self._ending:
            if self.has_ended:
                return
            self.has_ended = True
            try:
                self._status = self._template.end(self.pid)
            except WorkerError:  # the pool was closed meanwhile, or its template ended
                pass

    def close(self) -> None:
        """:meth:`end`, and let go of the connection once nobody waits for an answer."""
        self.end()
        with self._asking:
            self._connection.close()
            self._log.close()
