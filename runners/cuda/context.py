"""A device as this process sees it: its primary context, facts and streams. Work on a stream runs in the order in which it was given.

Streams here wait for CUDA's default stream and it for them, so that arrays of libraries that work there, as PyTorch and cupy do, can be
used without further ado.
"""

from __future__ import annotations

import ctypes
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from ..device import Device
from .driver import NOT_READY, CudaUnavailable, Driver, belongs_to_parent, driver

DEFAULT_STREAM = 1
"""The handle of CUDA's default stream, by which others name it, too."""
_MAJOR, _MINOR, _L2_BYTES, _MOST_SHARED = 75, 76, 38, 97
"""Numbers of CUdevice_attribute."""


class Stream:
    """A queue of work on a device.

    Args:
        context: of the device.
        handle: of a stream of somebody else's; a new one without.
    """

    def __init__(self, context: Context, handle: int | None = None) -> None:
        self.context = context
        context.make_current()
        if handle is not None:
            self.handle = handle
            return
        self.handle = context.driver.handle("cuStreamCreate", 0)
        weakref.finalize(self, context.destroy, "cuStreamDestroy_v2", self.handle).atexit = False

    def synchronize(self) -> None:
        """Wait for all work that it was given.

        Raises:
            CudaError: some of it failed.
        """
        self.context.make_current()
        self.context.driver.call("cuStreamSynchronize", self.handle)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        self.context.make_current()
        status = self.context.driver.status("cuStreamQuery", self.handle)
        if status not in (0, NOT_READY):
            self.context.driver.check(status, "cuStreamQuery")
        return status == 0

    def record(self, event: Event | None = None) -> Event:
        """An event that happens when the work that it was given so far is done."""
        event = event or Event(self.context)
        self.context.make_current()
        self.context.driver.call("cuEventRecord", event.handle, self.handle)
        return event

    def wait(self, event: Event) -> None:
        """Work that is given from now on begins behind the event."""
        self.context.make_current()
        self.context.driver.call("cuStreamWaitEvent", self.handle, event.handle, 0)


class Event:
    """A moment in the work of a stream."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context.make_current()
        self.handle = context.driver.handle("cuEventCreate", 0)
        weakref.finalize(self, context.destroy, "cuEventDestroy_v2", self.handle).atexit = False

    def synchronize(self) -> None:
        """Wait until it happens."""
        self.context.make_current()
        self.context.driver.call("cuEventSynchronize", self.handle)

    def seconds_since(self, earlier: Event) -> float:
        """Seconds of the device's clock from another event of the device to this one; it waits for both."""
        earlier.synchronize()
        self.synchronize()
        value = ctypes.c_float()
        self.context.driver.call("cuEventElapsedTime", ctypes.byref(value), earlier.handle, self.handle)
        return value.value * 1e-3


class Context:
    """The primary context of a device, which all libraries of a process share; use :func:`context`."""

    def __init__(self, loaded: Driver, index: int) -> None:
        self.driver = loaded
        self.index = index
        self.device = Device(Device.kDLCUDA, index)
        self._number = loaded.number("cuDeviceGet", index)
        self.handle = loaded.handle("cuDevicePrimaryCtxRetain", self._number)
        self.make_current()
        self._scope = threading.local()

    def make_current(self) -> None:
        """Driver calls of this thread are about this device from now on."""
        self.driver.call("cuCtxSetCurrent", self.handle)

    def destroy(self, function: str, handle: int) -> None:
        """Free something of the device by a function of the driver; where the context is lost, it is gone already."""
        if not belongs_to_parent():
            self.make_current()
            self.driver.status(function, handle)

    def unload(self, module: int) -> None:
        """Free a module of kernels, when none of them runs any more."""
        if not belongs_to_parent():
            self.make_current()
            self.driver.status("cuCtxSynchronize")
            self.driver.status("cuModuleUnload", module)

    def synchronize(self) -> None:
        """Wait for everything that was started on the device.

        Raises:
            CudaError: some of it failed.
        """
        self.make_current()
        self.driver.call("cuCtxSynchronize")

    @cached_property
    def own_stream(self) -> Stream:
        """The stream that is used where no other is chosen."""
        return Stream(self)

    @property
    def stream(self) -> Stream:
        """The stream that this thread works on, as :meth:`working_on` says."""
        chosen: Stream | None = getattr(self._scope, "stream", None)
        return chosen or self.own_stream

    @contextmanager
    def working_on(self, stream: Stream) -> Iterator[Stream]:
        """Within, this thread gives its work to a stream. Memory that was used on another one must be waited for."""
        before = getattr(self._scope, "stream", None)
        self._scope.stream = stream
        try:
            yield stream
        finally:
            self._scope.stream = before

    def attribute(self, number: int) -> int:
        """A fact of the device by its number in CUdevice_attribute."""
        return self.driver.number("cuDeviceGetAttribute", number, self._number)

    @cached_property
    def capability(self) -> tuple[int, int]:
        """Major and minor number of its architecture."""
        return self.attribute(_MAJOR), self.attribute(_MINOR)

    @cached_property
    def l2_bytes(self) -> int:
        """Its level-2 cache."""
        return self.attribute(_L2_BYTES)

    @cached_property
    def most_shared_bytes(self) -> int:
        """Shared memory that a block may ask for."""
        return self.attribute(_MOST_SHARED)

    @cached_property
    def name(self) -> str:
        """What NVIDIA calls it."""
        text = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", text, len(text), self._number)
        return text.value.decode()

    @cached_property
    def uuid(self) -> str:
        """Its :func:`identity`."""
        return identity(self.index)

    def memory_info(self) -> tuple[int, int]:
        """Bytes of its memory that are free, and all."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.make_current()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


def identity(index: int) -> str:
    """A device as nvidia-smi writes it: the same in all processes, whatever CUDA_VISIBLE_DEVICES says. No context is made for it.

    Raises:
        CudaError: there is no such device.
    """
    raw, loaded = (ctypes.c_ubyte * 16)(), driver()
    loaded.call("cuDeviceGetUuid_v2", raw, loaded.number("cuDeviceGet", index))
    return f"GPU-{uuid.UUID(bytes=bytes(raw))}"


_CONTEXTS: dict[tuple[Driver, int], Context] = {}
_MAKING = threading.Lock()


def context(which: int | Device = 0) -> Context:
    """The context of a device by its number.

    Raises:
        CudaUnavailable: there is no driver, or no such device.
    """
    index = which.device_id if isinstance(which, Device) else which
    loaded = driver()
    found = _CONTEXTS.get((loaded, index))
    if found is None:
        with _MAKING:
            if not 0 <= index < loaded.device_count:
                raise CudaUnavailable(
                    f"there is no device cuda({index}); this process may use {loaded.device_count} (CUDA_VISIBLE_DEVICES may hide some)"
                )
            found = _CONTEXTS.get((loaded, index)) or Context(loaded, index)
            _CONTEXTS[loaded, index] = found
    return found


def synchronize(index: int) -> None:
    """Wait for everything that was started on a device.

    Raises:
        CudaError: some of it failed.
    """
    context(index).synchronize()
