"""Memory of devices: allocations that are kept for the next one of their size, copies, and limits.

What is freed may still be in use by work that its stream has not done yet. It is given out again on the same stream only, whose work comes
behind.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import defaultdict

import numpy as np

from ..ndarray import Array
from .context import Context, Stream, context
from .driver import CudaOutOfMemory, Driver, belongs_to_parent

ALIGNMENT = 256
"""Bytes on which allocations begin."""
_LEAST, _STEPS = 512, 8


def _rounded(n_bytes: int) -> int:
    """Sizes of allocations: eight between two powers of two, so that one is found again for others of about its size.

    >>> _rounded(1), _rounded(4097), _rounded(70000)
    (512, 4608, 73728)
    """
    if n_bytes <= _LEAST:
        return _LEAST
    step = max(_LEAST, (1 << (n_bytes - 1).bit_length() - 1) // _STEPS)
    return -(-n_bytes // step) * step


class DeviceMemory:
    """An allocation; it goes back when nobody has it any more."""

    __slots__ = ("__weakref__", "address", "context", "nbytes")

    def __init__(self, of: Context, address: int, nbytes: int) -> None:
        self.context = of
        self.address = address
        self.nbytes = nbytes

    def fill(self, byte: int) -> None:
        """Fill it with a byte, on the stream of this thread."""
        fill(self.context, self.address, byte, self.nbytes)


class Allocator:
    """Gives out the memory of one device; use :func:`allocator`.

    Attributes:
        limit: bytes that this process may take of the device; None for all.
    """

    def __init__(self, of: Context) -> None:
        self.context = of
        self.limit: int | None = None
        self.used = 0
        """Bytes that are in use."""
        self.kept = 0
        """Bytes that were freed, and wait for the next that asks for their size."""
        self._free: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._lock = threading.RLock()  # a finalizer may run within an allocation

    def allocate(self, nbytes: int, stream: Stream | None = None) -> DeviceMemory:
        """Memory for the work of a stream; undefined contents, on a multiple of 256 bytes.

        Args:
            nbytes: at least so many.
            stream: that of this thread by default.

        Raises:
            CudaOutOfMemory: the device has not so much, or the limit is lower.
        """
        size, handle = _rounded(nbytes), (stream or self.context.stream).handle
        with self._lock:
            free = self._free[handle, size]
            if free:
                address = free.pop()
                self.kept -= size
            else:
                address = self._new(size)
            self.used += size
        found = DeviceMemory(self.context, address, size)
        weakref.finalize(found, self._freed, address, size, handle).atexit = False
        return found

    def release(self) -> None:
        """Give what is kept back to the driver, for other processes and libraries."""
        with self._lock:
            free = [address for addresses in self._free.values() for address in addresses]
            self._free.clear()
            self.kept = 0
            for address in free:
                self.context.destroy("cuMemFree_v2", address)

    def _freed(self, address: int, size: int, stream: int) -> None:
        if belongs_to_parent():
            return
        with self._lock:
            self.used -= size
            self.kept += size
            self._free[stream, size].append(address)

    def _new(self, size: int) -> int:
        try:
            return self._asked(size)
        except CudaOutOfMemory:
            gc.collect()  # arrays in circles of references
            self.release()
        try:
            return self._asked(size)
        except CudaOutOfMemory as error:
            free, total = self.context.memory_info()
            limit = "" if self.limit is None else f", and the limit of this process is {self.limit}"
            raise CudaOutOfMemory(
                f"no memory for {size} bytes on {self.context.device}: {self.used} are in use here, {free} of {total} are free{limit}",
                error.code,
                error.name,
            ) from error

    def _asked(self, size: int) -> int:
        if self.limit is not None and self.used + self.kept + size > self.limit:
            raise CudaOutOfMemory("beyond the limit", 2, "CUDA_ERROR_OUT_OF_MEMORY")
        self.context.make_current()
        return self.context.driver.handle("cuMemAlloc_v2", size)


_ALLOCATORS: dict[tuple[Driver, int], Allocator] = {}
_MAKING = threading.Lock()


def allocator(of: Context | int = 0) -> Allocator:
    """The allocator of a device.

    Raises:
        CudaUnavailable: there is no such device.
    """
    found = context(of) if isinstance(of, int) else of
    with _MAKING:
        return _ALLOCATORS.setdefault((found.driver, found.index), Allocator(found))


def to_device(of: Context, address: int, values: Array) -> None:
    """Copy a contiguous array to the device; it may be changed afterwards."""
    if values.nbytes:
        of.make_current()
        of.driver.call("cuMemcpyHtoDAsync_v2", address, values.ctypes.data, values.nbytes, of.stream.handle)
        of.stream.synchronize()


def to_host(of: Context, address: int, values: Array) -> None:
    """Copy from the device into a contiguous array, behind the work of this thread's stream.

    Raises:
        CudaError: that work failed.
    """
    of.make_current()
    if values.nbytes:
        of.driver.call("cuMemcpyDtoHAsync_v2", values.ctypes.data, address, values.nbytes, of.stream.handle)
    of.stream.synchronize()


def between(to: Context, address: int, of: Context, source: int, nbytes: int) -> None:
    """Copy from one place to another, on one device or two."""
    if nbytes == 0:
        return
    if to is of:
        to.make_current()
        to.driver.call("cuMemcpyDtoDAsync_v2", address, source, nbytes, to.stream.handle)
        return
    to.stream.wait(of.stream.record())
    to.make_current()
    to.driver.call("cuMemcpyPeerAsync", address, to.handle, source, of.handle, nbytes, to.stream.handle)
    of.stream.wait(to.stream.record())


def fill(of: Context, address: int, byte: int, nbytes: int) -> None:
    """Fill memory with a byte, on the stream of this thread."""
    of.make_current()
    of.driver.call("cuMemsetD8Async", address, byte, nbytes, of.stream.handle)


def surroundings(array: Array) -> Array:
    """The bytes of the memory that a host array lies in, with what is before and behind it: its guard zones, where it has some.

    An array that is not a part of a one-dimensional array of bytes has no surroundings but itself.
    """
    base = array.base
    if isinstance(base, np.ndarray) and base.dtype == np.uint8 and base.ndim == 1 and base.flags.c_contiguous:
        return base
    return array.reshape(-1).view(np.uint8)
