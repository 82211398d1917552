"""Running on CUDA devices through the driver alone: memory, streams, modules of kernels, timing. ``runners.cuda(0)`` is the first device.

The package is called as :func:`runners.device.cuda` is, whose name it shares. Its parts are loaded when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_LAZY = {
    "DeviceArray": "array",
    "device_count": "driver",
    "synchronize": "context",
    "build_module": "module",
    "CudaModule": "module",
    "time_evaluator": "evaluator",
}
__all__ = ["DeviceArray", "device_count", "synchronize", "build_module", "CudaModule", "time_evaluator"]


def __getattr__(name: str) -> Any:
    """Load the module of a name when it is first asked for."""
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is loaded later is there too, as for :func:`help` and for completion."""
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    def __call__(self, index: int = 0) -> Any:
        """A CUDA device."""
        return import_module("..device", __name__).cuda(index)


sys.modules[__name__].__class__ = _Package
