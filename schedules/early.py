"""Whether a primitive may evaluate an expression of a block where the program would not (``[early]`` in docs/semantics.md).

A copy runs over all values of a block's variables, and the program may guard some of them: by the block's predicate, a condition
around the block or in it, or a loop that has no iterations.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from ir import dtype as dt
from ir import tir
from ir.arith import Analyzer
from ir.node import Visitor
from ir.tir.faults import may_divide_by_zero, may_fault

from .affine import mentions
from .bounds import is_open
from .tree import BlockNode, LeafNode, LoopNode, TreeNode, WrapNode, walk

_SHIFTS = frozenset({"tir.shift_left", "tir.shift_right"})


class _Conditions(Visitor):
    """Whether a part of a statement is evaluated under a condition."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def _note(self, node: Any) -> None:
        self.found = True

    visit_IfThenElse = visit_While = visit_Select = visit_And = visit_Or = _note  # type: ignore[assignment]

    def visit_Call(self, call: tir.Call) -> None:
        self.found |= getattr(call.op, "name", "") == "tir.if_then_else"
        self.generic_visit(call)

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self.found |= load.predicate is not None
        self.generic_visit(load)


def is_conditional(block: BlockNode, place: TreeNode) -> bool:
    """Whether something in a block is evaluated under a condition that stands in it, or around it below ``place``; the block's own
    predicate aside.
    """
    visitor = _Conditions()
    inside = list(walk(block))
    for node in [*inside, *_between(block, place)]:
        if isinstance(node, LeafNode):
            visitor.visit(node.leaf)
        elif isinstance(node, WrapNode):
            visitor.found |= isinstance(node.template, tir.IfThenElse | tir.While)
        elif isinstance(node, BlockNode) and node is not block:
            visitor.found |= not node.is_unconditional
    return visitor.found


def always_runs(block: BlockNode, place: TreeNode) -> bool:
    """Whether a block runs, and evaluates all that is in it, in every iteration of the loops at and around a place."""
    return block.is_unconditional and not is_conditional(block, place) and not may_be_idle(block, place)


def may_be_idle(block: BlockNode, place: TreeNode, used: Collection[tir.IterVar] = ()) -> bool:
    """Whether a loop in a block, or one around it below ``place`` that feeds none of the ``used`` variables, may have no iterations."""
    bound = zip(block.iter_vars, block.iter_values, strict=True)
    values = [value for item, value in bound if item in used]
    loops = [node for node in walk(block) if isinstance(node, LoopNode)]
    for node in _between(block, place):
        if isinstance(node, LoopNode) and not any(mentions(value, {node.var}) for value in values):
            loops.append(node)
    return not all(_runs(loop) for loop in loops)


def _runs(loop: LoopNode) -> bool:
    return is_open(loop.extent) or (isinstance(loop.extent, tir.IntImm) and loop.extent.value > 0)


def _between(block: BlockNode, place: TreeNode) -> list[TreeNode]:
    """The nodes around a block below a place."""
    found: list[TreeNode] = []
    node = block.parent
    while node is not None and node is not place:
        found.append(node)
        node = node.parent
    return found


class _Undefined(Visitor):
    """Looks for what the analyzer does not show to be defined for all values of its variables."""

    remembers: ClassVar[bool] = True

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.found = False
        self._analyzer = analyzer

    def visit_BufferLoad(self, load: tir.BufferLoad) -> None:
        self.found = True

    def visit_BinaryOpExpr(self, node: Any) -> None:
        if may_divide_by_zero(node):
            self.found |= not self._analyzer.can_prove(node.b != 0)
        self.generic_visit(node)

    def visit_Call(self, call: tir.Call) -> None:
        if getattr(call.op, "name", "") in _SHIFTS:
            amount = call.args[1]
            is_defined = tir.operators.logical_and(amount >= 0, amount < dt.bits(call.dtype))
            self.found |= not self._analyzer.can_prove(is_defined)
            self.generic_visit(call)
        else:
            self.found |= may_fault(call)


def may_be_undefined(expr: tir.PrimExpr, analyzer: Analyzer) -> bool:
    """Whether there are values of the variables, as far as the analyzer knows them, for which an expression may not be evaluated: it
    divides by zero, shifts too far, loads out of bounds.
    """
    visitor = _Undefined(analyzer)
    visitor.visit(expr)
    return visitor.found
