"""Reading elements at given places: taking and slicing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ... import te, topi
from ...error import IRValueError
from ...expr import RelaxExpr
from ...tir.expr import PrimExpr, Select, Var
from ...tir.op import ceildiv, if_then_else, max, min
from ...tir.operators import const
from ..expr import Call, Expr, PrimValue, ShapeExpr, Tuple, convert_to_expr
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from .base import call_pure_packed
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from .inference import (
    as_int,
    check_arity,
    common_vdevice,
    fail,
    int64,
    is_non_negative,
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
from .requirement import require_equal

FOLLOW = MixedPrecisionPolicy.FOLLOW
_MOVES: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kInjective}

_REST = 2**31 - 1
"""Ends of slices at or past this mean: up to the end of the axis."""


def require_int(node: Call, info: TensorStructInfo, name: str) -> None:
    """Raise when a tensor of indices is known not to hold integers."""
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
        require_int(node, tensor, "indices")
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


def _take_gradient(var: Expr, node: Call, grad: Expr, builder: Any) -> list[Any]:
    x, indices = node.args
    if isinstance(indices, PrimValue):
        raise IRValueError("the gradient of relax.take needs a tensor of indices")
    return [
        make.grad.take_backward(grad, x, indices, node.attrs.get("axis"), node.attrs.get("mode", "fast")),
        None,
    ]


def _np_take(x: np.ndarray, indices: Any, axis: int | None, mode: str) -> np.ndarray:
    if mode != "nan":
        return np.take(x, indices, axis, mode={"fast": "raise", "clip": "clip", "wrap": "wrap"}[mode])  # type: ignore[call-overload, no-any-return]
    place = 0 if axis is None else axis % x.ndim
    indices = np.asarray(indices)
    inside = ((indices >= 0) & (indices < x.shape[place])).reshape(
        (*indices.shape, *[1] * (x.ndim - place - 1))
    )
    return np.where(inside, np.take(x, indices, place, mode="clip"), np.asarray(np.nan, x.dtype))


@operator(
    "relax.take",
    infer=_infer_take,
    legalize=_legalize_take,
    gradient=_take_gradient,
    reference=lambda x, indices, axis, mode: _np_take(x, indices, axis, mode),
    undefined=(IndexError,),
    **_MOVES,
)
def take(x: Expr, indices: Any, axis: int | None = None, mode: str = "fast") -> Expr:
    """The elements at ``indices`` (an integer tensor or value) along an axis; without an axis, of a 1-dimensional tensor.

    ``mode`` tells what happens outside: "fast" (negative indices count from the end, the others are undefined), "wrap",
    "clip", "nan".
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


def _bound(value: PrimExpr, extent: PrimExpr, forward: bool, builder: Any) -> PrimExpr:
    """A slice bound, counted from the front and limited to the axis as numpy does."""
    number, size = as_int(value), as_int(extent)
    low = int64(0) if forward else int64(-1)
    high = extent if forward else extent - 1
    if number is not None:
        if number >= _REST:
            return simplify(high, builder)
        if number <= -_REST:
            return low
        if size is not None:
            shifted = number + size if number < 0 else number
            top = size if forward else size - 1
            bottom = 0 if forward else -1
            return int64(bottom if shifted < bottom else top if shifted > top else shifted)
        if number == 0 and forward:
            return int64(0)
        return simplify(max(extent + number, low) if number < 0 else min(value, high), builder)
    if is_non_negative(value, builder):
        return simplify(min(value, high), builder)
    from_front = Select(value < 0, value + extent, value)
    return simplify(min(max(from_front, low), high), builder)


def slice_length(
    node: Call,
    begin: PrimExpr,
    end: PrimExpr,
    stride: PrimExpr,
    extent: PrimExpr,
    assume_inbound: bool,
    builder: Any,
) -> tuple[PrimExpr, PrimExpr]:
    """(first index, number of elements) of a slice of an axis."""
    step = as_int(stride)
    if step == 0:
        raise fail(node, "strides must not be 0")
    if step is None:
        raise fail(node, f"strides must be constants, got {stride}")
    begin, end = (item if item.dtype == "int64" else item.astype("int64") for item in (begin, end))
    forward = step > 0
    if assume_inbound:
        first, last = begin, end
    else:
        first, last = _bound(begin, extent, forward, builder), _bound(end, extent, forward, builder)
    length = simplify(ceildiv(last - first if forward else first - last, int64(abs(step))), builder)
    low, high = as_int(begin), as_int(end)
    # Bounds keep their order when they count from the same end.
    in_order = low is not None and high is not None and (low < 0) == (high < 0) and (low <= high) == forward
    if as_int(length) is None and (assume_inbound or in_order or (forward and as_int(first) == 0)):
        return first, length
    return first, simplify(max(length, int64(0)), builder)


