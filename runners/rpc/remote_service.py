"""The device's side of :file:`proto/remote.proto`: it hands tasks to the process of the session, and watches over it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import grpc

from ..error import RunnerError
from ..template_process import Template
from .content import ContentStore
from .desk import Session, SessionOver
from .device_service import abort, answering
from .limits import LimitReached, Limits
from .messages import ARRAY_PART_BYTES, TASK_SECONDS, seconds
from .proto import remote_pb2 as pb
from .proto import remote_pb2_grpc
from .remote_process import RemoteProcess


class RemoteService(remote_pb2_grpc.RemoteServicer):
    """Answers clients.

    Args:
        session_of: the session that a call belongs to; raises SessionOver.
        contents: what clients have sent.
        template: that processes of sessions are forked from.
        limits: what a client may ask for.
    """

    def __init__(
        self,
        session_of: Callable[[grpc.ServicerContext], Session],
        contents: ContentStore,
        template: Template,
        limits: Limits = Limits(),
    ) -> None:
        self._session_of, self._contents, self._template = session_of, contents, template
        self._limits = limits
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._processes: dict[str, RemoteProcess] = {}
        """By the token of the session; there is one session at a time, and may be one that is being cleared away."""

    # -- programs ----------------------------------------------------------------------
    @answering
    def Load(self, request: pb.LoadRequest, context: grpc.ServicerContext) -> pb.Answer:
        """Open a program."""
        session = self._session_of(context)
        with session.answering(context.cancel):
            process, what = self._process_of(session), f"loaded {request.name[:200]!r}"
            with process.loading:
                is_first = True
                for data in self._missing_parts(process, request.content):
                    part = pb.Task(part=pb.ProgramPart(is_first=is_first, data=data))
                    answer = process.ask(part, TASK_SECONDS, what)
                    if answer.HasField("failure"):
                        return answer
                    is_first = False
                answer = process.ask(pb.Task(load=request), TASK_SECONDS, what)
                if not answer.HasField("failure"):
                    process.contents.add(request.content)
            return answer

    def _missing_parts(self, process: RemoteProcess, content: str) -> Iterator[bytes]:
        """Of a program that the process has not; it cannot read the contents, which may be others'."""
        if content not in process.contents:
            yield from self._contents.parts(content, ARRAY_PART_BYTES)

    @answering
    def Call(self, request: pb.CallRequest, context: grpc.ServicerContext) -> pb.Answer:
        """Call a function."""
        return self._called(request, pb.Task(call=request), "called", context)

    @answering
    def Time(self, request: pb.TimeRequest, context: grpc.ServicerContext) -> pb.Answer:
        """Time a function."""
        return self._called(request.call, pb.Task(time=request), "timed", context)

    @answering
    def Profile(self, request: pb.CallRequest, context: grpc.ServicerContext) -> pb.Answer:
        """Time the kernels of a function."""
        return self._called(request, pb.Task(profile=request), "timed the kernels of", context)

    def _called(
        self, request: pb.CallRequest, task: pb.Task, verb: str, context: grpc.ServicerContext
    ) -> pb.Answer:
        session = self._session_of(context)
        with session.answering(context.cancel):
            most = self._limits.run_seconds
            limit = seconds(request.timeout_sec or session.timeout_sec or most, "timeout_sec")
            if limit > most:
                raise LimitReached("run_seconds", f"{most:g}", f"{limit:g} was asked for")
            return self._asked(session, task, limit, f"{verb} {request.function[:200]!r}")

    # -- arrays ------------------------------------------------------------------------
    @answering
    def Allocate(self, request: pb.AllocateRequest, context: grpc.ServicerContext) -> pb.Answer:
        """Make an array."""
        return self._done(pb.Task(allocate=request), "made an array", context)

    @answering
    def Write(self, request: Iterator[pb.ArrayPart], context: grpc.ServicerContext) -> pb.Answer:
        """Write elements as they come; none are kept here."""
        session = self._session_of(context)
        with session.answering(context.cancel):
            answer = pb.Answer(nothing=pb.Nothing())
            for part in request:
                answer = self._asked(session, pb.Task(write=part), TASK_SECONDS, "wrote an array")
                if answer.HasField("failure"):
                    break
            return answer

    def Read(self, request: pb.ReadRequest, context: grpc.ServicerContext) -> Iterator[pb.Answer]:
        """Read elements, in parts."""
        try:
            session = self._session_of(context)
            with session.answering(context.cancel):
                end = request.begin + request.size
                for begin in range(request.begin, end, ARRAY_PART_BYTES):
                    size = min(ARRAY_PART_BYTES, end - begin)
                    task = pb.Task(read=pb.ReadRequest(array=request.array, begin=begin, size=size))
                    answer = self._asked(session, task, TASK_SECONDS, "read an array")
                    yield answer
                    if answer.HasField("failure"):
                        return
        except RunnerError as error:
            abort(context, error)

    @answering
    def Copy(self, request: pb.CopyRequest, context: grpc.ServicerContext) -> pb.Answer:
        """Copy elements."""
        return self._done(pb.Task(copy=request), "copied an array", context)

    @answering
    def Free(self, request: pb.FreeRequest, context: grpc.ServicerContext) -> pb.Answer:
        """Forget arrays and programs."""
        return self._done(pb.Task(free=request), "freed arrays", context)

    def _done(self, task: pb.Task, what: str, context: grpc.ServicerContext) -> pb.Answer:
        session = self._session_of(context)
        with session.answering(context.cancel):
            return self._asked(session, task, TASK_SECONDS, what)

    # -- processes ---------------------------------------------------------------------
    def _asked(self, session: Session, task: pb.Task, limit: float, what: str) -> pb.Answer:
        return self._process_of(session).ask(task, limit, what)

    def _process_of(self, session: Session) -> RemoteProcess:
        """The process of a session: a new one for the first task, and after one has ended."""
        with self._lock:
            if session.over.is_set():
                raise SessionOver("the session is over; open another")
            known = self._processes.get(session.token)
            if known is not None and not known.has_ended:
                return known
            made = self._processes[session.token] = RemoteProcess(self._template, next(self._numbers))
        if known is not None:
            known.close()
        return made

    def end(self, session: Session) -> None:
        """End the process of a session that is over."""
        with self._lock:
            process = self._processes.pop(session.token, None)
        if process is not None:
            process.close()
