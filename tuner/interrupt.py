"""Ctrl-C that cannot be lost.

Python raises KeyboardInterrupt between two bytecodes of whatever the main thread is doing. Where that is the callback of a weak
reference or a ``__del__`` of some library, the exception is printed and dropped, and the program goes on as if nobody had
pressed anything. So it is remembered too, and raised again at the next step of a search.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """While this context is open, a KeyboardInterrupt that SIGINT raised, and that went nowhere, is raised again.

    The handler that is there stays in charge: only what it raises is remembered. In threads other than the main one, where
    there is nothing to hear, it does nothing.
    """

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._heard = False

    def check(self) -> None:
        """Raise what was lost.

        Raises:
            KeyboardInterrupt: there was one since the context was opened.
        """
        if self._heard:
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handler is not None and signal.getsignal(signal.SIGINT) == self._hear:
            signal.signal(signal.SIGINT, self._handler)
        if kind is None or issubclass(kind, Exception):
            self.check()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        assert self._handler is not None
        try:
            self._handler(number, frame)
        except KeyboardInterrupt:
            self._heard = True
            raise
