"""Data types are plain strings such as ``"int32"``, ``"float16"``, ``"float32x8"``, ``"bool"`` or ``"handle"``.

This module answers questions about them; every function is cached, because constructors of expressions ask
them millions of times.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from .error import IRTypeError, did_you_mean

_MINIFLOATS = (
    "float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
    " float6_e2m3fn float6_e3m2fn float4_e2m1fn"
).split()
"""Floats of at most eight bits, as ml_dtypes names them; each is a code of its own."""

SCALARS: dict[str, tuple[str, int]] = {
    "void": ("void", 0),
    "handle": ("handle", 64),
    "bool": ("bool", 1),
    **{f"{kind}{bits}": (kind, bits) for kind in ("int", "uint") for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"float{bits}": ("float", bits) for bits in (16, 32, 64)},
    "bfloat16": ("bfloat", 16),
    **{name: (name, int(name[len("float")])) for name in _MINIFLOATS},
}
"""The code and the bits of every scalar dtype."""

_LANES = re.compile(r"^(\w+?)(?:x([1-9]\d*))?$")


@lru_cache(maxsize=None)
def parse(dtype: str) -> tuple[str, int, int]:
    """Split a dtype into (code, bits, lanes); the code is one of int, uint, float, bfloat, bool, handle, void, or the name
    of a float of at most eight bits.

    >>> parse("float32x8")
    ('float', 32, 8)
    >>> parse("bool")
    ('bool', 1, 1)

    Raises:
        IRTypeError: there is no such dtype.
    """
    if dtype == "":
        return ("void", 0, 1)
    if not isinstance(dtype, str):
        raise IRTypeError(f"a dtype is a string such as 'float32', got {dtype!r} ({type(dtype).__name__})")
    match = _LANES.match(dtype)
    if match is None or match[1] not in SCALARS:
        hint = did_you_mean(dtype, SCALARS, cutoff=0.5)
        raise IRTypeError(
            f"unknown dtype {dtype!r}{hint or '; expected for example float32, int8, bool or float32x4'}"
        )
    return (*SCALARS[match[1]], int(match[2] or 1))


@lru_cache(maxsize=None)
def checked(dtype: str) -> str:
    """The dtype itself, for what takes one from outside.

    Raises:
        IRTypeError: there is no such dtype.
    """
    parse(dtype)
    return dtype


@lru_cache(maxsize=None)
def code(dtype: str) -> str:
    """The kind of number without its width: ``code("float32x8") == "float"``."""
    return parse(dtype)[0]


@lru_cache(maxsize=None)
def bits(dtype: str) -> int:
    """Bits per lane."""
    return parse(dtype)[1]


@lru_cache(maxsize=None)
def lanes(dtype: str) -> int:
    """Vector lanes, 1 for scalars."""
    return parse(dtype)[2]


@lru_cache(maxsize=None)
def bytes_of(dtype: str) -> int:
    """Bytes that one element takes in memory, all lanes together; bool takes one byte per lane."""
    return (bits(dtype) + 7) // 8 * lanes(dtype)


@lru_cache(maxsize=None)
def element_of(dtype: str) -> str:
    """The scalar dtype of one lane: ``element_of("float32x8") == "float32"``."""
    return dtype.rsplit("x", 1)[0] if lanes(dtype) != 1 else dtype


@lru_cache(maxsize=None)
def with_lanes(dtype: str, n_lanes: int) -> str:
    """The same element with another number of lanes: ``with_lanes("float32", 8) == "float32x8"``."""
    element = element_of(dtype)
    return element if n_lanes == 1 else f"{element}x{n_lanes}"


@lru_cache(maxsize=None)
def is_int(dtype: str) -> bool:
    """Signed integer of any width and lanes."""
    return code(dtype) == "int"


@lru_cache(maxsize=None)
def is_uint(dtype: str) -> bool:
    """Unsigned integer of any width and lanes (bool is not one)."""
    return code(dtype) == "uint"


@lru_cache(maxsize=None)
def is_integral(dtype: str) -> bool:
    """Signed or unsigned integer, or bool."""
    return code(dtype) in ("int", "uint", "bool")


@lru_cache(maxsize=None)
def is_float(dtype: str) -> bool:
    """Any floating-point format, bfloat16 and the 8-bit ones included."""
    return code(dtype).startswith(("float", "bfloat"))


@lru_cache(maxsize=None)
def is_bool(dtype: str) -> bool:
    """Bool of any lanes."""
    return code(dtype) == "bool"


@lru_cache(maxsize=None)
def is_index(dtype: str) -> bool:
    """int32 or int64 scalar: the dtypes that indices and extents have."""
    return dtype in ("int32", "int64")


@lru_cache(maxsize=None)
def has_c_type(dtype: str) -> bool:
    """Whether C has a type for a value, so that functions can take it: half floats and vectors have none."""
    return lanes(dtype) == 1 and not (is_float(dtype) and bits(dtype) < 32)


@lru_cache(maxsize=None)
def integer_range(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integral dtype."""
    kind, width, _ = parse(dtype)
    if kind == "int":
        return (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    if kind in ("uint", "bool"):
        return (0, (1 << width) - 1)
    raise IRTypeError(f"dtype {dtype!r} is not integral and has no integer range")


@lru_cache(maxsize=None)
def to_numpy(dtype: str) -> np.dtype:
    """The numpy dtype of one element; bfloat16 and narrow numbers that numpy lacks come from ml_dtypes."""
    kind = code(dtype)
    element = element_of(dtype)
    if kind == "bool":
        return np.dtype(np.bool_)
    is_narrow = kind in ("int", "uint") and bits(element) < 8
    if kind == "bfloat" or "_" in element or is_narrow:  # numpy knows their names only once it is imported
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, element))
    return np.dtype(element)


def from_numpy(dtype: np.dtype | type | str) -> str:
    """The dtype string of a numpy dtype: ``from_numpy(np.float32) == "float32"``."""
    name = np.dtype(dtype).name if not isinstance(dtype, str) else dtype
    parse(name)
    return name
