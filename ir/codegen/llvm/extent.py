"""Declared extents and strides without the program around them: what a signature keeps of them and compares with arrays.

A number, the name of a symbol, or an operation on two of these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ...tir import expr as E
from ...tir.expr import PrimExpr, Var
from .compile import CodegenError

Extent: TypeAlias = "int | str | tuple[str, Any, Any]"
"""``("*", "n", 2)`` is twice the symbol n."""

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "min": min, "max": max,
}  # fmt: skip
_NAMES: dict[type, str] = {
    E.Add: "+", E.Sub: "-", E.Mul: "*", E.FloorDiv: "//", E.Div: "//", E.FloorMod: "%", E.Mod: "%", E.Min: "min", E.Max: "max",
}  # fmt: skip


def extent_of(expr: PrimExpr, names: Mapping[Var, str]) -> Extent:
    """An extent of which all variables have a name.

    Raises:
        CodegenError: a variable has none, or there is something else than arithmetic.
    """
    if isinstance(expr, E.IntImm):
        return expr.value
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
    return (name, extent_of(expr.a, names), extent_of(expr.b, names))  # type: ignore[attr-defined]


def evaluate(extent: Extent, symbols: Mapping[str, int]) -> int:
    """The number that an extent is, given its symbols.

    Raises:
        ZeroDivisionError: the extent divides by zero.
    """
    if isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return symbols[extent]
    name, a, b = extent
    return _OPERATIONS[name](evaluate(a, symbols), evaluate(b, symbols))


def text_of(extent: Extent) -> str:
    """How an extent is written: ``n * 2``."""
    if not isinstance(extent, tuple):
        return str(extent)
    name, a, b = extent
    if name in ("min", "max"):
        return f"{name}({text_of(a)}, {text_of(b)})"
    left, right = (f"({text_of(x)})" if isinstance(x, tuple) else text_of(x) for x in (a, b))
    return f"{left} {name} {right}"
