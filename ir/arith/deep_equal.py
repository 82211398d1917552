"""Deep equality of expressions: the same operators over the same variables; the quick test that rewrite rules use."""

from __future__ import annotations

from typing import Any

from ..node import Node
from ..tir import expr as E


def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """Whether two expressions are equal node by node; variables and buffers are equal only to themselves."""
    if lhs is rhs:
        return True
    cls = lhs.__class__
    if cls is not rhs.__class__:
        return False
    if cls is E.IntImm:
        return lhs.value == rhs.value and lhs.dtype == rhs.dtype
    if cls.is_variable:
        return False
    if lhs.dtype != rhs.dtype:
        return False
    if issubclass(cls, E._Binary):
        return expr_deep_equal(lhs.b, rhs.b) and expr_deep_equal(lhs.a, rhs.a)
    if cls is E.FloatImm:
        return lhs.value == rhs.value or (lhs.value != lhs.value and rhs.value != rhs.value)
    return all(
        _equal_field(getattr(lhs, item.name), getattr(rhs, item.name))
        for item in cls._fields
        if item.compare and item.derived is None
    )


def _equal_field(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(_equal_field(x, y) for x, y in zip(a, b))
    if isinstance(a, E.PrimExpr):
        return isinstance(b, E.PrimExpr) and expr_deep_equal(a, b)
    if isinstance(a, E.Range):
        return (
            isinstance(b, E.Range) and expr_deep_equal(a.min, b.min) and expr_deep_equal(a.extent, b.extent)
        )
    if isinstance(a, Node):
        if a is b or a.is_variable or type(a) is not type(b):
            return a is b
        fields = [item for item in a._fields if item.compare and item.derived is None]
        return all(_equal_field(getattr(a, item.name), getattr(b, item.name)) for item in fields)
    return bool(a == b)
