"""Whether a block writes all of the box that it is said to write: a copy of that box would otherwise carry elements that nobody wrote.

A box is covered where each dimension of the stored index is a sum of steps of loops of its own without gaps, and the store happens
in every iteration that a copy of the box has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.arith import Analyzer, detect_iter_map
from ir.node import Visitor
from ir.tir.stmt_functor import substitute

from .affine import constant_difference, mentions, polynomial
from .bounds import guards, is_open
from .region import relax_domains
from .tree import BlockNode, LeafNode, LoopNode, TreeNode, is_ancestor, loops_around, walk


@dataclass(frozen=True)
class _Store:
    """Where a statement stores, which loops run around it inside of its leaf, and whether it is under a condition there."""

    indices: tuple[tir.PrimExpr, ...]
    loops: tuple[tuple[tir.Var, tir.PrimExpr], ...]
    is_conditional: bool


class _Stores(Visitor):
    """The stores to a buffer in a statement without blocks."""

    def __init__(self, buffer: tir.Buffer) -> None:
        super().__init__()
        self.found: list[_Store] = []
        self._buffer = buffer
        self._loops: list[tuple[tir.Var, tir.PrimExpr]] = []
        self._conditions = 0

    def visit_BufferStore(self, store: tir.BufferStore) -> None:
        if store.buffer is self._buffer:
            is_conditional = bool(self._conditions) or store.predicate is not None
            self.found.append(_Store(tuple(store.indices), tuple(self._loops), is_conditional))

    def visit_For(self, loop: tir.For) -> None:
        self._loops.append((loop.loop_var, loop.extent))
        self.visit(loop.body)
        self._loops.pop()

    def visit_IfThenElse(self, node: tir.IfThenElse) -> None:
        self._conditions += 1
        self.generic_visit(node)
        self._conditions -= 1

    visit_While = visit_IfThenElse  # type: ignore[assignment]


def why_not_unconditional(block: BlockNode, buffer: tir.Buffer) -> str | None:
    """The reason why a block may leave elements that it is said to write as they are, conditions of its loops aside."""
    for _, stores in _stores_in(block, buffer):
        for store in stores:
            if store.is_conditional:
                return f"block {block.name!r} stores to {buffer.name} under a condition"
    return None


def why_not_covered(block: BlockNode, buffer: tir.Buffer, place: TreeNode) -> str | None:
    """The reason why a block, while the loops below ``place`` run, may not write all of the box of a buffer that it touches."""
    stores = _stores_in(block, buffer)
    reason = why_not_unconditional(block, buffer)
    if reason is not None or not stores:
        return reason  # without a store the block calls something that fills what the block states
    if sum(len(found) for _, found in stores) > 1:
        return f"block {block.name!r} stores to {buffer.name} in several places"
    ((leaf, (store,)),) = stores
    indices, running = store.indices, list(store.loops)
    node: TreeNode | None = leaf.parent
    while node is not None and node is not place and (node is block or not is_ancestor(node, block)):
        if isinstance(node, LoopNode):
            running.append((node.var, node.extent))
        elif isinstance(node, BlockNode):
            clause = _no_guard(node, store.indices, buffer)
            if clause is not None:
                return f"block {node.name!r} runs only where {clause}"
            values = dict(zip([item.var for item in node.iter_vars], node.iter_values, strict=True))
            indices = tuple(substitute(index, values) for index in indices)
        elif not _is_harmless(node):
            return f"block {block.name!r} stores to {buffer.name} under a condition"
        node = node.parent
    for loop in loops_around(block):
        if loop is not place and is_ancestor(place, loop):
            running.append((loop.var, loop.extent))
    if any(isinstance(extent, tir.IntImm) and extent.value == 0 for _, extent in running):
        return f"block {block.name!r} has a loop without iterations around it"
    if any(is_open(extent) for _, extent in running):
        # Tiles with open decisions split loops that ran over the variables' domains.
        indices, running = store.indices, [(item.var, item.dom.extent) for item in block.iter_vars]
    if _is_box(indices, dict(running)):
        return None
    text = ", ".join(map(str, indices))
    return f"block {block.name!r} stores to {buffer.name} at [{text}], which is not known to fill a box"


def _stores_in(block: BlockNode, buffer: tir.Buffer) -> list[tuple[LeafNode, list[_Store]]]:
    """The leaves of a block that store to a buffer, with their stores."""
    result = []
    for node in walk(block):
        if isinstance(node, LeafNode):
            visitor = _Stores(buffer)
            visitor.visit(node.leaf)
            if visitor.found:
                result.append((node, visitor.found))
    return result


def _is_harmless(node: TreeNode) -> bool:
    """Whether what is in a node runs whenever the node does."""
    template = getattr(node, "template", None)
    return template is None or not isinstance(template, tir.IfThenElse | tir.While)


def _no_guard(block: BlockNode, indices: Sequence[Any], buffer: tir.Buffer) -> tir.PrimExpr | None:
    """A clause of a block's predicate that does more than to keep its variables in their domains, or None.

    A copy is cut at the ends of the buffer, so that a variable's domain must reach these. Of a reduction it is enough that the first
    iteration happens.
    """
    if isinstance(block.predicate, tir.IntImm):
        return None
    around = loops_around(block)
    may_leave: set[Any] = set()
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        if guards(value, None, None, item.dom, around):
            leaving = {loop.var for loop in around if mentions(value, {loop.var})}
            domains = {other.var: other.dom for other in block.iter_vars}
            reaches = all(
                _is_whole(index, domains, dim)
                for index, dim in zip(indices, buffer.shape, strict=True)
                if mentions(index, {item.var})
            )
            if reaches or item.iter_type == tir.IterVar.CommReduce:
                may_leave |= leaving
    analyzer = Analyzer()
    for loop in around:
        analyzer.bind(loop.var, loop.range())
    first = {loop.var: loop.min for loop in around if _only_reduces(loop, block)}
    pending = [block.predicate]
    while pending:
        clause = pending.pop()
        if isinstance(clause, tir.And):
            pending += [clause.a, clause.b]
        elif not mentions(clause, may_leave) and not analyzer.can_prove(substitute(clause, first)):
            return clause
    return None


def _is_whole(index: Any, domains: Mapping[Any, tir.Range], dim: Any) -> bool:
    """Whether an index reaches from one end of a dimension to the other."""
    point = tir.Range.from_min_extent(index, tir.const(1, index.dtype))
    ((low, extent),) = relax_domains([point], domains, [dim])
    return constant_difference(low, 0) == 0 and constant_difference(extent, dim) == 0


def _only_reduces(loop: LoopNode, block: BlockNode) -> bool:
    """Whether a loop feeds reduction variables of a block and no others."""
    kinds = {
        item.iter_type
        for item, value in zip(block.iter_vars, block.iter_values, strict=True)
        if mentions(value, {loop.var})
    }
    return kinds == {tir.IterVar.CommReduce}


def _is_box(indices: Sequence[Any], running: Mapping[Any, Any]) -> bool:
    """Whether indices take all values of a box while loops run from their starts over their extents."""
    if any(mentions(extent, running) for extent in running.values()):
        return False
    seen: set[Any] = set()
    if all(_fills_interval(index, running, seen) for index in indices):
        return True
    inner = {
        var: tir.Range.from_min_extent(tir.const(0, var.dtype), extent) for var, extent in running.items()
    }
    outer: dict[Any, Any] = {}
    for index in indices:
        tir.post_order_visit(
            index,
            lambda node: (
                outer.setdefault(node, tir.const(0, node.dtype))
                if isinstance(node, tir.Var) and node not in running
                else None
            ),
        )
    fixed = [substitute(index, outer) for index in indices]
    found = detect_iter_map(fixed, inner, True, "surjective").indices
    steps = [item.args[0].scale for item in found if item.args]
    return bool(found) and all(isinstance(step, tir.IntImm) and step.value in (1, -1) for step in steps)


def _fills_interval(index: Any, running: Mapping[Any, Any], seen: set[Any]) -> bool:
    """Whether an index takes all values between its ends: it is a sum of steps of running loops that no other index has, none of
    which is longer than what the shorter ones reach.
    """
    steps: list[tuple[int, Any]] = []
    for monomial, coefficient in polynomial(index).terms.items():
        inside = [atom for atom in monomial if mentions(atom, running)]
        if not inside:
            continue
        if len(monomial) != 1 or monomial[0] not in running or monomial[0] in seen:
            return False
        seen.add(monomial[0])
        extent = running[monomial[0]]
        if not (isinstance(extent, tir.IntImm) and extent.value == 1):
            steps.append((abs(coefficient), extent))
    reach: int | None = 1
    for coefficient, extent in sorted(steps, key=lambda step: step[0]):
        if reach is None or coefficient > reach:
            return False
        reach = reach + coefficient * (extent.value - 1) if isinstance(extent, tir.IntImm) else None
    return True
