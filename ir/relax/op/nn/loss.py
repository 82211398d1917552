"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import dtype as dt
from .... import te
from ....error import IRValueError
from ....tir.expr import Select
from ....tir.op import if_then_else
from ....tir.operators import const
from ...expr import Call, Expr, Var
from ...struct_info import StructInfo, TensorStructInfo
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, make, operator
from ..gradient import scalar, static_shape, tensor_info
from ..inference import (
    common_dtype,
    common_vdevice,
    fail,
    require_dtype,
    require_float,
    require_ndim,
    tensor_arg,
    tensor_args,
)
from ..legalization import topi_function
from ..requirement import require_equal

NEVER = MixedPrecisionPolicy.NEVER


def _infer_cross_entropy(node: Call, builder: Any) -> StructInfo:
    predictions, labels = tensor_args(node, 2)
    require_float(node, predictions, "predictions")
    dtype = common_dtype(node, [predictions, labels])
    if predictions.ndim != -1 and labels.ndim not in (-1, predictions.ndim):
        raise fail(node, f"predictions have {predictions.ndim} dimensions, labels {labels.ndim}")
    if predictions.shape_values is not None and labels.shape_values is not None:
        for axis, (a, b) in enumerate(zip(predictions.shape_values, labels.shape_values, strict=True)):
            text = f"predictions and labels have extents {{}} and {{}} along axis {axis}"
            require_equal(node, a, b, text)
    return TensorStructInfo([], dtype, common_vdevice(node, [predictions, labels]))


def _legalize_cross_entropy(bb: Any, node: Call) -> Expr:
    def te_cross_entropy_with_logits(x: Any, y: Any) -> Any:
        products = topi_function("multiply")(x, y)
        total = topi_function("negative")(topi_function("sum")(products))
        if len(x.shape) > 1:
            total = topi_function("divide")(total, x.shape[0].astype(x.dtype))
        return total

    return bb.call_te(
        te_cross_entropy_with_logits, *node.args, primfunc_name_hint="cross_entropy_with_logits"
    )


def _cross_entropy_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    x, y = node.args
    scale = make.negative(grad)
    if tensor_info(x).ndim > 1:
        scale = make.divide(scale, scalar(float(static_shape(x)[0]), x))
    scale = builder.emit(scale)
    return [make.multiply(scale, y), make.multiply(scale, x)]


@operator(
    "relax.nn.cross_entropy_with_logits",
    infer=_infer_cross_entropy,
    legalize=_legalize_cross_entropy,
    gradient=_cross_entropy_gradient,
    reference=lambda x, y: np.asarray(-(x * y).sum() / (x.shape[0] if x.ndim > 1 else 1), x.dtype),
    mixed_precision=NEVER,
    pattern=OpPatternKind.kCommReduce,
)
def cross_entropy_with_logits(predictions: Expr, labels: Expr) -> Expr:
    """-sum(predictions * labels), averaged over the first axis when there are more than one."""
    return call("relax.nn.cross_entropy_with_logits", predictions, labels)


def _infer_nll_loss(node: Call, builder: Any) -> StructInfo:
    if len(node.args) not in (2, 3):
        raise fail(node, f"expected 2 or 3 arguments, got {len(node.args)}")
    predictions, targets = tensor_arg(node, 0), tensor_arg(node, 1)
    weights = tensor_arg(node, 2) if len(node.args) == 3 else None
    require_float(node, predictions, "predictions")
    require_dtype(node, targets, dt.is_integral, "integer targets")
    used = [predictions] + ([weights] if weights is not None else [])
    dtype = common_dtype(node, used)
    vdevice = common_vdevice(node, [predictions, targets])
    if weights is not None:
        require_ndim(node, weights, 1, "weights")
    if predictions.ndim != -1 and targets.ndim not in (
        -1,
        predictions.ndim - 1 if predictions.ndim > 1 else 0,
    ):
        raise fail(
            node,
            f"targets must have one dimension less than predictions ({predictions.ndim}), got {targets.ndim}",
        )
    if predictions.shape_values is not None:
        extents = list(predictions.shape_values)
        classes = extents.pop(1 if predictions.ndim > 1 else 0)
        if weights is not None and weights.shape_values is not None:
            require_equal(node, weights.shape_values[0], classes, "{} weights for {} classes")
        for axis, (found, wanted) in enumerate(zip(targets.shape_values or (), extents, strict=False)):
            text = f"targets have extent {{}} along axis {axis}, the predictions' is {{}}"
            require_equal(node, found, wanted, text)
    if node.attrs["reduction"] == "none":
        return TensorStructInfo(targets.shape, dtype, vdevice, targets.ndim)
    return TensorStructInfo([], dtype, vdevice)


