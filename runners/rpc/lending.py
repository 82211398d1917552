"""Devices that a tracker lends to this process: each is kept while there is work for it, and given back soon after."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..error import RunnerError
from .config import RPCConfig
from .device_client import ConnectionLost, DeviceClient, LostBefore, RequestRefused
from .messages import MessageError
from .proto.device_pb2 import DeviceDescription
from .tracker_client import TrackerClient

IDLE_SECONDS = 1.0
"""A device that was not asked for anything for so long is given back."""
TURN_SECONDS = 30.0
"""A device is given back after so long, when what it does is done: others may have waited longer, or with a higher priority."""
TRIES = 3
"""What has lost so many devices is taken to be the reason."""
_LOST = (ConnectionLost, MessageError)
"""After which another device is asked."""
_NOTICE_SECONDS = 5.0
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
_LOG = logging.getLogger(__package__)
_Answer = TypeVar("_Answer")


class _Patience:
    """With what does not answer: pauses, and an end.

    Args:
        seconds: after which it is over.
        what: is said then, before the reason.
        advice: is said behind it.
    """

    def __init__(self, seconds: float, what: str, advice: str) -> None:
        self._seconds, self._what, self._advice = seconds, what, advice
        self._begin, self._failed = time.monotonic(), 0

    def wait(self, error: RunnerError) -> None:
        """Pause before the next attempt; raises RunnerError where it was the last one."""
        if time.monotonic() - self._begin > self._seconds:
            raise RunnerError(
                f"{self._what}: {error}; tried for {self._seconds:g} seconds. {self._advice}"
            ) from error
        time.sleep(_PAUSES[min(self._failed, len(_PAUSES) - 1)])
        self._failed += 1


class Lending:
    """The devices of a key that this process has.

    Args:
        config: which tracker and key.
        patience_sec: how long to go on trying where the tracker does not answer.
    """

    def __init__(self, config: RPCConfig, patience_sec: float) -> None:
        self._config, self._patience = config, patience_sec
        self._lock = threading.Lock()
        self._tracker: TrackerClient | None = None
        self._idle: list[tuple[DeviceClient, float, float]] = []
        """Devices without work, each with the times since when it is lent and idle."""
        self._closer: threading.Timer | None = None
        self._told = False

    @contextmanager
    def device(self) -> Iterator[DeviceClient]:
        """A device for one piece of work; it is given back at once where the work raises one of :data:`_LOST`.

        Raises:
            RunnerError: the tracker did not answer for too long.
        """
        client, since = self._taken() or (self._acquired(), time.monotonic())
        try:
            yield client
        except _LOST:
            client.close()
            raise
        finally:
            self._put_back(client, since)

    def asked(self, ask: Callable[[DeviceClient], _Answer]) -> _Answer:
        """An answer of whatever device is there when the last one was lost, or said what means nothing.

        Raises:
            RunnerError: a device refuses the request, or the tracker, or any device, did not answer for too long.
            ConnectionLost: :data:`TRIES` devices were lost one after the other, each while it did it.
        """
        lost, patience = 0, self._patience_begun()
        while True:
            try:
                with self.device() as device:
                    return ask(device)
            except LostBefore as error:
                patience.wait(error)
            except _LOST as error:
                lost, patience = lost + 1, self._patience_begun()
                if lost == TRIES:
                    raise ConnectionLost(
                        f"{TRIES} devices were lost one after the other while they did it; the last one said: {error}"
                    ) from error

    def close(self) -> None:
        """Give all devices back that have no work."""
        with self._lock:
            idle, self._idle = self._idle, []
            tracker, self._tracker = self._tracker, None
            if self._closer is not None:
                self._closer.cancel()
                self._closer = None
        for client, _, _ in idle:
            client.close()
        if tracker is not None:
            tracker.close()

    def _taken(self) -> tuple[DeviceClient, float] | None:
        with self._lock:
            while self._idle:
                client, since, _ = self._idle.pop()
                if client.is_open:
                    return client, since
                client.close()
        return None

    def _put_back(self, client: DeviceClient, since: float) -> None:
        now = time.monotonic()
        if not client.is_open or now - since > TURN_SECONDS:
            client.close()
            return
        with self._lock:
            self._idle.append((client, since, now))
            if self._closer is None:
                self._start_closer(IDLE_SECONDS)

    def _start_closer(self, seconds: float) -> None:
        self._closer = threading.Timer(seconds, self._close_idle)
        self._closer.daemon = True
        self._closer.start()

    def _close_idle(self) -> None:
        limit = time.monotonic() - IDLE_SECONDS
        with self._lock:
            closed = [client for client, _, idle in self._idle if idle <= limit]
            self._idle = [item for item in self._idle if item[2] > limit]
            self._closer = None
            if self._idle:
                self._start_closer(max(0.05, min(idle for _, _, idle in self._idle) - limit))
        for client in closed:
            client.close()

    def described(self) -> DeviceDescription:
        """What a device of the key says of itself, whoever has it; others of the key are like it.

        Raises:
            RunnerError: the tracker did not answer for too long, or has known no such device for as long.
        """

        def ask() -> DeviceDescription:
            found = self._config.devices()
            if not found:  # after a restart of the tracker, servers report within seconds
                raise ConnectionLost(f"the tracker at {self._config.address} knows none")
            return found[0]

        return self._patiently(ask)

    def _acquired(self) -> DeviceClient:
        """A device of the tracker, however long others have all of them."""
        return self._patiently(self._acquire)

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        """An answer, once the tracker is there."""
        patience = self._patience_begun()
        while True:
            try:
                return ask()
            except (ConnectionLost, RequestRefused) as error:
                if isinstance(error, RequestRefused) and error.is_final:
                    raise
                patience.wait(error)

    def _patience_begun(self) -> _Patience:
        what = f"no device of the key {self._config.tracker_key!r}"
        advice = f"Is the tracker at {self._config.address} running (loopsmith rpc tracker)?"
        return _Patience(self._patience, what, advice)

    def _acquire(self) -> DeviceClient:
        with self._lock:
            tracker = self._tracker = self._tracker or self._config.connect_tracker()
        notice = threading.Timer(_NOTICE_SECONDS, self._tell_waiting)
        notice.daemon = True
        notice.start()
        try:
            key = self._config.tracker_key
            assert key is not None
            return tracker.open_device(key, self._config.session_priority, self._config.session_timeout_sec)
        finally:
            notice.cancel()

    def _tell_waiting(self) -> None:
        if not self._told:
            self._told = True
            _LOG.warning(
                "waiting for a device of the key %r from the tracker at %s: `loopsmith rpc ls` shows who has them",
                self._config.tracker_key,
                self._config.address,
            )
