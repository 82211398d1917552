"""Simplify: expressions under all that the statements around say - ranges, conditions, assertions, bound values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...arith.comparison import Extension
from ...module import IRModule
from ...node import post_order_visit
from ...transform import PassContext, PassError
from .. import expr as E
from .. import operators
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Range
from ..function import PrimFunc
from ..intrinsic.declaration import CallEffectKind, effect_of
from ..operators import const
from ..stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from ..stmt_functor import StmtExprMutator, substitute
from .prim_func_pass import PrimFuncPass

if TYPE_CHECKING:
    from ...arith.analyzer import Analyzer


class StatementSimplifier(StmtExprMutator):
    """Rewrites a statement with an analyzer that knows the statements around."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.analyzer = analyzer

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        """Declarations stay as they are."""
        return buffer

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        """An expression, with everything inside of it."""
        return self.analyzer.simplify(node)  # type: ignore[no-any-return]

    def visit_IterVar(self, node: E.IterVar) -> E.IterVar:
        """The variable of a block or thread: only its domain is an expression."""
        return node.replace(dom=self.visit(node.dom)) if node.dom is not None else node

    def visit_For(self, loop: For) -> Stmt:
        start, extent = self.visit(loop.min), self.visit(loop.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return Evaluate(const(0))
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(start, extent))
        body = self.visit(loop.body)
        if start is loop.min and extent is loop.extent and body is loop.body:
            return loop
        return loop.replace(min=start, extent=extent, body=body)

    def visit_Block(self, block: Block) -> Block:
        for item in block.iter_vars:
            self.analyzer.bind(item.var, item.dom)
        return self.generic_visit(block)  # type: ignore[no-any-return]

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key in ("thread_extent", "virtual_thread") and isinstance(node.node, E.IterVar):
            extent = self.visit(node.value)
            self.analyzer.bind(node.node.var, Range.from_min_extent(const(0, extent.dtype), extent))
        value = self.visit(node.value) if isinstance(node.value, PrimExpr) else node.value
        body = self.visit(node.body)
        return node if value is node.value and body is node.body else node.replace(value=value, body=body)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        if not isinstance(condition, IntImm):
            if self.analyzer.can_prove(condition):
                condition = const(True)
            elif self.analyzer.can_prove(operators.logical_not(condition)):
                condition = const(False)
        if isinstance(condition, IntImm):
            taken = node.then_case if condition.value else node.else_case
            return self.visit(taken) if taken is not None else Evaluate(const(0))  # type: ignore[no-any-return]
        with self.analyzer.constraint_scope(condition):
            then = self.visit(node.then_case)
        otherwise = None
        if node.else_case is not None:
            with self.analyzer.constraint_scope(self.analyzer.simplify(operators.logical_not(condition))):
                otherwise = self.visit(node.else_case)
            if isinstance(otherwise, Evaluate) and isinstance(otherwise.value, IntImm):
                otherwise = None
        if condition is node.condition and then is node.then_case and otherwise is node.else_case:
            return node
        return IfThenElse(condition, then, otherwise, node.span)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.visit(node.condition)
        with self.analyzer.constraint_scope(condition):
            body = self.visit(node.body)
        if isinstance(condition, IntImm) and condition.value:
            return body  # type: ignore[no-any-return]
        return node.replace(condition=condition, body=body)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        if _may_inline(value):
            return self.visit(substitute(node.body, {node.var: value}))  # type: ignore[no-any-return]
        body = self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return LetStmt(node.var, value, body, node.span)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        mapped = self.generic_visit(node)
        value = mapped.value
        if (
            isinstance(value, E.BufferLoad)
            and value.buffer is mapped.buffer
            and mapped.predicate is None
            and all(self.analyzer.can_prove_equal(a, b) for a, b in zip(value.indices, mapped.indices))
        ):
            return Evaluate(const(0))  # an element stored to itself
        return mapped  # type: ignore[no-any-return]

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = [self.visit(item) for item in node.seq]
        return node if all(a is b for a, b in zip(mapped, node.seq)) else seq(mapped)


def _may_inline(value: PrimExpr) -> bool:
    """Constants, variables, and integers that are computed from such alone: they have no effect and stay the same."""
    if isinstance(value, IntImm | E.FloatImm | E.Var):
        return True
    if not dt.is_integral(value.dtype):
        return False
    found: list[bool] = []

    def check(node: Any) -> None:
        if isinstance(node, E.BufferLoad) or (
            isinstance(node, E.Call) and effect_of(node) > CallEffectKind.PURE
        ):
            found.append(True)

    post_order_visit(value, check)
    return not found


_EXTENSIONS = {
    "transitively_prove_inequalities": Extension.TransitivelyProveInequalities,
    "convert_boolean_to_and_of_ors": Extension.ConvertBooleanToAndOfOrs,
    "apply_constraints_to_boolean_branches": Extension.ApplyConstraintsToBooleanBranches,
}
"""What the option ``tir.Simplify`` can ask for."""


@dataclass(frozen=True)
class Simplify(PrimFuncPass):
    """Simplify expressions with all of :mod:`ir.arith`, and statements whose condition or value is known.

    The option ``tir.Simplify`` of the PassContext is a dict with the extra work on conditions to do:
    ``transitively_prove_inequalities``, ``convert_boolean_to_and_of_ors``, ``apply_constraints_to_boolean_branches``
    (:class:`ir.arith.Extension`).

    Before::

        if n < 10:
            if n < 20:
                A[n // 4 * 4 + n % 4] = 0.0

    After::

        if n < 10:
            A[n] = 0.0
    """

    pass_name = "tir.Simplify"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The simplified function."""
        analyzer = Analyzer()
        flags = Extension.NoExtensions
        for name, wanted in (ctx.get("tir.Simplify") or {}).items():
            if name not in _EXTENSIONS:
                raise PassError(
                    f"config option 'tir.Simplify' has no entry {name!r}; there are {', '.join(_EXTENSIONS)}"
                )
            if wanted:
                flags |= _EXTENSIONS[name]
        analyzer.enabled_extensions = flags
        return func.replace(body=StatementSimplifier(analyzer).visit(func.body))
