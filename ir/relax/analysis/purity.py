"""Purity (which calls have effects beyond their result) and recursion among a module's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...node import Visitor
from ..expr import Call, Var
from ..function import Function
from .binding import all_global_vars
from .memory import is_pure, is_removable


class _Purity(Visitor):
    def __init__(self, own_name: Any, holds: Callable[[Call], bool] = is_pure) -> None:
        super().__init__()
        self.own_name, self.holds = own_name, holds
        self.found: Call | None = None

    def visit_Call(self, call: Any) -> None:
        if not isinstance(call, Call) or self.found is not None:
            return
        for arg in call.args:
            self.visit(arg)
        own = isinstance(self.own_name, Var) and isinstance(call.op, Var) and call.op.vid is self.own_name.vid
        own = own or (
            isinstance(self.own_name, str)
            and isinstance(call.op, GlobalVar)
            and call.op.name_hint == self.own_name
        )
        own = own or call.op is self.own_name
        if self.found is None and not own and not self.holds(call):
            self.found = call

    def visit_Function(self, func: Any) -> None:
        """Building a closure is pure whatever its body does."""

    def visit_StructInfo(self, info: Any) -> None:
        """No calls in there."""

    def visit_PrimExpr(self, expr: Any) -> None:
        """No Relax calls in there."""


def find_impure_call(expr: Any, own_name: Var | GlobalVar | str | None = None) -> Call | None:
    """The first call with effects in an expression or in a function's body; calls of ``own_name`` itself do not count."""
    visitor = _Purity(own_name)
    visitor.visit(expr.body if isinstance(expr, Function) else expr)
    return visitor.found


def contains_impure_call(expr: Any, own_name: Var | GlobalVar | str | None = None) -> bool:
    """Whether an expression, or a function's body, contains a call with effects."""
    return find_impure_call(expr, own_name) is not None


def contains_call_to_keep(expr: Any) -> bool:
    """Whether an expression contains a call that may not be left out though nobody uses its result."""
    visitor = _Purity(None, is_removable)
    visitor.visit(expr)
    return visitor.found is not None


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """Groups of Relax functions that call each other (or themselves), directly or not; each group sorted by name."""
    relax_funcs = {var: func for var, func in mod.functions.items() if isinstance(func, Function)}
    by_name = {var.name_hint: var for var in relax_funcs}
    edges = {
        var: [by_name[item.name_hint] for item in all_global_vars(func) if item.name_hint in by_name]
        for var, func in relax_funcs.items()
    }
    reach: dict[GlobalVar, set[GlobalVar]] = {}
    for start in edges:
        seen: set[GlobalVar] = set()
        todo = list(edges[start])
        while todo:
            item = todo.pop()
            if item not in seen:
                seen.add(item)
                todo.extend(edges[item])
        reach[start] = seen
    groups: list[list[GlobalVar]] = []
    done: set[GlobalVar] = set()
    for var in sorted(edges, key=lambda item: item.name_hint):
        if var in done or var not in reach[var]:
            continue
        group = sorted((item for item in reach[var] if var in reach[item]), key=lambda item: item.name_hint)
        done.update(group)
        groups.append(group)
    return groups
