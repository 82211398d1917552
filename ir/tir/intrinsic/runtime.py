"""What the runtime of compiled code offers: calls of packed functions with arguments on the stack, structs, workspaces, profiling."""

from __future__ import annotations

from typing import Any

from ..expr import Call
from .declaration import CallEffectKind, call, intrinsic, primitive

# ---- packed calls ------------------------------------------------------------------------------------------------


@intrinsic(
    name="tvm_call_packed_lowered",
    arity=(1, None),
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    foreign=True,
)
def call_packed_lowered(*args: Any) -> Call:
    """Call a packed function by name, with arguments that lie on the stack already."""
    return call("tvm_call_packed_lowered", *args)


@intrinsic(
    name="tvm_call_cpacked_lowered",
    arity=(1, None),
    result="int32",
    effect=CallEffectKind.UPDATE_STATE,
    foreign=True,
)
def call_cpacked_lowered(*args: Any) -> Call:
    """Call a packed C function by name, with arguments that lie on the stack already."""
    return call("tvm_call_cpacked_lowered", *args)


@intrinsic(arity=3, result="int32", effect=CallEffectKind.UPDATE_STATE)
def tvm_check_return(expected: Any, return_unexpected: Any, nested_call: Any) -> Call:
    """Return ``return_unexpected`` unless the call gives ``expected``."""
    return call("tvm_check_return", expected, return_unexpected, nested_call)


@intrinsic(arity=0, result="handle", effect=CallEffectKind.UPDATE_STATE)
def tvm_throw_last_error() -> Call:
    """Raise the error that a call recorded."""
    return call("tvm_throw_last_error")


# ---- structs on the stack ----------------------------------------------------------------------------------------


@intrinsic(arity=(0, None), result="handle", effect=CallEffectKind.UPDATE_STATE)
def tvm_tuple(*value: Any) -> Call:
    """Several values as one, for attributes of statements."""
    return call("tvm_tuple", *value)


@intrinsic(arity=3, result=None, effect=CallEffectKind.READ_STATE, lowering={"llvm": primitive})
def tvm_struct_get(arr: Any, index: Any, field: int, dtype: str) -> Call:
    """A field of the ``index``-th struct at ``arr``, of ``dtype``."""
    return call("tvm_struct_get", arr, index, field, dtype=dtype)


@intrinsic(arity=4, result="int32", effect=CallEffectKind.UPDATE_STATE, lowering={"llvm": primitive})
def tvm_struct_set(arr: Any, index: Any, field: int, value: Any) -> Call:
    """Set a field of the ``index``-th struct at ``arr``."""
    return call("tvm_struct_set", arr, index, field, value)


@intrinsic(arity=2, result="handle", effect=CallEffectKind.UPDATE_STATE)
def tvm_stack_alloca(dtype_str: str, num: Any) -> Call:
    """Memory on the stack for ``num`` items of a kind ("shape", "array", "arg_value", ...)."""
    return call("tvm_stack_alloca", dtype_str, num)


@intrinsic(arity=(0, None), result="handle", effect=CallEffectKind.UPDATE_STATE)
def tvm_stack_make_shape(*args: Any) -> Call:
    """A shape on the stack."""
    return call("tvm_stack_make_shape", *args)


@intrinsic(arity=6, result="handle", effect=CallEffectKind.UPDATE_STATE)
def tvm_stack_make_array(
    data: Any, shape: Any, strides: Any, ndim: Any, arr_dtype: Any, elem_offset: Any
) -> Call:
    """An array struct on the stack, for packed functions that take tensors."""
    return call("tvm_stack_make_array", data, shape, strides, ndim, arr_dtype, elem_offset)


# ---- memory, parameters, profiling -------------------------------------------------------------------------------


@intrinsic(arity=1, result="handle", effect=CallEffectKind.UPDATE_STATE)
def lookup_param(param_name: str) -> Call:
    """The constant parameter of a name."""
    return call("lookup_param", param_name)


@intrinsic(arity=5, result="handle", effect=CallEffectKind.UPDATE_STATE)
def TVMBackendAllocWorkspace(
    device_type: Any, device_id: Any, nbytes: Any, dtype_code_hint: Any, dtype_bits_hint: Any
) -> Call:
    """Temporary memory from the runtime."""
    return call("TVMBackendAllocWorkspace", device_type, device_id, nbytes, dtype_code_hint, dtype_bits_hint)


@intrinsic(arity=3, result="int32", effect=CallEffectKind.UPDATE_STATE)
def TVMBackendFreeWorkspace(device_type: Any, device_id: Any, ptr: Any) -> Call:
    """Give temporary memory back to the runtime."""
    return call("TVMBackendFreeWorkspace", device_type, device_id, ptr)


@intrinsic(arity=1, result="handle", effect=CallEffectKind.UPDATE_STATE)
def start_profile_intrinsic(id: int) -> Call:
    """Note the time at which a numbered part begins."""
    return call("start_profile_intrinsic", id)


@intrinsic(arity=1, result="handle", effect=CallEffectKind.UPDATE_STATE)
def end_profile_intrinsic(id: int) -> Call:
    """Note the time at which a numbered part ends."""
    return call("end_profile_intrinsic", id)
