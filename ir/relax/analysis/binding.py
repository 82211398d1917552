"""Variables and bindings of an expression: free, bound, used, called; from variables to values and to their users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import GlobalVar, RelaxExpr
from ...function import BaseFunc
from ...node import Visitor
from ...tir.expr import PrimExpr
from ...tir.function import PrimFunc
from ..expr import Binding, BindingBlock, Call, DataflowBlock, DataflowVar, SeqExpr, Var
from ..expr_substitution import mentions_relax_vars
from ..function import Function
from ..normalizer import LEAF_CLASSES
from ..struct_info import StructInfo


class _VarVisitor(Visitor):
    """All variables, bound ones and called global functions, each once, in order of appearance."""

    def __init__(self) -> None:
        super().__init__()
        self.all: dict[Var, None] = {}
        self.bound: dict[Var, None] = {}
        self.called: dict[GlobalVar, None] = {}

    def visit_Var(self, var: Any) -> None:
        if isinstance(var, Var):
            self.all.setdefault(var)

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
    return list(dict.fromkeys([leaf for leaf in leaves(expr) if leaf.__class__ is GlobalVar]))


def called_global_vars(expr: Any) -> list[GlobalVar]:
    """The functions of the module that the expression calls, each once."""
    return list(_visited(expr).called)


_VARIABLES = frozenset({Var, DataflowVar})


def leaves(node: Any) -> list[RelaxExpr]:
    """The leaf expressions (variables, constants, references, literals) that an expression, block or binding reads.

    They come in order of appearance, one that is read twice comes twice. Definitions do not count.
    """
    found: list[RelaxExpr] = []
    _collect_leaves(node, found)
    return found


def _collect_leaves(node: Any, found: list[RelaxExpr]) -> None:
    kind = node.__class__
    if kind in LEAF_CLASSES:
        found.append(node)
    elif kind is Call:
        _collect_leaves(node.op, found)
        for arg in node.args:
            if arg.__class__ in LEAF_CLASSES:
                found.append(arg)
            else:
                _collect_leaves(arg, found)
        for info in node.sinfo_args:
            if mentions_relax_vars(info):
                _collect_leaves(info, found)
    elif isinstance(node, Binding):
        _collect_leaves(node.value, found)  # type: ignore[attr-defined]
    elif kind is Function:
        _collect_leaves(node.body, found)
    elif not isinstance(node, PrimExpr | PrimFunc):  # symbolic variables are no Relax variables
        node._visit_children(lambda child: _collect_leaves(child, found))


def used_vars(node: Any) -> list[Var]:
    """The variables that an expression, block or binding reads (definitions do not count), each once."""
    return list(dict.fromkeys([leaf for leaf in leaves(node) if leaf.__class__ in _VARIABLES]))  # type: ignore[misc]


def all_bindings(node: Any) -> list[Binding]:
    """All bindings in an expression, nested ones included, in order of appearance."""
    found: list[Binding] = []
    _collect_bindings(node, found)
    return found


def _collect_bindings(node: Any, found: list[Binding]) -> None:
    kind = node.__class__
    if kind is Call:
        for part in (node.op, *node.args):
            if part.__class__ not in LEAF_CLASSES:
                _collect_bindings(part, found)
    elif isinstance(node, BindingBlock):
        for binding in node.bindings:
            found.append(binding)
            _collect_bindings(binding.value, found)  # type: ignore[attr-defined]
    elif isinstance(node, Binding):
        found.append(node)
        _collect_bindings(node.value, found)  # type: ignore[attr-defined]
    elif kind not in LEAF_CLASSES and not isinstance(node, StructInfo | PrimFunc):
        node._visit_children(lambda child: _collect_bindings(child, found))


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
