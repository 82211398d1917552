"""A client's session with a device: what it asks, over a connection that may end at any moment.

What goes wrong on the way is a :class:`ConnectionLost`, after which the session is of no use, and everything can be asked again of another
device; what a device says of a request is a :class:`RequestRefused`.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from ..error import RunnerError
from ..kernel_code import digest
from .connection import Address, content_parts, open_channel
from .credentials import SESSION_HEADER, VARIABLE, Credentials
from .messages import PROTOCOL
from .proto import device_pb2 as pb
from .proto import device_pb2_grpc

OPEN_SECONDS = 15.0
"""How long a device may take to answer that a session is open, and to answer small questions."""
_OWN_SECONDS = 60.0
"""What a request may take beyond the times that it has: a queue of builds, a busy machine."""
_LOST = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}


_FINAL = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)
_SIGNS_OF_AN_END = ("closed", "reset")
_SIGNS_OF_TLS = ("andshake", "SSL", "ertificate", "erification", *_SIGNS_OF_AN_END)
"""Words of gRPC about a connection that was refused."""


class ConnectionLost(RunnerError):
    """The connection, the device or the session has ended; what was asked may be asked again elsewhere."""


class LostBefore(ConnectionLost):
    """It ended before the device did what it was asked, which is not the reason."""


class RequestRefused(RunnerError):
    """A device refuses a request, and others would, too.

    Args:
        message: what the device said.
        status: of gRPC.
    """

    def __init__(self, message: str, status: grpc.StatusCode) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_final(self) -> bool:
        """Whether it stays refused, however long one waits."""
        return self.status in _FINAL


def client_name() -> str:
    """What people read who look who has a device: user, machine and process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without names of users
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}:{os.getpid()}"


def error_of(error: grpc.RpcError, where: object, *, has_credentials: bool = True) -> RunnerError:
    """What an error of gRPC means.

    Args:
        error: of a call.
        where: who did not answer as wished.
        has_credentials: whether the caller has shown any.
    """
    status, text = error.code(), error.details() or "no reason was given"
    if status is grpc.StatusCode.ABORTED:
        return LostBefore(f"{where}: {text}")
    if status in _LOST:
        return ConnectionLost(f"{where}: {text} ({status.name}){_advice(status, text, has_credentials)}")
    return RequestRefused(f"{where}: {text}", status)


def _advice(status: grpc.StatusCode, text: str, has_credentials: bool) -> str:
    """What may be wrong with the credentials where there is no connection; what is said of that by TLS helps nobody."""
    if status is not grpc.StatusCode.UNAVAILABLE or "failed to connect" not in text:
        return ""
    if has_credentials and any(word in text for word in _SIGNS_OF_TLS):
        return (
            "; both ends need certificates of one authority that are still valid, and that of who is called must name it as it was called:"
            " loopsmith rpc certs"
        )
    if not has_credentials and any(word in text for word in _SIGNS_OF_AN_END):
        return f"; if it asks for TLS, name a folder of `loopsmith rpc certs` by {VARIABLE}"
    return ""


