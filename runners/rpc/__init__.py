"""Devices elsewhere: servers that have one each, a tracker that hands them out, builders and runners that use them, and sessions in which
programs and arrays are there.

Needs gRPC: ``pip install 'loopsmith[rpc]'``. What travels is messages of protobuf (:file:`proto/`) and contents by their SHA-256, nothing
that is run when it is read; what was sent runs in worker processes of the server alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..error import RunnerError

if TYPE_CHECKING:
    from .builder import RPCBuilder
    from .config import RPCConfig
    from .connection import Address
    from .credentials import Credentials
    from .limits import Limits
    from .local import LocalRPC
    from .runner import RPCRunner
    from .server import Server
    from .session import LocalSession, RPCSession, connect
    from .device_client import ConnectionLost
    from .tracker import Tracker
    from .tracker_client import TrackerClient, state_name
    from .tracker_session import TrackerSession, connect_tracker

_LAZY = {
    "Address": "connection",
    "Credentials": "credentials",
    "Limits": "limits",
    "LocalRPC": "local",
    "LocalSession": "session",
    "RPCBuilder": "builder",
    "RPCConfig": "config",
    "RPCRunner": "runner",
    "RPCSession": "session",
    "Server": "server",
    "ConnectionLost": "device_client",
    "Tracker": "tracker",
    "TrackerClient": "tracker_client",
    "state_name": "tracker_client",
    "TrackerSession": "tracker_session",
    "connect": "session",
    "connect_tracker": "tracker_session",
}

__all__ = [
    "Address",
    "ConnectionLost",
    "Credentials",
    "Limits",
    "LocalRPC",
    "LocalSession",
    "RPCBuilder",
    "RPCConfig",
    "RPCRunner",
    "RPCSession",
    "Server",
    "Tracker",
    "TrackerClient",
    "TrackerSession",
    "connect",
    "connect_tracker",
    "state_name",
]


def __getattr__(name: str) -> Any:
    """Load the module of a name when it is first asked for.

    Raises:
        RunnerError: gRPC is not installed.
    """
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("grpc", "google"):
            raise
        raise RunnerError(
            f"devices elsewhere need gRPC, and there is no module {error.name!r}: pip install 'loopsmith[rpc]'"
        ) from error


def __dir__() -> list[str]:
    """What is loaded later is there too, as for :func:`help` and for completion."""
    return sorted({*globals(), *__all__})
