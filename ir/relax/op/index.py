"""Reading and writing elements at given places: taking, slicing, gathering, scattering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRValueError
from ...expr import RelaxExpr
from ...tir.expr import IntImm, PrimExpr, Select
from ..expr import Call, Expr, PrimValue, ShapeExpr, Tuple, convert_to_expr
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .inference import (
    as_int,
    broadcast_dims,
    check_arity,
    common_vdevice,
    fail,
    int64,
    normalize_axes,
    normalize_axis,
    prim_arg,
    require_dtype,
    require_ndim,
    simplify,
    tensor_arg,
    tensor_args,
    wrong_kind,
)
from .legalization import topi_function

FOLLOW = MixedPrecisionPolicy.FOLLOW
_MOVES: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kInjective}

_REST = 2**31 - 1
"""Ends of slices at or past this mean: up to the end of the axis."""


def _require_int(node: Call, info: TensorStructInfo, name: str) -> None:
    require_dtype(node, info, dt.is_integral, f"integer {name}")


# take


def _infer_take(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info = tensor_arg(node, 0)
    indices = node.args[1].struct_info
    axis = node.attrs.get("axis")
    if isinstance(indices, PrimStructInfo):
        picked: Any = ()
        picked_ndim, vdevice = 0, info.vdevice
        if not dt.is_integral(indices.dtype):
            raise wrong_kind(node, f"indices must be integers, got {indices.dtype}")
    else:
        tensor = tensor_arg(node, 1, "indices")
        _require_int(node, tensor, "indices")
        picked, picked_ndim, vdevice = tensor.shape_values, tensor.ndim, common_vdevice(node, [info, tensor])
    if axis is None and info.ndim not in (-1, 1):
        raise fail(node, f"without an axis the input must be 1-dimensional, got {info.ndim} dimensions")
    if info.ndim == -1 or picked_ndim == -1:
        return TensorStructInfo(None, info.dtype, vdevice)
    place = 0 if axis is None else normalize_axis(node, info.ndim, axis)
    ndim = info.ndim - 1 + picked_ndim
    if info.shape_values is None or picked is None:
        return TensorStructInfo(None, info.dtype, vdevice, ndim)
    dims = info.shape_values
    return TensorStructInfo([*dims[:place], *picked, *dims[place + 1 :]], info.dtype, vdevice)


def _legalize_take(bb: Any, node: Call) -> Expr:
    axis, mode = node.attrs.get("axis"), node.attrs.get("mode", "fast")
    indices = prim_arg(node, 1) if isinstance(node.args[1].struct_info, PrimStructInfo) else node.args[1]
    return bb.call_te(topi_function("take"), node.args[0], indices, 0 if axis is None else axis, 0, mode)


@operator(
    "relax.take", infer=_infer_take, legalize=_legalize_take,
    reference=lambda x, indices, axis, mode: np.take(x, indices, axis, mode="raise" if mode == "fast" else mode), **_MOVES,
)
def take(x: Expr, indices: Any, axis: int | None = None, mode: str = "fast") -> Expr:
    """The elements at ``indices`` (an integer tensor or value) along an axis; without an axis, of a 1-dimensional tensor.

    ``mode`` tells what happens outside: "fast" (undefined), "wrap", "clip", "nan".
    """
    attrs = {"axis": None if axis is None else int(axis), "mode": mode}
    return call("relax.take", x, convert_to_expr(indices), attrs=attrs)


# strided_slice


def _tuple_values(node: Call, index: int, name: str) -> list[PrimExpr] | None:
    """The entries of a tuple (or shape) argument; None when they are not known."""
    arg = node.args[index]
    if isinstance(arg, ShapeExpr):
        return list(arg.values)
    if isinstance(arg, Tuple) and all(isinstance(item, PrimValue) for item in arg.fields):
        return [item.value for item in arg.fields]  # type: ignore[attr-defined]
    info = arg.struct_info
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return list(info.values)
    if isinstance(info, TupleStructInfo):
        values = []
        for item in info.fields:
            if not isinstance(item, PrimStructInfo):
                raise wrong_kind(node, f"{name} must hold integers, got {item}")
            if item.value is None:
                return None
            values.append(item.value)
        return values
    if isinstance(info, ShapeStructInfo):
        return None
    raise wrong_kind(node, f"{name} must be a tuple of integers, got {info}")


def _bound(value: PrimExpr, extent: PrimExpr, forward: bool, is_end: bool) -> PrimExpr:
    """A slice bound, counted from the front and limited to the axis as numpy does."""
    from ...tir.op import max, min

    number, size = as_int(value), as_int(extent)
    low = int64(0) if forward else int64(-1)
    high = extent if forward else extent - 1
    if number is not None:
        if forward and number >= _REST:
            return extent
        if not forward and number <= -_REST:
            return int64(-1)
        if size is not None:
            shifted = number + size if number < 0 else number
            top = size if forward else size - 1
            bottom = 0 if forward else -1
            return int64(bottom if shifted < bottom else top if shifted > top else shifted)
        if number == 0 and forward:
            return int64(0)
        shifted_expr = extent + number if number < 0 else value
        limited = max(shifted_expr, low) if number < 0 else min(value, high)
        return simplify(limited)
    shifted_expr = Select(value < 0, value + extent, value) if not _is_extent(value) else value
    return simplify(min(max(shifted_expr, low), high)) if not _is_extent(value) else simplify(min(value, high))


def _is_extent(value: PrimExpr) -> bool:
    """Whether a symbolic bound is a variable by itself: shape variables are never negative."""
    from ...tir.expr import Var

    return isinstance(value, Var)


def slice_length(
    node: Call, begin: PrimExpr, end: PrimExpr, stride: PrimExpr, extent: PrimExpr, assume_inbound: bool
) -> tuple[PrimExpr, PrimExpr]:
    """(first index, number of elements) of a slice of an axis."""
    from ...tir.op import ceildiv, max

    step = as_int(stride)
    if step == 0:
        raise fail(node, "strides must not be 0")
    if step is None:
        raise fail(node, f"strides must be constants, got {stride}")
    begin, end, stride = (item if item.dtype == "int64" else item.astype("int64") for item in (begin, end, stride))
    forward = step > 0
    if assume_inbound:
        first, last = begin, end
    else:
        first, last = _bound(begin, extent, forward, False), _bound(end, extent, forward, True)
    distance = last - first if forward else first - last
    size = abs(step)
    a, b = as_int(simplify(distance)), None
    if a is not None:
        b = -(-a // size)
        return first, int64(b if b > 0 else 0)
    length = distance if size == 1 else ceildiv(distance, int64(size))
    whole = as_int(first) == 0 and not assume_inbound
    simplified = simplify(length)
    if assume_inbound or whole:
        return first, simplified
    return first, simplify(max(simplified, int64(0)))


def _slice_parts(node: Call, info: TensorStructInfo) -> tuple[list[int], list[Any], list[Any], list[Any]] | None:
    axes = _tuple_values(node, 1, "axes")
    begin, end = _tuple_values(node, 2, "begin"), _tuple_values(node, 3, "end")
    strides = _tuple_values(node, 4, "strides") if len(node.args) > 4 else None
    if axes is None or begin is None or end is None:
        return None
    if strides is None:
        strides = [int64(1)] * len(axes)
    if not len(axes) == len(begin) == len(end) == len(strides):
        raise fail(
            node,
            f"axes, begin, end and strides must have one length, got {len(axes)}, {len(begin)}, {len(end)}, {len(strides)}",
        )
    places = []
    for axis in axes:
        number = as_int(axis)
        if number is None:
            raise fail(node, f"axes must be constants, got {axis}")
        places.append(number)
    return normalize_axes(node, info.ndim, places, "axes"), begin, end, strides


def _infer_strided_slice(node: Call, builder: Any) -> StructInfo:
    if len(node.args) not in (4, 5):
        raise fail(node, f"expected 4 or 5 arguments, got {len(node.args)}")
    info = tensor_arg(node, 0)
    if info.ndim == -1:
        return TensorStructInfo(None, info.dtype, info.vdevice)
    parts = _slice_parts(node, info)
    if info.shape_values is None or parts is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    dims = list(info.shape_values)
    for axis, begin, end, stride in zip(*parts, strict=True):
        _, dims[axis] = slice_length(node, begin, end, stride, dims[axis], node.attrs["assume_inbound"])
    return TensorStructInfo(dims, info.dtype, info.vdevice)


def _legalize_strided_slice(bb: Any, node: Call) -> Expr:
    from ... import te

    info = tensor_arg(node, 0)
    parts = _slice_parts(node, info)
    if parts is None or info.shape_values is None:
        return node
    axes, begins, ends, strides = parts
    inbound = node.attrs["assume_inbound"]
    first: dict[int, PrimExpr] = {}
    steps: dict[int, int] = {}
    out = list(info.shape_values)
    for axis, begin, end, stride in zip(axes, begins, ends, strides, strict=True):
        first[axis], out[axis] = slice_length(node, begin, end, stride, out[axis], inbound)
        steps[axis] = as_int(stride)  # type: ignore[assignment]
    names = list(first)

    def te_strided_slice(data: Any, starts: list[Any], out_shape: list[Any]) -> Any:
        offset = dict(zip(names, starts, strict=True))

        def element(*indices: Any) -> Any:
            source = []
            for axis, index in enumerate(indices):
                position = index * steps[axis] + offset[axis] if axis in offset else index
                source.append(position)
            return data(*source)

        return te.compute(out_shape, element, name="T_strided_slice")

    return bb.call_te(
        te_strided_slice, node.args[0], [first[axis] for axis in names], out, primfunc_name_hint="strided_slice"
    )


def _np_strided_slice(x: np.ndarray, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False) -> Any:
    index: list[Any] = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        step = 1 if strides is None else strides[i]
        last: Any = end[i]
        if step < 0 and last <= -_REST:
            last = None
        index[axis] = slice(begin[i], last, step)
    return x[tuple(index)]


def _int_tuple(values: Any) -> Expr:
    if isinstance(values, RelaxExpr):
        return values
    if isinstance(values, int | PrimExpr):
        values = [values]
    return Tuple([convert_to_expr(value) for value in values])


@operator(
    "relax.strided_slice", infer=_infer_strided_slice, legalize=_legalize_strided_slice, reference=_np_strided_slice,
    **_MOVES,
)
def strided_slice(
    x: Expr, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> Expr:
    """A slice with steps along some axes, as in numpy (negative bounds count from the end, bounds past an end are limited).

    Args:
        x: the tensor.
        axes: the axes to slice.
        begin, end: the bounds per axis, the end not included; integers or symbolic values.
        strides: the steps per axis, default 1.
        assume_inbound: promise that all bounds are within the axis, so that symbolic extents stay simple.
    """
    args = [x, _int_tuple(axes), _int_tuple(begin), _int_tuple(end)]
    if strides is not None:
        args.append(_int_tuple(strides))
    return call("relax.strided_slice", *args, attrs={"assume_inbound": bool(assume_inbound)})


def _infer_dynamic_strided_slice(node: Call, builder: Any) -> StructInfo:
    info, begin, end, strides = tensor_args(node, 4)
    for name, item in (("begin", begin), ("end", end), ("strides", strides)):
        require_ndim(node, item, 1, name)
        if item.dtype not in ("", "int64"):
            raise wrong_kind(node, f"{name} must be int64, got {item.dtype}")
        size = as_int(item.shape_values[0]) if item.shape_values is not None else None
        if size is not None and info.ndim not in (-1, size):
            raise fail(node, f"{name} has {size} entries for {info.ndim} dimensions")
    return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)


def _legalize_dynamic_strided_slice(bb: Any, node: Call) -> Expr:
    """First a function computes the result's shape from the data of the bounds, then the slice is of that shape."""
    from ... import te, tir

    info = tensor_arg(node, 0)
    if info.shape_values is None:
        return node
    ndim = info.ndim

    def te_shape_func(data: Any, begin: Any, end: Any, strides: Any) -> Any:
        def length(i: Any) -> Any:
            result: Any = tir.const(0, "int64")
            for axis in range(ndim):
                extent = data.shape[axis].astype("int64")
                step = strides(axis)
                low = tir.Select(step < 0, tir.const(-1, "int64"), tir.const(0, "int64"))
                high = tir.Select(step < 0, extent - 1, extent)

                def limited(value: Any, low: Any = low, high: Any = high, extent: Any = extent) -> Any:
                    return tir.min(tir.max(tir.Select(value < 0, value + extent, value), low), high)

                first, last = limited(begin(axis)), limited(end(axis))
                count = tir.if_then_else(
                    step < 0, tir.ceildiv(first - last, -step), tir.ceildiv(last - first, step)
                )
                result = tir.Select(i == axis, tir.max(count, tir.const(0, "int64")), result)
            return result

        return te.compute((ndim,), length, name="T_shape_func_strided_slice_dynamic")

    shape = bb.emit(bb.call_te(te_shape_func, *node.args, primfunc_name_hint="shape_func"))
    from .base import call_pure_packed

    runtime = bb.emit(call_pure_packed("vm.builtin.tensor_to_shape", shape, sinfo_args=ShapeStructInfo(ndim=ndim)))
    names = [tir.Var(f"s{axis}" if ndim > 1 else "s", "int64") for axis in range(ndim)]
    bb.match_cast(runtime, ShapeStructInfo(names))

    def te_slice(data: Any, begin: Any, end: Any, strides: Any, dims: Any) -> Any:
        def element(*indices: Any) -> Any:
            source = []
            for axis, index in enumerate(indices):
                extent = data.shape[axis].astype("int64")
                step, first = strides(axis), begin(axis)
                first = tir.Select(first < 0, first + extent, first)
                low = tir.Select(step < 0, tir.const(-1, "int64"), tir.const(0, "int64"))
                high = tir.Select(step < 0, extent - 1, extent)
                source.append(tir.min(tir.max(first, low), high) + index * step)
            return data(*source)

        return te.compute(dims, element, name="T_strided_slice_dynamic")

    return bb.call_te(te_slice, *node.args, ShapeExpr(names), primfunc_name_hint="dynamic_strided_slice")


