"""The loop of one worker process: take a pickled call, run it, send back what came of it."""

from __future__ import annotations

import ctypes
import pickle
import resource
import socket
import struct
import traceback
from collections.abc import Callable
from typing import Any

HEADER = struct.Struct("<Q")
PHASE, RETURNED, RAISED = "phase", "returned", "raised"

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Numbers of options of glibc's ``mallopt``."""

_connection: socket.socket | None = None


def _pickled(message: Any) -> bytes:
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


_encoded: Callable[[Any], bytes] = _pickled
"""How this process writes its answers."""


def send(connection: socket.socket, message: Any) -> None:
    """Send one message to a worker."""
    _send_bytes(connection, _pickled(message))


def _answer(connection: socket.socket, message: Any) -> None:
    _send_bytes(connection, _encoded(message))


def _send_bytes(connection: socket.socket, data: bytes) -> None:
    connection.sendall(HEADER.pack(len(data)) + data)


def receive(connection: socket.socket) -> Any:
    """Wait for one message.

    Raises:
        EOFError: the other side is gone.
    """
    (size,) = HEADER.unpack(receive_bytes(connection, HEADER.size))
    return pickle.loads(receive_bytes(connection, size))


def receive_bytes(connection: socket.socket, size: int) -> bytes:
    """So many bytes; raises as :func:`receive`."""
    parts: list[bytes] = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def own_connection() -> socket.socket:
    """The connection of this process with its parent, for a call that goes on talking with it in a way of its own."""
    assert _connection is not None, "this process is no worker"
    return _connection


def phase(name: str, limit: float | None, notice: str | None = None) -> None:
    """Tell the parent what comes next and how many seconds it may take; it kills this process after that.

    None stands for no limit, as while waiting for the machine. Outside a worker this does nothing.

    Args:
        name: of the phase.
        limit: seconds until the process is killed.
        notice: what the parent tells the user if the phase takes longer than a few seconds; None where that is expected.
    """
    if _connection is not None:
        _answer(_connection, (PHASE, name, limit, notice))


def serve(connection: socket.socket, memory_limit: int, encoded: Callable[[Any], bytes] = _pickled) -> None:
    """Answer calls until the parent closes the connection.

    ``memory_limit`` is what this process may allocate beyond what it has mapped already, in bytes; ``encoded`` writes answers, and raises
    TypeError for what it cannot write.
    """
    global _connection, _encoded
    _connection, _encoded = connection, encoded
    allowed = _mapped_bytes() + memory_limit
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        allowed = min(allowed, hard)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # crashes are expected, and their dumps are large
    _keep_freed_memory()
    while True:
        try:
            function, args = receive(connection)
        except (EOFError, ConnectionError):
            return
        except Exception as error:
            # A request whose code does not load is the sender's mistake, not this process's end.
            _answer(connection, (RAISED, type(error).__name__, str(error), traceback.format_exc()))
            continue
        try:
            reply: tuple[Any, ...] = (RETURNED, function(*args))
        except MemoryError as error:
            reply = (RAISED, "MemoryError", str(error) or "out of memory", "")
        except Exception as error:  # whatever a candidate raises is its result
            reply = (RAISED, type(error).__name__, str(error), _place_of(error))
        try:
            _answer(connection, reply)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            _answer(connection, (RAISED, type(error).__name__, f"result cannot be sent: {error}", ""))


def _keep_freed_memory() -> None:
    """Let the C library reuse freed arrays of any size: new pages for a large layer take longer than filling them."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not every C library has it
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _place_of(error: Exception) -> str:
    """The traceback of a defect; nothing for the compiler's own errors, which explain themselves."""
    own = any(base.__name__ == "IRError" for base in type(error).__mro__)
    return "" if own else "".join(traceback.format_exception(error))


def _mapped_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
