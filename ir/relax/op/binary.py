"""Elementwise operators of two operands, with numpy-style broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtype as dt
from ...float_power import float_power
from ...integer import truncated_quotient
from ..expr import Call, Expr
from ..struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from .declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from .gradient import nothing_flows, of_two_operands, scalar
from .inference import broadcast_tensors, check_arity, common_dtype, require_number, wrong_kind
from .layout_rule import elementwise
from .legalization import topi_binary
from .memory_effect import reuses
from .number import numbers_as_constants

FOLLOW = MixedPrecisionPolicy.FOLLOW


def _operands(node: Call) -> list[TensorStructInfo | PrimStructInfo]:
    check_arity(node, 2)
    infos = [arg.struct_info for arg in node.args]
    for position, info in enumerate(infos):
        if not isinstance(info, TensorStructInfo | PrimStructInfo):
            raise wrong_kind(node, f"argument {position} must be a tensor or a scalar value, got {info}")
    return infos


def _broadcast(node: Call, out_dtype: Callable[[str], str]) -> StructInfo:
    infos = _operands(node)
    dtype = out_dtype(common_dtype(node, infos))
    tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
    if not tensors:
        return PrimStructInfo(dtype)
    return broadcast_tensors(node, tensors, dtype)


def infer_arith(node: Call, builder: Any) -> StructInfo:
    """The broadcast of both operands, in their common dtype."""
    return _broadcast(node, lambda dtype: dtype)


def infer_compare(node: Call, builder: Any) -> StructInfo:
    """The broadcast of both operands, as bools."""
    return _broadcast(node, lambda dtype: "bool")


def _infer_numbers(node: Call, builder: Any) -> StructInfo:
    """As :func:`infer_arith`, of numbers: bools have no differences, quotients and powers."""
    for position, info in enumerate(_operands(node)):
        require_number(node, info, f"argument {position}")
    return infer_arith(node, builder)


def _infer_floats(node: Call, builder: Any) -> StructInfo:
    for info in _operands(node):
        if info.dtype and not dt.is_float(info.dtype):
            raise wrong_kind(node, f"operands must be floats, got {info.dtype}; convert them with astype")
    return infer_arith(node, builder)


def _infer_shift(node: Call, builder: Any) -> StructInfo:
    for info in _operands(node):
        if info.dtype and (dt.is_bool(info.dtype) or not dt.is_integral(info.dtype)):
            raise wrong_kind(node, f"operands must be integers, got {info.dtype}")
    return infer_arith(node, builder)


def _infer_logical(node: Call, builder: Any) -> StructInfo:
    for info in _operands(node):
        if info.dtype and not dt.is_bool(info.dtype):
            raise wrong_kind(node, f"operands must be bools, got {info.dtype}")
    return _broadcast(node, lambda dtype: dtype)


def _infer_bitwise(node: Call, builder: Any) -> StructInfo:
    for info in _operands(node):
        if info.dtype and not dt.is_integral(info.dtype):
            raise wrong_kind(node, f"operands must be integers or bools, got {info.dtype}")
    return _broadcast(node, lambda dtype: dtype)


def _binary(name: str, topi: str, reference: Any, doc: str, infer: Any = infer_arith, **what: Any) -> Any:
    """Declare a broadcasting operator and return the function that builds its calls."""

    def build(x1: Expr, x2: Expr) -> Expr:
        return call(f"relax.{name}", *numbers_as_constants(f"relax.{name}", x1, x2))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{doc}

    Args:
        x1, x2: tensors of one dtype, whose shapes are broadcast as in numpy; a Python number has the dtype of the tensor beside it.

    Returns:
        The tensor of the broadcast shape.
    """
    return operator(
        f"relax.{name}",
        infer=infer,
        legalize=topi_binary(topi),
        reference=reference,
        mixed_precision=FOLLOW,
        pattern=OpPatternKind.kBroadcast,
        layout=elementwise,
        **what,
    )(build)


def _np_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    dtype = np.asarray(a).dtype
    if dt.is_integral(dt.from_numpy(dtype)):
        return np.asarray(truncated_quotient(a, b)).astype(dtype)
    return a / b


def _np_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.power(a, b) if dt.is_integral(dt.from_numpy(np.asarray(a).dtype)) else float_power(a, b)


def _power_gradient(x: Expr, y: Expr, z: Expr, g: Expr) -> tuple[Expr, Expr]:
    """As of torch: what is constant has no slope, neither a base to the power of 0, nor 0 to a power that is not negative."""
    zero = scalar(0.0, x)
    by_base = make.multiply(make.multiply(g, y), make.power(x, make.subtract(y, scalar(1.0, y))))
    by_exponent = make.multiply(make.multiply(g, z), make.log(x))
    is_constant = make.logical_and(make.equal(x, zero), make.greater_equal(y, zero))
    return make.where(make.equal(y, zero), zero, by_base), make.where(is_constant, zero, by_exponent)


