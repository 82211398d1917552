"""Simplify: expressions under all that the statements around say - ranges, conditions, assertions, bound values."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, Any

from ... import dtype as dt
from ...arith.analyzer import Analyzer, constraints
from ...arith.comparison import Extension
from ...arith.domain import is_number
from ...module import IRModule
from ...transform import PassContext, PassError
from .. import expr as E
from .. import operators
from ..analysis.empty_domains import AroundReductions, initializes
from ..analysis.reads_memory import reads_memory
from ..buffer import Buffer
from ..conjunction import conjuncts
from ..expr import IntImm, PrimExpr, Range
from ..function import PrimFunc
from ..operators import const
from ..stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
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
from .memory_facts import MemoryFacts
from .prim_func_pass import PrimFuncPass

if TYPE_CHECKING:
    from ...arith.analyzer import Analyzer


class StatementSimplifier(AroundReductions, StmtExprMutator):
    """Rewrites a statement with an analyzer that knows the statements around."""

    def __init__(self, analyzer: Analyzer, func: PrimFunc | None = None) -> None:
        super().__init__()
        self.analyzer = analyzer
        self._memory = MemoryFacts(func)

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        """Declarations stay as they are."""
        return buffer

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        """An index or a condition, with everything inside of it."""
        return self.analyzer.simplify_index(node)  # type: ignore[no-any-return]

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        value = self.analyzer.simplify_data(node.value)
        return node if value is node.value else Evaluate(value, node.span)

    def visit_IterVar(self, node: E.IterVar) -> E.IterVar:
        """The variable of a block or thread: only its domain is an expression."""
        return node.replace(dom=self.visit(node.dom)) if node.dom is not None else node

    def visit_For(self, loop: For) -> Stmt:
        is_fixed = self.is_fixed(loop)
        start, extent = (
            (loop.min, loop.extent) if is_fixed else (self.visit(loop.min), self.visit(loop.extent))
        )
        if isinstance(extent, IntImm) and extent.value <= 0 and not initializes(loop):
            return Evaluate(const(0))
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(start, extent))
        body = self.below(loop, lambda: self.visit(loop.body))
        if start is loop.min and extent is loop.extent and body is loop.body:
            return loop
        return loop.replace(min=start, extent=extent, body=body)

    def visit_Block(self, block: Block) -> Block:
        for item in block.iter_vars:
            self.analyzer.bind(item.var, item.dom)
        return self.generic_visit(block)  # type: ignore[no-any-return]

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.thread is not None:
            extent = self.visit(node.value)
            self.analyzer.bind(node.thread.var, Range.from_min_extent(const(0, extent.dtype), extent))
        value = self.visit(node.value) if isinstance(node.value, PrimExpr) else node.value
        body = self.visit(node.body)
        return node if value is node.value and body is node.body else node.replace(value=value, body=body)

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        mapped = self.generic_visit(node)
        if not self.is_fixed(node):
            return mapped  # type: ignore[no-any-return]
        return mapped.replace(iter_values=node.iter_values, predicate=node.predicate)  # type: ignore[no-any-return]

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        is_fixed = self.is_fixed(node)
        condition = node.condition if is_fixed else self.visit(node.condition)
        if not isinstance(condition, IntImm) and not is_fixed:
            if self.analyzer.can_prove(condition):
                condition = const(True)
            elif self.analyzer.can_prove(operators.logical_not(condition)):
                condition = const(False)
        if isinstance(condition, IntImm):
            taken = node.then_case if condition.value else node.else_case
            return self.visit(taken) if taken is not None else Evaluate(const(0))  # type: ignore[no-any-return]
        with self._knowing(condition, node.then_case):
            then = self.visit(node.then_case)
        otherwise = None
        if node.else_case is not None:
            opposite = self.analyzer.simplify_index(operators.logical_not(condition))
            with self._knowing(opposite, node.else_case):
                otherwise = self.visit(node.else_case)
            if isinstance(otherwise, Evaluate) and isinstance(otherwise.value, IntImm):
                otherwise = None
        if condition is node.condition and then is node.then_case and otherwise is node.else_case:
            return node
        return IfThenElse(condition, then, otherwise, node.span)

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.visit(node.condition)
        with self._knowing(condition, node.body):
            body = self.visit(node.body)
        if isinstance(condition, IntImm) and condition.value:
            return body  # type: ignore[no-any-return]
        return node.replace(condition=condition, body=body)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        is_index = is_number(node.value.dtype) and self.analyzer.is_index(node.value)
        if self.is_fixed(node):
            value = node.value
        else:
            value = self.visit(node.value) if is_index else self._data_of_let(node.value)
        if self._may_inline(value):
            return self.visit(substitute(node.body, {node.var: value}))  # type: ignore[no-any-return]
        if not is_index:
            self.analyzer.mark_data(node.var)
        body = self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return LetStmt(node.var, value, body, node.span)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        value = self.analyzer.simplify_data(node.value)
        indices = [self.visit(index) for index in node.indices]
        predicate = None if node.predicate is None else self.visit(node.predicate)
        is_same = value is node.value and predicate is node.predicate and all(map(is_, indices, node.indices))
        mapped = node if is_same else BufferStore(node.buffer, value, indices, predicate, node.span)
        if (
            isinstance(value, E.BufferLoad)
            and value.buffer is mapped.buffer
            and mapped.predicate is None
            and all(self.analyzer.can_prove_equal(a, b) for a, b in zip(value.indices, mapped.indices))
        ):
            return Evaluate(const(0))  # an element stored to itself
        return mapped

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        mapped = [self.visit(item) for item in node.seq]
        return node if all(a is b for a, b in zip(mapped, node.seq)) else seq(mapped)

    def _knowing(self, condition: PrimExpr, guarded: Stmt) -> AbstractContextManager[Any]:
        """A scope in which holds what a condition says, as long as no statement in it writes what the condition reads."""
        lasting = [part for part in conjuncts(condition) if not self._memory.may_change(part, guarded)]
        return constraints(self.analyzer, *lasting)

    def _data_of_let(self, before: PrimExpr) -> PrimExpr:
        after = self.analyzer.simplify_data(before)
        return before if self.analyzer.changes_meaning(before, after) else after

    def _may_inline(self, value: PrimExpr) -> bool:
        """Constants, variables, and integers that are computed from such alone: they have no effect and stay the same.

        Not what wraps: among indices it would not.
        """
        if isinstance(value, IntImm | E.FloatImm | E.Var):
            return True
        if not dt.is_integral(value.dtype):
            return False
        if dt.is_bool(value.dtype) or is_number(value.dtype):
            if not self.analyzer.is_index(value) or dt.is_bool(value.dtype):
                return False
        return not reads_memory(value)


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
        return func.replace(body=StatementSimplifier(analyzer, func).visit(func.body))
