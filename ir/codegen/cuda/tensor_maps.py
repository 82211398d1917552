"""Tensor maps as the CUDA driver makes them (``cuTensorMapEncodeTiled``): what a host function tells it of a tensor, in its numbers."""

from __future__ import annotations

from typing import NamedTuple

from ... import dtype as dt
from ...tir import expr as E
from ...tir.intrinsic.bulk_copies import LAYOUT_FROM
from ..error import CodegenError

ENCODE = "tir.tensor_map_encode_tiled"
_UNSIGNED_BYTES = 0
_TYPES = {
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "int32": 3,
    "uint32": 2,
    "uint16": 1,
    "int64": 5,
    "uint64": 4,
}
"""CUtensorMapDataType; elements of a byte are moved as they are."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle by bytes."""
PLAIN, ZEROS = 0, 0
"""CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE."""
PROMOTED = 3
"""CU_TENSOR_MAP_L2_PROMOTION_L2_256B: neighbouring boxes follow."""


class ToldTensor(NamedTuple):
    """What the driver is told; numbers of dimensions are int64, from the outermost dimension to the innermost one."""

    kind: int
    address: E.PrimExpr
    swizzle: int
    """In bytes."""
    shape: tuple[E.PrimExpr, ...]
    strides: tuple[E.PrimExpr, ...]
    """In bytes."""
    box: tuple[E.PrimExpr, ...]


def told_tensor(call: E.Call) -> ToldTensor:
    """What a call of :func:`~ir.tir.intrinsic.bulk_copies.tensor_map_encode_tiled` asks for.

    Raises:
        CodegenError: there are no maps of tensors of its dtype.
    """
    address, name, swizzle = call.args[:LAYOUT_FROM]
    dtype, swizzled = str(name.value), int(swizzle.value)  # type: ignore[attr-defined]
    kind = _TYPES.get(dtype, _UNSIGNED_BYTES if dt.bytes_of(dtype) == 1 else None)
    if kind is None:
        raise CodegenError(
            f"there are no tensor maps of {dtype}; there are those of {', '.join(_TYPES)} and of bytes"
        )
    layout = [item.astype("int64") for item in call.args[LAYOUT_FROM:]]
    rank = len(layout) // 3
    width = E.IntImm("int64", dt.bytes_of(dtype))
    shape, strides, box = (tuple(layout[first : first + rank]) for first in (0, rank, 2 * rank))
    return ToldTensor(kind, address, swizzled, shape, tuple([item * width for item in strides]), box)


def is_encoding(value: object) -> bool:
    """Whether an expression makes a tensor map."""
    return isinstance(value, E.Call) and getattr(value.op, "name", "") == ENCODE