def _np_nll_loss(
    x: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> np.ndarray:
    if x.ndim == 1:
        x, targets, single = x[None], targets[None], True
    else:
        single = False
    w = np.ones(x.shape[1], x.dtype) if weights is None else weights
    safe = np.where(targets == ignore_index, 0, targets)
    factor = np.where(targets == ignore_index, 0, w[safe]).astype(x.dtype)
    counts = targets != ignore_index
    loss = np.where(counts, -np.take_along_axis(x, np.expand_dims(safe, 1), 1).squeeze(1) * factor, 0)
    loss = loss.astype(x.dtype)
    if reduction == "none":
        return loss[0] if single else loss
    return np.asarray(loss.sum() if reduction == "sum" else loss.sum() / factor.sum(), x.dtype)


def _legalize_nll_loss(bb: Any, node: Call) -> Expr:
    reduction, ignore_index = node.attrs["reduction"], node.attrs["ignore_index"]

    def te_nll_loss(predictions: Any, targets: Any, weights: Any = None) -> Any:
        single = len(predictions.shape) == 1
        dtype = predictions.dtype

        def factor(t: Any) -> Any:
            one = const(1, dtype) if weights is None else weights(t)
            return (
                Select(t != ignore_index, one, const(0, dtype))
                if weights is None
                else if_then_else(t != ignore_index, one, const(0, dtype))
            )

        def loss(*index: Any) -> Any:
            t = targets(*index)
            at = (t,) if single else (index[0], t, *index[1:])
            return if_then_else(t != ignore_index, -predictions(*at) * factor(t), const(0, dtype))

        every = te.compute(targets.shape, loss, name="nll_loss")
        if reduction == "none":
            return every
        total = topi_function("sum")(every)
        if reduction == "sum":
            return total
        share = te.compute(targets.shape, lambda *i: factor(targets(*i)), name="nll_loss_weight")
        return topi_function("divide")(total, topi_function("sum")(share))

    name = "nll_loss" if len(node.args) == 3 else "nll_loss_without_weight"
    return bb.call_te(te_nll_loss, *node.args, primfunc_name_hint=name)


def _nll_loss_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    attrs = node.attrs
    weights = node.args[2] if len(node.args) == 3 else None
    back = make.grad.nll_loss_backward(
        grad, node.args[0], node.args[1], weights, attrs["reduction"], attrs["ignore_index"]
    )
    return [back, None, None][: len(node.args)]


@operator(
    "relax.nn.nll_loss",
    infer=_infer_nll_loss,
    legalize=_legalize_nll_loss,
    gradient=_nll_loss_gradient,
    reference=_np_nll_loss,
    undefined=(IndexError,),
    mixed_precision=NEVER,
    pattern=OpPatternKind.kOpaque,
)
def nll_loss(
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Expr:
    """Negative log likelihood: ``-weights[t] * predictions[n, t, ...]`` for the target classes ``t``.

    Args:
        predictions: (N, C, d1, ...) or (C,), log-probabilities.
        targets: (N, d1, ...) or (), class numbers.
        weights: (C,), default ones.
        reduction: "mean" (weighted), "sum" or "none".
        ignore_index: targets of this value do not count.
    """
    if reduction not in ("mean", "sum", "none"):
        raise IRValueError(f"relax.nn.nll_loss: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    attrs = {"reduction": reduction, "ignore_index": int(ignore_index)}
    args = (predictions, targets) if weights is None else (predictions, targets, weights)
    return call("relax.nn.nll_loss", *args, attrs=attrs)


__all__ = ["cross_entropy_with_logits", "nll_loss"]
