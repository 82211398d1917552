"""What Python functions raise while kernels call them, until the call of the kernel raises it again.

An exception must not unwind through native frames: the function's caller gets a status in its place, a number of its own, which the
kernel returns, whichever thread it was in. Of several threads of one call the first status is returned; what the others raised is
forgotten when the call ends, with the frames that it holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from .llvm.kernel_context import PYTHON_RAISED

_NUMBERS = 2**30
"""Statuses before they begin anew; they are integers of 32 bits."""


class RaisedExceptions:
    """The exceptions of the calls of one module that run."""

    # Threads meet here without a lock, which a forked process might find held: each access of a dictionary is one step of Python's.
    def __init__(self) -> None:
        self._moments = itertools.count()
        self._running: dict[int, int] = {}
        """The moments at which the calls that run began."""
        self._found: dict[int, tuple[int, BaseException]] = {}
        """By status: when it was raised, and what."""

    def __len__(self) -> int:
        return len(self._found)

    @contextmanager
    def of_a_call(self) -> Iterator[None]:
        """While a call runs, including whoever raises its error again."""
        began = next(self._moments)
        self._running[began] = began
        try:
            yield
        finally:
            del self._running[began]
            self._forget()

    def _forget(self) -> None:
        """Drop what was raised before each call that still runs began."""
        found = list(self._found.items())  # before the calls are looked at: another thread may begin one now
        oldest = min(list(self._running), default=None)
        for status, (moment, _) in found:
            if oldest is None or moment < oldest:
                self._found.pop(status, None)

    def add(self, error: BaseException) -> int:
        """The status to return in place of an exception."""
        moment = next(self._moments)
        status = PYTHON_RAISED - moment % _NUMBERS
        if self._running:  # else nobody asks for it: C code has called the kernel
            self._found[status] = (moment, error)
        return status

    def take(self, status: int) -> BaseException | None:
        """The exception behind a status, once."""
        return self._found.pop(status, (0, None))[1]
