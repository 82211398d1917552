"""Asynchronous copies of a thread: what they write is held back until the thread waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .error import UndefinedError, refusal
from .memory import Pointer
from .races import Actor, Threads, Watch

SIZES = (4, 8, 16)
"""Bytes that hardware copies as one."""


class Stretch:
    """Bytes that are copied as one.

    Args:
        pointer: their address.
        size: how many they are.
        name: what the program calls the memory.

    Raises:
        UndefinedError: they lie outside of the memory, or begin at no multiple of their size.
    """

    def __init__(self, pointer: Pointer, size: int, name: str) -> None:
        self.memory, self.start, self.size = pointer.memory, pointer.offset, size
        self._told = f"the {size} bytes at byte {self.start} of {name}"
        if not 0 <= self.start <= len(self.memory.content) - size:
            raise refusal("bounds", f"an access of {self._told} is outside of the memory")
        if self.start % size:
            raise refusal("async-copy", f"a copy of {self._told} does not begin at a multiple of their size")

    @property
    def content(self) -> bytes:
        """What is there, which somebody must have written."""
        written = self.memory.written
        if written is not None and not all(written[self.start : self.start + self.size]):
            raise refusal("unwritten", f"{self._told} are read, which nobody wrote")
        return self.memory.content[self.start : self.start + self.size].tobytes()

    def fill(self, content: bytes) -> None:
        """Writes all of them."""
        self.memory.content[self.start : self.start + self.size] = list(content)
        if self.memory.written is not None:
            self.memory.written[self.start : self.start + self.size] = b"\1" * self.size

    def read(self) -> None:
        """Tells whoever watches that they are read."""
        self._refuse([(loop, loop.read(self.memory, self.start, self.size)) for loop in self._watches()])

    def write(self, content: bytes) -> None:
        """Tells whoever watches what is written."""
        self._refuse(
            [(loop, loop.write(self.memory, self.start, self.size, content)) for loop in self._watches()]
        )

    def _watches(self) -> Sequence[Watch]:
        return self.memory.loops[self.memory.age :]

    def _refuse(self, found: Sequence[tuple[Watch, str | None]]) -> None:
        for watch, race in found:
            if race is not None:
                raise UndefinedError(f"{race.format(self._told)} [{watch.rule}]")


@dataclass(frozen=True)
class Copy:
    """A copy."""

    destination: Stretch
    source: Stretch | None
    """Where there is none, zeros are copied."""
    content: bytes


class Copies:
    """The copies of a thread that are under way: each is someone of its own, which no thread follows before it is waited for.

    Args:
        thread: the number of the thread.
        watch: that of its block.
    """

    def __init__(self, thread: int, watch: Threads) -> None:
        self._actor = Actor(("copy", thread), None, 0)
        self._watch = watch
        self._begun: list[Copy] = []
        self._groups: list[list[Copy]] = []

    def begin(self, destination: Stretch, source: Stretch | None) -> None:
        """Begins a copy."""
        if source is not None:
            source.read()
        content = bytes(destination.size) if source is None else source.content
        destination.write(content)
        self._begun.append(Copy(destination, source, content))
        self._watch.hand_over(destination.memory, destination.start, destination.size, self._actor)

    def commit(self) -> None:
        """Makes a group of the copies that were begun since the last one."""
        self._groups.append(self._begun)
        self._begun = []

    def wait(self, under_way: int) -> None:
        """Ends copies until at most so many groups are under way."""
        ended = self._groups[: max(len(self._groups) - under_way, 0)]
        del self._groups[: len(ended)]
        for copy in (copy for group in ended for copy in group):
            if copy.source is not None and copy.source.content != copy.content:
                raise refusal("async-copy", "the source of a copy changed while it was under way")
            place = copy.destination
            place.fill(copy.content)
            self._watch.hand_over(place.memory, place.start, place.size, self._watch.now)

    def go_on(self) -> None:
        """They are under way behind a barrier, too."""
        for copy in self._under_way():
            if copy.source is not None:
                copy.source.read()
            with self._watch.aside(self._actor):
                copy.destination.write(copy.content)

    def _under_way(self) -> Iterator[Copy]:
        for group in [*self._groups, self._begun]:
            yield from group
