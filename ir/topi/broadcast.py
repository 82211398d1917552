"""Operators on two tensors that broadcast their shapes as numpy does; scalars stand for tensors of any shape.

With two scalar expressions the functions give an expression, so that they serve formulas too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import dtype as dt
from ..arith.analyzer import Analyzer
from ..error import IRValueError
from ..te.tensor import Tensor, TensorSlice
from ..tir import op as T
from ..tir.expr import IntImm, PrimExpr, Select
from ..tir.operators import bitwise, const, convert, div, floordiv, floormod, operands, truncmod
from ..tir.operators import logical_and as _and
from ..tir.operators import logical_or as _or
from ..tir.operators import max as _max
from ..tir.operators import min as _min
from ..tir.operators import power as raise_to
from . import tag
from .math import bitwise_not, logical_not
from .shape import ax_compute, same_extent, shape_of


def _is_one(extent: PrimExpr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def broadcast_shape(*shapes: Sequence[Any]) -> tuple[PrimExpr, ...]:
    """The shape that ``shapes`` broadcast to; raises IRValueError when two extents cannot meet."""
    result: list[Any] = []
    for shape in shapes:
        extents = [convert(item) for item in shape]
        for axis in range(1, len(extents) + 1):
            extent = extents[-axis]
            if axis > len(result):
                result.insert(0, extent)
            elif _is_one(result[-axis]):
                result[-axis] = extent
            elif not _is_one(extent) and not same_extent(result[-axis], extent):
                known = isinstance(extent, IntImm) and isinstance(result[-axis], IntImm)
                if known:
                    raise IRValueError(
                        f"shapes {[_show(item) for item in shapes]} do not broadcast:"
                        f" {_text(result[-axis])} and {_text(extent)} differ"
                    )
                if isinstance(extent, IntImm):
                    result[-axis] = extent
    return tuple(result)


def _text(extent: Any) -> str:
    return str(getattr(extent, "value", getattr(extent, "name", extent)))


def _show(shape: Sequence[Any]) -> str:
    return f"({', '.join(_text(item) for item in shape)})"


def broadcast_indices(
    indices: Sequence[Any], shape: Sequence[PrimExpr], out_shape: Sequence[PrimExpr]
) -> list[Any]:
    """The indices into a tensor of ``shape`` for ``indices`` into the shape that it broadcasts to.

    A symbolic extent that is not known to be the wanted one may turn out to be 1: all indices then mean its one element.
    """
    skipped = len(out_shape) - len(shape)
    found: list[Any] = []
    for index, extent, wanted in zip(indices[skipped:], shape, out_shape[skipped:], strict=True):
        if _is_one(wanted) or same_extent(extent, wanted):
            found.append(index)
        else:
            single = _is_at_most_one(extent)
            found.append(const(0, extent.dtype) if single else _min(index, extent - 1))
    return found


def _is_at_most_one(extent: PrimExpr) -> bool:
    """Whether an extent is 1 where there is anything, as that of ``x[:1]``; 0 as an index can be fused."""
    return _is_one(extent) or bool(Analyzer().const_int_bound(extent).max_value <= 1)


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """``data`` repeated to fill ``shape``."""
    wanted = shape_of(shape)
    out_shape = broadcast_shape(data.shape, wanted)
    if len(out_shape) != len(wanted) or any(
        isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value
        for a, b in zip(out_shape, wanted, strict=True)
    ):
        raise IRValueError(f"broadcast_to: shape {_show(data.shape)} does not broadcast to {_show(wanted)}")
    return ax_compute(
        wanted, lambda i: data(*broadcast_indices(i, data.shape, wanted)), "T_broadcast_to", tag.BROADCAST
    )


def _binary(name: str, combine: Callable[[Any, Any], Any], block: str | None = None) -> Callable[..., Any]:
    def build(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, TensorSlice):
            lhs = lhs.asobject()
        if isinstance(rhs, TensorSlice):
            rhs = rhs.asobject()
        if isinstance(lhs, Tensor) and isinstance(rhs, Tensor):
            shape = broadcast_shape(lhs.shape, rhs.shape)
            return ax_compute(
                shape,
                lambda i: combine(
                    lhs(*broadcast_indices(i, lhs.shape, shape)), rhs(*broadcast_indices(i, rhs.shape, shape))
                ),
                block or f"T_{name}",
                tag.BROADCAST,
            )
        if isinstance(lhs, Tensor):
            return ax_compute(lhs.shape, lambda i: combine(lhs(*i), rhs), block or f"T_{name}", tag.ELEMWISE)
        if isinstance(rhs, Tensor):
            return ax_compute(rhs.shape, lambda i: combine(lhs, rhs(*i)), block or f"T_{name}", tag.ELEMWISE)
        return combine(*operands(lhs, rhs))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}`` of two tensors (or scalars) with broadcasting."
    return build


def _divide(a: Any, b: Any) -> PrimExpr:
    return div(a, b)


def _trunc_divide(a: Any, b: Any) -> PrimExpr:
    a, b = operands(a, b)
    return T.trunc(div(a, b)) if dt.is_float(a.dtype) else div(a, b)


def _floor_divide(a: Any, b: Any) -> PrimExpr:
    """The floor of the exact quotient; a quotient that is rounded first may be one too large (1 // 0.1 is 9)."""
    return floordiv(*operands(a, b))


def _mod(a: Any, b: Any) -> PrimExpr:
    a, b = operands(a, b)
    return T.fmod(a, b) if dt.is_float(a.dtype) else truncmod(a, b)


def _floor_mod(a: Any, b: Any) -> PrimExpr:
    a, b = operands(a, b)
    return _float_floor_mod(a, b) if dt.is_float(a.dtype) else floormod(a, b)


def _float_floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The exact remainder with the sign of ``b``, as Python's and numpy's: of -1 by infinity it is infinity."""
    rest = T.fmod(a, b)
    return Select(_rounds_up(rest, b), rest + b, Select(rest.equal(0), T.copysign(rest, b), rest))


def _rounds_up(rest: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """Whether truncating a quotient with this remainder made it larger: they have different signs."""
    return _and(rest != 0, (rest < 0) != (divisor < 0))


def _as_bool(value: Any) -> PrimExpr:
    expr = convert(value)
    return expr if dt.is_bool(expr.dtype) else expr != 0


def _xor(a: Any, b: Any) -> PrimExpr:
    a, b = _as_bool(a), _as_bool(b)
    return _or(_and(a, ~b), _and(~a, b))


def _log_add_exp(a: Any, b: Any) -> PrimExpr:
    a, b = operands(a, b)
    # Equal operands apart: the difference of two infinities is no number.
    unequal = _max(a, b) + T.log1p(T.exp(_min(a, b) - _max(a, b)))
    return Select(a.equal(b), a + const(math.log(2), a.dtype), unequal)


def _power(a: Any, b: Any) -> PrimExpr:
    a, b = operands(a, b)
    return raise_to(a, b)


def _shift(name: str, a: Any, b: Any) -> PrimExpr:
    """A shift by any amount: below 0 or from the width on, all bits are shifted out; to the right the sign stays."""
    a, b = operands(a, b)
    width = const(dt.bits(a.dtype), b.dtype)
    inside = b < width if dt.is_uint(b.dtype) else _and(b >= 0, b < width)
    shifted = bitwise(name, a, Select(inside, b, const(0, b.dtype)))
    gone = const(0, a.dtype)
    if name == "tir.shift_right" and dt.is_int(a.dtype):
        gone = Select(a < 0, const(-1, a.dtype), gone)
    return Select(inside, shifted, gone)


add = _binary("add", lambda a, b: a + b)
subtract = _binary("subtract", lambda a, b: a - b)
multiply = _binary("multiply", lambda a, b: a * b)
divide = _binary("divide", _divide)
floor_divide = _binary("floor_divide", _floor_divide)
mod = _binary("mod", _mod)
floor_mod = _binary("floor_mod", _floor_mod)
trunc_divide = _binary("trunc_divide", _trunc_divide)
maximum = _binary("maximum", lambda a, b: _max(a, b))
minimum = _binary("minimum", lambda a, b: _min(a, b))
power = _binary("power", _power)
log_add_exp = _binary("log_add_exp", _log_add_exp)
atan2 = _binary("atan2", lambda a, b: T.atan2(*operands(a, b)))
left_shift = _binary("left_shift", lambda a, b: _shift("tir.shift_left", a, b))
right_shift = _binary("right_shift", lambda a, b: _shift("tir.shift_right", a, b))
greater = _binary("greater", lambda a, b: convert(a) > b)
less = _binary("less", lambda a, b: convert(a) < b)
equal = _binary("equal", lambda a, b: _compare("equal", a, b))
not_equal = _binary("not_equal", lambda a, b: _compare("not_equal", a, b))
greater_equal = _binary("greater_equal", lambda a, b: convert(a) >= b)
less_equal = _binary("less_equal", lambda a, b: convert(a) <= b)
logical_and = _binary("logical_and", lambda a, b: _and(_as_bool(a), _as_bool(b)))
logical_or = _binary("logical_or", lambda a, b: _or(_as_bool(a), _as_bool(b)))
logical_xor = _binary("logical_xor", _xor)
bitwise_and = _binary("bitwise_and", lambda a, b: convert(a) & b)
bitwise_or = _binary("bitwise_or", lambda a, b: convert(a) | b)
bitwise_xor = _binary("bitwise_xor", lambda a, b: convert(a) ^ b)


def _compare(kind: str, a: Any, b: Any) -> PrimExpr:
    left, right = operands(a, b)
    return left == right if kind == "equal" else left != right


__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_shape",
    "broadcast_to",
    "divide",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "log_add_exp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
    "trunc_divide",
]


def broadcast_binary(name: str, lhs: Any, rhs: Any) -> Any:
    """The operation of this module called ``name``: what Python's operators on tensors stand for."""
    return globals()[name](lhs, rhs)
