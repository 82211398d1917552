"""RemoveRedundantReshape: consecutive reshapes become one, and those that do nothing disappear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..analysis.remove_unused import remove_all_unused
from ..expr import DataflowVar, Var, is_call_to
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info_lattice import can_prove_shape_equal
from .function_pass import FunctionPass
from .matmul_rewrites import shape_values


class _Reshapes(ExprMutator):
    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not is_call_to(call, "relax.reshape"):
            return call
        source = call.args[0]
        while is_call_to(made := self.lookup_binding(source), "relax.reshape"):
            source = made.args[0]
        before, after = shape_values(source), shape_values(call)
        if before is not None and after is not None and can_prove_shape_equal(before, after):
            return source
        return call.with_args((source, *call.args[1:]))

    def visit_var_binding_(self, binding: Any) -> None:
        value = self.visit_expr(binding.value)
        var = self.reemit_binding(binding, value)
        if isinstance(value, Var) and isinstance(var, DataflowVar):
            self.set_var_remap(var.vid, value)


@dataclass(frozen=True)
class RemoveRedundantReshape(FunctionPass):
    """Merge consecutive reshapes, and remove those to the shape that a tensor has.

    Before::

        lv = R.reshape(x, (1, 512))
        lv1 = R.reshape(lv, (1, 512, 1, 1))
        gv = R.reshape(lv1, (1, 512))

    After: ``gv = R.reshape(x, (1, 512))``
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with fewer reshapes."""
        new = _Reshapes(mod).visit_expr(func)
        return func if new is func else remove_all_unused(new)
