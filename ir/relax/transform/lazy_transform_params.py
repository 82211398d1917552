"""LazyTransformParams: a function of weights fetches its inputs and stores its outputs one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..expr import (
    BindingBlock,
    Call,
    Expr,
    MatchCast,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import ExternFunc, Function
from ..struct_info import ObjectStructInfo, StructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter
from .function_pass import FunctionPass
from .lazy_set_output import OutputSetter
from .to_non_dataflow import to_non_dataflow


@dataclass(frozen=True)
class LazyTransformParams(FunctionPass):
    """Let a ``transform_params`` function fetch its inputs and store its outputs one by one by registered functions.

    Run ToNonDataflow and RemovePurityChecking before.

    Before::

        def transform_params(params: R.Tuple(R.Tensor((4, 4)), R.Tensor((4,)))):
            lv = params[0]
            lv1 = R.permute_dims(lv)
            return (lv1, params[1])

    After::

        def transform_params():
            lv = R.call_packed("get_item", R.prim_value(0), sinfo_args=[R.Object])
            lv_ = R.match_cast(lv, R.Tensor((4, 4)))
            lv1 = R.permute_dims(lv_)
            _ = R.call_packed("set_item", R.prim_value(0), lv1)
            ...
            return ()

    Args:
        fget_item, fset_item: names of the functions; None for ``fset_item`` keeps the outputs.
        extra_get_item_params, extra_set_item_params: parameters of the function that are passed before the index.
    """

    fget_item: str = "get_item"
    fset_item: str | None = "set_item"
    extra_get_item_params: Sequence[Var] | None = None
    extra_set_item_params: Sequence[Var] | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The lazy function, when its one parameter is the tuple of weights."""
        if len(func.params) != 1 or not isinstance(func.params[0].struct_info_, TupleStructInfo):
            return func
        func = to_non_dataflow(func)
        extra = list(
            dict.fromkeys([*(self.extra_get_item_params or ()), *(self.extra_set_item_params or ())])
        )
        rewriter = _TupleFetcher(mod, func.params[0], self._get)
        body = rewriter.visit_seq(func.body)
        fetched = Function(extra, body, None, False, func.attrs, func.span)
        if self.fset_item is None:
            return fetched
        result = fetched.body.body
        bound = {
            b.var: b.value
            for block in fetched.body.blocks
            for b in block.bindings
            if isinstance(b, VarBinding)
        }
        made = bound.get(result, result) if isinstance(result, Var) else result
        outputs = list(made.fields) if isinstance(made, Tuple) else [result]
        setter = OutputSetter(mod, self._set, outputs)
        body = setter.visit_seq(fetched.body)
        blocks = list(body.blocks)
        if isinstance(made, Tuple) and isinstance(result, Var):  # the tuple itself is not needed any more
            blocks = [_without(block, result) for block in blocks]
        return Function(
            extra, SeqExpr([b for b in blocks if b.bindings], Tuple(())), None, False, func.attrs, func.span
        )

    def _get(self, index: int) -> Call:
        args = (*(self.extra_get_item_params or ()), PrimValue(index))
        return Call(ExternFunc(self.fget_item), args, None, [ObjectStructInfo()], None, ObjectStructInfo())

    def _set(self, index: int, value: Expr) -> Call:
        args = (*(self.extra_set_item_params or ()), PrimValue(index), value)
        return Call(
            ExternFunc(str(self.fset_item)), args, None, [ObjectStructInfo()], None, ObjectStructInfo()
        )


def _without(block: BindingBlock, var: Var) -> BindingBlock:
    kept = [binding for binding in block.bindings if binding.var is not var]
    return block if len(kept) == len(block.bindings) else BindingBlock(kept)


class _TupleFetcher(BindingRewriter):
    """Replaces reading a field of the parameter by a call."""

    def __init__(self, mod: IRModule, bundle: Var, get: Any) -> None:
        super().__init__(mod)
        self._bundle = bundle
        self._get = get

    def visit_binding(self, binding: Any) -> None:
        value = binding.value
        if (
            isinstance(binding, VarBinding)
            and isinstance(value, TupleGetItem)
            and value.tuple_value is self._bundle
        ):
            untyped = self.emit(self._get(value.index), binding.var.name_hint)
            info: StructInfo = binding.var.struct_info
            self.emit_binding(MatchCast(binding.var, untyped, info))
            return
        super().visit_binding(binding)
