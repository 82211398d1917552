"""Changing private functions together with all their calls: the base of passes that change signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ..expr import Call, Expr, Var
from ..function import Function
from .binding_rewriter import BindingRewriter

NewCall = Callable[["BindingRewriter", Call], Expr]
"""What replaces a call of a changed function; may emit bindings."""


def private_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """Relax functions that only the module's own calls reach: private, and never used as a value."""
    private = {
        var: func
        for var, func in mod.functions.items()
        if isinstance(func, Function) and "global_symbol" not in func.attrs and var.name_hint != "main"
    }
    used_as_value: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, GlobalVar):
            used_as_value.add(node.name_hint)
        elif isinstance(node, Call):
            for arg in node.args:
                visit(arg)
            if not isinstance(node.op, GlobalVar):
                visit(node.op)
        elif hasattr(node, "_visit_children"):
            node._visit_children(visit)

    for func in mod.functions.values():
        if isinstance(func, Function):
            visit(func.body)
    return {var: func for var, func in private.items() if var.name_hint not in used_as_value}


class _CallChanger(BindingRewriter):
    def __init__(self, mod: IRModule, changes: dict[str, NewCall]) -> None:
        super().__init__(mod)
        self._changes = changes

    def visit_call(self, var: Var, call: Call) -> None:
        change = self._changes.get(call.op.name_hint) if isinstance(call.op, GlobalVar) else None
        if change is None:
            self.bind(var, call)
            return
        if call.struct_info_ is None:
            call = Call(call.op, call.args, call.attrs, call.sinfo_args, call.span, var.struct_info_)
        value = change(self, call)
        self.bind(var, value)


def change_functions(mod: IRModule, changed: dict[GlobalVar, tuple[Function, NewCall]]) -> IRModule:
    """The module with functions replaced (under new references of the same names) and their calls rewritten.

    Args:
        changed: for each function the new one, and what a call becomes; the call it gets refers to the new function already.
    """
    if not changed:
        return mod
    renamed: dict[str, GlobalVar] = {}
    functions: dict[GlobalVar, Any] = {}
    for var, func in mod.functions.items():
        if var in changed:
            new = changed[var][0]
            renamed[var.name_hint] = GlobalVar(var.name_hint, new.struct_info_)
            functions[renamed[var.name_hint]] = new
        else:
            functions[var] = func

    def with_new_callee(name: str, change: NewCall) -> NewCall:
        def make(rewriter: BindingRewriter, call: Call) -> Expr:
            return change(
                rewriter,
                Call(renamed[name], call.args, call.attrs, call.sinfo_args, call.span, call.struct_info_),
            )

        return make

    changes = {var.name_hint: with_new_callee(var.name_hint, change) for var, (_, change) in changed.items()}
    result = mod.replace(functions=functions)
    for var, func in list(functions.items()):
        if isinstance(func, Function):
            functions[var] = _CallChanger(result, changes).rewrite(func)
    return result.replace(functions=functions)
