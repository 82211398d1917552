"""Deep equality of expressions: the same operators over the same variables; the quick test that rewrite rules use."""

from __future__ import annotations

from collections.abc import Iterator
from math import copysign
from typing import Any

from ..node import Node
from ..tir import expr as E


def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """Whether two expressions are equal node by node; variables and buffers are equal only to themselves.

    Constants are equal when their bits are, but for NaN, which equals NaN. The time follows the number of different nodes.
    """
    if lhs is rhs:
        return True
    cls = lhs.__class__
    if cls is not rhs.__class__ or cls.is_variable:  # nearly all calls end here
        return False
    return _equal(lhs, rhs, set())


def _equal(lhs: Any, rhs: Any, met: set[tuple[int, int]]) -> bool:
    """Equality; ``met`` has the pairs that are compared already. One that differs ends the whole comparison."""
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
    if cls is E.FloatImm:
        return _same_float(lhs.value, rhs.value)
    pair = (id(lhs), id(rhs))
    if pair in met:
        return True
    met.add(pair)
    if issubclass(cls, E._Binary):
        return _equal(lhs.b, rhs.b, met) and _equal(lhs.a, rhs.a, met)
    return all(
        _equal_field(getattr(lhs, item.name), getattr(rhs, item.name), met)
        for item in cls._fields
        if item.compare and item.derived is None
    )


def expr_deep_hash(expr: Any) -> int:
    """A hash that is the same, in this process, for expressions that :func:`expr_deep_equal` says are equal."""
    return _hash(expr, {})


def _hash(node: Any, met: dict[int, int]) -> int:
    cls = node.__class__
    if cls.is_variable:
        return id(node)
    found = met.get(id(node))
    if found is None:
        found = met[id(node)] = hash((cls, *_parts_to_hash(node, cls, met)))
    return found


def _parts_to_hash(node: Any, cls: Any, met: dict[int, int]) -> Iterator[Any]:
    if cls is E.FloatImm:
        yield from (node.dtype, 0.0 if node.value != node.value else node.value)  # all NaN are equal
        return
    if issubclass(cls, E.PrimExpr):
        yield node.dtype
    for item in cls._fields:
        if item.compare and item.derived is None:
            yield _hash_field(getattr(node, item.name), met)


def _hash_field(value: Any, met: dict[int, int]) -> int:
    if isinstance(value, tuple):
        return hash(tuple(_hash_field(item, met) for item in value))
    if isinstance(value, Node):
        return _hash(value, met)
    try:
        return hash(value)
    except TypeError:  # such as a dictionary: told apart by comparing
        return 0


def _same_float(a: float, b: float) -> bool:
    return (a == b and copysign(1.0, a) == copysign(1.0, b)) or (a != a and b != b)


def _equal_field(a: Any, b: Any, met: set[tuple[int, int]]) -> bool:
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple) and len(a) == len(b) and all(_equal_field(x, y, met) for x, y in zip(a, b))
        )
    if isinstance(a, E.PrimExpr):
        return isinstance(b, E.PrimExpr) and _equal(a, b, met)
    if isinstance(a, E.Range):
        return isinstance(b, E.Range) and _equal(a.min, b.min, met) and _equal(a.extent, b.extent, met)
    if isinstance(a, Node):
        if a is b or a.is_variable or type(a) is not type(b):
            return a is b
        fields = [item for item in a._fields if item.compare and item.derived is None]
        return all(_equal_field(getattr(a, item.name), getattr(b, item.name), met) for item in fields)
    return bool(a == b)
