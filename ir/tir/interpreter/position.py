"""Index arithmetic and data: which of the two an integer expression is, by where it stands and what it is made of."""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from ... import dtype as dt
from .. import expr as E
from ..intrinsic.declaration import is_transparent


class Position(Enum):
    """Where an expression stands."""

    INDEX = "index"
    """Arithmetic of int32 and int64 is that of ℤ, and must not overflow."""
    REGION = "region"
    """Arithmetic of int32 and int64 is that of ℤ, of numbers of any size: no program computes the ends of a region."""
    CONDITION = "condition"
    """Comparisons of index arithmetic are that, other ones are data."""
    DATA = "data"
    """Everything wraps."""


def has_index_type(node: E.PrimExpr) -> bool:
    """Whether values are int32 or int64, lane by lane."""
    return dt.is_index(dt.element_of(node.dtype))


def is_choice(node: E.PrimExpr) -> bool:
    """Whether the node is a call of ``if_then_else``."""
    return isinstance(node, E.Call) and getattr(node.op, "name", "") == "tir.if_then_else"


def is_index_arithmetic(node: E.PrimExpr, data: Container[E.Var]) -> bool:
    """Whether an expression holds nothing but index variables and constants.

    Args:
        node: what is asked about.
        data: let variables whose values are data.
    """
    if not has_index_type(node):
        return False
    if isinstance(node, E.Var):
        return node not in data
    if isinstance(node, E.IntImm):
        return True
    if isinstance(node, E.Call) and not is_choice(node) and not is_transparent(node):
        return False
    if isinstance(node, E.Cast):
        return is_index_arithmetic(node.value, data)
    parts = operands_of(node)
    return bool(parts) and all(
        is_index_arithmetic(part, data) if has_index_type(part) else _is_index_condition(part, data)
        for part in parts
    )


def operands_of(node: E.PrimExpr) -> tuple[E.PrimExpr, ...]:
    """The expressions that arithmetic is made of; none for what is no arithmetic."""
    if isinstance(node, E.BinaryOpExpr | E.CmpExpr | E.LogicalExpr):
        return (node.a, node.b)
    if isinstance(node, E.Not):
        return (node.a,)
    if isinstance(node, E.Broadcast):
        return (node.value,)
    if isinstance(node, E.Select):
        return (node.condition, node.true_value, node.false_value)
    if isinstance(node, E.Ramp):
        return (node.base, node.stride)
    if isinstance(node, E.Shuffle):
        return node.vectors
    if isinstance(node, E.Let):
        return (node.value, node.body)
    return node.args if is_choice(node) or is_transparent(node) else ()  # type: ignore[attr-defined]


def _is_index_condition(node: E.PrimExpr, data: Container[E.Var]) -> bool:
    """Whether a bool inside of arithmetic compares index arithmetic only."""
    if not dt.is_bool(node.dtype):
        return False
    if isinstance(node, E.IntImm):
        return True
    parts = operands_of(node)
    return bool(parts) and all(
        is_index_arithmetic(part, data) or _is_index_condition(part, data) for part in parts
    )
