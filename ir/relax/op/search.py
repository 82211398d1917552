"""Choosing and finding elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..expr import Call, Expr, Var
from ..struct_info import StructInfo, TensorStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from .gradient import fitted
from .inference import (
    broadcast_tensors,
    common_dtype,
    int64,
    normalize_axis,
    require_ndim,
    tensor_args,
    wrong_kind,
)
from .layout_rule import elementwise
from .legalization import scalar_const, topi_function
from .number import numbers_as_constants
from .requirement import require_at_most
from .statistical import reduced

FOLLOW, NEVER = MixedPrecisionPolicy.FOLLOW, MixedPrecisionPolicy.NEVER


def _infer_where(node: Call, builder: Any) -> StructInfo:
    condition, x1, x2 = tensor_args(node, 3)
    if condition.dtype not in ("", "bool"):
        raise wrong_kind(node, f"the condition must be bool, got {condition.dtype}")
    return broadcast_tensors(node, [condition, x1, x2], common_dtype(node, [x1, x2]))


def _legalize_where(bb: Any, node: Call) -> Expr:
    return bb.call_te(topi_function("where"), node.args[0], *(scalar_const(arg) for arg in node.args[1:]))


def _where_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    condition, x, y = node.args
    zero = builder.emit(make.zeros_like(grad))
    return [
        None,
        fitted(builder, where(condition, grad, zero), x),
        fitted(builder, where(condition, zero, grad), y),
    ]


@operator(
    "relax.where",
    infer=_infer_where,
    legalize=_legalize_where,
    gradient=_where_gradient,
    reference=np.where,
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kBroadcast,
    layout=elementwise,
)
def where(condition: Expr, x1: Expr, x2: Expr) -> Expr:
    """``x1`` where the condition (bool) holds, else ``x2``; all three are broadcast.

    A Python number has the dtype of the tensor beside it.
    """
    return call("relax.where", condition, *numbers_as_constants("relax.where", x1, x2))


def _require_elements(node: Call, info: TensorStructInfo, axis: int | None) -> None:
    """Among no elements there is no first extremum: each axis that is searched has at least one."""
    if info.shape_values is None:
        return
    searched = range(info.ndim) if axis is None else [normalize_axis(node, info.ndim, axis)]
    for place in searched:
        text = f"it needs {{}} element along axis {place} to find one, there are {{}}"
        require_at_most(node, int64(1), info.shape_values[place], text)


def _infer_arg_reduction(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    axis = node.attrs.get("axis")
    _require_elements(node, info, axis)
    return reduced(node, info, None if axis is None else [axis], node.attrs["keepdims"], "int64")


def _arg_reduction(name: str, reference: Any, doc: str) -> Any:
    def build(x: Expr, axis: int | None = None, keepdims: bool = False) -> Expr:
        return call(
            f"relax.{name}",
            x,
            attrs={"axis": None if axis is None else int(axis), "keepdims": bool(keepdims)},
        )

    def legalize(bb: Any, node: Call) -> Expr:
        axis, keepdims = node.attrs.get("axis"), node.attrs["keepdims"]

        def te_arg_reduce(data: Any) -> Any:
            result = topi_function(name)(data, axis, keepdims)
            return result if result.dtype == "int64" else topi_function("cast")(result, "int64")

        return bb.call_te(te_arg_reduce, node.args[0], primfunc_name_hint=name)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{doc}

    Args:
        x: the input tensor.
        axis: the axis to search along; None: the whole tensor, with an index into it flattened.
        keepdims: keep the searched axes with extent 1.

    Returns:
        int64 indices; the first one where several are equal.
    """
    return operator(
        f"relax.{name}",
        infer=_infer_arg_reduction,
        legalize=legalize,
        reference=lambda x, axis, keepdims: np.asarray(reference(x, axis, keepdims=keepdims)),
        mixed_precision=NEVER,
        pattern=OpPatternKind.kCommReduce,
    )(build)


argmax = _arg_reduction("argmax", np.argmax, "The index of the largest element.")
argmin = _arg_reduction("argmin", np.argmin, "The index of the smallest element.")


def _infer_bucketize(node: Call, builder: Any) -> StructInfo:
    values, boundaries = tensor_args(node, 2)
    require_ndim(node, boundaries, 1, "boundaries")
    return TensorStructInfo(
        values.shape, "int32" if node.attrs["out_int32"] else "int64", values.vdevice, values.ndim
    )


def _legalize_bucketize(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("searchsorted"),
        node.args[1],
        node.args[0],
        node.attrs["right"],
        node.struct_info.dtype,
        primfunc_name_hint="bucketize",
    )


def _np_bucketize(x: np.ndarray, boundaries: np.ndarray, out_int32: bool, right: bool) -> np.ndarray:
    return np.searchsorted(boundaries, x, "right" if right else "left").astype(
        "int32" if out_int32 else "int64"
    )


@operator("relax.bucketize", infer=_infer_bucketize, legalize=_legalize_bucketize, reference=_np_bucketize)
def bucketize(input_tensor: Expr, boundaries: Expr, out_int32: bool = False, right: bool = False) -> Expr:
    """The number of the interval between sorted ``boundaries`` that each element falls into.

    With ``right``, an element equal to a boundary counts to the interval behind it.
    """
    return call(
        "relax.bucketize",
        input_tensor,
        boundaries,
        attrs={"out_int32": bool(out_int32), "right": bool(right)},
    )


__all__ = ["argmax", "argmin", "bucketize", "where"]
