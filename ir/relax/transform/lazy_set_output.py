"""LazySetOutput: outputs are handed back by a callback one by one, as soon as they are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..expr import (
    BindingBlock,
    Call,
    Expr,
    PrimValue,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from ..function import Function
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter
from .function_pass import FunctionPass
from .to_non_dataflow import to_non_dataflow


class OutputSetter(BindingRewriter):
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
        setter = OutputSetter(mod, hand_out, [output if output in local else None for output in outputs])  # type: ignore[misc]
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
