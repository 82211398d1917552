"""How many arithmetic operations a program does."""

from __future__ import annotations

from typing import Any, ClassVar

from ...arith.analyzer import Analyzer
from ...arith.const_int_bound import ConstIntBound
from ...module import IRModule
from ...node import Node, Visitor
from .. import expr as E
from .. import stmt as S
from ..function import PrimFunc


class _Flops(Visitor):
    """Counts operations on stored values; arithmetic of indices is not counted."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._analyzer = Analyzer()

    def visit(self, node: Any) -> float:
        return float(super().visit(node))

    def generic_visit(self, node: Any) -> float:
        total = 0.0

        def add(child: Any) -> None:
            nonlocal total
            if isinstance(child, E.PrimExpr | S.Stmt):
                total += self.visit(child)

        node._visit_children(add)
        return total

    def visit_BinaryOpExpr(self, e: Any) -> float:
        return 1.0 + self.visit(e.a) + self.visit(e.b)

    visit_CmpExpr = visit_LogicalExpr = visit_BinaryOpExpr

    def visit_Not(self, e: E.Not) -> float:
        return 1.0 + self.visit(e.a)

    def visit_Select(self, e: E.Select) -> float:
        return self.visit(e.condition) + max(self.visit(e.true_value), self.visit(e.false_value))

    def visit_BufferLoad(self, e: E.BufferLoad) -> float:
        return 0.0

    def visit_BufferStore(self, store: S.BufferStore) -> float:
        return self.visit(store.value)

    def visit_For(self, loop: S.For) -> float:
        body = self.visit(loop.body)
        if isinstance(loop.extent, E.IntImm):
            extent: float = loop.extent.value
            self._analyzer.update(loop.loop_var, _bound(0, max(loop.extent.value - 1, 0)))
        else:
            high = self._analyzer.const_int_bound(loop.extent).max_value
            extent = high if high < 1 << 31 else 1
        return body * extent

    def visit_IfThenElse(self, stmt: S.IfThenElse) -> float:
        other = 0.0 if stmt.else_case is None else self.visit(stmt.else_case)
        return self.visit(stmt.condition) + max(self.visit(stmt.then_case), other)

    def visit_BlockRealize(self, realize: S.BlockRealize) -> float:
        return self.visit(realize.block)

    def visit_Block(self, block: S.Block) -> float:
        """The initialization of a reduction is not counted."""
        return self.visit(block.body)

    def visit_AttrStmt(self, stmt: S.AttrStmt) -> float:
        body = self.visit(stmt.body)
        if stmt.attr_key in ("thread_extent", "virtual_thread") and isinstance(stmt.value, E.IntImm):
            return body * stmt.value.value
        return body

    def visit_Allocate(self, stmt: Any) -> float:
        return self.visit(stmt.body)

    visit_AllocateConst = visit_DeclBuffer = visit_Allocate

    def visit_LetStmt(self, stmt: S.LetStmt) -> float:
        return self.visit(stmt.value) + self.visit(stmt.body)


def _bound(low: int, high: int) -> Any:
    return ConstIntBound(low, high)


def estimate_tir_flops(stmt_or_mod: S.Stmt | PrimFunc | IRModule) -> float:
    """Arithmetic operations that a statement, function or module does: loops multiply, the worse branch counts.

    A function's attribute ``estimated_flops`` overrides the count.
    """
    if isinstance(stmt_or_mod, IRModule):
        return sum(
            (
                estimate_tir_flops(func)
                for func in stmt_or_mod.functions.values()
                if isinstance(func, PrimFunc)
            ),
            0.0,
        )
    if isinstance(stmt_or_mod, PrimFunc):
        given = stmt_or_mod.attrs.get("estimated_flops")
        if given is not None:
            return float(getattr(given, "value", given))
        return _Flops().visit(stmt_or_mod.body)
    assert isinstance(stmt_or_mod, Node)
    return _Flops().visit(stmt_or_mod)
