"""Python numbers beside tensors: the one place where they become constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRValueError
from ..expr import Constant, RelaxExpr, const
from ..struct_info import TensorStructInfo

Number = int | float | np.generic | np.ndarray
"""What stands for a constant beside a tensor; an array is so many numbers."""


def number_beside(operator: str, number: Any, dtype: str) -> Constant:
    """The constant that a number (or an array of numbers) is beside a tensor of ``dtype``.

    An integer dtype holds whole numbers of its range; bool holds False and True; a float dtype rounds, but holds no finite number
    that would become infinite or NaN. Without a dtype (``""``: that of the tensor is unknown) the number decides.

    Raises:
        IRValueError: the dtype does not hold it.
    """
    if not dtype:
        return const(number)
    given = np.asarray(number)
    lost = _lost(given, dtype)
    if lost.any():
        raise IRValueError(_not_held(operator, given[lost][0].item(), dtype))
    return const(number, dtype)


def numbers_as_constants(operator: str, *operands: Any) -> tuple[Any, ...]:
    """The operands of an operator, with those that are Python numbers as constants of the dtype of the first tensor among them.

    Raises:
        IRValueError: that dtype does not hold a number.
    """
    infos = [item.struct_info_ for item in operands if isinstance(item, RelaxExpr)]
    dtypes = [info.dtype for info in infos if isinstance(info, TensorStructInfo)]
    if not dtypes:
        return operands
    return tuple(
        number_beside(operator, item, dtypes[0]) if isinstance(item, Number) else item for item in operands
    )


def _lost(given: np.ndarray, dtype: str) -> np.ndarray:
    """Which of the numbers a dtype does not hold."""
    if dt.is_bool(dtype):
        return np.full(given.shape, given.dtype != np.bool_)
    if dt.is_float(dtype):
        with np.errstate(over="ignore"):
            finite = np.isfinite(given.astype("float64"))
            return finite & ~np.isfinite(given.astype(dt.to_numpy(dtype)).astype("float64"))
    low, high = dt.integer_range(dtype)
    # Python compares an integer of any size with a float without rounding either; NaN and infinities are in no range.
    held = np.frompyfunc(lambda number: low <= number <= high and number == int(number), 1, 1)
    with np.errstate(invalid="ignore"):
        return ~np.asarray(held(given.astype(object)), dtype=bool)


def _not_held(operator: str, number: Any, dtype: str) -> str:
    wide = _dtype_for(number, dtype)
    return (
        f"{operator}: {number!r} stands beside a tensor of {dtype}, which does not hold it: a number has the dtype of the tensor"
        f' beside it; write R.const({number!r}, "{wide}") and convert the tensor with astype("{wide}")'
    )


def _dtype_for(number: Any, dtype: str) -> str:
    """A dtype that holds a number which ``dtype`` does not."""
    if isinstance(number, float):
        return "float64" if dtype == "float32" else "float32"
    return next(
        (name for name in ("int32", "int64", "uint64") if not _lost(np.asarray(number), name)), "float64"
    )


__all__ = ["Number", "number_beside", "numbers_as_constants"]
