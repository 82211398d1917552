"""LazyGetInput: weights are fetched by a callback one by one, as they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..analysis.binding import used_vars
from ..expr import (
    BindingBlock,
    Call,
    Expr,
    MatchCast,
    PrimValue,
    StringImm,
    Var,
)
from ..function import Function
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo
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