@operator(
    "relax.dynamic_strided_slice", infer=_infer_dynamic_strided_slice, legalize=_legalize_dynamic_strided_slice,
    reference=lambda x, b, e, s: _np_strided_slice(x, range(x.ndim), b.tolist(), e.tolist(), s.tolist()),
    mixed_precision=FOLLOW, data_dependent=True,
)
def dynamic_strided_slice(x: Expr, begin: Expr, end: Expr, strides: Expr) -> Expr:
    """As :func:`strided_slice` over all axes, with bounds and steps in 1-dimensional int64 tensors."""
    return call("relax.dynamic_strided_slice", x, begin, end, strides)


# gather


def _infer_gather_elements(node: Call, builder: Any) -> StructInfo:
    info, indices = tensor_args(node, 2)
    _require_int(node, indices, "indices")
    if info.ndim != -1 and indices.ndim not in (-1, info.ndim):
        raise fail(node, f"indices must have as many dimensions as the data ({info.ndim}), got {indices.ndim}")
    if info.ndim != -1:
        normalize_axis(node, info.ndim, node.attrs["axis"])
    return TensorStructInfo(indices.shape, info.dtype, common_vdevice(node, [info, indices]), indices.ndim)


def _legalize_gather_elements(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("gather"), node.args[0], node.attrs["axis"], node.args[1], primfunc_name_hint="gather_elements"
    )


