"""Intrinsics of lowered programs: packed calls, structs of the runtime, vectors, tensor cores, profiling.

Programs in the text form spell them ``T.<name>``; here are the functions that build them from Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtype as dt
from .expr import Call, PrimExpr, StringImm
from .op import type_annotation, vscale
from .operators import convert
from .stmt import Evaluate, SeqStmt, Stmt


def _call(dtype: str, name: str, *args: Any) -> Call:
    return Call(dtype, f"tir.{name}", tuple(StringImm(a) if isinstance(a, str) else a for a in args))


# ---- packed calls and the runtime's structs ---------------------------------------------------------------------


def call_packed_lowered(*args: Any) -> Call:
    """Call a packed function by name, with arguments that lie on the stack already."""
    return _call("int32", "tvm_call_packed_lowered", *args)


def call_cpacked_lowered(*args: Any) -> Call:
    """Call a packed C function by name, with arguments that lie on the stack already."""
    return _call("int32", "tvm_call_cpacked_lowered", *args)


def tvm_tuple(*value: Any) -> Call:
    """Several values as one, for attributes of statements."""
    return _call("handle", "tvm_tuple", *value)


def tvm_struct_get(arr: Any, index: Any, field: int, dtype: str) -> Call:
    """A field of the ``index``-th struct at ``arr``, of ``dtype``."""
    return _call(dtype, "tvm_struct_get", arr, index, field)


def tvm_struct_set(arr: Any, index: Any, field: int, value: Any) -> Call:
    """Set a field of the ``index``-th struct at ``arr``."""
    return _call("int32", "tvm_struct_set", arr, index, field, value)


def tvm_stack_alloca(dtype_str: str, num: Any) -> Call:
    """Memory on the stack for ``num`` items of a kind ("shape", "array", "arg_value", ...)."""
    return _call("handle", "tvm_stack_alloca", dtype_str, num)


def tvm_stack_make_shape(*args: Any) -> Call:
    """A shape on the stack."""
    return _call("handle", "tvm_stack_make_shape", *args)


def tvm_stack_make_array(
    data: Any, shape: Any, strides: Any, ndim: Any, arr_dtype: Any, elem_offset: Any
) -> Call:
    """An array struct on the stack, for packed functions that take tensors."""
    return _call("handle", "tvm_stack_make_array", data, shape, strides, ndim, arr_dtype, elem_offset)


def tvm_throw_last_error() -> Call:
    """Raise the error that a call recorded."""
    return _call("handle", "tvm_throw_last_error")


def lookup_param(param_name: str) -> Call:
    """The constant parameter of a name."""
    return _call("handle", "lookup_param", param_name)


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: int) -> Call:
    """A pointer into a buffer with the extent and the mask (1 read, 2 write) of what is accessed through it."""
    annotation = type_annotation(ptype) if isinstance(ptype, str) else ptype
    return _call("handle", "tvm_access_ptr", annotation, data, offset, extent, rw_mask)


def handle_add_byte_offset(handle: Any, offset: Any) -> Call:
    """A pointer moved by a number of bytes."""
    return _call("handle", "handle_add_byte_offset", handle, offset)


def TVMBackendAllocWorkspace(
    device_type: Any, device_id: Any, nbytes: Any, dtype_code_hint: Any, dtype_bits_hint: Any
) -> Call:
    """Temporary memory from the runtime."""
    return _call(
        "handle",
        "TVMBackendAllocWorkspace",
        device_type,
        device_id,
        nbytes,
        dtype_code_hint,
        dtype_bits_hint,
    )


def TVMBackendFreeWorkspace(device_type: Any, device_id: Any, ptr: Any) -> Call:
    """Give temporary memory back to the runtime."""
    return _call("int32", "TVMBackendFreeWorkspace", device_type, device_id, ptr)


# ---- vectors ----------------------------------------------------------------------------------------------------


def vectorlow(dtype: str, vec: Any) -> Call:
    """The first half of a vector."""
    return _call(dtype, "vectorlow", vec)


def vectorhigh(dtype: str, vec: Any) -> Call:
    """The second half of a vector."""
    return _call(dtype, "vectorhigh", vec)


def vectorcombine(dtype: str, vec1: Any, vec2: Any) -> Call:
    """Two vectors one after the other."""
    return _call(dtype, "vectorcombine", vec1, vec2)


def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> Call:
    """The dot product of two vectors of four bytes, added to ``acc``."""
    return _call("int32", "dp4a", vec1, vec2, convert(acc, "int32"))


def get_active_lane_mask(dtype: str, base: Any, limit: Any) -> Call:
    """The mask of the lanes for which ``base + lane < limit``."""
    return _call(dtype, "get_active_lane_mask", base, limit)


def get_vscale_expr(dtype: str, min_size: int = 128) -> PrimExpr:
    """The lanes of a scalable vector of ``dtype`` whose smallest size is ``min_size`` bits."""
    return (min_size // dt.bits(dtype)) * vscale()


def ignore_loop_partition(predicate: Any) -> Call:
    """A condition for which loops are not split."""
    return _call("bool", "ignore_loop_partition", predicate)


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> Call:
    """Multiplication of fixed-point numbers with ``q`` fractional bits, shifted left before and right after."""
    return _call(
        "int32", "q_multiply_shift_per_axis", x, y, ls, rs, q, is_lshift_required, is_rshift_required
    )


# ---- threads and tensor cores -----------------------------------------------------------------------------------


def tvm_thread_allreduce(*freduce_args: Any) -> Call:
    """Reduce values over the threads of a block: ``(size, values..., condition, results..., thread variables...)``."""
    return _call("handle", "tvm_thread_allreduce", *[convert(item) for item in freduce_args])


def tvm_load_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: str
) -> Call:
    """Load a fragment of a matrix into registers of tensor cores."""
    return _call("handle", "tvm_load_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


def tvm_store_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: str
) -> Call:
    """Store a fragment of a matrix from registers of tensor cores."""
    return _call("handle", "tvm_store_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


def tvm_mma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """``d = a @ b + c`` on fragments."""
    return _call(
        "handle",
        "tvm_mma_sync",
        fragment_d,
        index_d,
        fragment_a,
        index_a,
        fragment_b,
        index_b,
        fragment_c,
        index_c,
    )


def tvm_bmma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """``d = a @ b + c`` on fragments of bits."""
    return _call(
        "handle",
        "tvm_bmma_sync",
        fragment_d,
        index_d,
        fragment_a,
        index_a,
        fragment_b,
        index_b,
        fragment_c,
        index_c,
    )


def tvm_fill_fragment(fragment: Any, m: Any, n: Any, k: Any, index: Any, value: Any) -> Call:
    """Fill a fragment with a value."""
    return _call("handle", "tvm_fill_fragment", fragment, m, n, k, index, value)


# ---- profiling, statements --------------------------------------------------------------------------------------


def start_profile_intrinsic(id: int) -> Call:
    """Note the time at which a numbered part begins."""
    return _call("handle", "start_profile_intrinsic", id)


def end_profile_intrinsic(id: int) -> Call:
    """Note the time at which a numbered part ends."""
    return _call("handle", "end_profile_intrinsic", id)


def stmt_seq(*args: PrimExpr | Stmt) -> SeqStmt:
    """Statements one after the other; expressions are evaluated."""
    return SeqStmt([item if isinstance(item, Stmt) else Evaluate(item) for item in args])


def stmt_list(stmt: Stmt) -> Sequence[Stmt]:
    """The statements of a sequence, those of nested sequences included."""
    if isinstance(stmt, SeqStmt):
        return [part for item in stmt.seq for part in stmt_list(item)]
    return [stmt]


__all__ = [
    "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace",
    "call_cpacked_lowered",
    "call_packed_lowered",
    "dp4a",
    "end_profile_intrinsic",
    "get_active_lane_mask",
    "get_vscale_expr",
    "handle_add_byte_offset",
    "ignore_loop_partition",
    "lookup_param",
    "q_multiply_shift_per_axis",
    "start_profile_intrinsic",
    "stmt_list",
    "stmt_seq",
    "tvm_access_ptr",
    "tvm_bmma_sync",
    "tvm_fill_fragment",
    "tvm_load_matrix_sync",
    "tvm_mma_sync",
    "tvm_stack_alloca",
    "tvm_stack_make_array",
    "tvm_stack_make_shape",
    "tvm_store_matrix_sync",
    "tvm_struct_get",
    "tvm_struct_set",
    "tvm_thread_allreduce",
    "tvm_throw_last_error",
    "tvm_tuple",
    "vectorcombine",
    "vectorhigh",
    "vectorlow",
]
