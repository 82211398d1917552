"""Integer expressions for many values of their variables at once, as numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.tir.intrinsic.declaration import is_transparent

_NUMBERS = ("int32", "int64", "bool")


class Unknown(Exception):
    """The expression depends on something that is not followed."""


def _divided(a: Any, b: Any) -> Any:
    quotient = np.true_divide(a, b)
    whole = np.asarray(a).dtype.kind == "i" and np.asarray(b).dtype.kind == "i"
    return np.trunc(quotient).astype(np.int64) if whole else quotient


def _wrapped(values: Any, dtype: str) -> Any:
    """Numbers as an integer type has them: those of 32 and 64 bits do not overflow in index arithmetic, others are data, and wrap.

    Raises:
        Unknown: the type has numbers beyond int64.
    """
    if dtype in _NUMBERS or not dt.is_integral(dt.element_of(dtype)) or np.asarray(values).dtype.kind != "i":
        return values
    if dt.bits(dtype) == 64:
        raise Unknown
    low, high = dt.integer_range(dt.element_of(dtype))
    return (values - low) % (high - low + 1) + low


def _as_data(values: Any, dtype: str) -> Any:
    """Numbers as data of an integer type has them, which wrap at every width.

    Raises:
        Unknown: the type has numbers beyond int64.
    """
    if dtype != "int32":
        return _wrapped(values, dtype)
    return (np.asarray(values, np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)


def converted(values: Any, dtype: str) -> Any:
    """Integers, or truths, as another type of integers or truths has them.

    Raises:
        Unknown: the type has numbers beyond int64.
    """
    return np.not_equal(values, 0) if dt.is_bool(dtype) else _as_data(values, dtype)


class ArrayEvaluator:
    """Evaluates index arithmetic and conditions; ``variables`` are numbers or arrays that broadcast.

    Raises:
        Unknown: the expression has something else in it.
    """

    _BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "FloorDiv": np.floor_divide,
        "FloorMod": np.mod,
        "Div": _divided,
        "Mod": np.fmod,
        "Min": np.minimum,
        "Max": np.maximum,
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
        "And": np.logical_and,
        "Or": np.logical_or,
    }

    _CALLS: Mapping[str, Callable[..., Any]] = {
        "tir.shift_left": lambda a, b: np.left_shift(a, np.clip(b, 0, 63)),
        "tir.shift_right": lambda a, b: np.right_shift(a, np.clip(b, 0, 63)),
        "tir.bitwise_and": np.bitwise_and,
        "tir.bitwise_or": np.bitwise_or,
        "tir.bitwise_xor": np.bitwise_xor,
        "tir.bitwise_not": np.bitwise_not,
    }

    def __init__(self, variables: Mapping[Any, Any]) -> None:
        self.variables = variables

    def __call__(self, node: Any) -> Any:
        kind = type(node).__name__
        if kind in self._BINARY:
            return _wrapped(self._BINARY[kind](self(node.a), self(node.b)), node.dtype)
        method = getattr(self, f"_{kind.lower()}", None)
        if method is None:
            raise Unknown
        return method(node)

    def load(self, node: Any) -> Any:
        """The values of an element of a buffer."""
        raise Unknown

    def _bufferload(self, node: Any) -> Any:
        return self.load(node)

    def _intimm(self, node: Any) -> Any:
        return np.int64(node.value)

    def _var(self, node: Any) -> Any:
        if node not in self.variables:
            raise Unknown
        return np.asarray(self.variables[node], np.int64)

    def _not(self, node: Any) -> Any:
        return np.logical_not(self(node.a))

    def _cast(self, node: Any) -> Any:
        if not dt.is_integral(node.dtype):
            raise Unknown
        return converted(self(node.value), node.dtype)

    def _select(self, node: Any) -> Any:
        return np.where(self(node.condition), self(node.true_value), self(node.false_value))

    def _call(self, node: Any) -> Any:
        name = getattr(node.op, "name", "")
        if name == "tir.if_then_else":
            return np.where(*[self(arg) for arg in node.args])
        if is_transparent(node):
            return self(node.args[0])
        operation = self._CALLS.get(name)
        if operation is not None:
            return _as_data(operation(*[self(arg) for arg in node.args]), node.dtype)
        raise Unknown
