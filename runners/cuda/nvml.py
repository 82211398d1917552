"""What NVML, the library behind nvidia-smi, tells of a device: clocks, temperature, why clocks are lowered, energy.

NVIDIA's driver brings it along. Where it is missing, or a device does not tell something, that is left out.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..error import RunnerError

NVML_VARIABLE = "LOOPSMITH_NVML"
"""The environment variable that names another library."""
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_GPU_TEMPERATURE = 0
_LEAST_SECONDS = 0.3
"""Calls are repeated for so long: the counter of energy changes some tens of times in a second."""
THROTTLING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "too hot (software)",
    0x40: "too hot (hardware)",
    0x80: "power brake",
}
"""Bits of nvmlClocksThrottleReasons by which a device is slower than it could be; others say that it is idle or set so by its user."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device at one moment; None for what it does not tell."""

    clock_mhz: int | None
    """Of its multiprocessors."""
    memory_clock_mhz: int | None
    temperature: int | None
    """In degrees Celsius."""
    throttle_reasons: int | None
    """NVML's bits."""

    @property
    def throttled(self) -> tuple[str, ...]:
        """Why it is slower than it could be."""
        bits = self.throttle_reasons or 0
        return tuple(text for bit, text in THROTTLING.items() if bits & bit)

    @property
    def metrics(self) -> dict[str, float]:
        """As results of runners hold it: ``gpu_clock_mhz``, ``gpu_memory_clock_mhz``, ``gpu_temperature``, ``gpu_throttle_reasons``."""
        found = {
            "gpu_clock_mhz": self.clock_mhz,
            "gpu_memory_clock_mhz": self.memory_clock_mhz,
            "gpu_temperature": self.temperature,
            "gpu_throttle_reasons": self.throttle_reasons,
        }
        return {name: float(value) for name, value in found.items() if value is not None}


class DeviceMonitor:
    """Asks NVML about one device.

    Args:
        uuid: of the device, as ``"GPU-..."``.

    Raises:
        RunnerError: there is no NVML, or it does not know the device.
    """

    def __init__(self, uuid: str) -> None:
        self._library = _library(os.environ.get(NVML_VARIABLE) or "libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        status = self._library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device))
        if status:
            raise RunnerError(f"NVML does not know the device {uuid}: {_text(self._library, status)}")

    def state(self) -> DeviceState:
        """What the device is like now."""
        return DeviceState(
            self._asked("nvmlDeviceGetClockInfo", ctypes.c_uint, _SM_CLOCK),
            self._asked("nvmlDeviceGetClockInfo", ctypes.c_uint, _MEMORY_CLOCK),
            self._asked("nvmlDeviceGetTemperature", ctypes.c_uint, _GPU_TEMPERATURE),
            self._asked("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong),
        )

    def joules(self) -> float:
        """The energy that the device has taken since its driver was loaded.

        Raises:
            RunnerError: it does not tell; devices do from Volta on.
        """
        found = self._asked("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)
        if found is None:
            raise RunnerError(
                "energy cannot be measured: this device has no counter of it (Volta and newer ones have)"
            )
        return found * 1e-3

    def joules_of_one_call(self, calls: Callable[[int], object], one_call_secs: float) -> float:
        """Joules of one call, the mean of many; what the device takes when idle is in it.

        Args:
            calls: makes so many calls, and waits for them.
            one_call_secs: what a call takes.
        """
        count = max(1, round(_LEAST_SECONDS / max(one_call_secs, 1e-7)))
        before = self.joules()
        calls(count)
        return (self.joules() - before) / count

    def _asked(self, function: str, kind: Any, *args: int) -> int | None:
        value = kind()
        try:
            status = self._library[function](self._device, *args, ctypes.byref(value))
        except AttributeError:  # an older NVML
            return None
        return None if status else int(value.value)


@lru_cache(maxsize=4)
def _library(path: str) -> Any:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise RunnerError(f"there is no NVML: {error}; it comes with NVIDIA's driver") from error
    library.nvmlErrorString.restype = ctypes.c_char_p
    status = library.nvmlInit_v2()
    if status:
        raise RunnerError(f"NVML does not start: {_text(library, status)}")
    return library


def _text(library: Any, status: int) -> str:
    return (library.nvmlErrorString(status) or b"").decode()
