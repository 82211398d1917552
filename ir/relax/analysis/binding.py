"""Variables and bindings of an expression: free, bound, used, called; from variables to values and to their users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import GlobalVar, RelaxExpr
from ...function import BaseFunc
from ...node import Visitor
from ..expr import Binding, DataflowBlock, SeqExpr, Var
from ..function import Function


class _VarVisitor(Visitor):
    """All variables, bound ones and references to global functions, each once, in order of appearance."""

    def __init__(self) -> None:
        super().__init__()
        self.all: dict[Var, None] = {}
        self.bound: dict[Var, None] = {}
        self.globals: dict[GlobalVar, None] = {}
        self.called: dict[GlobalVar, None] = {}

    def visit_Var(self, var: Any) -> None:
        if isinstance(var, Var):
            self.all.setdefault(var)

    def visit_GlobalVar(self, var: GlobalVar) -> None:
        self.globals.setdefault(var)

    def visit_Call(self, call: Any) -> None:
        if isinstance(call.op, GlobalVar):
            self.called.setdefault(call.op)
        self.generic_visit(call)

    def visit_Function(self, func: Function) -> None:
        for param in func.params:
            self.bound.setdefault(param)
            self.all.setdefault(param)
        self.visit(func.body)

    def visit_Binding(self, binding: Any) -> None:
        self.bound.setdefault(binding.var)
        self.all.setdefault(binding.var)
        self.visit(binding.value)

    def visit_PrimExpr(self, expr: Any) -> None:
        """Symbolic variables are no Relax variables."""

    def visit_PrimFunc(self, func: Any) -> None:
        """No Relax variables in there."""


def _visited(node: Any) -> _VarVisitor:
    visitor = _VarVisitor()
    visitor.visit(node)
    return visitor


def all_vars(expr: Any) -> list[Var]:
    """All Relax variables in an expression (or block), each once, in order of appearance."""
    return list(_visited(expr).all)


def bound_vars(expr: Any) -> list[Var]:
    """The variables that are parameters or bound within the expression."""
    return list(_visited(expr).bound)


def free_vars(expr: Any) -> list[Var]:
    """The variables that the expression uses and does not define."""
    visitor = _visited(expr)
    return [var for var in visitor.all if var not in visitor.bound]


def all_global_vars(expr: Any) -> list[GlobalVar]:
    """The references to functions of the module, each once."""
    return list(_visited(expr).globals)


def called_global_vars(expr: Any) -> list[GlobalVar]:
    """The functions of the module that the expression calls, each once."""
    return list(_visited(expr).called)


class _UsedVars(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.used: dict[Var, None] = {}

    def visit_Var(self, var: Any) -> None:
        if isinstance(var, Var):
            self.used.setdefault(var)

    def visit_Function(self, func: Function) -> None:
        self.visit(func.body)

    def visit_Binding(self, binding: Any) -> None:
        self.visit(binding.value)

    visit_PrimExpr = _VarVisitor.visit_PrimExpr
    visit_PrimFunc = _VarVisitor.visit_PrimFunc


def used_vars(node: Any) -> list[Var]:
    """The variables that an expression, block or binding reads (definitions do not count), each once."""
    visitor = _UsedVars()
    visitor.visit(node)
    return list(visitor.used)


class _Bindings(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Binding] = []

    def visit_Binding(self, binding: Any) -> None:
        self.found.append(binding)
        self.visit(binding.value)

    visit_PrimExpr = _VarVisitor.visit_PrimExpr
    visit_PrimFunc = _VarVisitor.visit_PrimFunc


def all_bindings(node: Any) -> list[Binding]:
    """All bindings in an expression, nested ones included, in order of appearance."""
    visitor = _Bindings()
    visitor.visit(node)
    return visitor.found


def get_var2val(func: Any) -> dict[Var, RelaxExpr]:
    """From each variable that the function binds to its value."""
    return {binding.var: binding.value for binding in all_bindings(func)}


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """From each name to the bindings of variables of that name."""
    table: dict[str, list[Binding]] = {}
    for binding in all_bindings(func):
        table.setdefault(binding.var.name_hint, []).append(binding)
    return table


def udchain(dfb: DataflowBlock) -> dict[Var, list[Var]]:
    """From each variable that a dataflow block uses or binds to the variables whose values use it."""
    table: dict[Var, list[Var]] = {}
    for binding in dfb.bindings:
        table.setdefault(binding.var, [])
        for var in used_vars(binding.value):
            users = table.setdefault(var, [])
            if binding.var not in users:
                users.append(binding.var)
    return table


def use_counts(func: Function) -> dict[Var, int]:
    """How many bindings (or results) use each variable; one that uses it twice counts twice."""
    counts: dict[Var, int] = {}

    def count(expr: Any) -> None:
        def visit(node: Any) -> None:
            if isinstance(node, Var):
                counts[node] = counts.get(node, 0) + 1
            elif isinstance(node, SeqExpr):
                walk(node)
            elif isinstance(node, Function):
                walk(node.body)
            else:
                node._visit_children(visit)

        visit(expr)

    def walk(seq: SeqExpr) -> None:
        for block in seq.blocks:
            for binding in block.bindings:
                count(binding.value)  # type: ignore[attr-defined]
        count(seq.body)

    walk(func.body)
    return counts


def post_order_visit(expr: Any, fvisit: Callable[[Any], None]) -> None:
    """Call ``fvisit`` on every distinct expression, those inside an expression before it.

    Variables are visited where they are used, and bindings after their values.
    """
    seen: set[int] = set()

    def walk(node: Any) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        node._visit_children(walk)
        if isinstance(node, RelaxExpr):
            fvisit(node)

    walk(expr)


def function_of(expr: RelaxExpr) -> BaseFunc:
    """A function that computes ``expr`` from its free variables."""
    if isinstance(expr, BaseFunc):
        return expr
    return Function(free_vars(expr), expr)
