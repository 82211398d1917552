"""Operations on the bits of integers, and fixed-point multiplication.

The builders of ``&``, ``|``, ``^``, ``<<`` and ``>>`` are Python's operators on expressions (:mod:`ir.tir.operators`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ... import dtype as dt
from ...error import IRTypeError
from ...span import Span
from ..expr import Call, IntImm, PrimExpr, StringImm
from ..operators import cast, const, convert, located
from ..operators import max as larger
from .declaration import call, first, intrinsic, primitive
from .lowering import llvm_name, shared

_Builder = TypeVar("_Builder", bound=Callable[..., Any])


def _instruction(meaning: Callable[..., Any], exact: bool = False) -> Callable[[_Builder], _Builder]:
    """Declare an operation on two integers for which every target has an instruction."""
    return intrinsic(
        arity=2, result=first, meaning=meaning, elementwise=True, lowering={"default": primitive}, exact=exact
    )


@_instruction(operator.and_, exact=True)
def bitwise_and(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise and of integers."""
    return located(convert(x) & y, span)


@_instruction(operator.or_)
def bitwise_or(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise or of integers."""
    return located(convert(x) | y, span)


@_instruction(operator.xor)
def bitwise_xor(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise exclusive or of integers."""
    return located(convert(x) ^ y, span)


@_instruction(operator.lshift)
def shift_left(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """``x << y``."""
    return located(convert(x) << y, span)


@_instruction(operator.rshift)
def shift_right(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """``x >> y``, arithmetic for signed integers."""
    return located(convert(x) >> y, span)


def _flip_all(node: Call) -> PrimExpr:
    (x,) = node.args
    return call("bitwise_xor", x, const(-1, x.dtype))


@intrinsic(arity=1, result=first, meaning=np.invert, elementwise=True, lowering={"default": _flip_all})
def bitwise_not(x: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise complement of an integer."""
    return located(~convert(x), span)


# ---- counting ----------------------------------------------------------------------------------------------------


def _unsigned(x: Any) -> Any:
    """The bits of integers as an unsigned number."""
    array = np.asarray(x)
    return array.view(f"uint{8 * array.dtype.itemsize}")


def _leading_zeros(x: Any) -> Any:
    bits = _unsigned(x)
    length = np.vectorize(lambda value: int(value).bit_length(), otypes=[int])(bits)
    return 8 * bits.dtype.itemsize - length


def _llvm_count(function: str, *flags: bool) -> Callable[[Call], PrimExpr]:
    def lower(node: Call) -> PrimExpr:
        (x,) = node.args
        name = StringImm(llvm_name(function, x.dtype))
        count = call("call_llvm_pure_intrin", name, x, *[const(flag) for flag in flags], dtype=x.dtype)
        return cast(node.dtype, count)

    return lower


def _count_of_words(node: Call) -> PrimExpr:
    """Counts of bits of 32 and 64 bit numbers as they are, of narrower ones behind as many zeros as they lack."""
    (x,) = node.args
    lanes, bits = dt.lanes(x.dtype), dt.bits(x.dtype)
    if bits >= 32:
        return node
    word = cast(dt.with_lanes("uint32", lanes), cast(dt.with_lanes(f"uint{bits}", lanes), x))
    count = node.replace(args=(word,), dtype=word.dtype if node.dtype == x.dtype else node.dtype)
    lacking = 32 - bits if getattr(node.op, "name", "") == "tir.clz" else 0
    return cast(node.dtype, count - const(lacking, count.dtype))


@intrinsic(
    arity=1,
    result=first,
    meaning=lambda x: np.bitwise_count(_unsigned(x)),  # that of a signed number is of its absolute value
    elementwise=True,
    lowering={"llvm": _llvm_count("ctpop"), "cuda": _count_of_words},
)
def popcount(x: Any) -> PrimExpr:
    """The number of set bits of an integer."""
    return call("popcount", convert(x))


@intrinsic(
    arity=1,
    result="int32",
    meaning=_leading_zeros,
    elementwise=True,
    lowering={"llvm": _llvm_count("ctlz", False), "cuda": _count_of_words},
)
def clz(x: Any) -> PrimExpr:
    """The number of leading zero bits of an integer, as int32."""
    return call("clz", convert(x))


# ---- bits as another dtype ---------------------------------------------------------------------------------------


def _reinterpreted(dtype: str, x: Any) -> Any:
    viewed = np.atleast_1d(np.asarray(x)).view(dt.to_numpy(dtype))
    return viewed if dt.lanes(dtype) > 1 else viewed.reshape(np.shape(x))


def _check_sizes(dtype: str, args: Sequence[PrimExpr]) -> None:
    """Bits have a place each: none are lost or made up. A bool's are those of a byte."""
    sizes = [dt.lanes(item) * (8 if dt.is_bool(item) else dt.bits(item)) for item in (args[0].dtype, dtype)]
    if sizes[0] != sizes[1]:
        raise IRTypeError(
            f"reinterpret needs dtypes of one size, got {args[0].dtype} of {sizes[0]} bits and {dtype} of {sizes[1]};"
            " convert the value first, as in T.Cast"
        )


@intrinsic(
    arity=1,
    result=None,
    meaning=_reinterpreted,
    elementwise=True,
    lowering={"default": primitive},
    check=_check_sizes,
)
def reinterpret(dtype: str, value: Any, span: Span | None = None) -> PrimExpr:
    """The bits of ``value`` read as ``dtype`` of the same width."""
    expr = convert(value)
    return expr if expr.dtype == dtype else call("reinterpret", expr, dtype=dtype, span=span)


def _joined(dtype: str, low: Any, high: Any) -> Any:
    return int(high) << 32 | int(low)


def _one_constant(node: Call) -> PrimExpr:
    low, high = node.args
    assert isinstance(low, IntImm) and isinstance(high, IntImm)
    return const(_joined(node.dtype, low.value, high.value), node.dtype)


@intrinsic(
    arity=2,
    result=None,
    meaning=_joined,
    lowering={"default": _one_constant},
)
def large_uint_imm(dtype: str, low: int, high: int) -> Call:
    """The constant ``high * 2**32 + low`` of an unsigned dtype, for texts that know int64 at most."""
    return call("large_uint_imm", low, high, dtype=dtype)


# ---- fixed-point numbers -----------------------------------------------------------------------------------------


def _fixed_product(x: int, y: int, left: int, right: int) -> int:
    """``x * 2**left * y / 2**right``, rounded to the nearest, halves upwards; exact."""
    return ((x << left) * y + (1 << (right - 1))) >> right


def _exact(function: Callable[..., int]) -> Callable[..., Any]:
    """A function of Python's integers, which never overflow, on arrays of integers; the result wraps to int32."""

    def apply(*args: Any) -> Any:
        found = np.frompyfunc(lambda *values: function(*map(int, values)) & 0xFFFFFFFF, len(args), 1)(*args)
        return np.asarray(found).astype("uint32").astype("int32")

    return apply


def _shift_and_multiply(x: PrimExpr, y: PrimExpr, left: PrimExpr | None, right: PrimExpr) -> PrimExpr:
    """The fixed product in 64 bits, of which the low 32 count."""
    dtype = x.dtype
    half = const(1, dtype) << (right - const(1, dtype))
    product = (x if left is None else x << left) * y
    return cast(dt.with_lanes("int32", dt.lanes(dtype)), (product + half) >> right)


def _wide(args: Sequence[PrimExpr], lanes: int) -> list[PrimExpr]:
    return [cast(dt.with_lanes("int64", lanes), arg) for arg in args]


def _lower_q(node: Call) -> PrimExpr:
    def formula(x: PrimExpr, y: PrimExpr, q: PrimExpr, s: PrimExpr) -> PrimExpr:
        zero = const(0, s.dtype)
        return _shift_and_multiply(x, y, larger(s, zero), q + larger(zero - s, zero))

    return shared(_wide(node.args, dt.lanes(node.dtype)), formula)


@intrinsic(
    arity=4,
    result="int32",
    meaning=_exact(lambda x, y, q, s: _fixed_product(x, y, max(s, 0), q + max(-s, 0))),
    elementwise=True,
    lowering={"default": _lower_q},
)
def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> PrimExpr:
    """Fixed-point multiplication: ``round(x * y * 2**(s - q))`` of int32."""
    return call("q_multiply_shift", x, y, q, s)


def _lower_q_per_axis(node: Call) -> PrimExpr:
    x, y, left, right, q = _wide(node.args[:5], dt.lanes(node.dtype))
    shifts_left = node.args[5]
    return shared(
        [x, y, left * cast(left.dtype, shifts_left), q + right],
        lambda a, b, before, behind: _shift_and_multiply(a, b, before, behind),
    )


@intrinsic(
    arity=7,
    result="int32",
    meaning=_exact(lambda x, y, ls, rs, q, lshift, rshift: _fixed_product(x, y, ls if lshift else 0, q + rs)),
    elementwise=True,
    lowering={"default": _lower_q_per_axis},
)
def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> Call:
    """Multiplication of fixed-point numbers with ``q`` fractional bits, shifted left before and right after."""
    return call("q_multiply_shift_per_axis", x, y, ls, rs, q, is_lshift_required, is_rshift_required)
