"""BundleModelParams: the weights of a function become one tuple parameter."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, Tuple, TupleGetItem, Var
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from ..struct_info import TupleStructInfo
from .first_use_reader import FirstUseReader


@dataclass(frozen=True)
class BundleModelParams(ModulePass):
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

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with tuples of weights; functions that call such a function pass a tuple."""
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            if isinstance(func, Function) and "num_input" in func.attrs and "Codegen" not in func.attrs:
                changes[var] = self._bundled(mod, func)
        return change_signatures(mod, changes)

    def _bundled(self, mod: IRModule, func: Function) -> SignatureChange:
        count = func.attrs.get_int("num_input")
        weights = func.params[count:]
        info = TupleStructInfo([weight.struct_info for weight in weights])
        bundle = Var(self.param_tuple_name or "model_params", info)
        params = (*func.params[:count], bundle)

        def read(builder: BlockBuilder, number: int, weight: Var) -> Var:
            return builder.emit(TupleGetItem(bundle, number), weight.name_hint)

        def call(builder: BlockBuilder, old: Call) -> Expr:
            return old.with_args((*old.args[:count], Tuple(old.args[count:])))

        body = FirstUseReader(mod, weights, read).visit_with_new_scope(func.body, params)
        new = Function(params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)
        return SignatureChange(new, call)
