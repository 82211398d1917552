"""Runs Relax functions on numpy arrays through the operators' numpy references: quick, and independent of legalization and code
generation, which have tests of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ir import IRModule, Op, tir
from ir.expr import GlobalVar
from ir.relax.expr import Call, Constant, MatchCast, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ir.relax.function import Function
from ir.relax.op import OPERATORS
from ir.relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ir.tir.interpreter import Interpreter


class Evaluator:
    """Evaluates the functions of one module."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod

    def call(self, name: str, *args: Any) -> Any:
        func = self.mod[name]
        assert isinstance(func, Function)
        assert len(args) == len(func.params), (
            f"{name} takes {[p.name_hint for p in func.params]}, got {len(args)}"
        )
        env: dict[Any, Any] = {}
        for param, arg in zip(func.params, args):
            env[param.vid] = arg
            self._bind_shape(param.struct_info, arg, env)
        for block in func.body.blocks:
            for binding in block.bindings:
                value = self._value(binding.value, env)
                if isinstance(binding, MatchCast):
                    self._bind_shape(binding.struct_info, value, env)
                else:
                    self._check(binding.var, value, env)
                env[binding.var.vid] = value
        return self._value(func.body.body, env)

    def _bind_shape(self, info: Any, arg: Any, env: dict[Any, Any]) -> None:
        if isinstance(info, TensorStructInfo) and info.shape_values is not None:
            assert np.asarray(arg).dtype.name == info.dtype, f"{info} got {np.asarray(arg).dtype}"
            pairs = zip(info.shape_values, np.shape(arg))
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            pairs = zip(info.values, arg)
        elif isinstance(info, TupleStructInfo):
            for field, item in zip(info.fields, arg):
                self._bind_shape(field, item, env)
            return
        else:
            return
        for dim, extent in pairs:
            if isinstance(dim, tir.Var):
                assert env.setdefault(dim, extent) == extent
            elif isinstance(dim, tir.IntImm):
                assert dim.value == extent, f"{info} got an array of shape {np.shape(arg)}"

    def _check(self, var: Var, value: Any, env: dict[Any, Any]) -> None:
        """Every result has the shape and dtype that inference has found for it."""
        info = var.struct_info
        if isinstance(info, TensorStructInfo) and isinstance(value, np.ndarray | np.generic):
            assert not info.dtype or value.dtype.name == info.dtype, (
                f"{var.name_hint}: {info} but dtype {value.dtype}"
            )
            if info.shape_values is not None:
                expected = tuple(self._dim(dim, env) for dim in info.shape_values)
                assert expected == value.shape, f"{var.name_hint}: inferred {expected}, got {value.shape}"

    def _dim(self, dim: Any, env: dict[Any, Any]) -> int:
        if isinstance(dim, int):
            return dim
        mapping = {
            var: tir.IntImm("int64", int(value)) for var, value in env.items() if isinstance(var, tir.Var)
        }
        result = tir.substitute(dim, mapping)
        assert isinstance(result, tir.IntImm), f"{dim} does not evaluate to a number"
        return int(result.value)

    def _value(self, expr: Any, env: dict[Any, Any]) -> Any:
        if isinstance(expr, Var):
            return env[expr.vid]
        if isinstance(expr, Constant):
            return expr.data
        if isinstance(expr, ShapeExpr):
            return tuple(self._dim(dim, env) for dim in expr.values)
        if isinstance(expr, PrimValue):
            if isinstance(expr.value, tir.FloatImm):
                return np.dtype(expr.value.dtype).type(expr.value.value)
            number = self._dim(expr.value, env)
            return number if expr.value.dtype == "int64" else np.dtype(expr.value.dtype).type(number)
        if isinstance(expr, Tuple):
            return tuple(self._value(item, env) for item in expr.fields)
        if isinstance(expr, TupleGetItem):
            return self._value(expr.tuple_value, env)[expr.index]
        if isinstance(expr, Call):
            args = [self._value(item, env) for item in expr.args if not isinstance(item, GlobalVar)]
            if isinstance(expr.op, GlobalVar):
                return self.call(expr.op.name_hint, *args)
            assert isinstance(expr.op, Op), f"cannot evaluate a call of {expr.op}"
            if expr.op.name == "relax.call_tir":
                return self._call_tir(expr, args, env)
            reference = OPERATORS[expr.op.name].reference
            assert reference is not None, f"{expr.op.name} has no numpy reference"
            with np.errstate(all="ignore"):
                result = reference(*args, **dict(expr.attrs.dict if expr.attrs else {}))
            return tuple(result) if isinstance(result, list) else result
        if hasattr(expr, "value"):
            return expr.value
        raise AssertionError(f"cannot evaluate {type(expr).__name__}")

    def _call_tir(self, call: Call, args: list[Any], env: dict[Any, Any]) -> Any:
        """A PrimFunc of the module, run by TIR's interpreter."""
        infos = (
            list(call.sinfo_args[0].fields)
            if isinstance(call.sinfo_args[0], TupleStructInfo)
            else call.sinfo_args
        )
        outputs = [
            np.zeros([self._dim(dim, env) for dim in info.shape_values], np.dtype(info.dtype))
            for info in infos
        ]
        extents = list(args[1]) if len(args) > 1 else []
        arrays = [np.array(item) for item in args[0]]
        Interpreter(self.mod).call(self.mod[call.args[0].name_hint], [*arrays, *outputs, *extents])
        return tuple(outputs) if isinstance(call.sinfo_args[0], TupleStructInfo) else outputs[0]


def evaluate(mod: IRModule, args: Sequence[Any] | Mapping[str, Any], func: str = "main") -> Any:
    """The result of a function of the module."""
    values = list(args.values()) if isinstance(args, Mapping) else list(args)
    return Evaluator(mod).call(func, *values)


def op_names(mod: IRModule, func: str = "main") -> list[str]:
    """The operators that a function calls, in order, without ``relax.``."""
    names: list[str] = []
    function: Any = mod[func]
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, Call):
                op = binding.value.op
                names.append(getattr(op, "name", getattr(op, "name_hint", "?")).removeprefix("relax."))
    return names
