"""How many arithmetic operations a program does."""

from __future__ import annotations

from typing import Any, ClassVar

from ...arith.analyzer import Analyzer
from ...module import IRModule
from ...node import Node, Visitor, post_order_visit
from .. import expr as E
from .. import stmt as S
from ..expr import PrimExpr
from ..function import PrimFunc
from ..operators import const
from ..stmt_functor import substitute
from .undefined_vars import undefined_vars

_ENUMERATED = 1024
"""Iterations at most of which each is counted by itself, where their work differs; of more, the first and the last are."""


class _Flops(Visitor):
    """Counts operations on stored values; arithmetic of indices, conditions and loops is not counted."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._analyzer = Analyzer()
        self._values: dict[E.Var, PrimExpr] = {}  # of the loop variables on which loops inside depend

    def visit(self, node: Any) -> float:
        return float(super().visit(node))

    def generic_visit(self, node: Any) -> float:
        total = 0.0

        def add(child: Any) -> None:
            nonlocal total
            if isinstance(child, PrimExpr | S.Stmt):
                total += self.visit(child)

        node._visit_children(add)
        return total

    # -- values -----------------------------------------------------------------
    def visit_BinaryOpExpr(self, e: Any) -> float:
        return 1.0 + self.visit(e.a) + self.visit(e.b)

    visit_CmpExpr = visit_LogicalExpr = visit_BinaryOpExpr

    def visit_Not(self, e: E.Not) -> float:
        return 1.0 + self.visit(e.a)

    def visit_Select(self, e: E.Select) -> float:
        return max(self.visit(e.true_value), self.visit(e.false_value))

    def visit_Call(self, e: E.Call) -> float:
        if getattr(e.op, "name", "") == "tir.if_then_else":
            return max(self.visit(e.args[1]), self.visit(e.args[2]))
        return self.generic_visit(e)

    def visit_BufferLoad(self, e: E.BufferLoad) -> float:
        return 0.0

    # -- statements -------------------------------------------------------------
    def visit_BufferStore(self, store: S.BufferStore) -> float:
        return self.visit(store.value)

    def visit_Evaluate(self, stmt: S.Evaluate) -> float:
        return 0.0

    def visit_LetStmt(self, stmt: S.LetStmt) -> float:
        return self.visit(stmt.value) + self.visit(stmt.body)

    def visit_For(self, loop: S.For) -> float:
        extent = self._number(loop.extent)
        count = 1 if extent is None else max(extent, 0)
        start = self._number(loop.min)
        if start is None or count == 0 or not _varies_with(loop.body, loop.loop_var):
            return count * self.visit(loop.body)
        if count <= _ENUMERATED:
            return sum(self._iteration(loop, start + i) for i in range(count))
        return count * (self._iteration(loop, start) + self._iteration(loop, start + count - 1)) / 2

    def _iteration(self, loop: S.For, value: int) -> float:
        self._values[loop.loop_var] = const(value, loop.loop_var.dtype)
        result = self.visit(loop.body)
        del self._values[loop.loop_var]
        return result

    def _number(self, expr: PrimExpr) -> int | None:
        """An extent or start, None where nothing bounds it."""
        if isinstance(expr, E.IntImm):
            return expr.value
        found = self._analyzer.simplify(substitute(expr, self._values)) if self._values else expr
        return found.value if isinstance(found, E.IntImm) else None

    def visit_IfThenElse(self, stmt: S.IfThenElse) -> float:
        other = 0.0 if stmt.else_case is None else self.visit(stmt.else_case)
        return max(self.visit(stmt.then_case), other)

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

    def visit_While(self, stmt: S.While) -> float:
        return self.visit(stmt.body)

    def visit_Allocate(self, stmt: Any) -> float:
        return self.visit(stmt.body)

    visit_AllocateConst = visit_DeclBuffer = visit_AssertStmt = visit_Allocate


def _varies_with(body: S.Stmt, var: E.Var) -> bool:
    """Whether some loop in a body runs as often as a variable says."""
    found = False

    def check(node: Any) -> None:
        nonlocal found
        if isinstance(node, S.For) and not isinstance(node.extent, E.IntImm):
            found = found or var in undefined_vars(node.extent)

    post_order_visit(body, check)
    return found


def estimate_tir_flops(stmt_or_mod: S.Stmt | PrimFunc | IRModule) -> float:
    """Arithmetic operations on what a statement, function or module stores: loops multiply, the worse branch counts.

    Indices, conditions and the choice between values are not counted; a loop whose extent nothing bounds counts once.

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
