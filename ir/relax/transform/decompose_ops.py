"""The rewriting that the passes DecomposeOps... share; what an operator is made of is in its declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...module import IRModule
from ..expr import Call, Expr
from ..expr_functor import ExprMutator
from ..function import Function
from ..op.declaration import Decomposition, declaration_of
from .function_pass import rewrite_functions

Decompose = Callable[[Call], "Expr | None"]
"""From a call to what it is made of; None leaves it as it is."""


class _Decomposer(ExprMutator):
    def __init__(self, mod: IRModule, parts: Decompose) -> None:
        super().__init__(mod)
        self._parts = parts

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        made = self._parts(call)
        return call if made is None else made


def declared(call: Call) -> Decomposition:
    """What the call's operator declares to be made of; nothing for other callees."""
    found = declaration_of(call.op)
    return Decomposition() if found is None or found.decomposition is None else found.decomposition


def decompose(mod: IRModule, func_name: str | None, parts: Decompose) -> IRModule:
    """Replace the calls of one function of the module, or of all, that ``parts`` says are made of something."""

    def rewrite(var: Any, func: Function) -> Function:
        if func_name is not None and var.name_hint != func_name:
            return func
        return _Decomposer(mod, parts).visit_expr(func)  # type: ignore[no-any-return]

    if func_name is not None:
        mod.get_global_var(func_name)  # an unknown name is an error
    return rewrite_functions(mod, rewrite)
