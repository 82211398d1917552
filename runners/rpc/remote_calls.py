"""What a client asks of the service Remote: arrays in parts, programs, calls; failures are raised as the exceptions that they were."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np

from ..ndarray import Array
from .device_client import OPEN_SECONDS, ConnectionLost, DeviceClient, error_of
from .failures import exception_of
from .messages import ARRAY_PART_BYTES, LONGEST_SECS, TASK_SECONDS
from .proto import remote_pb2 as pb
from .proto import remote_pb2_grpc

_BYTES_PER_SECOND = 1e6
"""The slowest connection over which arrays travel."""


class RemoteCalls:
    """Tasks of one session, one after the other, whichever threads have them.

    Args:
        client: the session.
        timeout_sec: what a call of a function may take; 0 for as long as it takes.
    """

    def __init__(self, client: DeviceClient, timeout_sec: float = 0.0) -> None:
        self.client = client
        self.timeout_sec = timeout_sec
        self._stub: Any = client.stub(remote_pb2_grpc.RemoteStub)
        self._lock = threading.RLock()
        self._left: deque[tuple[str, int]] = deque()
        """Arrays and programs that nobody has any more; they are told with the next task, as garbage is collected at any moment."""

    @property
    def place(self) -> str:
        """The address of the device, as devices and messages show it."""
        return str(self.client.address)

    def forget(self, kind: str, number: int) -> None:
        """Nobody has one of the ``arrays`` or ``programs`` any more."""
        self._left.append((kind, number))

    def ask(self, method: str, request: Any, seconds: float = TASK_SECONDS) -> pb.Answer:
        """The answer to a request.

        Args:
            method: of the service.
            request: its message, or an iterator of them.
            seconds: that the task may take on the device.

        Raises:
            Exception: what was raised there.
            ConnectionLost: the session has ended.
            RequestRefused: the device refuses.
        """
        with self._lock:
            self._free()
            answer: pb.Answer = self.client.call(getattr(self._stub, method), request, seconds + OPEN_SECONDS)
        return _answered(answer)

    def _free(self) -> None:
        request = pb.FreeRequest()
        while self._left:
            kind, number = self._left.popleft()
            getattr(request, kind).append(number)
        if request.arrays or request.programs:
            _answered(self.client.call(self._stub.Free, request, TASK_SECONDS + OPEN_SECONDS))

    # -- arrays ------------------------------------------------------------------------
    def write(self, number: int, values: Array) -> None:
        """Overwrite an array with the elements of another one, which is dense."""
        raw = values.reshape(-1).view(np.uint8)

        def parts() -> Iterator[pb.ArrayPart]:
            for begin in range(0, raw.size, ARRAY_PART_BYTES):
                data = raw[begin : begin + ARRAY_PART_BYTES].tobytes()
                yield pb.ArrayPart(array=number, begin=begin, data=data)

        if raw.size:
            self.ask("Write", parts(), TASK_SECONDS + raw.size / _BYTES_PER_SECOND)

    def read(self, number: int, found: Array) -> None:
        """Overwrite a dense array with the elements of one of the device."""
        raw = found.reshape(-1).view(np.uint8)
        if not raw.size:
            return
        limit = TASK_SECONDS + raw.size / _BYTES_PER_SECOND
        request, filled = pb.ReadRequest(array=number, begin=0, size=raw.size), 0
        with self._lock:
            self._free()
            try:
                for answer in self.client.call(self._stub.Read, request, limit):
                    part = _answered(answer).part
                    data = np.frombuffer(part.data, np.uint8)
                    if part.begin != filled or filled + data.size > raw.size:
                        break
                    raw[filled : filled + data.size] = data
                    filled += data.size
            except grpc.RpcError as error:
                raise error_of(error, self.place) from error
        if filled != raw.size:
            raise ConnectionLost(f"{self.place}: an array of {raw.size} bytes came with {filled}")

    # -- calls -------------------------------------------------------------------------
    def call(self, method: str, request: Any, call: pb.CallRequest) -> pb.Answer:
        """The answer to a request with a call of a function, which may take its time."""
        limit = call.timeout_sec or self.timeout_sec or LONGEST_SECS
        return self.ask(method, request, limit)


def _answered(answer: pb.Answer) -> pb.Answer:
    if answer.HasField("failure"):
        raise exception_of(answer.failure)
    return answer
