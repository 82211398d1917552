"""Element-wise functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import dtype as dt
from ..error import IRTypeError
from ..te.operation import compute
from ..te.tensor import Tensor
from ..tir import op as T
from ..tir.expr import PrimExpr, Select
from ..tir.operators import cast as cast_expr
from ..tir.operators import const, convert
from ..tir.operators import logical_not as _logical_not
from ..tir.operators import max as _max
from ..tir.operators import min as _min
from . import tag
from .shape import ax_compute, shape_of


def _elementwise(name: str, function: Callable[[PrimExpr], Any]) -> Callable[[Tensor], Tensor]:
    def build(x: Tensor) -> Tensor:
        return compute(x.shape, lambda *i: function(x(*i)), tag=tag.ELEMWISE)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}`` of each element; shape and dtype of ``x``."
    return build


def _named_elementwise(name: str, function: Callable[[PrimExpr], Any]) -> Callable[[Tensor], Tensor]:
    def build(x: Tensor) -> Tensor:
        return ax_compute(x.shape, lambda i: function(x(*i)), f"T_{name}", tag.ELEMWISE)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}`` of each element; shape of ``x``."
    return build


identity = _elementwise("identity", lambda x: x)
negative = _elementwise("negative", lambda x: x * const(-1, x.dtype))
exp = _elementwise("exp", T.exp)
exp2 = _elementwise("exp2", T.exp2)
erf = _elementwise("erf", T.erf)
tanh = _elementwise("tanh", T.tanh)
tan = _elementwise("tan", T.tan)
cos = _elementwise("cos", T.cos)
cosh = _elementwise("cosh", T.cosh)
sin = _elementwise("sin", T.sin)
sinh = _elementwise("sinh", T.sinh)
acos = _elementwise("acos", T.acos)
acosh = _elementwise("acosh", T.acosh)
asin = _elementwise("asin", T.asin)
asinh = _elementwise("asinh", T.asinh)
atan = _elementwise("atan", T.atan)
atanh = _elementwise("atanh", T.atanh)
floor = _elementwise("floor", T.floor)
ceil = _elementwise("ceil", T.ceil)
trunc = _elementwise("trunc", T.trunc)
abs = _elementwise("abs", T.abs)
isnan = _elementwise("isnan", T.isnan)
isfinite = _elementwise("isfinite", T.isfinite)
isinf = _elementwise("isinf", T.isinf)
round = _elementwise("round", T.nearbyint)
log = _elementwise("log", T.log)
log2 = _elementwise("log2", T.log2)
log10 = _elementwise("log10", T.log10)
log1p = _elementwise("log1p", T.log1p)
sqrt = _elementwise("sqrt", T.sqrt)
rsqrt = _elementwise("rsqrt", T.rsqrt)
sigmoid = _elementwise("sigmoid", T.sigmoid)


def _sign(x: PrimExpr) -> PrimExpr:
    zero, one = const(0, x.dtype), const(1, x.dtype)
    lowest = zero if dt.is_uint(x.dtype) or dt.is_bool(x.dtype) else const(-1, x.dtype)
    # What is neither above, below nor equal to zero is NaN, and stays so.
    neither = Select(x.equal(zero), zero, x) if dt.is_float(x.dtype) else zero
    return Select(x > zero, one, Select(x < zero, lowest, neither))


sign = _named_elementwise("sign", _sign)
"""-1, 0 or 1 by the sign of each element."""
logical_not = _named_elementwise("logical_not", lambda x: _logical_not(x if dt.is_bool(x.dtype) else x != 0))
bitwise_not = _named_elementwise("bitwise_not", lambda x: ~x)


def _fast_exp(x: PrimExpr) -> PrimExpr:
    """exp by range reduction to 2**n * exp(f) with a polynomial for f; float32 only."""
    if x.dtype != "float32":
        return T.exp(x)
    f32 = lambda value: const(value, "float32")  # noqa: E731
    x = _max(_min(x, f32(88.3762626647950)), f32(-87.3365478515625))
    n = T.floor(x * f32(1.44269504088896341) + f32(0.5))
    f = x - n * f32(0.69314718056)
    y: Any = f32(1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        y = y * f + f32(coefficient)
    y = y * (f * f) + f + f32(1.0)
    return _max(T.reinterpret("float32", (cast_expr("int32", n) + 127) << 23) * y, x)


def _rational(x: PrimExpr, numerator: Sequence[float], denominator: Sequence[float]) -> PrimExpr:
    """x * P(x*x) / Q(x*x), coefficients from the highest power down."""
    square = x * x
    p: Any = const(numerator[0], x.dtype)
    for coefficient in numerator[1:]:
        p = p * square + const(coefficient, x.dtype)
    q: Any = const(denominator[0], x.dtype)
    for coefficient in denominator[1:]:
        q = q * square + const(coefficient, x.dtype)
    return x * p / q


def _fast_tanh(x: PrimExpr) -> PrimExpr:
    if x.dtype != "float32":
        return T.tanh(x)
    x = _max(_min(x, const(9.0, "float32")), const(-9.0, "float32"))
    return _rational(
        x,
        (
            -2.76076847742355e-16,
            2.00018790482477e-13,
            -8.60467152213735e-11,
            5.12229709037114e-08,
            1.48572235717979e-05,
            6.37261928875436e-04,
            4.89352455891786e-03,
        ),
        (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
    )


def _fast_erf(x: PrimExpr) -> PrimExpr:
    if x.dtype != "float32":
        return T.erf(x)
    x = _max(_min(x, const(4.0, "float32")), const(-4.0, "float32"))
    return _rational(
        x,
        (
            -2.72614225801306e-10,
            2.77068142495902e-08,
            -2.10102402082508e-06,
            -5.69250639462346e-05,
            -7.34990630326855e-04,
            -2.95459980854025e-03,
            -1.60960333262415e-02,
        ),
        (
            -1.45660718464996e-05,
            -2.13374055278905e-04,
            -1.68282697438203e-03,
            -7.37332916720468e-03,
            -1.42647390514189e-02,
        ),
    )


fast_exp = _named_elementwise("fast_exp", _fast_exp)
fast_tanh = _named_elementwise("fast_tanh", _fast_tanh)
fast_erf = _named_elementwise("fast_erf", _fast_erf)


def ceil_log2(x: PrimExpr) -> PrimExpr:
    """The smallest integer n with ``2**n >= x``, of a scalar expression."""
    value = convert(x)
    if not dt.is_integral(value.dtype):
        return T.ceil(T.log2(value))
    bits = dt.bits(value.dtype)
    leading = cast_expr(value.dtype, T.clz(value - 1))
    return Select(value <= 1, const(0, value.dtype), const(bits, value.dtype) - leading)


def clip(x: Tensor, a_min: Any, a_max: Any) -> Tensor:
    """``min(max(x, a_min), a_max)`` of each element, so ``a_max`` where the bounds cross; they take the dtype of ``x``."""

    def bounded(*indices: Any) -> PrimExpr:
        value = x(*indices)
        low, high = convert(a_min), convert(a_max)
        return _min(_max(value, cast_expr(x.dtype, low)), cast_expr(x.dtype, high))

    return compute(x.shape, bounded, tag=tag.ELEMWISE)


def cast(x: Tensor, dtype: str, span: Any = None) -> Tensor:
    """Each element converted to ``dtype``."""
    if isinstance(x, Tensor):
        return compute(x.shape, lambda *i: x(*i).astype(dtype), tag=tag.ELEMWISE)
    return cast_expr(dtype, x, span)  # type: ignore[return-value]


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of each element read as ``dtype`` of the same width."""
    return compute(x.shape, lambda *i: T.reinterpret(dtype, x(*i)), tag=tag.ELEMWISE)


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """``round(x * multiplier * 2**(shift - 31))`` of int32 elements."""
    if x.dtype != "int32":
        raise IRTypeError(f"fixed_point_multiply needs int32, got {x.dtype}")
    return compute(
        x.shape,
        lambda *i: T.q_multiply_shift(
            x(*i), const(multiplier, "int32"), const(31, "int32"), const(shift, "int32")
        ),
        tag=tag.ELEMWISE,
    )


def full(shape: Sequence[Any], dtype: str, fill_value: Any, name: str = "T_full") -> Tensor:
    """A tensor filled with one value (a number, an expression, or a rank-0 tensor)."""
    value = cast_expr(dtype, convert(fill_value))
    return ax_compute(shape_of(shape), lambda i: value, name, tag.ELEMWISE)


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of the shape and dtype of ``x``, filled with one value."""
    value = cast_expr(x.dtype, convert(fill_value))
    return ax_compute(x.shape, lambda i: value, "T_full_like", tag.ELEMWISE)


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""

    def total(indices: Any) -> PrimExpr:
        value: Any = xs[0](*indices)
        for item in xs[1:]:
            value = value + item(*indices)
        return value

    return ax_compute(xs[0].shape, total, "T_elemwise_sum", tag.ELEMWISE)
