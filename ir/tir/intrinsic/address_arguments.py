"""Which arguments of intrinsics are an address and the number of elements to go from there."""

from __future__ import annotations

ADDRESSES: dict[str, tuple[tuple[int, int], ...]] = {
    "tir.tvm_access_ptr": ((1, 2),),
    "tir.ptx_cp_async": ((0, 1), (2, 3)),
    "tir.ptx_ldmatrix": ((3, 4), (5, 6)),
    "tir.ptx_ldg32": ((0, 3),),
    "tir.ptx_stmatrix": ((3, 4), (5, 6)),
    "tir.ptx_mma": ((6, 7), (8, 9), (10, 11)),
    "tir.ptx_mma_sp": ((6, 7), (8, 9), (10, 11), (12, 13)),
    "tir.mma_fill": ((1, 2),),
    "tir.mma_store": ((3, 4),),
    "tir.ptx_cp_async_bulk": ((0, 1), (2, 3)),
    "tir.ptx_cp_async_bulk_tensor": ((0, 1),),
    "tir.ptx_wgmma_mma_async": ((6, 7), (8, 9), (10, 11)),
}
"""By intrinsic: the places of addresses among its arguments, each with that of its offset in elements."""
