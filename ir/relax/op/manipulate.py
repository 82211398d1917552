"""Operators that move elements without computing on them: broadcasting, permuting, repeating, collapsing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import te
from ...error import IRTypeError
from ...expr import RelaxExpr
from ...tir.expr import FloatImm, IntImm, PrimExpr
from ...tir.index_map import IndexMap
from ...tir.op import if_then_else
from ...tir.operators import const
from ...tir.stmt_functor import substitute
from ..expr import Call, Expr, PrimValue, ShapeExpr, Var
from ..struct_info import StructInfo, TensorStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .gradient import fitted, shape_argument
from .inference import (
    as_int,
    check_arity,
    fail,
    int64,
    normalize_axes,
    normalize_axis,
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
from .layout_rule import Desired, LayoutPlan, Layouts, along_axis, identity, is_permuted
from .legalization import topi_function, topi_unary, with_attrs
from .requirement import require_broadcast_shape, require_equal

FOLLOW = MixedPrecisionPolicy.FOLLOW
_MOVES: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kInjective}


# broadcast_to


def _infer_broadcast_to(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info, target = tensor_arg(node, 0), shape_arg(node, 1)
    if info.ndim != -1 and target.ndim != -1 and target.ndim < info.ndim:
        raise fail(node, f"cannot broadcast {info.ndim} dimensions to {target.ndim}")
    if info.shape_values is not None and target.values is not None:
        text = f"shape {show_dims(info.shape_values)} cannot be broadcast to {show_dims(target.values)}"
        require_broadcast_shape(node, info.shape_values, target.values, text)
    return TensorStructInfo(shape_target(node, 1), info.dtype, info.vdevice)


def _broadcast_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [fitted(builder, grad, node.args[0]), None]


@operator(
    "relax.broadcast_to",
    moves=True,
    infer=_infer_broadcast_to,
    legalize=topi_unary("broadcast_to"),
    reference=np.broadcast_to,
    gradient=_broadcast_gradient,
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kBroadcast,
)
def broadcast_to(x: Expr, shape: Any) -> Expr:
    """Broadcast ``x`` to ``shape`` (a sequence of extents or a shape expression)."""
    return call("relax.broadcast_to", x, _shape(shape))


def _shape(shape: Any) -> Expr:
    if isinstance(shape, RelaxExpr):
        return shape
    if isinstance(shape, int | PrimExpr):
        return ShapeExpr([shape])
    return ShapeExpr(shape)


# permute_dims, flip, layout_transform


def _infer_permute_dims(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    axes = node.attrs.get("axes")
    if axes is None:
        if info.shape_values is None:
            return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
        return TensorStructInfo(info.shape_values[::-1], info.dtype, info.vdevice)
    if info.ndim == -1:
        return TensorStructInfo(None, info.dtype, info.vdevice, len(axes))
    if len(axes) != info.ndim:
        raise fail(node, f"axes {tuple(axes)} do not name each of the {info.ndim} dimensions once")
    order = normalize_axes(node, info.ndim, axes, "axes")
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    return TensorStructInfo([info.shape_values[axis] for axis in order], info.dtype, info.vdevice)


def _permute_dims_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    """The permutation is applied to the stored axes, so that the result has its original ones."""
    (layout,) = layouts
    if not is_permuted(layout):
        return None
    ndim, axes = len(layout), node.attrs["axes"]
    original = list(reversed(range(ndim))) if axes is None else [int(axis) % ndim for axis in axes]
    return LayoutPlan((layout,), identity(ndim), {"axes": tuple(layout.index(axis) for axis in original)})


def _permute_dims_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    axes = node.attrs.get("axes")
    if axes is None:
        return [permute_dims(grad)]
    order = normalize_axes(node, len(axes), axes)
    return [permute_dims(grad, [order.index(i) for i in range(len(order))])]


@operator(
    "relax.permute_dims",
    moves=True,
    infer=_infer_permute_dims,
    legalize=with_attrs("transpose", "axes"),
    reference=lambda x, axes: np.transpose(x, axes),
    layout=_permute_dims_layout,
    gradient=_permute_dims_gradient,
    **_MOVES,
)
def permute_dims(x: Expr, axes: Sequence[int] | None = None) -> Expr:
    """Permute the dimensions; without ``axes``, reverse them."""
    return call("relax.permute_dims", x, attrs={"axes": optional_int_tuple(axes)})


def _infer_flip(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    if info.ndim != -1:
        normalize_axis(node, info.ndim, node.attrs["axis"])
    return same_as(info)


def _flip_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [flip(grad, node.attrs["axis"])]


@operator(
    "relax.flip",
    moves=True,
    infer=_infer_flip,
    legalize=with_attrs("flip", "axis"),
    reference=np.flip,
    gradient=_flip_gradient,
    layout=along_axis,
    **_MOVES,
)
def flip(data: Expr, axis: int) -> Expr:
    """Reverse the order of elements along an axis."""
    return call("relax.flip", data, attrs={"axis": int(axis)})


def _infer_layout_transform(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    index_map = node.attrs["index_map"]
    inputs = len(index_map.initial_indices)
    if info.ndim != -1 and info.ndim != inputs:
        raise fail(node, f"the index map takes {inputs} indices, the tensor has {info.ndim} dimensions")
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, len(index_map.final_indices))
    dims = [simplify(dim) for dim in index_map.map_shape(list(info.shape_values))]
    return TensorStructInfo(dims, info.dtype, info.vdevice)


def _legalize_layout_transform(bb: Any, node: Call) -> Expr:
    index_map, pad_value = node.attrs["index_map"], node.attrs.get("pad_value")
    dtype = node.args[0].struct_info.dtype
    if isinstance(pad_value, PrimValue):
        pad_value = pad_value.value
    if isinstance(pad_value, IntImm | FloatImm):
        pad_value = pad_value.value
    pad = const(0 if pad_value is None else pad_value, dtype)

    def te_layout_transform(data: Any) -> Any:
        # A padded transform has destinations without a source: read through the inverse map, under its predicate.
        inverse, predicate = index_map.non_surjective_inverse(list(data.shape))
        out_shape = index_map.map_shape(list(data.shape))

        def element(*indices: Any) -> Any:
            value = data(*inverse.map_indices(list(indices)))
            if isinstance(predicate, IntImm) and predicate.value == 0:
                return value
            bound = dict(zip(inverse.initial_indices, indices, strict=True))
            return if_then_else(substitute(predicate, bound), pad, value)

        return te.compute(out_shape, element, name="te_layout_transform")

    return bb.call_te(te_layout_transform, node.args[0])


def _np_layout_transform(x: np.ndarray, index_map: Any, pad_value: Any, **separators: Any) -> np.ndarray:
    """Every element is moved to where the map sends its index."""
    shape = [
        int(getattr(dim, "value", dim)) for dim in index_map.map_shape([int64(extent) for extent in x.shape])
    ]
    out = np.full(shape, 0 if pad_value is None else pad_value.value.value, x.dtype)
    for place in np.ndindex(*x.shape):
        target = tuple(simplify(index).value for index in index_map.map_indices([int64(i) for i in place]))  # type: ignore[attr-defined]
        out[target] = x[place]
    return out


@operator(
    "relax.layout_transform",
    infer=_infer_layout_transform,
    legalize=_legalize_layout_transform,
    reference=_np_layout_transform,
    **_MOVES,
)
def layout_transform(
    x: Expr,
    index_map: Any,
    pad_value: Any = None,
    axis_separators: Sequence[Any] | None = None,
    input_axis_separators: Sequence[Any] | None = None,
) -> Expr:
    """Move elements to other indices.

    Args:
        x: the tensor.
        index_map: an IndexMap or a function from the old indices to the new ones.
        pad_value: what destinations without a source hold (a number or PrimValue), default 0.
        axis_separators, input_axis_separators: positions between groups of axes, for memories of several dimensions.
    """
    if not isinstance(index_map, IndexMap):
        index_map = IndexMap.from_func(index_map, index_dtype="int64")
    if isinstance(pad_value, PrimValue):
        pad_value = pad_value.value
    if isinstance(pad_value, PrimExpr) and not isinstance(pad_value, IntImm | FloatImm):
        raise IRTypeError(f"relax.layout_transform: pad_value must be a constant, got {pad_value}")
    attrs = {
        "index_map": index_map,
        "pad_value": None if pad_value is None else PrimValue(_pad_constant(x, pad_value)),
        "axis_separators": [int(item) for item in axis_separators or ()],
        "input_axis_separators": [int(item) for item in input_axis_separators or ()],
    }
    return call("relax.layout_transform", x, attrs=attrs)


def _pad_constant(x: Expr, value: Any) -> PrimExpr:
    info = x.struct_info_
    number = value.value if isinstance(value, IntImm | FloatImm) else value
    dtype = (
        info.dtype
        if isinstance(info, TensorStructInfo) and info.dtype
        else "float32"
        if isinstance(number, float)
        else "int64"
    )
    return const(number, dtype)


# repeat, tile


def _infer_repeat(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    axis, repeats = node.attrs.get("axis"), node.attrs["repeats"]
    if info.ndim == -1:
        return TensorStructInfo(None, info.dtype, info.vdevice, 1 if axis is None else -1)
    dims = info.shape_values
    if axis is None:
        if dims is None:
            return TensorStructInfo(None, info.dtype, info.vdevice, 1)
        return TensorStructInfo([simplify(product(dims) * repeats)], info.dtype, info.vdevice)
    place = normalize_axis(node, info.ndim, axis)
    if dims is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    return TensorStructInfo(
        [*dims[:place], simplify(dims[place] * repeats), *dims[place + 1 :]], info.dtype, info.vdevice
    )


def _legalize_repeat(bb: Any, node: Call) -> Expr:
    repeats, axis = node.attrs["repeats"], node.attrs.get("axis")

    def te_repeat(data: Any) -> Any:
        if axis is None:
            total = product(data.shape)
            return topi_function("repeat")(topi_function("reshape")(data, (total,)), repeats, 0)
        return topi_function("repeat")(data, repeats, axis)

    return bb.call_te(te_repeat, node.args[0], primfunc_name_hint="repeat")


@operator("relax.repeat", infer=_infer_repeat, legalize=_legalize_repeat, reference=np.repeat, **_MOVES)
def repeat(data: Expr, repeats: int, axis: int | None = None) -> Expr:
    """Repeat each element ``repeats`` times along an axis; without an axis, of the flattened tensor."""
    return call(
        "relax.repeat", data, attrs={"repeats": int(repeats), "axis": None if axis is None else int(axis)}
    )


def _infer_tile(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    repeats = node.attrs["repeats"]
    if info.ndim == -1:
        return TensorStructInfo(None, info.dtype, info.vdevice)
    ndim = max(info.ndim, len(repeats))
    if info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, ndim)
    dims = [int64(1)] * (ndim - info.ndim) + list(info.shape_values)
    counts = [1] * (ndim - len(repeats)) + list(repeats)
    return TensorStructInfo(
        [simplify(d * c) for d, c in zip(dims, counts, strict=True)], info.dtype, info.vdevice
    )


@operator(
    "relax.tile",
    infer=_infer_tile,
    legalize=with_attrs("tile", "repeats"),
    reference=lambda x, repeats: np.tile(x, repeats),
    **_MOVES,
)
def tile(data: Expr, repeats: int | Sequence[int]) -> Expr:
    """Repeat the whole tensor along each dimension."""
    return call("relax.tile", data, attrs={"repeats": optional_int_tuple(repeats)})


# collapse_sum


def _infer_collapse_sum_to(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info, target = tensor_arg(node, 0), shape_arg(node, 1)
    _check_collapsible(node, info, target.values)
    return TensorStructInfo(shape_target(node, 1), info.dtype, info.vdevice)


def _check_collapsible(node: Call, info: TensorStructInfo, target: Sequence[PrimExpr] | None) -> None:
    if info.shape_values is None or target is None:
        return
    if len(target) > len(info.shape_values):
        raise fail(
            node, f"{show_dims(info.shape_values)} cannot be summed to the larger shape {show_dims(target)}"
        )
    lead = len(info.shape_values) - len(target)
    for axis, (extent, wanted) in enumerate(zip(info.shape_values[lead:], target, strict=True), lead):
        if as_int(wanted) != 1:
            text = f"{show_dims(info.shape_values)} cannot be summed to {show_dims(target)}"
            require_equal(node, extent, wanted, f"{text}: dimension {axis} has extent {{}}, not {{}}")


def _np_collapse_sum(x: np.ndarray, target: Any) -> np.ndarray:
    shape = target.shape if isinstance(target, np.ndarray) else tuple(target)
    lead = x.ndim - len(shape)
    axes = tuple(i for i in range(x.ndim) if i < lead or (shape[i - lead] == 1 and x.shape[i] != 1))
    return x.sum(axes, keepdims=True, dtype=x.dtype).reshape(shape)


def _legalize_collapse_sum(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("collapse_sum"),
        node.args[0],
        list(node.struct_info.shape_values),
        primfunc_name_hint="collapse_sum",
    )


def _collapse_sum_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [broadcast_to(grad, shape_argument(node.args[0])), None]


@operator(
    "relax.collapse_sum_to",
    infer=_infer_collapse_sum_to,
    gradient=_collapse_sum_gradient,
    legalize=_legalize_collapse_sum,
    reference=_np_collapse_sum,
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kCommReduce,
)
def collapse_sum_to(data: Expr, shape: Any) -> Expr:
    """Sum over the dimensions that broadcasting ``shape`` to that of ``data`` would repeat."""
    return call("relax.collapse_sum_to", data, _shape(shape))


def _infer_collapse_sum_like(node: Call, builder: Any) -> StructInfo:
    info, target = tensor_args(node, 2)
    _check_collapsible(node, info, target.shape_values)
    return TensorStructInfo(target.shape, info.dtype, info.vdevice, target.ndim)


@operator(
    "relax.collapse_sum_like",
    infer=_infer_collapse_sum_like,
    gradient=_collapse_sum_gradient,
    legalize=_legalize_collapse_sum,
    reference=_np_collapse_sum,
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kCommReduce,
)
def collapse_sum_like(data: Expr, collapse_target: Expr) -> Expr:
    """Sum over the dimensions that broadcasting ``collapse_target`` to ``data`` would repeat."""
    return call("relax.collapse_sum_like", data, collapse_target)


__all__ = [
    "broadcast_to",
    "collapse_sum_like",
    "collapse_sum_to",
    "flip",
    "layout_transform",
    "permute_dims",
    "repeat",
    "tile",
]
