"""LazyGetInput, LazySetOutput and LazyTransformParams: weights are fetched and handed back one by one, as they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..analysis import used_vars
from ..expr import (
    BindingBlock,
    Call,
    Expr,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..function import ExternFunc, Function
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, StructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter
from .function_pass import FunctionPass
from .to_non_dataflow import to_non_dataflow


class _Fetcher(BindingRewriter):
    """Calls for a parameter right before its first use."""

    def __init__(self, mod: IRModule, fetch: Any, weights: Sequence[Var]) -> None:
        super().__init__(mod)
        self._fetch = fetch
        self._number = {weight: index for index, weight in enumerate(weights)}

    def _read(self, expr: Any) -> None:
        for var in used_vars(expr):
            index = self._number.get(var)
            if index is not None and var not in self.replaced:
                untyped = self.emit(self._fetch(index, var), f"{var.name_hint}_untyped")
                fetched = Var(var.name_hint, var.struct_info_)
                self.emit_binding(MatchCast(fetched, untyped, var.struct_info))
                self.replaced[var] = fetched

    def visit_block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            self._read(binding.value)  # type: ignore[attr-defined]
            self._visit_nested(binding)

    def visit_result(self, body: Expr) -> Expr:
        self._read(body)
        return self.substitute(body)


@dataclass(frozen=True)
class LazyGetInput(FunctionPass):
    """Replace weights (parameters behind ``num_input``) by a callback that returns them when they are needed.

    Before: ``def main(x: R.Tensor((1, 4)), A: R.Tensor((4, 4)))`` with ``num_input`` 1

    After::

        def main(x: R.Tensor((1, 4)), fget_param: R.Callable([R.Prim("int64"), R.Object], R.Object)):
            A_untyped = fget_param(R.prim_value(0), R.str("A"))
            A = R.match_cast(A_untyped, R.Tensor((4, 4)))
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with a callback."""
        if "num_input" not in func.attrs:
            return func
        count = func.attrs.get_int("num_input")
        info = FuncStructInfo([PrimStructInfo("int64"), ObjectStructInfo()], ObjectStructInfo(), True)
        callback = Var("fget_param", info)

        def fetch(index: int, param: Var) -> Call:
            args = (PrimValue(index), StringImm(param.name_hint))
            return Call(callback, args, None, None, None, ObjectStructInfo())

        body = _Fetcher(mod, fetch, func.params[count:]).visit_seq(to_non_dataflow(func).body)
        params = [*func.params[:count], callback]
        return Function(params, body, func.ret_struct_info, func.is_pure, func.attrs, func.span)


class _Setter(BindingRewriter):
    """Hands each output to a callback where it is bound."""

    def __init__(self, mod: IRModule, callback: Any, outputs: list[Expr]) -> None:
        super().__init__(mod)
        self._callback = callback
        self._outputs = outputs

    def _hand_out(self, var: Expr) -> None:
        for index, output in enumerate(self._outputs):
            if output is var:
                self.emit(self._callback(index, self.substitute(var)), "_")

    def visit_block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            self._visit_nested(binding)
            self._hand_out(binding.var)


@dataclass(frozen=True)
class LazySetOutput(FunctionPass):
    """Hand outputs to a callback as soon as they are computed; the function returns an empty tuple.

    Before::

        def main(x):
            return (A, B)

    After::

        def main(x, fset_output: R.Callable([R.Prim("int64"), R.Object], R.Tuple, purity=False)):
            ...
            fset_output(R.prim_value(0), A)
            ...
            fset_output(R.prim_value(1), B)
            return ()
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with a callback."""
        if "global_symbol" not in func.attrs and "num_input" not in func.attrs:
            return func
        func = to_non_dataflow(func)
        nothing = TupleStructInfo(())
        info = FuncStructInfo([PrimStructInfo("int64"), ObjectStructInfo()], nothing, False)
        callback = Var("fset_output", info)

        def hand_out(index: int, value: Expr) -> Call:
            return Call(callback, (PrimValue(index), value), None, None, None, nothing)

        result = func.body.body
        bound = {
            b.var: b.value for block in func.body.blocks for b in block.bindings if isinstance(b, VarBinding)
        }
        made = bound.get(result, result) if isinstance(result, Var) else result
        outputs = list(made.fields) if isinstance(made, Tuple) else [result]
        local = {binding.var for block in func.body.blocks for binding in block.bindings}
        params = set(func.params)
        setter = _Setter(mod, hand_out, [output if output in local else None for output in outputs])  # type: ignore[misc]
        body = setter.visit_seq(func.body)
        # Parameters and constants that are returned are handed out first.
        first = [
            VarBinding(Var("_", nothing), hand_out(index, output))
            for index, output in enumerate(outputs)
            if output in params or output not in local
        ]
        blocks = [BindingBlock(first), *body.blocks] if first else list(body.blocks)
        new_params = [*func.params, callback]
        if "num_input" in func.attrs:
            count = func.attrs.get_int("num_input")
            new_params = [*func.params[:count], callback, *func.params[count:]]
            func = func.with_attr("num_input", count + 1)
        return Function(new_params, SeqExpr(blocks, Tuple(())), nothing, False, func.attrs, func.span)


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
        setter = _Setter(mod, self._set, outputs)
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


__all__ = ["LazyGetInput", "LazySetOutput", "LazyTransformParams"]
