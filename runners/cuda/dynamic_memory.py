"""Dynamic shared memory: a kernel must be allowed more than usual before a launch asks for it."""

from __future__ import annotations

from ir.target.gpu_facts import STATIC_SHARED_MEMORY_BYTES

from .context import Context
from .driver import CudaError

_STATIC, _MOST_DYNAMIC = 1, 8
"""CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES and CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""


class DynamicMemory:
    """How much of it launches of a kernel may have on a device.

    Args:
        of: the device's context.
        function: the kernel, as the driver knows it.
        name: of the kernel, for errors.
    """

    def __init__(self, of: Context, function: int, name: str) -> None:
        self._of, self._function, self._name = of, function, name
        # asked of all: a driver that loads kernels when they are first used does so now, which it may not do within a capture
        self._declared = of.driver.number("cuFuncGetAttribute", _STATIC, function)
        self.allowed = max(0, STATIC_SHARED_MEMORY_BYTES - self._declared)
        """Bytes; at first what is left of those that a program may declare."""

    def allow(self, wanted: int | None) -> None:
        """Let launches have so many bytes, or all that there are where it is not known how many they ask for.

        Raises:
            CudaError: a block of the device has less.
        """
        if wanted is not None and wanted <= self.allowed:
            return
        most = self._of.most_shared_bytes - self._declared
        if wanted is not None and wanted > most:
            raise CudaError(
                f"kernel {self._name} asks for {wanted + self._declared} bytes of shared memory, and {self._of.device} ({self._of.name})"
                f" has {self._of.most_shared_bytes} for a block; use smaller tiles",
                1,
                "CUDA_ERROR_INVALID_VALUE",
            )
        self.allowed = most if wanted is None else wanted
        self._of.driver.call("cuFuncSetAttribute", self._function, _MOST_DYNAMIC, self.allowed)
