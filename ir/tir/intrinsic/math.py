"""Elementary functions of floats, lane by lane: exponentials, logarithms, trigonometry, powers, signs.

On LLVM they are functions of the library that :mod:`ir.codegen.llvm.vector_math` generates for any number of lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ... import dtype as dt
from ...error import IRTypeError
from ...float_power import float_power
from ...span import Span
from ..expr import Add, Call, Let, PrimExpr, Select, Var
from ..operators import absolute, cast, const, convert, logical_and, logical_not, logical_or, power
from .declaration import Lowering, call, first, intrinsic
from .lowering import library_function, llvm_function, shared, widened

_Builder = TypeVar("_Builder", bound=Callable[..., Any])


def _function(
    meaning: Callable[..., Any],
    arity: int = 1,
    llvm: Lowering = library_function,
    cuda: Lowering = library_function,
    exact: bool = False,
    costly: bool = True,
) -> Callable[[_Builder], _Builder]:
    """Declare a function of floats that works on lanes; ``meaning`` is computed in float64."""

    def in_float64(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return meaning(*[np.asarray(arg).astype("float64") for arg in args])

    return intrinsic(
        arity=arity,
        result=first,
        meaning=in_float64,
        elementwise=True,
        lowering={"llvm": llvm, "cuda": cuda},
        exact=exact,
        costly=costly,
    )


def _as_float(x: Any) -> PrimExpr:
    """An argument as a float: integers convert to float32."""
    value = convert(x)
    if dt.is_integral(value.dtype):
        return cast(dt.with_lanes("float32", dt.lanes(value.dtype)), value)
    if not dt.is_float(value.dtype):
        raise IRTypeError(f"expected a number, got {value.dtype}")
    return value


def _unary(name: str, x: Any, span: Span | None) -> PrimExpr:
    return call(name, _as_float(x), span=span)


def _binary(name: str, x1: Any, x2: Any, span: Span | None) -> PrimExpr:
    a = _as_float(x1)
    b = convert(x2, a.dtype)
    return call(name, a, b if b.dtype == a.dtype else cast(a.dtype, b), span=span)


# ---- functions of one argument; integers convert to float32 first ------------------------------------------------


@_function(np.exp)
def exp(x: Any, span: Span | None = None) -> PrimExpr:
    """``e**x`` elementwise."""
    return _unary("exp", x, span)


@_function(np.exp2)
def exp2(x: Any, span: Span | None = None) -> PrimExpr:
    """``2**x`` elementwise."""
    return _unary("exp2", x, span)


@_function(lambda x: np.power(10.0, x))
def exp10(x: Any, span: Span | None = None) -> PrimExpr:
    """``10**x`` elementwise."""
    return _unary("exp10", x, span)


@_function(np.expm1)
def expm1(x: Any, span: Span | None = None) -> PrimExpr:
    """``exp(x) - 1`` elementwise, exact for small ``x``."""
    return _unary("expm1", x, span)


@_function(np.vectorize(math.erf, otypes=[float]))
def erf(x: Any, span: Span | None = None) -> PrimExpr:
    """The error function elementwise."""
    return _unary("erf", x, span)


@_function(np.vectorize(math.erfc, otypes=[float]))
def erfc(x: Any, span: Span | None = None) -> PrimExpr:
    """``1 - erf(x)`` elementwise."""
    return _unary("erfc", x, span)


@_function(np.tanh)
def tanh(x: Any, span: Span | None = None) -> PrimExpr:
    """The hyperbolic tangent elementwise."""
    return _unary("tanh", x, span)


@_function(lambda x: 1 / (1 + np.exp(-x)))
def sigmoid(x: Any, span: Span | None = None) -> PrimExpr:
    """``1 / (1 + exp(-x))`` elementwise."""
    return _unary("sigmoid", x, span)


@_function(np.log)
def log(x: Any, span: Span | None = None) -> PrimExpr:
    """The natural logarithm elementwise."""
    return _unary("log", x, span)


@_function(np.log2)
def log2(x: Any, span: Span | None = None) -> PrimExpr:
    """The logarithm to base 2 elementwise."""
    return _unary("log2", x, span)


@_function(np.log10)
def log10(x: Any, span: Span | None = None) -> PrimExpr:
    """The logarithm to base 10 elementwise."""
    return _unary("log10", x, span)


@_function(np.log1p)
def log1p(x: Any, span: Span | None = None) -> PrimExpr:
    """``log(1 + x)`` elementwise, exact for small ``x``."""
    return _unary("log1p", x, span)


@_function(np.sqrt, costly=False)
def sqrt(x: Any, span: Span | None = None) -> PrimExpr:
    """The square root elementwise."""
    return _unary("sqrt", x, span)


@_function(lambda x: 1 / np.sqrt(x), costly=False)
def rsqrt(x: Any, span: Span | None = None) -> PrimExpr:
    """``1 / sqrt(x)`` elementwise."""
    return _unary("rsqrt", x, span)


@_function(np.tan)
def tan(x: Any, span: Span | None = None) -> PrimExpr:
    """The tangent elementwise."""
    return _unary("tan", x, span)


@_function(np.cos)
def cos(x: Any, span: Span | None = None) -> PrimExpr:
    """The cosine elementwise."""
    return _unary("cos", x, span)


@_function(np.sin)
def sin(x: Any, span: Span | None = None) -> PrimExpr:
    """The sine elementwise."""
    return _unary("sin", x, span)


@_function(np.cosh)
def cosh(x: Any, span: Span | None = None) -> PrimExpr:
    """The hyperbolic cosine elementwise."""
    return _unary("cosh", x, span)


@_function(np.sinh)
def sinh(x: Any, span: Span | None = None) -> PrimExpr:
    """The hyperbolic sine elementwise."""
    return _unary("sinh", x, span)


@_function(np.arccos)
def acos(x: Any, span: Span | None = None) -> PrimExpr:
    """The inverse of the cosine elementwise."""
    return _unary("acos", x, span)


@_function(np.arccosh)
def acosh(x: Any, span: Span | None = None) -> PrimExpr:
    """The inverse of the hyperbolic cosine elementwise."""
    return _unary("acosh", x, span)


@_function(np.arcsin)
def asin(x: Any, span: Span | None = None) -> PrimExpr:
    """The inverse of the sine elementwise."""
    return _unary("asin", x, span)


@_function(np.arcsinh)
def asinh(x: Any, span: Span | None = None) -> PrimExpr:
    """The inverse of the hyperbolic sine elementwise."""
    return _unary("asinh", x, span)


@_function(np.arctan)
def atan(x: Any, span: Span | None = None) -> PrimExpr:
    """The inverse of the tangent elementwise."""
    return _unary("atan", x, span)


@_function(np.arctanh)
def atanh(x: Any, span: Span | None = None) -> PrimExpr:
    """The inverse of the hyperbolic tangent elementwise."""
    return _unary("atanh", x, span)


# ---- functions of two arguments ----------------------------------------------------------------------------------


def _lower_pow(node: Call) -> PrimExpr:
    """Powers of integers by repeated squaring, which wraps as products do; one to a negative exponent truncates to -1, 0 or 1."""
    if dt.is_float(node.dtype):
        return library_function(node)
    dtype = node.dtype
    base, exponent = Var("base", dtype), Var("exponent", dtype)
    zero, one = const(0, dtype), const(1, dtype)
    lets: list[tuple[Var, PrimExpr]] = [(base, node.args[0]), (exponent, node.args[1])]
    power: PrimExpr = one
    square: PrimExpr = base
    for bit in range(dt.bits(dtype)):
        has_bit = ((exponent >> const(bit, dtype)) & one) != zero
        lets.append((Var(f"power{bit}", dtype), Select(has_bit, power * square, power)))
        lets.append((Var(f"square{bit}", dtype), square * square))
        power, square = lets[-2][0], lets[-1][0]
    if dt.is_int(dtype):
        unit = logical_or(base.equal(one), base.equal(-one))
        power = Select(logical_and(exponent < zero, logical_not(unit)), zero, power)
    for var, value in reversed(lets):
        power = Let(var, value, power)
    return power


def _power(x: Any, y: Any) -> Any:
    """As :func:`_lower_pow`, on arrays."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind not in "iu":
        return float_power(x.astype("float64"), y.astype("float64"))
    found, square, left = np.ones_like(x), x.copy(), y.astype(x.dtype).view(f"u{x.itemsize}")
    with np.errstate(over="ignore"):
        for _ in range(8 * x.itemsize):
            found = np.where(left & 1, found * square, found)
            square, left = square * square, left >> 1
    return np.where((y < 0) & (np.abs(x) != 1), 0, found) if x.dtype.kind == "i" else found


