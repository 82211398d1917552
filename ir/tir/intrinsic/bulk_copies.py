"""Copies of many bytes by hardware of their own (PTX's ``cp.async.bulk``): a thread begins one, and a barrier tells when it is done.

Boxes of tensors are described by tensor maps, which the host makes: a kernel is given them as parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...error import IRTypeError
from ...type import PointerType
from ..expr import Call, IntImm, PrimExpr, Var
from .declaration import CallEffectKind, call, intrinsic, primitive

TENSOR_MAP_SCOPE = "tensor_map"
"""The scope that the type of a variable tells which is bound to a tensor map: a kernel has it as a parameter of its own kind."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes within which pieces of 16 bytes are exchanged in shared memory; of 0, none are."""
MOST_DIMENSIONS = 5
LAYOUT_FROM = 3
"""The first argument of a tensor map that tells of dimensions."""


def is_tensor_map(var: Var) -> bool:
    """Whether a variable is bound to a tensor map."""
    pointer = var.type_annotation
    return isinstance(pointer, PointerType) and pointer.storage_scope == TENSOR_MAP_SCOPE


def _check_layout(result: str, args: Sequence[PrimExpr]) -> None:
    rank, rest = divmod(len(args) - LAYOUT_FROM, 3)
    if rest or not 1 <= rank <= MOST_DIMENSIONS:
        raise IRTypeError(
            f"tensor_map_encode_tiled takes a shape, strides and a box of 1 to {MOST_DIMENSIONS} numbers each, got"
            f" {len(args) - LAYOUT_FROM} numbers"
        )
    swizzle = args[2]
    if not isinstance(swizzle, IntImm) or swizzle.value not in SWIZZLES:
        raise IRTypeError(
            f"a tensor map swizzles within one of {', '.join(map(str, SWIZZLES))} bytes, got {swizzle}"
        )


@intrinsic(
    arity=(LAYOUT_FROM + 3, LAYOUT_FROM + 3 * MOST_DIMENSIONS),
    result="handle",
    effect=CallEffectKind.READ_STATE,
    lowering={"default": primitive},
    check=_check_layout,
)
def tensor_map_encode_tiled(address: Any, dtype: str, swizzle: Any, *layout: Any) -> Call:
    """The map of a tensor in global memory, for copies of boxes of it.

    Args:
        address: of its first element, a multiple of 16 bytes.
        dtype: of its elements.
        swizzle: bytes within which a copy exchanges the pieces of 16 bytes of a box's rows (128, 64, 32; 0 for none): at byte ``x`` of
            shared memory bits 4 to 6 (5, 4) of ``x`` are crossed with bits 7 to 9 (8, 7) of it.
        layout: the shape, the strides (in elements; the last one is 1, the others are multiples of 16 bytes) and the box, each from the
            outermost dimension to the innermost one. A box has at most 256 elements in a dimension, and rows of a multiple of 16 bytes,
            at most ``swizzle`` if that is not 0.
    """
    return call("tensor_map_encode_tiled", address, dtype, swizzle, *layout)


@intrinsic(arity=6, result=None, effect=CallEffectKind.UPDATE_STATE, lowering={"cuda": primitive})
def ptx_cp_async_bulk(
    dtype: str,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: Any,
    barrier_id: Any,
) -> Call:
    """Begin to copy bytes from global to shared memory, a multiple of 16 of them from and to multiples of 16; a barrier is told of them."""
    return call(
        "ptx_cp_async_bulk",
        shared_ptr,
        shared_offset,
        global_ptr,
        global_offset,
        bytes,
        barrier_id,
        dtype=dtype,
    )


@intrinsic(
    arity=(5, 4 + MOST_DIMENSIONS),
    result=None,
    effect=CallEffectKind.UPDATE_STATE,
    lowering={"cuda": primitive},
)
def ptx_cp_async_bulk_tensor(
    dtype: str, shared_ptr: Any, shared_offset: Any, tensor_map: Any, barrier_id: Any, *coordinates: Any
) -> Call:
    """Begin to copy a box of a tensor from global to shared memory; a barrier is told of the box's bytes.

    Args:
        dtype: of the elements.
        shared_ptr: where to.
        shared_offset: elements to go from there; the box begins at a multiple of 128 bytes.
        tensor_map: of the tensor.
        barrier_id: the barrier.
        coordinates: of the box's first element, from the outermost dimension to the innermost one. What is outside of the tensor is zero.
    """
    return call(
        "ptx_cp_async_bulk_tensor",
        shared_ptr,
        shared_offset,
        tensor_map,
        barrier_id,
        *coordinates,
        dtype=dtype,
    )
