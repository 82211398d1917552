"""Kernels: blocks one after the other, and the threads of a block as greenlets, each of which runs until it must wait for others.

Which of them runs first never matters for a program with a meaning: :mod:`.races` refuses what depends on it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from ..kernel_launch import DYNAMIC_SHARED_MEMORY
from .async_copies import Copies
from .calls import Returned
from .error import refusal
from .kernels import BLOCK_TAGS, THREAD_TAGS
from .meetings import WARP, Meeting
from .memory import DYNAMIC_SCOPE, WARP_SCOPE, Memory
from .races import Actor, Threads, Watch
from .transaction_barriers import Phase, TransactionBarrier, TransactionBarriers
from .warp_groups import Products

Env = dict[Any, Any]


class Host(Protocol):
    """:class:`.machine.Interpreter`, as a launch sees it."""

    loops: list[Watch]
    thread: Any
    depth: int
    """How many calls of functions are nested."""

    def order(self, iterations: range) -> Iterable[int]:
        """The order in which blocks and threads run."""


def launch(host: Host, extents: Mapping[str, int], env: Env, body: Callable[[Env], None]) -> None:
    """Runs a kernel: ``body(env)`` in each thread of each block.

    Args:
        host: runs it.
        extents: how many threads or blocks there are along an axis, by its tag, 1 along the others; and the bytes of dynamic shared memory,
            if those are asked for.
        env: the variables that the threads begin with.
        body: what runs.
    """
    grid = _Grid(extents, BLOCK_TAGS)
    blocks = Threads(lambda number: f"block {grid.told(number)}", "blocks have no order")
    with _watched(host, blocks, grid.size):
        for number in host.order(range(grid.size)):
            blocks.now = Actor(number, number, 0)
            _Block(host, extents, grid.indices(number)).run(env, body)


@contextmanager
def _watched(host: Host, watch: Watch, count: int) -> Iterator[None]:
    """Looks for races of several, while these run."""
    if count <= 1:
        yield
        return
    host.loops.append(watch)
    try:
        yield
    finally:
        host.loops.pop()


class _Grid:
    """Numbers of blocks or threads: the first axis runs fastest."""

    def __init__(self, extents: Mapping[str, int], tags: Sequence[str]) -> None:
        self._extents = {tag: extents[tag] for tag in tags if tag in extents}
        self.size = 1
        for extent in self._extents.values():
            self.size *= max(extent, 0)

    def indices(self, number: int) -> dict[str, int]:
        """The index along each axis."""
        found = {}
        for tag, extent in self._extents.items():
            number, found[tag] = divmod(number, extent)
        return found

    def told(self, number: int) -> str:
        """What an error calls a number."""
        indices = ", ".join(f"{tag} = {index}" for tag, index in self.indices(number).items())
        return f"({indices})"


class _Block:
    """A block that runs."""

    def __init__(self, host: Host, extents: Mapping[str, int], indices: Mapping[str, int]) -> None:
        self.host = host
        self.extents = extents
        self.grid = _Grid(extents, THREAD_TAGS)
        self.watch = Threads(self.told_actor, "no barrier lies between")
        self.age = len(host.loops)
        """The watches outside of the block, which do not see the memory that its threads share."""
        self.memories: dict[Any, list[Memory]] = {}
        """What was allocated for several threads, by who they are and the statement: in the order in which it is reached."""
        everyone = range(self.grid.size)
        warps = [everyone[first : first + WARP] for first in range(0, len(everyone), WARP)]
        self.barriers = TransactionBarriers()
        self.steps = [0] * len(warps)
        """How often each warp met."""
        self._lines: dict[Any, Mapping[int, Sequence[int]]] = {}
        self.threads = [
            Thread(self, number, {**indices, **self.grid.indices(number)}, everyone, warps[number // WARP])
            for number in everyone
        ]

    def told(self, number: int) -> str:
        """What an error calls a thread."""
        return f"thread {self.grid.told(number)}"

    def told_actor(self, name: Any) -> str:
        """What an error calls a thread, or a copy of one."""
        return f"an asynchronous copy of {self.told(name[1])}" if isinstance(name, tuple) else self.told(name)

    def along(self, tags: Collection[str]) -> Mapping[int, Sequence[int]]:
        """For each thread those that differ from it along some axes only."""
        key = frozenset(tags)
        if key not in self._lines:
            lines: dict[Any, list[int]] = {}
            for thread in self.threads:
                others = [index for tag, index in self.grid.indices(thread.number).items() if tag not in key]
                lines.setdefault(tuple(others), []).append(thread.number)
            self._lines[key] = {number: tuple(line) for line in lines.values() for number in line}
        return self._lines[key]

    def run(self, env: Env, body: Callable[[Env], None]) -> None:
        """Runs all threads to their end."""
        with _watched(self.host, self.watch, len(self.threads)):
            try:
                ready = [self.threads[number] for number in self.host.order(range(len(self.threads)))]
                for thread in ready:
                    thread.begin(dict(env), body)
                while ready:
                    for thread in ready:
                        self._resume(thread, thread.greenlet.switch)
                    ready = self._met()
            finally:
                for thread in self.threads:
                    if thread.greenlet:  # another one has ended the program
                        self._resume(thread, thread.greenlet.throw)

    def _resume(self, thread: Thread, switch: Callable[..., Any], *args: Any) -> None:
        """Lets a thread run until it waits or ends."""
        host, base, depth = self.host, len(self.host.loops), self.host.depth
        host.loops += thread.loops
        host.depth += thread.depth
        host.thread = thread
        warp = thread.number // WARP
        self.watch.now = Actor(thread.number, warp, self.steps[warp])
        try:
            switch(*args)
        finally:
            host.thread = None
            thread.loops, thread.depth = host.loops[base:], host.depth - depth
            del host.loops[base:]
            host.depth = depth

    # -- meetings --------------------------------------------------------------------------------------------------
    def _met(self) -> list[Thread]:
        """The threads that need not wait any more, now that all wait or have ended.

        Raises:
            UndefinedError: they wait for what will not come.
        """
        waiting = [thread for thread in self.threads if thread.waits_for is not None]
        found = self._completed(waiting, False) or self._completed(waiting, True)
        awaited = [item.waits_for.barrier for item in waiting if isinstance(item.waits_for, Phase)]
        if not found and self.barriers.complete(awaited):
            found = self._completed(waiting, False)
        if waiting and not found:
            self._refuse(waiting)
        return [
            self.threads[number] for number in self.host.order(range(len(self.threads))) if number in found
        ]

    def _completed(self, waiting: Sequence[Thread], takes_who_is_there: bool) -> set[int]:
        """Ends the meetings that can end; who was there."""
        found: set[int] = set()
        asked: set[Any] = set()
        for thread in waiting:
            meeting = thread.waits_for
            if meeting is None or meeting.key in asked:
                continue
            asked.add(meeting.key)
            if not meeting.is_due:
                continue
            if (takes_who_is_there and meeting.takes_who_is_there) or not any(self._missing(meeting)):
                found |= self._complete(meeting)
        return found

    def _missing(self, meeting: Meeting) -> Iterator[Thread]:
        """The threads that a meeting lacks."""
        for number in meeting.members:
            if not self.threads[number].is_at(meeting):
                yield self.threads[number]

    def _complete(self, meeting: Meeting) -> set[int]:
        """Ends a meeting; who was there."""
        members = [(number, self.threads[number].waits_for) for number in meeting.members]
        present = {number: item for number, item in members if item is not None and item.key == meeting.key}
        given = meeting.complete(present)
        for number in present:
            thread = self.threads[number]
            thread.waits_for, thread.given = None, given.get(number)
        if meeting.orders_memory and len(meeting.members) == len(self.threads):
            self.watch.meet()
            self._share_phases()
        elif meeting.orders_memory:
            self.steps[meeting.members[0] // WARP] += 1
        return set(present)

    def _share_phases(self) -> None:
        """Behind a barrier of the block all know of the copies that one of them has waited for."""
        seen: dict[Any, int] = {}
        for thread in self.threads:
            for barrier, phase in thread.seen_phases.items():
                seen[barrier] = max(phase, seen.get(barrier, 0))
        for thread in self.threads:
            thread.seen_phases.update(seen)

    def _refuse(self, waiting: Sequence[Thread]) -> None:
        """Ends the program for threads that wait for what will not come: as an error of one of them."""
        first = min(waiting, key=lambda thread: not thread.waits_for.orders_memory)  # type: ignore[union-attr]
        meeting = first.waits_for
        assert meeting is not None
        lacking = list(self._missing(meeting))
        if not lacking:
            told = f"{self.told(first.number)} waits at {meeting.place} for what does not come"
            self._resume(first, first.greenlet.throw, refusal(meeting.rule, told))
            return
        other = lacking[0].waits_for
        if other is None:
            does = "has ended"
        elif other.place is meeting.place:
            does = "waits there for other threads"
        else:
            does = f"waits at {other.place}"
        told = (
            f"{self.told(first.number)} waits at {meeting.place}, but {self.told(lacking[0].number)} {does}"
        )
        if len(lacking) > 1:
            told += f", and {len(lacking) - 1} more do not come"
        self._resume(first, first.greenlet.throw, refusal(meeting.rule, told))


class Thread:
    """A thread that runs."""

    def __init__(
        self,
        block: _Block,
        number: int,
        indices: Mapping[str, int],
        everyone: Sequence[int],
        warp: Sequence[int],
    ) -> None:
        self.number, self.everyone, self.warp = number, everyone, warp
        self.virtual = 0
        self.copies = Copies(number, block.watch)
        self.barriers = block.barriers
        self.seen_phases: dict[TransactionBarrier, int] = {}
        self.products = Products()
        self.waits_for: Meeting | None = None
        self.given: Any = None
        """What the last meeting gave it."""
        self.loops: list[Watch] = []
        """Its own loops that run, while it waits."""
        self.depth = 0
        """How many calls of functions it nests, while it waits."""
        self.greenlet: Any = None
        self._block, self._indices = block, indices
        self._hub = getcurrent()
        self._reached: dict[Any, int] = {}

    def begin(self, env: Env, body: Callable[[Env], None]) -> None:
        """Makes it ready to run."""

        def run() -> None:
            try:
                body(env)
            except Returned as returned:
                if returned.value is not None:
                    raise refusal(
                        "thread", "a thread of a kernel returns a value, which nobody gets"
                    ) from None

        self.greenlet = greenlet(run)
        self.greenlet.gr_context = contextvars.copy_context()  # numpy's handling of errors lies there

    def index(self, tag: str, extent: int) -> int:
        """Its index along an axis."""
        launched = self._block.extents.get(tag)
        if launched != extent:
            has = "without it" if launched is None else f"for {launched}"
            raise refusal("thread", f"{extent} of {tag} are asked for in a kernel that is launched {has}")
        return self._indices[tag]

    def along(self, tags: Collection[str]) -> Sequence[int]:
        """The numbers of the threads of its block that differ from it along these axes only."""
        return self._block.along(tags)[self.number]

    def memory(self, statement: Any, scope: str, size: int, owner: Any) -> Memory:
        """The memory of a statement that it shares: with its warp, or with its block."""
        most = self._block.extents.get(DYNAMIC_SHARED_MEMORY)
        if scope == DYNAMIC_SCOPE and most is not None and size > most:
            raise refusal(
                "thread-memory",
                f"{size} bytes of dynamic shared memory are allocated, of {most} that the kernel was launched with",
            )
        group = self.number // WARP if scope == WARP_SCOPE else None
        made = self._block.memories.setdefault((statement, group), [])
        turn = self._reached.get(statement, 0)
        self._reached[statement] = turn + 1
        if turn == len(made):
            memory = Memory.allocated(size, self._block.host.loops, owner)
            memory.age = self._block.age
            memory.place = made[0].place if made else memory
            made.append(memory)
        if len(made[turn].content) != size:
            raise refusal(
                "thread-memory",
                f"threads that share memory allocate {len(made[turn].content)} and {size} bytes for it",
            )
        return made[turn]

    def is_at(self, meeting: Meeting) -> bool:
        """Whether a meeting does not have to wait for it."""
        if self.waits_for is None:
            return meeting.leaves_out_ended
        return self.waits_for.key == meeting.key

    def meet(self, meeting: Meeting) -> Any:
        """Waits for other threads; what the meeting gave it."""
        self.waits_for = meeting
        self._hub.switch()
        if meeting.orders_memory:
            self.copies.go_on()
        return self.given
