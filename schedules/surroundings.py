"""What stands around a block in its scope: loops with their bounds, bindings and a predicate, conditions, names for values.

They are evaluated before the block, in every iteration, and a block states nothing of what they load.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ir import tir

from .tree import BlockNode, LoopNode, TreeNode, WrapNode


class LoadAround(NamedTuple):
    """A load that runs before a block does.

    Attributes:
        node: evaluates it, inside of :func:`~schedules.tree.loops_around` the node.
        load: in terms of those loops, and of names that nodes around give to values.
    """

    node: TreeNode
    load: tir.BufferLoad


def nodes_around(block: BlockNode) -> Iterator[TreeNode]:
    """The block itself and the nodes between it and its scope, innermost first."""
    node: TreeNode | None = block
    while node is not None and (node is block or not isinstance(node, BlockNode)):
        yield node
        node = node.parent


def evaluated_by(node: TreeNode) -> list[tir.PrimExpr]:
    """The expressions that a node of the tree evaluates before what is in it runs: bounds, bindings and predicates, conditions."""
    if isinstance(node, LoopNode):
        return [node.min, node.extent]
    if isinstance(node, BlockNode):
        return [node.predicate, *node.iter_values]
    if isinstance(node, WrapNode):
        found: list[tir.PrimExpr] = []
        rest = node.template.replace(**{name: tir.Evaluate(tir.const(0)) for name in node.bodies})
        rest._visit_children(lambda item: found.append(item) if isinstance(item, tir.PrimExpr) else None)
        return found
    return []


def loads_around(block: BlockNode) -> list[LoadAround]:
    """The loads in a block's predicate and bindings, and in the bounds of loops, conditions and lets between it and its scope."""
    return [
        LoadAround(node, load)
        for node in nodes_around(block)
        for expr in evaluated_by(node)
        for load in loads_in(expr)
    ]


def loads_in(expr: tir.PrimExpr | tir.Range) -> list[tir.BufferLoad]:
    """The loads in an expression, innermost first."""
    if isinstance(expr, tir.IntImm | tir.Var):
        return []
    found: list[Any] = []
    tir.post_order_visit(expr, lambda node: found.append(node) if isinstance(node, tir.BufferLoad) else None)
    return found
