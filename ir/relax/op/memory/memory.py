"""Storage, tensors in storage, views of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import dtype as dt
from ....expr import RelaxExpr
from ....registry import register_func
from ....tir.expr import IntImm
from ...expr import Call, DataTypeImm, Expr, PrimValue, ShapeExpr, StringImm, convert_to_expr
from ...function import ExternFunc
from ...struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..base import call_pure_packed, null_value, shape_of
from ..declaration import call, operator
from ..inference import (
    as_int,
    check_arity,
    fail,
    int64,
    product,
    shape_arg,
    shape_target,
    simplify,
    tensor_arg,
    wrong_kind,
)
from ..lowering import as_reshape, packed, shape_of_result
from ..memory_effect import EFFECT, FRESH, IDENTITY, declare_external, releases, view_of


def as_shape(shape: Any) -> Expr:
    """A shape expression of a sequence of extents."""
    return shape if isinstance(shape, RelaxExpr) else ShapeExpr(shape)


def as_dtype(value: Any) -> Expr:
    """A dtype as an argument."""
    return DataTypeImm(value) if isinstance(value, str) else value


def as_string(value: Any) -> Expr:
    """A string as an argument."""
    return StringImm(value) if isinstance(value, str) else value


def dtype_arg(node: Call, index: int) -> str:
    """The dtype given as an argument."""
    value = node.args[index]
    if not isinstance(value, DataTypeImm):
        raise wrong_kind(node, f"argument {index} must be a dtype, got {value}")
    return value.value


def _lower_storage(node: Call) -> Call:
    size, device, scope, _ = node.args
    args = (size, device, DataTypeImm("uint8"), scope)  # the size is in bytes
    return Call("relax.vm.alloc_storage", args, None, None, node.span)


def _lower_tensor(node: Call) -> Call:
    return Call("relax.vm.alloc_tensor", node.args[:4], None, None, node.span, node.struct_info_)


def _lower_kill(node: Call) -> Call:
    return Call("relax.vm.kill_object", node.args, None, None, node.span)


@operator(
    "relax.memory.alloc_storage",
    infer=lambda node, builder: ObjectStructInfo(),
    memory=IDENTITY | EFFECT,
    lowering=_lower_storage,
    is_lowered=True,
)
def alloc_storage(size: Any, virtual_device_index: Any, storage_scope: str | Expr, dtype: str | Expr) -> Call:
    """Allocate storage of ``size`` bytes (a shape of one extent)."""
    if isinstance(size, int):
        size = [size]
    device = convert_to_expr(virtual_device_index)
    return call(
        "relax.memory.alloc_storage", as_shape(size), device, as_string(storage_scope), as_dtype(dtype)
    )


def infer_alloc_tensor(node: Call, builder: Any) -> StructInfo:
    """A tensor of the shape and dtype given as third and fourth argument."""
    shape_arg(node, 2)
    return TensorStructInfo(shape_target(node, 2), dtype_arg(node, 3))


@operator(
    "relax.memory.alloc_tensor",
    infer=infer_alloc_tensor,
    memory=view_of(0) | IDENTITY | EFFECT,
    lowering=_lower_tensor,
    is_lowered=True,
)
def alloc_tensor(
    storage: Expr, offset: Any, shape: Any, dtype: str | Expr, runtime_device_ind: Any = None
) -> Call:
    """A tensor in storage, ``offset`` bytes from its begin."""
    args = [storage, convert_to_expr(offset), as_shape(shape), as_dtype(dtype)]
    if runtime_device_ind is not None:
        args.append(convert_to_expr(runtime_device_ind))
    return call("relax.memory.alloc_tensor", *args)


def _infer_nothing(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    return TupleStructInfo(())


@operator(
    "relax.memory.kill_storage",
    infer=_infer_nothing,
    memory=releases(0) | EFFECT,
    lowering=_lower_kill,
    is_lowered=True,
)
def kill_storage(storage: Expr) -> Call:
    """Release storage."""
    return call("relax.memory.kill_storage", storage)


@operator(
    "relax.memory.kill_tensor",
    infer=_infer_nothing,
    memory=releases(0) | EFFECT,
    lowering=_lower_kill,
    is_lowered=True,
)
def kill_tensor(tensor: Expr) -> Call:
    """Release a tensor (its storage stays)."""
    return call("relax.memory.kill_tensor", tensor)


def _infer_view(node: Call, builder: Any) -> StructInfo:
    info = tensor_arg(node, 0)
    if len(node.args) != 4:
        raise fail(node, f"expected 4 arguments, got {len(node.args)}")
    shape, dtype, offset = node.args[1:]
    new_dtype = dtype.value if isinstance(dtype, DataTypeImm) else info.dtype
    start = 0
    if isinstance(offset.struct_info, PrimStructInfo):
        value = offset.struct_info.value
        start = value.value if isinstance(value, IntImm) else -1
        if isinstance(value, IntImm) and value.value < 0:
            raise fail(node, f"relative_byte_offset must not be negative, got {value.value}")
    if isinstance(shape.struct_info, ShapeStructInfo):
        result = TensorStructInfo(shape_target(node, 1), new_dtype, info.vdevice)
    else:
        result = _reinterpreted(node, info, new_dtype, start)
    before, after = _static_bytes(info), _static_bytes(result)
    if before is not None and after is not None and max(start, 0) + after > before:
        raise fail(node, f"the view needs {max(start, 0) + after} bytes, the tensor has {before}")
    return result


def _reinterpreted(node: Call, info: TensorStructInfo, dtype: str, start: int) -> TensorStructInfo:
    """Without a shape the view covers the whole tensor, which must then fit."""
    if start != 0:
        raise fail(node, "a relative_byte_offset needs a shape as well")
    if not dtype or not info.dtype:
        return TensorStructInfo(None, dtype, info.vdevice, info.ndim)
    if dt.bytes_of(dtype) == dt.bytes_of(info.dtype):
        return TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim)
    if info.shape_values is None:
        return TensorStructInfo(None, dtype, info.vdevice)
    if len(info.shape_values) != 1:
        raise fail(
            node, f"a view from {info.dtype} to {dtype} changes the number of elements and needs a shape"
        )
    total = simplify(info.shape_values[0] * dt.bytes_of(info.dtype))
    size = as_int(total)
    if size is not None and size % dt.bytes_of(dtype):
        raise fail(node, f"{size} bytes are no whole number of {dtype} elements")
    return TensorStructInfo([simplify(total // dt.bytes_of(dtype))], dtype, info.vdevice)


def _static_bytes(info: TensorStructInfo) -> int | None:
    if info.shape_values is None or not info.dtype:
        return None
    count = as_int(simplify(product(info.shape_values)))
    return None if count is None else count * dt.bytes_of(info.dtype)


def _legalize_view(bb: Any, node: Call) -> Expr:
    """Everything that was left out is filled in; what is more than another shape becomes a call of the runtime."""
    data, shape, dtype, offset = node.args
    info = node.struct_info
    if not isinstance(shape.struct_info, ShapeStructInfo):
        shape = info.shape if info.shape is not None else bb.emit(shape_of(data))
    if not isinstance(dtype, DataTypeImm):
        dtype = DataTypeImm(info.dtype)
    if not isinstance(offset.struct_info, PrimStructInfo):
        offset = PrimValue(int64(0))
    at_begin = isinstance(offset, PrimValue) and as_int(offset.value) == 0
    if at_begin and dtype.value == data.struct_info.dtype:
        return call("relax.memory.view", data, shape, dtype, offset)
    return call_pure_packed("runtime.TVMArrayCreateView", data, shape, dtype, offset, sinfo_args=[info])


def _np_view(
    x: np.ndarray, shape: Any = None, dtype: Any = None, relative_byte_offset: int = 0
) -> np.ndarray:
    kind = np.dtype(dtype) if dtype else x.dtype
    raw = np.ascontiguousarray(x).view(np.uint8).reshape(-1)[int(relative_byte_offset or 0) :]
    count = int(np.prod(shape)) if shape is not None else raw.size // kind.itemsize
    return raw[: count * kind.itemsize].view(kind).reshape(x.shape if shape is None else shape)


declare_external("runtime.TVMArrayCreateView", FRESH)


@register_func("runtime.TVMArrayCreateView", override=True)
def run_create_view(data: Any, shape: Any, dtype: str, relative_byte_offset: int) -> np.ndarray:
    """The elements of a view; a copy, for the planned memory of ``data`` may be used again while the view lives."""
    array = data.numpy() if hasattr(data, "numpy") else np.asarray(data)
    return _np_view(
        array, tuple(int(dim) for dim in shape), dt.to_numpy(str(dtype)), int(relative_byte_offset)
    ).copy()


def _lower_view(node: Call) -> Call:
    """A view that is more than another shape is made by the runtime, which gets what was left out as well."""
    data, _, _, offset = node.args
    info: Any = node.struct_info
    begin: Any = offset.value if isinstance(offset, PrimValue) else 0
    if info.dtype == data.struct_info.dtype and getattr(begin, "value", begin) == 0:  # type: ignore[attr-defined]
        return as_reshape(node)
    args = (data, shape_of_result(node), DataTypeImm(info.dtype), PrimValue(begin))
    return Call(ExternFunc("runtime.TVMArrayCreateView"), args, None, [info], node.span, info)


@operator(
    "relax.memory.view",
    infer=_infer_view,
    legalize=_legalize_view,
    reference=_np_view,
    memory=view_of(0),
    lowering=_lower_view,
)
def view(
    data: Expr, shape: Any = None, dtype: str | Expr | None = None, relative_byte_offset: Any = None
) -> Call:
    """Another view of a tensor's memory, without a copy.

    Args:
        data: the tensor.
        shape: of the view; default that of ``data``.
        dtype: of the view; default that of ``data``.
        relative_byte_offset: where the view begins in ``data``; default 0.
    """

    def given(value: Any, convert: Any) -> Expr:
        return null_value() if value is None else convert(value)

    return call(
        "relax.memory.view",
        data,
        given(shape, as_shape),
        given(dtype, as_dtype),
        given(relative_byte_offset, convert_to_expr),
    )


def _infer_zero_offset(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    return tensor_arg(node, 0)


@operator(
    "relax.memory.ensure_zero_offset",
    infer=_infer_zero_offset,
    reference=lambda x: x,
    memory=view_of(0),
    lowering=packed("vm.builtin.to_device"),
    is_lowered=True,
)
def ensure_zero_offset(data: Expr) -> Call:
    """The tensor, copied if its first element is not at the begin of its memory."""
    return call("relax.memory.ensure_zero_offset", data)


__all__ = ["alloc_storage", "alloc_tensor", "ensure_zero_offset", "kill_storage", "kill_tensor", "view"]
