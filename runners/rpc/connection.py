"""Channels and servers of gRPC as both ends of this project set them up: addresses, TLS, limits on messages, signs of life."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc

from ..error import RunnerError
from .credentials import VARIABLE, Credentials
from .proto import device_pb2 as pb

MOST_MESSAGE_BYTES = 16 << 20
"""What is larger comes in parts."""
PART_BYTES = 1 << 20
_ALIVE_MS, _ANSWER_MS = 2_000, 5_000
"""How often an end that hears nothing asks whether the other is there, and how long it waits for the answer: so long after a cable was
pulled, or a machine lost its power, a call has ended."""
_LIFE: tuple[tuple[str, Any], ...] = (
    ("grpc.keepalive_time_ms", _ALIVE_MS),
    ("grpc.keepalive_timeout_ms", _ANSWER_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
)
_OF_CLIENTS = (
    *_LIFE,
    ("grpc.enable_retries", 0),  # who calls knows what may be done twice
    ("grpc.use_local_subchannel_pool", 1),  # a client's connections end with it
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)
_OF_SERVERS = (
    *_LIFE,
    ("grpc.http2.min_ping_interval_without_data_ms", _ALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),  # a second server at the same port is an error
    ("grpc.server_handshake_timeout_ms", 10_000),  # who connects and says nothing is let go
    ("grpc.max_concurrent_streams", 4096),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.absolute_max_metadata_size", 32 << 10),
)
SPARE_CALLS = 8
"""Beyond those that a limit grants, so that there is a thread to refuse the next one by the limit's name."""
_LOG = logging.getLogger(__package__)
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is.

    >>> Address.of("localhost:9190")
    Address(host='localhost', port=9190)
    >>> str(Address("::1", 9190))
    '[::1]:9190'
    """

    host: str
    port: int

    @staticmethod
    def of(text: str) -> Address:
        """An address as people write it, ``host:port``.

        Raises:
            RunnerError: it is none.
        """
        found = _ADDRESS.fullmatch(text.strip())
        if found is None or not 0 <= int(found[2]) < 65536:
            raise RunnerError(f"an address is host:port, such as 127.0.0.1:9190, got {text!r}")
        return Address(found[1].strip("[]"), int(found[2]))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:  # another name
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def open_channel(address: Address, credentials: Credentials | None = None) -> grpc.Channel:
    """A channel to a server, with TLS where there are credentials; nothing is sent before the first call."""
    if credentials is None:
        return grpc.insecure_channel(str(address), options=_OF_CLIENTS)
    return grpc.secure_channel(str(address), credentials.of_channel(), options=_OF_CLIENTS)


def make_server(calls: int, interceptors: Sequence[grpc.ServerInterceptor] = ()) -> grpc.Server:
    """A server that answers so many calls at a time, each after it has passed the interceptors."""
    threads = calls + SPARE_CALLS
    pool = ThreadPoolExecutor(threads, thread_name_prefix="loopsmith-rpc")
    return grpc.server(pool, interceptors=interceptors, options=_OF_SERVERS, maximum_concurrent_rpcs=threads)


def bind(
    server: grpc.Server, address: Address, credentials: Credentials | None = None, insecure: bool = False
) -> Address:
    """Let a server listen; where it does, with the port that the system chose for 0.

    Without credentials it listens to this machine alone, unless it is to be ``insecure``.

    Raises:
        RunnerError: it cannot, as where another server does, or it would let everybody in.
    """
    if credentials is None and not address.is_loopback:
        if not insecure:
            raise RunnerError(
                f"whoever reaches {address} could run code there: make certificates (loopsmith rpc certs), name their folder by"
                f" --credentials or {VARIABLE}, or listen at 127.0.0.1; --insecure listens all the same"
            )
        _LOG.warning("everybody who reaches %s may run code on this machine: there is no TLS", address)
    try:
        if credentials is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), credentials.of_server())
    except RuntimeError as error:
        raise RunnerError(f"cannot listen at {address}: {error}; is another server there?") from error
    if port == 0:
        raise RunnerError(f"cannot listen at {address}; is another server there?")
    return Address(address.host, port)


def content_parts(key: str, data: bytes) -> Iterator[pb.ContentPart]:
    """A content in parts that fit into messages; one part at least."""
    yield pb.ContentPart(key=key, size=len(data), data=data[:PART_BYTES])
    for begin in range(PART_BYTES, len(data), PART_BYTES):
        yield pb.ContentPart(data=data[begin : begin + PART_BYTES])
