"""Attention of many heads: all queries of a prompt, causal or not, and the one query of a decoding step.

The program has the stages to which ``relax.nn.attention`` legalizes, with the heads outside: scores, mask, softmax in three
stages, the mix of the values, and the division by the sums at the end. A causal mask hides scores, which are -infinity, and values,
which are 0, so that nothing of what it hides counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, in_float64, table


def _attention(causal: bool) -> Callable[..., list[Any]]:
    def build(lang: Language, heads: int, length: int, dim: int) -> list[Any]:
        return _stages(lang, heads, length, length, dim, causal)

    return build


def _decode_attention(lang: Language, heads: int, keys: int, dim: int) -> list[Any]:
    return _stages(lang, heads, 1, keys, dim, False)


def _stages(lang: Language, heads: int, queries: int, keys: int, dim: int, causal: bool) -> list[Any]:
    te = lang.te
    query = te.placeholder((heads, queries, dim), "float32", name="query")
    key = te.placeholder((heads, keys, dim), "float32", name="key")
    value = te.placeholder((heads, keys, dim), "float32", name="value")
    d, m, s, r = (
        te.reduce_axis((0, n), name) for n, name in zip((dim, keys, keys, keys), "dmsr", strict=True)
    )
    shape = (heads, queries, keys)
    score = te.compute(shape, lambda h, i, j: te.sum(query[h, i, d] * key[h, j, d], axis=d), name="score")

    def seen(h: Any, i: Any, j: Any) -> Any:
        scaled = score[h, i, j] * (1 / math.sqrt(dim))
        return te.if_then_else(j <= i, scaled, -math.inf) if causal else scaled

    def shown(h: Any, i: Any, j: Any, e: Any) -> Any:
        return te.if_then_else(j <= i, value[h, j, e], 0.0) if causal else value[h, j, e]

    masked = te.compute(shape, seen, name="masked")
    peak = te.compute(shape[:2], lambda h, i: te.max(masked[h, i, m], axis=m), name="peak")
    weight = te.compute(shape, lambda h, i, j: te.exp(masked[h, i, j] - peak[h, i]), name="weight")
    total = te.compute(shape[:2], lambda h, i: te.sum(weight[h, i, s], axis=s), name="total")
    mixed = te.compute(
        (heads, queries, dim),
        lambda h, i, e: te.sum(weight[h, i, r] * shown(h, i, r, e), axis=r),
        name="mixed",
    )
    out = te.compute((heads, queries, dim), lambda h, i, e: mixed[h, i, e] / total[h, i], name="attention")
    return [query, key, value, out]


def _by_numpy(causal: bool) -> Callable[..., Array]:
    def attention(arrays: Sequence[Array], heads: int, keys: int, dim: int) -> Array:
        query, key, value = arrays
        score = query @ key.swapaxes(1, 2) / np.asarray(math.sqrt(dim), query.dtype)
        if causal:
            score = np.where(np.tri(keys, dtype=bool), score, -np.inf)
        weight = np.exp(score - score.max(2, keepdims=True))
        return np.asarray((weight / weight.sum(2, keepdims=True)) @ value)

    return attention


def _torch_attention(causal: bool) -> Callable[..., Callable[..., Any]]:
    def form(torch: Any, heads: int, keys: int, dim: int) -> Callable[..., Any]:
        attention = torch.nn.functional.scaled_dot_product_attention
        # its fast kernels want a batch
        return lambda query, key, value: attention(
            query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), is_causal=causal
        ).squeeze(0)

    return form


def _onnx_attention(causal: bool) -> Callable[..., list[Any]]:
    def nodes(node: Callable[..., Any], heads: int, keys: int, dim: int) -> list[Any]:
        batched = [node("Unsqueeze", [f"x{number}", "zero"], [f"b{number}"]) for number in range(3)]
        return [
            node("Constant", [], ["zero"], value_ints=[0]),
            *batched,
            node("Attention", ["b0", "b1", "b2"], ["z"], is_causal=int(causal)),
            node("Squeeze", ["z", "zero"], ["y"]),
        ]

    return nodes


def _flops(queries: int, heads: int, keys: int, dim: int) -> int:
    return 4 * heads * queries * keys * dim + 5 * heads * queries * keys


WORKLOADS: dict[str, Workload] = table(
    Workload(
        "attention",
        "attention of all queries (heads, length, dim)",
        ((12, 512, 64),),
        _attention(False),
        in_float64(_by_numpy(False)),
        lambda heads, length, dim: _flops(length, heads, length, dim),
        peers=Peers(_torch_attention(False), _onnx_attention(False), _by_numpy(False)),
    ),
    Workload(
        "causal_attention",
        "attention to the keys up to one's own (heads, length, dim)",
        ((12, 512, 64),),
        _attention(True),
        in_float64(_by_numpy(True)),
        # half of the scores are masked, and need not be computed
        lambda heads, length, dim: _flops(1, heads, length * (length + 1) // 2, dim),
        peers=Peers(_torch_attention(True), _onnx_attention(True), _by_numpy(True)),
    ),
    Workload(
        "decode_attention",
        "attention of one query (heads, keys, dim)",
        ((12, 2048, 64),),
        _decode_attention,
        in_float64(_by_numpy(False)),
        lambda heads, keys, dim: _flops(1, heads, keys, dim),
        peers=Peers(_torch_attention(False), _onnx_attention(False), _by_numpy(False)),
    ),
)
