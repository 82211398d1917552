"""Declared extents and strides without the program around them: what a signature keeps of them and compares with arrays.

A number, the name of a symbol, or an operation on such.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ...integer import truncated_quotient, truncated_remainder
from ...tir import expr as E
from ...tir.expr import PrimExpr, Var
from ..error import CodegenError

Extent: TypeAlias = "int | str | tuple[Any, ...]"
"""``("*", "n", 2)`` is twice the symbol n."""

_OPERATIONS: dict[str, Callable[..., int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "/": truncated_quotient, "rem": truncated_remainder, "min": min, "max": max,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": operator.not_, "select": lambda c, a, b: a if c else b,
}  # fmt: skip
_NAMES: dict[type, str] = {
    E.Add: "+", E.Sub: "-", E.Mul: "*", E.FloorDiv: "//", E.Div: "/", E.FloorMod: "%", E.Mod: "rem", E.Min: "min", E.Max: "max",
    E.EQ: "==", E.NE: "!=", E.LT: "<", E.LE: "<=", E.GT: ">", E.GE: ">=",
    E.And: "and", E.Or: "or", E.Not: "not", E.Select: "select",
}  # fmt: skip


def extent_of(expr: PrimExpr, names: Mapping[Var, str]) -> Extent:
    """An extent of which all variables have a name.

    Raises:
        CodegenError: a variable has none, or there is something else than arithmetic, comparison and choice.
    """
    if isinstance(expr, E.IntImm):
        return int(expr.value)
    if isinstance(expr, Var):
        if expr not in names:
            raise CodegenError(
                f"nothing gives {expr.name}: no parameter, extent, stride or offset is this variable alone"
            )
        return names[expr]
    if isinstance(expr, E.Cast):
        return extent_of(expr.value, names)
    name = _NAMES.get(expr.__class__)
    if name is None:
        raise CodegenError(f"{expr} is no arithmetic of symbols")
    parts: list[PrimExpr] = []
    expr._visit_children(parts.append)
    return (name, *(extent_of(part, names) for part in parts))


def is_extent(value: Any) -> bool:
    """Whether something read from a file is an extent: a number, a name, or an operation that there is, on extents.

    >>> is_extent(("*", "n", 2)), is_extent(("*", "n")), is_extent(1.5)
    (True, False, False)
    """
    if not isinstance(value, tuple):
        return isinstance(value, int | str)
    if not value or value[0] not in _OPERATIONS or not all(map(is_extent, value[1:])):
        return False
    return len(value) - 1 == {"not": 1, "select": 3}.get(value[0], 2)


def evaluate(extent: Extent, symbols: Mapping[str, int]) -> int:
    """The number that an extent is, given its symbols.

    Raises:
        ZeroDivisionError: the extent divides by zero.
    """
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return symbols[extent]
    name, *parts = extent
    return _OPERATIONS[name](*(evaluate(part, symbols) for part in parts))


def text_of(extent: Extent) -> str:
    """How an extent is written: ``n * 2``."""
    if not isinstance(extent, tuple):
        return str(extent)
    name, *parts = extent
    if name.isalpha() and name not in ("and", "or"):
        return f"{name}({', '.join(map(text_of, parts))})"
    left, right = (f"({text_of(x)})" if isinstance(x, tuple) else text_of(x) for x in parts)
    return f"{left} {name} {right}"
