"""What instructions work on while they are translated: a tensor is an address with a number for each dimension, a tuple is its fields.

Nothing of these is left at run time; numbers are names of LLVM's values (``%v.5``), or digits where they are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ... import dtype as dt
from ...dlpack_layout import dlpack_dtype
from ..error import CodegenError
from ..llvm.builder import float_literal

MOST_DIMENSIONS = 8
"""Extents that the structure of a tensor in C has room for."""
TENSOR_TYPE = f"{{ ptr, [{MOST_DIMENSIONS} x i64], i32, i32 }}"
"""That structure: the data, the extents, the number of dimensions, the number of the dtype."""


class NotCallableError(CodegenError):
    """A function has no form that C can call; the message is the reason."""


@dataclass(frozen=True)
class Array:
    """A tensor that C gives or gets: its name, dtype, extents (numbers, or names of symbols), and whether the function writes to it."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    written: bool = False


def dtype_number(dtype: str) -> int:
    """What stands for a dtype in C: DLPack's code, and the bits behind it.

    >>> hex(dtype_number("float32")), hex(dtype_number("int8"))
    ('0x220', '0x8')
    """
    code, bits, lanes = dlpack_dtype(dtype)
    if lanes != 1 or bits not in (8, 16, 32, 64):
        raise NotCallableError(f"tensors of {dtype} have no form in C")
    return code << 8 | bits


@dataclass(eq=False)
class Storage:
    """Memory of a call. ``holders`` are the registers through which it is reached; where nothing reaches it any more, it is given back."""

    number: int
    pointer: str
    ends_early: bool
    holders: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Tensor:
    """A dense tensor, and the memory of the call that it lies in, if it does."""

    pointer: str
    extents: tuple[str, ...]
    dtype: str
    storage: Storage | None = None
    is_whole: bool = False
    """Whether it begins where its storage does."""


@dataclass(frozen=True)
class Shape:
    """Extents by themselves."""

    extents: tuple[str, ...]


@dataclass(frozen=True)
class Number:
    """A scalar as kernels take it, see :func:`llvm_type`."""

    value: str
    dtype: str


@dataclass(frozen=True)
class Heap:
    """The table of extents."""

    pointer: str


class Nothing:
    """What calls without a result give, and what a dead register holds."""


NOTHING = Nothing()
Value = Tensor | Shape | Number | Heap | Storage | Nothing | tuple[Any, ...] | str


def llvm_type(dtype: str) -> str:
    """How a kernel takes a number: integers as int64, floats but float64 as float."""
    if not dt.is_float(dtype):
        return "i64"
    return "double" if dtype == "float64" else "float"


def literal(value: float, kind: str) -> str:
    """A number as LLVM reads it; ``kind`` is that of :func:`llvm_type`."""
    return str(int(value)) if kind == "i64" else float_literal(float(value), kind)
