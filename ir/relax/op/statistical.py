"""Reductions along axes, and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...conversion import cast_array
from ...error import IRValueError
from ...tir.expr import PrimExpr
from ...tir.op import max_identity, min_identity
from ...topi.accumulate import accumulator
from ..expr import Call, Expr, PrimValue, Tuple, Var
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo, as_dim
from .array import in_float32
from .declaration import Gradient, MixedPrecisionPolicy, OpPatternKind, call, make, operator
from .gradient import in_wider_dtype, scalar, shape_argument, tensor_info
from .index import take
from .inference import (
    as_int,
    int64,
    normalize_axes,
    normalize_axis,
    optional_dtype,
    optional_int_tuple,
    product,
    require_number,
    simplify,
    tensor_args,
)
from .layout_rule import Desired, LayoutPlan, Layouts, is_permuted, without_axes
from .legalization import topi_function
from .reshaping import expand_dims, flatten, reshape
from .sorting import argsort, sort

FOLLOW, NEVER = MixedPrecisionPolicy.FOLLOW, MixedPrecisionPolicy.NEVER


def reduced(node: Call, info: TensorStructInfo, axis: Any, keepdims: bool, dtype: str) -> TensorStructInfo:
    """What reducing over ``axis`` (None: all) gives."""
    if info.ndim == -1:
        ndim = 0 if axis is None and not keepdims else -1
        return TensorStructInfo([] if ndim == 0 else None, dtype, info.vdevice)
    axes = set(range(info.ndim)) if axis is None else set(normalize_axes(node, info.ndim, axis))
    if info.shape_values is None:
        return TensorStructInfo(None, dtype, info.vdevice, info.ndim if keepdims else info.ndim - len(axes))
    dims: list[PrimExpr] = []
    for index, dim in enumerate(info.shape_values):
        if index not in axes:
            dims.append(dim)
        elif keepdims:
            dims.append(int64(1))
    return TensorStructInfo(dims, dtype, info.vdevice)


def infer_reduction(node: Call, builder: Any) -> StructInfo:
    """The operand without the reduced dimensions, or with extent 1 there."""
    (info,) = tensor_args(node, 1)
    return reduced(node, info, node.attrs.get("axis"), node.attrs["keepdims"], info.dtype)


def _infer_statistic(node: Call, builder: Any) -> StructInfo:
    """As :func:`infer_reduction`, of numbers."""
    (info,) = tensor_args(node, 1)
    require_number(node, info)
    return infer_reduction(node, builder)


def _reduction_layout(node: Call, layouts: Layouts, desired: Desired) -> LayoutPlan | None:
    (layout,) = layouts
    if not is_permuted(layout):
        return None
    ndim, axes = len(layout), node.attrs["axis"]
    original = list(range(ndim)) if axes is None else [int(axis) % ndim for axis in axes]
    attrs = None if axes is None else {"axis": tuple(sorted(layout.index(axis) for axis in original))}
    return LayoutPlan((layout,), layout if node.attrs["keepdims"] else without_axes(layout, original), attrs)


def _spread(node: Call, value: Expr) -> Expr:
    """What a reduction gave, or its gradient, broadcast back over the reduced axes."""
    axis = node.attrs.get("axis")
    if axis is not None and not node.attrs["keepdims"]:
        ndim = tensor_info(node.args[0]).ndim
        value = expand_dims(value, sorted(normalize_axes(node, ndim, axis)))
    return make.broadcast_to(value, shape_argument(node.args[0]))  # type: ignore[no-any-return]


def _reduced_elements(node: Call) -> Expr:
    """How many elements one element of the result is made of."""
    info, axis = tensor_info(node.args[0]), node.attrs.get("axis")
    axes = range(info.ndim) if axis is None else normalize_axes(node, info.ndim, axis)
    dims = info.shape_values
    total = as_int(product([dims[place] for place in axes])) if dims is not None else None
    if total is None:
        raise IRValueError(f"the gradient of {node.op} needs static extents along the reduced axes")
    return scalar(float(total), node.args[0])


def _sum_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [_spread(node, grad)]


def _mean_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    return [make.divide(_spread(node, grad), _reduced_elements(node))]


def _variance_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    x = node.args[0]
    distance = make.subtract(x, mean(x, node.attrs.get("axis"), True))
    twice = make.multiply(scalar(2.0, x), _spread(node, grad))
    return [make.multiply(make.divide(twice, _reduced_elements(node)), distance)]


def _extremum_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The gradient goes to the elements that are the extremum, in equal shares, as torch.amax does."""
    x = node.args[0]
    hit = builder.emit(make.equal(x, _spread(node, var)))
    dtype, keepdims = tensor_info(x).dtype, node.attrs["keepdims"]
    count = make.sum(make.astype(hit, dtype), node.attrs.get("axis"), keepdims)
    share = builder.emit(_spread(node, make.divide(grad, count)))
    return [make.where(hit, share, make.zeros_like(share))]


