"""Element-wise arithmetic, comparisons, reductions and matrix multiplication.

Of two operands one may be a Python number: it has the dtype of the tensor beside it, which must hold it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ir.relax import op as _op

from ..tensor import Tensor, operand, wrap_nested

Operand = Tensor | int | float


def add(a: Operand, b: Operand, name: str = "add") -> Tensor:
    """Addition with numpy-style broadcasting.

    Examples:
        >>> c = add(a, b)  # doctest: +SKIP
    """
    return wrap_nested(_op.add(operand(a), operand(b)), name)


def subtract(a: Operand, b: Operand, name: str = "subtract") -> Tensor:
    """Subtraction with numpy-style broadcasting."""
    return wrap_nested(_op.subtract(operand(a), operand(b)), name)


def multiply(a: Operand, b: Operand, name: str = "mul") -> Tensor:
    """Multiplication with numpy-style broadcasting."""
    return wrap_nested(_op.multiply(operand(a), operand(b)), name)


def divide(a: Operand, b: Operand, name: str = "divide") -> Tensor:
    """Division with numpy-style broadcasting."""
    return wrap_nested(_op.divide(operand(a), operand(b)), name)


def maximum(x1: Operand, x2: Operand, name: str = "maximum") -> Tensor:
    """Element-wise maximum, with broadcasting."""
    return wrap_nested(_op.maximum(operand(x1), operand(x2)), name)


def minimum(x1: Operand, x2: Operand, name: str = "minimum") -> Tensor:
    """Element-wise minimum, with broadcasting."""
    return wrap_nested(_op.minimum(operand(x1), operand(x2)), name)


def negative(x: Tensor, name: str = "neg") -> Tensor:
    """``-x``."""
    return wrap_nested(_op.negative(x._expr), name)


def square(x: Tensor, name: str = "square") -> Tensor:
    """``x * x``."""
    return wrap_nested(_op.square(x._expr), name)


def sqrt(x: Tensor, name: str = "sqrt") -> Tensor:
    """Square root of a float tensor."""
    return wrap_nested(_op.sqrt(x._expr), name)


def exp(x: Tensor, name: str = "exp") -> Tensor:
    """Exponential of a float tensor."""
    return wrap_nested(_op.exp(x._expr), name)


def log(x: Tensor, name: str = "log") -> Tensor:
    """Natural logarithm of a float tensor."""
    return wrap_nested(_op.log(x._expr), name)


def floor(x: Tensor, name: str = "floor") -> Tensor:
    """The largest integer not above each element."""
    return wrap_nested(_op.floor(x._expr), name)


def tanh(x: Tensor, name: str = "tanh") -> Tensor:
    """Hyperbolic tangent of a float tensor."""
    return wrap_nested(_op.tanh(x._expr), name)


def less(a: Operand, b: Operand, name: str = "less") -> Tensor:
    """``a < b`` element-wise with broadcasting; a bool tensor."""
    return wrap_nested(_op.less(operand(a), operand(b)), name)


def less_equal(a: Operand, b: Operand, name: str = "less_equal") -> Tensor:
    """``a <= b`` element-wise with broadcasting; a bool tensor."""
    return wrap_nested(_op.less_equal(operand(a), operand(b)), name)


def greater(a: Operand, b: Operand, name: str = "greater") -> Tensor:
    """``a > b`` element-wise with broadcasting; a bool tensor."""
    return wrap_nested(_op.greater(operand(a), operand(b)), name)


def greater_equal(a: Operand, b: Operand, name: str = "greater_equal") -> Tensor:
    """``a >= b`` element-wise with broadcasting; a bool tensor."""
    return wrap_nested(_op.greater_equal(operand(a), operand(b)), name)


def equal(a: Operand, b: Operand, name: str = "equal") -> Tensor:
    """``a == b`` element-wise with broadcasting; a bool tensor."""
    return wrap_nested(_op.equal(operand(a), operand(b)), name)


def not_equal(a: Operand, b: Operand, name: str = "not_equal") -> Tensor:
    """``a != b`` element-wise with broadcasting; a bool tensor."""
    return wrap_nested(_op.not_equal(operand(a), operand(b)), name)


def where(condition: Tensor, x1: Operand, x2: Operand, name: str = "where") -> Tensor:
    """Elements of ``x1`` where ``condition`` is true and of ``x2`` elsewhere; the three broadcast together.

    A condition that is not bool is converted: everything but zero is true.
    """
    chosen = condition if condition.dtype == "bool" else _as_bool(condition)
    return wrap_nested(_op.where(chosen._expr, operand(x1), operand(x2)), name)


def _as_bool(x: Tensor) -> Tensor:
    return wrap_nested(_op.astype(x._expr, "bool"), "condition")


def sum(x: Tensor, axis: int | list[int] | None = None, keepdims: bool = False, name: str = "sum") -> Tensor:
    """Sum over axes (negative ones count from the end), or over all of them.

    Args:
        x: the input.
        axis: one axis, several, or None for all.
        keepdims: leave the reduced axes in the result with extent one.
    """
    return wrap_nested(_op.sum(x._expr, axis, keepdims), name)


def max(x: Tensor, axis: int | list[int] | None = None, keepdims: bool = False, name: str = "max") -> Tensor:
    """Maximum over axes; parameters as for :func:`sum`."""
    return wrap_nested(_op.max(x._expr, axis, keepdims), name)


def min(x: Tensor, axis: int | list[int] | None = None, keepdims: bool = False, name: str = "min") -> Tensor:
    """Minimum over axes; parameters as for :func:`sum`."""
    return wrap_nested(_op.min(x._expr, axis, keepdims), name)


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:
    """Cumulative sum along an axis, as numpy's.

    Args:
        data: the input.
        axis: the axis to sum along; None sums over the flattened input and gives a one-dimensional result.
        dtype: the dtype of the result; by default that of ``data``.
        exclusive: leave the element itself out of its sum; the first result is 0.

    Examples:
        ::

            a = [[1, 2, 3], [4, 5, 6]]
            cumsum(a)                    # [1, 3, 6, 10, 15, 21]
            cumsum(a, dtype="float32")   # [1., 3., 6., 10., 15., 21.]
            cumsum(a, axis=0)            # [[1, 2, 3], [5, 7, 9]]
            cumsum(a, axis=1)            # [[1, 3, 6], [4, 9, 15]]
            a = [1, 0, 1, 0, 1, 1, 0]    # a boolean array
            cumsum(a, dtype="int32")     # [1, 1, 2, 2, 3, 4, 4]
    """
    return wrap_nested(_op.cumsum(data._expr, axis, dtype, exclusive), name)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """Matrix multiplication with broadcasting over the leading dimensions.

    ``out_dtype`` is the dtype of accumulator and result; by default that of the inputs.
    """
    return wrap_nested(_op.matmul(a._expr, b._expr, out_dtype=out_dtype), name)


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Tensor | Sequence[Tensor]:
    """The ``k`` largest (or smallest) elements along an axis.

    Args:
        data: the input.
        k: how many; all of them when it is less than 1.
        axis: the axis to sort along.
        ret_type: ``"both"`` (values and indices), ``"values"`` or ``"indices"``.
        largest: the largest elements, else the smallest.
        dtype: the dtype of the indices.
    """
    return wrap_nested(_op.topk(data._expr, k, axis, ret_type, largest, dtype), name)


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """The elements in order along an axis."""
    return wrap_nested(_op.sort(x._expr, axis, descending), name)


def argsort(
    data: Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32", name: str = "argsort"
) -> Tensor:
    """The indices that put the elements in order along an axis."""
    return wrap_nested(_op.argsort(data._expr, axis, descending, dtype), name)
