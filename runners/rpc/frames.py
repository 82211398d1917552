"""Messages of protobuf over the connection between a server and the process of a session.

What the process says is read as messages of one kind and a bounded size, since it runs what clients have sent.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, TypeVar

from ..error import RunnerError

MOST_BYTES = 32 << 20
"""Of one message."""
_SIZE = struct.Struct("<Q")
_Message = TypeVar("_Message")


class FrameError(RunnerError):
    """What came is no message."""


def send_message(connection: socket.socket, message: Any) -> None:
    """Send one."""
    data = message.SerializeToString()
    connection.sendall(_SIZE.pack(len(data)))
    connection.sendall(data)


def receive_message(
    connection: socket.socket, kind: type[_Message], deadline: float | None = None
) -> _Message:
    """Wait for one.

    Args:
        connection: that it comes through.
        kind: of message.
        deadline: on the monotonic clock.

    Raises:
        EOFError: the other side is gone.
        TimeoutError: the deadline has passed.
        FrameError: what came is no message, or too large.
    """
    (size,) = _SIZE.unpack(_received(connection, _SIZE.size, deadline))
    if size > MOST_BYTES:
        raise FrameError(f"a message of {size} bytes is too large")
    data = _received(connection, size, deadline)
    message: Any = kind()
    try:
        message.ParseFromString(data)
    except Exception as error:  # which one, depends on how protobuf is built
        raise FrameError(f"what came is no {kind.__name__}") from error
    found: _Message = message
    return found


def _received(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
        count = connection.recv_into(view[filled:])
        if not count:
            raise EOFError
        filled += count
    return bytes(data)
