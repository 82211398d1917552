"""What an NDArray on a CUDA device holds: memory of the device, and the shape, dtype and strides by which it is looked at."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..device import Device
from ..error import RunnerError, RunnerTypeError
from ..foreign import ForeignArray
from ..ndarray import Array, numpy_dtype
from .context import DEFAULT_STREAM, Context, Stream, context
from .dlpack import CapsuleMemory, capsule_of
from .memory import allocator, between, to_device, to_host

_BASIC = (int, np.integer, slice, type(Ellipsis), type(None))


def layout_at(address: int, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None) -> Array:
    """An array of numpy's over addresses that this process must not touch: it knows shape, dtype, strides and where it begins.

    Args:
        address: of the first element.
        shape: extents.
        dtype: of the elements.
        strides: in bytes; in C order without.
    """
    kind = numpy_dtype(dtype)
    steps = strides
    if steps is None:
        steps = [kind.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    # as bytes, since numpy makes strides for its own dtypes only
    element = memoryview((ctypes.c_uint8 * kind.itemsize).from_address(address))
    one = np.ndarray((), f"V{kind.itemsize}", element)
    return as_strided(one, tuple(shape), tuple(steps)).view(kind)


class DeviceArray(ForeignArray):
    """Elements on a device, which numpy cannot look at.

    Args:
        of: the device's context.
        layout: of :func:`layout_at`.
        memory: whatever must live as long as the elements.
    """

    __slots__ = ("context", "layout", "memory")

    def __init__(self, of: Context, layout: Array, memory: Any) -> None:
        self.context = of
        self.layout = layout
        self.memory = memory

    @staticmethod
    def empty(of: Context | int, shape: Sequence[int], dtype: Any) -> DeviceArray:
        """New elements with undefined values, on a device that is given by its number or context.

        Raises:
            CudaOutOfMemory: the device has no memory for them.
        """
        extents, kind = tuple(int(extent) for extent in shape), numpy_dtype(dtype)
        owner = context(of) if isinstance(of, int) else of
        memory = allocator(owner).allocate(math.prod(extents) * kind.itemsize)
        return DeviceArray(owner, layout_at(memory.address, extents, kind), memory)

    @staticmethod
    def from_interface(value: Any, index: int) -> DeviceArray:
        """The elements of an object with ``__cuda_array_interface__``, as arrays of cupy's and numba's are, on a device."""
        told = value.__cuda_array_interface__
        address, is_read_only = int(told["data"][0]), bool(told["data"][1])
        owner = context(index)
        layout = layout_at(address or 1, told["shape"], np.dtype(told["typestr"]), told.get("strides"))
        if is_read_only:
            layout.flags.writeable = False
        if told.get("stream"):
            owner.stream.wait(Stream(owner, int(told["stream"])).record())
        return DeviceArray(owner, layout, value)

    @staticmethod
    def from_dlpack(value: Any, index: int) -> DeviceArray:
        """The elements of an object that speaks DLPack, with what its stream has done by then."""
        owner = context(index)
        memory = CapsuleMemory(value.__dlpack__(stream=owner.stream.handle))
        return DeviceArray(
            owner, layout_at(memory.address or 1, memory.shape, memory.dtype, memory.strides), memory
        )

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self.context.device

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one behind the other, in C order."""
        return self.layout.flags.c_contiguous

    @property
    def is_read_only(self) -> bool:
        """Whether nobody may write to the elements, as those of a model's constants."""
        return not self.layout.flags.writeable

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self.layout.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements."""
        found: np.dtype[Any] = self.layout.dtype
        return found

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.layout.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.layout.nbytes

    @property
    def ptr(self) -> int:
        """Address of the first element."""
        return int(self.layout.ctypes.data)

    def __len__(self) -> int:
        return len(self.layout)

    def copy(self) -> DeviceArray:
        """A copy in C order on the device."""
        made = DeviceArray.empty(self.context, self.shape, self.dtype)
        made.set(self)
        return made

    def reshape(self, shape: Sequence[int]) -> DeviceArray:
        """The same elements under another shape; those of an array with gaps are copied."""
        source = self if self.is_dense else self.copy()
        return DeviceArray(self.context, source.layout.reshape(tuple(shape)), source.memory)

    def get(self) -> Array:
        """A copy on the processor; it waits for the work that this thread's stream was given."""
        if self.layout.flags.c_contiguous:
            found = np.empty(self.shape, self.dtype)
            to_host(self.context, self.ptr, found.reshape(-1).view(np.uint8))
            return found
        start, raw = self._span()
        to_host(self.context, start, raw)
        return np.array(self._view_of(raw, start))

    def set(self, values: Any) -> None:
        """Overwrite all elements, converted to this dtype.

        Raises:
            ValueError: they are read-only.
        """
        if self.is_read_only:
            raise ValueError("the array is read-only: constants of a model are; .copyto(device) makes a copy")
        if isinstance(values, DeviceArray):
            if (
                values.dtype == self.dtype
                and values.layout.flags.c_contiguous
                and self.layout.flags.c_contiguous
            ):
                between(self.context, self.ptr, values.context, values.ptr, self.nbytes)
                return
            values = values.get()
        whole = np.broadcast_to(np.asarray(values), self.shape)
        if self.layout.flags.c_contiguous:
            converted = np.ascontiguousarray(whole.astype(self.dtype, copy=False))
            to_device(self.context, self.ptr, converted.reshape(-1).view(np.uint8))
            return
        start, raw = self._span()
        to_host(self.context, start, raw)
        self._view_of(raw, start)[...] = whole
        to_device(self.context, start, raw)

    def bytes_at(self, begin: int, size: int) -> Array:
        """A copy of some of the bytes of an array in C order, on the processor."""
        found = np.empty(size, np.uint8)
        to_host(self.context, self.ptr + begin, found)
        return found

    def set_bytes_at(self, begin: int, values: Array) -> None:
        """Overwrite some of the bytes of an array in C order."""
        to_device(self.context, self.ptr + begin, values)

    def __getitem__(self, index: Any) -> DeviceArray:
        parts = index if isinstance(index, tuple) else (index,)
        if not all(isinstance(part, _BASIC) and not isinstance(part, bool) for part in parts):
            raise RunnerTypeError(
                f"an array on {self.context.device} is indexed by numbers, slices, None and ..., got {index!r}; use .numpy() for others"
            )
        # with an ellipsis numpy makes a view in any case, and reads no element
        whole = parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)
        return DeviceArray(self.context, self.layout[whole], self.memory)

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index].set(value)

    @property
    def interface(self) -> dict[str, Any]:
        """``__cuda_array_interface__``, of version 3."""
        if self.dtype.kind == "V":
            raise RunnerError(f"__cuda_array_interface__ has no {self.dtype.name}; use DLPack")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ptr if self.size else 0, self.is_read_only),
            "version": 3,
            "strides": None if self.layout.flags.c_contiguous else self.layout.strides,
            "stream": self.context.stream.handle,
        }

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule, of a copy where the elements are read-only; see the array API standard for the arguments.

        Raises:
            BufferError: it is asked for on another device, or read-only elements shall not be copied.
        """
        own = (int(self.context.device.device_type), self.context.index)
        if dl_device is not None and tuple(dl_device) != own:
            raise BufferError(f"the array is on {self.context.device}; copy it with .copyto(device) first")
        if stream == 0:
            raise BufferError(
                "stream 0 means two things in CUDA; pass 1 for the legacy default stream, or 2 for a thread's own"
            )
        if self.is_read_only and copy is False:
            raise BufferError("the array is read-only: constants of a model are; use .numpy() for a copy")
        shared = self
        if copy or self.is_read_only:
            shared = DeviceArray.empty(self.context, self.shape, self.dtype)
            shared.set(self)
        if stream != -1:
            consumer = Stream(self.context, DEFAULT_STREAM if stream is None else int(stream))
            consumer.wait(self.context.stream.record())
        return capsule_of(
            shared.layout, own, shared, versioned=max_version is not None and max_version[0] >= 1
        )

    def _span(self) -> tuple[int, Array]:
        """Where the first byte of any element is, and room on the processor for all bytes from there to the last."""
        reach = [(extent - 1) * step for extent, step in zip(self.shape, self.layout.strides)]
        if self.size == 0:
            return self.ptr, np.empty(0, np.uint8)
        before = -sum(step for step in reach if step < 0)
        behind = sum(step for step in reach if step > 0) + self.dtype.itemsize
        return self.ptr - before, np.empty(before + behind, np.uint8)

    def _view_of(self, raw: Array, start: int) -> Array:
        return np.ndarray(
            self.shape, self.dtype, raw, self.ptr - start if self.size else 0, self.layout.strides
        )
