"""BundleModelParams: the weights of a function become one tuple parameter."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..expr import Expr, SeqExpr, TupleGetItem, Var
from ..function import Function
from ..struct_info import TupleStructInfo
from .binding_rewriter import BindingRewriter
from .function_pass import FunctionPass


class _Unbundler(BindingRewriter):
    """Reads a field of the tuple where a weight is first used."""

    def __init__(self, mod: IRModule, bundle: Var, weights: tuple[Var, ...]) -> None:
        super().__init__(mod)
        self._bundle = bundle
        self._number = {weight: index for index, weight in enumerate(weights)}

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        outer = dict(self.replaced)
        try:
            return super().visit_seq(seq)
        finally:
            self.replaced.clear()  # what a branch has read is not visible after it
            self.replaced.update(outer)

    def _read(self, expr: object) -> None:
        def visit(node: object) -> None:
            if isinstance(node, Var):
                index = self._number.get(node)
                if index is not None and node not in self.replaced:
                    self.replaced[node] = self.emit(TupleGetItem(self._bundle, index), node.name_hint)
            elif not isinstance(node, SeqExpr | Function):
                node._visit_children(visit)  # type: ignore[attr-defined]

        visit(expr)

    def visit_block(self, block: object) -> None:
        kept = dict(self.replaced)
        for binding in block.bindings:  # type: ignore[attr-defined]
            self._read(binding.value)
            self._visit_nested(binding)
        # A field that was read into a dataflow variable is read again in the next block.
        for weight in list(self.replaced):
            if weight in self._number and weight not in kept and type(self.replaced[weight]) is not Var:
                del self.replaced[weight]

    def visit_result(self, body: Expr) -> Expr:
        self._read(body)
        return self.substitute(body)


@dataclass(frozen=True)
class BundleModelParams(FunctionPass):
    """Bundle the parameters behind the first ``num_input`` into a tuple, in functions with that attribute.

    Before::

        def main(x: R.Tensor((1, 4)), w: R.Tensor((4, 4)), b: R.Tensor((4,))):
            R.func_attr({"num_input": 1})

    After: ``def main(x: R.Tensor((1, 4)), model_params: R.Tuple(R.Tensor((4, 4)), R.Tensor((4,))))``, and ``w = model_params[0]``
    where ``w`` is used.

    Args:
        param_tuple_name: the name of the tuple, ``model_params`` when None.
    """

    param_tuple_name: str | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with a tuple of weights."""
        if "num_input" not in func.attrs:
            return func
        count = func.attrs.get_int("num_input")
        weights = func.params[count:]
        info = TupleStructInfo([weight.struct_info for weight in weights])
        bundle = Var(self.param_tuple_name or "model_params", info)
        body = _Unbundler(mod, bundle, weights).visit_seq(func.body)
        return Function(
            [*func.params[:count], bundle], body, func.ret_struct_info, func.is_pure, func.attrs, func.span
        )