add = _binary(
    "add",
    "add",
    np.add,
    "Addition; of bools, or.",
    memory=reuses(0, 1),
    commutative=True,
    gradient=of_two_operands(lambda x, y, z, g: (g, g)),
)
divide = _binary(
    "divide",
    "divide",
    _np_divide,
    "Division; of integers, towards zero.",
    _infer_numbers,
    memory=reuses(0, 1),
    gradient=of_two_operands(
        lambda x, y, z, g: (make.divide(g, y), make.negative(make.divide(make.multiply(g, z), y)))
    ),
)
floor_divide = _binary(
    "floor_divide",
    "floor_divide",
    np.floor_divide,
    "Division rounded towards minus infinity.",
    _infer_numbers,
)
floor_mod = _binary(
    "floor_mod", "floor_mod", np.mod, "Remainder of floor division, with the divisor's sign.", _infer_numbers
)
log_add_exp = _binary(
    "log_add_exp",
    "log_add_exp",
    np.logaddexp,
    "log(exp(x1) + exp(x2)).",
    _infer_floats,
    gradient=of_two_operands(
        lambda x, y, z, g: (
            make.multiply(g, make.exp(make.subtract(x, z))),
            make.multiply(g, make.exp(make.subtract(y, z))),
        )
    ),
)
mod = _binary(
    "mod", "mod", np.fmod, "Remainder of truncating division, with the dividend's sign.", _infer_numbers
)
multiply = _binary(
    "multiply",
    "multiply",
    np.multiply,
    "Multiplication; of bools, and.",
    memory=reuses(0, 1),
    commutative=True,
    gradient=of_two_operands(lambda x, y, z, g: (make.multiply(g, y), make.multiply(g, x))),
)
power = _binary(
    "power",
    "power",
    _np_power,
    "x1 to the power of x2.",
    _infer_numbers,
    gradient=of_two_operands(_power_gradient),
)
subtract = _binary(
    "subtract",
    "subtract",
    np.subtract,
    "Subtraction.",
    _infer_numbers,
    memory=reuses(0, 1),
    gradient=of_two_operands(lambda x, y, z, g: (g, make.negative(g))),
)
atan2 = _binary("atan2", "atan2", np.arctan2, "Angle of the point (x2, x1).", _infer_floats)
maximum = _binary(
    "maximum",
    "maximum",
    np.maximum,
    "The larger of both.",
    commutative=True,
    gradient=of_two_operands(
        lambda x, y, z, g: (
            make.where(make.less(x, y), make.zeros_like(g), g),
            make.where(make.less(x, y), g, make.zeros_like(g)),
        )
    ),
)
minimum = _binary(
    "minimum",
    "minimum",
    np.minimum,
    "The smaller of both.",
    commutative=True,
    gradient=of_two_operands(
        lambda x, y, z, g: (
            make.where(make.less_equal(x, y), g, make.zeros_like(g)),
            make.where(make.less_equal(x, y), make.zeros_like(g), g),
        )
    ),
)

equal = _binary("equal", "equal", np.equal, "x1 == x2.", infer_compare, gradient=nothing_flows)
greater = _binary("greater", "greater", np.greater, "x1 > x2.", infer_compare, gradient=nothing_flows)
greater_equal = _binary(
    "greater_equal", "greater_equal", np.greater_equal, "x1 >= x2.", infer_compare, gradient=nothing_flows
)
less = _binary("less", "less", np.less, "x1 < x2.", infer_compare, gradient=nothing_flows)
less_equal = _binary(
    "less_equal", "less_equal", np.less_equal, "x1 <= x2.", infer_compare, gradient=nothing_flows
)
not_equal = _binary(
    "not_equal", "not_equal", np.not_equal, "x1 != x2.", infer_compare, gradient=nothing_flows
)

logical_and = _binary(
    "logical_and",
    "logical_and",
    np.logical_and,
    "Logical and of bools.",
    _infer_logical,
    gradient=nothing_flows,
)
logical_or = _binary(
    "logical_or", "logical_or", np.logical_or, "Logical or of bools.", _infer_logical, gradient=nothing_flows
)
logical_xor = _binary(
    "logical_xor",
    "logical_xor",
    np.logical_xor,
    "Logical exclusive or of bools.",
    _infer_logical,
    gradient=nothing_flows,
)

bitwise_and = _binary("bitwise_and", "bitwise_and", np.bitwise_and, "Bitwise and.", _infer_bitwise)
bitwise_or = _binary("bitwise_or", "bitwise_or", np.bitwise_or, "Bitwise or.", _infer_bitwise)
bitwise_xor = _binary("bitwise_xor", "bitwise_xor", np.bitwise_xor, "Bitwise exclusive or.", _infer_bitwise)
left_shift = _binary("left_shift", "left_shift", np.left_shift, "Shift bits left.", _infer_shift)
right_shift = _binary("right_shift", "right_shift", np.right_shift, "Shift bits right.", _infer_shift)


__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
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
]
