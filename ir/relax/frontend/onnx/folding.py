"""Nodes whose inputs are all known while importing are computed then, with numpy.

This is what turns the shape arithmetic of exporters (Shape, Gather, Concat, Reshape, ...) into constants. Symbolic extents
take part: arrays of objects hold TIR expressions, on which numpy applies Python's operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.conversion import cast_array
from ir.float_power import float_power
from ir.integer import truncated_quotient
from ir.relax.op.inference import is_non_negative, simplify
from ir.tir import expr as E
from ir.tir.expr import PrimExpr
from ir.tir.op import max as tir_max
from ir.tir.op import min as tir_min
from ir.tir.operators import convert, floordiv, truncdiv

from .context import Known, NodeContext, slice_places

_MAX_ELEMENTS = 1 << 22
"""Larger results stay in the program: computing a big constant here would only make the module heavier."""

Fold = Callable[[NodeContext, list[Any]], Any]
_FOLDS: dict[str, Fold] = {}


def _folds(*op_types: str) -> Callable[[Fold], Fold]:
    def register(function: Fold) -> Fold:
        for op_type in op_types:
            _FOLDS[op_type] = function
        return function

    return register


def _cast_like(ctx: NodeContext, value: Known) -> list[Known] | None:
    """A known value in the dtype of another tensor, of which nothing else need be known."""
    if value.is_symbolic or value.array.size > _MAX_ELEMENTS:
        return None
    return [Known(value.array.astype(dt.to_numpy(ctx.dtype(ctx.expr(1)))))]


def fold(ctx: NodeContext, domain: str) -> list[Known] | None:
    """The node's outputs when they can be computed now, else None."""
    if domain or (ctx.op_type not in _FOLDS and ctx.op_type != "CastLike"):
        return None
    if ctx.op_type == "CastLike" and isinstance(ctx.inputs[0], Known) and ctx.inputs[1] is not None:
        return None if ctx.inputs[0].is_param else _cast_like(ctx, ctx.inputs[0])
    if any(value is None for value in ctx.inputs[: _required(ctx.op_type, ctx.opset)]):
        return None  # the converter says what is missing
    if ctx.op_type not in ("Shape", "Size"):
        given = [value for value in ctx.inputs if value is not None]
        if not given or not all(isinstance(value, Known) and not value.is_param for value in given):
            return None
    arrays = [value.array if isinstance(value, Known) else value for value in ctx.inputs]
    result = _FOLDS[ctx.op_type](ctx, arrays)
    if result is None:
        return None
    results = result if isinstance(result, list) else [result]
    dtype = _dtype_of_result(ctx, [value for value in ctx.inputs if isinstance(value, Known)])
    known = [Known(np.asarray(item), dtype=dtype) for item in results]
    return None if any(item.array.size > _MAX_ELEMENTS for item in known) else known


@lru_cache(maxsize=None)
def _required(op_type: str, opset: int) -> int:
    """How many inputs an operator of ONNX has at least."""
    from onnx import defs

    return int(defs.get_schema(op_type, opset).min_input) if defs.has(op_type, opset) else 0


_CONDITIONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Not")


def _dtype_of_result(ctx: NodeContext, given: list[Known]) -> str:
    """What the model takes symbolic results for: they are int64 or int32 numbers, or conditions."""
    if ctx.op_type in ("Shape", "Size"):
        return "int64"
    if ctx.op_type in _CONDITIONS:
        return "bool"
    if ctx.op_type == "Cast":
        return _target_of_cast(ctx).name
    return given[1 if ctx.op_type == "Where" else 0].dtype


def _target_of_cast(ctx: NodeContext) -> np.dtype[Any]:
    from onnx import helper

    return np.dtype(helper.tensor_dtype_to_np_dtype(int(ctx.attr("to"))))


def _object(items: list[Any]) -> np.ndarray:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def _symbolic(*arrays: Any) -> bool:
    return any(isinstance(item, np.ndarray) and item.dtype == object for item in arrays)


def _integral(array: np.ndarray) -> bool:
    return array.dtype == object or array.dtype.kind in "iu"


# ----------------------------------------------------------------------------------------------------------- shapes
@_folds("Shape")
def _shape(ctx: NodeContext, arrays: list[Any]) -> Any:
    value = ctx.inputs[0]
    dims: list[Any]
    if isinstance(value, Known):
        dims = list(value.array.shape)
    else:
        values = ctx.info(ctx.expr(0)).shape_values
        if values is None:
            return None
        dims = list(values)
    start, end = int(ctx.attr("start", 0)), ctx.attr("end")
    return Known(_object(dims[start : None if end is None else int(end)])).array


