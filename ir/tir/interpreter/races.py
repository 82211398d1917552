"""What the iterations of a vectorized or parallel loop touch: none may write what another one reads or writes."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

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

    def read(self, memory: Any, start: int, size: int) -> str | None:
        """The current iteration reads ``size`` bytes of a memory; what is wrong with that, with ``{}`` for the element."""
        log, rival, now = self._log(memory, start, size, False)
        if rival is not None:
            return self._race(rival, False)
        if memory.owner in self.private and log.writers.get(start) == now:
            return None  # what it wrote itself, wherever that will be
        if log.writers.get(start, now) != now:
            return self._race(log.writers[start], False)
        if log.readers.setdefault(start, now) != now:
            log.readers[start] = _SEVERAL
        return None

    def write(self, memory: Any, start: int, size: int) -> str | None:
        """The current iteration writes; what is wrong with that, with ``{}`` for the element."""
        log, rival, now = self._log(memory, start, size, True)
        if rival is not None:
            return self._race(rival, True)
        if log.writers.setdefault(start, now) != now:
            if memory.owner not in self.private:
                return self._race(log.writers[start], True)
            log.writers[start] = now
        if log.readers.get(start, now) != now:
            return self._race(log.readers[start], True)
        return None

    def _log(self, memory: Any, start: int, size: int, is_write: bool) -> tuple[_Log, Any, int]:
        """The log for elements of this size, an iteration that disturbs by elements of another size that overlap, and the current one."""
        logs, now = self._logs.get(memory), self.current
        if logs is None:
            logs = self._logs[memory] = {}
        log = logs.get(size)
        if log is None:
            log = logs[size] = _Log()
        if len(logs) > 1:
            for width, other in logs.items():
                for at in range(start - width + 1, start + size) if width != size else ():
                    for iteration in other.rivals(at, is_write):
                        if iteration != now:
                            return log, iteration, now
        return log, None, now

    def _race(self, other: Any, is_write: bool) -> str:
        what = "writes" if is_write else "reads"
        by = "several other iterations read" if other is _SEVERAL else f"iteration {other} uses"
        return (
            f"iteration {self.current} of the {self._kind} loop over {self._name} {what} {{}}, which {by},"
            " and one of them writes it"
        )
