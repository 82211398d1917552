"""Forks of a process that uses SQLite files.

SQLite remembers for the whole process which locks it holds on a file and which thread is writing. A forked child inherits that memory,
but neither the locks, which the system gives to one process alone, nor the threads: what it commits is lost when its parent closes the
file, or it waits for ever for a thread that it does not have. So no connection is open while a process forks. The fork waits until nobody
is inside of a database and closes the connections; parent and child open others when they need them. Where that cannot be, since
the forking thread itself is inside of a database or another one does not come out, the child refuses the file. What is spawned inherits
nothing and is not concerned.

Databases in memory and in text files have a lock instead of connections, and their locked files are open while they are written: a child
would wait for a thread that it does not have, and everybody else for the child.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

_PATIENCE_SECONDS = 60.0
"""So long a fork waits for other threads to come out; a commit waits for other processes half of that at most."""


class Forkable(Protocol):
    """What has connections; it is known here as long as others refer to it."""

    def close_idle(self) -> None:
        """Close the connections that nobody uses, before a fork."""

    def begin_in_child(self, *, was_in_use: bool) -> None:
        """Forget the parent's connections, after a fork; ``was_in_use`` where some of them could not be closed."""


class _Gate:
    """Who is inside of which databases, and who forks."""

    def __init__(self) -> None:
        self.known: WeakSet[Forkable] = WeakSet()
        self.inside: dict[int, list[Forkable]] = {}
        """What each thread is inside of, innermost last."""
        self.forking: int | None = None
        """The thread that forks."""
        self.changed = threading.Condition()

    def enter(self, item: Forkable) -> None:
        me = threading.get_ident()
        with self.changed:
            # Who is inside already goes on: the fork waits until it comes out.
            while self.forking not in (None, me) and me not in self.inside:
                self.changed.wait()
            self.inside.setdefault(me, []).append(item)

    def leave(self) -> None:
        me = threading.get_ident()
        with self.changed:
            self.inside[me].pop()
            if not self.inside[me]:
                del self.inside[me]
                self.changed.notify_all()

    def before(self) -> None:
        me = threading.get_ident()
        with self.changed:
            self.changed.wait_for(lambda: self.forking is None)
            self.forking = me
            self.changed.wait_for(lambda: not self.inside.keys() - {me}, _PATIENCE_SECONDS)
            known = list(self.known)
        for item in known:
            item.close_idle()

    def after_in_parent(self) -> None:
        with self.changed:
            self.forking = None
            self.changed.notify_all()

    def after_in_child(self) -> None:
        me = threading.get_ident()
        in_use = {id(item) for stack in self.inside.values() for item in stack}
        self.inside = {me: self.inside[me]} if me in self.inside else {}
        self.forking, self.changed = None, threading.Condition()
        for item in list(self.known):
            item.begin_in_child(was_in_use=id(item) in in_use)


_GATE = _Gate()
os.register_at_fork(
    before=_GATE.before, after_in_parent=_GATE.after_in_parent, after_in_child=_GATE.after_in_child
)


def watch(item: Forkable) -> None:
    """Have an item told of forks."""
    with _GATE.changed:
        _GATE.known.add(item)


@contextmanager
def inside(item: Forkable) -> Iterator[None]:
    """For the length of the block a connection of an item may be in use: no other thread forks meanwhile."""
    _GATE.enter(item)
    try:
        yield
    finally:
        _GATE.leave()


class ForkSafeLock:
    """A lock of threads, taken again by who holds it, that is in nobody's hands while a process forks.

    Where the fork could not wait until it was free, since another thread did not come out, the child has a new one.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        watch(self)

    def __enter__(self) -> None:
        _GATE.enter(self)
        try:
            self._lock.acquire()
        except BaseException:  # Ctrl-C while it waits
            _GATE.leave()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        _GATE.leave()

    def close_idle(self) -> None:
        """There is nothing to close."""

    def begin_in_child(self, *, was_in_use: bool) -> None:
        """A lock for a thread's own, if another has it, who is not in the child."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()
