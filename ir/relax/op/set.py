"""Operators whose result's extent depends on the data: computed by functions that are called when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...registry import register_func
from ..expr import Call, Expr, PrimValue, convert_to_expr
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from .base import call_pure_packed
from .declaration import call, operator
from .inference import fail, normalize_axis, prim_arg, tensor_arg, tensor_args
from .memory_effect import FRESH, declare_external


def _flag(node: Call, index: int) -> bool:
    value = prim_arg(node, index)
    return bool(getattr(value, "value", value))


def _infer_unique(node: Call, builder: Any) -> StructInfo:
    if len(node.args) not in (5, 6):
        raise fail(node, f"expected 5 or 6 arguments, got {len(node.args)}")
    info = tensor_arg(node, 0)
    axis = node.args[5] if len(node.args) == 6 else None
    ndim = info.ndim if axis is not None else 1
    if axis is not None and info.ndim != -1:
        normalize_axis(node, info.ndim, prim_arg(node, 5))
    fields: list[StructInfo] = [TensorStructInfo(None, info.dtype, info.vdevice, ndim)]
    fields += [TensorStructInfo(None, "int64", info.vdevice, 1) for index in (2, 3, 4) if _flag(node, index)]
    return fields[0] if len(fields) == 1 else TupleStructInfo(fields)


def _call_at_run_time(name: str) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        return call_pure_packed(name, *node.args, sinfo_args=[node.struct_info])

    return legalize


def np_unique(
    x: np.ndarray,
    sorted: int = 1,
    return_index: int = 0,
    return_inverse: int = 0,
    return_counts: int = 0,
    axis: Any = None,
) -> Any:
    """numpy's unique; values that are not to be sorted come in the order in which they occur first."""
    along = None if axis is None else int(axis)
    values, index, inverse, counts = np.unique(x, True, True, True, axis=along)
    if not sorted:
        order = np.argsort(index)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        values, index, counts = np.take(values, order, along or 0), index[order], counts[order]
        inverse = place[inverse]
    wanted = zip((return_index, return_inverse, return_counts), (index, inverse, counts), strict=True)
    out = [values, *(np.asarray(part, "int64").reshape(-1) for flag, part in wanted if flag)]
    return out[0] if len(out) == 1 else out


def _numpy(value: Any) -> np.ndarray:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


declare_external("relax.run.unique", FRESH)


@register_func("relax.run.unique", override=True)
def run_unique(x: Any, *options: Any) -> Any:
    """What ``relax.unique`` does when the program runs."""
    return np_unique(_numpy(x), *(int(option) for option in options))


@operator(
    "relax.unique",
    infer=_infer_unique,
    legalize=_call_at_run_time("relax.run.unique"),
    reference=np_unique,
    data_dependent=True,
    call_packed="relax.run.unique",
)
def unique(
    x: Expr,
    sorted: Any = True,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
) -> Expr:
    """The distinct elements (of the flattened tensor, or slices along ``axis``).

    Args:
        x: the tensor.
        sorted: whether the result is to be in ascending order; otherwise it is in the order of first occurrence.
        return_index, return_inverse, return_counts: add int64 tensors with the first index of each, the number of the
            distinct element for every element, and the counts; the result is a tuple then.
        axis: the axis to slice along.
    """
    flags = [
        PrimValue(int(v)) if isinstance(v, bool | int) else v
        for v in (sorted, return_index, return_inverse, return_counts)
    ]
    rest = [] if axis is None else [convert_to_expr(axis)]
    return call("relax.unique", x, *flags, *rest)


def _infer_nonzero(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    return TensorStructInfo(None, "int64", info.vdevice, 2)


def np_nonzero(x: np.ndarray) -> np.ndarray:
    """The indices of elements other than zero, one row per dimension."""
    return np.asarray(np.nonzero(np.atleast_1d(x)), "int64")


declare_external("relax.run.nonzero", FRESH)


@register_func("relax.run.nonzero", override=True)
def run_nonzero(x: Any) -> Any:
    """What ``relax.nonzero`` does when the program runs."""
    return np_nonzero(_numpy(x))


@operator(
    "relax.nonzero",
    infer=_infer_nonzero,
    legalize=_call_at_run_time("relax.run.nonzero"),
    reference=np_nonzero,
    data_dependent=True,
    call_packed="relax.run.nonzero",
)
def nonzero(x: Expr) -> Expr:
    """The indices of elements other than zero: an int64 tensor of (number of dimensions, number found)."""
    return call("relax.nonzero", x)


__all__ = ["nonzero", "unique"]
