"""A client's view of a tracker: sessions with the devices that it hands out, and tables of what it knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..error import RunnerError
from ..settings import check_seconds, check_whole
from .connection import Address
from .device_client import ConnectionLost, RequestRefused
from .proto import tracker_pb2 as pb
from .session import RPCSession
from .tracker_client import TrackerClient

_PAUSE_SECONDS = 1.0
_Result = TypeVar("_Result")


class TrackerSession:
    """A connection with a tracker.

    Args:
        address: of the tracker.
        credentials: folder of the client's certificate and tokens; by default that which ``LOOPSMITH_RPC_CREDENTIALS`` names.
    """

    def __init__(self, address: Address, credentials: str | None = None) -> None:
        self._tracker = TrackerClient(address, credentials)

    def request(
        self, key: str, priority: int = 1, session_timeout: float = 0.0, max_retry: int = 5
    ) -> RPCSession:
        """A session with a device, however long others have all of them.

        Args:
            key: of devices.
            priority: the higher goes first.
            session_timeout: as of :func:`~runners.rpc.session.connect`.
            max_retry: how often to try where the tracker does not answer, or the device is lost before the session begins.

        Raises:
            RequestRefused: the client may not have one.
            RunnerError: it was tried so often.
        """
        check_seconds("session_timeout", session_timeout)
        check_whole("max_retry", max_retry, 1)
        last: RunnerError | None = None
        for attempt in range(max_retry):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            try:
                return RPCSession(self._tracker.open_device(key, priority, session_timeout), session_timeout)
            except (ConnectionLost, RequestRefused) as error:
                if isinstance(error, RequestRefused) and error.is_final:
                    raise
                last = error
        raise RunnerError(f"no device of the key {key!r} after {max_retry} attempts: {last}") from last

    def request_and_run(
        self,
        key: str,
        func: Callable[[RPCSession], _Result],
        priority: int = 1,
        session_timeout: float = 0.0,
        max_retry: int = 2,
    ) -> _Result:
        """What a function makes of a session, which is closed behind it; where the device is lost meanwhile, the function gets another one.

        Args:
            func: gets the session.
            max_retry: how many devices it gets at most; see :meth:`request` for the others.

        Raises:
            RunnerError: all of them were lost.
            Exception: what the function raises.
        """
        check_whole("max_retry", max_retry, 1)
        last: RunnerError | None = None
        for _ in range(max_retry):
            with self.request(key, priority, session_timeout) as session:
                try:
                    return func(session)
                except ConnectionLost as error:
                    last = error
        raise RunnerError(f"{max_retry} devices of the key {key!r} were lost: {last}") from last

    def summary(self) -> dict[str, Any]:
        """The servers, and for each key how many of them are free and how many clients wait, as plain data.

        Raises:
            ConnectionLost: nobody answers.
        """
        fleet = self._tracker.fleet()
        queues: dict[str, dict[str, int]] = {}
        for item in fleet.servers:
            report = item.report
            counts = queues.setdefault(report.device.key, {"total": 0, "free": 0, "pending": 0})
            counts["total"] += 1
            counts["free"] += report.state == pb.FREE
        for queue in fleet.queues:
            counts = queues.setdefault(queue.key, {"total": 0, "free": 0, "pending": 0})
            counts["pending"] = len(queue.waiting)
        servers = [
            {
                "addr": item.report.address,
                "key": item.report.device.key,
                "name": item.report.device.name,
                "hardware": item.report.device.hardware,
                "client": item.report.client,
            }
            for item in fleet.servers
        ]
        return {"server_info": servers, "queue_info": queues}

    def text_summary(self) -> str:
        """What :meth:`summary` says, as tables."""
        told = self.summary()
        servers = [(item["addr"], item["key"], item["client"] or "free") for item in told["server_info"]]
        queues = [
            (key, str(counts["total"]), str(counts["free"]), str(counts["pending"]))
            for key, counts in sorted(told["queue_info"].items())
        ]
        return "\n".join(
            [
                *_table(("server", "key", "session"), servers),
                "",
                *_table(("key", "total", "free", "pending"), queues),
            ]
        )

    def close(self) -> None:
        """End the connection; sessions go on."""
        self._tracker.close()

    def __enter__(self) -> TrackerSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of columns that are as wide as what is in them."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rules = tuple("-" * width for width in widths)
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
        for row in [head, rules, *rows]
    ]


def connect_tracker(url: str, port: int, *, credentials: str | None = None) -> TrackerSession:
    """A connection with a tracker; nothing is sent before it is asked something.

    Args:
        url: the tracker's host.
        port: of the tracker.
        credentials: as of :class:`TrackerSession`.
    """
    return TrackerSession(Address(url, port), credentials)
