"""Activations and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import te
from ....tir.expr import Select
from ....tir.op import abs as tir_abs
from ....tir.op import exp, expm1, log1p
from ....tir.operators import const
from ....tir.operators import max as tir_max
from ....topi.accumulate import accumulator
from ...expr import Call, Expr, Var
from ...struct_info import StructInfo
from ..array import in_float32
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from ..gradient import of_one_operand, scalar
from ..inference import (
    infer_unary_arith,
    infer_unary_number,
    normalize_axis,
    require_float,
    require_ndim,
    same_as,
    tensor_args,
)
from ..layout_rule import along_axis, elementwise
from ..legalization import topi_function, topi_unary, with_attrs
from ..memory_effect import reuses
from ..requirement import require_broadcast

FOLLOW, NEVER = MixedPrecisionPolicy.FOLLOW, MixedPrecisionPolicy.NEVER
_ELEMENTWISE: dict[str, Any] = {
    "mixed_precision": FOLLOW,
    "pattern": OpPatternKind.kElemWise,
    "layout": elementwise,
}


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


@operator(
    "relax.nn.relu",
    infer=infer_unary_number,
    legalize=topi_unary("nn.relu"),
    reference=lambda x: np.maximum(x, 0),
    memory=reuses(0),
    gradient=of_one_operand(lambda x, y, g: make.where(make.less(x, scalar(0.0, x)), make.zeros_like(g), g)),
    **_ELEMENTWISE,
)
def relu(data: Expr) -> Expr:
    """max(x, 0)."""
    return call("relax.nn.relu", data)


@operator(
    "relax.nn.relu6",
    infer=infer_unary_number,
    legalize=lambda bb, node: _legalize_relu6(bb, node),
    reference=lambda x: np.clip(x, 0, 6).astype(x.dtype),  # numpy widens a bfloat16 of rank 0
    **_ELEMENTWISE,
)
def relu6(data: Expr) -> Expr:
    """min(max(x, 0), 6)."""
    return call("relax.nn.relu6", data)


def _legalize_relu6(bb: Any, node: Call) -> Expr:
    def te_relu6(data: Any) -> Any:
        return topi_function("clip")(data, 0, 6)

    return bb.call_te(te_relu6, node.args[0], primfunc_name_hint="relu6")


@operator(
    "relax.nn.leakyrelu",
    infer=infer_unary_arith,
    legalize=with_attrs("nn.leaky_relu", "alpha"),
    reference=lambda x, alpha: np.where(x > 0, x, x * x.dtype.type(alpha)),
    **_ELEMENTWISE,
)
def leakyrelu(data: Expr, alpha: float = 0.01) -> Expr:
    """x where positive, else alpha * x."""
    return call("relax.nn.leakyrelu", data, attrs={"alpha": float(alpha)})


def _infer_prelu(node: Call, builder: Any) -> StructInfo:
    info, alpha = tensor_args(node, 2)
    require_float(node, info)
    require_ndim(node, alpha, 1, "alpha")
    if info.ndim != -1:
        axis = normalize_axis(node, info.ndim, node.attrs["axis"])
        if info.shape_values is not None and alpha.shape_values is not None:
            text = "alpha has {} slopes for {} channels"
            require_broadcast(node, alpha.shape_values[0], info.shape_values[axis], text)
    return same_as(info)


def _legalize_prelu(bb: Any, node: Call) -> Expr:
    return bb.call_te(topi_function("nn.prelu"), *node.args, node.attrs["axis"])


def _np_prelu(x: np.ndarray, alpha: np.ndarray, axis: int) -> np.ndarray:
    shape = [1] * x.ndim
    shape[axis] = -1
    return np.where(x > 0, x, x * alpha.reshape(shape))


@operator(
    "relax.nn.prelu",
    infer=_infer_prelu,
    legalize=_legalize_prelu,
    reference=_np_prelu,
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kBroadcast,
    layout=along_axis,
)
def prelu(data: Expr, alpha: Expr, axis: int = 1) -> Expr:
    """x where positive, else alpha * x with one alpha per channel of ``axis``."""
    return call("relax.nn.prelu", data, alpha, attrs={"axis": int(axis)})


def _te_legalize(function: Any, name: str) -> Any:
    def legalize(bb: Any, node: Call) -> Expr:
        return bb.call_te(_in_wide(function), node.args[0], primfunc_name_hint=name)

    return legalize


def _in_wide(function: Any) -> Any:
    """A function of several steps; of narrow floats it is computed in float32 and rounded once, for its steps cancel or overflow."""

    def te_function(x: Any) -> Any:
        cast, narrow = topi_function("cast"), x.dtype
        wide = accumulator(narrow)
        return function(x) if wide == narrow else cast(function(cast(x, wide)), narrow)

    return te_function


def _te_gelu(x: Any) -> Any:
    dtype = x.dtype
    half, scale = const(0.5, dtype), const(0.5**0.5, dtype)
    multiply, add = topi_function("multiply"), topi_function("add")
    erf = topi_function("erf")(multiply(x, scale))
    return multiply(x, add(half, multiply(erf, half)))


def _te_gelu_tanh(x: Any) -> Any:
    dtype = x.dtype
    multiply, add = topi_function("multiply"), topi_function("add")
    cube = multiply(multiply(x, x), multiply(x, const(0.044715, dtype)))
    inner = multiply(const(math.sqrt(2.0 / math.pi), dtype), add(x, cube))
    # Half of x first: twice the greatest number is none.
    return multiply(multiply(const(0.5, dtype), x), add(const(1.0, dtype), topi_function("tanh")(inner)))


def _te_silu(x: Any) -> Any:
    return topi_function("multiply")(x, topi_function("sigmoid")(x))


def _te_selu(x: Any) -> Any:
    dtype = x.dtype
    alpha, scale = const(_SELU_ALPHA, dtype), const(_SELU_SCALE, dtype)
    return te.compute(
        x.shape,
        lambda *i: Select(x(*i) > const(0.0, dtype), scale * x(*i), scale * alpha * expm1(x(*i))),
        name="compute",
    )


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _gelu_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The cumulative distribution plus x times the density of the normal distribution."""
    x = node.args[0]
    bell = make.erf(make.multiply(x, scalar(0.5**0.5, x)))
    cumulative = make.multiply(scalar(0.5, x), make.add(scalar(1.0, x), bell))
    exponent = make.multiply(scalar(-0.5, x), make.multiply(x, x))
    density = make.multiply(scalar(0.3989422804014327, x), make.exp(exponent))
    return [make.multiply(grad, make.add(cumulative, make.multiply(x, density)))]


