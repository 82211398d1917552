"""SimplifyIndices: index arithmetic, conditions and trivial control flow, quickly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier
from ...module import IRModule
from ...transform import PassContext
from .. import expr as E
from ..analysis.empty_domains import initializes
from ..expr import IntImm, PrimExpr
from ..function import PrimFunc
from ..operators import const
from ..stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, LetStmt, Stmt
from ..stmt_functor import substitute
from .constant_folder import ConstantFolder
from .fresh_copy import renamed
from .positions import PositionedMutator
from .prim_func_pass import PrimFuncPass


class SimplifyMutator(ConstantFolder, PositionedMutator):
    """Rewrites a statement with the bounds of the loops around; reusable inside other passes."""

    def __init__(self, simplifier: IndexSimplifier | None = None) -> None:
        self.simplifier = IndexSimplifier() if simplifier is None else simplifier
        PositionedMutator.__init__(self, self.simplifier.is_index)
        self.simplifier.rewrite = self.visit

    def with_parts(self, node: Any) -> Any:
        """A choice, call, load or store with its parts visited in their positions."""
        return _POSITIONED[type(node)](self, node)

    def condition(self, node: PrimExpr) -> PrimExpr:
        """What a choice depends on."""
        return self.as_number(node)

    def is_exact(self, node: PrimExpr) -> bool:
        """Whether nothing in an expression can wrap, under the bounds of the loops."""
        if isinstance(node, E.CmpExpr):
            return self.simplifier.exact(node.a) and self.simplifier.exact(node.b)
        return self.simplifier.exact(node)

    # -- expressions ---------------------------------------------------------
    def visit_BinaryOpExpr(self, node: E.BinaryOpExpr) -> PrimExpr:
        return PositionedMutator.visit_BinaryOpExpr(self, node)

    def operation(self, node: E.BinaryOpExpr) -> PrimExpr:
        result = self._of_numbers(node) if dt.is_index(node.dtype) else None
        return ConstantFolder.visit_BinaryOpExpr(self, node) if result is None else result

    def _of_numbers(self, node: PrimExpr) -> PrimExpr | None:
        """An int32 or int64 expression in short form; None where it is data that may wrap, before or after."""
        if not self.in_data:
            return self.simplifier.simplify(node)
        if not self.simplifier.exact(node):
            return None
        result = self.simplifier.simplify(node)
        return result if self.simplifier.exact(result) else None

    def visit_CmpExpr(self, node: E.CmpExpr) -> PrimExpr:
        if self.in_data:
            return self.comparison(node)
        truth = self.simplifier.truth(node)
        return PositionedMutator.visit_CmpExpr(self, node) if truth is None else const(truth, "bool")

    def comparison(self, node: E.CmpExpr) -> PrimExpr:
        if self.in_data and dt.is_index(node.a.dtype):
            truth = self.simplifier.truth_of_data(node)
            if truth is not None:
                return const(truth, "bool")
        return ConstantFolder.visit_CmpExpr(self, node)

    def visit_Cast(self, node: E.Cast) -> PrimExpr:
        return PositionedMutator.visit_Cast(self, node)

    def conversion(self, node: E.Cast) -> PrimExpr:
        is_integer = dt.is_index(node.dtype) and dt.is_index(node.value.dtype)
        result = self._of_numbers(node) if is_integer else None
        return ConstantFolder.visit_Cast(self, node) if result is None else result

    def visit_Let(self, node: E.Let) -> PrimExpr:
        if self.simplifier.is_bound(node.var):  # by a loop elsewhere: its bounds are not those of the value
            node = renamed(node)
        return PositionedMutator.visit_Let(self, node)

    # -- statements ----------------------------------------------------------
    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        self.simplifier.bind_thread(stmt)
        return super().visit_AttrStmt(stmt)

    def visit_For(self, loop: For) -> Stmt:
        start, extent = self.visit(loop.min), self.visit(loop.extent)
        if isinstance(extent, IntImm) and extent.value <= 0 and not initializes(loop):
            return Evaluate(const(0))
        self.simplifier.bind_range(loop.loop_var, start, extent)
        mapped = super().visit_For(loop)
        if (
            isinstance(mapped, For)
            and isinstance(extent, IntImm)
            and extent.value == 1
            and loop.kind != ForKind.THREAD_BINDING
            and not loop.annotations
            and not initializes(mapped)
        ):
            low, high = self.simplifier.bounds(loop.loop_var)
            if low == high:  # uses of the variable were replaced by its value already
                return substitute(mapped.body, {loop.loop_var: start})
        return mapped

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = node.value if self.is_fixed(node) else self._bound(node)
        if isinstance(value, IntImm) and dt.is_index(value.dtype):
            return self.visit(substitute(node.body, {node.var: value}))
        if dt.is_index(value.dtype):
            self.simplifier.bind(node.var, *self.simplifier.bounds_of_value(value))
        body = self.visit(node.body)
        return (
            node if value is node.value and body is node.body else LetStmt(node.var, value, body, node.span)
        )


_POSITIONED: dict[type, Callable[[SimplifyMutator, Any], Any]] = {
    E.Select: PositionedMutator.visit_Select,
    E.Call: PositionedMutator.visit_Call,
    E.BufferLoad: PositionedMutator.visit_BufferLoad,
    BufferStore: PositionedMutator.visit_BufferStore,
}


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
