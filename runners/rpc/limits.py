"""What a tracker or a server grants one peer, and all together; what goes beyond is refused by the name of the limit."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..error import RunnerError


class LimitReached(RunnerError):
    """A peer wants more than a limit grants."""

    def __init__(self, name: str, most: object, advice: str = "") -> None:
        super().__init__(f"the limit {name} of {most} is reached{f'; {advice}' if advice else ''}")
        self.name = name


@dataclass(frozen=True)
class Limits:
    """Of a tracker or a server."""

    requests_per_second: float = 1000.0
    """Calls of one peer, in the long run."""
    burst_requests: int = 5000
    """Calls of one peer that may come at once."""
    sessions_per_minute: float = 240.0
    """Sessions that one peer opens on a server, or devices that it asks a tracker for, in the long run."""
    burst_sessions: int = 600
    """Of these, those that may come at once."""
    calls: int = 64
    """That are answered at a time."""
    calls_of_peer: int = 48
    """Of these, those of one peer."""
    servers: int = 10_000
    """That a tracker knows."""
    waiting: int = 10_000
    """Clients that wait at a tracker for devices of one key."""
    peers: int = 10_000
    """Whose rates are remembered."""
    content_bytes: int = 4 << 30
    """What a server keeps of clients."""
    build_seconds: float = 600.0
    """That a client may give a build."""
    run_seconds: float = 3600.0
    """That a client may give a call of a candidate, or of the unscheduled program."""
    program_bytes: int = 256 << 20
    """Of a program or a kernel; contents may be larger."""
    rivals: int = 256
    """Candidates that are compared with each other."""
    scratch_bytes: int = 8 << 30
    """That a session's workers may keep in files."""

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise RunnerError(f"Limits: {name} is a number above 0, got {value!r}")

    @staticmethod
    def of_tracker() -> Limits:
        """For a tracker: each server and each waiting client keeps a call open, and without TLS all of a machine are one peer."""
        return Limits(calls=2048, calls_of_peer=2000, sessions_per_minute=60_000, burst_sessions=10_000)


class Rate:
    """How often each of many may do something: so often at once, so often in the long run (a bucket of tokens).

    Args:
        name: of the limit, for who is refused.
        per_second: in the long run.
        burst: at once.
        most: of those that are remembered; the longest quiet ones are forgotten first, who have a full bucket again.
        clock: tells the time, in seconds.
    """

    def __init__(
        self,
        name: str,
        per_second: float,
        burst: int,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._per_second, self._burst, self._most = name, per_second, burst, most
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str) -> None:
        """Once more.

        Raises:
            LimitReached: it was too often.
        """
        with self._lock:
            now = self._clock()
            left, then = self._left.get(who, (float(self._burst), now))
            left = min(float(self._burst), left + (now - then) * self._per_second)
            is_granted = left >= 1.0
            self._left[who] = (left - 1.0 if is_granted else left, now)
            self._left.move_to_end(who)
            while len(self._left) > self._most:
                self._left.popitem(last=False)
        if not is_granted:
            raise LimitReached(self._name, f"{self._per_second:g}", "wait a moment")


class Turnstile:
    """How many calls are answered at a time, of all and of each.

    Args:
        limits: the numbers.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._inside: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def inside(self, who: str) -> Iterator[None]:
        """Within, a call is answered.

        Raises:
            LimitReached: there are too many.
        """
        with self._lock:
            if self._inside.total() >= self._limits.calls:
                raise LimitReached("calls", self._limits.calls, "others keep it busy; try again")
            if self._inside[who] >= self._limits.calls_of_peer:
                raise LimitReached("calls_of_peer", self._limits.calls_of_peer)
            self._inside[who] += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside[who] -= 1
                if not self._inside[who]:
                    del self._inside[who]
