"""What clients of a fleet ask its tracker, over connections that may end at any moment."""

from __future__ import annotations

import grpc

from .connection import Address, open_channel
from .credentials import Credentials
from .device_client import OPEN_SECONDS, ConnectionLost, DeviceClient, client_name, error_of
from .fleet import Grant
from .proto import tracker_pb2 as pb
from .proto import tracker_pb2_grpc


def state_name(report: pb.ServerReport) -> str:
    """What a server does, in a word: ``"free"``, ``"reserved"`` or ``"busy"``."""
    return {pb.BUSY: "busy", pb.RESERVED: "reserved"}.get(report.state, "free")


class TrackerClient:
    """A client's connection with a tracker.

    Args:
        address: of the tracker.
        credentials: of the client, or their folder; by default that which ``LOOPSMITH_RPC_CREDENTIALS`` names, if it does.

    Raises:
        RunnerError: the credentials cannot be read.
    """

    def __init__(self, address: Address, credentials: Credentials | str | None = None) -> None:
        self.address = address
        self._credentials = Credentials.found(credentials)
        self._channel = open_channel(address, self._credentials)
        self._tracker = tracker_pb2_grpc.TrackerStub(self._channel)

    def close(self) -> None:
        """End it."""
        self._channel.close()

    def _metadata(self, *keys: str) -> tuple[tuple[str, str], ...]:
        return () if self._credentials is None else self._credentials.metadata(*keys)

    def fleet(self) -> pb.Fleet:
        """All servers and queues.

        Raises:
            ConnectionLost: nobody answers.
            RequestRefused: the client has no token of the fleet.
        """
        try:
            found: pb.Fleet = self._tracker.List(
                pb.ListRequest(), timeout=OPEN_SECONDS, metadata=self._metadata()
            )
        except grpc.RpcError as error:
            raise error_of(
                error, f"the tracker at {self.address}", has_credentials=self._credentials is not None
            ) from error
        return found

    def acquire(
        self,
        key: str,
        priority: int = 1,
        timeout_sec: float | None = None,
    ) -> Grant | None:
        """Wait for a device.

        Args:
            key: of devices.
            priority: the higher goes first.
            timeout_sec: how long to wait; for ever by default.

        Returns:
            The device; None where the time was up.

        Raises:
            ConnectionLost: the tracker is gone.
            RequestRefused: the client has no token of the key, or asks too often.
        """
        request = pb.AcquireRequest(key=key, priority=priority, client=client_name())
        call = self._tracker.Acquire(request, timeout=timeout_sec, metadata=self._metadata(key))
        try:
            for reply in call:
                if reply.HasField("grant"):
                    granted = reply.grant
                    return Grant(granted.address, granted.ticket, granted.server)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return None
            raise error_of(
                error, f"the tracker at {self.address}", has_credentials=self._credentials is not None
            ) from error
        finally:
            call.cancel()
        raise ConnectionLost(f"the tracker at {self.address} ended the wait")

    def open_device(self, key: str, priority: int = 1, session_timeout_sec: float = 0.0) -> DeviceClient:
        """A session with a device, however long others have all of them.

        Args:
            key: of devices.
            priority: the higher goes first.
            session_timeout_sec: the session is over after so long without a call; 0 for never.

        Raises:
            ConnectionLost: the tracker is gone, or the device that it granted.
            RequestRefused: the client may not have one, or the device is another's by now.
        """
        grant = self.acquire(key, priority)
        assert grant is not None  # without a timeout
        where = Address.of(grant.address)
        return DeviceClient(where, grant.ticket, session_timeout_sec, self._credentials, key)
