"""Arrays and devices of a server, as :class:`~runners.NDArray` and :class:`~runners.Device` have them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ..device import Device
from ..error import DeviceError, RunnerError, RunnerTypeError
from ..foreign import ForeignArray
from ..ndarray import Array, NDArray, numpy_dtype
from .proto import remote_pb2 as pb
from .remote_calls import RemoteCalls


@dataclass(frozen=True, slots=True, repr=False)
class RemoteDevice(Device):
    """A device of a server, for as long as the session lasts: ``remote.cpu()``, ``remote.cuda(1)``.

    Its type is that of the device there, and :attr:`Device.ELSEWHERE` more.
    """

    calls: RemoteCalls | None = None

    @property
    def type(self) -> str:
        """The name of the type, as it is there."""
        return self.there.type

    @property
    def there(self) -> Device:
        """The device as the server has it."""
        return Device(self.device_type - Device.ELSEWHERE, self.device_id)

    @property
    def exist(self) -> bool:
        """Whether the server has the device; it is asked."""
        try:
            self.foreign_array((0,), "uint8")
        except DeviceError:
            return False
        return True

    def sync(self) -> None:
        """Nothing is left to wait for: a task has ended on the device when it is answered."""

    def foreign_array(self, shape: Sequence[int], dtype: Any) -> RemoteArray:
        """A new array of the server, with undefined elements."""
        assert self.calls is not None
        extents = [int(extent) for extent in shape]
        request = pb.AllocateRequest(
            dtype=numpy_dtype(dtype).name, shape=extents, device=place_of(self.there)
        )
        return RemoteArray(self.calls, self.calls.ask("Allocate", request).array)

    def __repr__(self) -> str:
        assert self.calls is not None
        return f"remote[{self.calls.place}]:{self.there!r}"


def remote_device(calls: RemoteCalls, there: Device) -> RemoteDevice:
    """A device of a server.

    Args:
        calls: of the session.
        there: the device as the server has it.
    """
    return RemoteDevice(Device.ELSEWHERE + there.device_type, there.device_id, calls)


def place_of(device: Device) -> str:
    """A device as messages name it.

    >>> place_of(Device(2, 1))
    'cuda:1'
    """
    return f"{device.type}:{device.device_id}"


class RemoteArray(ForeignArray):
    """Elements that a server has; they are freed there some time after nobody has the array any more.

    Args:
        calls: of the session.
        info: what the server says of the array.
    """

    __slots__ = ("__weakref__", "_device", "_dtype", "_shape", "calls", "number")

    def __init__(self, calls: RemoteCalls, info: pb.ArrayInfo) -> None:
        self.calls = calls
        self.number = int(info.array)
        self._shape, self._dtype = tuple(info.shape), numpy_dtype(info.dtype)
        kind, _, index = info.device.partition(":")
        self._device = remote_device(calls, _device_there(kind, index))
        weakref.finalize(self, calls.forget, "arrays", self.number).atexit = False

    @property
    def device(self) -> RemoteDevice:
        """Where the elements are."""
        return self._device

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements."""
        return self._dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._dtype.itemsize

    @property
    def ptr(self) -> int:
        """Refused: there is no address.

        Raises:
            RunnerError: always.
        """
        raise RunnerError(f"an array on {self._device} has no address here; .numpy() copies it")

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one behind the other, which those of a server do."""
        return True

    def __len__(self) -> int:
        if not self._shape:
            raise RunnerTypeError("an array without dimensions has no length")
        return int(self._shape[0])

    def get(self) -> Array:
        """A copy on the processor here."""
        found = np.empty(self._shape, self._dtype)
        self.calls.read(self.number, found)
        return found

    def set(self, values: Any) -> None:
        """Overwrite all elements, converted to this dtype; those of another array of the session do not travel."""
        if isinstance(values, RemoteArray) and values.calls is self.calls:
            self.calls.ask("Copy", pb.CopyRequest(source=values.number, target=self.number))
            return
        if isinstance(values, ForeignArray):
            values = values.get()
        whole = np.broadcast_to(np.asarray(values), self._shape)
        self.calls.write(self.number, np.ascontiguousarray(whole.astype(self._dtype, copy=False)))

    def copy(self) -> RemoteArray:
        """A copy on the same device."""
        made = self._device.foreign_array(self._shape, self._dtype)
        made.set(self)
        return made

    def reshape(self, shape: Sequence[int]) -> NoReturn:
        """Refused, as views of any kind are.

        Raises:
            RunnerTypeError: always.
        """
        raise RunnerTypeError(f"an array on {self._device} has no views; use .numpy() for them")

    def __getitem__(self, index: Any) -> NoReturn:
        self.reshape(())

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is not Ellipsis and not (isinstance(index, slice) and index == slice(None)):
            raise RunnerTypeError(
                f"an array on {self._device} is overwritten as a whole, array[...] = values, not in parts"
            )
        self.set(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.get(), dtype)

    def __dlpack__(self, **_: Any) -> NoReturn:
        raise BufferError(f"an array on {self._device} is not in this process's memory; .numpy() copies it")


class RemoteObject:
    """What a function elsewhere gave that is no array and no number, as a closure or a cache: functions there take it as an argument.

    Args:
        calls: of the session.
        info: what the server says of it.
    """

    def __init__(self, calls: RemoteCalls, info: pb.ObjectInfo) -> None:
        self.calls = calls
        self.number, self.kind = int(info.object), str(info.kind)
        weakref.finalize(self, calls.forget, "arrays", self.number).atexit = False

    def __repr__(self) -> str:
        return f"<{self.kind} of remote[{self.calls.place}]>"


def _device_there(kind: str, index: str) -> Device:
    for device_type in (Device.kDLCPU, Device.kDLCUDA):
        found = Device(device_type, int(index) if index.isdigit() else 0)
        if found.type == kind:
            return found
    raise DeviceError(f"a server has an array on an unknown device, {kind!r}")


def remote_ndarray(calls: RemoteCalls, info: pb.ArrayInfo) -> NDArray:
    """An array of a server as callers get it."""
    array = RemoteArray(calls, info)
    return NDArray(array, array.device)
