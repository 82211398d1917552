"""Arrays with a device: numpy underneath on the processor, memory of the driver on a CUDA device, exchanged with others without copies."""

from __future__ import annotations

import ctypes
import difflib
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from . import cuda as _cuda
from .device import Device, checked_device, cpu
from .dlpack import exported, imported
from .error import RunnerError, RunnerTypeError

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
"""Bytes on which new arrays start: a cache line, and the width of the widest vector load."""
_CPU = cpu()


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The numpy dtype of a name; what numpy lacks (bfloat16, narrow floats and integers) comes from ml_dtypes.

    Raises:
        RunnerTypeError: there is no such dtype.
    """
    try:
        if isinstance(dtype, str) and dtype.startswith(_OF_ML_DTYPES):
            import ml_dtypes

            dtype = getattr(ml_dtypes, dtype)
        found: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, AttributeError):
        near = difflib.get_close_matches(str(dtype), _NUMBERS, n=3, cutoff=0.5)
        raise RunnerTypeError(
            f"unknown dtype {dtype!r}; did you mean {' or '.join(map(repr, near or _NUMBERS[:3]))}?"
        ) from None
    return found


_OF_ML_DTYPES = ("bfloat", "float8", "float6_", "float4_", "int4", "uint4", "int2", "uint2")
_NUMBERS = "float32 int32 bool float64 float16 bfloat16 int64 int16 int8 uint64 uint32 uint16 uint8".split()
_BYTE = np.dtype(np.uint8)


def aligned_empty(shape: Iterable[int], dtype: Any = "float32") -> np.ndarray[Any, Any]:
    """An uninitialized C-contiguous numpy array that starts on a 64-byte boundary."""
    kind, extents = numpy_dtype(dtype), tuple(int(extent) for extent in shape)
    return _aligned(extents, kind, math.prod(extents) * kind.itemsize)


def _aligned(extents: tuple[int, ...], kind: np.dtype[Any], n_bytes: int) -> np.ndarray[Any, Any]:
    raw = np.empty(n_bytes + ALIGNMENT, np.uint8)
    return np.ndarray(extents, kind, raw, -address_of(raw) % ALIGNMENT)


def aligned_bytes(size: int) -> np.ndarray[Any, Any]:
    """:func:`aligned_empty` of bytes, for memory that arrays are made in."""
    return _aligned((size,), _BYTE, size)


def maker(shape: Iterable[int], dtype: Any) -> Callable[[], np.ndarray[Any, Any]]:
    """:func:`aligned_empty` of one shape, for those who need it at every call."""
    kind, extents = numpy_dtype(dtype), tuple(int(extent) for extent in shape)
    return partial(_aligned, extents, kind, math.prod(extents) * kind.itemsize)


def address_of(value: Any) -> int:
    """The address of an array's first element, in a third of the time of ``value.ctypes.data`` where it can be written to."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(value))
    except (TypeError, ValueError):  # read-only, empty, or of a dtype that buffers do not know
        return int(value.ctypes.data)


def has_masked_elements(value: Any) -> bool:
    """Whether an array has elements without a value: numpy gives whatever lies behind a mask. It loads its masked arrays late."""
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray and bool(np.ma.is_masked(value))


def _refuse_masked(value: Any) -> None:
    if has_masked_elements(value):
        raise RunnerError("a masked array has elements without a value; give them one: array.filled(0)")


