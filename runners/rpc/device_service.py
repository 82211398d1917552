"""The device's side of :file:`proto/device.proto`: contents, building and measuring in the worker processes of a server."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from ir.error import IRError
from ir.target import Target

from ..builder import Artifact, BuilderInput, LocalBuilder
from ..candidate import RunSettings
from ..error import RunnerError, WorkerError
from ..final import final_choice
from ..kernel_code import KernelCode, ProgramText
from ..local import LocalRunner
from ..pool import WorkerPool
from ..runner import RunnerInput, RunnerResult
from .connection import content_parts
from .content import ContentError, ContentMissing, ContentStore, ContentsUnwritable
from .credentials import SESSION_HEADER, Peer
from .desk import DeviceTaken, Session, SessionDesk, SessionOver
from .guard import STATUS, Access, printable
from .limits import LimitReached, Limits, Rate
from .messages import (
    PROTOCOL,
    MessageError,
    OtherProtocol,
    arguments_of,
    best_of,
    result_message,
    seconds,
    settings_of,
)
from .proto import device_pb2 as pb
from .proto import device_pb2_grpc

BEAT_SECONDS = 1.0
"""Between two messages of a session, and between two looks at whether its client is silent."""
TICKET_PATIENCE_SECONDS = 3.0
"""How long a client that comes with a ticket waits for the tracker to announce it."""
_KEPT_RESULTS = 256
_END_SECONDS = 5.0
"""How long a session's last calls may take to end."""
_LOG = logging.getLogger(__package__)
_Answer = TypeVar("_Answer")

_STATUS: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    *STATUS,
    (SessionOver, grpc.StatusCode.FAILED_PRECONDITION),
    (DeviceTaken, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (WorkerError, grpc.StatusCode.ABORTED),  # no fault of what was asked: another device may do it
    (ContentsUnwritable, grpc.StatusCode.ABORTED),  # nor this
    (ContentMissing, grpc.StatusCode.NOT_FOUND),
    (ContentError, grpc.StatusCode.INVALID_ARGUMENT),
    (OtherProtocol, grpc.StatusCode.UNIMPLEMENTED),
    (MessageError, grpc.StatusCode.INVALID_ARGUMENT),
    (IRError, grpc.StatusCode.INVALID_ARGUMENT),
)
"""What a client is told of errors; others are defects of the server, whose log has them."""


