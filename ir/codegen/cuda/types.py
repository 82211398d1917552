"""How dtypes are spelled in CUDA C++: in memory, and while a value is computed with."""

from __future__ import annotations

from ... import dtype as dt
from ..error import CodegenError

_INTEGERS = {
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
}
_FLOATS = {"float32": "float", "float64": "double"}
HALVES = {"float16": "half", "bfloat16": "__nv_bfloat16"}
FLOAT8 = {"float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2"}
"""The floats of 8 bits that CUDA has types for; values of them are moved and converted, and computed with as wider ones."""
HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h", **dict.fromkeys(FLOAT8, "cuda_fp8.h")}
"""The header of CUDA that declares a dtype."""


def memory_type(dtype: str) -> str:
    """The C++ type of an element in memory; a bool is a byte, which may hold any number.

    >>> memory_type("float16"), memory_type("bool"), memory_type("int64")
    ('half', 'unsigned char', 'long long')

    Raises:
        CodegenError: CUDA has no such type, or kernels do not compute with it.
    """
    element = dt.element_of(dtype)
    if dt.is_bool(element):
        return "unsigned char"
    found = _INTEGERS.get(element) or _FLOATS.get(element) or HALVES.get(element) or FLOAT8.get(element)
    if found is None:
        raise CodegenError(f"CUDA kernels do not compute with {element}; cast it on the host")
    return found


def value_type(dtype: str) -> str:
    """The C++ type that a value of a dtype is computed in: floats of 16 and 8 bits in float, and rounded where they are stored or cast.

    >>> value_type("float16"), value_type("bool"), value_type("uint8")
    ('float', 'bool', 'unsigned char')
    """
    element = dt.element_of(dtype)
    if dt.is_bool(element):
        return "bool"
    return "float" if element in HALVES else memory_type(element)


def is_half(dtype: str) -> bool:
    """Whether a dtype is a float of 16 bits, whose values are floats of 32 bits while they are computed with."""
    return dt.element_of(dtype) in HALVES


def is_float8(dtype: str) -> bool:
    """Whether a dtype is one of :data:`FLOAT8`."""
    return dt.element_of(dtype) in FLOAT8
