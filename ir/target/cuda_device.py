"""Facts of this machine's CUDA devices, asked of the driver library through ctypes (no toolkit needed)."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

_ATTRIBUTES = {  # CUdevice_attribute numbers
    "max_threads_per_block": 1,
    "thread_warp_size": 10,
    "registers_per_block": 12,
    "max_shared_memory_per_block": 8,
    "multi_processor_count": 16,
    "l2_cache_size_bytes": 38,
}
_MAJOR, _MINOR = 75, 76


@lru_cache(maxsize=16)
def cuda_attributes(index: int = 0) -> dict[str, Any] | None:
    """Target options of CUDA device ``index``, or None where there is no driver or no such device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
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
    return {"arch": f"sm_{ask(_MAJOR)}{ask(_MINOR)}", **found}
