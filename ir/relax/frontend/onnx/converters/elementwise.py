"""Element-wise arithmetic, comparisons, logic, casts and selection."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from ir import dtype as dt
from ir.relax import op as _op
from ir.relax.expr import Expr

from ..context import NodeContext, computed_dtype, computed_widely
from ..registry import converter

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Not": "logical_not",
    "BitwiseNot": "bitwise_not",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "IsNaN": "isnan",
}
_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
}


@converter(*_UNARY)
def _unary(ctx: NodeContext) -> Expr:
    return getattr(_op, _UNARY[ctx.op_type])(ctx.expr(0))


@converter(*_BINARY, since=7)
def _binary(ctx: NodeContext) -> Expr:
    return getattr(_op, _BINARY[ctx.op_type])(ctx.expr(0), ctx.expr(1))


@converter(*_BINARY, since=1)
def _binary_v1(ctx: NodeContext) -> Expr:
    """Before opset 7 broadcasting was asked for by attributes: the second operand's axes start at ``axis`` of the first."""
    a, b = ctx.expr(0), _aligned_v1(ctx)
    return getattr(_op, _BINARY[ctx.op_type])(a, b)


def _aligned_v1(ctx: NodeContext) -> Expr:
    a, b = ctx.expr(0), ctx.expr(1)
    axis = ctx.attr("axis")
    if not ctx.attr("broadcast", 0) or axis is None:
        return b
    behind = ctx.rank(a) - ctx.axis(int(axis), ctx.rank(a)) - ctx.rank(b)
    return _op.reshape(b, [*ctx.shape(b), *[1] * behind]) if behind else b


@converter("Div")
def _div(ctx: NodeContext) -> Expr:
    a, b = ctx.expr(0), _aligned_v1(ctx) if ctx.opset < 7 else ctx.expr(1)
    return _op.divide(a, b)


def _holds(dtype: str, other: str) -> bool:
    """Whether a float dtype holds the numbers of another dtype, floats taken for granted."""
    if dt.is_float(other):
        return True
    low, high = dt.integer_range(other)
    return max(-low, high) <= 2 ** (ml_dtypes.finfo(dt.to_numpy(dtype)).nmant + 1)


@converter("Pow")
def _pow(ctx: NodeContext) -> Expr:
    base, exponent = ctx.expr(0), ctx.expr(1)
    known = ctx.known(1)
    if known is not None and known.size == 1 and known.dtype != object and known.ndim <= ctx.rank(base):
        value = float(known.reshape(-1)[0])
        # The powers that models use (RMS norms, GELU) as what they are: a call of pow costs ten times a multiplication.
        if value == 1:
            return base
        # Integers to the power of a float do not wrap as products do.
        if dt.is_float(ctx.dtype(base)) or not dt.is_float(ctx.dtype(exponent)):
            if value == 2:
                return _op.multiply(base, base)
            if value == 3:
                return _op.multiply(ctx.emit(_op.multiply(base, base)), base)
        if value == 0.5 and dt.is_float(ctx.dtype(base)):
            # The root of -infinity is NaN and that of -0.0 is -0.0; their powers are infinity and 0.0.
            infinite = _op.equal(base, ctx.scalar(-math.inf, base))
            unsigned = ctx.emit(_op.add(base, ctx.scalar(0.0, base)))
            return _op.where(infinite, ctx.scalar(math.inf, base), _op.sqrt(unsigned))
    if ctx.dtype(exponent) == ctx.dtype(base):
        return _op.power(base, exponent)
    if dt.is_float(ctx.dtype(base)):
        dtype = ctx.dtype(base)
        # The exponent is even or odd: where the base's dtype does not hold it, both are computed with in float64.
        wide = dtype if _holds(dtype, ctx.dtype(exponent)) else "float64"
        power = ctx.emit(_op.power(_op.astype(base, wide), _op.astype(exponent, wide)))
        return power if wide == dtype else _op.astype(power, dtype)
    # An integer to the power of a float (or of a wider integer) is computed in that; the result is the base's again.
    kind = "float64" if dt.is_float(ctx.dtype(exponent)) else _wider(ctx.dtype(base), ctx.dtype(exponent))
    power = ctx.emit(_op.power(_op.astype(base, kind), _op.astype(exponent, kind)))
    return _op.astype(power, ctx.dtype(base))


def _wider(a: str, b: str) -> str:
    return a if dt.bits(a) >= dt.bits(b) else b


@converter("Mod", since=10)
def _mod(ctx: NodeContext) -> Expr:
    # fmod takes the sign of the dividend, the default that of the divisor.
    return (_op.mod if ctx.attr("fmod", 0) else _op.floor_mod)(ctx.expr(0), ctx.expr(1))


@converter("BitShift", since=11)
def _bit_shift(ctx: NodeContext) -> Expr:
    shift = _op.left_shift if ctx.attr("direction") == "LEFT" else _op.right_shift
    return shift(ctx.expr(0), ctx.expr(1))


