"""The tracker: it knows the servers of a fleet, and hands their devices to clients."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from ..error import RunnerError
from .connection import Address, bind, make_server
from .credentials import Credentials, Peer
from .fleet import PATIENCE_SECONDS, Fleet, ServerRecord, ServerState, Waiting
from .guard import Access, Guard, NotAuthenticated, NotPermitted, printable, refuse
from .limits import LimitReached, Limits, Rate
from .proto import tracker_pb2 as pb
from .proto import tracker_pb2_grpc
from .version import version

DEFAULT_PORT = 9190
_REPORTS_PER_SECOND, _BURST_REPORTS = 50.0, 500
"""Of one server: it reports each time when somebody comes or goes."""
_MOST_DESCRIBED = 32 << 10
"""Bytes of what a server says of itself."""
_LOOK_SECONDS = 1.0
_STATES = {
    pb.FREE: ServerState.FREE,
    pb.RESERVED: ServerState.RESERVED,
    pb.BUSY: ServerState.BUSY,
}
_NUMBERS = {state: number for number, state in _STATES.items()}


class TrackerService(tracker_pb2_grpc.TrackerServicer):
    """Answers servers and clients.

    Args:
        fleet: what is known.
        access: who may serve, ask for and see devices of a key.
        limits: what each may ask for.
    """

    def __init__(self, fleet: Fleet, access: Access, limits: Limits) -> None:
        self._fleet, self._access, self._limits = fleet, access, limits
        self._asked = Rate(
            "sessions_per_minute", limits.sessions_per_minute / 60, limits.burst_sessions, limits.peers
        )
        self._reports = Rate("reports_per_second", _REPORTS_PER_SECOND, _BURST_REPORTS, limits.servers)

    def Serve(self, request: Iterator[pb.ServerReport], context: grpc.ServicerContext) -> Iterator[pb.Ticket]:
        """A server's reports, answered with tickets of clients that will come."""
        answers: queue.SimpleQueue[pb.Ticket | RunnerError | None] = queue.SimpleQueue()
        context.add_callback(lambda: answers.put(None))
        listener = threading.Thread(target=self._listen, args=(request, context, answers), daemon=True)
        listener.start()
        while (answer := answers.get()) is not None:
            if isinstance(answer, RunnerError):
                refuse(context, answer)
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(answer))
            else:
                yield answer

    def _listen(
        self,
        reports: Iterator[pb.ServerReport],
        context: grpc.ServicerContext,
        answers: queue.SimpleQueue[pb.Ticket | RunnerError | None],
    ) -> None:
        """Take a server's reports until it is gone."""
        record: ServerRecord | None = None
        owner = Peer.of(context).identity

        def announce(ticket: str, client: str) -> None:
            answers.put(pb.Ticket(ticket=ticket, client=client))

        try:
            for report in reports:
                said = _record(report, owner)
                if record is None:
                    self._access.require(context, said.key)
                elif (said.name, said.key) != (record.name, record.key):
                    raise RunnerError(
                        f"a server has one name and one key; {record.name!r} became {said.name!r}"
                    )
                self._reports.take(said.name)
                said.announce = announce
                self._fleet.report(said, self._limits.servers)
                if record is None:
                    answers.put(pb.Ticket())  # it is known now
                record = said
        except RunnerError as error:
            answers.put(error)
        except grpc.RpcError:  # the server is gone
            pass
        finally:
            answers.put(None)
            if record is not None:
                self._fleet.forget(record)

    def Acquire(self, request: pb.AcquireRequest, context: grpc.ServicerContext) -> Iterator[pb.AcquireReply]:
        """A device for a client, which may have to wait."""
        try:
            self._access.require(context, request.key)
            self._asked.take(Peer.of(context).name)
            waiting = self._fleet.wait(
                request.key, request.priority, printable(request.client), self._limits.waiting
            )
        except (LimitReached, NotAuthenticated, NotPermitted) as error:
            refuse(context, error)
            return
        context.add_callback(waiting.changed.set)
        try:
            while context.is_active():
                waiting.changed.clear()
                if waiting.grant is not None:
                    grant = waiting.grant
                    yield pb.AcquireReply(
                        grant=pb.Grant(address=grant.address, ticket=grant.ticket, server=grant.server)
                    )
                    return
                yield pb.AcquireReply(ahead=waiting.ahead)
                waiting.changed.wait()
        finally:
            self._fleet.leave(waiting)

    def List(self, request: pb.ListRequest, context: grpc.ServicerContext) -> pb.Fleet:
        """All that is known of the keys whose tokens the call has."""
        try:
            self._access.require_any(context)
        except NotAuthenticated as error:
            refuse(context, error)
        known, queued = self._fleet.servers(), self._fleet.queues()
        keys = {record.key for record, _ in known} | set(queued)
        opened = {key for key in keys if self._access.opens(context, key)}
        servers = [
            pb.FleetServer(report=_report(record), silent_secs=silent)
            for record, silent in known
            if record.key in opened
        ]
        queues = [
            pb.FleetQueue(key=key, waiting=[_request(item, secs) for item, secs in waiting])
            for key, waiting in queued.items()
            if key in opened
        ]
        return pb.Fleet(servers=servers, queues=queues, version=version())


