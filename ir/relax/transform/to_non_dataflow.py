"""ToNonDataflow: turn dataflow blocks into plain ones, which low-level code with effects needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..analysis.purity import contains_impure_call
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


def allowing_effects(func: Function) -> Function:
    """A lowered function, well formed though lowering put calls with effects into it, which nobody outside sees.

    Where there are any, dataflow blocks become plain ones, and a pure function says so by ``relax.force_pure``.
    """
    if not contains_impure_call(func.body):
        return func
    plain = to_non_dataflow(func)
    is_promised = not func.is_pure or plain.attrs.get("relax.force_pure")
    return plain if is_promised else plain.with_attr("relax.force_pure", True)  # type: ignore[no-any-return]


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


__all__ = ["ToNonDataflow", "allowing_effects", "to_non_dataflow"]