@operator(
    "relax.gather_elements", infer=_infer_gather_elements, legalize=_legalize_gather_elements,
    reference=lambda x, indices, axis: np.take_along_axis(x, indices, axis), **_MOVES,
)
def gather_elements(data: Expr, indices: Expr, axis: int = 0) -> Expr:
    """``out[i, j, k] = data[indices[i, j, k], j, k]`` for axis 0, and likewise for others."""
    return call("relax.gather_elements", data, indices, attrs={"axis": int(axis)})


def _infer_gather_nd(node: Call, builder: Any) -> StructInfo:
    info, indices = tensor_args(node, 2)
    _require_int(node, indices, "indices")
    batch = node.attrs["batch_dims"]
    vdevice = common_vdevice(node, [info, indices])
    if info.ndim == -1 or indices.ndim == -1:
        return TensorStructInfo(None, info.dtype, vdevice)
    if not 0 <= batch < indices.ndim:
        raise fail(node, f"batch_dims {batch} must be less than the {indices.ndim} dimensions of indices")
    depth = as_int(indices.shape_values[-1]) if indices.shape_values is not None else None
    if depth is None:
        return TensorStructInfo(None, info.dtype, vdevice)
    if batch + depth > info.ndim:
        raise fail(node, f"{depth} indices after {batch} batch dimensions exceed the {info.ndim} dimensions of the data")
    ndim = indices.ndim - 1 + info.ndim - batch - depth
    if info.shape_values is None or indices.shape_values is None:
        return TensorStructInfo(None, info.dtype, vdevice, ndim)
    return TensorStructInfo([*indices.shape_values[:-1], *info.shape_values[batch + depth :]], info.dtype, vdevice)


