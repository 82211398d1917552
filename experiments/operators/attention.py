"""Attention of many heads: all queries of a prompt, causal or not, and the one query of a decoding step; in float32, and in float16.

The program has the stages to which ``relax.nn.attention`` legalizes, with the heads outside: scores, mask, softmax in three
stages, the mix of the values, and the division by the sums at the end. A causal mask hides scores, which are -infinity, and values,
which are 0, so that nothing of what it hides counts. Scores, weights and sums of float16 are float32, and the result is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workload import Array, Language, Peers, Workload, in_float64, table


def _attention(causal: bool, dtype: str = "float32") -> Callable[..., list[Any]]:
    def build(lang: Language, heads: int, length: int, dim: int) -> list[Any]:
        return _stages(lang, (heads, length, length, dim), causal, dtype)

    return build


def _decode_attention(dtype: str = "float32") -> Callable[..., list[Any]]:
    def build(lang: Language, heads: int, keys: int, dim: int) -> list[Any]:
        return _stages(lang, (heads, 1, keys, dim), False, dtype)

    return build


def _stages(lang: Language, extents: tuple[int, int, int, int], causal: bool, dtype: str) -> list[Any]:
    te = lang.te
    heads, queries, keys, dim = extents
    query = te.placeholder((heads, queries, dim), dtype, name="query")
    key = te.placeholder((heads, keys, dim), dtype, name="key")
    value = te.placeholder((heads, keys, dim), dtype, name="value")
    d, m, s, r = (
        te.reduce_axis((0, n), name) for n, name in zip((dim, keys, keys, keys), "dmsr", strict=True)
    )
    shape = (heads, queries, keys)

    def wide(item: Any) -> Any:
        return item if dtype == "float32" else item.astype("float32")

    score = te.compute(
        shape, lambda h, i, j: te.sum(wide(query[h, i, d]) * wide(key[h, j, d]), axis=d), name="score"
    )

    def seen(h: Any, i: Any, j: Any) -> Any:
        scaled = score[h, i, j] * (1 / math.sqrt(dim))
        return te.if_then_else(j <= i, scaled, -math.inf) if causal else scaled

    def shown(h: Any, i: Any, j: Any, e: Any) -> Any:
        item = wide(value[h, j, e])
        return te.if_then_else(j <= i, item, 0.0) if causal else item

    masked = te.compute(shape, seen, name="masked")
    peak = te.compute(shape[:2], lambda h, i: te.max(masked[h, i, m], axis=m), name="peak")
    weight = te.compute(shape, lambda h, i, j: te.exp(masked[h, i, j] - peak[h, i]), name="weight")
    total = te.compute(shape[:2], lambda h, i: te.sum(weight[h, i, s], axis=s), name="total")
    narrow = weight
    if dtype != "float32":
        narrow = te.compute(shape, lambda h, i, j: weight[h, i, j].astype(dtype), name="narrow_weight")
    mixed = te.compute(
        (heads, queries, dim),
        lambda h, i, e: te.sum(wide(narrow[h, i, r]) * shown(h, i, r, e), axis=r),
        name="mixed",
    )

    def share(h: Any, i: Any, e: Any) -> Any:
        whole = mixed[h, i, e] / total[h, i]
        return whole if dtype == "float32" else whole.astype(dtype)

    out = te.compute((heads, queries, dim), share, name="attention")
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


def _causal_flops(heads: int, length: int, dim: int) -> int:
    """Half of the scores are masked, and need not be computed."""
    return _flops(1, heads, length * (length + 1) // 2, dim)


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
        _causal_flops,
        peers=Peers(_torch_attention(True), _onnx_attention(True), _by_numpy(True)),
    ),
    Workload(
        "decode_attention",
        "attention of one query (heads, keys, dim)",
        ((12, 2048, 64),),
        _decode_attention(),
        in_float64(_by_numpy(False)),
        lambda heads, keys, dim: _flops(1, heads, keys, dim),
        peers=Peers(_torch_attention(False), _onnx_attention(False), _by_numpy(False)),
    ),
)

FLOAT16: dict[str, Workload] = table(
    Workload(
        "float16_attention",
        "float16 attention of all queries, summed in float32 (heads, length, dim)",
        ((64, 2048, 64),),
        _attention(False, "float16"),
        in_float64(_by_numpy(False)),
        lambda heads, length, dim: _flops(length, heads, length, dim),
        peers=Peers(_torch_attention(False)),
    ),
    Workload(
        "float16_causal_attention",
        "float16 attention to the keys up to one's own, summed in float32 (heads, length, dim)",
        ((64, 2048, 64),),
        _attention(True, "float16"),
        in_float64(_by_numpy(True)),
        _causal_flops,
        peers=Peers(_torch_attention(True)),
    ),
    Workload(
        "float16_decode_attention",
        "float16 attention of one query, summed in float32 (heads, keys, dim)",
        ((64, 8192, 128),),
        _decode_attention("float16"),
        in_float64(_by_numpy(False)),
        lambda heads, keys, dim: _flops(1, heads, keys, dim),
        peers=Peers(_torch_attention(False)),
    ),
)
"""In the dtype that large models have it in; measured on GPUs beside :mod:`.tensor_core_products`."""
