"""A reference evaluator of Relax functions over numpy arrays: slow, independent of code generation.

Operators are computed by their numpy references, ``call_tir`` by the TIR interpreter, symbolic shape variables from the
arguments' shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtype as dt
from ...arith.analyzer import Analyzer
from ...error import IRValueError
from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...registry import get_global_func
from ...tir.expr import PrimExpr
from ...tir.expr import Var as TirVar
from ...tir.interpreter import run
from ...tir.operators import const
from ...tir.stmt_functor import substitute
from ..expr import (
    Call,
    Constant,
    DataTypeImm,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..function import ExternFunc, Function
from ..struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo


class _Evaluator:
    def __init__(self, mod: IRModule | None) -> None:
        self.mod = mod
        self.values: dict[Any, Any] = {}
        self.symbols: dict[TirVar, int] = {}

    def dim(self, expr: PrimExpr) -> Any:
        value = expr
        if not hasattr(expr, "value"):
            value = Analyzer().simplify(
                substitute(expr, {v: const(n, v.dtype) for v, n in self.symbols.items()})
            )
        if not hasattr(value, "value"):
            raise IRValueError(f"the symbolic expression {expr} has no value; known are {list(self.symbols)}")
        return value.value

    def match(self, info: StructInfo | None, value: Any) -> None:
        """Give symbolic variables their values; check known extents."""
        dims: Sequence[Any] = ()
        if isinstance(info, TensorStructInfo):
            dims, value = info.shape_values or (), np.shape(value)
        elif isinstance(info, ShapeStructInfo):
            dims = info.values or ()
        elif isinstance(info, PrimStructInfo) and info.value is not None:
            dims, value = (info.value,), (value,)
        elif isinstance(info, TupleStructInfo):
            for item, part in zip(info.fields, value, strict=True):
                self.match(item, part)
        for dim, extent in zip(dims, value, strict=True) if dims else ():
            if isinstance(dim, TirVar) and dim not in self.symbols:
                self.symbols[dim] = int(extent)
        for dim, extent in zip(dims, value, strict=True) if dims else ():
            if self.dim(dim) != extent:
                raise IRValueError(f"a value of shape {tuple(value)} does not have the struct info {info}")

    def function(self, func: Function, args: Sequence[Any]) -> Any:
        outer = self.symbols
        self.symbols = dict(outer)
        for param, arg in zip(func.params, args, strict=True):
            self.values[param.vid] = arg
        for param, arg in zip(func.params, args, strict=True):
            self.match(param.struct_info_, arg)
        result = self.expr(func.body)
        self.symbols = outer
        return result

    def expr(self, expr: Any) -> Any:
        if isinstance(expr, Var):
            return self.values[expr.vid]
        return _EVALUATE[type(expr)](self, expr)

    def seq(self, seq: SeqExpr) -> Any:
        for block in seq.blocks:
            for binding in block.bindings:
                value = self.expr(binding.value)
                if isinstance(binding, MatchCast):
                    self.match(binding.struct_info, value)
                self.values[binding.var.vid] = value
        return self.expr(seq.body)

    def branch(self, expr: If) -> Any:
        return self.expr(expr.true_branch if bool(self.expr(expr.cond)) else expr.false_branch)

    def call(self, call: Call) -> Any:
        if isinstance(call.op, Op):
            return self.operator(call)
        if isinstance(call.op, ExternFunc):
            return get_global_func(call.op.global_symbol)(*(self.expr(arg) for arg in call.args))  # type: ignore[misc]
        if isinstance(call.op, GlobalVar):
            func = self.mod[call.op]  # type: ignore[index]
            return self.function(func, [self.expr(arg) for arg in call.args])  # type: ignore[arg-type]
        return self.function(self.expr(call.op), [self.expr(arg) for arg in call.args])

    def operator(self, call: Call) -> Any:
        name = call.op.name  # type: ignore[attr-defined]
        if name in ("relax.call_tir", "relax.call_tir_with_grad"):
            return self.call_tir(call)
        if name in ("relax.call_pure_packed", "relax.call_packed"):
            callee = call.args[0]
            assert isinstance(callee, ExternFunc)
            return _packed(callee.global_symbol)(*(self.expr(arg) for arg in call.args[1:]))
        if name == "relax.shape_of":
            return tuple(np.shape(self.expr(call.args[0])))
        if name == "relax.tensor_to_shape":
            return tuple(int(v) for v in self.expr(call.args[0]))
        if name == "relax.shape_to_tensor":
            return np.asarray(self.expr(call.args[0]), "int64")
        if name == "relax.null_value":
            return None
        reference = call.op.get_attr("FReference")  # type: ignore[attr-defined]
        if reference is None:
            raise IRValueError(f"operator {name} has no numpy reference to evaluate it with")
        return reference(*(self.expr(arg) for arg in call.args), **call.attrs.dict)

    def call_tir(self, call: Call) -> Any:
        func = self.mod[call.args[0]]  # type: ignore[index]
        inputs = self.expr(call.args[1])
        scalars = self.expr(call.args[2]) if len(call.args) > 2 else ()
        out = call.sinfo_args[0]
        infos = out.fields if isinstance(out, TupleStructInfo) else (out,)
        outputs = [
            np.zeros([self.dim(dim) for dim in info.shape_values], dt.to_numpy(info.dtype))  # type: ignore[attr-defined]
            for info in infos
        ]
        run(func, *[np.ascontiguousarray(item).copy() for item in inputs], *outputs, *scalars)  # type: ignore[arg-type]
        return outputs if isinstance(out, TupleStructInfo) else outputs[0]


def _packed(name: str) -> Callable[..., Any]:
    if name == "vm.builtin.tensor_to_shape":
        return lambda tensor: tuple(int(v) for v in tensor)
    return get_global_func(name)  # type: ignore[return-value]


_EVALUATE: dict[type, Callable[[_Evaluator, Any], Any]] = {
    Constant: lambda self, expr: expr.data,
    ShapeExpr: lambda self, expr: tuple(self.dim(value) for value in expr.values),
    PrimValue: lambda self, expr: self.dim(expr.value),
    StringImm: lambda self, expr: expr.value,
    DataTypeImm: lambda self, expr: expr.value,
    Tuple: lambda self, expr: [self.expr(item) for item in expr.fields],
    TupleGetItem: lambda self, expr: self.expr(expr.tuple_value)[expr.index],
    SeqExpr: _Evaluator.seq,
    If: _Evaluator.branch,
    Call: _Evaluator.call,
    Function: lambda self, expr: expr,
}


def evaluate(func: Function | IRModule, *args: Any, name: str = "main") -> Any:
    """Run a function (or one of a module) on numpy arrays, numbers and tuples; tuples come back as lists."""
    if isinstance(func, IRModule):
        return _Evaluator(func).function(func[name], args)  # type: ignore[arg-type]
    return _Evaluator(None).function(func, args)
