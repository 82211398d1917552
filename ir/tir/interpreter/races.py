"""What the iterations of a vectorized or parallel loop touch: none may write what another one reads or writes."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from .error import InterpreterError, refusal

_SEVERAL = "several"
"""In place of the iteration that read an element: more than one did. What is refused does not depend on it, only the words do."""


class _Log:
    """Who touched the elements of one size of one memory: the iteration, by the offset of the element's first byte."""

    def __init__(self) -> None:
        self.writers: dict[int, Any] = {}
        self.readers: dict[int, Any] = {}

    def rivals(self, start: int, of_a_write: bool) -> Iterator[Any]:
        """Iterations that an access of the element must not be of another one than."""
        if start in self.writers:
            yield self.writers[start]
        if of_a_write and start in self.readers:
            yield self.readers[start]


class Iterations:
    """A loop that runs.

    Args:
        kind: how the program calls it, for errors.
        name: that of its variable.
        private: address variables of buffers that are allocated outside, but used within one iteration only.
    """

    def __init__(self, kind: str, name: str, private: Container[Any] = ()) -> None:
        self.current = 0
        """The value of the loop's variable."""
        self.private = private
        self._kind, self._name = kind, name
        self._logs: dict[Any, dict[int, _Log]] = {}

    def read(self, memory: Any, start: int, size: int, buffer: str) -> None:
        """The current iteration reads ``size`` bytes of a memory."""
        log, now = self._log(memory, start, size, False, buffer), self.current
        if memory.owner in self.private and log.writers.get(start) == now:
            return  # what it wrote itself, wherever that will be
        if log.writers.get(start, now) != now:
            raise self._race(log.writers[start], False, buffer)
        if log.readers.setdefault(start, now) != now:
            log.readers[start] = _SEVERAL

    def write(self, memory: Any, start: int, size: int, buffer: str) -> None:
        """The current iteration writes."""
        log, now = self._log(memory, start, size, True, buffer), self.current
        if log.writers.setdefault(start, now) != now:
            if memory.owner not in self.private:
                raise self._race(log.writers[start], True, buffer)
            log.writers[start] = now
        if log.readers.get(start, now) != now:
            raise self._race(log.readers[start], True, buffer)

    def _log(self, memory: Any, start: int, size: int, is_write: bool, buffer: str) -> _Log:
        """The log for elements of this size; elements of other sizes that overlap are looked at here."""
        logs = self._logs.get(memory)
        if logs is None:
            logs = self._logs[memory] = {}
        log = logs.get(size)
        if log is None:
            log = logs[size] = _Log()
        if len(logs) > 1:
            for width, other in logs.items():
                for at in range(start - width + 1, start + size) if width != size else ():
                    for iteration in other.rivals(at, is_write):
                        if iteration != self.current:
                            raise self._race(iteration, is_write, buffer)
        return log

    def _race(self, other: Any, is_write: bool, buffer: str) -> InterpreterError:
        what = "writes" if is_write else "reads"
        by = "several other iterations read" if other is _SEVERAL else f"iteration {other} uses"
        return refusal(
            "parallel",
            f"iteration {self.current} of the {self._kind} loop over {self._name} {what} an element of {buffer} that {by},"
            " and one of them writes it",
        )