def _np_gather_nd(x: np.ndarray, indices: np.ndarray, batch_dims: int) -> np.ndarray:
    depth = indices.shape[-1]
    grid = np.ix_(*[range(n) for n in indices.shape[:batch_dims]]) if batch_dims else ()
    extra = indices.ndim - 1 - batch_dims
    lead = tuple(g.reshape(g.shape + (1,) * extra) for g in grid)
    return x[lead + tuple(indices[..., i] for i in range(depth))]


def _legalize_gather_nd(bb: Any, node: Call) -> Expr:
    def te_gather_nd(data: Any, indices: Any) -> Any:
        # topi keeps the index vector in the first dimension
        order = [len(indices.shape) - 1, *range(len(indices.shape) - 1)]
        return topi_function("gather_nd")(data, topi_function("transpose")(indices, order), node.attrs["batch_dims"])

    return bb.call_te(te_gather_nd, *node.args, primfunc_name_hint="gather_nd")


@operator(
    "relax.gather_nd", infer=_infer_gather_nd, legalize=_legalize_gather_nd, reference=_np_gather_nd, **_MOVES
)
def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0) -> Expr:
    """The slices of ``data`` at the index vectors in the last dimension of ``indices``."""
    return call("relax.gather_nd", data, indices, attrs={"batch_dims": int(batch_dims)})


