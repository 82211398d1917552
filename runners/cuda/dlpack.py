"""DLPack capsules of device memory, of which numpy knows nothing: the structures of dlpack.h, in its old and its versioned form."""

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

_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)


class _Elements:
    """What numpy takes for elements on the processor, which it never touches, and its arrays keep alive."""

    def __init__(self, layout: Array, owner: Any) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.shape,
            "typestr": f"<{'c' if layout.dtype.kind == 'c' else 'u'}{layout.dtype.itemsize}",
            "data": (layout.ctypes.data, False),
            "strides": layout.strides,
        }
        self._owner = owner


def capsule_of(layout: Array, device: tuple[int, int], owner: Any, *, versioned: bool) -> Any:
    """A capsule: one that numpy makes, and frees, with another device and dtype in it.

    Python code cannot be a capsule's destructor: it runs while a consumer's error is on its way, which it would lose.

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
    elements = np.asarray(_Elements(layout, owner))
    capsule = elements.__dlpack__(max_version=(1, 0)) if versioned else elements.__dlpack__()
    name = _name_of(capsule)
    tensor = _FORMS[name].from_address(_pointer_of(capsule, name)).tensor
    tensor.device_type, tensor.device_id = device
    tensor.code = code
    if not layout.size:
        tensor.data = None
    return capsule


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
