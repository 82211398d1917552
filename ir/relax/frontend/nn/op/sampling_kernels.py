# mypy: ignore-errors
# Bodies of script programs are parsed, not run, so what they say is not what a type checker reads.
"""The PrimFuncs behind sampling, in script; loaded when first used, since they need the parser.

Of a row's entries exactly one satisfies the innermost conditions, and its index or value is what the kernel writes.
"""

from __future__ import annotations

from typing import Any

from ir.script import tir as T
from ir.tir.function import PrimFunc
from ir.tir.op import all as all_of


def _kept(cumulative: Any, top_p: Any, top_k: Any, i: Any, j: Any) -> Any:
    """Whether the entry behind ``j`` of row ``i`` is still within top_p and top_k."""
    return all_of(cumulative[i, j] < top_p[i, 0], j + 1 < top_k[i, 0])


def get_sample_index(prob_dtype: str, sample_dtype: str, indices_dtype: str, dtype: str) -> PrimFunc:
    """For each sample the first entry whose cumulative probability exceeds it."""

    @T.prim_func(private=True)
    def _get_sample_index(A: T.handle, B: T.handle, C: T.handle, D: T.handle):
        batch, vocab_size = T.int64(), T.int64()
        prob = T.match_buffer(A, (batch, vocab_size), prob_dtype)
        out_batch = T.int64()
        usample = T.match_buffer(B, (out_batch, 1), sample_dtype)
        sample_indices = T.match_buffer(C, (out_batch, 1), indices_dtype)
        output_index = T.match_buffer(D, (out_batch, 1), dtype)

        for ax0, ax1 in T.grid(out_batch, vocab_size):
            with T.block("T_get_sample_index"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.writes(output_index[v_ax0, 0])
                if (
                    usample[v_ax0, T.int64(0)] < prob[sample_indices[v_ax0, T.int64(0)], v_ax1]
                    or v_ax1 + 1 == vocab_size
                ):
                    if v_ax1 == 0:
                        output_index[v_ax0, 0] = 0
                    elif usample[v_ax0, T.int64(0)] >= prob[sample_indices[v_ax0, T.int64(0)], v_ax1 - 1]:
                        output_index[v_ax0, 0] = v_ax1

    return _get_sample_index


def get_renorm_prob(prob_dtype: str, k_dtype: str) -> PrimFunc:
    """For each row the cumulative probability of what top_p and top_k keep."""

    @T.prim_func(private=True)
    def _get_renorm_prob(A: T.handle, B: T.handle, C: T.handle, D: T.handle):
        batch, vocab_size = T.int64(), T.int64()
        cumsum_sorted = T.match_buffer(A, (batch, vocab_size), prob_dtype)
        top_p = T.match_buffer(B, (batch, 1), prob_dtype)
        top_k = T.match_buffer(C, (batch, 1), k_dtype)
        renorm_prob = T.match_buffer(D, (batch, 1), prob_dtype)

        for ax0, ax1 in T.grid(batch, vocab_size):
            with T.block("T_get_renorm_prob"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                if _kept(cumsum_sorted, top_p, top_k, v_ax0, 0) == 0:
                    renorm_prob[v_ax0, 0] = cumsum_sorted[v_ax0, 0]
                elif _kept(cumsum_sorted, top_p, top_k, v_ax0, v_ax1) == 1:
                    if v_ax1 + 1 == vocab_size:
                        renorm_prob[v_ax0, 0] = cumsum_sorted[v_ax0, v_ax1]
                    elif _kept(cumsum_sorted, top_p, top_k, v_ax0, v_ax1 + 1) == 0:
                        renorm_prob[v_ax0, 0] = cumsum_sorted[v_ax0, v_ax1 + 1]

    return _get_renorm_prob


def get_index_from_sorted(
    prob_dtype: str, index_dtype: str, sample_dtype: str, indices_dtype: str
) -> PrimFunc:
    """For each sample the original index of the first sorted entry whose share of the kept probability exceeds it."""

    @T.prim_func(private=True)
    def _get_index_from_sorted(A: T.handle, B: T.handle, C: T.handle, D: T.handle, E: T.handle, F: T.handle):
        batch, vocab_size = T.int64(), T.int64()
        cumsum_sorted = T.match_buffer(A, (batch, vocab_size), prob_dtype)
        indices = T.match_buffer(B, (batch, vocab_size), index_dtype)
        renorm_prob = T.match_buffer(C, (batch, 1), prob_dtype)
        out_batch = T.int64()
        usample = T.match_buffer(D, (out_batch, 1), sample_dtype)
        sample_indices = T.match_buffer(E, (out_batch, 1), indices_dtype)
        output_index = T.match_buffer(F, (out_batch, 1), index_dtype)

        for ax0, ax1 in T.grid(out_batch, vocab_size):
            with T.block("T_get_index_from_sorted"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                T.writes(output_index[v_ax0, 0])
                if (
                    usample[v_ax0, T.int64(0)]
                    < cumsum_sorted[sample_indices[v_ax0, T.int64(0)], v_ax1]
                    / renorm_prob[sample_indices[v_ax0, T.int64(0)], 0]
                    or v_ax1 + 1 == vocab_size
                ):
                    if v_ax1 == 0:
                        output_index[v_ax0, 0] = indices[sample_indices[v_ax0, T.int64(0)], 0]
                    elif (
                        usample[v_ax0, T.int64(0)]
                        >= cumsum_sorted[sample_indices[v_ax0, T.int64(0)], v_ax1 - 1]
                        / renorm_prob[sample_indices[v_ax0, T.int64(0)], 0]
                    ):
                        output_index[v_ax0, 0] = indices[sample_indices[v_ax0, T.int64(0)], v_ax1]

    return _get_index_from_sorted


def get_renorm_cutoff(prob_dtype: str, k_dtype: str) -> PrimFunc:
    """For each row the least probability that top_p and top_k keep."""

    @T.prim_func(private=True)
    def _get_renorm_cutoff(A: T.handle, B: T.handle, C: T.handle, D: T.handle, E: T.handle):
        batch, vocab_size = T.int64(), T.int64()
        sorted_prob = T.match_buffer(A, (batch, vocab_size), prob_dtype)
        cumsum_sorted = T.match_buffer(B, (batch, vocab_size), prob_dtype)
        top_p = T.match_buffer(C, (batch, 1), prob_dtype)
        top_k = T.match_buffer(D, (batch, 1), k_dtype)
        cutoff = T.match_buffer(E, (batch, 1), prob_dtype)

        for ax0, ax1 in T.grid(batch, vocab_size):
            with T.block("T_get_renorm_prob"):
                v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
                if _kept(cumsum_sorted, top_p, top_k, v_ax0, 0) == 0:
                    cutoff[v_ax0, 0] = sorted_prob[v_ax0, 0]
                elif _kept(cumsum_sorted, top_p, top_k, v_ax0, v_ax1) == 1:
                    if v_ax1 + 1 == vocab_size:
                        cutoff[v_ax0, 0] = sorted_prob[v_ax0, v_ax1]
                    elif _kept(cumsum_sorted, top_p, top_k, v_ax0, v_ax1 + 1) == 0:
                        cutoff[v_ax0, 0] = sorted_prob[v_ax0, v_ax1 + 1]

    return _get_renorm_cutoff
