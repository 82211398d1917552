"""Chains of reductions over one axis: later ones depend on the result of the first."""

from __future__ import annotations

import math
from typing import Any

from ir import te, tir
from ir.tir import PrimFunc

_MAYBE_NOTHING = ("earlier", "window")
"""Masks of attention under which a query may look at no key."""


def log_sum_exp(rows: int = 3, keys: int = 10, dtype: str = "float32") -> PrimFunc:
    """Blocks ``peak``, ``total`` and ``result``: the logarithm of sums of exponentials."""
    x = te.placeholder((rows, keys), dtype, name="x")
    m, s = (te.reduce_axis((0, keys), name) for name in "ms")
    peak = te.compute((rows,), lambda i: te.max(x[i, m], axis=m), name="peak")
    total = te.compute((rows,), lambda i: te.sum(te.exp(x[i, s] - peak[i]), axis=s), name="total")
    result = te.compute((rows,), lambda i: peak[i] + te.log(total[i]), name="result")
    return te.create_prim_func([x, result])


def softmax(rows: int = 3, keys: int = 10) -> PrimFunc:
    """Blocks ``peak``, ``weight``, ``total`` and ``result``: the weights are read by the division, too."""
    x = te.placeholder((rows, keys), "float32", name="x")
    m, s = (te.reduce_axis((0, keys), name) for name in "ms")
    peak = te.compute((rows,), lambda i: te.max(x[i, m], axis=m), name="peak")
    weight = te.compute((rows, keys), lambda i, j: te.exp(x[i, j] - peak[i]), name="weight")
    total = te.compute((rows,), lambda i: te.sum(weight[i, s], axis=s), name="total")
    result = te.compute((rows, keys), lambda i, j: weight[i, j] / total[i], name="result")
    return te.create_prim_func([x, result])


def cross_entropy(rows: int = 3, keys: int = 10) -> PrimFunc:
    """Blocks ``peak``, ``total`` and ``result``: how unlikely a softmax makes the labels."""
    x = te.placeholder((rows, keys), "float32", name="x")
    label = te.placeholder((rows,), "int32", name="label")
    m, s = (te.reduce_axis((0, keys), name) for name in "ms")
    peak = te.compute((rows,), lambda i: te.max(x[i, m], axis=m), name="peak")
    total = te.compute((rows,), lambda i: te.sum(te.exp(x[i, s] - peak[i]), axis=s), name="total")
    result = te.compute(
        (rows,),
        lambda i: peak[i] + te.log(total[i]) - x[i, tir.max(tir.min(label[i], keys - 1), 0)],
        name="result",
    )
    return te.create_prim_func([x, label, result])


def attention(
    heads: int = 2,
    queries: int = 5,
    keys: int = 6,
    dim: int = 3,
    mask: str = "none",
    base: str = "exp",
    weights: str = "float32",
) -> PrimFunc:
    """Blocks ``score``, ``masked``, ``peak``, ``weight``, ``mixed``, ``total`` and ``attention``.

    Args:
        mask: "none", "causal" (query i looks at keys up to i), "added" (another input, which may be -infinity), or "earlier" (at keys
            before i, others are -infinity; a query that looks at none gets zeros), "hidden" (at keys up to i, the scores and values of
            others do not count, whatever they are), or "window" (at the last three keys up to i - 1, others do not count, and a query
            that looks at none gets zeros: so ``relax.nn.attention`` is legalized).
        base: of the exponentials, "exp" or "exp2".
        weights: what those are rounded to, in the block ``rounded``, before they are multiplied with values.
    """
    query = te.placeholder((heads, queries, dim), "float32", name="query")
    key = te.placeholder((heads, keys, dim), "float32", name="key")
    value = te.placeholder((heads, keys, dim), "float32", name="value")
    bias = te.placeholder((queries, keys), "float32", name="bias")
    d, m, s, r = (
        te.reduce_axis((0, n), name) for n, name in zip((dim, keys, keys, keys), "dmsr", strict=True)
    )
    shape = (heads, queries, keys)
    score = te.compute(shape, lambda h, i, j: te.sum(query[h, i, d] * key[h, j, d], axis=d), name="score")

    def seen(h: Any, i: Any, j: Any) -> Any:
        scaled = score[h, i, j] * (1 / math.sqrt(dim))
        if mask == "causal":
            return te.if_then_else(j <= i, scaled, te.min_value("float32"))
        if mask == "earlier":
            return te.if_then_else(j < i, scaled, tir.const(-math.inf, "float32"))
        if mask in ("hidden", "window"):
            return te.if_then_else(counts(i, j), scaled, tir.const(-math.inf, "float32"))
        return scaled + bias[i, j] if mask == "added" else scaled

    def counts(i: Any, j: Any) -> Any:
        return j <= i if mask == "hidden" else tir.all(j < i, j > i - 4)

    def shown(h: Any, i: Any, j: Any, e: Any) -> Any:
        if mask not in ("hidden", "window"):
            return value[h, j, e]
        return te.if_then_else(counts(i, j), value[h, j, e], tir.const(0.0, "float32"))

    def finite(value: Any) -> Any:
        nothing = value.equal(tir.const(-math.inf, "float32"))
        return tir.Select(nothing, tir.const(0.0, "float32"), value) if mask in _MAYBE_NOTHING else value

    def divided(value: Any, by: Any) -> Any:
        zero = tir.const(0.0, "float32")
        return tir.Select(by.equal(zero), zero, value / by) if mask in _MAYBE_NOTHING else value / by

    masked = te.compute(shape, seen, name="masked")
    peak = te.compute(shape[:2], lambda h, i: te.max(masked[h, i, m], axis=m), name="peak")
    power = getattr(tir, base)
    weight = te.compute(shape, lambda h, i, j: power(masked[h, i, j] - finite(peak[h, i])), name="weight")
    rounded = weight
    if weights != "float32":
        rounded = te.compute(shape, lambda *at: weight[at].astype(weights), name="rounded")
    mixed = te.compute(
        (heads, queries, dim),
        lambda h, i, e: te.sum(rounded[h, i, r].astype("float32") * shown(h, i, r, e), axis=r),
        name="mixed",
    )
    total = te.compute(shape[:2], lambda h, i: te.sum(weight[h, i, s], axis=s), name="total")
    out = te.compute(
        (heads, queries, dim), lambda h, i, e: divided(mixed[h, i, e], total[h, i]), name="attention"
    )
    inputs = [query, key, value, bias] if mask == "added" else [query, key, value]
    return te.create_prim_func([*inputs, out])
