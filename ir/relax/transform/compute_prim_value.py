"""ComputePrimValue: scalar expressions over symbolic variables are computed by a small PrimFunc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...op import Op
from ...tir.expr import Call as TirCall
from ...tir.expr import FloatImm as TirFloat
from ...tir.expr import IntImm as TirInt
from ...tir.expr import Var as TirVar
from ...tir.function import PrimFunc
from ...tir.stmt import Evaluate
from ...transform import ModulePass, PassContext
from ...type import PrimType
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, If, PrimValue, Var, VarBinding
from ..function import Function
from ..struct_info import PrimStructInfo
from .binding_rewriter import BindingRewriter
from .grouping import tir_vars_of


class _Computer(BindingRewriter):
    def __init__(self, builder: BlockBuilder) -> None:
        super().__init__()
        self._builder = builder

    def _computed(self, expr: Expr) -> Expr:
        if not isinstance(expr, PrimValue) or isinstance(expr.value, TirVar | TirInt | TirFloat):
            return expr
        value = expr.value
        params = tir_vars_of(value)
        body = Evaluate(TirCall(value.dtype, Op.get("tir.ret"), [value]))
        func = PrimFunc(params, body, PrimType(value.dtype), None, {"tir.is_host_func": True})
        kernel = self._builder.add_func(func, "compute_symbolic_expr")
        info = PrimStructInfo(value.dtype)
        return self.emit(Call(kernel, [PrimValue(param) for param in params], None, None, None, info))

    def visit_binding(self, binding: Any) -> None:
        value = binding.value
        if isinstance(binding, VarBinding) and isinstance(value, PrimValue):
            self.bind(binding.var, self._computed(value))
        elif isinstance(binding, VarBinding) and isinstance(value, If):
            cond = self._computed(value.cond)
            if cond is not value.cond:
                value = If(cond, value.true_branch, value.false_branch, value.struct_info_, value.span)
            self.bind(binding.var, value)
        else:
            super().visit_binding(binding)

    def visit_call(self, var: Var, call: Call) -> None:
        args = tuple(self._computed(arg) for arg in call.args)
        if all(new is old for new, old in zip(args, call.args, strict=True)):
            self.bind(var, call)
        else:
            self.bind(var, Call(call.op, args, call.attrs, call.sinfo_args, call.span, call.struct_info_))

    def visit_result(self, body: Expr) -> Expr:
        return self._computed(self.substitute(body))


@dataclass(frozen=True)
class ComputePrimValue(ModulePass):
    """Replace ``R.prim_value(expression)`` by a call of a PrimFunc that computes it.

    Before: ``n2 = R.prim_value(N * N)``

    After::

        n2 = cls.compute_symbolic_expr(R.prim_value(N))

        @T.prim_func(private=True)
        def compute_symbolic_expr(N: T.int64) -> T.int64:
            T.func_attr({"tir.is_host_func": True})
            T.ret(N * N)
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with computed scalars."""
        builder = BlockBuilder(mod)
        changed = False
        for var, func in mod.functions.items():
            if isinstance(func, Function):
                new = _Computer(builder).rewrite(func)
                if new is not func:
                    changed = True
                    builder.get().functions[var] = new
        return builder.get() if changed else mod