@intrinsic(
    arity=2, result=first, meaning=_power, elementwise=True, lowering={"default": _lower_pow}, costly=True
)
def pow(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """``x`` to the power ``y`` elementwise: :func:`ir.tir.power`."""
    return power(x, y, span)


@_function(np.fmod, arity=2)
def fmod(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
    """The remainder of ``x1 / x2`` elementwise; it has the sign of ``x1``."""
    return _binary("fmod", x1, x2, span)


@_function(np.arctan2, arity=2)
def atan2(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
    """The angle of the point ``(x2, x1)`` elementwise."""
    return _binary("atan2", x1, x2, span)


def _lower_ldexp(node: Call) -> PrimExpr:
    x, n = node.args
    return library_function(node.replace(args=(x, cast(widened(x).dtype, n))))


@_function(
    lambda x, n: np.ldexp(x, n.astype(int)), arity=2, llvm=_lower_ldexp, cuda=_lower_ldexp, costly=False
)
def ldexp(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
    """``x1 * 2**x2`` elementwise; ``x2`` is an integer."""
    a = _as_float(x1)
    return call("ldexp", a, convert(x2, a.dtype), span=span)


@_function(np.hypot, arity=2)
def hypot(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
    """``sqrt(x1 * x1 + x2 * x2)`` elementwise."""
    return _binary("hypot", x1, x2, span)


@_function(np.copysign, arity=2, llvm=llvm_function("copysign"), exact=True, costly=False)
def copysign(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
    """``x1`` with the sign of ``x2`` elementwise."""
    return _binary("copysign", x1, x2, span)


def _next_number(x: PrimExpr, y: PrimExpr) -> PrimExpr:
    """Floats are in the order of their bits: one more is farther from zero."""
    bits = dt.with_lanes(f"int{dt.bits(x.dtype)}", dt.lanes(x.dtype))
    zero, sign = const(0, x.dtype), const(-1 << (dt.bits(x.dtype) - 1), bits)
    up, positive = x < y, x > zero
    outwards = logical_or(logical_and(up, positive), logical_and(logical_not(up), logical_not(positive)))
    moved = call("reinterpret", x, dtype=bits) + Select(outwards, const(1, bits), const(-1, bits))
    smallest = (call("reinterpret", y, dtype=bits) & sign) | const(1, bits)
    found = call("reinterpret", Select(x.equal(zero), smallest, moved), dtype=x.dtype)
    number = Select(x.equal(y), y, found)
    return Select(logical_or(x != x, y != y), Add(x, y), number)


@intrinsic(
    arity=2,
    result=first,
    meaning=np.nextafter,
    elementwise=True,
    lowering={"default": lambda node: shared(node.args, _next_number)},
)
def nextafter(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
    """The number next to ``x1`` on the way to ``x2``, elementwise."""
    return _binary("nextafter", x1, x2, span)


# ---- absolute values ---------------------------------------------------------------------------------------------


@_function(np.abs, llvm=llvm_function("fabs"), exact=True, costly=False)
def fabs(x: Any, span: Span | None = None) -> PrimExpr:
    """The absolute value of a float elementwise; see :func:`abs`."""
    return _unary("fabs", x, span)


def abs(x: Any, span: Span | None = None) -> PrimExpr:
    """The absolute value of any number, elementwise; raises IRTypeError for bools."""
    return absolute(x, span)
