"""Operators that move elements without computing on them: reshaping, permuting, joining, splitting, repeating."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...error import IRTypeError, IRValueError
from ...expr import RelaxExpr
from ...tir.expr import FloatImm, IntImm, PrimExpr
from ..analysis import prove_dim_equal
from ..expr import Call, Expr, PrimValue, ShapeExpr, Tuple
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .inference import (
    as_int,
    broadcast_dims,
    check_arity,
    common_dtype,
    common_vdevice,
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
    tuple_of_tensors,
    wrong_kind,
)
from .legalization import topi_function, topi_unary, with_attrs

FOLLOW = MixedPrecisionPolicy.FOLLOW
_MOVES: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kInjective}


# broadcast_to


def _infer_broadcast_to(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info, target = tensor_arg(node, 0), shape_arg(node, 1)
    if info.ndim != -1 and target.ndim != -1 and target.ndim < info.ndim:
        raise fail(node, f"cannot broadcast {info.ndim} dimensions to {target.ndim}")
    if info.shape_values is not None and target.values is not None:
        result = broadcast_dims(node, info.shape_values, target.values)
        if result is not None:
            for got, wanted in zip(result, target.values, strict=True):
                if as_int(got) is not None and as_int(wanted) is not None and as_int(got) != as_int(wanted):
                    raise fail(
                        node, f"shape {show_dims(info.shape_values)} cannot be broadcast to {show_dims(target.values)}"
                    )
    return TensorStructInfo(shape_target(node, 1), info.dtype, info.vdevice)


@operator(
    "relax.broadcast_to",
    infer=_infer_broadcast_to,
    legalize=topi_unary("broadcast_to"),
    reference=np.broadcast_to,
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


# concat and stack


def _infer_concat(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    infos = tuple_of_tensors(node, 0)
    if not infos:
        raise fail(node, "expected at least one tensor")
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    axis = node.attrs.get("axis")
    known = {info.ndim for info in infos if info.ndim != -1}
    if len(known) > 1:
        raise fail(node, f"tensors have different numbers of dimensions: {sorted(known)}")
    if not known:
        return TensorStructInfo(None, dtype, vdevice)
    ndim = known.pop()
    if axis is None and ndim != 1:
        raise fail(node, f"without an axis the tensors must be 1-dimensional, got {ndim} dimensions")
    position = 0 if axis is None else normalize_axis(node, ndim, axis)
    shapes = [info.shape_values for info in infos]
    with_shape = [shape for shape in shapes if shape is not None]
    for shape in with_shape:
        for index, (a, b) in enumerate(zip(with_shape[0], shape, strict=True)):
            if index != position and as_int(a) is not None and as_int(b) is not None and as_int(a) != as_int(b):
                raise fail(
                    node,
                    f"shapes {show_dims(with_shape[0])} and {show_dims(shape)} differ at dimension {index},"
                    f" only dimension {position} may",
                )
    if len(with_shape) != len(shapes):
        return TensorStructInfo(None, dtype, vdevice, ndim)
    first = with_shape[0]
    for shape in with_shape[1:]:
        if not all(index == position or prove_dim_equal(a, b) for index, (a, b) in enumerate(zip(first, shape, strict=True))):
            return TensorStructInfo(None, dtype, vdevice, ndim)
    total: PrimExpr = int64(0)
    for shape in with_shape:
        total = total + shape[position]
    return TensorStructInfo([*first[:position], simplify(total), *first[position + 1 :]], dtype, vdevice)


def _legalize_concat(bb: Any, node: Call) -> Expr:
    tensors = node.args[0]
    count = len(node.args[0].struct_info.fields)
    items = list(tensors.fields) if isinstance(tensors, Tuple) else [bb.emit(tensors[i]) for i in range(count)]  # type: ignore[index]
    axis = node.attrs.get("axis")
    return bb.call_te(topi_function("concatenate"), items, 0 if axis is None else axis)


def _tensor_tuple(tensors: Any) -> Expr:
    return tensors if isinstance(tensors, RelaxExpr) else Tuple(tensors)


@operator(
    "relax.concat",
    infer=_infer_concat,
    legalize=_legalize_concat,
    reference=lambda tensors, axis: np.concatenate(tensors, 0 if axis is None else axis),
    **_MOVES,
)
def concat(tensors: Any, axis: int | None = 0) -> Expr:
    """Join tensors along an axis; ``axis=None`` joins 1-dimensional ones."""
    return call("relax.concat", _tensor_tuple(tensors), attrs={"axis": None if axis is None else int(axis)})


def _infer_stack(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    infos = tuple_of_tensors(node, 0)
    if not infos:
        raise fail(node, "expected at least one tensor")
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    first = infos[0]
    if any(info.ndim == -1 for info in infos):
        return TensorStructInfo(None, dtype, vdevice)
    if len({info.ndim for info in infos}) > 1:
        raise fail(node, f"tensors have different numbers of dimensions: {sorted({i.ndim for i in infos})}")
    axis = normalize_axis(node, first.ndim + 1, node.attrs["axis"])
    shapes = [info.shape_values for info in infos]
    if any(shape is None for shape in shapes):
        return TensorStructInfo(None, dtype, vdevice, first.ndim + 1)
    for shape in shapes[1:]:
        for a, b in zip(shapes[0], shape, strict=True):  # type: ignore[arg-type]
            if as_int(a) is not None and as_int(b) is not None and as_int(a) != as_int(b):
                raise fail(node, f"shapes {show_dims(shapes[0])} and {show_dims(shape)} differ")  # type: ignore[arg-type]
    dims = list(shapes[0])  # type: ignore[arg-type]
    dims.insert(axis, int64(len(infos)))
    return TensorStructInfo(dims, dtype, vdevice)


def _legalize_stack(bb: Any, node: Call) -> Expr:
    tensors = node.args[0]
    count = len(node.args[0].struct_info.fields)
    items = list(tensors.fields) if isinstance(tensors, Tuple) else [bb.emit(tensors[i]) for i in range(count)]  # type: ignore[index]
    return bb.call_te(topi_function("stack"), items, node.attrs["axis"])


@operator("relax.stack", infer=_infer_stack, legalize=_legalize_stack, reference=np.stack, **_MOVES)
def stack(tensors: Any, axis: int = 0) -> Expr:
    """Join tensors of one shape along a new axis."""
    return call("relax.stack", _tensor_tuple(tensors), attrs={"axis": 0 if axis is None else int(axis)})


# expand_dims, squeeze, flatten, reshape


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
    return TensorStructInfo([int64(1) if i in places else next(rest) for i in range(ndim)], info.dtype, info.vdevice)


def _legalize_expand_dims(bb: Any, node: Call) -> Expr:
    axes = sorted(normalize_axes(node, node.args[0].struct_info.ndim + len(node.attrs["axis"]), node.attrs["axis"]))

    def te_expand_dims(data: Any) -> Any:
        for axis in axes:
            data = topi_function("expand_dims")(data, axis)
        return data

    return bb.call_te(te_expand_dims, node.args[0], primfunc_name_hint="expand_dims")


@operator(
    "relax.expand_dims", infer=_infer_expand_dims, legalize=_legalize_expand_dims,
    reference=lambda x, axis: np.expand_dims(x, tuple(axis)), **_MOVES,
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
        extent = as_int(dims[place])
        if extent is not None and extent != 1:
            raise fail(node, f"axis {place} has extent {extent}, only axes of extent 1 can be removed")
    return TensorStructInfo([dim for i, dim in enumerate(dims) if i not in places], info.dtype, info.vdevice)


def _np_squeeze(x: np.ndarray, axis: Any) -> np.ndarray:
    return np.squeeze(x, None if axis is None else tuple(axis))


@operator(
    "relax.squeeze", infer=_infer_squeeze, legalize=with_attrs("squeeze", "axis"), reference=_np_squeeze, **_MOVES
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
    return bb.call_te(topi_function("reshape"), node.args[0], list(node.struct_info.shape_values))


@operator("relax.flatten", infer=_infer_flatten, legalize=_legalize_to_reshape, reference=np.ravel, **_MOVES)
def flatten(x: Expr) -> Expr:
    """The elements as a 1-dimensional tensor."""
    return call("relax.flatten", x)


def _infer_reshape(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info, target = tensor_arg(node, 0), shape_arg(node, 1)
    if info.shape_values is not None and target.values is not None:
        before, after = simplify(product(info.shape_values)), simplify(product(target.values))
        if as_int(before) is not None and as_int(after) is not None and as_int(before) != as_int(after):
            raise fail(
                node,
                f"{show_dims(info.shape_values)} has {as_int(before)} elements and cannot be reshaped to"
                f" {show_dims(target.values)} with {as_int(after)}",
            )
    return TensorStructInfo(shape_target(node, 1), info.dtype, info.vdevice)


def _legalize_reshape(bb: Any, node: Call) -> Expr:
    shape = node.args[1].struct_info
    assert isinstance(shape, ShapeStructInfo)
    return bb.call_te(topi_function("reshape"), node.args[0], list(shape.values))


@operator(
    "relax.reshape", infer=_infer_reshape, legalize=_legalize_reshape, reference=np.reshape, **_MOVES
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
                raise IRValueError(f"relax.reshape: extent 0 at {place} copies an extent that the input does not have")
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


@operator(
    "relax.permute_dims",
    infer=_infer_permute_dims,
    legalize=with_attrs("transpose", "axes"),
    reference=lambda x, axes: np.transpose(x, axes),
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


@operator("relax.flip", infer=_infer_flip, legalize=with_attrs("flip", "axis"), reference=np.flip, **_MOVES)
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
    from ... import te, tir

    index_map, pad_value = node.attrs["index_map"], node.attrs.get("pad_value")
    dtype = node.args[0].struct_info.dtype
    if isinstance(pad_value, PrimValue):
        pad_value = pad_value.value
    if isinstance(pad_value, IntImm | FloatImm):
        pad_value = pad_value.value
    pad = tir.const(0 if pad_value is None else pad_value, dtype)

    def te_layout_transform(data: Any) -> Any:
        # A padded transform has destinations without a source: read through the inverse map, under its predicate.
        inverse, predicate = index_map.non_surjective_inverse(list(data.shape))
        out_shape = index_map.map_shape(list(data.shape))

        def element(*indices: Any) -> Any:
            value = data(*inverse.map_indices(list(indices)))
            if isinstance(predicate, IntImm) and predicate.value == 0:
                return value
            bound = dict(zip(inverse.initial_indices, indices, strict=True))
            return tir.if_then_else(tir.substitute(predicate, bound), pad, value)

        return te.compute(out_shape, element, name="te_layout_transform")

    return bb.call_te(te_layout_transform, node.args[0])


def _np_layout_transform(x: np.ndarray, index_map: Any, pad_value: Any, **separators: Any) -> np.ndarray:
    """Every element is moved to where the map sends its index."""
    shape = [int(getattr(dim, "value", dim)) for dim in index_map.map_shape([int64(extent) for extent in x.shape])]
    out = np.full(shape, 0 if pad_value is None else pad_value.value.value, x.dtype)
    for place in np.ndindex(*x.shape):
        target = tuple(simplify(index).value for index in index_map.map_indices([int64(i) for i in place]))  # type: ignore[attr-defined]
        out[target] = x[place]
    return out


@operator(
    "relax.layout_transform", infer=_infer_layout_transform, legalize=_legalize_layout_transform,
    reference=_np_layout_transform, **_MOVES,
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
    from ...tir.index_map import IndexMap

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
    from ...tir.expr import const

    info = x.struct_info_
    number = value.value if isinstance(value, IntImm | FloatImm) else value
    dtype = info.dtype if isinstance(info, TensorStructInfo) and info.dtype else "float32" if isinstance(number, float) else "int64"
    return const(number, dtype)


# split


def _infer_split(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    what = node.attrs["indices_or_sections"]
    count = what if isinstance(what, int) else len(what) + 1
    if info.ndim == -1:
        return TupleStructInfo([TensorStructInfo(None, info.dtype, info.vdevice)] * count)
    axis = normalize_axis(node, info.ndim, node.attrs["axis"])
    dims = info.shape_values
    if dims is None:
        return TupleStructInfo([TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)] * count)
    extent = dims[axis]
    fields = []
    for low, high in _split_bounds(what, extent):
        part = [*dims[:axis], simplify(high - low), *dims[axis + 1 :]]
        fields.append(TensorStructInfo(part, info.dtype, info.vdevice))
    return TupleStructInfo(fields)


def _split_bounds(what: Any, extent: PrimExpr) -> list[tuple[PrimExpr, PrimExpr]]:
    """(begin, end) of each part along the split axis; sections are as even as ceil division makes them."""
    from ...tir.op import ceildiv

    size = as_int(extent)
    if isinstance(what, int):
        if size is not None:
            step = -(-size // what)
            marks: list[PrimExpr] = [int64(min(step * i, size)) for i in range(what)] + [extent]
        else:
            step_expr = simplify(ceildiv(extent, int64(what)))
            marks = [simplify(step_expr * i) for i in range(what)] + [extent]
    else:
        marks = [int64(0), *[_clamped(index, size) for index in what], extent]
    bounds = []
    for low, high in itertools.pairwise(marks):
        a, b = as_int(low), as_int(high)
        bounds.append((low, int64(max(a, b)) if a is not None and b is not None else high))
    return bounds


def _clamped(index: int, size: int | None) -> IntImm:
    return int64(index if size is None else min(index, size))


def _legalize_split(bb: Any, node: Call) -> Expr:
    what, axis = node.attrs["indices_or_sections"], node.attrs["axis"]
    info = node.args[0].struct_info
    assert isinstance(info, TensorStructInfo)
    size = as_int(info.shape_values[normalize_axis(node, info.ndim, axis)])  # type: ignore[index]
    if isinstance(what, int) and size is not None and size % what:
        step = -(-size // what)
        what = [min(step * i, size) for i in range(1, what)]
    return bb.call_te(topi_function("split"), node.args[0], what if isinstance(what, int) else list(what), axis)


def _np_split(x: np.ndarray, indices_or_sections: Any, axis: int) -> list[np.ndarray]:
    if isinstance(indices_or_sections, int):
        step = -(-x.shape[axis] // indices_or_sections)
        return np.split(x, [step * i for i in range(1, indices_or_sections)], axis)
    return np.split(x, list(indices_or_sections), axis)


@operator("relax.split", infer=_infer_split, legalize=_legalize_split, reference=_np_split, **_MOVES)
def split(x: Expr, indices_or_sections: int | Sequence[int], axis: int = 0) -> Expr:
    """Split along an axis: into a number of parts of equal extent (the last may be smaller), or before given indices."""
    if isinstance(indices_or_sections, int | IntImm):
        what: Any = int(indices_or_sections)
        if what < 1:
            raise IRValueError(f"relax.split: the number of sections must be positive, got {what}")
    else:
        what = [int(item) for item in indices_or_sections]
    return call("relax.split", x, attrs={"indices_or_sections": what, "axis": int(axis)})


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
    return TensorStructInfo([*dims[:place], simplify(dims[place] * repeats), *dims[place + 1 :]], info.dtype, info.vdevice)


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
    return call("relax.repeat", data, attrs={"repeats": int(repeats), "axis": None if axis is None else int(axis)})


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
    return TensorStructInfo([simplify(d * c) for d, c in zip(dims, counts, strict=True)], info.dtype, info.vdevice)


@operator(
    "relax.tile", infer=_infer_tile, legalize=with_attrs("tile", "repeats"),
    reference=lambda x, repeats: np.tile(x, repeats), **_MOVES,
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
        raise fail(node, f"{show_dims(info.shape_values)} cannot be summed to the larger shape {show_dims(target)}")
    result = broadcast_dims(node, info.shape_values, target)
    if result is not None and not all(
        as_int(a) is None or as_int(b) is None or as_int(a) == as_int(b)
        for a, b in zip(result, info.shape_values, strict=True)
    ):
        raise fail(node, f"{show_dims(info.shape_values)} cannot be summed to {show_dims(target)}")


def _np_collapse_sum(x: np.ndarray, target: Any) -> np.ndarray:
    shape = target.shape if isinstance(target, np.ndarray) else tuple(target)
    lead = x.ndim - len(shape)
    axes = tuple(i for i in range(x.ndim) if i < lead or (shape[i - lead] == 1 and x.shape[i] != 1))
    return x.sum(axes, keepdims=True, dtype=x.dtype).reshape(shape)


def _legalize_collapse_sum(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("collapse_sum"), node.args[0], list(node.struct_info.shape_values), primfunc_name_hint="collapse_sum"
    )


@operator(
    "relax.collapse_sum_to", infer=_infer_collapse_sum_to, legalize=_legalize_collapse_sum, reference=_np_collapse_sum,
    mixed_precision=FOLLOW, pattern=OpPatternKind.kCommReduce,
)
def collapse_sum_to(data: Expr, shape: Any) -> Expr:
    """Sum over the dimensions that broadcasting ``shape`` to that of ``data`` would repeat."""
    return call("relax.collapse_sum_to", data, _shape(shape))


def _infer_collapse_sum_like(node: Call, builder: Any) -> StructInfo:
    info, target = tensor_args(node, 2)
    _check_collapsible(node, info, target.shape_values)
    return TensorStructInfo(target.shape, info.dtype, info.vdevice, target.ndim)


@operator(
    "relax.collapse_sum_like", infer=_infer_collapse_sum_like, legalize=_legalize_collapse_sum,
    reference=_np_collapse_sum, mixed_precision=FOLLOW, pattern=OpPatternKind.kCommReduce,
)
def collapse_sum_like(data: Expr, collapse_target: Expr) -> Expr:
    """Sum over the dimensions that broadcasting ``collapse_target`` to ``data`` would repeat."""
    return call("relax.collapse_sum_like", data, collapse_target)


# meshgrid, one_hot


def _infer_meshgrid(node: Call, builder: Any) -> StructInfo:
    infos = tuple_of_tensors(node, 0)
    dtype, vdevice = common_dtype(node, infos), common_vdevice(node, infos)
    dims = []
    for info in infos:
        if info.ndim not in (-1, 0, 1):
            raise fail(node, f"expected 1-dimensional tensors, got {info.ndim} dimensions")
        if info.shape_values is None:
            return TupleStructInfo([TensorStructInfo(None, dtype, vdevice, len(infos))] * len(infos))
        dims.append(info.shape_values[0] if info.shape_values else int64(1))
    if node.attrs["indexing"] == "xy" and len(dims) > 1:
        dims[0], dims[1] = dims[1], dims[0]
    return TupleStructInfo([TensorStructInfo(dims, dtype, vdevice)] * len(infos))


def _legalize_meshgrid(bb: Any, node: Call) -> Expr:
    tensors = node.args[0]
    items = list(tensors.fields) if isinstance(tensors, Tuple) else [
        bb.emit(tensors[i]) for i in range(len(tensors.struct_info.fields))  # type: ignore[index]
    ]
    return bb.call_te(topi_function("meshgrid"), items, node.attrs["indexing"])


@operator(
    "relax.meshgrid", infer=_infer_meshgrid, legalize=_legalize_meshgrid,
    reference=lambda tensors, indexing: list(np.meshgrid(*tensors, indexing=indexing)), **_MOVES,
)
def meshgrid(tensors: Any, indexing: str | None = "ij") -> Expr:
    """Coordinate matrices from coordinate vectors; ``indexing`` is "ij" (matrix) or "xy" (Cartesian)."""
    indexing = indexing or "ij"
    if indexing not in ("ij", "xy"):
        raise IRValueError(f"relax.meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    return call("relax.meshgrid", _tensor_tuple(tensors), attrs={"indexing": indexing})


def _infer_one_hot(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 3)
    info = tensor_arg(node, 0)
    on, off = node.args[1].struct_info, node.args[2].struct_info
    if not isinstance(on, PrimStructInfo) or not isinstance(off, PrimStructInfo) or on.dtype != off.dtype:
        raise wrong_kind(node, f"on_value and off_value must be scalar values of one dtype, got {on} and {off}")
    if info.ndim == -1:
        return TensorStructInfo(None, on.dtype, info.vdevice)
    axis = normalize_axis(node, info.ndim + 1, node.attrs["axis"])
    if info.shape_values is None:
        return TensorStructInfo(None, on.dtype, info.vdevice, info.ndim + 1)
    dims = list(info.shape_values)
    dims.insert(axis, int64(node.attrs["depth"]))
    return TensorStructInfo(dims, on.dtype, info.vdevice)


def _np_one_hot(indices: np.ndarray, on: float, off: float, depth: int, axis: int) -> np.ndarray:
    hot = np.moveaxis(np.eye(depth, dtype=bool)[indices], -1, axis)
    return np.where(hot, on, off)


def _legalize_one_hot(bb: Any, node: Call) -> Expr:
    on, off = (arg.value for arg in node.args[1:])  # type: ignore[attr-defined]
    return bb.call_te(
        topi_function("one_hot"), node.args[0], on, off, node.attrs["depth"], node.attrs["axis"], on.dtype,
        primfunc_name_hint="one_hot",
    )


@operator("relax.one_hot", infer=_infer_one_hot, legalize=_legalize_one_hot, reference=_np_one_hot, **_MOVES)
def one_hot(indices: Expr, on_value: PrimValue, off_value: PrimValue, depth: int, axis: int = -1) -> Expr:
    """A new axis of extent ``depth`` that holds ``on_value`` at the index and ``off_value`` elsewhere."""
    return call("relax.one_hot", indices, on_value, off_value, attrs={"depth": int(depth), "axis": int(axis)})


InferFunction = Callable[[Call, Any], StructInfo]
