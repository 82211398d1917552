"""What stands around a block in its scope: loops with their bounds, bindings and a predicate, conditions, names for values.

They are evaluated before the block, in every iteration, and a block states nothing of what they load.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ir import tir
from ir.arith.domain import is_number
from ir.dtype import lanes
from ir.tir.stmt_functor import loads_in, substitute

from .tree import BlockNode, LoopNode, TreeNode, WrapNode


class LoadAround(NamedTuple):
    """A load that runs before a block does.

    Attributes:
        node: evaluates it, inside of :func:`~schedules.tree.loops_around` the node.
        load: in terms of those loops, and of names that nodes around give to values.
    """

    node: TreeNode
    load: tir.BufferLoad

    @property
    def region(self) -> list[tir.Range]:
        """The elements that it loads."""
        shape = self.load.buffer.shape
        return [elements_along(index, dim) for index, dim in zip(self.load.indices, shape, strict=True)]

    @property
    def region_of_buffer(self) -> tir.BufferRegion:
        """The same, with the buffer."""
        return tir.BufferRegion(self.load.buffer, self.region)


def elements_along(index: tir.PrimExpr, dim: tir.PrimExpr) -> tir.Range:
    """What an index reaches of a dimension: of a vector the elements from the first to the last lane."""
    if lanes(index.dtype) == 1:
        return tir.Range.from_min_extent(index, tir.const(1, index.dtype))
    if isinstance(index, tir.Ramp) and isinstance(index.stride, tir.IntImm) and is_number(index.dtype):
        reach = index.stride.value * (index.lanes - 1)
        return tir.Range.from_min_extent(
            index.base + min(reach, 0), tir.const(abs(reach) + 1, index.base.dtype)
        )
    return tir.Range.from_min_extent(tir.const(0, dim.dtype), dim)


def nodes_around(place: TreeNode) -> Iterator[TreeNode]:
    """A block or a loop itself and the nodes between it and its scope, innermost first."""
    node: TreeNode | None = place
    while node is not None and (node is place or not isinstance(node, BlockNode)):
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


def why_not_only_loops(block: BlockNode) -> str | None:
    """The reason why more than loops decides whether, and for which values of its variables, a block runs; or None.

    Primitives that make new loops around a block make them of its domains: conditions and loads would be lost.
    """
    for node in nodes_around(block):
        if isinstance(node, WrapNode):
            return f"block {block.name!r} is below a statement {type(node.template).__name__}, which decides whether it runs"
        if any(loads_in(expr) for expr in evaluated_by(node)):
            return f"block {block.name!r} runs where data says, in a predicate, a binding or the bounds of a loop"
    return None


def names_around(node: TreeNode, place: TreeNode) -> dict[tir.Var, tir.PrimExpr | None]:
    """What nodes between a node and a place around it give names to: the value of a let, None for a thread that runs beside others."""
    found: list[tuple[tir.Var, tir.PrimExpr | None]] = []
    current = node.parent
    while current is not None and current is not place:
        template = getattr(current, "template", None)
        if isinstance(template, tir.LetStmt):
            found.append((template.var, template.value))
        elif isinstance(template, tir.AttrStmt) and template.thread is not None:
            found.append((template.thread.var, None))
        current = current.parent
    names: dict[tir.Var, tir.PrimExpr | None] = {}
    for var, value in reversed(found):
        known = {name: given for name, given in names.items() if given is not None}
        names[var] = substitute(value, known) if known and value is not None else value
    return names


def names_given_in(stmt: tir.Stmt) -> set[tir.Var]:
    """The variables that loops and lets in a statement give values: outside of it they have none."""
    found: set[tir.Var] = set()

    def visit(node: object) -> None:
        if isinstance(node, tir.For):
            found.add(node.loop_var)
        elif isinstance(node, tir.LetStmt | tir.Let):
            found.add(node.var)

    tir.post_order_visit(stmt, visit)
    return found
