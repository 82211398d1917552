"""An imported model as a PyTorch module: operator by operator, each by the function that PyTorch has for it.

It is what ``loopsmith bench --compare torch`` runs when a model comes as an ONNX file or from the zoo, where PyTorch has
no program of its own. The graph is a ``torch.fx`` one, so that intermediate results are freed when they are used up, and
``torch.compile`` takes it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import fx

from ir import GlobalVar, IRModule, Op, tir
from ir.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ir.relax.function import Function

from ..error import TunerError
from .torch_operators import TORCH_FUNCTIONS


def to_torch(
    mod: IRModule, params: Mapping[str, np.ndarray] | None = None, func: str = "main"
) -> fx.GraphModule:
    """A PyTorch module that computes what a Relax function computes.

    Args:
        mod: the module, its operators not legalized yet, all shapes static.
        params: arrays for those parameters of the function that are weights, by name; the others are its inputs.
        func: the function.

    Raises:
        TunerError: operators have no PyTorch function (all are named), or a dimension is open.
    """
    function = mod[func]
    assert isinstance(function, Function), f"{func} is no Relax function"
    _require_functions(mod, func)
    return _Builder(mod, params or {}).build(function)


def _calls(mod: IRModule, func: str) -> list[Any]:
    """What the function calls, and the functions that it calls, each operator or function once."""
    seen: dict[Any, None] = {}
    todo = [func]
    while todo:
        function = mod[todo.pop()]
        assert isinstance(function, Function)
        for block in getattr(function.body, "blocks", ()):
            for binding in block.bindings:
                if not isinstance(binding.value, Call) or binding.value.op in seen:
                    continue
                seen[binding.value.op] = None
                if isinstance(binding.value.op, GlobalVar) and isinstance(mod[binding.value.op], Function):
                    todo.append(binding.value.op.name_hint)
    return list(seen)


def _require_functions(mod: IRModule, func: str) -> None:
    missing = [
        getattr(op, "name", str(op))
        for op in _calls(mod, func)
        if not isinstance(op, GlobalVar) and getattr(op, "name", None) not in TORCH_FUNCTIONS
    ]
    if missing:
        raise TunerError(
            f"PyTorch cannot run this model operator by operator: {', '.join(sorted(missing))} have no PyTorch function"
            " (tuner/compare/torch_operators.py holds the table); put the program that torch.export.save wrote beside the"
            " ONNX file, with the suffix .pt2, to compare with that"
        )


class _Builder:
    """Builds one graph; functions that are called are part of it."""

    def __init__(self, mod: IRModule, params: Mapping[str, np.ndarray]) -> None:
        self.mod, self.params = mod, params
        self.root, self.graph = torch.nn.Module(), fx.Graph()
        self.constants: dict[int, fx.Node] = {}

    def build(self, function: Function) -> fx.GraphModule:
        values: dict[Any, Any] = {}
        for param in function.params:
            name = param.name_hint
            if name in self.params:
                values[param.vid] = self._weight(id(param), self.params[name])
            else:
                values[param.vid] = self.graph.placeholder(_identifier(name))
        self.graph.output(self._body(function, values))
        module = fx.GraphModule(self.root, self.graph)
        module.eval()
        return module

    def _body(self, function: Function, values: dict[Any, Any]) -> Any:
        assert isinstance(function.body, SeqExpr)
        for block in function.body.blocks:
            for binding in block.bindings:
                values[binding.var.vid] = self._value(binding.value, values)
        return self._value(function.body.body, values)

    def _weight(self, key: int, array: Any) -> fx.Node:
        if key not in self.constants:
            name = f"weight{len(self.constants)}"
            # a buffer, since integer tables are weights as well; copied, for an array may be read-only
            self.root.register_buffer(name, torch.from_numpy(np.array(array)))
            self.constants[key] = self.graph.get_attr(name)
        return self.constants[key]

    def _value(self, expr: Any, values: dict[Any, Any]) -> Any:
        if isinstance(expr, Var):
            return values[expr.vid]
        if isinstance(expr, Constant):
            return self._weight(id(expr), expr.data)
        if isinstance(expr, ShapeExpr):
            return tuple(_number(dim) for dim in expr.values)
        if isinstance(expr, PrimValue):
            return _number(expr.value)
        if isinstance(expr, StringImm | DataTypeImm):
            return str(expr.value)
        if isinstance(expr, Tuple):
            return tuple(self._value(item, values) for item in expr.fields)
        if isinstance(expr, TupleGetItem):
            parts = self._value(expr.tuple_value, values)
            if isinstance(parts, tuple):
                return parts[expr.index]
            return self.graph.call_function(_item, (parts, expr.index))
        if isinstance(expr, Call):
            return self._call(expr, values)
        raise TunerError(f"PyTorch cannot run this model: it has no counterpart of {type(expr).__name__}")

    def _call(self, expr: Call, values: dict[Any, Any]) -> Any:
        args = [self._value(item, values) for item in expr.args]
        if isinstance(expr.op, GlobalVar):
            callee = self.mod[expr.op]
            assert isinstance(callee, Function)
            return self._body(
                callee, {param.vid: arg for param, arg in zip(callee.params, args, strict=True)}
            )
        assert isinstance(expr.op, Op)
        attrs = {name: _plain(value) for name, value in (expr.attrs.dict if expr.attrs else {}).items()}
        return self.graph.call_function(TORCH_FUNCTIONS[expr.op.name], tuple(args), attrs)


def _item(parts: Any, index: int) -> Any:
    return parts[index]


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _number(value: Any) -> int | float | bool:
    if isinstance(value, tir.IntImm | tir.FloatImm):
        return bool(value.value) if value.dtype == "bool" else value.value
    if isinstance(value, int):
        return value
    raise TunerError(f"PyTorch cannot run this model: {value} has no value; give the shapes of all inputs")


def _plain(value: Any) -> Any:
    """An attribute as fx takes it."""
    if isinstance(value, tir.IntImm | tir.FloatImm):
        return _number(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return value
