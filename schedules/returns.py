"""Returns inside of a function: what it has stored when it ends is what it leaves, so that no store crosses one."""

from __future__ import annotations

from collections.abc import Iterable

from ir import tir
from ir.node import Node

from .analysis import require
from .tree import LeafNode, SeqNode, TreeNode, is_ancestor, walk


def returns_below(node: TreeNode) -> list[LeafNode]:
    """The statements at and below a node that may end the function."""
    return [item for item in walk(node) if isinstance(item, LeafNode) and _may_return(item.leaf)]


def _may_return(stmt: tir.Stmt) -> bool:
    if isinstance(stmt, tir.BufferStore):  # most are
        return False
    found = False

    def visit(node: Node) -> bool:
        nonlocal found
        if isinstance(node, tir.Evaluate):
            found |= getattr(getattr(node.value, "op", None), "name", "") == "tir.ret"
        return not isinstance(node, tir.PrimExpr)

    tir.pre_order_visit(stmt, visit)
    return found


def require_no_return(nodes: Iterable[TreeNode], primitive: str, what: str) -> None:
    """Refuse a step that changes what has run when a return in one of some nodes ends the function.

    Args:
        nodes: hold what the step puts into another order.
        primitive: its name, for the error.
        what: the nodes, for the error.

    Raises:
        ScheduleError: there is a return.
    """
    require(
        not any(returns_below(node) for node in nodes),
        primitive,
        f"the function may return in {what}: other elements would be written then; return before it, or guard the rest with if",
    )


def nodes_between(first: TreeNode, last: TreeNode) -> list[TreeNode]:
    """The nodes that run from one to another one behind it, those around both of them aside; none where the other one comes before."""
    around = first
    while around.parent is not None:
        child, around = around, around.parent
        if is_ancestor(around, last):
            if not isinstance(around, SeqNode):
                return []
            end = next(n for n, node in enumerate(around.nodes) if is_ancestor(node, last))
            return around.nodes[around.index(child) : end + 1]
    return []