def _record(report: pb.ServerReport, owner: str) -> ServerRecord:
    """What a server says of itself, who has this certificate.

    Raises:
        RunnerError: it says nothing sensible, or too much.
    """
    device = report.device
    for text in (device.name, device.key):
        if not 1 <= len(text) <= 200 or not text.isprintable():
            raise RunnerError("a server has a name and a key of 1 to 200 printable characters")
    if device.ByteSize() > _MOST_DESCRIBED or len(report.ticket) > 200:
        raise RunnerError(f"a server says of itself at most {_MOST_DESCRIBED} bytes")
    device.hardware = printable(device.hardware)
    return ServerRecord(
        device.name,
        device.key,
        str(Address.of(report.address[:300])),
        _STATES.get(report.state, ServerState.BUSY),
        printable(report.client),
        report.ticket,
        report.sessions,
        report.busy_secs,
        device,
        owner,
    )


def _report(record: ServerRecord) -> pb.ServerReport:
    described: Any = record.described
    return pb.ServerReport(
        device=described,
        address=record.address,
        state=_NUMBERS[record.state],
        client=record.client,
        sessions=record.sessions,
        busy_secs=record.busy_secs,
    )


def _request(item: Waiting, secs: float) -> pb.FleetRequest:
    return pb.FleetRequest(client=item.client, priority=item.priority, waiting_secs=secs)


class Tracker:
    """A tracker that is running.

    Args:
        address: where it listens; port 0 stands for a free one.
        credentials: of the tracker, or their folder; by default that which ``LOOPSMITH_RPC_CREDENTIALS`` names. Without any it listens to
            this machine alone.
        insecure: listen to everybody without credentials.
        limits: what it grants; by default :meth:`~runners.rpc.limits.Limits.of_tracker`.

    Raises:
        RunnerError: it cannot listen there.
    """

    def __init__(
        self,
        address: Address,
        *,
        credentials: Credentials | str | None = None,
        insecure: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.fleet = Fleet()
        granted, own = limits or Limits.of_tracker(), Credentials.found(credentials)
        self._server = make_server(granted.calls, [Guard(granted, own)])
        service = TrackerService(self.fleet, Access(own), granted)
        tracker_pb2_grpc.add_TrackerServicer_to_server(service, self._server)
        self.address = bind(self._server, address, own, insecure)
        self._server.start()
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._forget_silent, name="loopsmith-tracker", daemon=True)
        self._watch.start()

    def _forget_silent(self) -> None:
        while not self._closing.wait(min(_LOOK_SECONDS, PATIENCE_SECONDS)):
            self.fleet.forget_silent()

    def close(self) -> None:
        """End it; sessions between clients and servers go on."""
        self._closing.set()
        self._server.stop(grace=None).wait()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
