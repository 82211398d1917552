"""Sampling from probability distributions: multinomial, top-p and top-k."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.te.operation import compute
from ir.tir.expr import Select
from ir.tir.operators import const

from ..error import NNValueError
from ..tensor import Tensor
from .arithmetic import cumsum, divide, sum
from .calls import call_prim_func, tensor_expr_op, tensor_ir_op
from .sampling_kernels import get_index_from_sorted, get_renorm_cutoff, get_renorm_prob, get_sample_index


def _default_indices(prob_batch: Any, out_batch: Any) -> Tensor:
    """One sample of each distribution."""
    if not isinstance(out_batch, int) or prob_batch != out_batch:
        raise NNValueError(
            f"sample_indices may be left out only when there is one sample for each distribution, and their number is "
            f"constant; there are {prob_batch} distributions and {out_batch} samples"
        )
    return Tensor.from_const(np.arange(out_batch, dtype="int64").reshape(out_batch, 1))


def multinomial_from_uniform(
    prob: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    dtype: str = "int64",
    name: str = "multinomial_from_uniform",
) -> Tensor:
    """Indices drawn from multinomial distributions, by uniform samples.

    Args:
        prob: ``[batch, vocab_size]``, each row a distribution that sums to 1.
        uniform_sample: ``[n, 1]``, values in [0, 1).
        sample_indices: ``[n, 1]``, the row of ``prob`` that each sample is drawn from; by default sample i is drawn from row i. With three
            distributions and 2, 3 and 4 samples from them it is ``[0, 0, 1, 1, 1, 2, 2, 2, 2]``.
        dtype: the dtype of the result.

    Returns:
        ``[n, 1]``.

    Examples:
        ::

            prob = [[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]]
            usample = [[0.4], [0.9]]
            sample_indices = [[0], [1]]
            multinomial_from_uniform(prob, usample)                  # [[1], [2]]
            multinomial_from_uniform(prob, usample, sample_indices)  # [[1], [2]]
    """
    out_batch = uniform_sample.shape[0]
    if sample_indices is None:
        sample_indices = _default_indices(prob.shape[0], out_batch)
    kernel = get_sample_index(prob.dtype, uniform_sample.dtype, sample_indices.dtype, dtype)
    return call_prim_func(
        kernel,
        "get_sample_index",
        [cumsum(prob, axis=1, exclusive=False), uniform_sample, sample_indices],
        Tensor.placeholder([out_batch, 1], dtype),
        name,
    )


def sample_top_p_top_k_from_sorted_prob(
    sorted_prob: Tensor,
    sorted_index: Tensor,
    top_p: Tensor,
    top_k: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
) -> Tensor:
    """Indices drawn from the most probable entries: those within the cumulative probability top_p, at most top_k.

    Args:
        sorted_prob: ``[batch, vocab_size]``, probabilities in descending order.
        sorted_index: ``[batch, vocab_size]``, where they stood before they were sorted.
        top_p: ``[batch, 1]``, the cumulative probability to keep.
        top_k: ``[batch, 1]``, how many to keep.
        uniform_sample: ``[n, 1]``, values in [0, 1).
        sample_indices: ``[n, 1]``, the row that each sample is drawn from; by default sample i is drawn from row i.

    Returns:
        ``[n, 1]``, the selected indices.

    Examples:
        ::

            prob = [[0.1 , 0.4, 0.5], [0.3, 0.3, 0.4]]
            sorted_prob = [[0.5, 0.4, 0.1], [0.4, 0.3, 0.3]]
            sorted_index = [[2, 1, 0], [2, 0, 1]]
            top_p, top_k = [[0.6],[0.9]], [[3],[2]]
            uniform_sample, sample_indices = [[0.5], [0.6]], [[0], [1]]
            sample_top_p_top_k_from_sorted_prob(
                sorted_prob, sorted_index, top_p, top_k, uniform_sample, sample_indices)  # [2, 0]
    """
    batch, out_batch = sorted_prob.shape[0], uniform_sample.shape[0]
    if sample_indices is None:
        sample_indices = _default_indices(batch, out_batch)
    cumulative = cumsum(sorted_prob, axis=1)
    kept = tensor_ir_op(
        get_renorm_prob(sorted_prob.dtype, top_k.dtype),
        "get_renorm_prob",
        args=[cumulative, top_p, top_k],
        out=Tensor.placeholder([batch, 1], sorted_prob.dtype),
    )
    kernel = get_index_from_sorted(
        sorted_prob.dtype, sorted_index.dtype, uniform_sample.dtype, sample_indices.dtype
    )
    return tensor_ir_op(
        kernel,
        "get_index_from_sorted",
        args=[cumulative, sorted_index, kept, uniform_sample, sample_indices],
        out=Tensor.placeholder([out_batch, 1], sorted_index.dtype),
    )


def renormalize_top_p_top_k_prob(prob: Tensor, sorted_prob: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Probabilities of which all but the most probable entries are set to zero, scaled to sum to 1.

    Args:
        prob: ``[batch, vocab_size]``.
        sorted_prob: the same in descending order.
        top_p: ``[batch, 1]``, the cumulative probability to keep.
        top_k: ``[batch, 1]``, how many to keep.

    Returns:
        ``[batch, vocab_size]``.
    """
    cumulative = cumsum(sorted_prob, axis=1)
    cutoff = tensor_ir_op(
        get_renorm_cutoff(prob.dtype, top_k.dtype),
        "get_renorm_cutoff",
        args=[sorted_prob, cumulative, top_p, top_k],
        out=Tensor.placeholder([prob.shape[0], 1], prob.dtype),
    )

    def keep(values: Any, least: Any) -> Any:
        return compute(
            values.shape,
            lambda i, j: Select(values[i, j] >= least[i, 0], values[i, j], const(0.0, values.dtype)),
            name="filter_with_top_p_top_k",
        )

    filtered = tensor_expr_op(keep, "filter_with_top_p_top_k", args=[prob, cutoff])
    return divide(filtered, sum(filtered, axis=1, keepdims=True))
