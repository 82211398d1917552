"""What runs without an order and what it touches: iterations of vectorized and parallel loops, blocks of a launch, threads of a block.

None may write what another one reads or writes. Threads of a block may if a barrier lies in between, atomic additions may meet, and so
may threads, or blocks, that write the same bits and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol

_SEVERAL = "several"
"""In place of the one who read an element: more than one did. What is refused does not depend on it, only the words do."""


class Watch(Protocol):
    """Is told of each access while what it watches runs; answers what is wrong with it, with ``{}`` for the element."""

    rule: ClassVar[str]
    """The rule of ``docs/semantics.md`` that such accesses break."""

    def read(self, memory: Any, start: int, size: int) -> str | None:
        """``size`` bytes of a memory are read."""

    def write(self, memory: Any, start: int, size: int, bits: bytes | None) -> str | None:
        """They are written; None stands for bits that are not known."""

    def update(self, memory: Any, start: int, size: int) -> str | None:
        """They are read and written in one step."""


# ---- loops -------------------------------------------------------------------------------------------------------


class _Log:
    """Who touched the elements of one size of one memory, by the offset of the element's first byte."""

    def __init__(self) -> None:
        self.writers: dict[int, Any] = {}
        self.readers: dict[int, Any] = {}
        self.updaters: dict[int, Any] = {}
        self.bits: dict[int, bytes | None] = {}
        """What all the writers wrote; None if that differs, or is not known."""

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

    rule: ClassVar[str] = "parallel"

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

    def write(self, memory: Any, start: int, size: int, bits: bytes | None) -> str | None:
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

    def update(self, memory: Any, start: int, size: int) -> None:
        """Atomic additions by several iterations do not disturb each other: nothing is noted."""

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


# ---- threads -----------------------------------------------------------------------------------------------------


class Actor(NamedTuple):
    """Who touches memory, and when: a block of a launch, or a thread of a block."""

    name: Any
    """What tells it from the others: its number, or that of something that a thread does on the side."""
    group: Any
    """Its actions and those of others in this group are ordered by the steps of the group; None for who is in none."""
    step: int
    """How often the group met; what happened at an earlier step is over."""

    def follows(self, other: Actor) -> bool:
        """Whether what the other one did there is over for this one."""
        return self.name == other.name or (
            self.group == other.group and self.group is not None and other.step < self.step
        )


def _witnesses(known: tuple[Actor, ...], now: Actor) -> tuple[Actor, ...]:
    """Of all who did something to an element, and one more, two at most: who follows these follows all of them.

    Two of different groups, or of one step of a group, are enough: nobody follows both but through a barrier for all.
    """
    left = [actor for actor in known if not now.follows(actor)]
    if len(left) == 2 and left[0].group != left[1].group:
        return known
    return (*left[:1], now)


_READ, _WROTE, _UPDATED = "reads", "writes", "atomically updates"
_RIVALS = {
    _READ: (("writers", _WROTE), ("updaters", _UPDATED)),
    _WROTE: (("writers", _WROTE), ("readers", _READ), ("updaters", _UPDATED)),
    _UPDATED: (("writers", _WROTE), ("readers", _READ)),
}
"""What an access must not meet; writers come first."""
_KEPT = {_READ: "readers", _WROTE: "writers", _UPDATED: "updaters"}


class Threads:
    """The blocks of a launch, or the threads of a block, which run.

    Args:
        told: what an error calls the one of a name.
        missing: what would order them, for errors.
    """

    rule: ClassVar[str] = "thread-race"

    def __init__(self, told: Callable[[Any], str], missing: str) -> None:
        self.now = Actor(0, 0, 0)
        """Who runs."""
        self._told, self._missing = told, missing
        self._logs: dict[Any, dict[int, _Log]] = {}

    def meet(self) -> None:
        """All of them met: what they did so far is over."""
        self._logs.clear()

    def read(self, memory: Any, start: int, size: int) -> str | None:
        """The current one reads ``size`` bytes of a memory; what is wrong with that, with ``{}`` for the element."""
        return self._touch(memory, start, size, _READ)

    def write(self, memory: Any, start: int, size: int, bits: bytes | None) -> str | None:
        """The current one writes."""
        log = self._log(memory, size)[1]
        is_same = bits is not None and log.bits.get(start, bits) == bits
        log.bits[start] = bits if is_same else None
        return self._touch(memory, start, size, _WROTE, bears_writers=is_same)

    def update(self, memory: Any, start: int, size: int) -> str | None:
        """The current one adds atomically."""
        return self._touch(memory, start, size, _UPDATED)

    def hand_over(self, memory: Any, start: int, size: int, to: Actor) -> None:
        """What the current one wrote, or someone on its behalf, is from now on the write of another one."""
        self._log(memory, size)[1].writers[start] = (to,)

    @contextmanager
    def aside(self, actor: Actor) -> Iterator[None]:
        """What happens inside is done by someone else."""
        now, self.now = self.now, actor
        yield
        self.now = now

    def _log(self, memory: Any, size: int) -> tuple[dict[int, _Log], _Log]:
        """All logs of a memory, by sizes, and that of this one."""
        logs = self._logs.get(memory.place)
        if logs is None:
            logs = self._logs[memory.place] = {}
        log = logs.get(size)
        if log is None:
            log = logs[size] = _Log()
        return logs, log

    def _touch(
        self, memory: Any, start: int, size: int, what: str, bears_writers: bool = False
    ) -> str | None:
        """Note an access; what is wrong with it, other writers of this very element aside if it bears them."""
        logs, log = self._log(memory, size)
        now = self.now
        for width, other in logs.items() if len(logs) > 1 else ((size, log),):
            for at in (start,) if width == size else range(start - width + 1, start + size):
                found = self._rival(other, at, what, bears_writers and width == size)
                if found is not None:
                    return found
        kept = getattr(log, _KEPT[what])
        kept[start] = _witnesses(kept.get(start, ()), now)
        return None

    def _rival(self, log: _Log, start: int, what: str, bears_writers: bool) -> str | None:
        """What is wrong with an access for what others did to an element."""
        now = self.now
        for kind, does in _RIVALS[what][bears_writers:]:
            for other in getattr(log, kind).get(start, ()):
                if other is not now and not now.follows(other):
                    return f"{self._told(now.name)} {what} {{}}, which {self._told(other.name)} {does}, and {self._missing}"
        return None