class DeviceClient:
    """A session with a device.

    Args:
        address: of its server.
        ticket: of the tracker; empty for a server without one.
        timeout_sec: the session is over after so long without a call; 0 for never.
        credentials: of the client, or their folder; by default that which ``LOOPSMITH_RPC_CREDENTIALS`` names, if it does.
        key: of the device, whose token is shown; all tokens are where it is not known.

    Raises:
        ConnectionLost: nobody answers there.
        RequestRefused: the device is another client's, or the client may not use it.
        RunnerError: the credentials cannot be read.
    """

    def __init__(
        self,
        address: Address,
        ticket: str = "",
        timeout_sec: float = 0.0,
        credentials: Credentials | str | None = None,
        key: str = "",
    ) -> None:
        self.address = address
        own = Credentials.found(credentials)
        self._has_credentials = own is not None
        shown = () if own is None else own.metadata(*filter(None, [key]))
        self._channel = open_channel(address, own)
        self._device = device_pb2_grpc.DeviceStub(self._channel)
        self._over = threading.Event()
        self._sent: set[str] = set()
        """Contents that the device had when they were last needed."""
        request = pb.OpenRequest(
            ticket=ticket, client=client_name(), timeout_sec=timeout_sec, protocol=PROTOCOL
        )
        self._session = self._device.Open(request, metadata=shown)
        timer = threading.Timer(OPEN_SECONDS, self._session.cancel)
        timer.daemon = True
        timer.start()
        try:
            first = next(self._session, None)
        except grpc.RpcError as error:
            self._channel.close()
            raise self._error_of(error) from error
        finally:
            timer.cancel()
        if first is None:
            self._channel.close()
            raise ConnectionLost(f"{address}: the server ended the session at once")
        self._metadata = (*shown, (SESSION_HEADER, first.token))
        threading.Thread(target=self._listen, name=f"loopsmith-session-{address}", daemon=True).start()

    def _error_of(self, error: grpc.RpcError) -> RunnerError:
        return error_of(error, self.address, has_credentials=self._has_credentials)

    def _listen(self) -> None:
        """Until the session is over, whoever has ended it."""
        try:
            for _ in self._session:
                pass
        except grpc.RpcError:
            pass
        self._over.set()

    @property
    def is_open(self) -> bool:
        """Whether the device is still this client's, as far as it knows."""
        return not self._over.is_set()

    def stub(self, kind: Callable[[grpc.Channel], Any]) -> Any:
        """The stub of another service of the device, whose methods :meth:`call` takes."""
        return kind(self._channel)

    def close(self) -> None:
        """Give the device back."""
        self._over.set()
        self._session.cancel()
        self._channel.close()

    def __enter__(self) -> DeviceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self) -> pb.DeviceDescription:
        """What the device says of itself."""
        told: pb.DeviceDescription = self.call(self._device.Describe, pb.DescribeRequest(), OPEN_SECONDS)
        return told

    def call(self, method: Callable[..., Any], request: Any, seconds: float) -> Any:
        """Ask within the session.

        Args:
            method: of a stub.
            request: its message, or an iterator of them.
            seconds: that the answer may take.

        Raises:
            ConnectionLost: there is none.
            RequestRefused: the device refuses.
        """
        if not self.is_open:
            raise LostBefore(f"{self.address}: the session is over")
        try:
            return method(request, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            found = self._error_of(error)
            if isinstance(found, ConnectionLost):
                self.close()
            raise found from error
        except ValueError as error:  # gRPC's, of a channel that was closed in another thread
            raise ConnectionLost(f"{self.address}: {error}") from error

    # -- contents --------------------------------------------------------------------
    def send(self, contents: Mapping[str, bytes]) -> None:
        """Have the device have some contents, of which those are sent that it has not.

        Raises:
            LostBefore: the device is lost, or fails to keep them, as where its disk is full.
            RequestRefused: there is no room for them.
        """
        unknown = [key for key in contents if key not in self._sent]
        if not unknown:
            return
        try:
            missing = self.call(self._device.Missing, pb.ContentKeys(keys=unknown), OPEN_SECONDS).keys
            for key in missing:
                data = contents[key]
                self.call(self._device.Upload, content_parts(key, data), OPEN_SECONDS + len(data) / 1e6)
        except ConnectionLost as error:
            raise LostBefore(str(error)) from error
        self._sent.update(unknown)

    def fetch(self, key: str) -> bytes:
        """A content of the device.

        Raises:
            ConnectionLost: what came is something else.
        """
        try:
            parts = self.call(self._device.Fetch, pb.ContentKeys(keys=[key]), OPEN_SECONDS)
            data = b"".join(part.data for part in parts)
        except grpc.RpcError as error:
            raise self._error_of(error) from error
        if digest(data) != key:
            raise ConnectionLost(f"{self.address}: what came as the content {key} is something else")
        return data

    def _with_contents(self, contents: Mapping[str, bytes], ask: Callable[[], Any]) -> Any:
        """An answer to what needs contents, which a device may have made room of since they were sent."""
        self.send(contents)
        try:
            return ask()
        except RequestRefused as refused:
            if refused.status is not grpc.StatusCode.NOT_FOUND or not contents:
                raise
        self._sent.difference_update(contents)
        self.send(contents)
        return ask()

    # -- building and measuring ----------------------------------------------------------
    def build(self, program: bytes, target: str, timeout_sec: float) -> pb.BuildReply:
        """Build a program, in the JSON of :mod:`ir.json_format`, on the device."""
        key = digest(program)
        request = pb.BuildRequest(program=key, target=target, timeout_sec=timeout_sec)
        reply: pb.BuildReply = self._with_contents(
            {key: program}, lambda: self.call(self._device.Build, request, timeout_sec + _OWN_SECONDS)
        )
        return reply

    def measure(
        self, request: pb.MeasureRequest, contents: Mapping[str, bytes], seconds: float
    ) -> pb.MeasureReply:
        """Measure a candidate whose code and reference are among the contents; ``seconds`` is what it may take."""
        reply: pb.MeasureReply = self._with_contents(
            contents, lambda: self.call(self._device.Measure, request, seconds + _OWN_SECONDS)
        )
        return reply

    def confirm(self, name: str, seconds: float) -> pb.MeasureReply:
        """The rest of the check of a candidate, by the id of its measurement."""
        request = pb.ConfirmRequest(id=name)
        reply: pb.MeasureReply = self.call(self._device.Confirm, request, seconds + _OWN_SECONDS)
        return reply

    def compare(
        self, request: pb.CompareRequest, contents: Mapping[str, bytes], seconds: float
    ) -> pb.CompareReply:
        """Measure candidates in turns."""
        reply: pb.CompareReply = self._with_contents(
            contents, lambda: self.call(self._device.Compare, request, seconds + _OWN_SECONDS)
        )
        return reply