def answering(method: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """A method of a service whose errors are told as statuses."""

    @functools.wraps(method)
    def answered(self: Any, request: Any, context: grpc.ServicerContext) -> _Answer:
        try:
            return method(self, request, context)
        except Exception as error:
            abort(context, error)
            raise

    return answered


def abort(context: grpc.ServicerContext, error: Exception) -> None:
    """End a call with the status of an error; nobody hears that a client is gone which was sending."""
    if isinstance(error, grpc.RpcError):
        return
    for kind, status in _STATUS:
        if isinstance(error, kind):
            context.abort(status, str(error))
    if context.code() is None:  # it was not aborted on purpose
        _LOG.error("a call of %s failed", context.peer(), exc_info=error)
        context.abort(
            grpc.StatusCode.INTERNAL, f"the server failed: {type(error).__name__}; its log says more"
        )


@dataclass(frozen=True)
class DeviceFacts:
    """What a server says of its device."""

    key: str
    name: str
    target: str
    hardware: str
    fingerprint: str
    version: str
    protocol: int
    confinement: tuple[str, ...] = ()
    """How workers are confined, a line for each step."""

    def message(self) -> pb.DeviceDescription:
        """For clients and trackers."""
        return pb.DeviceDescription(**self.__dict__)


class DeviceService(device_pb2_grpc.DeviceServicer):  # type: ignore[misc]  # generated code has no types
    """Answers clients.

    Args:
        facts: of the device.
        desk: who the device is handed to.
        contents: what clients have sent.
        pool: worker processes, in which everything happens that clients sent.
        make_runner: makes the runner of the device; one that measures on the processor by default.
        access: who may use the device.
        limits: what a client may ask for.
        end_remote: ends what :class:`~runners.rpc.remote_service.RemoteService` has of a session that is over.
    """

    def __init__(
        self,
        facts: DeviceFacts,
        desk: SessionDesk,
        contents: ContentStore,
        pool: WorkerPool,
        make_runner: Callable[..., LocalRunner] = LocalRunner,
        access: Access = Access(),
        limits: Limits = Limits(),
        end_remote: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self._facts, self._desk, self._contents, self._pool = facts, desk, contents, pool
        self._make_runner = make_runner
        self._access, self._limits, self._end_remote = access, limits, end_remote
        self._opened = Rate(
            "sessions_per_minute", limits.sessions_per_minute / 60, limits.burst_sessions, limits.peers
        )
        self._last_identity = ""
        """Of the client that had the device last."""
        self._device_type = Target(facts.target).device_type
        self._asked: OrderedDict[str, Future[RunnerResult]] = OrderedDict()
        """Measurements by their id: one that is asked for again, as after a connection was lost, is not done again."""
        self._asking = threading.Lock()

    # -- sessions --------------------------------------------------------------------
    @answering
    def Describe(self, request: pb.DescribeRequest, context: grpc.ServicerContext) -> pb.DeviceDescription:
        """What the device is."""
        self._access.require(context, self._facts.key)
        return self._facts.message()

    def Open(self, request: pb.OpenRequest, context: grpc.ServicerContext) -> Iterator[pb.SessionState]:
        """A session, which lasts as long as the call."""
        try:
            session = self._open(request, context)
        except Exception as error:
            abort(context, error)
            return
        try:
            if context.add_callback(session.over.set):  # false where the client is gone already
                yield pb.SessionState(token=session.token)
                while not session.over.wait(BEAT_SECONDS):
                    self._require_alive(session, context)
                    yield pb.SessionState()
        finally:
            self._leave_nothing(session)
            self._desk.end(session)

    def _open(self, request: pb.OpenRequest, context: grpc.ServicerContext) -> Session:
        """A new session, in which nothing is left of another client's.

        Raises:
            RunnerError: the client may not have one, or not now.
        """
        self._access.require(context, self._facts.key)
        peer = Peer.of(context)
        self._opened.take(peer.name)
        if request.protocol != PROTOCOL:
            raise OtherProtocol(
                f"the server speaks version {PROTOCOL} of the protocol (loopsmith {self._facts.version}), the client {request.protocol}:"
                " update one of them"
            )
        timeout = seconds(request.timeout_sec, "timeout_sec", least=0.0)
        session = self._desk.open(
            request.ticket[:200], printable(request.client), timeout, TICKET_PATIENCE_SECONDS, peer.identity
        )
        try:
            if session.identity != self._last_identity:
                self._pool.clear_folder()
                self._last_identity = session.identity
        except BaseException:
            self._desk.end(session)
            raise
        return session

    def _require_alive(self, session: Session, context: grpc.ServicerContext) -> None:
        """End the session of a client that is silent, or whose code fills the disk."""
        if session.is_silent:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the session is over: its client did not call for {session.timeout_sec:g} seconds",
            )
        if self._pool.folder_bytes() > self._limits.scratch_bytes:
            self._pool.renew()
            self._pool.clear_folder()
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"the limit scratch_bytes of {self._limits.scratch_bytes} is reached by files of the session's workers",
            )

    def _leave_nothing(self, session: Session) -> None:
        """End all that a session has begun; the device is not given to the next one before."""
        session.over.set()
        self._end_remote(session)
        end = time.monotonic() + _END_SECONDS
        while True:
            session.cancel_calls()
            self._pool.renew()
            if not session.calls or time.monotonic() > end:
                break
            time.sleep(0.01)
        self._forget_results()

    def session(self, context: grpc.ServicerContext) -> Session:
        """The session that a call belongs to.

        Raises:
            SessionOver: none.
        """
        told = dict(context.invocation_metadata())
        return self._desk.of(str(told.get(SESSION_HEADER, "")), Peer.of(context).identity)

    # -- contents --------------------------------------------------------------------
    @answering
    def Missing(self, request: pb.ContentKeys, context: grpc.ServicerContext) -> pb.ContentKeys:
        """Of some contents those that are not here."""
        with self.session(context).answering(context.cancel):
            return pb.ContentKeys(keys=self._contents.missing(request.keys))

    @answering
    def Upload(self, request: Iterator[pb.ContentPart], context: grpc.ServicerContext) -> pb.ContentKeys:
        """Keep a content."""
        with self.session(context).answering(context.cancel):
            first = next(request, None)
            if first is None:
                raise MessageError("an upload has at least one part, which names the content")

            def parts() -> Iterator[bytes]:
                yield first.data
                for part in request:
                    yield part.data

            self._contents.write(first.key, first.size, parts())
            return pb.ContentKeys(keys=[first.key])

    def Fetch(self, request: pb.ContentKeys, context: grpc.ServicerContext) -> Iterator[pb.ContentPart]:
        """A content."""
        try:
            with self.session(context).answering(context.cancel):
                for key in request.keys[:1]:
                    yield from content_parts(key, self._contents.read(key))
        except RunnerError as error:
            abort(context, error)

    # -- building and measuring ----------------------------------------------------------
    @answering
    def Build(self, request: pb.BuildRequest, context: grpc.ServicerContext) -> pb.BuildReply:
        """Build a program for a target, for devices like this one."""
        with self.session(context).answering(context.cancel):
            program = ProgramText(self._contents.read(request.program, self._limits.program_bytes))
            limit = seconds(request.timeout_sec, "timeout_sec")
            _grant("build_seconds", limit, self._limits.build_seconds)
            builder = LocalBuilder(timeout_sec=limit, pool=self._pool, portable=True)
            (built,) = builder.build([BuilderInput(program, Target(request.target))])
            code = "" if built.artifact is None else self._contents.add(built.artifact.mod.data)
            return pb.BuildReply(
                kind=str(built.kind),
                error=built.error_msg or "",
                code=code,
                build_secs=built.build_secs,
                metrics=built.metrics,
            )

    @answering
    def Measure(self, request: pb.MeasureRequest, context: grpc.ServicerContext) -> pb.MeasureReply:
        """Check and time a candidate."""
        with self.session(context).answering(context.cancel):
            return result_message(self._once(request.id, lambda: self._start(request)).result())

    @answering
    def Confirm(self, request: pb.ConfirmRequest, context: grpc.ServicerContext) -> pb.MeasureReply:
        """The rest of a candidate's check."""
        with self.session(context).answering(context.cancel):
            with self._asking:
                measured = self._asked.get(request.id)
            confirm = None if measured is None else measured.result().confirm
            if confirm is None:
                raise ContentMissing(
                    f"the measurement {request.id[:80]!r} is not here, or has no check left; measure again"
                )
            return result_message(confirm())

    @answering
    def Compare(self, request: pb.CompareRequest, context: grpc.ServicerContext) -> pb.CompareReply:
        """Candidates in turns."""
        with self.session(context).answering(context.cancel):
            settings, target = self._settings(request.settings), Target(request.target)
            _grant("rivals", len(request.rivals), self._limits.rivals)
            rivals = [Artifact(self._code(item.code), target) for item in request.rivals]
            if not rivals:
                raise MessageError("there are no candidates to compare")
            runner = self._runner(settings)
            results = final_choice(
                rivals,
                reference=self._reference(request.reference),
                timeout_sec=settings.timeout_sec,
                evaluator_config=settings.config,
                pool=self._pool,
                confirmed=[place for place, item in enumerate(request.rivals) if item.confirmed],
                place=runner.place,
            )
            return pb.CompareReply(results=map(result_message, results))

    def _start(self, request: pb.MeasureRequest) -> Future[RunnerResult]:
        best, settings = best_of(request), self._settings(request.settings)
        item = RunnerInput(
            Artifact(self._code(request.code), Target(request.target)),
            self._device_type,
            arguments_of(request),
            reference=self._reference(request.reference),
            confirm_later=request.confirm_later,
        )
        if best is not None:
            item.best_secs, item.best_noise = request.best_secs, request.best_noise
        return self._runner(settings).submit(item, again=request.again)

    def _settings(self, message: pb.Settings) -> RunSettings:
        """How a candidate is measured; raises LimitReached for what takes too long."""
        settings = settings_of(message)
        longest = max(settings.timeout_sec, settings.reference_timeout_sec, settings.cooldown_sec)
        _grant("run_seconds", longest, self._limits.run_seconds)
        least = settings.config.repeat * settings.config.min_repeat_ms * 1e-3
        _grant("run_seconds", least, self._limits.run_seconds)
        return settings

    def _code(self, key: str) -> KernelCode:
        return KernelCode(self._contents.read(key, self._limits.program_bytes))

    def _reference(self, key: str) -> ProgramText | None:
        return ProgramText(self._contents.read(key, self._limits.program_bytes)) if key else None

    def _runner(self, settings: Any) -> LocalRunner:
        return self._make_runner(
            settings.timeout_sec,
            settings.config,
            settings.cooldown_sec,
            cut_ratio=settings.cut_ratio,
            reference_timeout_sec=settings.reference_timeout_sec,
            measure_energy=settings.measure_energy,
            pool=self._pool,
        )

    def _once(self, name: str, start: Callable[[], Future[RunnerResult]]) -> Future[RunnerResult]:
        """What was asked for under a name, whoever asks first."""
        if not 1 <= len(name) <= 100:
            raise MessageError("a measurement has an id of 1 to 100 characters")
        with self._asking:
            found = self._asked.get(name)
            if found is None:
                found = self._asked[name] = start()
                while len(self._asked) > _KEPT_RESULTS:
                    self._asked.popitem(last=False)
            return found

    def _forget_results(self) -> None:
        with self._asking:
            self._asked.clear()


def _grant(name: str, wanted: float, most: float) -> None:
    """Raises LimitReached for more than a limit."""
    if wanted > most:
        raise LimitReached(name, f"{most:g}", f"{wanted:g} was asked for")
