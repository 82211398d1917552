"""ToNonDataflow: turn dataflow blocks into plain ones, which low-level code with effects needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..expr import Var
from ..expr_functor import ExprMutator
from ..function import Function
from .function_pass import FunctionPass


class _Flattener(ExprMutator):
    def visit_dataflow_var_def_(self, var: Any) -> Any:
        plain = Var(var.vid, var.struct_info_, var.span)
        self.set_var_remap(var.vid, plain)
        return plain

    visit_dataflow_block_ = ExprMutator.visit_binding_block_


def to_non_dataflow(func: Function) -> Function:
    """The function without dataflow blocks."""
    return _Flattener().visit_expr(func)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ToNonDataflow(FunctionPass):
    """Replace dataflow blocks by plain blocks and dataflow variables by plain variables.

    Before::

        with R.dataflow():
            lv = R.add(x, x)
            gv = R.exp(lv)
            R.output(gv)

    After::

        lv = R.add(x, x)
        gv = R.exp(lv)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function without dataflow blocks."""
        return to_non_dataflow(func)


__all__ = ["ToNonDataflow", "to_non_dataflow"]
