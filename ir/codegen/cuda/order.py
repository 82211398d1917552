"""Whether an expression leaves to C++ an order that the program fixes: operands run from left to right there, and in any order in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tir import expr as E
from ...tir import stmt as S
from ...tir.analysis.reads_memory import reads_memory
from ...tir.effects import has_effect
from ...tir.expr import PrimExpr


def needs_order(parts: Sequence[PrimExpr]) -> bool:
    """Whether one of some expressions, which are evaluated one after the other, has an effect that another one may see, or has itself;
    or such operands stand in one of them.

    >>> from ir.tir import address_of, atomic_add, const, decl_buffer
    >>> A = decl_buffer((8,), "int32", "A")
    >>> add = atomic_add("int32", address_of(A[0]), const(1, "int32"))
    >>> needs_order([add * 2]), needs_order([add + add]), needs_order([add + A[1]]), needs_order([A[1] + A[2]])
    (False, True, True, False)
    """
    effects = [has_effect(part) for part in parts]
    if not any(effects):
        return False
    if sum(effects) > 1 or sum(map(reads_memory, parts)) > 1:
        return True
    return any(_leaves_open(part) for part, found in zip(parts, effects, strict=True) if found)


def _leaves_open(expr: Any) -> bool:
    """Whether an expression with effects has operands of which the order counts, or an effect within what is evaluated perhaps."""
    if isinstance(expr, E.Let):
        return True  # whose value has a name
    below: list[Any] = []
    expr._visit_children(below.append)
    return needs_order([item for item in below if isinstance(item, PrimExpr)])


def expressions_of(node: S.Stmt) -> list[PrimExpr]:
    """What a statement evaluates itself, in order."""
    if isinstance(node, S.BufferStore):
        mask = [] if node.predicate is None else [node.predicate]
        return [*mask, node.value, *node.indices]
    found: list[PrimExpr] = []
    node._visit_children(lambda item: found.append(item) if isinstance(item, PrimExpr) else None)
    return found
