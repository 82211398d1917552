"""Running on CUDA devices through the driver alone: memory, streams, modules of kernels, timing. ``runners.cuda(0)`` is the first device.

The package is called as :func:`runners.device.cuda` is, whose name it shares.
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..device import Device
from ..device import cuda as _device


class _Package(ModuleType):
    def __call__(self, index: int = 0) -> Device:
        """A CUDA device."""
        return _device(index)


sys.modules[__name__].__class__ = _Package
