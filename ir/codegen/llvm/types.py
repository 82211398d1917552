"""TIR dtypes as LLVM types, in registers and in memory."""

from __future__ import annotations

from functools import cache

from ... import dtype as dt
from ..error import CodegenError
from .builder import vector
from .rounding import FLOATS_IN_INTEGERS

_FLOATS = {16: "half", 32: "float", 64: "double"}


@cache
def register_type(dtype: str) -> str:
    """The type of a value: bool is ``i1``, bfloat16 its bits as ``i16``, a float of at most eight bits its bits as ``i8``."""
    code, bits, lanes = dt.parse(dtype)
    if code == "handle":
        return "ptr"
    if code == "void":
        return "void"
    if code == "bool":
        return vector("i1", lanes)
    if code in FLOATS_IN_INTEGERS:
        return vector(f"i{max(bits, 8)}", lanes)
    if code == "float":
        if bits not in _FLOATS:
            raise CodegenError(f"code generation has no dtype {dtype}")
        return vector(_FLOATS[bits], lanes)
    if code in ("int", "uint"):
        return vector(f"i{bits}", lanes)
    raise CodegenError(f"code generation has no dtype {dtype}")


@cache
def memory_type(dtype: str) -> str:
    """The type of an element in memory: bool and integers of a few bits take a byte, in vectors too, which LLVM would pack."""
    if dt.is_integral(dtype) and dt.bits(dtype) < 8:
        return vector("i8", dt.lanes(dtype))
    return register_type(dtype)


@cache
def element_bytes(dtype: str) -> int:
    """Bytes of one lane in memory, which is what accesses are aligned to."""
    return max(1, dt.bits(dtype) // 8)
