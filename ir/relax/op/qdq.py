"""Quantization and dequantization with scale and zero point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ... import te
from ...conversion import cast_array
from ...tir.op import max as tir_max
from ...tir.op import min as tir_min
from ...tir.op import nearbyint
from ...tir.operators import const
from ..expr import Call, Expr
from ..struct_info import StructInfo, TensorStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .inference import as_int, fail, normalize_axis, require_dtype, tensor_args
from .layout_rule import along_axis
from .requirement import require_equal


def _check(node: Call, infos: list[TensorStructInfo]) -> int:
    """The parameters are scalars, or vectors along the axis; returns the axis."""
    data, *params = infos
    if data.ndim == -1:
        return 0
    axis = normalize_axis(node, data.ndim, node.attrs["axis"]) if data.ndim else 0
    for name, info in zip(("scale", "zero_point"), params, strict=True):
        if info.ndim not in (-1, 0, 1):
            raise fail(node, f"{name} must be a scalar or a vector, got {info.ndim} dimensions")
        if info.ndim == 1 and info.shape_values is not None and data.shape_values is not None:
            if as_int(info.shape_values[0]) != 1:
                text = f"{name} has {{}} entries, axis {axis} of the data has extent {{}}"
                require_equal(node, info.shape_values[0], data.shape_values[axis], text)
    return axis


def _infer_quantize(node: Call, builder: Any) -> StructInfo:
    infos = tensor_args(node, 3)
    data, scale, zero = infos
    require_dtype(node, data, lambda d: d in ("float32", "float16", "bfloat16"), "float data")
    require_dtype(node, scale, dt.is_float, "a float scale")
    require_dtype(node, zero, lambda d: dt.is_integral(d) or dt.is_float(d), "a numeric zero_point")
    _check(node, infos)
    return TensorStructInfo(data.shape, node.attrs["out_dtype"], data.vdevice, data.ndim)


def _infer_dequantize(node: Call, builder: Any) -> StructInfo:
    infos = tensor_args(node, 3)
    _check(node, infos)
    data = infos[0]
    return TensorStructInfo(data.shape, node.attrs["out_dtype"], data.vdevice, data.ndim)


def _parameter(param: Any, indices: tuple[Any, ...], axis: int) -> Any:
    """The entry of a scalar or per-axis parameter for an element."""
    if not param.shape:
        return param()
    size = getattr(param.shape[0], "value", None)
    return param(0) if size == 1 else param(indices[axis])


def _legalize_quantize(bb: Any, node: Call) -> Expr:
    axis, out = node.attrs["axis"], node.attrs["out_dtype"]

    def te_quantize(data: Any, scale: Any, zero: Any) -> Any:
        at = axis % len(data.shape) if data.shape else 0

        def element(*indices: Any) -> Any:
            s, z = _parameter(scale, indices, at), _parameter(zero, indices, at)
            value = nearbyint(data(*indices).astype("float32") / s.astype("float32")) + z.astype("float32")
            if dt.is_float(out):
                return value.astype(out)
            low, high = dt.integer_range(out)
            return tir_max(tir_min(value, const(high, "float32")), const(low, "float32")).astype(out)

        return te.compute(data.shape, element, name="quantized")

    return bb.call_te(te_quantize, *node.args, primfunc_name_hint="quantize")


def _legalize_dequantize(bb: Any, node: Call) -> Expr:
    axis, out = node.attrs["axis"], node.attrs["out_dtype"]

    def te_dequantize(data: Any, scale: Any, zero: Any) -> Any:
        at = axis % len(data.shape) if data.shape else 0

        def element(*indices: Any) -> Any:
            s, z = _parameter(scale, indices, at), _parameter(zero, indices, at)
            if dt.is_float(data.dtype):
                return (
                    (data(*indices).astype("float32") - z.astype("float32")) * s.astype("float32")
                ).astype(out)
            difference = data(*indices).astype("int32") - z.astype("int32")
            return (difference.astype("float32") * s.astype("float32")).astype(out)

        return te.compute(data.shape, element, name="dequantized")

    return bb.call_te(te_dequantize, *node.args, primfunc_name_hint="dequantize")


def _spread(param: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    if param.ndim == 0:
        return param
    shape = [1] * ndim
    shape[axis] = -1
    return param.reshape(shape)


def _np_quantize(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int, out_dtype: str) -> np.ndarray:
    quotient = x.astype("float32") / _spread(scale, x.ndim, axis).astype("float32")
    value = np.rint(quotient) + _spread(zero, x.ndim, axis).astype("float32")
    return cast_array(value, out_dtype)


def _np_dequantize(
    x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int, out_dtype: str
) -> np.ndarray:
    shifted = x.astype("int32") - _spread(zero, x.ndim, axis).astype("int32")
    return (shifted * _spread(scale, x.ndim, axis)).astype(out_dtype)


_QDQ: dict[str, Any] = {
    "mixed_precision": MixedPrecisionPolicy.FOLLOW,
    "pattern": OpPatternKind.kBroadcast,
    "layout": along_axis,
}


@operator(
    "relax.quantize", infer=_infer_quantize, legalize=_legalize_quantize, reference=_np_quantize, **_QDQ
)
def quantize(data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: str = "int8") -> Expr:
    """``clip(round(data / scale) + zero_point)`` in ``out_dtype``, halves rounded to even.

    Scale and zero point are scalars or per entry of ``axis``.
    """
    return call("relax.quantize", data, scale, zero_point, attrs={"axis": int(axis), "out_dtype": out_dtype})


@operator(
    "relax.dequantize",
    infer=_infer_dequantize,
    legalize=_legalize_dequantize,
    reference=_np_dequantize,
    **_QDQ,
)
def dequantize(data: Expr, scale: Expr, zero_point: Expr, axis: int = -1, out_dtype: str = "float32") -> Expr:
    """``(data - zero_point) * scale``; scale and zero point are scalars or per entry of ``axis``."""
    return call(
        "relax.dequantize", data, scale, zero_point, attrs={"axis": int(axis), "out_dtype": out_dtype}
    )


__all__ = ["dequantize", "quantize"]
