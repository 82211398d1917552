"""DLPack of numbers that numpy lacks: bfloat16 and 8-bit floats travel as unsigned integers that are called by their names."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_UNSIGNED = 1
CODES = {
    "bfloat16": 4,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
}
NAMES = {code: name for name, code in CODES.items()}

# Where the code of the dtype is in a capsule's memory: DLTensor has it behind a pointer, a device and the number of dimensions, and
# DLManagedTensorVersioned begins with a version, two pointers and flags.
_PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def exported(data: np.ndarray[Any, Any], **options: Any) -> Any:
    """The DLPack capsule of a numpy array; a copy's where the array is read-only, for consumers that know no such arrays.

    Raises:
        BufferError: the array is read-only and shall not be copied, or DLPack has no such dtype.
    """
    if not data.flags.writeable:
        if options.get("copy") is False:
            raise BufferError("the array is read-only: constants of a model are; use .numpy() for a copy")
        data = data.copy()
    code = CODES.get(data.dtype.name)
    if code is None:
        return data.__dlpack__(**options)
    capsule = data.view(f"u{data.dtype.itemsize}").__dlpack__(**options)
    _code(capsule).value = code
    return capsule


def imported(value: Any) -> np.ndarray[Any, Any]:
    """The numpy array that shares memory with an object on the processor that speaks DLPack.

    Raises:
        RuntimeError, BufferError: numpy has no such dtype, or the object is not shared.
    """
    source = _Source(value)
    shared = np.from_dlpack(source)
    return shared if source.dtype is None else shared.view(source.dtype)


class _Source:
    """What numpy is given instead of an object whose dtype it may lack."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.dtype: np.dtype[Any] | None = None

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._value.__dlpack__(**options)
        code = _code(capsule)
        name = NAMES.get(code.value)
        if name is not None:
            import ml_dtypes  # as slow to import as it is rarely needed

            self.dtype, code.value = np.dtype(getattr(ml_dtypes, name)), _UNSIGNED
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._value.__dlpack_device__()
        return device


def _code(capsule: Any) -> ctypes.c_uint8:
    """The code of a capsule's dtype, in place."""
    name = _name_of(capsule)
    return ctypes.c_uint8.from_address(_pointer_of(capsule, name) + _PLACES[name])
