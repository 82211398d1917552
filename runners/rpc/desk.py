"""Whose a device is: one client's at a time, for as long as its session lasts."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..error import RunnerError

TICKET_SECONDS = 10.0
"""How long a device waits for a client that the tracker has announced."""


_OVER = "the session is over; open another"


class SessionOver(RunnerError):
    """The session is over, or there never was one: its client has to open another."""


class DeviceTaken(RunnerError):
    """The device is another client's, or is kept for one."""


@dataclass(slots=True)
class Session:
    """A client's time with the device."""

    client: str
    ticket: str
    timeout_sec: float
    identity: str = ""
    """Of the client's certificate; empty without TLS."""
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    begun: float = field(default_factory=time.monotonic)
    last_call: float = field(default_factory=time.monotonic)
    over: threading.Event = field(default_factory=threading.Event)
    _cancels: dict[object, Callable[[], object]] = field(default_factory=dict)
    """Of the calls that are being answered."""

    @contextmanager
    def answering(self, cancel: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Within, a call of its client is being answered: the client is not silent. ``cancel`` ends the call with the session.

        Raises:
            SessionOver: the session has ended since the call was found to be its own.
        """
        call = object()
        self._cancels[call] = cancel
        try:
            if self.over.is_set():  # who ends it may have looked for calls before this one was there
                raise SessionOver(_OVER)
            yield
        finally:
            del self._cancels[call]
            self.last_call = time.monotonic()

    @property
    def calls(self) -> int:
        """Those that are being answered."""
        return len(self._cancels)

    def cancel_calls(self) -> None:
        """End the calls that are being answered."""
        for cancel in list(self._cancels.values()):
            cancel()

    @property
    def is_silent(self) -> bool:
        """Whether its client has not called for too long."""
        waited = time.monotonic() - self.last_call
        return bool(self.timeout_sec) and not self.calls and waited > self.timeout_sec


@dataclass(frozen=True, slots=True)
class DeskState:
    """What a server reports of its device."""

    client: str
    """Whose session it is, or who is expected; empty where nobody."""
    ticket: str
    is_busy: bool
    sessions: int
    busy_secs: float


class SessionDesk:
    """Hands the device out.

    Args:
        by_ticket: only clients that a tracker has announced get it; others are told to ask the tracker.
        changed: called when somebody comes or goes, from whatever thread.
        clock: tells the time, in seconds.
    """

    def __init__(
        self,
        by_ticket: bool,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._by_ticket, self._changed, self._clock = by_ticket, changed, clock
        self._lock = threading.RLock()
        self._expecting = threading.Condition(self._lock)
        self._session: Session | None = None
        self._expected: tuple[str, str, float] | None = None
        self._sessions = 0
        self._busy_secs = 0.0
        self._closed = False

    def expect(self, ticket: str, client: str) -> None:
        """The tracker has given the device to a client, which will come with this ticket."""
        with self._lock:
            self._expected = (ticket, client, self._clock() + TICKET_SECONDS)
            self._expecting.notify_all()
        self._changed()

    def open(
        self, ticket: str, client: str, timeout_sec: float, patience_sec: float = 0.0, identity: str = ""
    ) -> Session:
        """Begin a session.

        Args:
            ticket: of the tracker; empty where there is none.
            client: for people.
            timeout_sec: the session is over after so long without a call; 0 for never.
            patience_sec: how long to wait for the tracker to announce the ticket: the client may be faster.
            identity: of the client's certificate.

        Raises:
            DeviceTaken: the device is another client's, or the ticket is not the one that is expected.
        """
        with self._lock:
            if ticket and self._by_ticket:
                self._expecting.wait_for(lambda: self._closed or self._is_expected(ticket), patience_sec)
            if self._closed:
                raise DeviceTaken("the server is being shut down")
            if self._session is not None:
                raise DeviceTaken(f"the device is in a session of {self._session.client}")
            expected = self._expected_now()
            if expected is None and self._by_ticket:
                raise DeviceTaken("the server gives its device to clients of its tracker; ask that for it")
            if expected is not None and not self._is_expected(ticket):
                raise DeviceTaken(f"the device is kept for {expected[1]}")
            self._expected = None
            self._session = session = Session(client, ticket, timeout_sec, identity)
            self._sessions += 1
        self._changed()
        return session

    def _is_expected(self, ticket: str) -> bool:
        expected = self._expected_now()
        return expected is not None and secrets.compare_digest(expected[0].encode(), ticket.encode())

    def of(self, token: str, identity: str = "") -> Session:
        """The session of a token, which is of use to nobody but the holder of the certificate that opened it.

        Raises:
            SessionOver: it is over, or the token is none.
        """
        with self._lock:
            session = self._session
            if (
                session is None
                or session.over.is_set()
                or not secrets.compare_digest(session.token.encode(), token.encode())
                or session.identity != identity
            ):
                raise SessionOver(_OVER)
            return session

    def end(self, session: Session) -> None:
        """The device is free again, if it is this session's."""
        with self._lock:
            session.over.set()
            if self._session is not session:
                return
            self._session = None
            self._busy_secs += time.monotonic() - session.begun
        self._changed()

    def close(self) -> None:
        """End the session, and let nobody in any more."""
        with self._lock:
            self._closed = True
            self._expecting.notify_all()
            session = self._session
        if session is not None:
            self.end(session)

    def state(self) -> DeskState:
        """What the tracker is told."""
        with self._lock:
            if self._session is not None:
                busy = self._busy_secs + time.monotonic() - self._session.begun
                return DeskState(self._session.client, self._session.ticket, True, self._sessions, busy)
            expected = self._expected_now()
            ticket, client = ("", "") if expected is None else expected[:2]
            return DeskState(client, ticket, False, self._sessions, self._busy_secs)

    def _expected_now(self) -> tuple[str, str, float] | None:
        if self._expected is not None and self._expected[2] < self._clock():
            self._expected = None
        return self._expected
