"""Devices: where an array lives and where code runs. Type numbers are DLPack's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from . import cuda as _cuda
from .error import DeviceError

_TYPES = {"cpu": 1, "cuda": 2, "cuda_host": 3, "cuda_managed": 13}
_ALIASES = {"llvm": "cpu", "c": "cpu", "gpu": "cuda", "nvptx": "cuda"}


@dataclass(frozen=True, slots=True)
class Device:
    """A device by DLPack type and number.

    >>> Device(2, 1)
    cuda(1)
    """

    device_type: int
    device_id: int = 0

    kDLCPU: ClassVar[int] = 1
    kDLCUDA: ClassVar[int] = 2
    ELSEWHERE: ClassVar[int] = 128
    """Added to the type of a device that a server has, see :mod:`runners.rpc.remote_array`."""

    @property
    def type(self) -> str:
        """The name of the type, as ``"cpu"``."""
        for name, number in _TYPES.items():
            if number == self.device_type:
                return name
        return f"device_type_{self.device_type}"

    @property
    def exist(self) -> bool:
        """Whether this machine has the device."""
        if self.device_type == self.kDLCPU:
            return self.device_id == 0
        if self.device_type != self.kDLCUDA:
            return False
        return 0 <= self.device_id < int(_cuda.device_count())

    def foreign_array(self, shape: Sequence[int], dtype: Any) -> Any:
        """A new :class:`~runners.foreign.ForeignArray` with undefined elements on a device other than the processor.

        Raises:
            DeviceError: there is no such device, or it takes no arrays.
            CudaOutOfMemory: it has no memory for it.
        """
        if self.device_type != self.kDLCUDA:
            raise DeviceError(f"arrays on {self} are not supported; use cpu() or cuda()")
        return _cuda.DeviceArray.empty(self.device_id, shape, dtype)

    def sync(self) -> None:
        """Wait for everything that was started on the device.

        Raises:
            CudaError: some of it failed.
        """
        if self.device_type == self.kDLCUDA:
            _cuda.synchronize(self.device_id)

    def __repr__(self) -> str:
        return f"{self.type}({self.device_id})"


def device(dev: str | Device, index: int | None = None) -> Device:
    """A device by name: ``device("cuda", 1)`` or ``device("cuda:1")``.

    >>> device("cpu")
    cpu(0)

    Raises:
        DeviceError: the name is unknown.
    """
    if isinstance(dev, Device):
        return dev
    match = re.fullmatch(r"(\w+?)(?::(\d+))?", dev.split()[0]) if dev.strip() else None
    name = _ALIASES.get(match[1], match[1]) if match else dev
    if match is None or name not in _TYPES:
        raise DeviceError(
            f"unknown device {dev!r}; expected one of {sorted(_TYPES | _ALIASES)}, such as 'cpu' or 'cuda:1'"
        )
    return Device(_TYPES[name], int(match[2] or 0) if index is None else index)


def checked_device(value: object) -> Device:
    """What is given as a device, if it is one.

    Raises:
        DeviceError: it is something else, as the name of one.
    """
    if isinstance(value, Device):
        return value
    fix = f", or runners.device({value!r}), which reads a name" if isinstance(value, str) else ""
    raise DeviceError(f"a device is as runners.cpu() or runners.cuda(0) makes it{fix}; got {value!r}")


def cpu(index: int = 0) -> Device:
    """The processor."""
    return Device(Device.kDLCPU, index)


def cuda(index: int = 0) -> Device:
    """A CUDA device."""
    return Device(Device.kDLCUDA, index)
