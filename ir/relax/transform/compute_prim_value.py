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
from ...tir.stmt_functor import substitute
from ...transform import ModulePass, PassContext
from ...type import PrimType
from ..expr import Call, PrimValue, Tuple, Var
from ..expr_functor import ExprMutator
from ..op.requirement import divisor_requirements
from ..struct_info import PrimStructInfo, StructInfo, TupleStructInfo
from .grouping import tir_vars_of


class _Computer(ExprMutator):
    def changes_leaf(self, leaf: Any) -> bool:
        return isinstance(leaf, PrimValue) and not isinstance(leaf.value, TirVar | TirInt | TirFloat)

    def visit_prim_value_(self, expr: Any) -> Any:
        """A value that is no constant or variable is computed by a kernel."""
        if not self.changes_leaf(expr):
            return expr
        value = expr.value
        for needed in divisor_requirements(value):
            self.builder_.match_cast(*needed.match_cast, "_")
        symbols = tir_vars_of(value)
        params = [TirVar(symbol.name, symbol.dtype) for symbol in symbols]
        result = substitute(value, dict(zip(symbols, params, strict=True)))
        body = Evaluate(TirCall(value.dtype, Op.get("tir.ret"), [result]))
        func = PrimFunc(params, body, PrimType(value.dtype), None, {"tir.is_host_func": True})
        kernel = self.builder_.add_func(func, "compute_symbolic_expr")
        info = PrimStructInfo(value.dtype)
        args = [PrimValue(symbol) for symbol in symbols]
        return self.builder_.emit(Call(kernel, args, None, None, None, info))

    def looks_at(self, callee: Any) -> bool:
        return False  # no call is changed for its own sake

    def visit_call_(self, call: Any) -> Any:
        if isinstance(call.op, Op) and call.op.get_attr("FLegalize") is not None:
            # Its kernel, and often its shape, will be made from what is known of its operands.
            args = self._map(call.args, self._known_operand)
            new = call if args is call.args else call.replace(args=args)
        else:
            new = super().visit_call_(call)
        if new is call:
            return call
        return new.replace(struct_info_=call.struct_info_)  # which may depend on values that are computed now

    def _known_operand(self, operand: Any) -> Any:
        """An operand of which no value is lost: expressions stay, and so does what variables had for a value."""
        if isinstance(operand, PrimValue):
            return operand
        if isinstance(operand, Tuple):
            fields = self._map(operand.fields, self._known_operand)
            return operand if fields is operand.fields else Tuple(fields)
        if isinstance(operand, Var) and operand.vid in self._var_remap:
            written = _written(operand.struct_info)
            return self.visit_expr(operand) if written is None else written
        return self.visit_expr(operand)


def _written(info: StructInfo) -> Any:
    """The scalar, or tuple of scalars, of which the struct info tells the value; else None."""
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return PrimValue(info.value)
    if isinstance(info, TupleStructInfo):
        fields = [_written(field) for field in info.fields]
        return None if any(field is None for field in fields) else Tuple(fields)
    return None


@dataclass(frozen=True)
class ComputePrimValue(ModulePass):
    """Replace ``R.prim_value(expression)`` by a call of a PrimFunc that computes it, which is pure; equal ones share one.

    Operands of operators that are still to be legalized stay: their values give shapes.

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
        return _Computer(mod).rewrite_module(mod)
