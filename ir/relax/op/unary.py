"""Elementwise operators of one operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ...tir.expr import FloatImm, IntImm
from ...tir.operators import const as tir_const
from ..expr import Call, Expr, PrimValue, convert_to_expr
from ..struct_info import PrimStructInfo, StructInfo
from .array import in_float32
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from .gradient import of_one_operand, scalar
from .inference import (
    check_arity,
    infer_unary_arith,
    infer_unary_check,
    infer_unary_number,
    prim_arg,
    require_dtype,
    require_number,
    same_as,
    tensor_arg,
    tensor_args,
    wrong_kind,
)
from .layout_rule import elementwise
from .legalization import topi_function, topi_unary

FOLLOW, NEVER = MixedPrecisionPolicy.FOLLOW, MixedPrecisionPolicy.NEVER


def _primfunc_name(name: str) -> str:
    """What legalization calls the kernel: ``tir_exp``, so that it never clashes with the C function of that name."""
    return name if name == "erf" else f"tir_{name}"


def _unary(
    name: str,
    topi: str | None,
    reference: Any,
    doc: str,
    infer: Any = infer_unary_arith,
    policy: Any = FOLLOW,
    **what: Any,
) -> Any:
    """Declare an elementwise operator and return the function that builds its calls."""

    def build(x: Expr) -> Expr:
        return call(f"relax.{name}", x)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{doc}

    Args:
        x: the input tensor.

    Returns:
        A tensor of the same shape.
    """
    return operator(
        f"relax.{name}",
        infer=infer,
        legalize=topi_unary(topi, _primfunc_name(name)) if topi else None,
        reference=reference,
        mixed_precision=policy,
        pattern=OpPatternKind.kElemWise,
        layout=elementwise,
        **what,
    )(build)