@_folds("Size")
def _size(ctx: NodeContext, arrays: list[Any]) -> Any:
    value = ctx.inputs[0]
    if isinstance(value, Known):
        return np.array(value.array.size, np.int64)
    values = ctx.info(ctx.expr(0)).shape_values
    if values is None:
        return None
    total: Any = 1
    for dim in values:
        total = dim * total if not isinstance(total, int) or total != 1 else dim
    out = np.empty((), dtype=object)
    out[()] = total
    return out


@_folds("Identity", "Dropout")
def _identity(ctx: NodeContext, arrays: list[Any]) -> Any:
    return arrays[0] if ctx.n_outputs == 1 else None


@_folds("Gather")
def _gather(ctx: NodeContext, arrays: list[Any]) -> Any:
    data, indices = arrays
    axis = int(ctx.attr("axis", 0))
    if _symbolic(indices):
        return None
    return np.take(data, indices, axis=axis)


@_folds("Concat")
def _concat(ctx: NodeContext, arrays: list[Any]) -> Any:
    axis = int(ctx.attr("axis", 0))
    if _symbolic(*arrays):
        arrays = [item.astype(object) for item in arrays]
    return np.concatenate(arrays, axis=axis)


@_folds("Unsqueeze")
def _unsqueeze(ctx: NodeContext, arrays: list[Any]) -> Any:
    axes = ctx.ints_of(1, "axes") or []
    rank = arrays[0].ndim + len(axes)
    return np.expand_dims(arrays[0], tuple(axis % rank for axis in axes))


@_folds("Squeeze")
def _squeeze(ctx: NodeContext, arrays: list[Any]) -> Any:
    axes = ctx.ints_of(1, "axes")
    return np.squeeze(arrays[0], None if axes is None else tuple(axes))


@_folds("Reshape")
def _reshape(ctx: NodeContext, arrays: list[Any]) -> Any:
    data, target = arrays
    if _symbolic(target):
        return None
    dims = [int(dim) for dim in target]
    if not ctx.attr("allowzero", 0):
        dims = [data.shape[i] if dim == 0 else dim for i, dim in enumerate(dims)]
    return data.reshape(dims)


@_folds("Flatten")
def _flatten(ctx: NodeContext, arrays: list[Any]) -> Any:
    axis = int(ctx.attr("axis", 1))
    lead = arrays[0].shape[: axis if axis >= 0 else arrays[0].ndim + axis]
    return arrays[0].reshape(int(np.prod(lead, dtype=np.int64)), -1)


@_folds("Transpose")
def _transpose(ctx: NodeContext, arrays: list[Any]) -> Any:
    return np.transpose(arrays[0], ctx.attr("perm")).copy()


@_folds("Split")
def _split(ctx: NodeContext, arrays: list[Any]) -> Any:
    axis, sizes = int(ctx.attr("axis", 0)), ctx.ints_of(1, "split")
    if sizes is None:
        size = -(
            -arrays[0].shape[axis] // ctx.n_outputs
        )  # the last part is the smaller one where they cannot be equal
        sizes = [size] * (ctx.n_outputs - 1)
    return np.split(arrays[0], np.cumsum(sizes)[: ctx.n_outputs - 1], axis)


