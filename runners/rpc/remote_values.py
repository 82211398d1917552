"""Arguments and results of functions elsewhere: arrays of the session by their numbers, others with the call or before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments import as_numpy
from ..device import cpu
from ..ndarray import Array, NDArray
from ..program import ArgumentError
from .proto import remote_pb2 as pb
from .remote_array import RemoteArray, RemoteObject, remote_device, remote_ndarray
from .remote_calls import RemoteCalls

_MOST_INLINE_BYTES = 64 << 10
_MOST_BYTES_OF_A_CALL = 8 << 20
"""An array that is larger, or with which the call would be, is an array of the server for as long as the call takes."""


class Arguments:
    """What a call is given, as messages.

    Args:
        calls: of the session that the function is in.
        function: its name, in messages.
    """

    def __init__(self, calls: RemoteCalls, function: str) -> None:
        self._calls, self._function = calls, function
        self._kept: list[Any] = []
        self._room = _MOST_BYTES_OF_A_CALL
        self.given: dict[int, NDArray] = {}
        """Arrays of the session by their numbers: what comes back is the object that was passed."""

    def messages(self, args: Sequence[Any], names: Sequence[str], written: Sequence[str]) -> list[pb.Value]:
        """Values of arguments.

        Args:
            args: of the call.
            names: of the function's parameters; the device says whether their number is right.
            written: names of those that the function overwrites.

        Raises:
            ArgumentError: one is no value, of another session, or would be overwritten where its caller does not see it.
        """
        values = []
        for place, value in enumerate(args):
            name = names[place] if place < len(names) else str(place)
            message = self._message(value, name)
            if name in written and message.WhichOneof("value") != "given":
                raise ArgumentError(
                    f"argument {name} of {self._function} is overwritten, and the function runs on {self._calls.place}, where it would have"
                    f" a copy; pass runners.array({name}, remote.cpu()), or of another device of the session"
                )
            values.append(message)
        return values

    def _message(self, value: Any, name: str) -> pb.Value:
        if value is None:
            return pb.Value(nothing=pb.Nothing())
        if isinstance(value, NDArray) and isinstance(value.data, RemoteArray):
            self.given[value.data.number] = value
            return self._there(value.data, name)
        if isinstance(value, RemoteObject):
            return self._there(value, name)
        if isinstance(value, bool):
            return pb.Value(boolean=value)
        if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            return pb.Value(integer=value)
        if isinstance(value, float) and not isinstance(value, np.generic):
            return pb.Value(real=value)
        if isinstance(value, str):
            return pb.Value(text=value)
        if isinstance(value, tuple | list):
            items = [self._message(item, f"{name}[{place}]") for place, item in enumerate(value)]
            return pb.Value(tuple=pb.Values(items=items))
        return self._array_here(as_numpy(value, name), name)

    def _there(self, value: RemoteArray | RemoteObject, name: str) -> pb.Value:
        if value.calls is not self._calls:
            raise ArgumentError(
                f"argument {name} of {self._function} is on {value.calls.place}, in another session than the function, which is on"
                f" {self._calls.place}; pass {name}.numpy()"
            )
        return pb.Value(given=value.number)

    def _array_here(self, array: Array, name: str) -> pb.Value:
        if not array.dtype.isnative:
            raise ArgumentError(
                f"argument {name} of {self._function} is {array.dtype.name} of the other byte order ({array.dtype.str}); convert it with"
                f" .astype({array.dtype.name!r})"
            )
        if array.dtype.hasobject:
            raise ArgumentError(f"argument {name} of {self._function} has elements of Python, not numbers")
        if array.nbytes > min(_MOST_INLINE_BYTES, self._room):
            made = remote_device(self._calls, cpu()).foreign_array(array.shape, array.dtype)
            made.set(array)
            self._kept.append(made)
            return pb.Value(given=made.number)
        self._room -= array.nbytes
        dtype, data = array.dtype.name, np.ascontiguousarray(array).tobytes()
        return pb.Value(elements=pb.Elements(dtype=dtype, shape=array.shape, data=data))

    def result(self, value: pb.Value) -> Any:
        """What a call gives: arrays of the server, tuples of them, numbers."""
        name = value.WhichOneof("value")
        if name == "array":
            return self.given.get(value.array.array) or remote_ndarray(self._calls, value.array)
        if name == "tuple":
            return tuple(self.result(item) for item in value.tuple.items)
        if name == "object":
            return RemoteObject(self._calls, value.object)
        if name in ("integer", "real", "boolean", "text"):
            return getattr(value, name)
        return None
