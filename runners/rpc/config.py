"""How a tuning session reaches its tracker: MetaSchedule's settings, which the environment may give."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..error import RunnerError
from ..settings import check_seconds, check_whole
from .connection import Address
from .proto.device_pb2 import DeviceDescription
from .proto.tracker_pb2 import Fleet
from .tracker_client import TrackerClient

_HOST, _PORT, _KEY = "LOOPSMITH_TRACKER_HOST", "LOOPSMITH_TRACKER_PORT", "LOOPSMITH_TRACKER_KEY"


@dataclass(frozen=True)
class RPCConfig:
    """Where the tracker is, which devices are wanted, and how.

    Raises:
        RunnerError: a setting is of another type.
    """

    tracker_host: str | None = None
    """By default what the environment says in ``LOOPSMITH_TRACKER_HOST``."""
    tracker_port: int | None = None
    """By default ``LOOPSMITH_TRACKER_PORT``."""
    tracker_key: str | None = None
    """Of the devices, as "cpu-zen4"; by default ``LOOPSMITH_TRACKER_KEY``."""
    session_priority: int = 1
    """The higher goes first."""
    session_timeout_sec: float = 10.0
    """A device whose session's client is silent for so long is free again."""
    credentials: str | None = None
    """Folder of the client's certificate and tokens (``loopsmith rpc certs``); by default ``LOOPSMITH_RPC_CREDENTIALS``. No TLS without."""

    def __post_init__(self) -> None:
        check_seconds("RPCConfig: session_timeout_sec", self.session_timeout_sec)
        if isinstance(self.session_priority, bool) or not isinstance(self.session_priority, int):
            raise RunnerError(f"RPCConfig: session_priority is a whole number, got {self.session_priority!r}")
        if self.tracker_port is not None:
            check_whole("RPCConfig: tracker_port", self.tracker_port, 1)

    @staticmethod
    def _normalized(config: RPCConfig | None) -> RPCConfig:
        """A configuration in which everything is said.

        Raises:
            RunnerError: neither it nor the environment says something.
        """
        given = config or RPCConfig()
        host = given.tracker_host or os.environ.get(_HOST)
        key = given.tracker_key or os.environ.get(_KEY)
        port = given.tracker_port or _port_of(os.environ.get(_PORT))
        for value, name, variable in (
            (host, "tracker_host", _HOST),
            (port, "tracker_port", _PORT),
            (key, "tracker_key", _KEY),
        ):
            if not value:
                raise RunnerError(
                    f"which tracker has the devices? Set {name} of RPCConfig, or {variable} in the environment"
                )
        return RPCConfig(
            host, port, key, given.session_priority, given.session_timeout_sec, given.credentials
        )

    @property
    def address(self) -> Address:
        """Of the tracker."""
        whole = RPCConfig._normalized(self)
        assert whole.tracker_host is not None and whole.tracker_port is not None
        return Address(whole.tracker_host, whole.tracker_port)

    def connect_tracker(self) -> TrackerClient:
        """A connection with the tracker; nothing is sent before it is asked something."""
        return TrackerClient(self.address, self.credentials)

    def count_num_servers(self, allow_missing: bool = True) -> int:
        """How many devices of the key the tracker knows, whoever has them.

        Args:
            allow_missing: answer 0 where there are none.

        Raises:
            RunnerError: there are none, and that is not allowed; or nobody answers.
        """
        count = len(self.devices())
        if not count and not allow_missing:
            whole = RPCConfig._normalized(self)
            keys = sorted({item.report.device.key for item in whole._fleet().servers})
            raise RunnerError(
                f"the tracker at {whole.address} has no devices of the key {whole.tracker_key!r}; it has"
                f" {', '.join(keys) or 'none at all'}"
            )
        return count

    def devices(self) -> list[DeviceDescription]:
        """What the devices of the key say of themselves, whoever has them.

        Raises:
            RunnerError: nobody answers.
        """
        whole = RPCConfig._normalized(self)
        described = [item.report.device for item in whole._fleet().servers]
        return [item for item in described if item.key == whole.tracker_key]

    def _fleet(self) -> Fleet:
        tracker = self.connect_tracker()
        try:
            return tracker.fleet()
        finally:
            tracker.close()


def _port_of(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise RunnerError(f"{_PORT} in the environment is the number of a port, got {text!r}")
    return int(text)
