"""How the instruction ``mma`` names the types of its matrices, and the dtypes of their elements in registers."""

from __future__ import annotations

from ...error import IRValueError

_NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "f16": ("float16", ("fp16", "float16")),
    "bf16": ("bfloat16", ("bfloat16",)),
    "tf32": ("float32", ()),
    "f32": ("float32", ("fp32", "float32")),
    "f64": ("float64", ("fp64", "float64")),
    "s8": ("int8", ("int8",)),
    "u8": ("uint8", ("uint8",)),
    "s32": ("int32", ("int32",)),
    "e4m3": ("float8_e4m3fn", ("e4m3fn", "float8_e4m3fn")),
    "e5m2": ("float8_e5m2", ("float8_e5m2",)),
}
"""By the name in PTX: the dtype, and other names for it."""


def ptx_type(name: str) -> str:
    """The name in PTX of a type that ``ptx_mma`` is given.

    >>> ptx_type("fp16"), ptx_type("int8"), ptx_type("tf32")
    ('f16', 's8', 'tf32')

    Raises:
        IRValueError: there is no such type.
    """
    plain = name.removeprefix(".")
    for found, (_, others) in _NAMES.items():
        if plain == found or plain in others:
            return found
    raise IRValueError(f"mma has no matrices of type {name!r}; there are {', '.join(_NAMES)}")


def matrix_dtype(name: str) -> str:
    """The dtype of the elements in registers; those of tf32 are float32.

    >>> matrix_dtype("bf16"), matrix_dtype("tf32")
    ('bfloat16', 'float32')

    Raises:
        IRValueError: there is no such type.
    """
    return _NAMES[ptx_type(name)][0]
