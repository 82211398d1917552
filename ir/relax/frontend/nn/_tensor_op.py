"""Python's operators and the common methods of tensors, by way of the functions of :mod:`ir.relax.frontend.nn.op`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ir import tir

    from .core import Tensor


def _op() -> Any:
    from . import op

    return op


def _convert_scalar(scalar: Any, ref: Any) -> Any:
    """A number as a constant of the other operand's dtype; tensors as they are."""
    from .core import NNTypeError, Tensor

    if isinstance(scalar, Tensor):
        return scalar
    if isinstance(scalar, int | float) and not isinstance(scalar, bool):
        return Tensor.from_scalar(scalar, dtype=ref.dtype)
    raise NNTypeError(
        f"cannot combine a tensor with a {type(scalar).__name__}; expected a Tensor, an int or a float"
    )


class _TensorOp:
    """Operators of :class:`ir.relax.frontend.nn.Tensor`; numbers take the dtype of the tensor that they meet."""

    def _binary(self, name: str, other: Any, swapped: bool = False) -> Tensor:
        other = _convert_scalar(other, self)
        make = getattr(_op(), name)
        return cast("Tensor", make(other, self) if swapped else make(self, other))

    def __neg__(self) -> Tensor:
        return cast("Tensor", _op().negative(self))

    def __add__(self, other: Any) -> Tensor:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._binary("add", other)

    def __sub__(self, other: Any) -> Tensor:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Tensor:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._binary("multiply", other)

    def __truediv__(self, other: Any) -> Tensor:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._binary("divide", other, swapped=True)

    def __lt__(self, other: Any) -> Tensor:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Tensor:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Tensor:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Tensor:
        return self._binary("greater_equal", other)

    def astype(self, dtype: str) -> Tensor:
        """The tensor converted to a dtype."""
        return cast("Tensor", _op().astype(self, dtype))

    def maximum(self, other: Any) -> Tensor:
        """Element-wise maximum with a tensor or number."""
        return self._binary("maximum", other)

    def minimum(self, other: Any) -> Tensor:
        """Element-wise minimum with a tensor or number."""
        return self._binary("minimum", other)

    def reshape(self, *shape: int | str | tir.PrimExpr | Sequence[int | tir.PrimExpr]) -> Tensor:
        """The tensor in another shape, given as one sequence or as several arguments."""
        return cast("Tensor", _op().reshape(self, _sequence(shape)))

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Every element repeated along an axis."""
        return cast("Tensor", _op().repeat(self, repeats, axis))

    def permute_dims(self, *axes: int | Sequence[int]) -> Tensor:
        """The dimensions in another order; reversed without arguments."""
        return cast("Tensor", _op().permute_dims(self, _sequence(axes) or None))

    def permute(self, *axes: int | Sequence[int]) -> Tensor:
        """As :meth:`permute_dims`."""
        return cast("Tensor", _op().permute(self, _sequence(axes) or None))

    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle, the rest zero."""
        return cast("Tensor", _op().triu(self, diagonal))

    def broadcast_to(self, *shape: int | tir.PrimExpr | Sequence[int | tir.PrimExpr]) -> Tensor:
        """The tensor broadcast to a shape."""
        return cast("Tensor", _op().broadcast_to(self, _sequence(shape)))


def _sequence(values: Sequence[Any]) -> list[Any]:
    """The values given as ``f(1, 2)`` or as ``f([1, 2])``."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        return list(values[0])
    return list(values)
