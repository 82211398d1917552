"""A server's connection with its tracker, which may end at any moment: reports of what its device does, and tickets of who will come."""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Iterator

import grpc

from .connection import Address, open_channel
from .credentials import Credentials
from .desk import SessionDesk
from .device_client import OPEN_SECONDS, RequestRefused, error_of
from .device_service import DeviceFacts
from .proto import tracker_pb2 as pb
from .proto import tracker_pb2_grpc

_LOG = logging.getLogger(__package__)
_REPORT_SECONDS = 2.0
_LEAST_SECONDS = 0.025
"""Between two reports: what changes meanwhile is told in one, as a tracker refuses a server that reports more than fifty times a second."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two attempts to reach a tracker: twice as long each time, and not the same for all servers."""


class Registration:
    """A server's connection with its tracker, made again whenever it ends.

    Args:
        tracker: its address.
        facts: of the device.
        address: where clients reach the server.
        desk: what its device does; it is told of clients that will come.
        credentials: of the server.
    """

    def __init__(
        self,
        tracker: Address,
        facts: DeviceFacts,
        address: Address,
        desk: SessionDesk,
        credentials: Credentials | None = None,
    ) -> None:
        self._tracker, self._facts, self._address, self._desk = tracker, facts, address, desk
        self._credentials = credentials
        self._told = ""
        self._changed = threading.Event()
        self._closing = threading.Event()
        self.registered = threading.Event()
        """Set while the tracker knows the server, as far as that is known here."""
        self._thread = threading.Thread(target=self._serve, name="loopsmith-registration", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Somebody came or went: the tracker is told at once."""
        self._changed.set()

    def close(self) -> None:
        """The tracker forgets the server."""
        self._closing.set()
        self._changed.set()
        self._thread.join(OPEN_SECONDS)

    def _serve(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            begin = time.monotonic()
            self._serve_once()
            self.registered.clear()
            pause = (
                _FIRST_PAUSE if time.monotonic() - begin > _LONGEST_PAUSE else min(2 * pause, _LONGEST_PAUSE)
            )
            self._closing.wait(pause * random.uniform(0.5, 1.0))

    def _serve_once(self) -> None:
        """Report, and take tickets, until the connection ends."""
        ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        own = self._credentials
        metadata = () if own is None else own.metadata(self._facts.key)
        with open_channel(self._tracker, own) as channel:
            call = tracker_pb2_grpc.TrackerStub(channel).Serve(self._reports(ended), metadata=metadata)
            try:
                for ticket in call:
                    if ticket.ticket:
                        self._desk.expect(ticket.ticket, ticket.client)
                    else:
                        self.registered.set()
            except grpc.RpcError as error:  # the tracker is gone, and will be back
                self._tell(
                    error_of(error, f"the tracker at {self._tracker}", has_credentials=own is not None)
                )
            finally:
                ended.put(None)
                self._changed.set()
                call.cancel()

    def _tell(self, error: Exception) -> None:
        """What keeps the tracker from knowing the server: once, until it is something else."""
        if isinstance(error, RequestRefused) and str(error) != self._told:
            self._told = str(error)
            _LOG.warning("%s", error)

    def _reports(self, ended: queue.SimpleQueue[None]) -> Iterator[pb.ServerReport]:
        while not self._closing.is_set() and ended.empty():
            self._changed.clear()
            yield self._report()
            self._closing.wait(_LEAST_SECONDS)
            self._changed.wait(_REPORT_SECONDS)

    def _report(self) -> pb.ServerReport:
        state = self._desk.state()
        number = pb.BUSY if state.is_busy else pb.RESERVED if state.ticket else pb.FREE
        return pb.ServerReport(
            device=self._facts.message(),
            address=str(self._address),
            state=number,
            client=state.client,
            ticket=state.ticket,
            sessions=state.sessions,
            busy_secs=state.busy_secs,
        )
