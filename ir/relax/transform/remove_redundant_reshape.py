"""RemoveRedundantReshape: consecutive reshapes become one, and those that do nothing disappear."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..expr import Call, Expr, Var
from ..function import Function
from ..struct_info_lattice import can_prove_shape_equal
from .binding_rewriter import BindingRewriter, is_call_to
from .dead_code_elimination import remove_unused_bindings
from .function_pass import FunctionPass
from .matmul_rewrites import shape_values


class _Reshapes(BindingRewriter):
    def visit_call(self, var: Var, call: Call) -> None:
        if not is_call_to(call, "relax.reshape"):
            self.bind(var, call)
            return
        source: Expr = call.args[0]
        while is_call_to(self.lookup(source), "relax.reshape"):
            source = self.lookup(source).args[0]  # type: ignore[union-attr]
        before, after = shape_values(source), shape_values(var)
        if before is not None and after is not None and can_prove_shape_equal(before, after):
            self.bind(var, source)
            if type(var) is not Var:
                self.replace_var(var, source)
        elif source is not call.args[0]:
            self.bind(
                var, Call(call.op, (source, *call.args[1:]), call.attrs, None, call.span, call.struct_info_)
            )
        else:
            self.bind(var, call)


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
        new = _Reshapes(mod).rewrite(func)
        return func if new is func else remove_unused_bindings(new)
