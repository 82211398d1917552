"""Which floats of at most 16 bits targets compute with, and which they convert, in instructions.

Sources: PTX ISA, target notes of ``add``, ``mul`` and ``fma`` of half precision and of ``cvt``. Code for a CPU converts all of them (in
integer arithmetic where the machine has no instructions), and computes with float16 alone.
"""

from __future__ import annotations

_ARITHMETIC = {"float16": 53, "bfloat16": 80}
"""The first architecture of CUDA that adds and multiplies numbers of a dtype."""
_CONVERSION = {"float16": 53, "bfloat16": 80, "float8_e4m3fn": 89, "float8_e5m2": 89}
"""The first architecture of CUDA that rounds float32 to a dtype."""
_EXTREMES = 80
"""The first architecture of CUDA with ``min`` and ``max`` of floats of 16 bits."""


def has_half_extremes(architecture: int) -> bool:
    """Whether an architecture of CUDA, by number, has instructions for the smaller and the larger of two floats of 16 bits."""
    return architecture >= _EXTREMES


def has_arithmetic(dtype: str, architecture: int) -> bool:
    """Whether an architecture of CUDA, by number, adds and multiplies floats of a dtype of at most 16 bits.

    >>> has_arithmetic("bfloat16", 75), has_arithmetic("bfloat16", 80), has_arithmetic("float8_e5m2", 90)
    (False, True, False)
    """
    return architecture >= _ARITHMETIC.get(dtype, architecture + 1)


def has_conversion(dtype: str, architecture: int) -> bool:
    """Whether an architecture of CUDA, by number, rounds float32 to a float dtype of at most 16 bits.

    >>> has_conversion("float8_e4m3fn", 86), has_conversion("float8_e4m3fn", 89), has_conversion("float8_e4m3", 90)
    (False, True, False)
    """
    return architecture >= _CONVERSION.get(dtype, architecture + 1)
