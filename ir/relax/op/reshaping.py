"""Operators that give a tensor another shape: the elements stay where they are, so that the result is a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te, topi
from ...error import IRValueError
from ...expr import RelaxExpr
from ...tir.expr import PrimExpr
from ..expr import Call, Expr, ShapeExpr
from ..struct_info import ShapeStructInfo, StructInfo, TensorStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .gradient import back_to_shape
from .inference import (
    as_int,
    check_arity,
    int64,
    normalize_axes,
    optional_int_tuple,
    product,
    same_as,
    shape_arg,
    shape_target,
    show_dims,
    simplify,
    tensor_arg,
    tensor_args,
)
from .layout_rule import Desired, LayoutPlan, Layouts, is_permuted, without_axes
from .legalization import topi_function, with_attrs
from .lowering import as_reshape, reshape_to
from .memory_effect import view_of
from .requirement import require_equal

_RESHAPES: dict[str, Any] = {
    "moves": True,
    "mixed_precision": MixedPrecisionPolicy.FOLLOW,
    "pattern": OpPatternKind.kInjective,
    "memory": view_of(0),
    "gradient": back_to_shape,
    "lowering": as_reshape,
}


def _infer_expand_dims(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    axes = node.attrs["axis"]
    if not axes:
        return same_as(info)
    if info.ndim == -1:
        return TensorStructInfo(None, info.dtype, info.vdevice)
    ndim = info.ndim + len(axes)
    places = set(normalize_axes(node, ndim, axes))
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, ndim)
    rest = iter(info.shape_values)
    return TensorStructInfo(
        [int64(1) if i in places else next(rest) for i in range(ndim)], info.dtype, info.vdevice
    )


def _legalize_expand_dims(bb: Any, node: Call) -> Expr:
    axes = sorted(
        normalize_axes(node, node.args[0].struct_info.ndim + len(node.attrs["axis"]), node.attrs["axis"])
    )

    def te_expand_dims(data: Any) -> Any:
        rest = iter(data.shape)
        ndim = len(data.shape) + len(axes)
        shape = [1 if axis in axes else next(rest) for axis in range(ndim)]
        return te.compute(
            shape,
            lambda *index: data(*(place for axis, place in enumerate(index) if axis not in axes)),
            name="expand_dims",
        )

    return bb.call_te(te_expand_dims, node.args[0], primfunc_name_hint="expand_dims")


@operator(
    "relax.expand_dims",
    infer=_infer_expand_dims,
    legalize=_legalize_expand_dims,
    reference=lambda x, axis: np.expand_dims(x, tuple(axis)),
    **_RESHAPES,
)
def expand_dims(x: Expr, axis: int | Sequence[int]) -> Expr:
    """Insert axes of extent 1 at the given positions of the result."""
    return call("relax.expand_dims", x, attrs={"axis": optional_int_tuple(axis)})


def _infer_squeeze(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    axes = node.attrs.get("axis")
    dims = info.shape_values
    if axes is None:
        if dims is None or any(as_int(dim) is None for dim in dims):
            return TensorStructInfo(None, info.dtype, info.vdevice)
        return TensorStructInfo([dim for dim in dims if as_int(dim) != 1], info.dtype, info.vdevice)
    if info.ndim == -1:
        return TensorStructInfo(None, info.dtype, info.vdevice)
    places = set(normalize_axes(node, info.ndim, axes))
    if dims is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim - len(places))
    for place in places:
        text = f"axis {place} has extent {{}}, only axes of extent {{}} can be removed"
        require_equal(node, dims[place], int64(1), text)
    return TensorStructInfo([dim for i, dim in enumerate(dims) if i not in places], info.dtype, info.vdevice)


def _np_squeeze(x: np.ndarray, axis: Any) -> np.ndarray:
    return np.squeeze(x, None if axis is None else tuple(axis))


def _squeeze_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    layout, axes = layouts[0], node.attrs["axis"]
    if not is_permuted(layout) or axes is None:
        return None
    original = [int(axis) % len(layout) for axis in axes]
    attrs = {"axis": tuple(sorted(layout.index(axis) for axis in original))}
    return LayoutPlan((layout,), without_axes(layout, original), attrs)


@operator(
    "relax.squeeze",
    infer=_infer_squeeze,
    legalize=with_attrs("squeeze", "axis"),
    reference=_np_squeeze,
    layout=_squeeze_layout,
    **_RESHAPES,
)
def squeeze(x: Expr, axis: int | Sequence[int] | None = None) -> Expr:
    """Remove axes of extent 1: the given ones, or all."""
    return call("relax.squeeze", x, attrs={"axis": optional_int_tuple(axis)})


def _infer_flatten(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    if info.ndim == 1:
        return same_as(info)
    if info.ndim == 0:
        return TensorStructInfo([1], info.dtype, info.vdevice)
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, 1)
    return TensorStructInfo([simplify(product(info.shape_values))], info.dtype, info.vdevice)


def _legalize_to_reshape(bb: Any, node: Call) -> Expr:
    return _reshaped(bb, node.args[0], list(node.struct_info.shape_values))


def _reshaped(bb: Any, x: Expr, shape: list[Any]) -> Expr:
    """A call of topi's reshape; there an extent of 0 is copied from the data's, here it is one."""
    if not any(as_int(dim) == 0 for dim in shape):
        return bb.call_te(topi_function("reshape"), x, shape)  # type: ignore[no-any-return]

    def nothing(data: Any, extents: list[Any]) -> Any:
        return topi.full(extents, data.dtype, 0)

    return bb.call_te(nothing, x, shape, primfunc_name_hint="reshape")  # type: ignore[no-any-return]


@operator(
    "relax.flatten",
    infer=_infer_flatten,
    legalize=_legalize_to_reshape,
    reference=np.ravel,
    **_RESHAPES,
)
def flatten(x: Expr) -> Expr:
    """The elements as a 1-dimensional tensor."""
    return call("relax.flatten", x)


def _infer_reshape(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info, target = tensor_arg(node, 0), shape_arg(node, 1)
    if info.shape_values is not None and target.values is not None:
        before, after = simplify(product(info.shape_values)), simplify(product(target.values))
        shapes = (show_dims(info.shape_values), show_dims(target.values))
        text = f"{shapes[0]} has {{}} elements and cannot be reshaped to {shapes[1]} with {{}}"
        require_equal(node, before, after, text)
    return TensorStructInfo(shape_target(node, 1), info.dtype, info.vdevice)


def _legalize_reshape(bb: Any, node: Call) -> Expr:
    shape = node.args[1].struct_info
    assert isinstance(shape, ShapeStructInfo)
    return _reshaped(bb, node.args[0], list(shape.values))


@operator(
    "relax.reshape",
    infer=_infer_reshape,
    legalize=_legalize_reshape,
    reference=np.reshape,
    **_RESHAPES | {"lowering": lambda node: reshape_to(node, node.args[1])},
)
def reshape(x: Expr, shape: Any) -> Expr:
    """The same elements in row-major order in another shape.

    One extent may be -1: it is what the number of elements leaves. An extent of 0 stands for that of ``x`` at the same place.
    """
    if isinstance(shape, int | PrimExpr):
        shape = [shape]
    if not isinstance(shape, RelaxExpr):
        shape = _complete_shape(x, list(shape))
    return call("relax.reshape", x, shape)


def _complete_shape(x: Expr, dims: list[Any]) -> ShapeExpr:
    open_places = [i for i, dim in enumerate(dims) if _literal(dim) == -1]
    copied = [i for i, dim in enumerate(dims) if _literal(dim) == 0]
    if len(open_places) > 1:
        raise IRValueError(f"relax.reshape: at most one extent may be -1, got {dims}")
    if not open_places and not copied:
        return ShapeExpr(dims)
    info = x.struct_info_
    known = info.shape_values if isinstance(info, TensorStructInfo) else None
    if known is None:
        raise IRValueError(f"relax.reshape: extents -1 and 0 in {dims} need an input of known shape")
    if all(as_int(dim) != 0 for dim in known):
        for place in copied:
            if place >= len(known):
                raise IRValueError(
                    f"relax.reshape: extent 0 at {place} copies an extent that the input does not have"
                )
            dims[place] = known[place]
    if open_places:
        rest: PrimExpr = int64(1)
        for place, dim in enumerate(dims):
            if place != open_places[0]:
                rest = rest * dim
        total = simplify(product(known))
        rest = simplify(rest)
        whole, part = as_int(total), as_int(rest)
        if whole is not None and part is not None:
            if part == 0 or whole % part:
                raise IRValueError(f"relax.reshape: {whole} elements cannot be given the shape {dims}")
            dims[open_places[0]] = whole // part
        else:
            dims[open_places[0]] = simplify(total // rest)
    return ShapeExpr(dims)


def _literal(dim: Any) -> int | None:
    return dim if isinstance(dim, int) else as_int(dim)


__all__ = ["expand_dims", "flatten", "reshape", "squeeze"]
