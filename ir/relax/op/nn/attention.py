"""Scaled dot-product attention."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from .... import te
from ....error import IRValueError
from ....tir.expr import FloatImm, IntImm, Select
from ....tir.op import all as tir_all
from ....tir.op import if_then_else, max_identity
from ....tir.operators import const, floordiv
from ....topi.accumulate import accumulator
from ...expr import Call, Expr
from ...struct_info import StructInfo, TensorStructInfo
from ...struct_info_lattice import prove_dim_equal
from ..declaration import MixedPrecisionPolicy, OpPatternKind, call, operator
from ..inference import as_int, common_dtype, common_vdevice, fail, require_float, require_ndim, tensor_arg
from ..requirement import require_equal


def _infer_attention(node: Call, builder: Any) -> StructInfo:
    if len(node.args) not in (3, 4):
        raise fail(node, f"expected 3 or 4 arguments, got {len(node.args)}")
    q, k, v = (tensor_arg(node, index) for index in range(3))
    for name, info in (("query", q), ("key", k), ("value", v)):
        require_ndim(node, info, 4, name)
        require_float(node, info, name)
    dtype, vdevice = common_dtype(node, [q, k, v]), common_vdevice(node, [q, k, v])
    if q.shape_values is None or k.shape_values is None or v.shape_values is None:
        return TensorStructInfo(None, dtype, vdevice, 4)
    batch, seq, heads, dim = q.shape_values
    for name, got, wanted in (
        ("batch size of query and key", batch, k.shape_values[0]),
        ("batch size of query and value", batch, v.shape_values[0]),
        ("head dimension of query and key", dim, k.shape_values[3]),
        ("sequence length of key and value", k.shape_values[1], v.shape_values[1]),
        ("number of heads of key and value", k.shape_values[2], v.shape_values[2]),
    ):
        require_equal(node, got, wanted, f"the {name} differ: {{}} and {{}}")
    many, few = as_int(heads), as_int(k.shape_values[2])
    if many is not None and few is not None and (few == 0 or many % few):
        raise fail(node, f"{many} query heads are no multiple of {few} key heads")
    if len(node.args) == 4:
        bias = tensor_arg(node, 3)
        require_ndim(node, bias, 4, "bias")
        if bias.shape_values is not None:
            for axis, extent in enumerate((batch, heads, seq, k.shape_values[1])):
                if as_int(bias.shape_values[axis]) != 1:
                    text = f"bias has extent {{}} at axis {axis}, expected 1 or {{}}"
                    require_equal(node, bias.shape_values[axis], extent, text)
    return TensorStructInfo([batch, seq, heads, v.shape_values[3]], dtype, vdevice)


def _allowed(rows: Any, columns: Any, causal: str | None) -> Any:
    """numpy mask of the pairs that a causal mask lets through."""
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    return j <= i if causal == "TopLeft" else j <= i + columns - rows


def np_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: np.ndarray | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> np.ndarray:
    """Attention by the definition, in float32, with weights of the operands' dtype; a row that sees nothing is zero, and what it does not
    see may be anything.
    """
    dtype = q.dtype
    q, k, v = (x.astype("float32").transpose(0, 2, 1, 3) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    score = q @ k.transpose(0, 1, 3, 2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        score = score + bias
    keep = np.ones(score.shape[-2:], bool)
    if causal_mask is not None:
        keep = _allowed(score.shape[-2], score.shape[-1], causal_mask)
        if window_size is not None:
            i, j = np.arange(score.shape[-2])[:, None], np.arange(score.shape[-1])[None, :]
            last = i if causal_mask == "TopLeft" else i + score.shape[-1] - score.shape[-2]
            keep = keep & (j > last - window_size)
        score = np.where(keep, score, -np.inf)
    peak = score.max(-1, keepdims=True)
    e = np.exp(score - np.where(np.isneginf(peak), 0, peak))
    total = e.sum(-1, keepdims=True)
    weight = e.astype(dtype).astype("float32")
    if keep.all():
        mixed = weight @ v
    else:
        rows = [weight[..., i : i + 1, seen] @ v[..., seen, :] for i, seen in enumerate(keep)]
        mixed = np.concatenate(rows, -2)
    mixed = np.where(total == 0, 0, mixed / np.where(total == 0, 1, total))
    return mixed.transpose(0, 2, 1, 3).astype(dtype)


def _legalize_attention(bb: Any, node: Call) -> Expr:
    attrs = node.attrs
    causal, window = attrs.get("causal_mask"), attrs.get("window_size")
    scale = attrs.get("scale")
    if scale is None:
        dim = as_int(tensor_arg(node, 0).shape_values[3])  # type: ignore[index]
        if dim is None:
            raise fail(node, "a symbolic head dimension needs an explicit scale")
        scale = 1 / math.sqrt(dim)

    def te_attention(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        batch, seq_q, heads, dim = q.shape
        seq_k, dim_v = k.shape[1], v.shape[3]
        group = as_int_pair(heads, k.shape[2])
        dtype = q.dtype
        acc = accumulator(dtype)

        def head_of(h: Any) -> Any:
            return h if group == 1 else floordiv(h, group)

        d = te.reduce_axis((0, dim), name="d")
        score = te.compute(
            (batch, heads, seq_q, seq_k),
            lambda b, h, i, j: te.sum(q[b, i, h, d].astype(acc) * k[b, j, head_of(h), d].astype(acc), axis=d),
            name="attention_score",
        )

        def sees(i: Any, j: Any) -> Any:
            last = i if causal == "TopLeft" else i + seq_k - seq_q
            return j <= last if window is None else tir_all(j <= last, j > last - window)

        def masked(b: Any, h: Any, i: Any, j: Any) -> Any:
            value = score[b, h, i, j] * const(scale, acc)
            if bias is not None:
                at = [
                    const(0, x.dtype) if is_one(n) else x
                    for n, x in zip(bias.shape, (b, h, i, j), strict=True)
                ]
                value = value + bias(*at).astype(acc)
            return value if causal is None else if_then_else(sees(i, j), value, max_identity(acc))

        biased = te.compute((batch, heads, seq_q, seq_k), masked, name="attention_masked")
        m = te.reduce_axis((0, seq_k), name="m")
        peak = te.compute(
            (batch, heads, seq_q), lambda b, h, i: te.max(biased[b, h, i, m], axis=m), name="attention_max"
        )

        def shifted_exp(b: Any, h: Any, i: Any, j: Any) -> Any:
            top = peak[b, h, i]
            return te.exp(biased[b, h, i, j] - Select(top.equal(max_identity(acc)), const(0, acc), top))

        weight = te.compute((batch, heads, seq_q, seq_k), shifted_exp, name="attention_exp")
        s = te.reduce_axis((0, seq_k), name="s")
        total = te.compute(
            (batch, heads, seq_q), lambda b, h, i: te.sum(weight[b, h, i, s], axis=s), name="attention_sum"
        )
        r = te.reduce_axis((0, seq_k), name="r")
        rounded = weight
        if (
            dtype != acc
        ):  # the product takes operands of one dtype, as tensor cores do; the sum is one of unrounded weights
            rounded = te.compute(
                (batch, heads, seq_q, seq_k), lambda *at: weight[at].astype(dtype), name="attention_weight"
            )

        def mix(b: Any, i: Any, h: Any, e: Any) -> Any:
            # Hidden values are zeros, whatever they hold: tiles of keys that a row does not see need not be looked at.
            value = v[b, r, head_of(h), e].astype(acc)
            value = value if causal is None else if_then_else(sees(i, r), value, const(0, acc))
            return te.sum(rounded[b, h, i, r].astype(acc) * value, axis=r)

        mixed = te.compute((batch, seq_q, heads, dim_v), mix, name="attention_mix")

        def out(b: Any, i: Any, h: Any, e: Any) -> Any:
            # A row that sees nothing is zero.
            whole, zero = total[b, h, i], const(0, acc)
            return Select(whole.equal(zero), zero, mixed[b, i, h, e] / whole).astype(dtype)

        return te.compute((batch, seq_q, heads, dim_v), out, name="attention_out")

    return bb.call_te(
        te_attention, *node.args, primfunc_name_hint="attention_bias" if len(node.args) == 4 else "attention"
    )


def is_one(extent: Any) -> bool:
    """Whether an extent is the constant 1."""
    return isinstance(extent, IntImm) and extent.value == 1


def as_int_pair(many: Any, few: Any) -> int:
    """How many query heads share one key head."""
    if prove_dim_equal(many, few):
        return 1
    if isinstance(many, IntImm) and isinstance(few, IntImm):
        return many.value // few.value
    raise IRValueError(
        f"relax.nn.attention: the numbers of heads {many} and {few} must be constants when they differ"
    )


def _attention_attrs(scale: Any, causal_mask: str | None, window_size: Any) -> dict[str, Any]:
    if isinstance(scale, FloatImm | IntImm):
        scale = scale.value
    if causal_mask not in (None, "TopLeft", "BottomRight"):
        raise IRValueError(
            f"relax.nn.attention: causal_mask must be None, 'TopLeft' or 'BottomRight', got {causal_mask!r}"
        )
    if isinstance(window_size, IntImm):
        window_size = window_size.value
    if window_size is not None:
        if isinstance(window_size, bool) or not isinstance(window_size, Integral) or window_size < 0:
            raise IRValueError(
                f"relax.nn.attention: window_size must be None or an integer of at least 0, got {window_size!r}"
            )
        if causal_mask is None:
            raise IRValueError(
                f"relax.nn.attention: window_size {window_size} counts the latest columns under a causal mask;"
                " give causal_mask='TopLeft' or 'BottomRight', too"
            )
    return {
        "scale": None if scale is None else float(scale),
        "causal_mask": causal_mask,
        "window_size": None if window_size is None else int(window_size),
    }


_ATTENTION: dict[str, Any] = {
    "infer": _infer_attention,
    "legalize": _legalize_attention,
    "mixed_precision": MixedPrecisionPolicy.ALWAYS,
    "pattern": OpPatternKind.kOpaque,
}


def attention(
    query: Expr,
    key: Expr,
    value: Expr,
    bias: Expr | None = None,
    scale: Any = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Expr:
    """softmax(query @ key^T * scale + bias) @ value for every batch and head.

    Args:
        query: (batch, seq_len, heads, head_dim).
        key: (batch, seq_len_kv, heads_kv, head_dim); heads is a multiple of heads_kv.
        value: (batch, seq_len_kv, heads_kv, head_dim_v).
        bias: (batch, heads, seq_len, seq_len_kv), extents of 1 are broadcast.
        scale: default 1 / sqrt(head_dim).
        causal_mask: None, "TopLeft" (row i sees columns up to i) or "BottomRight" (the last row sees everything).
        window_size: how many of the latest columns a row sees, under a causal mask; refused without one.

    Keys and values that a causal mask hides from a row do not count in it, be they infinite or NaN. (A score that a bias of -infinity
    hides is multiplied as any other, and 0 times NaN is NaN.)

    Returns:
        (batch, seq_len, heads, head_dim_v).
    """
    attrs = _attention_attrs(scale, causal_mask, window_size)
    if bias is None:
        return call("relax.nn.attention", query, key, value, attrs=attrs)
    return call("relax.nn.attention_bias", query, key, value, bias, attrs=attrs)


operator("relax.nn.attention", reference=np_attention, **_ATTENTION)(attention)
operator("relax.nn.attention_bias", reference=np_attention, **_ATTENTION)(attention)


def _infer_attention_var_len(node: Call, builder: Any) -> StructInfo:
    q, k, v = (tensor_arg(node, index) for index in range(3))
    require_ndim(node, q, 4, "queries")
    require_float(node, q, "queries")
    dtype, vdevice = common_dtype(node, [q, k, v]), common_vdevice(node, [q, k, v])
    if q.shape_values is None or v.shape_values is None:
        return TensorStructInfo(None, dtype, vdevice, 4)
    return TensorStructInfo([*q.shape_values[:3], v.shape_values[3]], dtype, vdevice)


@operator(
    "relax.nn.attention_var_len",
    infer=_infer_attention_var_len,
    mixed_precision=MixedPrecisionPolicy.ALWAYS,
    pattern=OpPatternKind.kOpaque,
)
def attention_var_len(
    queries: Expr,
    keys: Expr,
    values: Expr,
    seqstart_q: Expr,
    max_seqlen_q: Expr,
    seqstart_k: Expr | None = None,
    max_seqlen_k: Expr | None = None,
    scale: Any = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Expr:
    """Attention of several sequences of different lengths, packed along the sequence axis of a batch of one.

    Args:
        queries, keys, values: (1, total length, heads, head_dim).
        seqstart_q, seqstart_k: cumulative lengths, starting with 0; keys' default to queries'.
        max_seqlen_q, max_seqlen_k: the largest lengths.
        scale, causal_mask, window_size: as of :func:`attention`.
    """
    if seqstart_k is None:
        seqstart_k = seqstart_q
    if max_seqlen_k is None:
        max_seqlen_k = max_seqlen_q
    return call(
        "relax.nn.attention_var_len",
        queries,
        keys,
        values,
        seqstart_q,
        seqstart_k,
        max_seqlen_q,
        max_seqlen_k,
        attrs=_attention_attrs(scale, causal_mask, window_size),
    )


__all__ = ["attention", "attention_var_len"]
