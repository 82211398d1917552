"""Facts of this machine's CUDA devices, asked of the driver library through ctypes (no toolkit needed)."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any

_ATTRIBUTES = {  # CUdevice_attribute numbers
    "max_threads_per_block": 1,
    "thread_warp_size": 10,
    "registers_per_block": 12,
    "max_shared_memory_per_block": 8,
    "max_shared_memory_per_block_optin": 97,
    "shared_memory_per_multiprocessor": 81,
    "multi_processor_count": 16,
    "l2_cache_size_bytes": 38,
}
_MAJOR, _MINOR = 75, 76
_CLOCK_KHZ, _MEMORY_KHZ, _BUS_BITS = 13, 36, 37


DRIVER_VARIABLE = "LOOPSMITH_CUDA_DRIVER"
"""The environment variable that names another driver library, as the one that stands in for a GPU in tests."""


def driver_library() -> str:
    """The path of the CUDA driver's library, or the name by which the system's loader finds it."""
    return os.environ.get(DRIVER_VARIABLE) or "libcuda.so.1"


@lru_cache(maxsize=16)
def cuda_attributes(index: int = 0) -> dict[str, Any] | None:
    """Target options of CUDA device ``index``, or None where there is no driver or no such device."""
    try:
        driver = ctypes.CDLL(driver_library())
    except OSError:
        return None
    device = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return None

    def ask(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    found: dict[str, Any] = {name: ask(number) for name, number in _ATTRIBUTES.items()}
    # Two transfers in a cycle of the memory's clock.
    bytes_per_ms = 2 * ask(_MEMORY_KHZ) * ask(_BUS_BITS) // 8
    found |= {"clock_mhz": ask(_CLOCK_KHZ) // 1000, "memory_gb_per_s": bytes_per_ms // 1_000_000}
    major = ask(_MAJOR)
    # From 9.0 on, what only code for this very architecture may use has a name of its own; code that is made here runs here.
    own = "a" if major >= 9 else ""
    return {
        "arch": f"sm_{major}{ask(_MINOR)}{own}",
        **{name: value for name, value in found.items() if value},
    }
