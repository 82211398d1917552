"""Reading the fields of a tensor's descriptor when the program runs: strides, offsets, dtype, extents."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ...registry import register_func
from ...tir.expr import IntImm, PrimExpr
from ..expr import Call, Expr, PrimValue, convert_to_expr
from ..struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from .base import call_pure_packed
from .declaration import call, operator
from .inference import fail, int64, prim_arg, simplify, tensor_arg
from .memory_effect import FRESH, declare_external

_CODES: dict[str, int] = {"int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "bool": 1}


def _array(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def _dtype(value: Any) -> str:
    return dt.from_numpy(_array(value).dtype)


_RUN: dict[str, Any] = {
    "tensor_dtype_code": lambda x: _CODES[dt.code(_dtype(x))],
    "tensor_dtype_bits": lambda x: 8 if dt.is_bool(_dtype(x)) else dt.bits(_dtype(x)),
    "tensor_dtype_lanes": lambda x: 1,
    "tensor_ndim": lambda x: _array(x).ndim,
    "tensor_byte_offset": lambda x: 0,
    "tensor_elem_offset": lambda x: 0,
    "tensor_shape_i": lambda x, axis: _array(x).shape[int(axis)],
    "tensor_stride_i": lambda x, axis: int(np.prod(_array(x).shape[int(axis) + 1 :], dtype="int64")),
}
"""What the operators do when the program runs and the answer was not known before; tensors are compact."""

for _name, _function in _RUN.items():
    register_func(f"relax.run.{_name}", _function, override=True)
    declare_external(f"relax.run.{_name}", FRESH)


def _field(name: str, dtype: str, known: Any, doc: str) -> Any:
    def infer(node: Call, builder: Any) -> StructInfo:
        info = tensor_arg(node, 0)
        if len(node.args) != 1:
            raise fail(node, f"expected 1 argument, got {len(node.args)}")
        value = known(info)
        return PrimStructInfo(dtype) if value is None else PrimStructInfo(value=IntImm(dtype, value))

    def legalize(bb: Any, node: Call) -> Expr:
        info = infer(node, bb)
        assert isinstance(info, PrimStructInfo)
        if info.value is not None:
            return PrimValue(info.value)

        return call_pure_packed(f"relax.run.{name}", node.args[0], sinfo_args=info)

    def build(expr: Expr) -> Call:
        return call(f"relax.inspect.{name}", expr)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return operator(f"relax.inspect.{name}", infer=infer, legalize=legalize)(build)


def _known(read: Any) -> Any:
    return lambda info: read(info.dtype) if info.dtype else None


tensor_dtype_code = _field(
    "tensor_dtype_code",
    "uint8",
    _known(lambda d: _CODES[dt.code(d)]),
    "The number of the dtype's kind, as in DLPack.",
)
tensor_dtype_bits = _field(
    "tensor_dtype_bits",
    "uint8",
    _known(lambda d: 8 if dt.is_bool(d) else dt.bits(d)),
    "The bits of an element.",
)
tensor_dtype_lanes = _field("tensor_dtype_lanes", "uint16", _known(dt.lanes), "The lanes of an element.")
tensor_ndim = _field(
    "tensor_ndim", "int32", lambda info: None if info.ndim == -1 else info.ndim, "The number of dimensions."
)
tensor_byte_offset = _field(
    "tensor_byte_offset", "uint64", lambda info: 0, "The offset of the first element in bytes."
)
tensor_elem_offset = _field(
    "tensor_elem_offset", "uint64", lambda info: 0, "The offset of the first element in elements."
)


def _entry(node: Call) -> tuple[TensorStructInfo, int | None]:
    info = tensor_arg(node, 0)
    axis = prim_arg(node, 1)
    number = axis.value if isinstance(axis, IntImm) else None
    if number is not None and info.ndim != -1 and not 0 <= number < info.ndim:
        raise fail(node, f"axis {number} is out of range for {info.ndim} dimensions")
    return info, number


def _infer_shape_i(node: Call, builder: Any) -> StructInfo:
    info, axis = _entry(node)
    if axis is None or info.shape_values is None:
        return PrimStructInfo("int64")
    return PrimStructInfo(value=info.shape_values[axis])


def _infer_stride_i(node: Call, builder: Any) -> StructInfo:
    info, axis = _entry(node)
    if axis is None or info.shape_values is None:
        return PrimStructInfo("int64")
    stride: PrimExpr = int64(1)
    for extent in info.shape_values[axis + 1 :]:
        stride = stride * extent
    return PrimStructInfo(value=simplify(stride))


def _legalize_entry(name: str, infer: Any) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        info = infer(node, bb)
        if info.value is not None:
            return PrimValue(info.value)

        return call_pure_packed(f"relax.run.{name}", *node.args, sinfo_args=info)

    return legalize


@operator(
    "relax.inspect.tensor_shape_i",
    infer=_infer_shape_i,
    legalize=_legalize_entry("tensor_shape_i", _infer_shape_i),
)
def tensor_shape_i(expr: Expr, axis: Any) -> Call:
    """The extent of an axis (int64)."""
    return call("relax.inspect.tensor_shape_i", expr, convert_to_expr(axis))


@operator(
    "relax.inspect.tensor_stride_i",
    infer=_infer_stride_i,
    legalize=_legalize_entry("tensor_stride_i", _infer_stride_i),
)
def tensor_stride_i(expr: Expr, axis: Any) -> Call:
    """The stride of an axis in elements (int64); tensors are compact."""
    return call("relax.inspect.tensor_stride_i", expr, convert_to_expr(axis))
