"""LazySetOutput: outputs are handed back by a callback one by one, as soon as they are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...expr import GlobalVar
from ...module import IRModule
from ...transform import ModulePass, PassContext
from ..analysis.binding import get_var2val
from ..expr import BindingBlock, Call, Expr, PrimValue, SeqExpr, Tuple, Var, VarBinding
from ..expr_functor import ExprMutator
from ..function import Function
from ..function_signature import SignatureChange, change_signatures
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, TupleStructInfo
from .lazy_get_input import no_callers
from .to_non_dataflow import to_non_dataflow

HandOut = Callable[[int, Expr], Call]
"""The call that takes an output, given its number and value."""


class OutputSetter(ExprMutator):
    """Hands each output to a callback where it is bound."""

    def __init__(self, mod: IRModule, hand_out: HandOut, outputs: Sequence[Expr]) -> None:
        super().__init__(mod)
        self._hand_out = hand_out
        self._outputs = outputs

    def visit_bindings(self, block: BindingBlock) -> None:
        """Hand out what has just been bound."""
        for binding in block.bindings:
            self.visit_binding(binding)
            for index, output in enumerate(self._outputs):
                if output is binding.var:
                    self.builder_.emit(self._hand_out(index, self.visit_expr(output)), "_")


def returned_values(func: Function) -> tuple[Expr, Sequence[Expr]]:
    """What a function returns, and the fields of that when it is a tuple made there, else itself alone."""
    result = func.body.body
    made = get_var2val(func).get(result, result) if isinstance(result, Var) else result
    return result, made.fields if isinstance(made, Tuple) else (result,)


def handing_out(
    mod: IRModule, body: SeqExpr, params: Sequence[Var], hand_out: HandOut, outputs: Sequence[Expr]
) -> list[BindingBlock]:
    """The blocks of a function that hands its outputs out.

    What is bound is handed out there; tuples of what is bound, parameters and constants where the function ends.
    """
    blocks = list(OutputSetter(mod, hand_out, outputs).visit_with_new_scope(body, tuple(params)).blocks)
    bound = {binding.var for block in body.blocks for binding in block.bindings}
    calls = [hand_out(index, output) for index, output in enumerate(outputs) if output not in bound]
    if calls:
        blocks.append(BindingBlock([VarBinding(Var("_", call.struct_info_), call) for call in calls]))
    return blocks


@dataclass(frozen=True)
class LazySetOutput(ModulePass):
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

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with callbacks; raises IRValueError when such a function is called in the module."""
        changes: dict[GlobalVar, SignatureChange] = {}
        for var, func in mod.functions.items():
            if (
                isinstance(func, Function)
                and "Codegen" not in func.attrs
                and ("global_symbol" in func.attrs or "num_input" in func.attrs)
            ):
                changes[var] = SignatureChange(_handing_out(mod, func), no_callers("LazySetOutput", var))
        return change_signatures(mod, changes)


def _handing_out(mod: IRModule, func: Function) -> Function:
    """The function that hands out what it returned."""
    func = to_non_dataflow(func)
    nothing = TupleStructInfo(())
    info = FuncStructInfo([PrimStructInfo("int64"), ObjectStructInfo()], nothing, False)
    callback = Var("fset_output", info)

    def hand_out(index: int, value: Expr) -> Call:
        return Call(callback, (PrimValue(index), value), None, None, None, nothing)

    _, outputs = returned_values(func)
    blocks = handing_out(mod, func.body, func.params, hand_out, outputs)
    params = [*func.params, callback]
    if "num_input" in func.attrs:
        count = func.attrs.get_int("num_input")
        params = [*func.params[:count], callback, *func.params[count:]]
        func = func.with_attr("num_input", count + 1)
    return Function(params, SeqExpr(blocks, Tuple(())), nothing, False, func.attrs, func.span)