class NDArray:
    """An array on a device.

    On the processor it wraps a numpy array without copying it; ``numpy()`` copies, ``np.asarray(x)`` and ``from_dlpack`` share.
    What is read-only, as constants of a model are, is copied for DLPack: not all who take an array through it know of that.
    On a CUDA device it has memory of the device. What it is given to do is done in order, on the stream of
    :class:`runners.cuda.context.Context`; ``numpy()`` waits for it.
    """

    __slots__ = ("_data", "device")

    def __init__(self, data: Any, device: Device | None = None) -> None:
        """``data`` is a numpy array, or one with ``__cuda_array_interface__`` (as cupy's) when ``device`` is a CUDA device.

        Raises:
            RunnerError: elements are masked.
        """
        _refuse_masked(data)
        if hasattr(data, "__cuda_array_interface__"):
            device = Device(Device.kDLCUDA) if device is None else device
            data = _cuda.DeviceArray.from_interface(data, device.device_id)
        self._data = data
        self.device = _CPU if device is None else device

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self._data.shape)

    @property
    def dtype(self) -> str:
        """Name of the element type, as ``"float32"``."""
        return str(self._data.dtype.name)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self._data.size)

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return int(self._data.nbytes)

    @property
    def data(self) -> Any:
        """What is underneath, a numpy array or a :class:`runners.cuda.array.DeviceArray`; writing to it writes here."""
        return self._data

    @property
    def ptr(self) -> int:
        """Address of the first element."""
        if self.device.device_type == Device.kDLCPU:
            return int(self._data.ctypes.data)
        return int(self._data.ptr)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the processor."""
        if self.device.device_type == Device.kDLCPU:
            return np.array(self._data)
        copied: np.ndarray[Any, Any] = self._data.get()
        return copied

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite the contents with those of an array of the same shape, converted to this dtype.

        Raises:
            RunnerError: the shapes differ, or elements are masked.
        """
        _refuse_masked(source)
        values = source.data if isinstance(source, NDArray) else np.asarray(source)
        if tuple(values.shape) != self.shape:
            raise RunnerError(
                f"cannot copy an array of shape {tuple(values.shape)} into one of shape {self.shape}"
            )
        if self.device.device_type != Device.kDLCPU:
            self._data.set(values)
        else:
            self._data[...] = values if isinstance(values, np.ndarray) else values.get()
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy into another array, or into a new one on a device.

        Raises:
            DeviceError: it is neither.
        """
        if not isinstance(target, NDArray):
            target = empty(self.shape, self.dtype, checked_device(target))
        return target.copyfrom(self)

    def same_as(self, other: object) -> bool:
        """Identity."""
        return self is other

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self.device.device_type != Device.kDLCPU:
            if copy is False:
                raise RunnerError(
                    f"an array on {self.device} cannot be shared with numpy; use .numpy() for a copy"
                )
            return np.asarray(self.numpy(), dtype)
        return np.array(self._data, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        if self.device.device_type != Device.kDLCPU:
            return self._data.__dlpack__(**options)
        return exported(self._data, **options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device.device_type == Device.kDLCPU:
            raise AttributeError("an array on the processor has no __cuda_array_interface__")
        told: dict[str, Any] = self._data.interface
        return told

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.device_type, self.device.device_id)

    def __getitem__(self, index: Any) -> NDArray:
        return NDArray(self._data[index], self.device)

    def __setitem__(self, index: Any, value: Any) -> None:
        _refuse_masked(value)
        given = value.data if isinstance(value, NDArray) else value
        if isinstance(self._data, np.ndarray) and isinstance(value, NDArray):
            given = value.numpy() if value.device.device_type != Device.kDLCPU else given
        self._data[index] = given

    def __len__(self) -> int:
        return len(self._data)

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __reduce__(self) -> Any:
        return (_unpickle, (self.numpy(), self.device.device_type, self.device.device_id))

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape} dtype={self.dtype} device={self.device}>\n{self.numpy()!r}"


def array(value: Any, device: Device | None = None, dtype: Any = None) -> NDArray:
    """A new aligned array with a copy of ``value`` (a numpy array, NDArray, list or number).

    Lists of Python floats become float32, as is usual for tensors; numpy arrays keep their dtype.

    Raises:
        RunnerError: elements are masked.
    """
    _refuse_masked(value)
    if isinstance(value, NDArray):
        return empty(value.shape, value.dtype if dtype is None else dtype, device).copyfrom(value)
    if not isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        if dtype is None and value.dtype == np.float64:
            dtype = "float32"
    value = np.asarray(value)
    made = empty(value.shape, value.dtype if dtype is None else dtype, device)
    return made.copyfrom(value)


def empty(shape: Iterable[int], dtype: Any = "float32", device: Device | None = None) -> NDArray:
    """A new aligned array with undefined contents.

    Raises:
        DeviceError: the device is not there.
        CudaOutOfMemory: it has no memory for it.
    """
    where = cpu() if device is None else checked_device(device)
    if where.device_type == Device.kDLCPU:
        return NDArray(aligned_empty(shape, dtype), where)
    return NDArray(where.foreign_array(tuple(shape), dtype), where)


def from_dlpack(value: Any) -> NDArray:
    """An array that shares memory with any object that speaks DLPack (numpy, torch, jax, cupy, ...).

    Raises:
        RunnerError: the object does not, its device or dtype is not supported, or elements are masked.
    """
    _refuse_masked(value)
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        raise RunnerError(
            f"{type(value).__name__} does not speak DLPack; expected __dlpack__ and __dlpack_device__"
        )
    if hasattr(value, "detach"):  # torch refuses to share a tensor that records gradients
        value = value.detach()
    kind, number = value.__dlpack_device__()
    if int(kind) == Device.kDLCPU:
        try:
            return NDArray(imported(value), cpu())
        except (RuntimeError, BufferError) as error:
            raise RunnerError(f"{type(value).__name__} cannot be shared through DLPack: {error}") from error
    if int(kind) == Device.kDLCUDA:
        return NDArray(_cuda.DeviceArray.from_dlpack(value, int(number)), Device(Device.kDLCUDA, int(number)))
    raise RunnerError(
        f"DLPack device {(int(kind), int(number))} is not supported; move the array to cpu or cuda first"
    )


def _unpickle(value: np.ndarray[Any, Any], device_type: int, device_id: int) -> NDArray:
    return array(value, Device(device_type, device_id))
