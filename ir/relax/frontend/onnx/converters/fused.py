"""The fused operators that ONNX Runtime's optimizer writes for transformers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ir.relax import op as _op
from ir.relax.expr import Expr, const

from ..context import NodeContext
from ..registry import converter

MICROSOFT = "com.microsoft"


@converter("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_normalization(ctx: NodeContext) -> Any:
    """Sum of word, position and segment embeddings, normalized; the mask's sums are only used by older attention."""
    ids, segments = ctx.expr(0), ctx.optional(1)
    length = ctx.static_shape(ids, [1])[0]
    total = ctx.emit(_op.take(ctx.expr(2), ids, 0))
    positions = ctx.expr(8) if ctx.has(8) else const(np.arange(length, dtype=np.int64)[None], "int64")
    total = ctx.emit(_op.add(total, _op.take(ctx.expr(3), positions, 0)))
    if segments is not None:
        total = ctx.emit(_op.add(total, _op.take(ctx.expr(4), segments, 0)))
    normed = _op.nn.layer_norm(total, ctx.expr(5), ctx.expr(6), [-1], float(ctx.attr("epsilon", 1e-12)))
    if ctx.n_outputs == 1:
        return normed
    batch = ctx.shape(ids)[0]
    if ctx.has(7):
        mask = ctx.emit(_op.astype(_op.sum(ctx.expr(7), [1], keepdims=False), "int32"))
    else:
        mask = ctx.emit(_op.full([batch], const(0, "int32"), "int32"))
    return [ctx.emit(normed), mask, total][: ctx.n_outputs]


@converter("Attention", domain=MICROSOFT)
def _attention(ctx: NodeContext) -> Any:
    """Self attention with packed projections: ``x [B, S, H]``, weight ``[H, 3N]``, bias ``[3N]``, a mask ``[B, S]``."""
    if ctx.n_outputs > 1 or ctx.has(4) or ctx.has(5):
        raise ctx.error("past keys and values and an extra bias are not supported; export without them")
    if ctx.attr("qkv_hidden_sizes") or ctx.attr("do_rotary", 0):
        raise ctx.error("qkv_hidden_sizes and do_rotary are not supported")
    x, heads = ctx.expr(0), int(ctx.attr("num_heads"))
    batch, length = ctx.shape(x)[:2]
    hidden = ctx.static_shape(ctx.expr(1), [1])[0] // 3
    size = hidden // heads
    packed = ctx.emit(_op.matmul(x, ctx.expr(1)))
    if ctx.has(2):
        packed = ctx.emit(_op.add(packed, ctx.expr(2)))
    parts = ctx.emit(_op.split(packed, 3, 2))

    def by_head(index: int) -> Expr:
        part = _op.reshape(parts[index], [batch, length, heads, size])
        return ctx.emit(_op.permute_dims(part, [0, 2, 1, 3]))

    query, key, value = (by_head(index) for index in range(3))
    scale = float(ctx.attr("scale", 0.0)) or 1.0 / math.sqrt(size)
    scores = ctx.emit(_op.matmul(query, _op.permute_dims(key, [0, 1, 3, 2])))
    scores = ctx.emit(_op.multiply(scores, ctx.scalar(scale, x)))
    context = ctx.emit(_op.matmul(_op.nn.softmax(_masked(ctx, scores), -1), value))
    return _op.reshape(_op.permute_dims(context, [0, 2, 1, 3]), [batch, length, hidden])


def _masked(ctx: NodeContext, scores: Expr) -> Expr:
    """Scores with hidden keys set to the filter value."""
    hidden_value = ctx.scalar(float(ctx.attr("mask_filter_value", -10000.0)), scores)
    if ctx.has(3):
        mask = ctx.expr(3)
        if ctx.rank(mask) not in (2, 3):
            raise ctx.error(
                "a mask of lengths is not supported; export with a mask of zeros and ones [batch, length]"
            )
        visible = _op.astype(mask, ctx.dtype(scores))
        spread = _op.expand_dims(visible, [1, 2] if ctx.rank(mask) == 2 else [1])
        scores = ctx.emit(
            _op.add(scores, _op.multiply(_op.subtract(ctx.scalar(1, scores), spread), hidden_value))
        )
    if ctx.attr("unidirectional", 0):
        rows, columns = ctx.static_shape(scores, [2, 3])
        later = np.triu(np.ones((rows, columns), bool), columns - rows + 1)
        scores = ctx.emit(_op.where(const(later, "bool"), hidden_value, scores))
    return scores