def _infer_not(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    require_dtype(node, info, dt.is_bool, "a bool tensor")
    return same_as(info)


def _infer_bitwise_not(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    require_dtype(node, info, dt.is_integral, "a tensor of integers or bools")
    return same_as(info)


def _np_erf(x: np.ndarray) -> np.ndarray:
    import math

    return np.vectorize(math.erf, otypes=[x.dtype])(x)


abs = _unary(
    "abs",
    "abs",
    np.abs,
    "Absolute value.",
    infer_unary_number,
    gradient=of_one_operand(lambda x, y, g: make.where(make.less(x, scalar(0.0, x)), make.negative(g), g)),
)
acos = _unary("acos", "acos", np.arccos, "Arc cosine.")
acosh = _unary("acosh", "acosh", np.arccosh, "Inverse hyperbolic cosine.")
asin = _unary("asin", "asin", np.arcsin, "Arc sine.")
asinh = _unary("asinh", "asinh", np.arcsinh, "Inverse hyperbolic sine.")
atan = _unary("atan", "atan", np.arctan, "Arc tangent.")
atanh = _unary("atanh", "atanh", np.arctanh, "Inverse hyperbolic tangent.")
bitwise_not = _unary(
    "bitwise_not",
    "bitwise_not",
    np.invert,
    "Bitwise complement.",
    _infer_bitwise_not,
)
ceil = _unary("ceil", "ceil", np.ceil, "Smallest integer that is not smaller.", infer_unary_number)
cos = _unary(
    "cos",
    "cos",
    np.cos,
    "Cosine.",
    gradient=of_one_operand(lambda x, y, g: make.negative(make.multiply(g, make.sin(x)))),
)
cosh = _unary("cosh", "cosh", np.cosh, "Hyperbolic cosine.")
erf = _unary(
    "erf",
    "erf",
    _np_erf,
    "Gauss error function.",
    fast_legalize=topi_unary("fast_erf"),
    gradient=of_one_operand(
        lambda x, y, g: make.multiply(
            make.multiply(g, scalar(2.0 / 3.141592653589793**0.5, x)),
            make.exp(make.negative(make.multiply(x, x))),
        )
    ),
)
exp = _unary(
    "exp",
    "exp",
    np.exp,
    "Exponential.",
    fast_legalize=topi_unary("fast_exp"),
    gradient=of_one_operand(lambda x, y, g: make.multiply(g, y)),
)
floor = _unary("floor", "floor", np.floor, "Largest integer that is not larger.", infer_unary_number)
log = _unary(
    "log", "log", np.log, "Natural logarithm.", gradient=of_one_operand(lambda x, y, g: make.divide(g, x))
)
logical_not = _unary("logical_not", "logical_not", np.logical_not, "Logical negation of bools.", _infer_not)
negative = _unary(
    "negative",
    "negative",
    np.negative,
    "Negation.",
    infer_unary_number,
    gradient=of_one_operand(lambda x, y, g: make.negative(g)),
)
round = _unary("round", "round", np.round, "Nearest integer, halves to the even one.", infer_unary_number)
rsqrt = _unary(
    "rsqrt",
    "rsqrt",
    in_float32(lambda x: 1 / np.sqrt(x)),
    "Reciprocal square root.",
    gradient=of_one_operand(
        lambda x, y, g: make.multiply(
            make.multiply(g, scalar(-0.5, x)), make.multiply(y, make.multiply(y, y))
        )
    ),
)
sigmoid = _unary(
    "sigmoid",
    "sigmoid",
    in_float32(lambda x: 1 / (1 + np.exp(-x))),
    "Sigmoid, 1 / (1 + exp(-x)).",
    gradient=of_one_operand(
        lambda x, y, g: make.multiply(g, make.multiply(y, make.subtract(scalar(1.0, x), y)))
    ),
)
sign = _unary(
    "sign",
    "sign",
    lambda x: np.sign(x) + x.dtype.type(0),  # that of -0.0 is 0.0, also where ml_dtypes has another one
    "Sign: -1, 0 or 1.",
    infer_unary_number,
)
sin = _unary(
    "sin", "sin", np.sin, "Sine.", gradient=of_one_operand(lambda x, y, g: make.multiply(g, make.cos(x)))
)
sinh = _unary("sinh", "sinh", np.sinh, "Hyperbolic sine.")
sqrt = _unary(
    "sqrt",
    "sqrt",
    np.sqrt,
    "Square root.",
    gradient=of_one_operand(lambda x, y, g: make.divide(make.multiply(g, scalar(0.5, x)), y)),
)


def _legalize_square(bb: Any, node: Call) -> Expr:
    def te_square(x: Any) -> Any:
        return topi_function("multiply")(x, x)

    return bb.call_te(te_square, node.args[0], primfunc_name_hint=_primfunc_name("square"))


@operator(
    "relax.square",
    infer=infer_unary_number,
    legalize=_legalize_square,
    reference=np.square,
    gradient=of_one_operand(lambda x, y, g: make.multiply(g, make.multiply(scalar(2.0, x), x))),
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kElemWise,
    layout=elementwise,
)
def square(x: Expr) -> Expr:
    """Square of each element of ``x``."""
    return call("relax.square", x)


tan = _unary(
    "tan",
    "tan",
    np.tan,
    "Tangent.",
    gradient=of_one_operand(lambda x, y, g: make.multiply(g, make.add(scalar(1.0, x), make.multiply(y, y)))),
)
tanh = _unary(
    "tanh",
    "tanh",
    np.tanh,
    "Hyperbolic tangent.",
    fast_legalize=topi_unary("fast_tanh"),
    gradient=of_one_operand(
        lambda x, y, g: make.multiply(g, make.subtract(scalar(1.0, x), make.multiply(y, y)))
    ),
)
trunc = _unary("trunc", "trunc", np.trunc, "Integer part.")

isfinite = _unary(
    "isfinite", "isfinite", np.isfinite, "Whether elements are finite (bool).", infer_unary_check
)
isinf = _unary("isinf", "isinf", np.isinf, "Whether elements are infinite (bool).", infer_unary_check)
isnan = _unary("isnan", "isnan", np.isnan, "Whether elements are NaN (bool).", infer_unary_check)


def _infer_clip(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 3)
    info = tensor_arg(node, 0)
    require_number(node, info)
    for index, name in ((1, "min"), (2, "max")):
        if not isinstance(node.args[index].struct_info, PrimStructInfo):
            raise wrong_kind(node, f"{name} must be a scalar value, got {node.args[index].struct_info}")
    return same_as(info)


def _legalize_clip(bb: Any, node: Call) -> Expr:
    dtype = node.args[0].struct_info.dtype

    def bound(index: int) -> Any:
        value = prim_arg(node, index)
        if not isinstance(value, IntImm | FloatImm):
            return value.astype(dtype)  # type: ignore[union-attr]
        number = value.value
        if not dt.is_float(dtype):
            low, high = dt.integer_range(dtype)
            number = low if number < low else high if number > high else int(number)
        return tir_const(number, dtype)

    return bb.call_te(
        topi_function("clip"), node.args[0], bound(1), bound(2), primfunc_name_hint=_primfunc_name("clip")
    )


@operator(
    "relax.clip",
    infer=_infer_clip,
    legalize=_legalize_clip,
    reference=lambda x, low, high: np.clip(x, low, high).astype(x.dtype),
    mixed_precision=FOLLOW,
    pattern=OpPatternKind.kElemWise,
    layout=elementwise,
)
def clip(x: Expr, min: Any, max: Any) -> Expr:
    """Limit the elements of ``x`` to the range from ``min`` to ``max``, both scalar values."""
    low, high = convert_to_expr(min), convert_to_expr(max)
    if not isinstance(low, PrimValue) and not isinstance(low.struct_info_, PrimStructInfo | type(None)):
        raise TypeError(f"clip: min must be a number, got {min!r}")
    return call("relax.clip", x, low, high)


__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "logical_not",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]
