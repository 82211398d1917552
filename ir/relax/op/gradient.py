"""What gradients share: shapes and scalars of operands, and the forms of elementwise gradients.

A gradient is ``(orig_var, orig_call, output_grad, builder) -> one gradient per argument``: ``orig_var`` is the variable that
the call is bound to (so its value needs no second computation), ``output_grad`` the gradient of the target by it. A None
says that nothing flows to that argument (shapes, indices, conditions).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from ...error import IRValueError
from ..expr import Call, Expr, Var, const
from ..struct_info import TensorStructInfo
from ..struct_info_lattice import can_prove_shape_equal
from .declaration import Gradient, make
from .inference import as_int


def tensor_info(expr: Expr) -> TensorStructInfo:
    """The struct info of a tensor; raises for anything else."""
    info = expr.struct_info
    if not isinstance(info, TensorStructInfo):
        raise IRValueError(f"the gradient of {expr} needs a tensor, got {info}")
    return info


def shape_argument(expr: Expr) -> Any:
    """The shape of a tensor for a shape argument; it must be known."""
    info = tensor_info(expr)
    if info.shape is None:
        raise IRValueError(f"the gradient needs the shape of {expr}, which is not known; use match_cast")
    return info.shape


def static_shape(x: Expr) -> list[int]:
    """The extents of a tensor as integers; raises where one is not known."""
    dims = [as_int(dim) for dim in tensor_info(x).shape_values or ()]
    if not dims or any(dim is None for dim in dims):
        raise IRValueError(f"the gradient needs a static shape of {x}, got {tensor_info(x)}")
    return dims  # type: ignore[return-value]


def scalar(value: float, like: Expr) -> Expr:
    """A number in the dtype of a tensor."""
    return const(value, tensor_info(like).dtype)


def fitted(builder: Any, grad: Expr, target: Expr) -> Expr:
    """A gradient summed over what broadcasting repeated of ``target``."""
    grad = builder.normalize(grad)
    shape = tensor_info(grad).shape
    if shape is not None and can_prove_shape_equal(shape, shape_argument(target)):
        return grad
    return make.collapse_sum_to(grad, shape_argument(target))  # type: ignore[no-any-return]


def in_wider_dtype(gradient: Gradient) -> Gradient:
    """The gradient of an operator with an ``out_dtype``: computed in the wider of the operands' dtype and the result's.

    Nothing flows to operands that are no floats.
    """

    def computed(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
        dtypes = [tensor_info(item).dtype for item in (*node.args, grad)]
        wide = max(dtypes, key=lambda dtype: (dt.is_float(dtype), dt.bits(dtype)))
        *args, result = [
            item if dtype == wide else builder.emit(make.astype(item, wide))
            for item, dtype in zip((*node.args, grad), dtypes, strict=True)
        ]
        found = gradient(var, node.with_args(args), result, builder)
        return [_back(builder, value, dtype, wide) for value, dtype in zip(found, dtypes[:-1], strict=True)]

    return computed


def _back(builder: Any, value: Expr | None, dtype: str, wide: str) -> Expr | None:
    if value is None or not dt.is_float(dtype):
        return None
    return value if dtype == wide else make.astype(builder.normalize(value), dtype)  # type: ignore[no-any-return]


def of_one_operand(function: Callable[[Expr, Expr, Expr], Expr]) -> Gradient:
    """The gradient of an elementwise operator, from ``(x, result, grad)``."""

    def gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
        return [function(node.args[0], var, grad)]

    return gradient


def of_two_operands(function: Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]]) -> Gradient:
    """The gradients of a broadcasting operator, from ``(x, y, result, grad)``; they are fitted to the operands' shapes."""

    def gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
        x, y = node.args
        left, right = function(x, y, var, grad)
        return [fitted(builder, left, x), fitted(builder, right, y)]

    return gradient


def nothing_flows(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The gradient of what is constant almost everywhere, or does not depend on the values of its arguments."""
    return [None] * len(node.args)


def back_to_shape(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """The gradient of an operator that keeps the order of the elements."""
    return [make.reshape(grad, shape_argument(node.args[0])), *[None] * (len(node.args) - 1)]
