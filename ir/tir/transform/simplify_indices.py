"""SimplifyIndices: index arithmetic, conditions and trivial control flow, quickly."""

from __future__ import annotations

from dataclasses import dataclass

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier
from ...module import IRModule
from ...transform import PassContext
from .. import expr as E
from .. import operators
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr
from ..function import PrimFunc
from ..operators import const
from ..stmt import AssertStmt, Evaluate, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from ..stmt_functor import StmtExprMutator, substitute
from .prim_func_pass import PrimFuncPass

_FOLDING = {
    E.Add: operators.add, E.Sub: operators.subtract, E.Mul: operators.multiply, E.Div: operators.div, E.Mod: operators.truncmod,
    E.FloorDiv: operators.floordiv, E.FloorMod: operators.floormod, E.Min: operators.min, E.Max: operators.max,
}  # fmt: skip


class SimplifyMutator(StmtExprMutator):
    """Rewrites a statement with the bounds of the loops around; reusable inside other passes."""

    def __init__(self, simplifier: IndexSimplifier | None = None) -> None:
        super().__init__()
        self.simplifier = IndexSimplifier() if simplifier is None else simplifier
        self.simplifier.rewrite = self.visit

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    # -- expressions ---------------------------------------------------------
    def visit_BinaryOpExpr(self, node: E.BinaryOpExpr) -> PrimExpr:
        if dt.is_index(node.dtype):
            return self.simplifier.simplify(node)
        a, b = self.visit(node.a), self.visit(node.b)
        if (
            a is node.a
            and b is node.b
            and not isinstance(a, IntImm | E.FloatImm)
            and not isinstance(b, IntImm | E.FloatImm)
        ):
            return node
        return _FOLDING[type(node)](a, b)

    def visit_CmpExpr(self, node: E.CmpExpr) -> PrimExpr:
        if dt.is_index(node.a.dtype):
            truth = self.simplifier.truth(node)
            if truth is not None:
                return const(truth, "bool")
        mapped = self.generic_visit(node)
        if isinstance(mapped.a, IntImm | E.FloatImm) and isinstance(mapped.b, IntImm | E.FloatImm):
            return operators.compare(type(mapped), mapped.a, mapped.b)
        return mapped

    def visit_LogicalExpr(self, node: E.LogicalExpr) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return operators.logical_and(a, b) if isinstance(node, E.And) else operators.logical_or(a, b)

    def visit_Not(self, node: E.Not) -> PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else operators.logical_not(a)

    def visit_Cast(self, node: E.Cast) -> PrimExpr:
        if dt.is_index(node.dtype) and dt.is_index(node.value.dtype):
            return self.simplifier.simplify(node)
        value = self.visit(node.value)
        return node if value is node.value else operators.cast(node.dtype, value)

    def visit_Select(self, node: E.Select) -> PrimExpr:
        condition = self.visit(node.condition)
        if isinstance(condition, IntImm):
            return self.visit(node.true_value if condition.value else node.false_value)
        return self.generic_visit(node)

    def visit_Call(self, node: E.Call) -> PrimExpr:
        name = getattr(node.op, "name", "")
        if name == "tir.if_then_else":
            condition = self.visit(node.args[0])
            if isinstance(condition, IntImm):
                return self.visit(node.args[1] if condition.value else node.args[2])
        mapped = self.generic_visit(node)
        if name == "tir.likely" and isinstance(mapped.args[0], IntImm):
            return mapped.args[0]
        return mapped

    # -- statements ----------------------------------------------------------
    def visit_For(self, loop: For) -> Stmt:
        start, extent = self.visit(loop.min), self.visit(loop.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return Evaluate(const(0))
        self.simplifier.bind_range(loop.loop_var, start, extent)
        body = self.visit(loop.body)
        if isinstance(body, Evaluate) and isinstance(body.value, IntImm):
            return body
        if isinstance(extent, IntImm) and extent.value == 1 and loop.kind != ForKind.THREAD_BINDING:
            if not loop.annotations:
                low, high = self.simplifier.bounds(loop.loop_var)
                if low == high:  # uses of the variable were replaced by its value already
                    return substitute(body, {loop.loop_var: start})
        if start is loop.min and extent is loop.extent and body is loop.body:
            return loop
        return For(
            loop.loop_var, start, extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.span
        )

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
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

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        if isinstance(value, IntImm) and dt.is_index(value.dtype):
            return self.visit(substitute(node.body, {node.var: value}))
        if dt.is_index(value.dtype):
            self.simplifier.bind(node.var, *self.simplifier.bounds(value))
        body = self.visit(node.body)
        return (
            node if value is node.value and body is node.body else LetStmt(node.var, value, body, node.span)
        )

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.visit(node.condition)
        body = self.visit(node.body)
        if isinstance(condition, IntImm) and condition.value:
            return body
        return node.replace(condition=condition, body=body)


@dataclass(frozen=True)
class SimplifyIndices(PrimFuncPass):
    """Simplify integer expressions under the loops' bounds, fold constants, drop what never runs: quick, for lowering.

    :class:`~ir.tir.transform.Simplify` also knows conditions, assertions and all rules of :mod:`ir.arith`.

    Before::

        for i, j in T.grid(4, 8):
            if i * 8 + j < 32:
                A[(i * 8 + j) // 8 * 8 + (i * 8 + j) % 8] = 0.0

    After::

        for i, j in T.grid(4, 8):
            A[i * 8 + j] = 0.0
    """

    pass_name = "tir.SimplifyIndices"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The simplified function."""
        return func.replace(body=SimplifyMutator().visit(func.body))
