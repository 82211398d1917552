"""Who may call what, and how often: it stands before every call that a tracker or a server answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc

from ..error import RunnerError
from .credentials import Credentials, Peer
from .limits import LimitReached, Limits, Rate, Turnstile

TRACKER, DEVICE, REMOTE = (f"/loopsmith.rpc.v1.{name}/" for name in ("Tracker", "Device", "Remote"))
_CLIENT, _SERVER = "client", "server"
_ROLES: Mapping[str, str] = {f"{TRACKER}Serve": _SERVER}
"""What the certificate of a caller says, by method; of all others, that it is a client's."""


class NotAuthenticated(RunnerError):
    """Nobody knows who calls: there is no token, or none of this fleet."""


class NotPermitted(RunnerError):
    """Who calls may do something else."""


class Unreadable(RunnerError):
    """A message is none of the kind that the call takes."""


STATUS: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (NotAuthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (NotPermitted, grpc.StatusCode.PERMISSION_DENIED),
    (LimitReached, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unreadable, grpc.StatusCode.INVALID_ARGUMENT),
)
"""What a caller is told of the errors of this module."""


@dataclass(frozen=True)
class Access:
    """Which tokens open which keys.

    Args:
        credentials: of who is asked; without them everything is open to everybody.
    """

    credentials: Credentials | None = None

    def require(self, context: Any, key: str) -> None:
        """Refuse who has not shown the token of a key.

        Raises:
            NotAuthenticated: the call has no token that is known here.
            NotPermitted: its tokens are those of other keys.
        """
        if self.credentials is None:
            return
        peer, tokens = Peer.of(context), self.credentials.tokens
        opened = [name for name, token in tokens.items() if peer.has_token(token)]  # all are compared
        if key in opened:
            return
        how = f"`loopsmith rpc certs DIR --key {key!r}` makes it, and the caller's folder of credentials has it in tokens/"
        if not opened:
            raise NotAuthenticated(f"a token of the key {key!r} is needed: {how}")
        raise NotPermitted(f"the token that was shown is not that of the key {key!r}: {how}")

    def require_any(self, context: Any) -> None:
        """Refuse who has shown no token that is known here; raises NotAuthenticated."""
        if self.credentials is None:
            return
        peer = Peer.of(context)
        if not any([peer.has_token(token) for token in self.credentials.tokens.values()]):
            raise NotAuthenticated(
                "a token of some key is needed: `loopsmith rpc certs DIR --key KEY` makes it, and the caller's folder of credentials has it"
                " in tokens/"
            )

    def opens(self, context: Any, key: str) -> bool:
        """Whether the call has shown the token of a key."""
        if self.credentials is None:
            return True
        return key in self.credentials.tokens and Peer.of(context).has_token(self.credentials.tokens[key])


class Guard(grpc.ServerInterceptor):
    """Refuses calls of who may not make them, or makes too many.

    Args:
        limits: of all and of each peer.
        credentials: where there are some, callers have shown a certificate, and it says what they are.
    """

    def __init__(self, limits: Limits, credentials: Credentials | None = None) -> None:
        self._needs_role = credentials is not None
        self._turnstile = Turnstile(limits)
        self._requests = Rate(
            "requests_per_second", limits.requests_per_second, limits.burst_requests, limits.peers
        )

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """The handler of a call, behind the guard; as gRPC asks for it."""
        handler = continuation(details)
        if handler is None:  # no such method: gRPC says so
            return None
        role, method = _ROLES.get(details.method, _CLIENT), _behavior(handler)
        read = _read_all if handler.request_streaming else _read
        if handler.response_streaming:
            return _made_like(handler, self._streamed(method, read, role))
        return _made_like(handler, self._answered(method, read, role))

    def _admit(self, context: Any, role: str) -> Peer:
        peer = Peer.of(context)
        self._requests.take(peer.name)
        if self._needs_role and peer.role != role:
            raise NotPermitted(
                f"this call is for a {role} of the fleet, and the certificate is that of a {peer.role or 'stranger'}: `loopsmith rpc certs`"
                f" makes folders for each, and LOOPSMITH_RPC_CREDENTIALS names that of the {role}"
            )
        return peer

    def _answered(
        self, method: Callable[[Any, Any], Any], read: Callable[[Any], Any], role: str
    ) -> Callable[[Any, Any], Any]:
        def answered(request: Any, context: Any) -> Any:
            try:
                peer = self._admit(context, role)
                with self._turnstile.inside(peer.name):
                    return method(read(request), context)
            except (LimitReached, NotPermitted, Unreadable) as error:
                refuse(context, error)

        return answered

    def _streamed(
        self, method: Callable[[Any, Any], Iterator[Any]], read: Callable[[Any], Any], role: str
    ) -> Callable[[Any, Any], Iterator[Any]]:
        def streamed(request: Any, context: Any) -> Iterator[Any]:
            try:
                peer = self._admit(context, role)
                with self._turnstile.inside(peer.name):
                    yield from method(read(request), context)
            except (LimitReached, NotPermitted, Unreadable) as error:
                refuse(context, error)

        return streamed


def refuse(context: Any, error: Exception) -> None:
    """End a call with the status of an error, if it is one of this module's."""
    for kind, status in STATUS:
        if isinstance(error, kind):
            context.abort(status, str(error))


class _Broken:
    """Stands for a message that cannot be read.

    gRPC itself would answer, too, but where such a message is the first one of a stream, it then keeps what it knows of the call for ever,
    and waits for its end when it is to stop.
    """


def _lenient(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def tried(data: bytes) -> Any:
        try:
            return read(data)
        except Exception:  # of protobuf, whatever it raises
            return _Broken()

    return tried


def _read(request: Any) -> Any:
    """A message; raises Unreadable for one that is none."""
    if isinstance(request, _Broken):
        raise Unreadable(
            "the message cannot be read: do both ends have versions of loopsmith that fit each other?"
        )
    return request


def _read_all(requests: Iterator[Any]) -> Iterator[Any]:
    return map(_read, requests)


def _behavior(handler: Any) -> Callable[[Any, Any], Any]:
    found: Callable[[Any, Any], Any] = (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )
    return found


def _made_like(handler: Any, behavior: Callable[[Any, Any], Any]) -> Any:
    """A handler of the same kind of call."""
    streams = (
        "stream" if handler.request_streaming else "unary",
        "stream" if handler.response_streaming else "unary",
    )
    make = getattr(grpc, f"{streams[0]}_{streams[1]}_rpc_method_handler")
    return make(
        behavior,
        request_deserializer=_lenient(handler.request_deserializer),
        response_serializer=handler.response_serializer,
    )


def printable(text: str, most: int = 200) -> str:
    """What another end says of itself, for logs and tables: nothing in it steers a terminal.

    >>> printable("me@host\\x1b[2J\\n")
    'me@host?[2J?'
    """
    return "".join(char if char.isprintable() else "?" for char in text[:most])