@_folds("Slice")
def _slice(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(*arrays[1:]):
        return None
    starts, ends = ctx.ints_of(1, "starts"), ctx.ints_of(2, "ends")
    if starts is None or ends is None:
        return None
    axes = ctx.ints_of(3, "axes") or list(range(len(starts)))
    steps = ctx.ints_of(4, "steps") or [1] * len(starts)
    index: list[Any] = [slice(None)] * arrays[0].ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        index[axis] = list(slice_places(start, end, step, arrays[0].shape[axis]))
        arrays[0] = arrays[0][tuple(index)]
        index[axis] = slice(None)
    return arrays[0]


@_folds("Expand")
def _expand(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(arrays[1]):
        return None
    target = np.broadcast_shapes(arrays[0].shape, tuple(int(dim) for dim in arrays[1]))
    if int(np.prod(target, dtype=np.int64)) > _MAX_ELEMENTS:
        return None
    return np.broadcast_to(arrays[0], target).copy()


@_folds("Tile")
def _tile(ctx: NodeContext, arrays: list[Any]) -> Any:
    return None if _symbolic(arrays[1]) else np.tile(arrays[0], [int(item) for item in arrays[1]])


# ---------------------------------------------------------------------------------------------------------- creation
@_folds("ConstantOfShape")
def _constant_of_shape(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(arrays[0]):
        return None
    shape = [int(dim) for dim in arrays[0].reshape(-1)]
    if int(np.prod(shape, dtype=np.int64)) > _MAX_ELEMENTS:
        return None
    value = ctx.attr("value")
    fill = np.zeros(1, np.float32) if value is None else np.asarray(value)
    return np.full(shape, fill.reshape(-1)[0], fill.dtype)


@_folds("Range")
def _range(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(*arrays):
        return None
    start, limit, delta = (item.reshape(-1)[0] for item in arrays)
    if arrays[0].dtype.kind in "iu":
        return np.array(range(int(start), int(limit), int(delta)), arrays[0].dtype)
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(delta))))
    return (start + np.arange(count) * delta).astype(arrays[0].dtype)


@_folds("Trilu")
def _trilu(ctx: NodeContext, arrays: list[Any]) -> Any:
    k = ctx.ints(1, "k")
    offset = k[0] if k else 0
    return np.triu(arrays[0], offset) if int(ctx.attr("upper", 1)) else np.tril(arrays[0], offset)


@_folds("Cast")
def _cast(ctx: NodeContext, arrays: list[Any]) -> Any:
    dtype = _target_of_cast(ctx)
    if _symbolic(arrays[0]):
        # Extents fit int32 too; a condition is no number yet.
        return arrays[0] if dtype in (np.int64, np.int32) and not _conditions(arrays[0]) else None
    return cast_array(arrays[0], dt.from_numpy(np.dtype(dtype))) if arrays[0].size <= _MAX_ELEMENTS else None


# -------------------------------------------------------------------------------------------------------- arithmetic
def _binary(ctx: NodeContext, arrays: list[Any], apply: Callable[[Any, Any], Any]) -> Any:
    a, b = arrays
    if max(a.size, b.size) > _MAX_ELEMENTS:
        return None
    if _symbolic(a, b) and not (_integral(a) and _integral(b)):
        return None
    with np.errstate(all="ignore"):
        out = apply(a, b)
    return out if _symbolic(a, b) else np.asarray(out).astype(np.result_type(a, b))


@_folds("Add")
def _add(ctx: NodeContext, arrays: list[Any]) -> Any:
    return _binary(ctx, arrays, lambda a, b: a + b)


@_folds("Sub")
def _sub(ctx: NodeContext, arrays: list[Any]) -> Any:
    return _binary(ctx, arrays, lambda a, b: a - b)


@_folds("Mul")
def _mul(ctx: NodeContext, arrays: list[Any]) -> Any:
    return _binary(ctx, arrays, lambda a, b: a * b)


@_folds("Div")
def _div(ctx: NodeContext, arrays: list[Any]) -> Any:
    a, b = arrays
    if not _integral(a):
        return _binary(ctx, arrays, lambda a, b: a / b)
    if _symbolic(a, b):
        return _binary(ctx, arrays, np.frompyfunc(lambda x, y: _quotient(ctx, x, y), 2, 1))
    with np.errstate(divide="ignore"):
        return truncated_quotient(a, b).astype(a.dtype) if np.all(b) else None


def _quotient(ctx: NodeContext, a: Any, b: Any) -> Any:
    """``a / b`` rounded towards zero, as ONNX divides integers; floor division is the simpler one where the two agree."""
    a, b = convert(a).astype("int64"), convert(b).astype("int64")
    agree = all(is_non_negative(item, ctx.builder) for item in (a, b))
    return floordiv(a, b) if agree else truncdiv(a, b)


@_folds("Mod")
def _mod(ctx: NodeContext, arrays: list[Any]) -> Any:
    if int(ctx.attr("fmod", 0)) or not np.all([item.dtype == object or np.all(item) for item in arrays[1:]]):
        return None
    return _binary(ctx, arrays, lambda a, b: a % b)


@_folds("Neg")
def _neg(ctx: NodeContext, arrays: list[Any]) -> Any:
    return -arrays[0]


@_folds("Pow")
def _pow(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(*arrays):
        return None
    if _integral(arrays[0]) and np.any(arrays[1] < 0):
        return None  # numpy has no negative powers of integers
    if _integral(arrays[0]) and _integral(arrays[1]):
        return np.power(arrays[0], arrays[1]).astype(arrays[0].dtype)
    power = float_power(arrays[0].astype(np.float64), arrays[1].astype(np.float64))
    # Other powers are the kernel's to compute: FoldConstant runs it, to the bit.
    is_exact = np.all(power == np.rint(power)) and np.all(np.abs(power) < 2**11)
    return power.astype(arrays[0].dtype) if is_exact else None


@_folds("Sqrt", "Floor", "Ceil", "Abs", "Reciprocal", "Not")
def _unary(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(arrays[0]) or arrays[0].size > _MAX_ELEMENTS:
        return None
    name = {"Not": "logical_not", "Abs": "abs"}.get(ctx.op_type, ctx.op_type.lower())
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, name)(arrays[0])).astype(arrays[0].dtype)


@_folds("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or")
def _compare(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(*arrays):
        return _compare_symbolic(ctx, arrays)
    names = {
        "Equal": "equal",
        "Less": "less",
        "Greater": "greater",
        "LessOrEqual": "less_equal",
        "GreaterOrEqual": "greater_equal",
        "And": "logical_and",
        "Or": "logical_or",
    }
    return getattr(np, names[ctx.op_type])(*arrays)


_SYMBOLIC_COMPARISONS: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "Equal": E.EQ,
    "Less": E.LT,
    "Greater": E.GT,
    "LessOrEqual": E.LE,
    "GreaterOrEqual": E.GE,
}


def _compare_symbolic(ctx: NodeContext, arrays: list[Any]) -> Any:
    """Numbers where they are decided, for exporters compare extents with -1, else conditions that a run decides."""
    compare = _SYMBOLIC_COMPARISONS.get(ctx.op_type)
    if compare is None or any(map(_conditions, arrays)):
        return None

    def condition(a: Any, b: Any) -> Any:
        found = simplify(compare(convert(a).astype("int64"), convert(b).astype("int64")), ctx.builder)
        return bool(found.value) if isinstance(found, E.IntImm) else found

    a, b = np.broadcast_arrays(*[item.astype(object) for item in arrays])
    return _object([condition(x, y) for x, y in zip(a.reshape(-1), b.reshape(-1))]).reshape(a.shape)


def _conditions(array: np.ndarray) -> bool:
    return any(isinstance(item, PrimExpr) and item.dtype == "bool" for item in array.reshape(-1))


@_folds("Where")
def _where(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(arrays[0]) and not all(map(_integral, arrays[1:])):
        return None
    if _symbolic(*arrays):
        c, a, b = np.broadcast_arrays(*[item.astype(object) for item in arrays])
        chosen = map(_chosen, c.reshape(-1), a.reshape(-1), b.reshape(-1))
        return _object(list(chosen)).reshape(c.shape)
    return np.where(*arrays).astype(arrays[1].dtype)


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, PrimExpr):
        return E.Select(condition, convert(a).astype("int64"), convert(b).astype("int64"))
    return a if condition else b


@_folds("Min", "Max")
def _extremum(ctx: NodeContext, arrays: list[Any]) -> Any:
    if _symbolic(*arrays):
        apply = tir_min if ctx.op_type == "Min" else tir_max
        out = arrays[0].astype(object)
        for item in arrays[1:]:
            a, b = np.broadcast_arrays(out, item.astype(object))
            flat = [apply(convert(x), convert(y)) for x, y in zip(a.reshape(-1), b.reshape(-1))]
            out = _object(flat).reshape(a.shape)
        return out
    result = arrays[0]
    for item in arrays[1:]:
        result = np.minimum(result, item) if ctx.op_type == "Min" else np.maximum(result, item)
    return result


@_folds("ReduceProd", "ReduceSum", "ReduceMin", "ReduceMax")
def _reduce(ctx: NodeContext, arrays: list[Any]) -> Any:
    if (_symbolic(arrays[0]) or not arrays[0].size) and ctx.op_type in ("ReduceMin", "ReduceMax"):
        return None
    axes = ctx.ints_of(1, "axes")
    if axes == [] or (axes is None and ctx.attr("noop_with_empty_axes", 0)):
        return arrays[0] if ctx.attr("noop_with_empty_axes", 0) else None
    apply: Any = {"ReduceProd": np.prod, "ReduceSum": np.sum, "ReduceMin": np.min, "ReduceMax": np.max}[
        ctx.op_type
    ]
    out = np.asarray(
        apply(arrays[0], axis=None if axes is None else tuple(axes), keepdims=bool(ctx.attr("keepdims", 1)))
    )
    if arrays[0].dtype == object:
        boxed = np.empty(out.shape, dtype=object)
        boxed[...] = out
        return boxed
    return out.astype(arrays[0].dtype)