def _index_list(node: Call, index: int) -> list[TensorStructInfo]:
    info = node.args[index].struct_info
    if not isinstance(info, TupleStructInfo) or not all(isinstance(item, TensorStructInfo) for item in info.fields):
        raise wrong_kind(node, f"indices must be a tuple of tensors, got {info}")
    for item in info.fields:
        require_dtype(node, item, lambda d: dt.is_integral(d), "integer indices")  # type: ignore[arg-type]
    return list(info.fields)  # type: ignore[arg-type]


def _infer_index_tensor(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info = tensor_arg(node, 0)
    indices = _index_list(node, 1)
    if not indices:
        raise fail(node, "expected at least one index tensor")
    if info.ndim == -1 or any(item.ndim == -1 for item in indices):
        return TensorStructInfo(None, info.dtype, info.vdevice)
    if len(indices) > info.ndim:
        raise fail(node, f"{len(indices)} indices for {info.ndim} dimensions")
    ndim = max(item.ndim for item in indices) + info.ndim - len(indices)
    dims: Any = ()
    for item in indices:
        dims = None if dims is None or item.shape_values is None else broadcast_dims(node, dims, item.shape_values)
    if dims is None or info.shape_values is None:
        return TensorStructInfo(None, info.dtype, info.vdevice, ndim)
    return TensorStructInfo([*dims, *info.shape_values[len(indices) :]], info.dtype, info.vdevice)


def _tuple_items(bb: Any, expr: Any) -> list[Any]:
    if isinstance(expr, Tuple):
        return list(expr.fields)
    return [bb.emit(expr[i]) for i in range(len(expr.struct_info.fields))]


def _legalize_index_tensor(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("adv_index"), node.args[0], _tuple_items(bb, node.args[1]), primfunc_name_hint="index_tensor"
    )


@operator(
    "relax.index_tensor", infer=_infer_index_tensor, legalize=_legalize_index_tensor,
    reference=lambda x, indices: x[tuple(indices)], **_MOVES,
)
def index_tensor(data: Expr, indices: Any) -> Expr:
    """Advanced indexing of the leading dimensions with broadcast index tensors, as ``data[i, j]`` in numpy."""
    return call("relax.index_tensor", data, indices if isinstance(indices, RelaxExpr) else Tuple(indices))


# scatter


def _infer_same_as_data(node: Call, builder: Any) -> StructInfo:
    info = tensor_arg(node, 0)
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _check_reduction(op: str, reduction: str, allowed: Sequence[str]) -> None:
    if reduction not in allowed:
        raise IRValueError(f"{op}: reduction must be one of {', '.join(allowed)}, got {reduction!r}")


def _infer_scatter_elements(node: Call, builder: Any) -> StructInfo:
    info, indices, updates = tensor_args(node, 3)
    _require_int(node, indices, "indices")
    if info.dtype and updates.dtype and info.dtype != updates.dtype:
        raise wrong_kind(node, f"updates must have the data's dtype {info.dtype}, got {updates.dtype}")
    known = {item.ndim for item in (info, indices, updates)} - {-1}
    if len(known) > 1:
        raise fail(node, f"data, indices and updates must have one number of dimensions, got {sorted(known)}")
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


_COMBINE: dict[str, Any] = {
    "update": lambda a, b: b,
    "add": np.add,
    "mul": np.multiply,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def _np_scatter_elements(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, reduction: str) -> np.ndarray:
    out, count = x.copy(), np.ones(x.shape, "int64")
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = indices[place]
        out[tuple(target)] = _COMBINE[reduction](out[tuple(target)], updates[place])
        count[tuple(target)] += 1
    return (out / count).astype(x.dtype) if reduction == "mean" else out


def _legalize_scatter_elements(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("scatter_elements"), *node.args, node.attrs["axis"], node.attrs["reduction"],
        primfunc_name_hint="scatter_elements",
    )


@operator(
    "relax.scatter_elements", infer=_infer_scatter_elements, legalize=_legalize_scatter_elements,
    reference=_np_scatter_elements, mixed_precision=FOLLOW, pattern=OpPatternKind.kOpaque,
)
def scatter_elements(data: Expr, indices: Expr, updates: Expr, axis: int = 0, reduction: str = "update") -> Expr:
    """A copy of ``data`` with ``out[indices[i, j], j] = updates[i, j]`` for axis 0, and likewise for others.

    ``reduction`` tells how an update meets the value there: "update", "add", "mul", "mean", "max", "min".
    """
    _check_reduction("relax.scatter_elements", reduction, list(_COMBINE))
    attrs = {"axis": int(axis), "reduction": reduction}
    return call("relax.scatter_elements", data, indices, updates, attrs=attrs)


def _infer_scatter_nd(node: Call, builder: Any) -> StructInfo:
    info, indices, updates = tensor_args(node, 3)
    _require_int(node, indices, "indices")
    if info.dtype and updates.dtype and info.dtype != updates.dtype:
        raise wrong_kind(node, f"updates must have the data's dtype {info.dtype}, got {updates.dtype}")
    if indices.shape_values is not None and info.ndim != -1:
        depth = as_int(indices.shape_values[-1])
        if depth is not None and depth > info.ndim:
            raise fail(node, f"index vectors of length {depth} for {info.ndim} dimensions")
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _np_scatter_nd(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, reduction: str) -> np.ndarray:
    out = x.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        target = tuple(indices[place])
        out[target] = _COMBINE[reduction](out[target], updates[place])
    return out


def _legalize_scatter_nd(bb: Any, node: Call) -> Expr:
    def te_scatter_nd(data: Any, indices: Any, updates: Any) -> Any:
        # topi keeps the index vector in the first dimension
        order = [len(indices.shape) - 1, *range(len(indices.shape) - 1)]
        moved = topi_function("transpose")(indices, order)
        return topi_function("scatter_nd")(data, moved, updates, node.attrs["reduction"])

    return bb.call_te(te_scatter_nd, *node.args, primfunc_name_hint="scatter_nd")


@operator(
    "relax.scatter_nd", infer=_infer_scatter_nd, legalize=_legalize_scatter_nd, reference=_np_scatter_nd,
    mixed_precision=FOLLOW, pattern=OpPatternKind.kOpaque,
)
def scatter_nd(data: Expr, indices: Expr, updates: Expr, reduction: str = "update") -> Expr:
    """A copy of ``data`` with the slices at the index vectors (last dimension of ``indices``) replaced by ``updates``.

    ``reduction`` tells how an update meets the value there: "update", "add", "mul", "max", "min".
    """
    _check_reduction("relax.scatter_nd", reduction, ["update", "add", "mul", "max", "min"])
    return call("relax.scatter_nd", data, indices, updates, attrs={"reduction": reduction})


def _infer_index_put(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 3)
    info, values = tensor_arg(node, 0), tensor_arg(node, 2)
    indices = _index_list(node, 1)
    if info.ndim != -1 and len(indices) > info.ndim:
        raise fail(node, f"{len(indices)} indices for {info.ndim} dimensions")
    if info.dtype and values.dtype and info.dtype != values.dtype:
        raise wrong_kind(node, f"values must have the data's dtype {info.dtype}, got {values.dtype}")
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _np_index_put(x: np.ndarray, indices: Any, values: np.ndarray, accumulate: bool) -> np.ndarray:
    out = x.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


def _legalize_index_put(bb: Any, node: Call) -> Expr:
    return bb.call_te(
        topi_function("index_put"), node.args[0], _tuple_items(bb, node.args[1]), node.args[2], node.attrs["accumulate"],
        primfunc_name_hint="index_put",
    )


@operator(
    "relax.index_put", infer=_infer_index_put, legalize=_legalize_index_put, reference=_np_index_put,
    mixed_precision=FOLLOW, pattern=OpPatternKind.kOpaque,
)
def index_put(data: Expr, indices: Any, values: Expr, accumulate: bool = False) -> Expr:
    """A copy of ``data`` with the elements at the index tensors set to (or, accumulating, increased by) ``values``."""
    if not isinstance(indices, RelaxExpr):
        indices = Tuple(indices)
    return call("relax.index_put", data, indices, values, attrs={"accumulate": bool(accumulate)})


def _slice_scatter_prims(node: Call) -> list[PrimExpr]:
    values = [prim_arg(node, index) for index in (2, 3, 4)]
    if any(value is None for value in values):
        raise fail(node, "start, end and step must be known")
    return values  # type: ignore[return-value]


def _infer_slice_scatter(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 5)
    info, src = tensor_arg(node, 0), tensor_arg(node, 1)
    if info.dtype and src.dtype and info.dtype != src.dtype:
        raise wrong_kind(node, f"src must have the data's dtype {info.dtype}, got {src.dtype}")
    if info.ndim != -1 and src.ndim not in (-1, info.ndim):
        raise fail(node, f"src must have {info.ndim} dimensions, got {src.ndim}")
    step = prim_arg(node, 4)
    if isinstance(step, IntImm) and step.value < 1:
        raise fail(node, f"step must be positive, got {step.value}")
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _np_slice_scatter(x: np.ndarray, src: np.ndarray, start: int, end: int, step: int, axis: int) -> np.ndarray:
    out = x.copy()
    index: list[Any] = [slice(None)] * x.ndim
    index[axis] = slice(start, end, step)
    out[tuple(index)] = src
    return out


def _legalize_slice_scatter(bb: Any, node: Call) -> Expr:
    from ... import te, tir

    info = tensor_arg(node, 0)
    axis = normalize_axis(node, info.ndim, node.attrs["axis"])
    start, end, step = _slice_scatter_prims(node)
    first, _ = slice_length(node, start, end, step, info.shape_values[axis], False)  # type: ignore[index]

    def te_slice_scatter(data: Any, src: Any, begin: Any, by: Any) -> Any:
        def element(*indices: Any) -> Any:
            offset = indices[axis] - begin
            place = tir.floordiv(offset, by)
            inside = tir.all(offset >= 0, tir.floormod(offset, by) == 0, place < src.shape[axis])
            source = [place if i == axis else index for i, index in enumerate(indices)]
            return tir.if_then_else(inside, src(*source), data(*indices))

        return te.compute(data.shape, element, name="slice_scatter")

    return bb.call_te(te_slice_scatter, *node.args[:2], first, step, primfunc_name_hint="slice_scatter")


@operator(
    "relax.slice_scatter", infer=_infer_slice_scatter, legalize=_legalize_slice_scatter, reference=_np_slice_scatter,
    **_MOVES,
)
def slice_scatter(input_tensor: Expr, src: Expr, start: Any, end: Any, step: Any, axis: int = 0) -> Expr:
    """A copy of ``input_tensor`` whose slice ``start:end:step`` along an axis is replaced by ``src``."""
    return call(
        "relax.slice_scatter", input_tensor, src, *(convert_to_expr(v) for v in (start, end, step)), attrs={"axis": int(axis)}
    )
