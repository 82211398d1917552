"""What a tracker knows: which servers there are, who has them, and who waits for which. No connections here, only the rules.

A server belongs to the client that has its ticket, until the server says otherwise. What a tracker forgets when it is restarted, servers
tell it again: their reports say whose they are.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from ..error import RunnerError
from .limits import LimitReached

DEFAULT_MOST = 10_000
"""Servers, and clients in a queue."""
PATIENCE_SECONDS = 10.0
"""After so long without a report, a server is forgotten."""
RESERVED_SECONDS = 12.0
"""A server that does not report that the announced client has come, or is expected, is free again after this."""


class ServerState(Enum):
    """What a server does."""

    FREE = "free"
    RESERVED = "reserved"
    BUSY = "busy"


@dataclass(slots=True)
class ServerRecord:
    """A server as it was last heard of."""

    name: str
    key: str
    address: str
    state: ServerState = ServerState.FREE
    client: str = ""
    ticket: str = ""
    sessions: int = 0
    busy_secs: float = 0.0
    described: object = None
    """The description of its device, for who lists the fleet."""
    owner: str = ""
    """The certificate of who reports; empty without TLS."""
    heard: float = 0.0
    granted: float = 0.0
    """When its ticket was given away, until its report has it."""
    announce: Callable[[str, str], None] = lambda ticket, client: None
    """Tells the server the ticket and the name of a client that will come."""


@dataclass(slots=True)
class Grant:
    """A device for a client."""

    address: str
    ticket: str
    server: str


@dataclass(slots=True)
class Waiting:
    """A client in the queue of a key."""

    key: str
    priority: int
    client: str
    number: int
    since: float
    changed: threading.Event = field(default_factory=threading.Event)
    """Set when its place has changed, or it has got a device."""
    grant: Grant | None = None
    ahead: int = 0


class Fleet:
    """Servers by name and clients by key.

    Args:
        clock: tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._servers: dict[str, ServerRecord] = {}
        self._queues: dict[str, list[Waiting]] = {}
        self._numbers = itertools.count()

    # -- servers ---------------------------------------------------------------------
    def report(self, record: ServerRecord, most: int = DEFAULT_MOST) -> None:
        """A server tells what it does; one of a name that is known takes the place of what was known.

        Raises:
            LimitReached: there are ``most`` servers already.
            RunnerError: the name is that of somebody else's server.
        """
        with self._lock:
            now = self._clock()
            record.heard = now
            known = self._servers.get(record.name)
            if known is None and len(self._servers) >= most:
                raise LimitReached("servers", most)
            if known is not None and (known.key, known.owner) != (record.key, record.owner):
                raise RunnerError(f"the name {record.name!r} is that of another server")
            is_unaware = (
                known is not None
                and known.state is ServerState.RESERVED
                and record.ticket != known.ticket
                and record.sessions == known.sessions  # the client has not come and gone between two reports
                and now - known.granted < RESERVED_SECONDS
            )
            if known is not None and is_unaware and record.state is ServerState.FREE:
                # The report was under way when the ticket was given away.
                record.state, record.client, record.ticket = known.state, known.client, known.ticket
                record.granted = known.granted
            self._servers[record.name] = record
            self._hand_out(record.key)

    def forget(self, last: ServerRecord) -> None:
        """The connection of a server has ended whose last report this was; it may have another one already."""
        with self._lock:
            if self._servers.get(last.name) is last:
                del self._servers[last.name]

    def forget_silent(self) -> list[str]:
        """Servers that have not been heard of for too long are gone; their names."""
        with self._lock:
            limit = self._clock() - PATIENCE_SECONDS
            silent = [name for name, record in self._servers.items() if record.heard < limit]
            for name in silent:
                del self._servers[name]
            return silent

    # -- clients ---------------------------------------------------------------------
    def wait(self, key: str, priority: int, client: str, most: int = DEFAULT_MOST) -> Waiting:
        """Into the queue of a key: behind those of a higher priority, and of the same one who came before.

        Raises:
            LimitReached: ``most`` clients wait for devices of the key already.
        """
        with self._lock:
            if len(self._queues.get(key, ())) >= most:
                raise LimitReached("waiting", most)
            waiting = Waiting(key, priority, client, next(self._numbers), self._clock())
            queue = self._queues.setdefault(key, [])
            queue.append(waiting)
            queue.sort(key=lambda item: (-item.priority, item.number))
            self._hand_out(key)
            return waiting

    def leave(self, waiting: Waiting) -> None:
        """Out of the queue, however it ended; a device that was granted is left to its server, which waits for the client for a while."""
        with self._lock:
            queue = self._queues.get(waiting.key, [])
            if waiting in queue:
                queue.remove(waiting)
                self._tell_places(queue)
            if not queue:
                self._queues.pop(waiting.key, None)

    def _hand_out(self, key: str) -> None:
        """Free servers of a key to who waits for them."""
        queue = self._queues.get(key)
        if not queue:  # as for most reports: not all servers are looked at for each of them
            return
        free = [item for item in self._servers.values() if item.key == key and item.state is ServerState.FREE]
        free.sort(key=lambda item: item.busy_secs)  # so that all of them are used, and heat up, alike
        for record in free[: len(queue)]:
            first = queue.pop(0)
            ticket = secrets.token_hex(16)
            record.state, record.client, record.ticket = ServerState.RESERVED, first.client, ticket
            record.granted = self._clock()
            record.announce(ticket, first.client)
            first.grant = Grant(record.address, ticket, record.name)
            first.changed.set()
        self._tell_places(queue)

    @staticmethod
    def _tell_places(queue: list[Waiting]) -> None:
        for place, item in enumerate(queue):
            if item.ahead != place:
                item.ahead = place
                item.changed.set()

    # -- for who looks -----------------------------------------------------------------
    def servers(self) -> list[tuple[ServerRecord, float]]:
        """All servers by name, each with the seconds since it was heard of."""
        with self._lock:
            now = self._clock()
            found = sorted(self._servers.values(), key=lambda item: (item.key, item.name))
            return [(item, now - item.heard) for item in found]

    def queues(self) -> dict[str, list[tuple[Waiting, float]]]:
        """Who waits for each key, in order, each with the seconds that it has waited."""
        with self._lock:
            now = self._clock()
            return {
                key: [(item, now - item.since) for item in queue]
                for key, queue in sorted(self._queues.items())
                if queue
            }
