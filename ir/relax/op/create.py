"""Operators that make tensors: of one value, ranges, unit matrices, triangles, windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ... import te
from ...error import IRTypeError
from ...expr import RelaxExpr
from ...tir.expr import FloatImm, IntImm, PrimExpr
from ...tir.op import ceil, ceildiv, max
from ...tir.operators import const as tir_const
from ...tir.operators import floordiv
from ..expr import Call, Expr, PrimValue, ShapeExpr, const, convert_to_expr
from ..struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from .gradient import nothing_flows
from .inference import (
    check_arity,
    fail,
    int64,
    optional_dtype,
    prim_arg,
    require_ndim,
    shape_arg,
    shape_target,
    simplify,
    tensor_arg,
    tensor_args,
)
from .legalization import scalar_const, topi_function
from .number import numbers_as_constants

FOLLOW = MixedPrecisionPolicy.FOLLOW
_MAKES: dict[str, Any] = {"mixed_precision": FOLLOW, "pattern": OpPatternKind.kInjective}


def _shape(shape: Any) -> Expr:
    return shape if isinstance(shape, RelaxExpr) else ShapeExpr(shape)


def _fill(value: Any, dtype: str | None) -> Expr:
    if isinstance(value, RelaxExpr):
        return value
    if isinstance(value, PrimExpr):
        if not isinstance(value, IntImm | FloatImm):
            return PrimValue(value)
        value, dtype = value.value, dtype or value.dtype
    return const(value, dtype)


def _fill_info(node: Call, index: int) -> str:
    info = node.args[index].struct_info
    if isinstance(info, PrimStructInfo):
        return info.dtype
    filled = tensor_arg(node, index, "fill_value")
    require_ndim(node, filled, 0, "fill_value")
    return filled.dtype


def _infer_full(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    shape_arg(node, 0)
    return TensorStructInfo(shape_target(node, 0), node.attrs.get("dtype") or _fill_info(node, 1))


def _legalize_full(bb: Any, node: Call) -> Expr:
    info = node.struct_info
    value = scalar_const(node.args[1])
    if isinstance(value, PrimValue):
        value = value.value
    return _fill_with(bb, list(info.shape_values), info.dtype, value)


def _fill_with(bb: Any, shape: list[Any], dtype: str, value: Any) -> Expr:
    if isinstance(value, PrimExpr):
        value = value if value.dtype == dtype else value.astype(dtype)
        return bb.call_te(topi_function("full"), ShapeExpr(shape), dtype, value, primfunc_name_hint="full")

    def te_full(dims: Any, fill: Any) -> Any:
        return te.compute(
            dims, lambda *_: fill() if fill.dtype == dtype else fill().astype(dtype), name="T_full"
        )

    return bb.call_te(te_full, ShapeExpr(shape), value, primfunc_name_hint="full")


@operator(
    "relax.full",
    infer=_infer_full,
    legalize=_legalize_full,
    gradient=nothing_flows,
    reference=lambda shape, value, dtype: np.full(
        shape, value, dt.to_numpy(dtype) if dtype else np.asarray(value).dtype
    ),
    **_MAKES,
)
def full(shape: Any, fill_value: Any, dtype: str | None = None) -> Expr:
    """A tensor of one value: a number, or a scalar tensor; ``dtype`` defaults to that of the value."""
    dtype = optional_dtype(dtype)
    return call("relax.full", _shape(shape), _fill(fill_value, dtype or None), attrs={"dtype": dtype})


def _infer_full_like(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info = tensor_arg(node, 0)
    _fill_info(node, 1)
    return TensorStructInfo(info.shape, node.attrs.get("dtype") or info.dtype, info.vdevice, info.ndim)


@operator(
    "relax.full_like",
    infer=_infer_full_like,
    legalize=_legalize_full,
    gradient=nothing_flows,
    reference=lambda x, value, dtype: np.full_like(x, value, dt.to_numpy(dtype) if dtype else None),
    **_MAKES,
)
def full_like(x: Expr, fill_value: Any, dtype: str | None = None) -> Expr:
    """A tensor of one value with the shape of ``x``; ``dtype`` defaults to that of ``x``, which then must hold a number."""
    dtype = optional_dtype(dtype)
    if not dtype:
        _, fill_value = numbers_as_constants("relax.full_like", x, fill_value)
    return call("relax.full_like", x, _fill(fill_value, dtype or None), attrs={"dtype": dtype})


def _infer_shaped(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    shape_arg(node, 0)
    return TensorStructInfo(shape_target(node, 0), node.attrs["dtype"])


def _infer_like(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    return TensorStructInfo(info.shape, node.attrs.get("dtype") or info.dtype, info.vdevice, info.ndim)


def _legalize_constant(number: int) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        info = node.struct_info
        name = "ones" if number else "zeros"
        return bb.call_te(
            topi_function("full"),
            ShapeExpr(info.shape_values),
            info.dtype,
            tir_const(number, info.dtype),
            primfunc_name_hint=name,
        )

    return legalize


def _make_constant(name: str, number: int) -> tuple[Any, Any]:
    def build(shape: Any, dtype: str) -> Expr:
        if not dtype:
            raise IRTypeError(f"relax.{name} needs a dtype")
        return call(f"relax.{name}", _shape(shape), attrs={"dtype": dtype})

    def build_like(x: Expr, dtype: str | None = None) -> Expr:
        return call(f"relax.{name}_like", x, attrs={"dtype": optional_dtype(dtype)})

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"A tensor of {name} of a shape and dtype."
    build_like.__name__ = build_like.__qualname__ = f"{name}_like"
    build_like.__doc__ = f"A tensor of {name} with the shape of ``x``; ``dtype`` defaults to that of ``x``."
    made = operator(
        f"relax.{name}",
        infer=_infer_shaped,
        legalize=_legalize_constant(number),
        gradient=nothing_flows,
        reference=lambda shape, dtype: np.full(shape, number, dt.to_numpy(dtype)),
        **_MAKES,
    )(build)
    like = operator(
        f"relax.{name}_like",
        infer=_infer_like,
        legalize=_legalize_constant(number),
        gradient=nothing_flows,
        reference=lambda x, dtype: np.full_like(x, number, dt.to_numpy(dtype) if dtype else None),
        **_MAKES,
    )(build_like)
    return made, like


ones, ones_like = _make_constant("ones", 1)
zeros, zeros_like = _make_constant("zeros", 0)


def _infer_eye(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 3)
    n, m = prim_arg(node, 0), prim_arg(node, 1)
    if n is None or m is None:
        return TensorStructInfo(None, node.attrs["dtype"], ndim=2)
    return TensorStructInfo([n, m], node.attrs["dtype"])


def _legalize_eye(bb: Any, node: Call) -> Expr:
    info = node.struct_info
    k = prim_arg(node, len(node.args) - 1)
    rows, columns = info.shape_values
    name = node.op.name.removeprefix("relax.")  # type: ignore[attr-defined]
    return bb.call_te(topi_function("eye"), rows, columns, k, info.dtype, primfunc_name_hint=name)


@operator(
    "relax.eye",
    infer=_infer_eye,
    legalize=_legalize_eye,
    reference=lambda n, m, k, dtype: np.eye(n, m, k).astype(dt.to_numpy(dtype)),
    **_MAKES,
)
def eye(n: Any, m: Any = None, k: Any = 0, dtype: str = "float32") -> Expr:
    """A matrix of ``n`` rows and ``m`` columns (default ``n``) with ones on the diagonal number ``k``."""
    rows = convert_to_expr(n)
    return call(
        "relax.eye",
        rows,
        rows if m is None else convert_to_expr(m),
        convert_to_expr(k),
        attrs={"dtype": dtype},
    )


def _infer_eye_like(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info = tensor_arg(node, 0)
    require_ndim(node, info, 2, "the input")
    return TensorStructInfo(info.shape, node.attrs.get("dtype") or info.dtype, info.vdevice, 2)


@operator(
    "relax.eye_like",
    infer=_infer_eye_like,
    legalize=_legalize_eye,
    reference=lambda x, k, dtype: np.eye(x.shape[0], x.shape[1], k).astype(
        dt.to_numpy(dtype) if dtype else x.dtype
    ),
    **_MAKES,
)
def eye_like(x: Expr, k: Any = 0, dtype: str | None = None) -> Expr:
    """A matrix of the shape of ``x`` with ones on the diagonal number ``k``."""
    return call("relax.eye_like", x, convert_to_expr(k), attrs={"dtype": optional_dtype(dtype)})


def _infer_arange(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 3)
    start, end, step = (prim_arg(node, index) for index in range(3))
    dtype = node.attrs["dtype"]
    if start is None or end is None or step is None:
        return TensorStructInfo(None, dtype, ndim=1)
    return TensorStructInfo([_arange_length(node, start, end, step, builder)], dtype)


def _arange_length(node: Call, start: PrimExpr, end: PrimExpr, step: PrimExpr, builder: Any) -> PrimExpr:
    import math

    values = [item.value if isinstance(item, IntImm | FloatImm) else None for item in (start, end, step)]
    if values[2] == 0:
        raise fail(node, "step must not be 0")
    if all(value is not None for value in values):
        first, last, by = values
        return int64(builtin_max(math.ceil((last - first) / by), 0))  # type: ignore[operator]
    if any(dt.is_float(item.dtype) for item in (start, end, step)):
        length = ceil((end - start).astype("float32") / step.astype("float32")).astype("int64")
        return simplify(length)
    lo, hi, by_expr = (item.astype("int64") if item.dtype != "int64" else item for item in (start, end, step))
    if values[2] is None:
        count = -floordiv(lo - hi, by_expr)
    else:
        count = ceildiv(lo - hi, -by_expr) if values[2] < 0 else ceildiv(hi - lo, by_expr)
    return simplify(max(count, int64(0)), builder)


def builtin_max(a: int, b: int) -> int:
    """The larger one (the name ``max`` means a TIR intrinsic here)."""
    return a if a >= b else b


def _legalize_arange(bb: Any, node: Call) -> Expr:
    start, end, step = (prim_arg(node, index) for index in range(3))
    info = node.struct_info
    if info.shape_values is None:
        return node
    literals = all(isinstance(item, IntImm | FloatImm) for item in (start, end, step))
    if literals:
        data = np.arange(start.value, end.value, step.value, dtype=dt.to_numpy(info.dtype))  # type: ignore[union-attr]
        return const(data, info.dtype)

    def te_arange(size: Any, first: Any, by: Any) -> Any:
        return te.compute(
            size,
            lambda i: first.astype(info.dtype) + i.astype(info.dtype) * by.astype(info.dtype),
            name="T_arange",
        )

    return bb.call_te(te_arange, ShapeExpr(info.shape_values), start, step, primfunc_name_hint="arange")


@operator(
    "relax.arange",
    infer=_infer_arange,
    legalize=_legalize_arange,
    gradient=nothing_flows,  # the values of bounds and step are taken as constant
    reference=lambda start, end, step, dtype: np.arange(start, end, step).astype(dt.to_numpy(dtype)),
    **_MAKES,
)
def arange(start: Any, end: Any = None, step: Any = 1, dtype: str | None = None) -> Expr:
    """Evenly spaced values from ``start`` (0 when only one bound is given) to ``end``, which is not included.

    ``dtype`` defaults to int64, or float32 when a bound or the step is a float.
    """
    if end is None:
        start, end = 0, start

    def is_int(value: Any) -> bool:
        if isinstance(value, PrimValue):
            value = value.value
        if isinstance(value, PrimExpr):
            return dt.is_integral(value.dtype)
        return isinstance(value, int)

    if not dtype:
        dtype = "int64" if all(is_int(value) for value in (start, end, step)) else "float32"
    return call("relax.arange", *(convert_to_expr(v) for v in (start, end, step)), attrs={"dtype": dtype})


def _infer_trilu(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 2)
    info = tensor_arg(node, 0)
    if 0 <= info.ndim < 2:
        raise fail(node, f"expected at least 2 dimensions, got {info.ndim}")
    return TensorStructInfo(info.shape, info.dtype, info.vdevice, info.ndim)


def _make_trilu(name: str, reference: Any, side: str) -> Any:
    def build(x: Expr, k: Any = 0) -> Expr:
        return call(f"relax.{name}", x, convert_to_expr(k))

    def legalize(bb: Any, node: Call) -> Expr:
        return bb.call_te(
            topi_function("trilu"), node.args[0], prim_arg(node, 1), name == "triu", primfunc_name_hint=name
        )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"The {side} triangle of each matrix, from diagonal number ``k``; zero elsewhere."
    return operator(f"relax.{name}", infer=_infer_trilu, legalize=legalize, reference=reference, **_MAKES)(
        build
    )


tril = _make_trilu("tril", np.tril, "lower")
triu = _make_trilu("triu", np.triu, "upper")


def _infer_hamming_window(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 4)
    size = prim_arg(node, 0)
    if not dt.is_float(node.attrs["dtype"]):
        raise fail(node, f"dtype must be a float dtype, got {node.attrs['dtype']}")
    if isinstance(size, IntImm) and size.value < 0:
        raise fail(node, f"window_size must not be negative, got {size.value}")
    return TensorStructInfo(None if size is None else [size], node.attrs["dtype"], ndim=1)


def _np_hamming(size: int, periodic: int, alpha: float, beta: float, dtype: str) -> np.ndarray:
    points = size if periodic else size - 1
    return (alpha - beta * np.cos(2 * np.pi * np.arange(size) / builtin_max(points, 1))).astype(
        dt.to_numpy(dtype)
    )


def _legalize_hamming(bb: Any, node: Call) -> Expr:
    values = [prim_arg(node, index) for index in range(4)]
    if not all(isinstance(value, IntImm | FloatImm) for value in values):
        raise fail(node, "legalization needs a constant window")
    size, periodic, alpha, beta = (value.value for value in values)  # type: ignore[union-attr]
    return const(_np_hamming(size, periodic, alpha, beta, node.attrs["dtype"]), node.attrs["dtype"])


@operator(
    "relax.hamming_window",
    infer=_infer_hamming_window,
    legalize=_legalize_hamming,
    reference=_np_hamming,
    **_MAKES,
)
def hamming_window(
    window_size: Any, periodic: Any = True, alpha: Any = 0.54, beta: Any = 0.46, dtype: str = "float32"
) -> Expr:
    """The window ``alpha - beta * cos(2 pi i / (n - 1))``, for a periodic one with ``n`` larger by one."""
    args = (
        convert_to_expr(v)
        for v in (window_size, bool(periodic) if isinstance(periodic, int) else periodic, alpha, beta)
    )
    return call("relax.hamming_window", *args, attrs={"dtype": dtype})


__all__ = [
    "arange",
    "eye",
    "eye_like",
    "full",
    "full_like",
    "hamming_window",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]
