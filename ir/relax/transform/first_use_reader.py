"""FirstUseReader: parameters are replaced by values that are made where they are first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...module import IRModule
from ..block_builder import BlockBuilder
from ..expr import BindingBlock, DataflowVar, SeqExpr, Var
from ..expr_functor import ExprMutator


class FirstUseReader(ExprMutator):
    """Replaces parameters by what ``read`` makes of them; a value is made again where an earlier one is not visible.

    Args:
        mod: the module, for inference.
        params: the parameters to replace.
        read: ``(builder, number of the parameter, parameter) -> variable``; emits what makes the value.
    """

    def __init__(
        self, mod: IRModule, params: Sequence[Var], read: Callable[[BlockBuilder, int, Var], Var]
    ) -> None:
        super().__init__(mod)
        self._number = {param.vid: number for number, param in enumerate(params)}
        self._read = read

    def visit_var_(self, var: Any) -> Any:
        """A use of a parameter reads it, unless it has been read already."""
        if var.vid in self._number and var.vid not in self._var_remap:
            self._var_remap[var.vid] = self._read(self.builder_, self._number[var.vid], var)
        return super().visit_var_(var)

    def visit_with_new_scope(self, expr: Any, params: tuple[Var, ...] | None = None) -> SeqExpr:
        """What a branch or local function has read is not visible after it."""
        outer = dict(self._var_remap)
        try:
            return super().visit_with_new_scope(expr, params)
        finally:
            self._var_remap = outer

    def visit_bindings(self, block: BindingBlock) -> None:
        """What was read into a dataflow variable is not visible in the next block."""
        super().visit_bindings(block)
        for vid in self._number:
            if isinstance(self._var_remap.get(vid), DataflowVar):
                del self._var_remap[vid]
