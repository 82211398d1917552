"""Losses: negative log-likelihood and cross entropy."""

from __future__ import annotations

from typing import Any

from ...error import IRValueError
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import PrimExpr
from ...tir.operators import cast, const, convert
from ..broadcast import divide, multiply
from ..math import negative
from ..reduction import sum as sum_over
from ..shape import ax_compute


def nll_loss(
    predictions: Tensor, targets: Tensor, weights: Tensor, reduction: str = "mean", ignore_index: int = -100
) -> Tensor:
    """``-predictions[target] * weights[target]`` for log-probabilities (N, C, ...) or (C,) and class targets (N, ...).

    Targets equal to ``ignore_index`` count nothing. ``reduction``: "mean" divides by the sum of the weights used.
    """
    if reduction not in ("mean", "sum", "none"):
        raise IRValueError(f"nll_loss: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    zero = const(0, predictions.dtype)

    def used(i: tuple[Any, ...]) -> tuple[PrimExpr, PrimExpr]:
        target = targets(*i)
        return target, target != ignore_index

    def loss(i: tuple[Any, ...]) -> PrimExpr:
        target, counts = used(i)
        picked = predictions(target) if not i else predictions(i[0], target, *i[1:])
        return T.if_then_else(counts, (zero - picked) * weights(target), zero)

    def weight(i: tuple[Any, ...]) -> PrimExpr:
        target, counts = used(i)
        return T.if_then_else(counts, weights(target), zero)

    losses = ax_compute(targets.shape, loss, "nll_loss", "injective")
    if reduction == "none":
        return losses
    if reduction == "sum":
        return sum_over(losses) if targets.ndim else losses
    total = ax_compute(targets.shape, weight, "nll_loss", "injective")
    if not targets.ndim:
        return divide(losses, total)
    return divide(sum_over(losses), sum_over(total))


def cross_entropy_with_logits(outputs: Tensor, labels: Tensor) -> Tensor:
    """``-sum(outputs * labels) / batch``; for vectors without the batch."""
    total = negative(sum_over(multiply(outputs, labels)))
    if outputs.ndim < 2:
        return total
    return divide(total, cast(outputs.dtype, convert(outputs.shape[0])))
