"""Evaluate expressions over numpy arrays: one pass over the expression computes it for a whole population of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import dtype as dt
from ..error import IRValueError
from ..integer import truncated_quotient, truncated_remainder
from ..node import Visitor
from . import expr as E
from .intrinsic.declaration import find

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
    E.Div: truncated_quotient,
    E.Mod: truncated_remainder,
    E.Min: np.minimum,
    E.Max: np.maximum,
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.And: np.logical_and,
    E.Or: np.logical_or,
}


class Evaluator(Visitor):
    """Values of index expressions that share terms: every node is computed once.

    Index arithmetic only: integers, comparisons, selections. ``values`` are those of :func:`evaluate`; expressions must outlive it.
    """

    def __init__(self, values: Mapping[Any, Any]) -> None:
        super().__init__()
        self._values = dict(values)
        self._memo: dict[int, Any] = {}

    def visit(self, node: Any) -> Any:
        key = id(node)
        if key not in self._memo:
            self._memo[key] = super().visit(node)
        return self._memo[key]

    def visit_Var(self, node: E.Var) -> Any:
        try:
            return self._values[node]
        except KeyError:
            raise IRValueError(f"no value is given for variable {node.name}") from None

    def visit_IntImm(self, node: E.IntImm) -> Any:
        return node.value

    def visit_FloatImm(self, node: E.FloatImm) -> Any:
        return node.value

    def _binary(self, node: Any) -> Any:
        if isinstance(node, E.Div) and dt.is_float(node.dtype):
            return self.visit(node.a) / self.visit(node.b)
        return _BINARY[type(node)](self.visit(node.a), self.visit(node.b))

    visit_BinaryOpExpr = visit_CmpExpr = visit_LogicalExpr = _binary

    def visit_Not(self, node: E.Not) -> Any:
        return np.logical_not(self.visit(node.a))

    def visit_Select(self, node: E.Select) -> Any:
        return np.where(self.visit(node.condition), self.visit(node.true_value), self.visit(node.false_value))

    def visit_Cast(self, node: E.Cast) -> Any:
        value = self.visit(node.value)
        if dt.is_integral(node.dtype) and not dt.is_float(node.value.dtype):
            return value
        return np.asarray(value).astype(dt.to_numpy(node.dtype))

    def visit_Call(self, node: E.Call) -> Any:
        record = find(node)
        if record is None or record.meaning is None:
            name = getattr(node.op, "name", node.op)
            raise IRValueError(f"cannot evaluate a call of {name} as index arithmetic")
        args = [_as_dtype(self.visit(arg), arg.dtype) for arg in node.args]
        found = record.meaning(node.dtype, *args) if record.dtype_first else record.meaning(*args)
        return _as_dtype(found, node.dtype)

    def generic_visit(self, node: Any) -> Any:
        raise IRValueError(f"cannot evaluate a {type(node).__name__} as index arithmetic")


def _as_dtype(value: Any, dtype: str) -> Any:
    return np.asarray(value).astype(dt.to_numpy(dtype), copy=False)[()]


def evaluate(expr: Any, values: Mapping[Any, Any]) -> Any:
    """The value of an index expression; ``values`` maps variables to ints or integer arrays that broadcast together."""
    return Evaluator(values).visit(expr)