@converter("Reciprocal")
def _reciprocal(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    return _op.divide(ctx.scalar(1, x), x)


@converter("IsInf", since=10)
def _is_inf(ctx: NodeContext) -> Expr:
    x = ctx.expr(0)
    positive, negative = bool(ctx.attr("detect_positive", 1)), bool(ctx.attr("detect_negative", 1))
    if positive and negative:
        return _op.isinf(x)
    if not positive and not negative:
        return _op.zeros(ctx.shape(x), "bool")
    return _op.equal(x, ctx.scalar(math.inf if positive else -math.inf, x))


def _variadic(ctx: NodeContext, make: Any) -> Expr:
    values = ctx.exprs()
    result = values[0]
    for value in values[1:]:
        result = ctx.emit(make(result, value))
    return result


@converter("Min")
def _min(ctx: NodeContext) -> Expr:
    return _variadic(ctx, _op.minimum)


@converter("Max")
def _max(ctx: NodeContext) -> Expr:
    return _variadic(ctx, _op.maximum)


@converter("Sum")
@computed_widely()
def _sum(ctx: NodeContext) -> Expr:
    return _variadic(ctx, _op.add)


@converter("Mean")
@computed_widely()
def _mean(ctx: NodeContext) -> Expr:
    total = _variadic(ctx, _op.add)
    return _op.divide(total, ctx.scalar(len(ctx.inputs), total))


@converter("Where", since=9)
def _where(ctx: NodeContext) -> Expr:
    return _op.where(ctx.expr(0), ctx.expr(1), ctx.expr(2))


@converter("Clip", since=11)
def _clip(ctx: NodeContext) -> Expr:
    low, high = (
        None if not ctx.has(index) else ctx.expr(index) if array is None else array.reshape(-1)[0].item()
        for index, array in ((1, ctx.known(1)), (2, ctx.known(2)))
    )
    return _clipped(ctx, low, high)


@converter("Clip", since=1)
def _clip_v1(ctx: NodeContext) -> Expr:
    return _clipped(ctx, ctx.attr("min"), ctx.attr("max"))


def _clipped(ctx: NodeContext, low: Any, high: Any) -> Expr:
    """Clip to numbers or tensors; a bound that is missing is the end of the dtype, within which infinities are brought, too."""
    x = result = ctx.expr(0)
    dtype = ctx.dtype(x)
    if dt.is_float(dtype):
        largest = float(ml_dtypes.finfo(dt.to_numpy(dtype)).max)
        low, high = (-largest if low is None else low), (largest if high is None else high)
    if not any(bound is None or isinstance(bound, Expr) for bound in (low, high)):
        return _op.clip(x, low, high)
    for bound, make in ((low, _op.maximum), (high, _op.minimum)):
        if bound is not None:
            result = ctx.emit(make(result, bound if isinstance(bound, Expr) else ctx.scalar(bound, x)))
    return result


def onnx_dtype(code: int) -> str:
    """The dtype that ONNX numbers so; raises ConversionError for one that is not computed."""
    from onnx import helper

    return computed_dtype(helper.tensor_dtype_to_np_dtype(int(code)), "the result")


@converter("Cast")
def _cast(ctx: NodeContext) -> Any:
    to = ctx.attr("to")
    return _cast_to(ctx, str(to).lower() if isinstance(to, str) else onnx_dtype(to))


@converter("CastLike", since=15)
def _cast_like(ctx: NodeContext) -> Any:
    return _cast_to(ctx, ctx.dtype(ctx.expr(1)))


def _cast_to(ctx: NodeContext, dtype: str) -> Any:
    x = ctx.expr(0)
    if dt.is_float(ctx.dtype(x)) and dt.is_integral(dtype) and 1 < dt.bits(dtype) < 8:
        x = ctx.emit(_op.astype(x, "int32"))  # ONNX's examples keep the low bits of what is out of range
    return ctx.inputs[0] if ctx.dtype(x) == dtype else _op.astype(x, dtype)


@converter("Identity")
def _identity(ctx: NodeContext) -> Any:
    return ctx.inputs[0]


@converter("Dropout")
def _dropout(ctx: NodeContext) -> Any:
    training = ctx.known(2)
    if ctx.has(2) and (training is None or bool(training.reshape(-1)[0])):
        raise ctx.error("training mode is not supported; export the model in inference mode (model.eval())")
    # The mask, where asked for, is all true.
    if ctx.n_outputs == 1:
        return ctx.inputs[0]
    return [ctx.inputs[0], _op.ones(ctx.shape(ctx.expr(0)), "bool")]


@converter("Einsum", since=12)
def _einsum(ctx: NodeContext) -> Expr:
    return _op.einsum(ctx.exprs(), ctx.attr("equation").replace(" ", ""))
