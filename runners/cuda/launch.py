"""Launches of kernels: arguments in the form of the driver, and what one call of a host function asks of the device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ir.codegen.cuda.types import value_type
from ir.tir.function import PrimFunc
from ir.tir.intrinsic.bulk_copies import is_tensor_map
from ir.tir.kernel_launch import DYNAMIC_SHARED_MEMORY, KernelLaunch

from .context import Context
from .driver import CudaError
from .dynamic_memory import DynamicMemory
from .memory import DeviceMemory, allocator
from .tensor_map import TensorMapBytes, encoded_tensor_map

_TYPES: dict[str, Any] = {
    "bool": ctypes.c_bool, "float": ctypes.c_float, "double": ctypes.c_double,
    "signed char": ctypes.c_int8, "short": ctypes.c_int16, "int": ctypes.c_int32, "long long": ctypes.c_int64,
    "unsigned char": ctypes.c_uint8, "unsigned short": ctypes.c_uint16, "unsigned int": ctypes.c_uint32,
    "unsigned long long": ctypes.c_uint64,
}  # fmt: skip
"""By the type that a kernel's parameter has in CUDA C++."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch with everything that the driver takes, which may be repeated."""

    name: str
    arguments: tuple[Any, ...]
    """Of ``cuLaunchKernel``, but for the stream."""
    keep: tuple[Any, ...]
    """What the arguments point to."""

    def start(self, context: Context, stream: int) -> None:
        """Put it into a stream; the context is that of this thread.

        Raises:
            CudaError: the driver refuses it.
        """
        head, tail = self.arguments[:8], self.arguments[8:]
        status = context.driver.launch(*head, stream, *tail)
        if status:
            context.driver.check(status, f"launch of kernel {self.name}")


class LoadedKernel:
    """A kernel's code on one device.

    Args:
        context: of the device.
        handle: of the module that has it.
        name: of the kernel.
        func: lowered.
        launch: what a launch is given.
    """

    def __init__(
        self, context: Context, handle: int, name: str, func: PrimFunc, launch: KernelLaunch
    ) -> None:
        self.name = name
        self._function = context.driver.handle("cuModuleGetFunction", handle, name.encode())
        self._types = [
            TensorMapBytes.copied if is_tensor_map(param) else _parameter_type(param.dtype)
            for param in func.params
        ]
        self._tags = list(launch.extents)
        self._params = launch.params
        self._misfit = launch.misfit
        self._dynamic = DynamicMemory(context, self._function, name)

    def launch(self, given: Sequence[Any]) -> Launch | None:
        """The launch that a host function asks for; None where there are no threads.

        Args:
            given: arguments, then the parameters of the launch.

        Raises:
            CudaError: a block asks for more shared memory than the device has for one.
        """
        count = len(self._types)
        told = dict(zip(self._params, map(int, given[count:]), strict=True))
        if any(told[tag] == 0 for tag in self._tags):
            return None
        if (misfit := self._misfit(told)) is not None:
            raise CudaError(f"kernel {self.name}: {misfit}", 1, "CUDA_ERROR_INVALID_VALUE")
        grid_and_block = [
            told.get(f"{kind}.{axis}", 1) for kind in ("blockIdx", "threadIdx") for axis in "xyz"
        ]
        shared = told.get(DYNAMIC_SHARED_MEMORY, 0)
        self._dynamic.allow(shared)
        values = tuple(kind(value) for kind, value in zip(self._types, given))
        places = (ctypes.c_void_p * max(count, 1))(*map(ctypes.addressof, values))
        return Launch(self.name, (self._function, *grid_and_block, shared, places, None), values)


def _parameter_type(dtype: str) -> Any:
    """The C type of a kernel's parameter."""
    return ctypes.c_uint64 if dtype == "handle" else _TYPES[value_type(dtype)]


class HostCall:
    """What one call of a host function does: it allocates, and launches or only notes the launches.

    Args:
        context: of the device.
        kernels: by name.
        start: gets each launch.
        filled: a byte that new memory is filled with; None leaves it as it is.
    """

    def __init__(
        self,
        context: Context,
        kernels: dict[str, LoadedKernel],
        start: Callable[[Launch], None],
        filled: int | None = None,
    ) -> None:
        self._context, self._kernels, self._start, self._filled = context, kernels, start, filled
        self.memory: dict[int, DeviceMemory] = {}
        """What it has allocated, by address."""
        self._maps: list[TensorMapBytes] = []
        self.kept: list[DeviceMemory] | None = None
        """Where memory stays that it has freed, for launches that come later; None frees it."""

    def allocate(self, nbytes: int) -> int:
        """New memory of the device; its address."""
        made = allocator(self._context).allocate(nbytes)
        self.memory[made.address] = made
        if self._filled is not None:
            made.fill(self._filled)
        return made.address

    def free(self, address: int) -> None:
        """Memory that the call needs no longer: work that is given later is done later."""
        memory = self.memory.pop(address)
        if self.kept is not None:
            self.kept.append(memory)

    def encode_tensor_map(self, kind: int, address: int, swizzle: int, *layout: int) -> int:
        """The address of a new tensor map, which lasts as long as the call; launches have copies."""
        made = encoded_tensor_map(self._context.driver, kind, address, swizzle, layout)
        self._maps.append(made)
        return made.address

    def launch(self, name: str, *given: Any) -> None:
        """A launch of a kernel."""
        launch = self._kernels[name].launch(given)
        if launch is not None:
            self._start(launch)