def _reduction(
    name: str,
    legalize: Any,
    reference: Any,
    doc: str,
    policy: Any = NEVER,
    gradient: Gradient | None = None,
    infer: Any = infer_reduction,
) -> Any:
    """Declare a reduction and return the function that builds its calls."""

    def build(x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expr:
        return call(f"relax.{name}", x, attrs={"axis": optional_int_tuple(axis), "keepdims": bool(keepdims)})

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{doc}

    Args:
        x: the input tensor.
        axis: the axis or axes to reduce over; None: all.
        keepdims: keep the reduced axes with extent 1.
    """
    return operator(
        f"relax.{name}",
        infer=infer,
        legalize=legalize,
        reference=lambda x, axis, keepdims: reference(x, axis=axis, keepdims=keepdims),
        mixed_precision=policy,
        pattern=OpPatternKind.kCommReduce,
        layout=_reduction_layout,
        gradient=gradient,
    )(build)


def _topi_reduction(name: str) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        return bb.call_te(topi_function(name), node.args[0], node.attrs.get("axis"), node.attrs["keepdims"])

    return legalize


def _axes_of(x: Any, axis: Any) -> list[int]:
    return list(range(len(x.shape))) if axis is None else [int(a) % len(x.shape) for a in axis]


def _count(x: Any, axis: Any) -> Any:
    return simplify(product([_as_dim(x.shape[a]) for a in _axes_of(x, axis)]))


def _as_dim(value: Any) -> PrimExpr:
    return as_dim(value)


_OF_INTEGERS = """

    Of integers it is computed in float64 and has the dtype of ``x``: rounded towards zero, ``mean([1, 2])`` is 1.
    Over no elements it is the 0 that NaN becomes. Cast ``x`` to a float to keep the fraction."""


def _in_wide(te_function: Any) -> Any:
    """A statistic of floats: of narrow ones it is computed in float32, of integers in float64, and then cast back once."""

    def te_statistic(x: Any, axis: Any, keepdims: bool) -> Any:
        cast, narrow = topi_function("cast"), x.dtype
        wide = accumulator(narrow) if dt.is_float(narrow) else "float64"
        found = te_function(x if wide == narrow else cast(x, wide), axis, keepdims)
        return found if wide == narrow else cast(found, narrow)

    return te_statistic


def _mean(x: Any, axis: Any, keepdims: bool) -> Any:
    count = _count(x, axis)
    return topi_function("divide")(topi_function("sum")(x, axis, keepdims), count.astype(x.dtype))


def _variance(x: Any, axis: Any, keepdims: bool) -> Any:
    dev = topi_function("subtract")(x, _mean(x, axis, True))
    return _mean(topi_function("multiply")(dev, dev), axis, keepdims)


def _std(x: Any, axis: Any, keepdims: bool) -> Any:
    return topi_function("sqrt")(_variance(x, axis, keepdims))


te_mean = _in_wide(_mean)
"""The sum divided by the number of elements."""
te_variance = _in_wide(_variance)
"""The mean of the squared distances from the mean."""
te_std = _in_wide(_std)
"""The square root of the variance."""


def _te_legalize(te_function: Any, name: str) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        return bb.call_te(
            te_function, node.args[0], node.attrs.get("axis"), node.attrs["keepdims"], primfunc_name_hint=name
        )

    return legalize


def _typed(function: Any) -> Any:
    """numpy's reductions widen the small integers that it has itself; the operators keep the dtype."""

    def typed(x: np.ndarray, **options: Any) -> np.ndarray:
        dtype = dt.from_numpy(x.dtype)
        wide = x.astype("int64") if dt.is_integral(dtype) and dt.bits(dtype) in (2, 4) else x
        return cast_array(np.asarray(function(wide, **options)), dtype)

    return in_float32(typed)


def _extremum(function: Any, identity: Any) -> Any:
    """numpy has no extremum of nothing; the operators have: what every other number beats."""

    def found(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
        return function(x, axis=axis, keepdims=keepdims, initial=identity(dt.from_numpy(x.dtype)).value)

    return found


max = _reduction(
    "max",
    _topi_reduction("max"),
    _extremum(np.max, max_identity),
    "The largest element.",
    FOLLOW,
    _extremum_gradient,
)
mean = _reduction(
    "mean",
    _te_legalize(te_mean, "mean"),
    _typed(np.mean),
    f"The arithmetic mean.{_OF_INTEGERS}",
    gradient=_mean_gradient,
    infer=_infer_statistic,
)
min = _reduction(
    "min",
    _topi_reduction("min"),
    _extremum(np.min, min_identity),
    "The smallest element.",
    FOLLOW,
    _extremum_gradient,
)
prod = _reduction(
    "prod", _topi_reduction("prod"), _typed(np.prod), "The product; of bools, whether all are true."
)
std = _reduction(
    "std",
    _te_legalize(te_std, "std"),
    _typed(np.std),
    f"The standard deviation (of the population).{_OF_INTEGERS}",
    infer=_infer_statistic,
)
sum = _reduction(
    "sum",
    _topi_reduction("sum"),
    _typed(np.sum),
    "The sum; of bools, whether any is true.",
    gradient=_sum_gradient,
)
variance = _reduction(
    "variance",
    _te_legalize(te_variance, "variance"),
    _typed(np.var),
    f"The variance (of the population).{_OF_INTEGERS}",
    gradient=_variance_gradient,
    infer=_infer_statistic,
)


def _infer_scan(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    dtype = node.attrs.get("dtype") or info.dtype
    axis = node.attrs.get("axis")
    if axis is None:
        if info.shape_values is None:
            return TensorStructInfo(None, dtype, info.vdevice, 1)
        return TensorStructInfo([simplify(product(info.shape_values))], dtype, info.vdevice)
    if info.ndim != -1:
        normalize_axis(node, info.ndim, axis)
    return TensorStructInfo(info.shape, dtype, info.vdevice, info.ndim)


def _cumsum_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The sum from the other end."""
    axis, x = node.attrs.get("axis"), node.args[0]
    place = axis or 0
    turned = cumsum(make.flip(grad, place), place, exclusive=node.attrs["exclusive"])
    back = make.flip(turned, place)
    return [reshape(back, shape_argument(x)) if axis is None else back]


def _scan(name: str, reference: Any, identity: int, doc: str, gradient: Gradient | None = None) -> Any:
    def build(
        data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
    ) -> Expr:
        attrs = {
            "axis": None if axis is None else int(axis),
            "dtype": optional_dtype(dtype),
            "exclusive": bool(exclusive),
        }
        return call(f"relax.{name}", data, attrs=attrs)

    def legalize(bb: Any, node: Call) -> Expr:
        attrs = node.attrs
        return bb.call_te(
            topi_function(name),
            node.args[0],
            attrs.get("axis"),
            attrs["dtype"] or None,
            attrs["exclusive"],
            primfunc_name_hint=name,
        )

    def numpy_scan(x: np.ndarray, axis: int | None, dtype: str, exclusive: bool) -> np.ndarray:
        kind = dt.to_numpy(dtype) if dtype else x.dtype
        if axis is None:
            x, axis = x.reshape(-1), 0
        total = dt.to_numpy(accumulator(dt.from_numpy(kind)))
        result = reference(x.astype(total), axis=axis, dtype=total).astype(kind)
        if exclusive:
            result = np.roll(result, 1, axis)
            first = [slice(None)] * x.ndim
            first[axis] = slice(0, 1)
            result[tuple(first)] = identity
        return result

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{doc}

    Args:
        data: the input tensor.
        axis: the axis to go along; None: over the flattened tensor.
        dtype: the dtype of the result; default that of ``data``.
        exclusive: leave out the element itself.
    """
    return operator(
        f"relax.{name}",
        infer=_infer_scan,
        legalize=legalize,
        reference=numpy_scan,
        mixed_precision=NEVER,
        pattern=OpPatternKind.kOpaque,
        gradient=gradient,
    )(build)


cumprod = _scan("cumprod", np.cumprod, 1, "Cumulative product.")
cumsum = _scan("cumsum", np.cumsum, 0, "Cumulative sum.", in_wider_dtype(_cumsum_gradient))


def _infer_median(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    axis, keepdims = node.attrs.get("axis"), node.attrs["keepdims"]
    values = reduced(node, info, axis, keepdims, info.dtype)
    if axis is None or len(axis) > 1:
        return values
    return TupleStructInfo([values, TensorStructInfo(values.shape, "int64", values.vdevice, values.ndim)])


def _np_median(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    if axis is None:
        flat = np.sort(x.reshape(-1))
        value = flat[(flat.size - 1) // 2]
        return np.full([1] * x.ndim, value, x.dtype) if keepdims else value
    (place,) = axis
    order = np.argsort(x, place, kind="stable")
    index = np.take(order, [(x.shape[place] - 1) // 2], place)
    value = np.take_along_axis(x, index, place)
    if not keepdims:
        index, value = np.squeeze(index, place), np.squeeze(value, place)
    return [value, index]


@operator(
    "relax.median",
    infer=_infer_median,
    legalize=lambda bb, node: _legalize_median(bb, node),
    reference=_np_median,
    mixed_precision=NEVER,
)
def median(x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expr:
    """The lower median; along one axis, a tuple of the values and their indices (int64)."""
    return call("relax.median", x, attrs={"axis": optional_int_tuple(axis), "keepdims": bool(keepdims)})


def _legalize_median(bb: Any, node: Call) -> Expr:
    """By sorting along the axis and picking the middle."""
    x, axis, keepdims = node.args[0], node.attrs.get("axis"), node.attrs["keepdims"]
    info = x.struct_info
    assert isinstance(info, TensorStructInfo)
    if info.shape_values is None:
        return node
    if axis is None:
        ordered = bb.emit(sort(flatten(x)))
        middle = simplify((product(info.shape_values) - 1) // 2)
        value = bb.emit(take(ordered, _prim(middle), 0))
        return reshape(value, [1] * info.ndim) if keepdims else value
    place = normalize_axis(node, info.ndim, axis[0])
    middle = simplify((info.shape_values[place] - 1) // 2)
    value = bb.emit(take(sort(x, place), _prim(middle), place))
    index = bb.emit(take(argsort(x, place, dtype="int64"), _prim(middle), place))
    if keepdims:
        return Tuple([bb.emit(expand_dims(value, place)), bb.emit(expand_dims(index, place))])
    return Tuple([value, index])


def _prim(value: PrimExpr) -> Expr:
    return PrimValue(value)


__all__ = ["cumprod", "cumsum", "max", "mean", "median", "min", "prod", "std", "sum", "variance"]
