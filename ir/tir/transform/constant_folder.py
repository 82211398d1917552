"""Folding of constants: what a walk over statements does when variables have become numbers."""

from __future__ import annotations

from typing import Any

from .. import expr as E
from .. import operators
from ..analysis.empty_domains import AroundReductions, initializes
from ..buffer import Buffer
from ..effects import has_effect
from ..expr import IntImm, PrimExpr
from ..intrinsic.declaration import is_transparent
from ..operators import const
from ..stmt import AssertStmt, BlockRealize, BufferStore, Evaluate, For, IfThenElse, SeqStmt, Stmt, seq
from ..stmt_functor import StmtExprMutator

_FOLDING = {
    E.Add: operators.add, E.Sub: operators.subtract, E.Mul: operators.multiply, E.Div: operators.div, E.Mod: operators.truncmod,
    E.FloorDiv: operators.floordiv, E.FloorMod: operators.floormod, E.Min: operators.min, E.Max: operators.max,
}  # fmt: skip

_CONSTANTS = (E.IntImm, E.FloatImm)
_DIVISIONS = (E.Div, E.Mod, E.FloorDiv, E.FloorMod)
"""By zero they stay as they are: they may be in code that never runs."""


def _uniform(mask: PrimExpr) -> bool | None:
    """What a constant mask is in all lanes; None if it is not constant."""
    value = mask.value if isinstance(mask, E.Broadcast) else mask
    return bool(value.value) if isinstance(value, IntImm) else None


def _loses_effects(made: PrimExpr, *operands: PrimExpr) -> bool:
    """Whether a constant stands for operands that must be evaluated."""
    return made.__class__ in _CONSTANTS and any(has_effect(operand) for operand in operands)


class ConstantFolder(AroundReductions, StmtExprMutator):
    """Computes operations on constants, and keeps of conditions, loops and assertions what can still happen.

    Expressions keep their form otherwise. :class:`~.simplify_indices.SimplifyMutator` adds what the bounds of loops tell.
    """

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def with_parts(self, node: Any) -> Any:
        """A choice, call, load or store with its parts visited."""
        return self.generic_visit(node)

    # -- expressions ---------------------------------------------------------
    def visit_BinaryOpExpr(self, node: E.BinaryOpExpr) -> PrimExpr:
        return self.folded(node, self.visit(node.a), self.visit(node.b))

    def folded(self, node: E.BinaryOpExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """An operation on these operands instead of its own."""
        by_zero = isinstance(node, _DIVISIONS) and b.__class__ is IntImm and b.value == 0
        if not by_zero and (a.__class__ in _CONSTANTS or b.__class__ in _CONSTANTS):
            made = _FOLDING[type(node)](a, b)
            if not _loses_effects(made, a, b):
                return made
        return node if a is node.a and b is node.b else node._rebuild(a, b, node.span)

    def visit_CmpExpr(self, node: E.CmpExpr) -> PrimExpr:
        mapped = self.generic_visit(node)
        if mapped.a.__class__ in _CONSTANTS and mapped.b.__class__ in _CONSTANTS:
            return operators.compare(type(mapped), mapped.a, mapped.b)
        return mapped

    def visit_LogicalExpr(self, node: E.LogicalExpr) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        made = operators.logical_and(a, b) if isinstance(node, E.And) else operators.logical_or(a, b)
        return type(node)(a, b, node.span) if _loses_effects(made, a) else made

    def visit_Not(self, node: E.Not) -> PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else operators.logical_not(a)

    def visit_Cast(self, node: E.Cast) -> PrimExpr:
        value = self.visit(node.value)
        return node if value is node.value else operators.cast(node.dtype, value)

    def visit_Select(self, node: E.Select) -> PrimExpr:
        condition = self.condition(node.condition)
        if isinstance(condition, IntImm):
            return self.visit(node.true_value if condition.value else node.false_value)
        return self.with_parts(node)

    def condition(self, node: PrimExpr) -> PrimExpr:
        """What a choice depends on."""
        return self.visit(node)

    def visit_Call(self, node: E.Call) -> PrimExpr:
        name = getattr(node.op, "name", "")
        if name == "tir.if_then_else":
            condition = self.condition(node.args[0])
            if isinstance(condition, IntImm):
                return self.visit(node.args[1] if condition.value else node.args[2])
        mapped = self.with_parts(node)
        if is_transparent(node) and isinstance(mapped.args[0], IntImm):
            return mapped.args[0]
        return mapped

    def visit_BufferLoad(self, node: E.BufferLoad) -> PrimExpr:
        mapped: E.BufferLoad = self.with_parts(node)
        holds = None if mapped.predicate is None else _uniform(mapped.predicate)
        if holds is None:
            return mapped
        return E.BufferLoad(mapped.buffer, mapped.indices) if holds else const(0, mapped.dtype)

    # -- statements ----------------------------------------------------------
    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        mapped: BufferStore = self.with_parts(node)
        holds = None if mapped.predicate is None else _uniform(mapped.predicate)
        if holds is None:
            return mapped
        return mapped.replace(predicate=None) if holds else Evaluate(const(0))

    def visit_For(self, loop: For) -> Stmt:
        is_fixed = self.is_fixed(loop)
        start, extent = (
            (loop.min, loop.extent) if is_fixed else (self.visit(loop.min), self.visit(loop.extent))
        )
        if isinstance(extent, IntImm) and extent.value <= 0 and not initializes(loop):
            return Evaluate(const(0))
        body = self.below(loop, lambda: self.visit(loop.body))
        if isinstance(body, Evaluate) and isinstance(body.value, IntImm):
            return body
        if start is loop.min and extent is loop.extent and body is loop.body:
            return loop
        return loop.replace(min=start, extent=extent, body=body)

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        mapped = self.generic_visit(node)
        if not self.is_fixed(node):
            return mapped
        return mapped.replace(iter_values=node.iter_values, predicate=node.predicate)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = node.condition if self.is_fixed(node) else self.visit(node.condition)
        if isinstance(condition, IntImm):
            if condition.value:
                return self.visit(node.then_case)
            return self.visit(node.else_case) if node.else_case is not None else Evaluate(const(0))
        then = self.visit(node.then_case)
        otherwise = self.visit(node.else_case) if node.else_case is not None else None
        if condition is node.condition and then is node.then_case and otherwise is node.else_case:
            return node
        return IfThenElse(condition, then, otherwise, node.span)

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = [self.visit(item) for item in node.seq]
        if all(a is b for a, b in zip(mapped, node.seq)):
            return node
        return seq(mapped)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.visit(node.condition)
        body = self.visit(node.body)
        if isinstance(condition, IntImm) and condition.value:
            return body
        return node.replace(condition=condition, body=body)
