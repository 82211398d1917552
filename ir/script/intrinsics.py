"""Which intrinsics the text form spells how: names, results of fixed dtype, and those that take the dtype first.

The parser builds the namespace ``T`` from these tables and the printer reads them backwards, so that both agree.
"""

from __future__ import annotations

SCRIPT_NAMES: dict[str, str] = {
    "tvm_call_packed": "call_packed",
    "tvm_call_cpacked": "call_cpacked",
    "tvm_call_packed_lowered": "call_packed_lowered",
    "tvm_call_cpacked_lowered": "call_cpacked_lowered",
}
"""Intrinsics that are written under another name."""

DTYPE_FIRST = frozenset(
    "call_extern call_pure_extern call_llvm_intrin call_llvm_pure_intrin reinterpret vectorlow vectorhigh vectorcombine"
    " ptx_mma ptx_mma_sp ptx_ldmatrix ptx_cp_async mma_store mma_fill large_uint_imm texture2d_load"
    " tvm_struct_get atomic_add get_active_lane_mask".split()
)
"""Intrinsics whose first argument in the text is the dtype of the result."""

FIXED_DTYPE: dict[str, str] = {
    **dict.fromkeys(
        "tvm_call_packed tvm_call_cpacked prefetch tvm_check_return tvm_call_packed_lowered".split(), "int32"
    ),
    **dict.fromkeys("tvm_storage_sync tvm_struct_set undef vscale clz q_multiply_shift".split(), "int32"),
    **dict.fromkeys(
        "q_multiply_shift_per_axis dp4a tvm_call_cpacked_lowered TVMBackendFreeWorkspace".split(), "int32"
    ),
    **dict.fromkeys("ptx_commit_group ptx_wait_group tvm_warp_activemask".split(), "int32"),
    **dict.fromkeys(
        "address_of tvm_access_ptr tvm_stack_alloca tvm_tuple tvm_thread_allreduce buffer_offset".split(),
        "handle",
    ),
    **dict.fromkeys(
        "tvm_load_matrix_sync tvm_store_matrix_sync tvm_mma_sync tvm_fill_fragment tvm_bmma_sync".split(),
        "handle",
    ),
    **dict.fromkeys("texture2d_store start_profile_intrinsic end_profile_intrinsic".split(), "handle"),
    **dict.fromkeys(
        "lookup_param tvm_throw_last_error tvm_stack_make_shape tvm_stack_make_array"
        " handle_add_byte_offset TVMBackendAllocWorkspace".split(),
        "handle",
    ),
    **dict.fromkeys("isnullptr assume tvm_thread_invariant ignore_loop_partition".split(), "bool"),
    **dict.fromkeys(
        "fabs bitwise_not ret popcount likely tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down".split(),
        "",
    ),
}
"""Intrinsics whose result has one dtype; "" is the dtype of the first argument. Others are built by :mod:`ir.tir.op`."""
