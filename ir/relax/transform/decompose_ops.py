"""The rewriting that the passes DecomposeOps... share; what an operator is made of is in its declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...module import IRModule
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, SeqExpr, Var
from ..function import Function
from ..op.declaration import Decomposition, declaration_of
from .binding_rewriter import BindingRewriter
from .function_pass import rewrite_functions

Decompose = Callable[[Call], "Expr | None"]
"""From a call to what it is made of; None leaves it as it is."""


class _Decomposer(BindingRewriter):
    def __init__(self, mod: IRModule, parts: Decompose) -> None:
        super().__init__(mod)
        self._parts = parts
        self._builder = BlockBuilder(mod)

    def visit_call(self, var: Var, call: Call) -> None:
        made = self._parts(call)
        if made is None:
            self.bind(var, call)
            return
        self._builder._begin_block(self.in_dataflow)
        try:
            value = self._builder.normalize(made)
        finally:
            block = self._builder._end_block()
        for binding in block.bindings:
            self.emit_binding(binding)
        assert not isinstance(value, SeqExpr)
        self.bind(var, value)


def declared(call: Call) -> Decomposition:
    """What the call's operator declares to be made of; nothing for other callees."""
    found = declaration_of(call.op)
    return Decomposition() if found is None or found.decomposition is None else found.decomposition


def decompose(mod: IRModule, func_name: str | None, parts: Decompose) -> IRModule:
    """Replace the calls of one function of the module, or of all, that ``parts`` says are made of something."""

    def rewrite(var: Any, func: Function) -> Function:
        if func_name is not None and var.name_hint != func_name:
            return func
        return _Decomposer(mod, parts).rewrite(func)

    if func_name is not None:
        mod.get_global_var(func_name)  # an unknown name is an error
    return rewrite_functions(mod, rewrite)
