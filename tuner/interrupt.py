"""Ctrl-C that cannot be lost, and requests to end (SIGTERM, SIGHUP) that end a search in the same order.

Python raises KeyboardInterrupt between two bytecodes of whatever the main thread is doing. Where that is the callback of a weak
reference or a ``__del__`` of some library, the exception is printed and dropped, and the program goes on as if nobody had
pressed anything. So it is remembered too, and raised again at the next step of a search. SIGTERM and SIGHUP end a process without
a word to Python; here they are a SystemExit, so that a search gives up its claims and keeps what it has measured.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from runners.measure import STOPS

_REQUESTS = (signal.SIGTERM, signal.SIGHUP)
"""What asks a process to end; one that ends for that has the exit status of 128 and the signal's number."""

_Handler = Callable[[int, "FrameType | None"], Any]


class Interrupts:
    """While this context is open, a request to end raises SystemExit, and what a signal raised, and went nowhere, is raised again.

    The handlers that are there stay in charge, also where they ignore a signal: only what they raise is remembered. In threads other
    than the main one, where there is nothing to hear, it does nothing.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, _Handler] = {}
        """What each signal calls."""
        self._before: dict[int, Any] = {}
        """What was there for each signal before."""
        self._heard: BaseException | None = None

    def check(self) -> None:
        """Raise what was lost.

        Raises:
            KeyboardInterrupt: there was one since the context was opened.
            SystemExit: somebody has asked the process to end since then.
        """
        if self._heard is not None:
            raise type(self._heard)(*self._heard.args)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *_REQUESTS):
                self._listen(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._hear:
                signal.signal(number, before)
        if kind is None or issubclass(kind, Exception):
            self.check()

    def _listen(self, number: int) -> None:
        before = signal.getsignal(number)
        handler = _leave if number in _REQUESTS and before is signal.SIG_DFL else before
        if callable(handler):
            self._handlers[number], self._before[number] = handler, before
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if isinstance(self._heard, SystemExit) and number in _REQUESTS:
            return  # it is ending: whoever sends a request twice, as `timeout` does, must not disturb that
        try:
            self._handlers[number](number, frame)
        except STOPS as stop:
            self._heard = stop
            raise


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
