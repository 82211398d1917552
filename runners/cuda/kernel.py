"""A candidate on a device, called with arrays of the processor: they are copied there and back with the guard zones around them.

So the checks of candidates (:mod:`runners.verify`) see what a kernel writes beside its arrays on the device, as they do on the processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..device import Device
from ..error import RunnerError
from ..ndarray import Array, NDArray, address_of
from .array import DeviceArray, layout_at
from .bound import BoundCall
from .context import Context, Event
from .memory import ALIGNMENT, allocator, surroundings, to_device, to_host
from .module import CudaModule, build_module
from .module_code import KIND, packed_cuda, unpacked_cuda
from .nvml import DeviceMonitor
from .place import current_device


class DeviceKernel:
    """One function of a CUDA module on arrays of the processor; it can be sent to another process.

    Args:
        module: that has it.
        name: of the function.
    """

    def __init__(self, module: CudaModule, name: str) -> None:
        self._module, self._name = module, name

    def packed(self) -> tuple[str, dict[str, Any], bytes]:
        """Its kind, what :meth:`unpacked` needs to know beside the code, and the code, for :mod:`runners.kernel_code`."""
        return KIND, {"name": self._name}, packed_cuda(self._module)

    @staticmethod
    def unpacked(described: Mapping[str, Any], code: bytes) -> DeviceKernel:
        """The kernel that :meth:`packed` described."""
        return DeviceKernel(unpacked_cuda(code), str(described["name"]))

    @property
    def metrics(self) -> dict[str, float]:
        """``code_size``: bytes of what the driver loads."""
        return {"code_size": float(len(self._module.code_for()))}

    def load(self) -> None:
        """Load the code on the device that this process measures on.

        Raises:
            CudaError: the driver does not take it.
            CudaCompileError: a kernel is too large for the device's architecture.
        """
        self._module.kernels_on(current_device())

    def __call__(self, *arrays: Any) -> None:
        self.timed(None, *arrays)

    def call_filled(self, byte: int, *arrays: Any) -> None:
        """A call that finds this byte in the memory that it allocates on the device."""
        self.timed(byte, *arrays)

    def timed(self, byte: int | None, *arrays: Any) -> float:
        """The seconds that a call takes on the device, without the copies."""
        copies = _Copies(current_device(), arrays)
        copies.send()
        function, of = self._module[self._name], copies.context
        begin, end = Event(of), Event(of)
        of.stream.record(begin)
        if byte is None:
            function(*copies.arguments)
        else:
            function.call_filled(byte, *copies.arguments)
        of.stream.record(end)
        secs = end.seconds_since(begin)
        copies.fetch()
        return max(secs, 1e-9)

    def bind(self, *arrays: Any) -> DeviceCall:
        """A call on copies of these arrays that are on the device now."""
        copies = _Copies(current_device(), arrays)
        copies.send()
        return DeviceCall(self._module[self._name].bind(*copies.arguments), copies)


class DeviceCall:
    """A call on arrays that stay on the device, for timing it; :meth:`fetch` copies them back."""

    def __init__(self, call: BoundCall, copies: _Copies) -> None:
        self._copies, self._call = copies, call
        self.time_calls = call.time_calls
        self.time_flushed_calls = call.time_flushed_calls

    def __call__(self) -> None:
        self._call()

    def fetch(self) -> None:
        """Copy the arrays, with what is around them, to where they came from."""
        self._copies.fetch()

    def conditions(self) -> dict[str, float]:
        """Clocks, temperature and reasons of throttling, as :attr:`.nvml.DeviceState.metrics`; nothing without NVML."""
        with suppress(RunnerError):
            return DeviceMonitor(self._call.context.uuid).state().metrics
        return {}

    def joules_of_one_call(self, secs: float) -> float:
        """The energy of one call.

        Raises:
            RunnerError: the device does not tell.
        """
        return DeviceMonitor(self._call.context.uuid).joules_of_one_call(self.time_calls, secs)


class _Copies:
    """Copies on a device of arguments with their surroundings."""

    def __init__(self, of: Context, arrays: Sequence[Any]) -> None:
        self.context = of
        self.arguments: list[Any] = []
        self._places: list[tuple[int, Array]] = []
        for value in arrays:
            self.arguments.append(self._copied(value) if isinstance(value, np.ndarray) else value)

    def _copied(self, array: Array) -> NDArray:
        if not array.flags.c_contiguous:
            raise RunnerError("arrays of a candidate are in C order, without gaps")
        around = surroundings(array)
        before = address_of(array) - address_of(around) if array.nbytes else 0
        memory = allocator(self.context).allocate(around.nbytes + ALIGNMENT)
        start = memory.address + -before % ALIGNMENT
        self._places.append((start, around))
        layout = layout_at(start + before, array.shape, array.dtype)
        return NDArray(DeviceArray(self.context, layout, memory), Device(Device.kDLCUDA, self.context.index))

    def send(self) -> None:
        for address, around in self._places:
            to_device(self.context, address, around)

    def fetch(self) -> None:
        for address, around in self._places:
            to_host(self.context, address, around)


def build_cuda(mod: Any, target: Any) -> DeviceKernel:
    """Build a module of one function for a CUDA target.

    Raises:
        RunnerError: the module has several functions and none is called main, or something is done outside of kernels.
        ir.error.IRError: it cannot be built.
    """
    module = build_module(mod, target)
    names = module.functions()
    if len(names) != 1 and "main" not in names:
        raise RunnerError(
            f"a candidate has one function, or one called 'main'; this module has {sorted(names)}"
        )
    return DeviceKernel(module, names[0] if len(names) == 1 else "main")