def _gelu_tanh_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The derivative of x (1 + tanh u) / 2 with u = c (x + 0.044715 x^3)."""
    x = node.args[0]
    c, one, half = scalar((2 / math.pi) ** 0.5, x), scalar(1.0, x), scalar(0.5, x)
    square = builder.emit(make.multiply(x, x))
    cube = make.multiply(x, make.add(one, make.multiply(scalar(0.044715, x), square)))
    t = builder.emit(make.tanh(make.multiply(c, cube)))
    slope = make.multiply(c, make.add(one, make.multiply(scalar(3 * 0.044715, x), square)))
    rest = make.multiply(make.multiply(x, make.subtract(one, make.multiply(t, t))), slope)
    return [make.multiply(grad, make.multiply(half, make.add(make.add(one, t), rest)))]


def _silu_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """s(x) + x s(x) (1 - s(x)), with the result for x s(x)."""
    s = builder.emit(make.sigmoid(node.args[0]))
    return [make.multiply(grad, make.add(s, make.multiply(var, make.subtract(scalar(1.0, var), s))))]


@operator(
    "relax.nn.gelu",
    infer=infer_unary_arith,
    legalize=_te_legalize(_te_gelu, "gelu"),
    reference=in_float32(lambda x: 0.5 * x * (1 + _erf(x * x.dtype.type(0.5**0.5)))),
    gradient=_gelu_gradient,
    **_ELEMENTWISE,
)
def gelu(data: Expr) -> Expr:
    """x * (1 + erf(x / sqrt 2)) / 2."""
    return call("relax.nn.gelu", data)


@operator(
    "relax.nn.gelu_tanh",
    infer=infer_unary_arith,
    legalize=_te_legalize(_te_gelu_tanh, "gelu_tanh"),
    reference=in_float32(lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    gradient=_gelu_tanh_gradient,
    **_ELEMENTWISE,
)
def gelu_tanh(data: Expr) -> Expr:
    """The tanh approximation of gelu."""
    return call("relax.nn.gelu_tanh", data)


@operator(
    "relax.nn.silu",
    infer=infer_unary_arith,
    legalize=_te_legalize(_te_silu, "silu"),
    reference=in_float32(lambda x: x / (1 + np.exp(-x))),
    gradient=_silu_gradient,
    memory=reuses(0),
    **_ELEMENTWISE,
)
def silu(data: Expr) -> Expr:
    """x * sigmoid(x)."""
    return call("relax.nn.silu", data)


@operator(
    "relax.nn.selu",
    infer=infer_unary_arith,
    legalize=_te_legalize(_te_selu, "selu"),
    reference=in_float32(lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(x))),
    **_ELEMENTWISE,
)
def selu(data: Expr) -> Expr:
    """The scaled exponential linear unit."""
    return call("relax.nn.selu", data)


def _legalize_softplus(bb: Any, node: Call) -> Expr:
    beta, threshold = node.attrs["beta"], node.attrs["threshold"]

    def te_softplus(x: Any) -> Any:
        dtype = x.dtype
        b, limit, zero = const(beta, dtype), const(threshold, dtype), const(0.0, dtype)

        def element(*i: Any) -> Any:
            # The exponent is negative, so that nothing overflows: log(1 + e^t) = max(t, 0) + log(1 + e^-|t|).
            t = x(*i) * b
            return Select(t > limit, x(*i), (tir_max(t, zero) + log1p(exp(zero - tir_abs(t)))) / b)

        return te.compute(x.shape, element, name="compute")

    return bb.call_te(_in_wide(te_softplus), node.args[0], primfunc_name_hint="softplus")


def _np_softplus(x: np.ndarray, beta: float, threshold: float) -> np.ndarray:
    t = x * x.dtype.type(beta)
    smooth = (np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t)))) / x.dtype.type(beta)
    return np.where(t > threshold, x, smooth)


@operator(
    "relax.nn.softplus",
    infer=infer_unary_arith,
    legalize=_legalize_softplus,
    reference=in_float32(_np_softplus),
    **_ELEMENTWISE,
)
def softplus(data: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    return call("relax.nn.softplus", data, attrs={"beta": float(beta), "threshold": float(threshold)})


def _infer_softmax(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    require_float(node, info)
    if info.ndim != -1:
        normalize_axis(node, info.ndim, node.attrs["axis"])
    return same_as(info)


def _np_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(
        x - x.max(axis, keepdims=True, initial=-np.inf)
    )  # over no elements there is nothing to compute
    return e / e.sum(axis, keepdims=True)


def _np_log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    below = x - x.max(axis, keepdims=True, initial=-np.inf)
    return below - np.log(np.exp(below).sum(axis, keepdims=True))


def _softmax_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    total = make.sum(make.multiply(grad, var), node.attrs["axis"], True)
    return [make.multiply(make.subtract(grad, total), var)]


def _log_softmax_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    total = make.sum(grad, node.attrs["axis"], True)
    return [make.subtract(grad, make.multiply(total, make.exp(var)))]


@operator(
    "relax.nn.softmax",
    infer=_infer_softmax,
    legalize=with_attrs("nn.softmax", "axis"),
    reference=in_float32(_np_softmax),
    gradient=_softmax_gradient,
    fast_legalize=with_attrs("nn.fast_softmax", "axis"),
    mixed_precision=NEVER,
    pattern=OpPatternKind.kOutEWiseFusable,
    layout=along_axis,
)
def softmax(data: Expr, axis: int = -1) -> Expr:
    """exp(x) / sum(exp(x)) along an axis."""
    return call("relax.nn.softmax", data, attrs={"axis": int(axis)})


def _legalize_log_softmax(bb: Any, node: Call) -> Expr:
    return bb.call_te(topi_function("nn.log_softmax"), node.args[0], node.attrs["axis"])


@operator(
    "relax.nn.log_softmax",
    infer=_infer_softmax,
    legalize=_legalize_log_softmax,
    reference=in_float32(_np_log_softmax),
    gradient=_log_softmax_gradient,
    mixed_precision=NEVER,
    pattern=OpPatternKind.kOutEWiseFusable,
    layout=along_axis,
)
def log_softmax(data: Expr, axis: int = -1) -> Expr:
    """The logarithm of softmax along an axis."""
    return call("relax.nn.log_softmax", data, attrs={"axis": int(axis)})


__all__ = [
    "gelu",
    "gelu_tanh",
    "leakyrelu",
    "log_softmax",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softmax",
    "softplus",
]
