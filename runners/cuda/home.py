"""Where models for CUDA run: arrays on a device, and launches through queues that the native code of host functions fills."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from ir.target.gpu_facts import ACCESS_BYTES

from ..arguments import as_numpy
from ..device import Device
from ..device_code import DeviceCode
from ..error import RunnerError
from ..foreign import ARRAYS, ForeignArray
from ..home import PROCESSOR, Home
from ..ndarray import NDArray, address_of, from_dlpack, numpy_dtype
from ..program import ArgumentError
from .array import DeviceArray, layout_at
from .code import LoadedCode, loaded_code
from .context import Context, Event, context
from .driver import CudaError
from .graph import CudaGraph

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    *[ctypes.c_uint32] * 7,
    *[ctypes.c_void_p] * 3,
)


_ENCODE, _NOT_SUPPORTED = "cuTensorMapEncodeTiled", 801


def _not_supported(*given: Any) -> int:
    return _NOT_SUPPORTED


_no_tensor_maps = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, *[ctypes.c_void_p] * 5, *[ctypes.c_int32] * 4
)(_not_supported)  # fmt: skip
"""In place of what drivers older than CUDA 12.0 have not."""


class _Fields(ctypes.Structure):
    """A queue, as :mod:`ir.codegen.llvm.launch` describes it."""

    _fields_ = (
        ("launch", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("functions", ctypes.c_void_p),
        ("failed_kernel", ctypes.c_int64),
        ("failed_status", ctypes.c_int64),
        ("encode", ctypes.c_void_p),
    )


class _Queue(threading.local):
    """The queue of one thread."""

    def __init__(self, of: Context, code: LoadedCode) -> None:
        self.direct = ctypes.cast(of.driver.launch, ctypes.c_void_p).value
        encode = ctypes.cast(of.driver.encode or _no_tensor_maps, ctypes.c_void_p)
        self.fields = _Fields(self.direct, None, ctypes.addressof(code.table), 0, 0, encode)
        self.address = ctypes.addressof(self.fields)


class CudaHome(Home):
    """A CUDA device on which the code of a model is loaded.

    Args:
        device: which.
        code: the model's kernels; None for one that has none.

    Raises:
        CudaUnavailable: there is no driver, or no such device.
        CudaError: the driver does not take the code.
    """

    def __init__(self, device: Device, code: DeviceCode | None) -> None:
        self.device = device
        self.context = context(device)
        self._code = loaded_code(code, self.context)
        self._queue = _Queue(self.context, self._code)

    # ---- arrays -------------------------------------------------------------------------------------------------

    def argument(self, value: Any, name: str, dtype: str | None = None) -> Any:
        """An array on the device: what is there already is shared, anything else is copied."""
        if isinstance(value, NDArray | ForeignArray):
            return self.moved(value.data if isinstance(value, NDArray) else value)
        kind = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else Device.kDLCPU
        try:
            if kind == Device.kDLCUDA:
                return self.moved(from_dlpack(value).data)
            if hasattr(value, "__cuda_array_interface__"):
                return self.moved(NDArray(value, self.device).data)
        except RunnerError as error:
            raise ArgumentError(f"argument {name}: {error}") from error
        return self.moved(as_numpy(value, name, dtype))

    def moved(self, array: Any) -> Any:
        """The array, or a copy of it on the device."""
        if isinstance(array, DeviceArray) and array.context is self.context:
            return array
        made = DeviceArray.empty(self.context, array.shape, array.dtype)
        made.set(array)
        return made

    def constant(self, array: Any) -> Any:
        """A copy on the device that says, as the constant does, that it is read-only."""
        made = self.moved(array)
        made.layout.flags.writeable = False
        return made

    def dense(self, array: Any) -> Any:
        """The array, or a copy in C order on a multiple of 16 bytes."""
        return array if array.is_dense and array.ptr % ACCESS_BYTES == 0 else array.copy()

    def refuse_read_only(self, array: Any, name: str, given: Any) -> None:
        """Raise ArgumentError where what is written would be lost: into a copy of the argument."""
        raw = given.data if isinstance(given, NDArray) else given
        if isinstance(raw, ARRAYS) and raw is not array:
            raise ArgumentError(
                f"argument {name} is overwritten, and the model runs on {self.device}, where it would have a copy; pass"
                f" runners.array({name}, runners.{self.device.type}({self.device.device_id}))"
            )
        if array.is_read_only:
            raise ArgumentError(
                f"argument {name} is overwritten, but the array is read-only; pass a copy of it"
            )
        if not array.is_dense or array.ptr % ACCESS_BYTES:
            raise ArgumentError(
                f"argument {name} is overwritten, but the array is not contiguous or begins at no multiple of {ACCESS_BYTES} bytes; pass a"
                " copy of it"
            )

    def maker(self, shape: Sequence[int], dtype: str) -> Callable[[], Any]:
        """What makes new arrays of a shape."""
        of, extents, kind = self.context, tuple(shape), numpy_dtype(dtype)
        return lambda: DeviceArray.empty(of, extents, kind)

    def memory(self, n_bytes: int) -> Any:
        """New memory of the device."""
        return DeviceArray.empty(self.context, (n_bytes,), np.uint8)

    def tensor(self, shape: Sequence[int], dtype: Any, memory: Any, begin: int) -> Any:
        """An array in memory of the device, or of the processor."""
        if not isinstance(memory, DeviceArray):
            return PROCESSOR.tensor(shape, dtype, memory, begin)
        n_bytes = prod(shape) * dtype.itemsize
        if begin + n_bytes > memory.nbytes or min(shape, default=0) < 0:
            raise TypeError("the memory is smaller than the array")
        return DeviceArray(self.context, layout_at(memory.ptr + begin, shape, dtype), memory.memory)

    def address_of(self, array: Any) -> int:
        """Where an array is: on the device, or on the processor those that only the host's functions get."""
        return array.ptr if isinstance(array, ForeignArray) else address_of(array)

    # ---- launches -----------------------------------------------------------------------------------------------

    def queue(self) -> int:
        """The queue of this thread, whose launches go to the stream that it works on now."""
        queue = self._queue
        self.context.make_current()
        queue.fields.stream = self.context.stream.handle
        return queue.address

    def frame_key(self) -> int:
        """Work of one stream is done in order."""
        return self.context.stream.handle

    def failure(self, what: str) -> Exception | None:
        """The driver's error of a launch that it refused."""
        fields = self._queue.fields
        status, fields.failed_status = fields.failed_status, 0
        if status == 0:
            return None
        failed, of = fields.failed_kernel, self.context.driver
        step = _ENCODE if failed < 0 else f"launch of kernel {self._code.names[failed]}"
        try:
            if failed < 0 and of.encode is None:
                of.call(_ENCODE)
            of.check(int(status), f"{what}: {step}")
        except CudaError as error:
            return error
        return None

    def synchronize(self) -> None:
        """Wait for the stream of this thread.

        Raises:
            CudaError: something that was started has failed.
        """
        self.context.stream.synchronize()

    def captured(self, work: Callable[[], Any]) -> CudaGraph:
        """A CUDA graph of what work launches."""
        return CudaGraph(self.context, work)

    @contextmanager
    def profiling(self) -> Iterator[list[tuple[float, str]] | None]:
        """Launches are timed between two events of the stream each; the times are there when the context is left."""
        names = {handle: name for handle, name in zip(self._code.table, self._code.names)}
        stream, launch, fields = self.context.stream, self.context.driver.launch, self._queue.fields
        events: list[tuple[Event, Event, str]] = []
        rows: list[tuple[float, str]] = []

        def timed(function: int, *arguments: Any) -> int:
            begin, end = stream.record(), Event(self.context)
            status = int(launch(function, *arguments))
            events.append((begin, stream.record(end), names[function]))
            return status

        callback = _LAUNCH(timed)
        fields.launch = ctypes.cast(callback, ctypes.c_void_p)
        try:
            yield rows
        finally:
            fields.launch = self._queue.direct
        rows += [(end.seconds_since(begin), name) for begin, end, name in events]
