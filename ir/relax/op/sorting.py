"""Sorting along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRValueError
from ...tir.expr import IntImm, PrimExpr
from ..expr import Call, Expr
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .declaration import MixedPrecisionPolicy, call, operator
from .inference import int64, normalize_axis, same_as, tensor_args
from .legalization import topi_function
from .requirement import require_at_most

FOLLOW = MixedPrecisionPolicy.FOLLOW


def _infer_sort(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    if info.ndim != -1:
        normalize_axis(node, info.ndim, node.attrs["axis"])
    return same_as(info)


def _infer_argsort(node: Call, builder: Any) -> StructInfo:
    _infer_sort(node, builder)
    (info,) = tensor_args(node, 1)
    return same_as(info, node.attrs["dtype"])


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis, kind="stable")
    if dt.is_integral(dt.from_numpy(x.dtype)):
        return np.argsort(np.bitwise_not(x), axis, kind="stable")
    return np.lexsort((-x, ~np.isnan(x)), axis)  # NaN is the greatest


def _np_sort(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    return np.take_along_axis(x, _order(x, axis, descending), axis)


def _legalize_sort(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("sort"), node.args[0], axis=node.attrs["axis"], is_ascend=not node.attrs["descending"]
    )


@operator(
    "relax.sort", infer=_infer_sort, legalize=_legalize_sort, reference=_np_sort, mixed_precision=FOLLOW
)
def sort(x: Expr, axis: int = -1, descending: bool = False) -> Expr:
    """The elements in order along an axis; equal ones keep their order."""
    return call("relax.sort", x, attrs={"axis": int(axis), "descending": bool(descending)})


def _legalize_argsort(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("argsort"),
        node.args[0],
        axis=node.attrs["axis"],
        is_ascend=not node.attrs["descending"],
        dtype=node.attrs["dtype"],
    )


@operator(
    "relax.argsort",
    infer=_infer_argsort,
    legalize=_legalize_argsort,
    reference=lambda x, axis, descending, dtype: _order(x, axis, descending).astype(dt.to_numpy(dtype)),
)
def argsort(data: Expr, axis: int = -1, descending: bool = False, dtype: str = "int32") -> Expr:
    """The indices that sort along an axis."""
    return call(
        "relax.argsort", data, attrs={"axis": int(axis), "descending": bool(descending), "dtype": dtype}
    )


def _infer_topk(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    k, ret_type, dtype = node.attrs["k"], node.attrs["ret_type"], node.attrs["dtype"]
    shape: Any = None
    if info.ndim != -1:
        axis = normalize_axis(node, info.ndim, node.attrs["axis"])
        if info.shape_values is not None:
            extent = info.shape_values[axis]
            count: PrimExpr = (
                extent if isinstance(k, int) and k <= 0 else int64(k) if isinstance(k, int) else k
            )
            require_at_most(node, count, extent, f"k={{}} exceeds the extent {{}} of axis {axis}")
            shape = [*info.shape_values[:axis], count, *info.shape_values[axis + 1 :]]
    values = TensorStructInfo(shape, info.dtype, info.vdevice, info.ndim)
    indices = TensorStructInfo(shape, dtype, info.vdevice, info.ndim)
    return {"both": TupleStructInfo([values, indices]), "values": values, "indices": indices}[ret_type]


def _np_topk(x: np.ndarray, k: int, axis: int, ret_type: str, largest: bool, dtype: str) -> Any:
    order = _order(x, axis, largest)
    if k > 0:
        order = np.take(order, range(k), axis)
    values, indices = np.take_along_axis(x, order, axis), order.astype(dt.to_numpy(dtype))
    return {"both": [values, indices], "values": values, "indices": indices}[ret_type]


def _legalize_topk(bb: Any, node: Call) -> Expr:
    attrs = node.attrs
    return bb.call_te(
        topi_function("topk"),
        node.args[0],
        k=attrs["k"],
        axis=attrs["axis"],
        ret_type=attrs["ret_type"],
        is_ascend=not attrs["largest"],
        dtype=attrs["dtype"],
    )


@operator("relax.topk", infer=_infer_topk, legalize=_legalize_topk, reference=_np_topk)
def topk(
    data: Expr, k: Any = 1, axis: int = -1, ret_type: str = "both", largest: bool = True, dtype: str = "int32"
) -> Expr:
    """The ``k`` largest (or smallest) elements along an axis in order (all of them when ``k < 1``).

    ``ret_type`` is "both" (a tuple of values and indices), "values" or "indices".
    """
    if ret_type not in ("both", "values", "indices"):
        raise IRValueError(f"relax.topk: ret_type must be 'both', 'values' or 'indices', got {ret_type!r}")
    if isinstance(k, IntImm):
        k = k.value
    attrs = {"k": k, "axis": int(axis), "ret_type": ret_type, "largest": bool(largest), "dtype": dtype}
    return call("relax.topk", data, attrs=attrs)


__all__ = ["argsort", "sort", "topk"]
