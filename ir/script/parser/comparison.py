"""Comparisons in scripts: of expressions they are conditions of the program; what Python would decide about nodes is refused."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...error import IRTypeError
from ...expr import GlobalVar, RelaxExpr
from ...function import BaseFunc
from ...tir import expr as E
from ...tir import operators
from ...tir.buffer import Buffer

_COMPARING = frozenset({"count", "index", "remove", "get", "pop", "setdefault", "discard"})
"""Methods of Python's containers that look for an equal element."""


def check_compares_nothing(function: Any, args: list[Any]) -> None:
    """Refuse a search of a Python container for or among expressions of the program: equality is not known yet."""
    container = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    is_list = container.__class__ in (list, tuple)
    if name not in _COMPARING or not (is_list or container.__class__ in (dict, set)):
        return
    if has_expression(args[:1] if name != "pop" or not is_list else []) or (
        is_list and name != "pop" and has_expression([container])
    ):
        raise IRTypeError(
            f"{name} of a {type(container).__name__} looks for an equal value while the program is read, when that of an expression is"
            ' not known; ask with x in [1, 2], add up T.Cast("int32", x == y), or choose with T.if_then_else'
        )


_COMPARISONS: dict[type, tuple[Callable[[Any, Any], Any], type]] = {
    ast.Eq: (operator.eq, E.EQ),
    ast.NotEq: (operator.ne, E.NE),
    ast.Lt: (operator.lt, E.LT),
    ast.LtE: (operator.le, E.LE),
    ast.Gt: (operator.gt, E.GT),
    ast.GtE: (operator.ge, E.GE),
}


def compare_pair(operation: Any, left: Any, right: Any) -> Any:
    if operation.__class__ in _EQUALITIES:
        _check_no_relax_value(left, right, *_EQUALITIES[operation.__class__])
    if operation.__class__ in _COMPARISONS:
        plain, build = _COMPARISONS[operation.__class__]
        if isinstance(left, E.PrimExpr) or isinstance(right, E.PrimExpr):
            numbers = (E.PrimExpr, int, float, np.generic)
            if isinstance(left, numbers) and isinstance(right, numbers):
                return operators.compare(build, left, right)
            _refuse_comparison(left, right)
        return plain(left, right)
    if operation.__class__ in _IDENTITIES:
        return _identity(left, right, operation.__class__)
    is_in = operation.__class__ is ast.In
    if has_expression([left, right]):
        return _membership(left, right, is_in)
    return (left in right) == is_in


def _refuse_comparison(left: Any, right: Any) -> None:
    """Refuse to compare an expression with what no value of it is: the answer would be about Python objects, and always the same."""
    value, other = (left, right) if isinstance(left, E.PrimExpr) else (right, left)
    if other is None:
        raise IRTypeError(
            f"{value} is a number when the program runs, and never None; whether there is an expression is asked with is None"
        )
    if isinstance(other, str | bytes | list | tuple | set | dict | Buffer):
        name = f"buffer {other.name}" if isinstance(other, Buffer) else f"{other!r}, a {type(other).__name__}"
        raise IRTypeError(
            f"{value}, of dtype {value.dtype}, is compared with {name}; compare it with a number or an element"
        )


_EQUALITIES: dict[type, tuple[str, str]] = {
    ast.Eq: ("==", "compare elements with R.equal"),
    ast.NotEq: ("!=", "compare elements with R.not_equal"),
    ast.In: ("in", "compare elements with R.equal, and combine what it gives with R.logical_or"),
    ast.NotIn: ("not in", "compare elements with R.not_equal, and combine what it gives with R.logical_and"),
}
"""Comparisons that Python decides for Relax values, by the identity of nodes, and how to write what is meant."""


def _check_no_relax_value(left: Any, right: Any, symbol: str, advice: str) -> None:
    """Refuses comparisons whose result would be that of the nodes; with None and with texts it is known."""
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return
    if _has_relax_value([left, right]):
        raise IRTypeError(
            f"Python's {symbol} would compare nodes of the program, not the values of tensors; {advice}"
        )


def _has_relax_value(values: Sequence[Any]) -> bool:
    return any(
        (isinstance(value, RelaxExpr) and not isinstance(value, BaseFunc | GlobalVar))
        or (isinstance(value, list | tuple | set) and _has_relax_value(list(value)))
        for value in values
    )


_IDENTITIES: dict[type, tuple[Callable[[Any, Any], bool], str, str]] = {
    ast.Is: (operator.is_, "is", "=="),
    ast.IsNot: (operator.is_not, "is not", "!="),
}


def _identity(left: Any, right: Any, kind: type) -> bool:
    """``left is right``, of objects; a number of the program is no object, but may be asked for beside None."""
    decide, name, equality = _IDENTITIES[kind]
    if left is not None and right is not None:
        for value in (left, right):
            if isinstance(value, E.PrimExpr):
                raise TypeError(
                    f"{name} compares Python objects, and {value} is an expression of the program; compare values with {equality}"
                )
    return decide(left, right)


def is_undecided(value: Any) -> bool:
    """Whether a value is known only when the program runs; Python's ``==`` would compare it as a node."""
    return isinstance(value, E.PrimExpr) and not isinstance(value, E.IMMEDIATES)


def has_expression(values: Sequence[Any]) -> bool:
    """Whether one of the values, or what is in them, is an expression of the program."""
    return any(
        is_undecided(value) or (isinstance(value, list | tuple | set) and has_expression(list(value)))
        for value in values
    )


def _membership(left: Any, right: Any, is_in: bool) -> Any:
    """``left in right`` as comparisons with what is listed."""
    if not isinstance(right, list | tuple | set):
        raise TypeError(
            f"in looks for an expression in a list of values, got a {type(right).__name__}; compare instead, as in 0 <= x and x < n"
        )
    found: Any = operators.const(not is_in)
    for item in right:
        if is_in:
            found = operators.logical_or(found, operators.compare(E.EQ, left, item))
        else:
            found = operators.logical_and(found, operators.compare(E.NE, left, item))
    return found


def _any(values: Any) -> E.PrimExpr:
    return functools.reduce(operators.logical_or, values, operators.const(False))


def _all(values: Any) -> E.PrimExpr:
    return functools.reduce(operators.logical_and, values, operators.const(True))


DECIDING: dict[int, Callable[..., Any]] = {id(any): _any, id(all): _all, id(bool): operators.as_condition}
"""By identity, for not all that is called has a hash: what Python's functions that decide are of expressions, conditions of the program."""
