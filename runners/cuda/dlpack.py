"""DLPack capsules of device memory, which numpy cannot make: the structures of dlpack.h, in its old and its versioned form."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from ..dlpack import CODES, NAMES
from ..error import RunnerError
from ..ndarray import Array, numpy_dtype

_CODES_OF_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS_OF_CODES = {code: kind for kind, code in _CODES_OF_KINDS.items()}
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_FORMS: dict[bytes, type[_Managed] | type[_Versioned]] = {
    b"dltensor": _Managed,
    b"dltensor_versioned": _Versioned,
}
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}

_python = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _python)
)
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", _python))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))
# A destructor is given a capsule that nobody has any more: as an address, so that no reference is counted.
_is_valid_at = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _python)
)
_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)

_given_away: dict[int, tuple[Any, ...]] = {}
"""What consumers have: the structure with all that it points to and whatever owns the elements, by the structure's address."""


def _forget(address: int) -> None:
    _given_away.pop(address, None)


def _unused(capsule: int) -> None:
    """The destructor of a capsule: what nobody took is freed."""
    for name in _FORMS:
        if _is_valid_at(capsule, name):
            _given_away.pop(_pointer_at(capsule, name), None)


_delete = _Deleter(_forget)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unused)


def capsule_of(layout: Array, device: tuple[int, int], owner: Any, *, versioned: bool) -> Any:
    """A capsule.

    Args:
        layout: shape, dtype, strides and address.
        device: DLPack's type and number.
        owner: lives until the consumer has freed the capsule's contents.
        versioned: in the form of DLPack 1.0.

    Raises:
        BufferError: DLPack has no such dtype.
    """
    kind = layout.dtype
    code = CODES.get(kind.name, _CODES_OF_KINDS.get(kind.kind))
    if code is None:
        raise BufferError(f"DLPack has no {kind.name}")
    extents = (ctypes.c_int64 * max(layout.ndim, 1))(*layout.shape)
    steps = (ctypes.c_int64 * max(layout.ndim, 1))(*(step // kind.itemsize for step in layout.strides))
    name = b"dltensor_versioned" if versioned else b"dltensor"
    made = _FORMS[name]()
    if isinstance(made, _Versioned):
        made.major, made.minor = 1, 0
    made.deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    tensor = made.tensor
    tensor.data = layout.ctypes.data if layout.size else None
    tensor.device_type, tensor.device_id = device
    tensor.ndim, tensor.code, tensor.bits, tensor.lanes = layout.ndim, code, 8 * kind.itemsize, 1
    tensor.shape, tensor.strides = extents, steps
    address = ctypes.addressof(made)
    _given_away[address] = (made, extents, steps, owner)
    return _new(address, name, ctypes.cast(_destructor, ctypes.c_void_p))


class CapsuleMemory:
    """What a capsule of somebody else's holds; its contents are freed when nobody has this any more.

    Raises:
        RunnerError: it is no capsule that can be used, or numpy has no such dtype.
    """

    def __init__(self, capsule: Any) -> None:
        name = _name_of(capsule)
        form = _FORMS.get(name)
        if form is None:
            raise RunnerError(f"a DLPack capsule is used once, and is called dltensor; this one is {name!r}")
        managed = form.from_address(_pointer_of(capsule, name))
        tensor = managed.tensor
        self.device = (int(tensor.device_type), int(tensor.device_id))
        self.shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
        self.dtype = _dtype_of(tensor)
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.strides = (
            tuple(tensor.strides[axis] * self.dtype.itemsize for axis in range(tensor.ndim))
            if tensor.strides
            else None
        )
        _rename(capsule, _USED[name])
        if managed.deleter:
            deleter = _Deleter(managed.deleter)
            weakref.finalize(self, deleter, ctypes.addressof(managed)).atexit = False


def _dtype_of(tensor: _Tensor) -> np.dtype[Any]:
    if tensor.lanes == 1:
        if tensor.code in NAMES:
            return numpy_dtype(NAMES[tensor.code])
        kind = _KINDS_OF_CODES.get(tensor.code)
        if kind is not None and tensor.bits % 8 == 0:
            return np.dtype(f"{kind}{tensor.bits // 8}")
    raise RunnerError(
        f"DLPack's dtype of code {tensor.code}, {tensor.bits} bits and {tensor.lanes} lanes is not supported"
    )
