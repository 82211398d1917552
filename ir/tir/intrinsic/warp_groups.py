"""Products of matrices in shared memory by four warps, which do not wait for them (PTX's ``wgmma``)."""

from __future__ import annotations

from typing import Any

from ..expr import Call
from .declaration import CallEffectKind, call, intrinsic, primitive

WARP_GROUP = 128
"""Threads of four warps, the first of whose numbers is a multiple of four."""
_ON_DEVICE = {"cuda": primitive}


@intrinsic(arity=18, result=None, effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_wgmma_mma_async(
    dtype: str,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: str,
    B_dtype: str,
    C_dtype: str,
    multiplicand_a: Any,
    a_index: Any,
    multiplicand_b: Any,
    b_index: Any,
    accumulator: Any,
    c_index: Any,
    scale_d: Any,
    swizzle: Any,
    a_leading_bytes: Any,
    a_stride_bytes: Any,
    b_leading_bytes: Any,
    b_stride_bytes: Any,
) -> Call:
    """Begin ``d = a @ b + d``, where shared memory holds the operands and the registers of a warp group the sums.

    An operand lies in groups of 8 rows of ``swizzle`` bytes, whose pieces of 16 bytes are exchanged as
    :func:`~ir.tir.intrinsic.bulk_copies.tensor_map_encode_tiled` says. A row runs along k where A is stored by rows or B by columns: then
    ``*_stride_bytes`` are between groups of 8 rows, and the other number counts for nothing. Else a row runs along m or n, and
    ``*_stride_bytes`` are between groups of 8 numbers k, ``*_leading_bytes`` between pieces of ``swizzle`` bytes along m or n.

    Element ``i`` of thread ``t`` is the sum at row ``t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8``, column
    ``i // 4 * 8 + t % 4 * 2 + i % 2`` (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

    Args:
        dtype: of the sums.
        shape: as ``"m64n128k16"``.
        A_layout: ``"row"``, or ``"col"`` of elements of 16 bits.
        B_layout: ``"col"``, or ``"row"`` of elements of 16 bits.
        A_dtype: as of ``ptx_mma``; ``"tf32"`` for float32, of which 19 bits count.
        B_dtype: the same.
        C_dtype: of the sums.
        multiplicand_a: the address of A, a multiple of 1024 bytes but for the step along k within a row.
        a_index: elements to go from there.
        multiplicand_b: the address of B.
        b_index: elements to go from there.
        accumulator: the address of a thread's sums.
        c_index: elements to go from there.
        scale_d: whether the sums count; else they are zero before.
        swizzle: bytes of a row: 32, 64 or 128.
        a_leading_bytes: see above; a multiple of 16, as the others.
        a_stride_bytes: see above.
        b_leading_bytes: see above.
        b_stride_bytes: see above.
    """
    return call(
        "ptx_wgmma_mma_async",
        shape,
        A_layout,
        B_layout,
        A_dtype,
        B_dtype,
        C_dtype,
        multiplicand_a,
        a_index,
        multiplicand_b,
        b_index,
        accumulator,
        c_index,
        scale_d,
        swizzle,
        a_leading_bytes,
        a_stride_bytes,
        b_leading_bytes,
        b_stride_bytes,
        dtype=dtype,
    )


@intrinsic(arity=0, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_wgmma_fence() -> Call:
    """What this thread did to registers is there for products that are begun later; it stands before the first of them."""
    return call("ptx_wgmma_fence")


@intrinsic(arity=0, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_wgmma_commit_group() -> Call:
    """Make a group of the products that were begun."""
    return call("ptx_wgmma_commit_group")


@intrinsic(arity=1, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering=_ON_DEVICE)
def ptx_wgmma_wait_group(num: Any) -> Call:
    """Wait until at most ``num`` groups of products are under way; sums and operands of the others may be used again."""
    return call("ptx_wgmma_wait_group", num)
