"""Devices: where an array lives and where code runs. Type numbers are DLPack's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

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
        return int(_cuda.device_count()) > self.device_id

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


def cpu(index: int = 0) -> Device:
    """The processor."""
    return Device(Device.kDLCPU, index)


def cuda(index: int = 0) -> Device:
    """A CUDA device."""
    return Device(Device.kDLCUDA, index)
