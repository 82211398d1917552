"""Rounding floats to integers, and telling numbers from infinities and NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ... import dtype as dt
from ...error import IRTypeError
from ...span import Span
from ..expr import NE, Broadcast, Call, FloatImm, PrimExpr, Select
from ..operators import const, convert, refuse_bools
from .declaration import INTRINSICS, Lowering, call, first, intrinsic
from .lowering import before_lowering, library_function, llvm_function, shared, widened

_Builder = TypeVar("_Builder", bound=Callable[..., Any])


# ---- narrower floats ---------------------------------------------------------------------------------------------


_HALF_OF_LAST, _KEPT = 0x1000, 0xFFFFE000
"""Of the bits of a float32: half of what the last of 10 bits of fraction is worth, and those that are kept."""


def _to_tf32(x: Any) -> Any:
    value = np.asarray(x, "float32")
    with np.errstate(over="ignore"):
        rounded = ((value.view("uint32") + np.uint32(_HALF_OF_LAST)) & np.uint32(_KEPT)).view("float32")
    return np.where(np.isfinite(value), rounded, value)


def _bits_to_tf32(node: Call) -> PrimExpr:
    lanes = dt.lanes(node.dtype)
    integer = dt.with_lanes("uint32", lanes)

    def splat(value: int) -> PrimExpr:
        scalar = const(value, "uint32")
        return scalar if lanes == 1 else Broadcast(scalar, lanes)

    def rounded(x: PrimExpr) -> PrimExpr:
        bits = call("reinterpret", x, dtype=integer)
        near = call("bitwise_and", bits + splat(_HALF_OF_LAST), splat(_KEPT))
        exponent = splat(0x7F800000)
        is_finite = NE(call("bitwise_and", bits, exponent), exponent)
        return Select(is_finite, call("reinterpret", near, dtype=node.dtype), x)

    return shared(node.args, rounded)


def _is_float32(dtype: str, args: Sequence[PrimExpr]) -> None:
    if dt.element_of(args[0].dtype) != "float32":
        raise IRTypeError(f"round_to_tf32 takes float32, got {args[0].dtype}")


@intrinsic(
    arity=1,
    result=first,
    meaning=_to_tf32,
    elementwise=True,
    lowering={"default": _bits_to_tf32},
    check=_is_float32,
)
def round_to_tf32(x: Any) -> PrimExpr:
    """A float32 with 10 bits of fraction: the nearest, ties away from zero.

    Tensor cores multiply float32 only so; who writes ``round_to_tf32(a) * round_to_tf32(b)`` says that this may be.
    """
    return call("round_to_tf32", convert(x))


# ---- rounding ----------------------------------------------------------------------------------------------------


def _rounding(meaning: Callable[[Any], Any], llvm: Lowering) -> Callable[[_Builder], _Builder]:
    """Declare a rounding; ``meaning`` is computed in float64, which holds all other floats."""
    return intrinsic(
        arity=1,
        result=first,
        meaning=lambda x: meaning(np.asarray(x).astype("float64")),
        elementwise=True,
        lowering={"llvm": llvm, "cuda": library_function},
        rounds=True,
    )


def rounded_argument(node: Call) -> PrimExpr | None:
    """What a call rounds to a whole number, lowered or not; None for other calls."""
    name, args = before_lowering(node)
    record = INTRINSICS.get(name)
    return args[0] if record is not None and record.rounds else None


def _rounded(name: str, x: Any, span: Span | None) -> PrimExpr:
    """Integers as they are, constants rounded, else a call; raises IRTypeError for bools."""
    value = convert(x)
    refuse_bools(value, f"tir.{name}")
    if dt.is_integral(value.dtype):
        return value
    if isinstance(value, FloatImm) and math.isfinite(value.value):
        meaning = INTRINSICS[f"tir.{name}"].meaning
        assert meaning is not None
        return FloatImm(value.dtype, float(meaning(value.value)))
    return call(name, value, span=span)


@_rounding(np.floor, llvm_function("floor"))
def floor(x: Any, span: Span | None = None) -> PrimExpr:
    """The greatest integer that is not greater, elementwise."""
    return _rounded("floor", x, span)


@_rounding(np.ceil, llvm_function("ceil"))
def ceil(x: Any, span: Span | None = None) -> PrimExpr:
    """The least integer that is not less, elementwise."""
    return _rounded("ceil", x, span)


@_rounding(np.trunc, llvm_function("trunc"))
def trunc(x: Any, span: Span | None = None) -> PrimExpr:
    """The integer next to ``x`` towards zero, elementwise."""
    return _rounded("trunc", x, span)


def _half_away(x: Any) -> Any:
    """Without adding 0.5, which rounds what is just below a half, and odd numbers beyond 2**52."""
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):
        is_half = np.abs(x - whole) >= 0.5
    return np.where(is_half, whole + np.copysign(1.0, x), whole)


@_rounding(_half_away, library_function)
def round(x: Any, span: Span | None = None) -> PrimExpr:
    """The nearest integer elementwise; halves go away from zero."""
    return _rounded("round", x, span)


@_rounding(np.rint, llvm_function("nearbyint"))
def nearbyint(x: Any, span: Span | None = None) -> PrimExpr:
    """The nearest integer elementwise; halves go to the even one."""
    return _rounded("nearbyint", x, span)


# ---- kinds of numbers --------------------------------------------------------------------------------------------


def _test(
    meaning: Callable[[Any], Any], formula: Callable[[PrimExpr], PrimExpr]
) -> Callable[[_Builder], _Builder]:
    """Declare a test of floats that a formula computes, for half floats in float32."""
    return intrinsic(
        arity=1,
        result="bool",
        meaning=meaning,
        elementwise=True,
        lowering={"default": lambda node: shared([widened(node.args[0])], formula)},
    )


def _infinity(x: PrimExpr) -> PrimExpr:
    return const(math.inf, x.dtype)


def _tested(name: str, x: Any, span: Span | None) -> PrimExpr:
    value = convert(x)
    if dt.is_integral(value.dtype):
        return const(name == "isfinite", dt.with_lanes("bool", dt.lanes(value.dtype)))
    return call(name, value, span=span)


@_test(np.isnan, lambda x: x != x)
def isnan(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether a value is NaN, elementwise."""
    return _tested("isnan", x, span)


@_test(np.isinf, lambda x: call("fabs", x).equal(_infinity(x)))
def isinf(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether a value is infinite, elementwise."""
    return _tested("isinf", x, span)


@_test(np.isfinite, lambda x: call("fabs", x) < _infinity(x))
def isfinite(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether a value is neither infinite nor NaN, elementwise."""
    return _tested("isfinite", x, span)
