"""Find accesses that certainly or possibly lie outside of their buffers, as far as ranges of loops tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...arith.analyzer import Analyzer
from ...arith.int_set.evaluation import eval_set
from ...arith.int_set.interval_set import from_range, neg_inf, pos_inf
from ...error import IRValueError
from ...module import IRModule
from ...node import Visitor
from ...transform import ModulePass, PassContext
from .. import expr as E
from .. import operators
from .. import stmt as S
from ..expr import Range
from ..function import PrimFunc


class OutOfBoundsError(IRValueError):
    """An index lies outside of its buffer."""


class _Checker(Visitor):
    """Knows the ranges of loops and block variables and the conditions around; collects what is out of bounds."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._analyzer = Analyzer()
        self._domains: dict[Any, Any] = {}
        self.problems: list[str] = []

    def visit_For(self, loop: S.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        domain = Range.from_min_extent(loop.min, loop.extent)
        self._analyzer.bind(loop.loop_var, domain)
        self._domains[loop.loop_var] = from_range(domain)
        self.visit(loop.body)

    def visit_BlockRealize(self, realize: S.BlockRealize) -> None:
        for value in realize.iter_values:
            self.visit(value)
        with self._analyzer.constraint_scope(realize.predicate):
            for iv in realize.block.iter_vars:
                self._analyzer.bind(iv.var, iv.dom)
                self._domains[iv.var] = from_range(iv.dom)
            if realize.block.init is not None:
                self.visit(realize.block.init)
            self.visit(realize.block.body)

    def visit_IfThenElse(self, stmt: S.IfThenElse) -> None:
        self.visit(stmt.condition)
        with self._analyzer.constraint_scope(stmt.condition):
            self.visit(stmt.then_case)
        if stmt.else_case is not None:
            with self._analyzer.constraint_scope(E.Not(stmt.condition)):
                self.visit(stmt.else_case)

    def visit_Call(self, call: E.Call) -> None:
        if getattr(call.op, "name", "") == "tir.if_then_else":
            self.visit(call.args[0])
            with self._analyzer.constraint_scope(call.args[0]):
                self.visit(call.args[1])
            with self._analyzer.constraint_scope(E.Not(call.args[0])):
                self.visit(call.args[2])
            return
        self.generic_visit(call)

    def visit_BufferLoad(self, load: E.BufferLoad) -> None:
        self._check(load.buffer, load.indices, "load")
        for index in load.indices:
            self.visit(index)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        self._check(store.buffer, store.indices, "store")
        self.visit(store.value)
        for index in store.indices:
            self.visit(index)

    def visit_Buffer(self, buffer: Any) -> None:
        """Declarations are no accesses."""

    def visit_Op(self, op: Any) -> None:
        """Nothing inside."""

    def _check(self, buffer: Any, indices: Any, what: str) -> None:
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape)):
            analyzer = self._analyzer
            bound = analyzer.const_int_bound(index)
            reach = eval_set(index, self._domains, analyzer)
            low, high = reach.min_value, reach.max_value
            # Both the constant bound (which conditions narrow) and the reach over the loops must be outside.
            below = (
                low is not neg_inf()
                and bound.min_value < 0
                and analyzer.can_prove(operators.compare(E.LT, low, 0))
            )
            above = (
                high is not pos_inf()
                and bound.max_value >= analyzer.const_int_bound(extent).min_value
                and analyzer.can_prove(operators.compare(E.GE, high, extent))
            )
            if below or above:
                self.problems.append(
                    f"{what} of buffer {buffer.name} in {self._name}: index {index!r} of dimension {axis} reaches"
                    f" [{low!r}, {high!r}], the extent is {extent!r}"
                )


@dataclass(frozen=True)
class OOBChecker(ModulePass):
    """A pass that changes nothing and raises OutOfBoundsError, listing all, where an access leaves its buffer."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The same module."""
        problems: list[str] = []
        for var, func in mod.functions_items():
            if isinstance(func, PrimFunc):
                checker = _Checker(var.name_hint)
                checker.visit(func.body)
                problems += checker.problems
        if problems:
            raise OutOfBoundsError("accesses out of bounds:\n" + "\n".join(f"  {item}" for item in problems))
        return mod
