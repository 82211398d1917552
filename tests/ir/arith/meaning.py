"""The meaning of integer and float32 expressions and of simple statements, in Python's integers: no code is shared with :mod:`ir`.

``docs/semantics.md`` in short: index arithmetic must not overflow, data wraps; ``in_data`` says where an expression stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ir.tir import expr as E
from ir.tir import stmt as S

INDEX = ("int32", "int64")
Values = Mapping[Any, Any]
"""Variables to numbers, buffers to lists of numbers."""


class Undefined(Exception):
    """The program must not do this."""


def integer_range(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    bits = int(dtype.lstrip("uint"))
    return (0, (1 << bits) - 1) if dtype[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def wrapped(value: int, dtype: str) -> int:
    low, high = integer_range(dtype)
    return (value - low) % (high - low + 1) + low


def is_index(e: Any, data: frozenset[Any]) -> bool:
    """Whether an expression is made of index variables and constants alone; ``data`` are variables of lets that are not."""
    if isinstance(e, E.IntImm):
        return e.dtype in (*INDEX, "bool")
    if isinstance(e, E.Var):
        return e.dtype in INDEX and e not in data
    if isinstance(e, E.BinaryOpExpr):
        return e.dtype in INDEX and is_index(e.a, data) and is_index(e.b, data)
    if isinstance(e, E.CmpExpr | E.LogicalExpr):
        return is_index(e.a, data) and is_index(e.b, data)
    if isinstance(e, E.Not):
        return is_index(e.a, data)
    if isinstance(e, E.Cast):
        return e.dtype in INDEX and e.value.dtype in INDEX and is_index(e.value, data)
    if isinstance(e, E.Select):
        return e.dtype in INDEX and all(
            is_index(part, data) for part in (e.condition, e.true_value, e.false_value)
        )
    if isinstance(e, E.Let):
        return all(part.dtype in INDEX and is_index(part, data) for part in (e.value, e.body))
    if isinstance(e, E.Call):
        return e.op.name in ("tir.if_then_else", "tir.likely") and all(is_index(a, data) for a in e.args)
    return False


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_WHOLE: dict[type, Callable[[int, int], int]] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: lambda a, b: a // b,
    E.FloorMod: lambda a, b: a % b,
    E.Div: _truncated,
    E.Mod: lambda a, b: a - _truncated(a, b) * b,
    E.Min: min,
    E.Max: max,
}
_DIVISIONS = (E.FloorDiv, E.FloorMod, E.Div, E.Mod)
_FLOAT: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: np.add, E.Sub: np.subtract, E.Mul: np.multiply, E.Div: np.divide, E.Min: np.minimum, E.Max: np.maximum,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
}


def value_of(e: Any, values: Values, in_data: bool, data: frozenset[Any] = frozenset()) -> Any:
    """The value of an expression.

    Raises:
        Undefined: a division by zero, an index out of bounds, or index arithmetic that overflows.
    """
    if isinstance(e, E.IntImm):
        return bool(e.value) if e.dtype == "bool" else e.value
    if isinstance(e, E.FloatImm):
        return np.float32(e.value)
    if isinstance(e, E.Var):
        return values[e]
    kind = next(base for base in type(e).__mro__ if base in _METHODS)
    return _METHODS[kind](e, values, in_data, data)


def _load(e: Any, values: Values, in_data: bool, data: frozenset[Any]) -> Any:
    array = values[e.buffer]
    index = value_of(e.indices[0], values, False, data)
    if not 0 <= index < len(array):
        raise Undefined("index")
    return array[index]


def _binary(e: Any, values: Values, in_data: bool, data: frozenset[Any]) -> Any:
    if e.dtype == "float32":
        a, b = (value_of(part, values, True, data) for part in (e.a, e.b))
        with np.errstate(all="ignore"):
            return np.float32(_FLOAT[type(e)](a, b))
    wraps = in_data or e.dtype not in INDEX
    a, b = (value_of(part, values, wraps, data) for part in (e.a, e.b))
    if isinstance(e, _DIVISIONS) and b == 0:
        raise Undefined("division")
    return _fitting(_WHOLE[type(e)](a, b), e.dtype, wraps)


def _fitting(value: int, dtype: str, wraps: bool) -> int:
    result = wrapped(value, dtype)
    if result != value and not wraps:
        raise Undefined("overflow")
    return result


def _compare(e: Any, values: Values, in_data: bool, data: frozenset[Any]) -> bool:
    wraps = in_data or not is_index(e, data)
    a, b = (value_of(part, values, wraps, data) for part in (e.a, e.b))
    return bool(_COMPARE[type(e)](a, b))


def _cast(e: Any, values: Values, in_data: bool, data: frozenset[Any]) -> Any:
    wraps = in_data or not (e.dtype in INDEX and is_index(e.value, data))
    value = value_of(e.value, values, wraps, data)
    if e.dtype == "float32":
        return np.float32(np.longdouble(value))  # 64 bits fit into its mantissa: one rounding
    if e.value.dtype != "float32":
        return _fitting(int(value), e.dtype, wraps)
    low, high = integer_range(e.dtype)
    return 0 if value != value else high if value >= high else low if value <= low else int(value)


def _select(e: Any, values: Values, in_data: bool, data: frozenset[Any]) -> Any:
    chosen = value_of(e.condition, values, False, data)
    both = [value_of(part, values, in_data, data) for part in (e.true_value, e.false_value)]
    return both[0] if chosen else both[1]


def _call(e: Any, values: Values, in_data: bool, data: frozenset[Any]) -> Any:
    if e.op.name == "tir.likely":
        return value_of(e.args[0], values, in_data, data)
    assert e.op.name == "tir.if_then_else", e.op.name
    return value_of(e.args[1 if value_of(e.args[0], values, False, data) else 2], values, in_data, data)


def _let(e: Any, values: Values, in_data: bool, data: frozenset[Any]) -> Any:
    known, data = _bound(e, values, data)
    return value_of(e.body, known, in_data, data)


def _bound(e: Any, values: Values, data: frozenset[Any]) -> tuple[Values, frozenset[Any]]:
    is_number = e.value.dtype in INDEX and is_index(e.value, data)
    known = {**values, e.var: value_of(e.value, values, not is_number, data)}
    return known, data if is_number else data | {e.var}


_METHODS: dict[type, Callable[[Any, Values, bool, frozenset[Any]], Any]] = {
    E.BufferLoad: _load,
    E.BinaryOpExpr: _binary,
    E.CmpExpr: _compare,
    E.And: lambda e, v, d, s: value_of(e.a, v, d, s) and value_of(e.b, v, d, s),
    E.Or: lambda e, v, d, s: value_of(e.a, v, d, s) or value_of(e.b, v, d, s),
    E.Not: lambda e, v, d, s: not value_of(e.a, v, d, s),
    E.Cast: _cast,
    E.Select: _select,
    E.Call: _call,
    E.Let: _let,
}


def run(stmt: Any, values: dict[Any, Any], data: frozenset[Any] = frozenset()) -> None:
    """Run a statement; its stores go into the lists of ``values``."""
    if isinstance(stmt, S.SeqStmt):
        for item in stmt.seq:
            run(item, values, data)
    elif isinstance(stmt, S.BufferStore):
        if stmt.predicate is not None and not value_of(stmt.predicate, values, False, data):
            return
        value = value_of(stmt.value, values, True, data)
        index = value_of(stmt.indices[0], values, False, data)
        if not 0 <= index < len(values[stmt.buffer]):
            raise Undefined("index")
        values[stmt.buffer][index] = value
    elif isinstance(stmt, S.For):
        start, extent = (value_of(part, values, False, data) for part in (stmt.min, stmt.extent))
        for count in range(extent):
            run(stmt.body, {**values, stmt.loop_var: start + count}, data)
    elif isinstance(stmt, S.IfThenElse):
        taken = stmt.then_case if value_of(stmt.condition, values, False, data) else stmt.else_case
        if taken is not None:
            run(taken, values, data)
    elif isinstance(stmt, S.LetStmt):
        known, data = _bound(stmt, values, data)
        run(stmt.body, dict(known), data)
    else:
        assert isinstance(stmt, S.Evaluate), type(stmt)
        value_of(stmt.value, values, True, data)
