"""What composite operators are made of, and the rewriting that the passes DecomposeOps... share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...module import IRModule
from .. import op
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, SeqExpr, Tuple, Var, const
from ..function import Function
from ..struct_info import TensorStructInfo
from .binding_rewriter import BindingRewriter, rewrite_functions


def _expanded(value: Expr, axis: int, ndim: int) -> Expr:
    """A vector as a tensor that broadcasts along ``axis`` of ``ndim`` dimensions."""
    axes = [i for i in range(ndim) if i != axis % ndim]
    return op.expand_dims(value, axes) if axes else value


def _batch_norm(call: Call, mean: Expr, variance: Expr) -> Expr:
    data, gamma, beta = call.args[:3]
    info = data.struct_info
    assert isinstance(info, TensorStructInfo)
    axis, ndim = int(call.attrs.axis), info.ndim
    shift = _expanded(mean, axis, ndim)
    spread = op.sqrt(op.add(_expanded(variance, axis, ndim), const(float(call.attrs.epsilon), info.dtype)))
    result = op.divide(op.subtract(data, shift), spread)
    if call.attrs.get("scale", True):
        result = op.multiply(result, _expanded(gamma, axis, ndim))
    if call.attrs.get("center", True):
        result = op.add(result, _expanded(beta, axis, ndim))
    return result


def _batch_norm_inference(call: Call) -> Expr:
    """The result with the running statistics, which stay as they are."""
    mean, variance = call.args[3], call.args[4]
    return Tuple([_batch_norm(call, mean, variance), mean, variance])


def batch_norm_training(call: Call) -> Expr:
    """The result with the batch's statistics, and running statistics moved towards them."""
    data, running_mean, running_variance = call.args[0], call.args[3], call.args[4]
    info = data.struct_info
    assert isinstance(info, TensorStructInfo)
    axes = [i for i in range(info.ndim) if i != int(call.attrs.axis) % info.ndim]
    mean, variance = op.mean(data, axes), op.variance(data, axes)
    momentum = float(call.attrs.get("momentum", 0.1))
    old, new = const(1 - momentum, info.dtype), const(momentum, info.dtype)
    return Tuple(
        [
            _batch_norm(call, mean, variance),
            op.add(op.multiply(old, running_mean), op.multiply(new, mean)),
            op.add(op.multiply(old, running_variance), op.multiply(new, variance)),
        ]
    )


def _layer_norm(call: Call) -> Expr:
    data, gamma, beta = call.args
    info = data.struct_info
    assert isinstance(info, TensorStructInfo)
    axes = [int(axis) for axis in call.attrs.axes]
    mean, variance = op.mean(data, axes, keepdims=True), op.variance(data, axes, keepdims=True)
    spread = op.sqrt(op.add(variance, const(float(call.attrs.epsilon), info.dtype)))
    result = op.divide(op.subtract(data, mean), spread)
    if call.attrs.get("scale", True):
        result = op.multiply(result, gamma)
    if call.attrs.get("center", True):
        result = op.add(result, beta)
    return result


def _dropout_inference(call: Call) -> Expr:
    data = call.args[0]
    return Tuple([data, op.ones_like(data)])


Decomposition = Callable[[Call], Expr]

INFERENCE: dict[str, Decomposition] = {
    "relax.nn.batch_norm": _batch_norm_inference,
    "relax.nn.dropout": _dropout_inference,
}
TRAINING: dict[str, Decomposition] = {
    "relax.nn.batch_norm": batch_norm_training,
    "relax.nn.layer_norm": _layer_norm,
}


class _Decomposer(BindingRewriter):
    def __init__(self, mod: IRModule, table: dict[str, Decomposition]) -> None:
        super().__init__(mod)
        self._table = table
        self._builder = BlockBuilder(mod)

    def visit_call(self, var: Var, call: Call) -> None:
        name = getattr(call.op, "name", "")
        make = self._table.get(name)
        if make is None:
            self.bind(var, call)
            return
        self._builder._begin_block(self.in_dataflow)
        try:
            value = self._builder.normalize(make(call))
        finally:
            block = self._builder._end_block()
        for binding in block.bindings:
            self.emit_binding(binding)
        assert not isinstance(value, SeqExpr)
        self.bind(var, value)


def decompose(mod: IRModule, func_name: str | None, table: dict[str, Decomposition]) -> IRModule:
    """Apply decompositions to one function of the module, or to all."""

    def rewrite(var: Any, func: Function) -> Function:
        if func_name is not None and var.name_hint != func_name:
            return func
        return _Decomposer(mod, table).rewrite(func)

    if func_name is not None:
        mod.get_global_var(func_name)  # an unknown name is an error
    return rewrite_functions(mod, rewrite)