def _slice_parts(
    node: Call, info: TensorStructInfo
) -> tuple[list[int], list[Any], list[Any], list[Any]] | None:
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
        inbound = node.attrs["assume_inbound"]
        _, dims[axis] = slice_length(node, begin, end, stride, dims[axis], inbound, builder)
    return TensorStructInfo(dims, info.dtype, info.vdevice)


def _legalize_strided_slice(bb: Any, node: Call) -> Expr:
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
        first[axis], out[axis] = slice_length(node, begin, end, stride, out[axis], inbound, bb)
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
        te_strided_slice,
        node.args[0],
        [first[axis] for axis in names],
        out,
        primfunc_name_hint="strided_slice",
    )


def _np_strided_slice(
    x: np.ndarray, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> Any:
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
    "relax.strided_slice",
    infer=_infer_strided_slice,
    legalize=_legalize_strided_slice,
    reference=_np_strided_slice,
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
        if item.shape_values is not None and info.ndim != -1:
            text = f"{name} has {{}} entries for {{}} dimensions"
            require_equal(node, item.shape_values[0], int64(info.ndim), text)
    return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)


def _legalize_dynamic_strided_slice(bb: Any, node: Call) -> Expr:
    """First a function computes the result's shape from the data of the bounds, then the slice is of that shape."""
    info = tensor_arg(node, 0)
    if info.shape_values is None:
        return node
    ndim = info.ndim

    def te_shape_func(data: Any, begin: Any, end: Any, strides: Any) -> Any:
        def length(i: Any) -> Any:
            result: Any = const(0, "int64")
            for axis in range(ndim):
                extent = data.shape[axis].astype("int64")
                step = strides(axis)
                low = Select(step < 0, const(-1, "int64"), const(0, "int64"))
                high = Select(step < 0, extent - 1, extent)

                def limited(value: Any, low: Any = low, high: Any = high, extent: Any = extent) -> Any:
                    return min(max(Select(value < 0, value + extent, value), low), high)

                first, last = limited(begin(axis)), limited(end(axis))
                count = if_then_else(step < 0, ceildiv(first - last, -step), ceildiv(last - first, step))
                result = Select(i == axis, max(count, const(0, "int64")), result)
            return result

        return te.compute((ndim,), length, name="T_shape_func_strided_slice_dynamic")

    shape = bb.emit(bb.call_te(te_shape_func, *node.args, primfunc_name_hint="shape_func"))

    runtime = bb.emit(
        call_pure_packed("vm.builtin.tensor_to_shape", shape, sinfo_args=ShapeStructInfo(ndim=ndim))
    )
    names = [Var(f"s{axis}" if ndim > 1 else "s", "int64") for axis in range(ndim)]
    bb.match_cast(runtime, ShapeStructInfo(names))

    return bb.call_te(
        topi.dynamic_strided_slice, *node.args, ShapeExpr(names), primfunc_name_hint="dynamic_strided_slice"
    )


@operator(
    "relax.dynamic_strided_slice",
    infer=_infer_dynamic_strided_slice,
    legalize=_legalize_dynamic_strided_slice,
    reference=lambda x, b, e, s: _np_strided_slice(x, range(x.ndim), b.tolist(), e.tolist(), s.tolist()),
    mixed_precision=FOLLOW,
    data_dependent=True,
)
def dynamic_strided_slice(x: Expr, begin: Expr, end: Expr, strides: Expr) -> Expr:
    """As :func:`strided_slice` over all axes, with bounds and steps in 1-dimensional int64 tensors."""
    return call("relax.dynamic_strided_slice", x, begin, end, strides)


__all__ = ["dynamic_strided_slice", "strided_slice", "take"]
