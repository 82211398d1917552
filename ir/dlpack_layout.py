"""DLPack's structures as code sees them: codes of dtypes, and where the fields of a tensor and of an argument of a packed function are."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import numpy as np

from . import dtype as dt

_CODES = {
    "int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "bool": 6, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14, "float6_e2m3fn": 15,
    "float6_e3m2fn": 16, "float4_e2m1fn": 17,
}  # fmt: skip


def dlpack_dtype(dtype: str) -> tuple[int, int, int]:
    """Code, bits and lanes of a dtype; a bool has 8 bits in memory.

    >>> dlpack_dtype("float32x4"), dlpack_dtype("bool"), dlpack_dtype("bfloat16")
    ((2, 32, 4), (6, 8, 1), (4, 16, 1))
    """
    code, bits, lanes = dt.parse(dtype)
    return _CODES[code], 8 if code == "bool" else bits, lanes


class Field(IntEnum):
    """The numbers of fields in :func:`ir.tir.op.tvm_struct_get`: those of a ``DLTensor``, and the content of an argument."""

    ADDRESS = 0
    DATA = 1
    SHAPE = 2
    STRIDES = 3
    NDIM = 4
    TYPE_CODE = 5
    TYPE_BITS = 6
    TYPE_LANES = 7
    BYTE_OFFSET = 8
    DEVICE_ID = 9
    DEVICE_TYPE = 10
    VALUE = 12


TENSOR_BYTES, VALUE_BYTES = 48, 8
"""The sizes of a tensor and of an argument; pointers have 64 bits."""
PLACES: dict[Field, tuple[int, str]] = {
    Field.DATA: (0, "handle"),
    Field.DEVICE_TYPE: (8, "int32"),
    Field.DEVICE_ID: (12, "int32"),
    Field.NDIM: (16, "int32"),
    Field.TYPE_CODE: (20, "uint8"),
    Field.TYPE_BITS: (21, "uint8"),
    Field.TYPE_LANES: (22, "uint16"),
    Field.SHAPE: (24, "handle"),
    Field.STRIDES: (32, "handle"),
    Field.BYTE_OFFSET: (40, "uint64"),
}
"""Of the fields of a tensor: how many bytes behind its begin they are, and their dtypes."""


class DLTensor(ctypes.Structure):
    """The structure of a tensor; without strides it is dense."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


assert ctypes.sizeof(DLTensor) == TENSOR_BYTES


def tensor_struct(array: np.ndarray) -> tuple[DLTensor, list[np.ndarray]]:
    """The structure of an array, and what it points to: this must stay alive while it is used."""
    code, bits, lanes = dlpack_dtype(dt.from_numpy(array.dtype))
    shape = np.array(array.shape, "int64")
    strides = np.array([step // array.itemsize for step in array.strides], "int64")
    steps = None if array.flags.c_contiguous else strides.ctypes.data  # DLPack's form of a dense tensor
    struct = DLTensor(array.ctypes.data, 1, 0, array.ndim, code, bits, lanes, shape.ctypes.data, steps, 0)
    return struct, [array, shape, strides]


class TypeCode(IntEnum):
    """What an argument of a packed function is."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    NULL = 4
    TENSOR = 7
    NDARRAY = 13
