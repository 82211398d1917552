"""Softmax and log-softmax in stages that schedules know: maximum, exponentials, their sum, the quotient."""

from __future__ import annotations

from typing import Any

from ...te.operation import compute
from ...te.reduction import max as te_max
from ...te.reduction import sum as te_sum
from ...te.tensor import Tensor
from ...tir import op as T
from ...tir.expr import IterVar, PrimExpr
from ...tir.operators import const
from ..accumulate import accumulator
from ..math import _fast_exp
from ..shape import normalize_axis
from .conv import reduce_over


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``."""
    return softmax_common(x, axis, use_fast_exp=False)


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """:func:`softmax` with a polynomial for exp, in float32."""
    return softmax_common(x, axis, use_fast_exp=True)


def _with_axis(indices: tuple[Any, ...], axis: int, inner: IterVar) -> list[Any]:
    """Indices of the data from those of the reduced tensor, with the reduction axis put in."""
    return [*indices[:axis], inner.var, *indices[axis:]]


def _without(indices: tuple[Any, ...], axis: int) -> list[Any]:
    return [index for position, index in enumerate(indices) if position != axis]


def softmax_common(x: Tensor, axis: int, use_fast_exp: bool) -> Tensor:
    """Softmax in four stages: T_softmax_maxelem, T_softmax_exp, T_softmax_expsum, T_softmax_norm (by the reciprocal of the sum).

    Between them narrow floats are carried in float32.
    """
    along = normalize_axis(axis, x.ndim)
    reduced = _without(x.shape, along)
    k1, k2 = reduce_over(x.shape[along], "k"), reduce_over(x.shape[along], "k")
    exp = _fast_exp if use_fast_exp else T.exp
    total = accumulator(x.dtype)
    maxelem = compute(
        reduced, lambda *i: te_max(x(*_with_axis(i, along, k1)), axis=k1), name="T_softmax_maxelem"
    )

    def shifted_exp(*indices: Any) -> PrimExpr:
        return exp(x(*indices).astype(total) - maxelem(*_without(indices, along)).astype(total))

    exps = compute(x.shape, shifted_exp, name="T_fast_softmax_exp" if use_fast_exp else "T_softmax_exp")
    expsum = compute(
        reduced, lambda *i: te_sum(exps(*_with_axis(i, along, k2)), axis=k2), name="T_softmax_expsum"
    )
    return compute(
        x.shape,
        # one division for each sum, which is never below 1, and products
        lambda *i: (exps(*i) * (const(1, total) / expsum(*_without(i, along)))).astype(x.dtype),
        name="T_softmax_norm",
        tag="fast_softmax_output" if use_fast_exp else "softmax_output",
        attrs={"axis": along},
    )


def softmax_matmul(x: Tensor, values: Tensor) -> Tensor:
    """``softmax(x) @ values``, where the division by the sums comes last, so that rows of ``x`` can be taken piece by piece.

    Args:
        x: [..., m, k], float32 or float64; the softmax is along ``k``.
        values: [..., k, n], with the extents of ``x`` in front.

    Returns:
        [..., m, n]. A row of ``x`` that has a NaN, an infinity, or nothing but -infinity is NaN where ``softmax(x)`` is.
    """
    length = x.shape[-1]
    k1, k2, k3 = (reduce_over(length, "k") for _ in range(3))
    peak = compute(x.shape[:-1], lambda *i: te_max(x(*i, k1.var), axis=k1), name="T_softmax_maxelem")
    weights = compute(x.shape, lambda *i: T.exp(x(*i) - peak(*i[:-1])), name="T_softmax_exp")
    total = compute(x.shape[:-1], lambda *i: te_sum(weights(*i, k2.var), axis=k2), name="T_softmax_expsum")
    mixed = compute(
        [*x.shape[:-1], values.shape[-1]],
        lambda *i: te_sum(weights(*i[:-1], k3.var) * values(*i[:-2], k3.var, i[-1]), axis=k3),
        name="T_softmax_mix",
    )
    return compute(mixed.shape, lambda *i: mixed(*i) / total(*i[:-1]), name="T_softmax_matmul")


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``."""
    along = normalize_axis(axis, x.ndim)
    reduced = _without(x.shape, along)
    k1, k2 = reduce_over(x.shape[along], "k"), reduce_over(x.shape[along], "k")
    maxelem = compute(
        reduced, lambda *i: te_max(x(*_with_axis(i, along, k1)), axis=k1), name="T_softmax_maxelem"
    )
    total = accumulator(x.dtype)

    def shifted(indices: Any, outer: Any) -> PrimExpr:
        return x(*indices).astype(total) - maxelem(*outer).astype(total)

    expsum = compute(reduced, lambda *i: te_sum(T.exp(shifted(_with_axis(i, along, k2), i)), axis=k2))
    return compute(
        x.shape,
        lambda *i: (shifted(i, _without(i, along)) - T.log(expsum(*_without(i, along)))).astype(x.dtype),
        tag="log_softmax_output",
        attrs={"axis": along},
    )
